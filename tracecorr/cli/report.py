"""The verb `report`: the answers about a capture, each with how it is known."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from tracecorr.cli.console import (
    FAILED,
    UNKNOWN,
    ForcePageOption,
    HtmlOption,
    NameArgument,
    begin_with,
    open_capture,
    refuse_idle,
    refuse_page,
    say,
    show,
    show_markdown,
    write_page,
)
from tracecorr.threads import begin_polars

if TYPE_CHECKING:
    from tracecorr.analyze.verdicts import Verdict

from tracecorr.model.kinds import VERDICTS


def _complete_verdicts(incomplete: str) -> list[str]:
    """Return the verdicts that fit."""
    return begin_with(incomplete, VERDICTS)


def report_verb(
    name: NameArgument = None,
    full: Annotated[bool, typer.Option("--full", help="Print all answers, verdicts and sections.")] = False,
    section: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME", help="Print this section in full; repeatable. An unknown NAME lists all sections."
        ),
    ] = None,
    top: Annotated[int | None, typer.Option(min=1, metavar="N", help="Number of rows of each table.")] = None,
    explain: Annotated[
        str | None, typer.Option(metavar="WORD", help="Explain a word that reports use, or the claim of a verdict.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    html: HtmlOption = None,
    force: ForcePageOption = False,
    check: Annotated[bool, typer.Option("--check", help="Exit with 4 if a verdict is FAIL.")] = False,
    strict: Annotated[
        bool, typer.Option("--strict", help="With --check: exit with 5 if a verdict is UNKNOWN.")
    ] = False,
    verdict: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Judge only this verdict, by its name in the report; repeatable.",
            autocompletion=_complete_verdicts,
        ),
    ] = None,
    threshold: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="Change a limit of a verdict, such as kfd_create_ns=2000000."),
    ] = None,
) -> None:
    """Report unfinished calls, failures, queues, latencies and verdicts of a capture, on one screen.

    --full prints all of it. A terminal shows tables, a pipe gets Markdown.
    """
    refuse_idle("--strict", "--check", given=strict, there=check)
    refuse_page(html, as_json=as_json, force=force)
    if explain is not None:
        begin_polars()
        from tracecorr.analyze.report.brief import explain_word

        show(explain_word(explain))
        return
    capture = open_capture(name)
    from tracecorr.analyze.report import summarize_capture
    from tracecorr.analyze.report.brief import ROWS, render_brief, render_sections
    from tracecorr.analyze.report.markdown import render_markdown
    from tracecorr.analyze.verdicts import Thresholds

    limits = Thresholds.from_words(threshold or [])
    report = summarize_capture(
        capture.name, capture.table, capture.info, limits, verdict or [], capture.tables_of_nodes()
    )
    if html is not None:
        from tracecorr.analyze.report.html import draw_report_figures, list_named_events, render_report_html

        events = list_named_events(report, capture.table)
        write_page(html, render_report_html(report, draw_report_figures(capture.table), events))
    elif as_json:
        typer.echo(json.dumps(report.as_dict(), indent=1, allow_nan=False))
    elif section:
        show_markdown(render_sections(report, section, top))
    elif full:
        show_markdown(render_markdown(report, top))
    else:
        show_markdown(render_brief(report, top or ROWS))
    if check:
        status = _check_verdicts(report.verdicts, strict)
        if status:
            raise typer.Exit(status)


def _check_verdicts(verdicts: tuple[Verdict, ...], strict: bool) -> int:
    """Return the exit status that verdicts give, and name those behind it on stderr."""
    bad = [v for v in verdicts if v.outcome == "FAIL"]
    open_ones = [v for v in verdicts if v.outcome == "UNKNOWN"] if strict else []
    for found in (*bad, *open_ones):
        say(f"{found.outcome} {found.name}: {found.finding.reason}")
    return FAILED if bad else UNKNOWN if open_ones else 0
