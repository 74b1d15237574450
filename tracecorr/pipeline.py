"""The order of the stages: parse, align, link, store. No other module knows it."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl

from tracecorr.clock.clock_map import ClockMap
from tracecorr.clock.fit import ClockEvidence, fit_clocks
from tracecorr.clock.placing import find_steps, place_records, widen_reads
from tracecorr.link.damage import list_unreadable
from tracecorr.link.doorbells import fill_store_rings
from tracecorr.link.packet_index import check_indexes, complete_indexes
from tracecorr.link.polled import add_polled_gpus, build_samples
from tracecorr.link.queues import list_shared
from tracecorr.link.rings import name_rings
from tracecorr.link.rocprof import take_user_events
from tracecorr.link.signals import add_gpu_times
from tracecorr.link.tables import ASKED_OF_PACKETS, link_tables
from tracecorr.link.threads.identities import add_programs, attach_identities, name_log_pids
from tracecorr.link.threads.lives import ToLog
from tracecorr.link.threads.thread_map import THREAD_COLUMNS, Identities, SeenIdentities, map_threads
from tracecorr.link.threads.thread_owners import OWNER_COLUMNS, find_owners, set_owners
from tracecorr.link.warnings import list_warnings, warn_of_writes
from tracecorr.link.writes.place import LOG_COLUMNS, TRACE_COLUMNS, LogWrites, has_writes, join_writers, place_writes
from tracecorr.model import schema
from tracecorr.model.checksum import Checksum
from tracecorr.model.errors import CaptureError, InputError, explain_unwritten, quote_path
from tracecorr.progress import Stages
from tracecorr.read.importing import (
    Incoming,
    arrange_logs,
    check_database,
    check_told_clock,
    describe_doubts,
    plan_import,
    read_ends,
)
from tracecorr.read.kfd.topology import NodeFiles, list_nodes
from tracecorr.sources import (
    drop_continued_losses,
    list_log_starts,
    read_logs,
    read_others,
    refuse_repeated,
    set_prints_apart,
)
from tracecorr.store import raw
from tracecorr.store.capture import (
    FORMAT_VERSION,
    Capture,
    drop_abandoned,
    drop_unfinished,
    hold_tables,
    make_parts_folder,
    printable,
    refuse_odd_name,
    write_info,
    write_tables,
)
from tracecorr.store.fleet import begin_fleet, finish_fleet, plan_fleet, write_member
from tracecorr.store.free_memory import give_back, refuse_hopeless
from tracecorr.store.new_folder import check_place, describe_abandoned, lock_capture, name_stage, put_in_place
from tracecorr.store.parts import Parts, SourcePart, StoredPart
from tracecorr.store.raw import (
    copy_in,
    describe_file,
    join_files,
    open_read_at,
    read_clock_samples,
    read_topology,
)
from tracecorr.store.recording import (
    close_killed,
    complete_losses,
    drop_unwritten,
    is_attached,
    list_exact,
    list_missing_bytes,
    list_recorded_losses,
    seen_names,
    seen_processes,
    seen_threads,
    seen_time_offsets,
)
from tracecorr.store.trace_dat import unpack_in_place
from tracecorr.timeline.build import build_views, list_drawn_columns
from tracecorr.timeline.pyramid import drop_views, write_views

__all__ = ["correlate", "import_files", "make_dataset", "read_raw_files", "rebuild_outdated"]


def correlate(
    path: Path,
    progress: Callable[[str], None] | None = None,
    live: Callable[[str], None] | None = None,
    ready: Mapping[int, list[StoredPart]] | None = None,
    jobs: int = 1,
) -> list[str]:
    """Build the tables of a capture folder from its raw files, replacing older ones.

    Args:
        path: the capture folder.
        progress: called with a line of text after each stage.
        live: called with what is being done now, when a stage begins and about once a second while files are read.
        ready: what other processes have read already: key of `files` -> its parts in the order of the file.
        jobs: processes that read long logs. A script that asks for more than one needs
            `if __name__ == "__main__":`, because each of them begins with its modules.

    Returns: warnings that name what could not be linked and why.

    Raises:
        CaptureError: the folder is no capture, is being recorded, or another process builds its tables.
        InputError: a raw file is missing or damaged.
        MachineError: so many rows cannot be linked with the memory of this machine.
        WorkerError: a process that read a log was killed.
    """
    capture = Capture.open(path)
    with lock_capture(path) as is_alone:
        if is_alone:
            drop_abandoned(path)
        try:
            return _correlate(capture, Stages(progress, live), ready or {}, jobs)
        finally:
            drop_unfinished(path)


def import_files(
    out: Path,
    amd_logs: Sequence[Path],
    ftrace: Sequence[Path],
    clock: str = "auto",
    clock_samples: Path | None = None,
    hqd: Sequence[Path] = (),
    rocprof: Sequence[Path] = (),
    kernel_logs: Sequence[Path] = (),
    force: bool = False,
    progress: Callable[[str], None] = lambda _: None,
    live: Callable[[str], None] = lambda _: None,
) -> Capture:
    """Copy files of other tools into a new capture folder; its tables are not built yet.

    Args:
        out: the folder to make.
        amd_logs: HIP logs, plain, gzip or zstd; pieces of one log in the order in which they were written.
        ftrace: kernel traces: text, a `trace.dat` of trace-cmd, or a folder of binary pages.
        clock: trace_clock of the traces that do not name theirs, or `auto`.
        clock_samples: clock.json with bracketed samples.
        hqd: debugfs dumps of the KFD's queues.
        rocprof: CSV, JSON or rocpd databases of rocprof.
        kernel_logs: kernel logs: dmesg, /dev/kmsg, journalctl.
        force: replace `out`.
        progress: called with a line of text for each file.
        live: called with what is being done now.

    Raises:
        InputError: a file is missing, empty, or not what its option says, or names another clock than `clock`; or
            pieces of a log are in another order, or overlap.
        CaptureError: `out` exists and may not be replaced, or its tables are being built.
    """
    target = out.resolve()
    # Beside it the capture is made; a process has at most seven digits.
    refuse_odd_name(str(target), longer=len("..1234567.new"))
    check_place(out, force=force)
    incoming = plan_import(raw, amd_logs, ftrace, clock_samples, hqd, rocprof, kernel_logs)
    for item in incoming:
        refuse_odd_name(item.target)
    for text in describe_abandoned(target.parent):
        progress(text)
    stage = name_stage(target)
    names = [str(item.origin) for item in incoming]
    try:
        entries = [_copy_file(number, item, stage, live) for number, item in enumerate(incoming)]
        _refuse_twins(entries, names)
        doubts = check_told_clock(raw, clock, entries, names, stage)
        for item, entry in zip(incoming, entries, strict=True):
            if item.form != "description":
                progress(f"{item.origin}: {entry['size']:,} bytes")
        entries, unsure = _join_logs(entries, [item.origin.name for item in incoming], stage, progress)
        write_info(stage, {"ftrace_clock": clock, "files": entries, "import_warnings": [*doubts, *unsure]})
        put_in_place(stage, target)
    except OSError as error:
        raise explain_unwritten(out, error) from error
    finally:
        shutil.rmtree(stage, ignore_errors=True)
    # "." names the folder that was just replaced.
    return Capture.open(out if out.name else target)


def _copy_file(number: int, item: Incoming, stage: Path, live: Callable[[str], None]) -> dict[str, Any]:
    """Copy a file into the capture that is made; return its entry of capture.json."""
    live(f"copying {item.origin.name} ...")
    seen = Checksum()
    stored = copy_in(item.origin, stage / item.target, seen, compress=item.form in ("log", "text"))
    size, checksum = seen.size, seen.text()
    if item.form == "rocpd":
        check_database(raw, stored, item.origin)
    if item.form == "trace_dat":
        unpack_in_place(stored, item.origin)
        size, checksum = describe_file(stored)
    return {
        "file": number, "path": str(stored.relative_to(stage)), "source": item.source, "form": item.form,
        "size": size, "checksum": checksum,
    }  # fmt: skip


def _refuse_twins(entries: Sequence[Mapping[str, Any]], names: Sequence[str]) -> None:
    seen: dict[str, str] = {}
    for entry, name in zip(entries, names, strict=True):
        if entry["form"] in ("log", "text", "trace_dat"):
            if entry["checksum"] in seen:
                twin = seen[entry["checksum"]]
                raise InputError(f"{name} was given twice (it equals {twin})", "name each file once")
            seen[entry["checksum"]] = name


def _join_logs(
    entries: list[dict[str, Any]], names: Sequence[str], stage: Path, progress: Callable[[str], None]
) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the entries after pieces of one log became one file, and what is not sure of the others."""
    logs = [entry for entry in entries if entry["form"] == "log"]
    if len(logs) < 2:
        return entries, []
    ends = []
    for entry in logs:
        with open_read_at(stage / entry["path"]) as (read_at, size):
            ends.append(read_ends(names[entry["file"]], read_at, size))
    for pieces in arrange_logs(ends):
        first, *others = (logs[number] for number in pieces)
        if not others:
            continue
        told = [{"name": ends[number].name, "size": logs[number]["size"]} for number in pieces]
        breaks = [after for after in pieces[1:] if ends[after].begins_record]
        paths = [stage / logs[number]["path"] for number in pieces]
        stored, checksum = join_files(paths, [number in breaks for number in pieces])
        first |= {"path": str(stored.relative_to(stage)), "size": checksum.size, "checksum": checksum.text()}
        first["pieces"] = told
        entries = [entry for entry in entries if entry not in others]
        progress(f"{' + '.join(ends[number].name for number in pieces)}: pieces of one log")
    return [{**entry, "file": number} for number, entry in enumerate(entries)], describe_doubts(ends)


