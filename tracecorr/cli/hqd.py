"""The verb `hqd`: which queues the hardware runs, from saved dumps or on this machine."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tracecorr.capture.debugfs import KFD_DEBUGFS
from tracecorr.cli.console import refuse_idle, say, show
from tracecorr.model.errors import InputError
from tracecorr.model.printable import printable
from tracecorr.threads import begin_polars

if TYPE_CHECKING:
    import polars as pl
    from rich.console import Group

# Reading may take at most this share of the time between two reads.
_READ_SHARE = 20
_PAUSE_SECONDS = 2.0
_HIDDEN = ("snapshot", "file", "offset", "logical", "queue", "read_start_ns", "read_end_ns", "active", "gpu")
_REGISTERS = (
    "doorbell = offset in dwords; rptr (of XCC 0), wptr = register values in different units: their difference is not "
    "the backlog; written, finished = packet indexes in the memory of the process: their difference is the backlog "
    "(empty if that memory cannot be read)"
)
_SLOTS = (
    "slots = pipe.slot (SDMA: engine.RLC); active = its ACTIVE bit is set (SDMA: enabled, with a doorbell); "
    "stale = it still has the address of a queue that was destroyed"
)


def hqd_verb(
    files: Annotated[
        list[Path] | None,
        typer.Argument(metavar="FILE", help="Saved hqds, mqds or rls dumps, plain or .gz; default: this machine."),
    ] = None,
    slots: Annotated[bool, typer.Option("--slots", help="Also print every slot that is or was in use.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON: queues, counts and all slots.")] = False,
    watch: Annotated[bool, typer.Option("--watch", help="Read this machine repeatedly until Ctrl-C.")] = False,
    interval: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS", min=0.1, help=f"Time between two reads of --watch; default {_PAUSE_SECONDS:g}."
        ),
    ] = None,
    debugfs: Annotated[
        Path | None, typer.Option(metavar="DIR", help=f"Debugfs folder of the KFD; default {KFD_DEBUGFS}.")
    ] = None,
) -> None:
    """Show which queues the hardware runs: one line per queue, with all its XCCs.

    hqds: registers (what runs now). mqds: descriptors in memory (all queues, also unmapped ones).
    rls: runlists. Each read takes driver locks, so do not read often.
    """
    if files and watch:
        raise InputError("--watch reads this machine, not saved dumps", "leave out the files, or --watch")
    if watch and as_json:
        raise InputError("--watch cannot print JSON", "call hqd --json repeatedly instead")
    refuse_idle("--interval", "--watch", given=interval is not None, there=watch)
    if files and debugfs is not None:
        raise InputError("--debugfs reads this machine, and saved dumps were given", "leave one of them out")
    if slots and (watch or as_json):
        raise InputError(f"--slots has no effect with {'--watch' if watch else '--json'}", "leave it out")
    if watch:
        begin_polars()
        _watch(debugfs or KFD_DEBUGFS, interval or _PAUSE_SECONDS)
        return
    begin_polars()
    rows, sources = _read_files(files) if files else _read_machine(debugfs or KFD_DEBUGFS)
    for source in sources:
        if not source["bytes"]:
            say(f"{source['source']} is empty: mqds and rls are empty if no process has a queue, hqds never is")
    if as_json:
        typer.echo(_render_json(rows, sources))
        return
    show(_render_text(rows, sources, slots), keep="\n")


def _read_files(files: list[Path]) -> tuple[pl.DataFrame, list[dict[str, Any]]]:
    from tracecorr.store.raw import read_chunks

    dumps: list[tuple[str, bytes, int | None, int | None]] = []
    for path in files:
        dumps.append((str(path), b"".join(read_chunks(path)), None, None))
    rows, sources = _decode(dumps)
    foreign = next((s for s in sources if s["dump"] is None and s["bytes"]), None)
    if foreign:
        raise InputError(
            f"{foreign['source']} is not a dump of the KFD's queues", "give a copy of debugfs kfd/hqds, mqds or rls"
        )
    return rows, sources


def _read_machine(folder: Path) -> tuple[pl.DataFrame, list[dict[str, Any]]]:
    from tracecorr.capture.debugfs import read_kfd_dump
    from tracecorr.capture.plan.machine import is_virtual_function

    names = ["hqds", "mqds"]
    if is_virtual_function():
        say("a GPU is an SR-IOV function: its registers (hqds) are not read, each would be a request to the host")
        names.remove("hqds")
    reads = [(str(folder / name), read_kfd_dump(name, folder)) for name in names]
    rows, sources = _decode([(name, read.data, read.start_ns, read.end_ns) for name, read in reads])
    return _add_counts(rows), sources


def _add_counts(rows: pl.DataFrame) -> pl.DataFrame:
    """Return rows with the packets written and finished of queues whose process can be read: by pid, of MQDs."""
    import polars as pl

    from tracecorr.live.look import count_packets_of

    key = ["pid", "read_address"]
    told = rows.drop_nulls([*key, "write_address", "pq_base"]).unique(key, maintain_order=True)
    places: dict[int, list[tuple[int, int, int]]] = {}
    for pid, *place in told.select(*key, "write_address", "pq_base").iter_rows():
        places.setdefault(pid, []).append(tuple(place))
    found = [(pid, at, *counts) for (pid, at), counts in count_packets_of(places).items()]
    types = {name: rows.schema[name] for name in (*key, "written", "finished")}
    counts = pl.DataFrame(found, schema=types, orient="row")
    return rows.drop("written", "finished").join(counts, on=key, how="left", maintain_order="left")


def _decode(dumps: list[tuple[str, bytes, int | None, int | None]]) -> tuple[pl.DataFrame, list[dict[str, Any]]]:
    import polars as pl

    from tracecorr.model import schema
    from tracecorr.read.kfd.dumps import read_dumps

    frames = [schema.HQD.empty()]
    sources: list[dict[str, Any]] = []
    for file, (name, data, start, end) in enumerate(dumps):
        found = read_dumps(data, file)
        for place, dump in enumerate(found, 1):
            frames.append(
                dump.rows.with_columns(
                    pl.lit(len(sources), pl.UInt32).alias("snapshot"),
                    pl.lit(start, pl.Int64).alias("read_start_ns"),
                    pl.lit(end, pl.Int64).alias("read_end_ns"),
                )
            )
            skipped = dump.ledger.filter(pl.col("outcome").cast(pl.String) == "skipped")
            sources.append({
                "snapshot": len(sources), "source": name if len(found) == 1 else f"{name}, dump {place}",
                "dump": dump.kind, "bytes": dump.ledger["bytes"].sum(),
                "read_ns": None if start is None or end is None else end - start,
                "skipped": dict(skipped.select("reason", "records").iter_rows()),
            })  # fmt: skip
    return pl.concat(frames), sources


def _render_json(rows: pl.DataFrame, sources: list[dict[str, Any]]) -> str:
    from tracecorr.analyze.queues import count_slots, gpu_id_text, list_logical_queues
    from tracecorr.analyze.values import plain_rows

    found = {
        "dumps": sources,
        "queues": plain_rows(list_logical_queues(rows)),
        "counts": plain_rows(count_slots(rows)),
        "slots": plain_rows(rows.drop("queue").with_columns(gpu_id_text())),
    }
    return json.dumps(found, indent=1)


def _render_text(rows: pl.DataFrame, sources: list[dict[str, Any]], with_slots: bool) -> str:
    import polars as pl

    from tracecorr.analyze.queues import count_slots, gpu_id_text, list_logical_queues
    from tracecorr.analyze.report.markdown import render_table

    queues, counts = list_logical_queues(rows), count_slots(rows)
    lines: list[str] = []
    for source in sources:
        own = pl.col("snapshot") == source["snapshot"]
        shown = queues.filter(own).drop("snapshot", "dump")
        lines += [f"# {printable(source['source'])}: {_describe(source, shown.height)}", ""]
        lines += [f"skipped {n} x {reason}" for reason, n in source["skipped"].items()]
        if shown.height:
            lines += [render_table(shown, shown.height), ""]
        slots = counts.filter(own).drop("snapshot")
        if slots.height:
            lines += [render_table(slots, slots.height), ""]
        used = rows.filter(own & (pl.col("state").cast(pl.String) != "unused"))
        if with_slots and used.height:
            # Register values are read in hex.
            hexed = used.drop(_HIDDEN, strict=False).with_columns(
                gpu_id_text(), pl.col("doorbell", "quantum").cast(pl.UInt64)
            )
            lines += [render_table(hexed, used.height), ""]
    lines += [_REGISTERS] if queues.height else []
    lines += [_SLOTS] if counts.height else []
    return "\n".join(lines).rstrip()


def _describe(source: dict[str, Any], queues: int) -> str:
    verb = {"hqds": "running", "mqds": "existing", "rls": "scheduled", None: "known"}[source["dump"]]
    read = "" if source["read_ns"] is None else f", read in {source['read_ns'] / 1e6:.1f} ms"
    return f"{queues} {verb} queue{'' if queues == 1 else 's'}{read}"


def _watch(folder: Path, interval: float) -> None:
    from rich.console import Console
    from rich.live import Live

    pause = interval
    with Live(auto_refresh=False, vertical_overflow="visible", console=Console(soft_wrap=True)) as live:
        try:
            while True:
                started = time.monotonic()
                rows, sources = _read_machine(folder)
                least = _READ_SHARE * sum(s["read_ns"] for s in sources) / 1e9
                if least > pause:
                    say(f"a read takes {least / _READ_SHARE:.2f} s: reading every {least:.1f} s instead")
                    pause = least
                live.update(_draw(rows, sources), refresh=True)
                time.sleep(max(0.0, started + pause - time.monotonic()))
        except KeyboardInterrupt:
            return


def _draw(rows: pl.DataFrame, sources: list[dict[str, Any]]) -> Group:
    """Return the queues of each dump as a table for the terminal."""
    import polars as pl
    from rich.console import Group
    from rich.table import Table

    from tracecorr.analyze.queues import list_logical_queues
    from tracecorr.analyze.values import plain_rows, render_heading, render_value

    queues = list_logical_queues(rows)
    tables = []
    for source in sources:
        own = queues.filter(pl.col("snapshot") == source["snapshot"]).drop("snapshot", "dump", "queue")
        shown = [c for c in own.columns if own[c].null_count() < own.height]
        table = Table(title=f"{source['dump'] or 'empty'}: {_describe(source, own.height)}", title_justify="left")
        for column in shown:
            table.add_column(render_heading(column), no_wrap=True)
        for row in plain_rows(own):
            table.add_row(*(printable(render_value(column, row[column])) for column in shown))
        tables.append(table)
    return Group(*tables)
