"""The verb `compare`: what differs between two captures, and which differences are significant."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from tracecorr.cli.console import (
    ForcePageOption,
    HtmlOption,
    complete_captures,
    open_capture,
    refuse_page,
    show,
    write_page,
)
from tracecorr.model.errors import InputError


def compare_verb(
    first: Annotated[
        Path,
        typer.Argument(metavar="A", help="Capture folder that is the reference.", autocompletion=complete_captures),
    ],
    second: Annotated[
        Path, typer.Argument(metavar="B", help="Capture folder to compare.", autocompletion=complete_captures)
    ],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    html: HtmlOption = None,
    force: ForcePageOption = False,
    confidence: Annotated[
        float, typer.Option(metavar="SHARE", help="Confidence that all intervals of a table together hold.")
    ] = 0.95,
) -> None:
    """Compare two captures: queues, kernels, GPU times, calls, ioctls, rates, latencies with intervals, verdicts."""
    if not 0.5 <= confidence < 1:
        raise InputError(f"--confidence {confidence} is out of range", "use a value from 0.5 to below 1")
    refuse_page(html, as_json=as_json, force=force)
    captures = [open_capture(name) for name in (first, second)]
    from tracecorr.analyze.compare import Side, compare_captures
    from tracecorr.analyze.report.markdown import render_comparison

    sides = [Side(c.name, c.table, c.info, c.tables_of_nodes()) for c in captures]
    comparison = compare_captures(sides[0], sides[1], confidence)
    if html is not None:
        from tracecorr.analyze.report.html import draw_comparison_figures, render_comparison_html

        figures = draw_comparison_figures(sides[0].tables, sides[1].tables)
        write_page(html, render_comparison_html(comparison, figures))
        return
    if as_json:
        typer.echo(json.dumps(comparison.as_dict(), indent=1, allow_nan=False))
    else:
        show(render_comparison(comparison), keep="\n")