def rebuild_outdated(capture: Capture, say: Callable[[str], None]) -> Capture:
    """Return the capture with tables of this version: those of an older one are built again from its raw files.

    Args:
        capture: what a verb opened.
        say: called with a line that says so, where they are built.

    Raises:
        CaptureError: it is a dataset of an older version, which has no raw files.
        TracecorrError: as `correlate` raises it; the old tables stay.
    """
    if not capture.is_outdated():
        return capture
    if capture.nodes:
        folders = " ".join(quote_path(str(node["capture"])) for node in capture.info["nodes"])
        raise CaptureError(
            f"{capture.path} is a dataset of an older tracecorr: it has no raw files to build its tables from",
            f"make it again of its captures: tracecorr correlate {folders} -o NEW",
        )
    say(f"{capture.path} was made by an older tracecorr: its tables are built again from its raw files")
    correlate(capture.path)
    return Capture.open(capture.path)


def make_dataset(paths: Sequence[Path], out: Path, *, force: bool = False) -> Capture:
    """Make one dataset of captures that have tables.

    Args:
        paths: the captures, one per node.
        out: the dataset.
        force: replace `out`.

    Raises:
        CaptureError: a folder is no capture, or `out` is one of them or exists.
    """
    stage = begin_fleet(paths, out, force=force)
    try:
        members = plan_fleet(paths)
        for member in members:
            write_member(stage, member)
        return finish_fleet(stage, out, members)
    finally:
        shutil.rmtree(stage, ignore_errors=True)


