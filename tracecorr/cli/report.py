"""The verb `report`: the answers about a capture, each with how it is known."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from tracecorr.cli.console import NameArgument, open_capture


def report_verb(
    name: NameArgument = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Report queues, kernels, latencies, losses and clocks of a capture as Markdown."""
    capture = open_capture(name)

    from tracecorr.analyze.markdown import render_markdown
    from tracecorr.analyze.report import summarize_capture

    report = summarize_capture(capture.name, capture.table)
    typer.echo(json.dumps(report.as_dict(), indent=1) if as_json else render_markdown(report))
