"""The verb `export`: give a capture to other tools."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated

import typer

from tracecorr.cli.console import NameArgument, begin_with, open_capture, say, show
from tracecorr.model.errors import InputError, quote_path
from tracecorr.model.kinds import LAYERS

if TYPE_CHECKING:
    from tracecorr.export.selection import Selection
    from tracecorr.export.trace import Trace
    from tracecorr.store import Capture


def _complete_layers(incomplete: str) -> list[str]:
    """Return the layers that fit behind the last comma."""
    before, comma, last = incomplete.rpartition(",")
    return [f"{before}{comma}{layer}" for layer in begin_with(last, LAYERS)]


class _Target(StrEnum):
    """Name the formats that a capture can be exported to."""

    PERFETTO = "perfetto"
    CHROME = "chrome"
    SPEEDSCOPE = "speedscope"
    TRACE_DAT = "trace.dat"
    CSV = "csv"
    PARQUET = "parquet"
    ARROW = "arrow"


_SUFFIX = {
    _Target.PERFETTO: ".pftrace",
    _Target.CHROME: ".json",
    _Target.SPEEDSCOPE: ".speedscope.json",
    _Target.TRACE_DAT: ".dat",
}


def export_verb(
    name: NameArgument = None,
    target: Annotated[
        _Target, typer.Option("--to", metavar="FORMAT", help=f"{', '.join(_Target)}.")
    ] = _Target.PERFETTO,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="PATH", help="File to write; for tables a folder.")
    ] = None,
    start: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="Only events that begin at or after this time since the first event, such as 1.5s or 20ms.",
        ),
    ] = None,
    end: Annotated[
        str | None, typer.Option(metavar="TIME", help="Only events that begin before this time since the first event.")
    ] = None,
    only: Annotated[
        list[str] | None,
        typer.Option(
            metavar="LAYER,...", help=f"Only these layers: {', '.join(LAYERS)}.", autocompletion=_complete_layers
        ),
    ] = None,
    process: Annotated[
        list[int] | None,
        typer.Option(metavar="N", help="Only the process of row N of the table `processes`; repeatable."),
    ] = None,
    table: Annotated[
        list[str] | None, typer.Option(metavar="NAME,...", help="Only these tables (csv, parquet, arrow).")
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Replace the file, or the folder of tables, if it exists.")
    ] = False,
) -> None:
    """Export a capture: a trace for Perfetto, Chrome's viewer, speedscope or KernelShark, or its tables as files."""
    is_trace = target in _SUFFIX
    if table and is_trace:
        raise InputError(f"--table has no effect on {target}", "leave it out, or export --to csv, parquet or arrow")
    capture = open_capture(name)
    from tracecorr.export.selection import Selection, parse_time, split_words
    from tracecorr.export.table_files import refuse_taken

    selection = Selection(
        parse_time(start) if start else None,
        parse_time(end) if end else None,
        split_words(only or []),
        tuple(process or ()),
    )
    names = split_words(table or [])
    path = output or Path(f"{capture.name}{_SUFFIX[target]}" if is_trace else f"{capture.name}-{target}")
    refuse_taken(path, force=force)
    if target is _Target.TRACE_DAT:
        _export_dat(capture, path, selection)
    elif target is _Target.SPEEDSCOPE:
        _export_speedscope(capture, path, selection)
    elif is_trace:
        _export_trace(capture, target, path, selection)
    else:
        _export_tables(capture, target, path, selection, names)
    show(path)


def _export_trace(capture: Capture, target: _Target, path: Path, selection: Selection) -> None:
    from tracecorr.export.table_files import open_fresh

    with open_fresh(path) as stream:
        trace = _write_trace(capture, target, stream, selection)
    links = f"{trace.flows.height} links as arrows"
    jobs = int((trace.slices["event"] < 0).sum())
    drawn = f"{trace.slices.height - jobs} events" + (f", {jobs} jobs of the kernel's GPU scheduler" if jobs else "")
    say(f"{drawn}, {links}, {trace.counts.height} counter values on {len(trace.tracks)} tracks")
    if target is _Target.CHROME:
        say("Chrome's format draws arrows only between two spans; --to perfetto has all links")
    if trace.later_ns:
        say(f"warning: its times are {trace.later_ns} ns later than those of the tables: viewers drop events before 0")
    if trace.slices.is_empty():
        say("warning: no event is in this selection")
    say("next step: open it at https://ui.perfetto.dev (it stays in your browser)")


def _export_speedscope(capture: Capture, path: Path, selection: Selection) -> None:
    from tracecorr.export.speedscope import count_brief, write_speedscope
    from tracecorr.export.table_files import open_fresh

    with open_fresh(path) as stream:
        calls = write_speedscope(capture.table_by_node, stream, selection, capture.name)
    say(f"{calls} calls of threads")
    if brief := count_brief(capture.table_by_node, selection):
        say(f"{brief} calls are left out: their duration is less than the resolution of their clock")
    say("next step: open it at https://www.speedscope.app (it stays in your browser)")


def _export_dat(capture: Capture, path: Path, selection: Selection) -> None:
    from tracecorr.export.table_files import open_fresh
    from tracecorr.export.trace_dat import write_kernel_trace

    if not selection.everything:
        raise InputError(
            "a trace.dat always contains the whole kernel trace", "leave out --start, --end, --only and --process"
        )
    with open_fresh(path) as stream:
        names = write_kernel_trace(capture, stream)
    say(f"kernel trace of raw/ftrace: {', '.join(names)}")
    say(f"next step: trace-cmd report -i {quote_path(path)}, or open it with KernelShark")


def _write_trace(capture: Capture, target: _Target, stream: IO[bytes], selection: Selection) -> Trace:
    if target is _Target.CHROME:
        from tracecorr.export.chrome import write_chrome

        return write_chrome(capture.table_by_node, stream, selection)
    from tracecorr.export.perfetto import write_perfetto

    return write_perfetto(capture.table_by_node, stream, selection)


def _export_tables(capture: Capture, target: _Target, path: Path, selection: Selection, names: tuple[str, ...]) -> None:
    from tracecorr.export.table_files import open_fresh_folder, write_tables

    with open_fresh_folder(path) as folder:
        written = write_tables(capture.table_by_node, folder, target, selection, names)
    say(f"{len(written)} tables")