def _correlate(capture: Capture, stages: Stages, ready: Mapping[int, list[StoredPart]], jobs: int) -> list[str]:
    path = capture.path
    if capture.nodes:
        raise CaptureError(
            f"{path} is a dataset of many nodes without raw files", "correlate the captures it is made of"
        )
    capture = close_killed(capture)
    drop_unwritten(capture)
    stages.begin("reading")
    parts, writes = read_raw_files(capture, stages, ready, jobs)
    _end(stages, "parse")
    refuse_hopeless(parts.count_events())
    seen = SeenIdentities(seen_processes(capture.info), seen_threads(capture.info), seen_names(capture.info))
    tables, maps, found = _build_tables(parts, seen, capture, stages, writes)
    stages.begin("writing the tables")
    # New tables may have the sizes of the old ones, and the new views no room: the old ones would pass for theirs.
    drop_views(path)
    write_tables(path, tables)
    has_samples = any(entry.get("form") == "clock_samples" for entry in capture.info.get("files") or [])
    samples = _samples(capture) if has_samples else None
    told = list_warnings(tables, maps, samples, attached=is_attached(capture.info))
    warnings = [*(capture.info.get("import_warnings") or []), *told, *warn_of_writes(found, tables["files"])]
    write_info(path, {**capture.info, "format": FORMAT_VERSION, "warnings": warnings})
    held = hold_tables(tables, {"events": list_drawn_columns(tables["events"])})
    _end(stages, "store")
    stages.begin("building the views of the page")
    try:
        write_views(path, build_views(held))
    except OSError as error:
        # All answers are in the tables; the page draws from them, too.
        why = error.strerror or "its disk took only a part of them"
        return [*warnings, f"the views of the page were not stored, serve builds them again: {why}"]
    _end(stages, "views")
    return warnings


