"""The verb `demo`: build and show the bundled sample, without a GPU."""

from __future__ import annotations

from typing import Annotated

import typer

from tracecorr.bundled import cache_folder, copy_sample, find_sample
from tracecorr.cli.console import ended_in_order, say, say_live, say_warnings, show_markdown
from tracecorr.cli.serve import HostOption, NoBrowserOption, PortOption, run_server
from tracecorr.model.errors import quote_path
from tracecorr.threads import begin_polars


def demo_verb(
    no_serve: Annotated[bool, typer.Option("--no-serve", help="Print the report and stop.")] = False,
    host: HostOption = "127.0.0.1",
    port: PortOption = None,
    no_browser: NoBrowserOption = False,
) -> None:
    """Build the tables of the bundled sample, print its report, and show it in the browser."""
    begin_polars()
    path = copy_sample(find_sample(), cache_folder())

    from tracecorr.analyze.report import summarize_capture
    from tracecorr.analyze.report.brief import render_brief
    from tracecorr.pipeline import correlate
    from tracecorr.store import Capture

    with ended_in_order():
        say_warnings(correlate(path, progress=say, live=say_live))
    capture = Capture.open(path)
    show_markdown(render_brief(summarize_capture(capture.name, capture.table, capture.info)))
    say(f"the sample is {path}; all of its report: tracecorr report {quote_path(path)}")
    if not no_serve:
        run_server([capture], host, port, no_browser)