def read_raw_files(
    capture: Capture, stages: Stages, ready: Mapping[int, list[StoredPart]], jobs: int
) -> tuple[Parts, LogWrites]:
    """Return the rows of all raw files of a capture, and which write of the trace put which bytes into which log.

    Args:
        capture: the capture.
        stages: told what is read, and how far it is.
        ready: what was read already: key of `files` -> its parts in the order of the file.
        jobs: processes that read long logs.

    Raises:
        InputError: a file is missing or damaged, or two traces hold the same records.
        WorkerError: a process that read a log was killed.
    """
    folder = make_parts_folder(capture.path)
    others = read_others(capture, folder, stages)
    if not capture.info.get("plan"):
        others = set_prints_apart(others)
        refuse_repeated(others, capture.info["files"])
        others = drop_continued_losses(others)
    # Before the logs: they tell whose bytes are whose in a log of several processes.
    writes = _place_writes(others, capture, stages)
    logs, placed = read_logs(capture, folder, writes.placed, ready, stages, jobs)
    return Parts([*logs.each, *others.each]), replace(writes, placed=placed)


def _end(stages: Stages, stage: str) -> None:
    give_back()
    stages.end(stage)


def _build_tables(
    parts: Parts, seen: SeenIdentities, capture: Capture, stages: Stages, known: LogWrites
) -> tuple[dict[str, pl.DataFrame], dict[str, ClockMap], LogWrites]:
    stages.begin("aligning the clocks")
    identities, held, maps, writes = _align(parts, seen, capture, known)
    clock_map, losses = _clock_rows(held[0], maps), _place_losses(parts, maps)
    # The rows are most of what is in memory. Popped, they are the callee's alone, and freed as it goes.
    held.append(place_records(held.pop(), maps))
    _end(stages, "align")
    stages.begin("linking")
    aligned = all(m.aligned for key, m in maps.items() if key.startswith("ftrace:"))
    missing = list_missing_bytes(capture.path, capture.info["files"])
    ledger = pl.concat([parts.small("ledger"), missing])
    dropped, spans = list_recorded_losses(capture.info, complete_losses(capture.info, ledger, losses))
    gpus = add_polled_gpus(_known_gpus(capture), parts.small("polls"))
    tables = link_tables(
        held.pop(),
        parts.read_packets(ASKED_OF_PACKETS),
        parts.args,
        identities,
        aligned,
        parts.small("hqd"),
        gpus,
        ledger,
        pl.concat([losses, spans]),
        writes,
    )
    _end(stages, "link")
    tables["processes"] = add_programs(tables["processes"], seen.processes)
    ledger = _sum_ledger(pl.concat([ledger, dropped]))
    unwritten = schema.LOSSES.conform(writes.missing.select("from_ns", "to_ns", source=pl.lit("amd_log")))
    losses = pl.concat([losses, spans, unwritten, tables["losses"], list_unreadable(ledger, tables["events"])])
    tables |= {
        "clock_map": clock_map, "files": _file_rows(capture), "ledger": ledger, "losses": losses,
        "samples": build_samples(parts.small("polls"), tables["gpus"], tables["processes"]),
    }  # fmt: skip
    return tables, maps, writes


def _align(
    parts: Parts, seen: SeenIdentities, capture: Capture, known: LogWrites
) -> tuple[Identities, list[pl.DataFrame], dict[str, ClockMap], LogWrites]:
    """Find threads and clocks; which thread used an address at a time is asked only once the clocks are known.

    Returns: threads and processes; all rows, as the only frame of a list; the clock maps; what writes tell of the logs.
    """
    held = [parts.read_events()]
    owners = find_owners(
        _select_source(held[0], "ftrace", OWNER_COLUMNS), parts.args, seen.named, list_exact(capture.info)
    )
    held = [name_log_pids(set_owners(held.pop(), owners))]
    writes = join_writers(known, _select_source(held[0], "amd_log", LOG_COLUMNS)) if len(known.placed) else known
    identities = _map_threads(held[0], seen, owners, writes.writers)
    records, maps = _fit(held.pop(), parts, identities, capture, writes.spans)
    clocks = [m for key, m in maps.items() if key.startswith("ftrace:")]
    if not identities.log_threads["tid"].null_count() or len(clocks) != 1 or not clocks[0].aligned:
        return identities, [records], maps, writes
    # The log's own clock may be that of a time namespace.
    added = seen_time_offsets(capture.info).get("monotonic_ns", 0)
    rows = name_log_pids(set_owners(parts.read_events(THREAD_COLUMNS), owners))
    again = _map_threads(rows, seen, owners, writes.writers, lambda stamps: clocks[0].to_common(stamps) + added)
    if again.log_threads["tid"].count() == identities.log_threads["tid"].count():
        return identities, [records], maps, writes
    del records  # large
    records, maps = _fit(name_log_pids(set_owners(parts.read_events(), owners)), parts, again, capture, writes.spans)
    return again, [records], maps, writes


def _place_writes(traces: Parts, capture: Capture, stages: Stages) -> LogWrites:
    """Return which write of the trace put which bytes into which log."""
    lost = [part.stored.losses for part in traces.each if part.source == "ftrace"]
    is_logged = any(entry["form"] == "log" for entry in capture.info["files"])
    if not (lost and is_logged and has_writes(traces.read_events(("layer", "name")))):
        return LogWrites()
    rows = _select_source(traces.read_events(TRACE_COLUMNS[1:]), "ftrace", TRACE_COLUMNS)
    sizes = {entry["file"]: int(entry["size"]) for entry in capture.info["files"]}
    return place_writes(rows, traces.args, pl.concat(lost), list_log_starts(capture, stages), sizes)


def _map_threads(
    rows: pl.DataFrame,
    seen: SeenIdentities,
    owners: pl.DataFrame,
    writers: pl.DataFrame,
    to_log: ToLog | None = None,
) -> Identities:
    log, trace = (_select_source(rows, source, THREAD_COLUMNS) for source in ("amd_log", "ftrace"))
    return map_threads(log, trace, seen, to_log, owners, writers)


def _select_source(rows: pl.DataFrame, source: str, columns: Sequence[str]) -> pl.DataFrame:
    return rows.lazy().filter(pl.col("source") == source).select(columns).collect()


def _fit(
    rows: pl.DataFrame, parts: Parts, identities: Identities, capture: Capture, writes: pl.DataFrame
) -> tuple[pl.DataFrame, dict[str, ClockMap]]:
    whole = _complete_packets(rows, parts, identities)
    del rows  # large; what is left of it is taken apart, if nothing else holds its columns
    timed = take_user_events(add_gpu_times(whole, parts.args), parts.args)
    records = widen_reads(find_steps(timed), parts.args)
    del whole, timed  # large
    shared, offsets = list_shared(records, parts.args), seen_time_offsets(capture.info)
    evidence = ClockEvidence(records, parts.args, shared, _samples(capture), **offsets, writes=writes)
    return records, fit_clocks(evidence)


def _complete_packets(rows: pl.DataFrame, parts: Parts, identities: Identities) -> pl.DataFrame:
    """Return the rows with their processes and threads, and packets and doorbell stores with ring and index."""
    named, unplaced = name_rings(attach_identities(rows, identities), parts.args)
    counted = complete_indexes(named, unplaced)
    return check_indexes(fill_store_rings(counted))


def _known_gpus(capture: Capture) -> pl.DataFrame:
    """Return the GPUs that the capture knows from the topology of its machine."""
    nodes = [NodeFiles(*texts) for texts in read_topology(capture.path / "raw" / "topology" / "nodes")]
    if nodes:
        return list_nodes(nodes, int(capture.info.get("sched_policy", 0)))
    facts = [{k: v for k, v in g.items() if k in schema.GPUS.schema} for g in capture.info.get("gpus") or []]
    return schema.GPUS.conform(pl.DataFrame(facts, infer_schema_length=None)) if facts else schema.GPUS.empty()


def _samples(capture: Capture) -> dict[str, Any]:
    path = capture.path / "raw" / "clock.json"
    return read_clock_samples(path) if path.is_file() else {"samples": []}


def _clock_rows(records: pl.DataFrame, maps: dict[str, ClockMap]) -> pl.DataFrame:
    """Return the table `clock_map`."""
    start, end = pl.col("stamp_ns"), pl.col("end_stamp_ns")
    spans = records.group_by("source", "clock").agg(first=start.min(), last=pl.max_horizontal(start.max(), end.max()))
    rows = []
    for source, clock, first, last in spans.sort("source", "clock").iter_rows():
        key = f"{source}:{clock or 'unknown'}"
        rows += maps[key].summarize(key, first or 0, last or 0)
    return pl.DataFrame(rows, schema=schema.CLOCK_MAP.schema) if rows else schema.CLOCK_MAP.empty()


def _file_rows(capture: Capture) -> pl.DataFrame:
    wanted = [
        {name: entry[name] for name in schema.FILES.schema if name != "checksum"}
        | {"path": printable(entry["path"]), "checksum": _checksum_of(entry)}
        for entry in capture.info["files"]
    ]
    return pl.DataFrame(wanted, schema=schema.FILES.schema)


def _checksum_of(entry: dict[str, Any]) -> str | None:
    # Older captures name their checksum by its kind.
    older = f"sha256:{entry['sha256']}" if entry.get("sha256") else None
    return entry.get("checksum") or older


def _sum_ledger(ledger: pl.DataFrame) -> pl.DataFrame:
    return (
        ledger.group_by("file", "source", "outcome", "reason")
        .agg(pl.col("records", "bytes").sum())
        .sort("file", "outcome", "reason")
    )


def _place_losses(parts: Parts, maps: Mapping[str, ClockMap]) -> pl.DataFrame:
    """Put the spans that traces and logs lost on the common clock, each by its own."""
    # Other readers of losses took CLOCK_MONOTONIC itself.
    placed = [
        _place_span(part, maps) if part.source in ("ftrace", "amd_log", "kernel_log") else part.stored.losses
        for part in parts.each
    ]
    return pl.concat([schema.LOSSES.empty(), *placed])


def _place_span(trace: SourcePart, maps: Mapping[str, ClockMap]) -> pl.DataFrame:
    """Return the spans that one trace or log lost, on the common clock; an open side reaches to its end."""
    losses = trace.stored.losses
    if losses.is_empty():
        return losses
    stamp, name = pl.col("stamp_ns"), pl.col("clock").drop_nulls().first().cast(pl.String)
    first, last, own = trace.read_events(("stamp_ns", "clock")).select(stamp.min(), last=stamp.max(), own=name).row(0)
    # Of a log those of HIP's lines; ROCr's show another clock.
    clock = maps.get(f"{trace.source}:{'mono' if trace.source == 'amd_log' else own or 'unknown'}")
    if first is None or clock is None:
        # A trace without any record tells no clock.
        return losses.with_columns(pl.lit(None, pl.Int64).alias(side) for side in ("from_ns", "to_ns"))
    filled = losses.with_columns(pl.col("from_ns").fill_null(first), pl.col("to_ns").fill_null(last))
    return filled.with_columns(
        pl.Series(side, clock.to_common(filled[side].to_numpy())) for side in ("from_ns", "to_ns")
    )
