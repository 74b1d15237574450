"""Answers in words to what engineers ask first, each with the events that it rests on."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import polars as pl

from tracecorr.analyze.calls import OF_A_GRAPH
from tracecorr.analyze.evidence import Evidence, list_partial
from tracecorr.analyze.failures import NOTICE, find_aborted_packets, list_kernel_failures, summarize_failures
from tracecorr.analyze.gpu import AT_LEAST, KERNELS, OF_PROFILE
from tracecorr.analyze.owners import node_of
from tracecorr.analyze.queue_creation import list_doorbell_pages
from tracecorr.analyze.queues import (
    count_doubled,
    count_streams_at_once,
    explain_doubled,
    gpu_id_text,
    summarize_queues,
)
from tracecorr.analyze.report.answers import WENT_WRONG, Answer
from tracecorr.analyze.still_open import describe_still_open, list_events
from tracecorr.analyze.values import Tables, collect, count_of, hex_text, render_ns
from tracecorr.analyze.verdicts.model import Verdict
from tracecorr.model.columns import is_counted
from tracecorr.model.kinds import ABORTED_PACKET, IDLE_QUEUE, INFERRED, RECORDED, WORST_LEVELS
from tracecorr.store.recording import describe_exit

STILL_OPEN = "What was still open at the end?"
BUSY = "How busy was the GPU, where was it idle, and who was waiting?"
SHARED = "How many queues of which type, and are they shared?"
PRIORITY = "Is preemption or priority in effect?"
CREATION = "How was each queue requested and created, and how long did it take on each side?"
PATH = "Which path did launches and copies take, and was the doorbell visible?"
MQD = "Where is the MQD made, and when is it handed over?"
_MAX_BUSY_LINES = 12


def describe_busy(evidence: Evidence) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """Return the answer, one fact a line, and the packets that ended the longest gaps.

    Args:
        evidence: the tables of a capture.
    """
    nodes = evidence.parts if len(evidence.parts) > 1 else [("", evidence)]
    lines = [f"{f'node {node}, ' if node else ''}{line}" for node, part in nodes for line in _describe_gpus(part)]
    shown = lines[:_MAX_BUSY_LINES]
    if len(lines) > len(shown):
        shown.append(f"... and {count_of(len(lines) - len(shown), 'more line')}: section How busy the GPUs were")
    events = [event for _, part in nodes for event in _longest(part.gpu_times.gaps)["event"]]
    return tuple(shown) or ("no kernel is recorded",), tuple(events)


def _describe_gpus(evidence: Evidence) -> Iterator[str]:
    gpus = evidence.tables("gpus").select("gpu", "gpu_id").collect().with_columns(gpu_id_text())
    busy = evidence.gpu_times.gpus.filter(pl.col("work") == KERNELS)
    gaps = _longest(evidence.gpu_times.gaps)
    for row in busy.join(gpus, on="gpu", how="left", maintain_order="left").iter_rows(named=True):
        whose = f"GPU {row['gpu_id']}" if row["gpu_id"] else row["agent"] or "GPU not known"
        yield f"{whose}: {_describe_time(row)}"
        if row["gaps"]:
            yield f"{whose}: {_describe_idle(row)}"
        same = (pl.col(key).eq_missing(pl.lit(row[key], gaps.schema[key])) for key in ("gpu", "agent"))
        yield from (f"{whose}: {_describe_gap(gap)}" for gap in gaps.filter(*same).iter_rows(named=True))


def _longest(gaps: pl.DataFrame) -> pl.DataFrame:
    return gaps.unique(["gpu", "agent"], keep="first", maintain_order=True)


def _describe_time(row: dict[str, Any]) -> str:
    """Return how many kernels are timed, and how long the GPU was busy."""
    if not row["timed"]:
        return f"none of {count_of(row['packets'], 'kernels', 'kernel')} has GPU times: how busy it was is unknown"
    of_profile, least = row["figures"] == OF_PROFILE, "at least " if row["figures"] == AT_LEAST else ""
    told = f"{row['timed']} of the profile" if of_profile else f"{row['timed']} of {row['packets']}"
    share = f" ({least}{row['share']} %)" if row["share"] is not None else ""
    busy = f"busy {least}{render_ns(row['busy_ns'])} of {render_ns(row['span_ns'])}{share}"
    idle = "; when it was idle is unknown: others may have run" if least else ""
    return f"kernels with GPU times: {told}, from {row['from_ns'] / 1e9:.6f} s on; {busy}{idle}"


def _describe_idle(row: dict[str, Any]) -> str:
    told = (
        f"idle {count_of(row['gaps'], 'times', 'time')} between kernels, {render_ns(row['idle_ns'])} in total (median "
        f"{render_ns(row['idle_p50_ns'])}, longest {render_ns(row['idle_max_ns'])})"
    )
    asked = "kernel was requested" if row["figures"] == OF_PROFILE else "packet was written"
    waits = ((row["unsubmitted_ns"], f"before the next {asked}"),
             (row["in_ring_ns"], "after the doorbell of the next packet had been rung"))  # fmt: skip
    parts = [f"{render_ns(ns)} {when}" for ns, when in waits if ns is not None]
    return f"{told}; {' and '.join(parts) or 'the cause is unknown'}"


def _describe_gap(gap: dict[str, Any]) -> str:
    """Return the longest gap, and what the host did during it."""
    told = f"longest gap: {render_ns(gap['idle_ns'])} from {gap['from_ns'] / 1e9:.6f} s on, until "
    told += f"{gap['kernel'] or 'a kernel'} (event {gap['event']})" + (f" of {gap['call']}" if gap["call"] else "")
    if gap["unsubmitted_ns"] is None:
        return told
    if not gap["unsubmitted_ns"]:
        return f"{told}, which had been submitted before"
    inside = f"longest in {gap['host_call']} ({render_ns(gap['in_it_ns'])})" if gap["host_call"] else ""
    outside = f"{render_ns(gap['outside_ns'])} outside of HIP calls" if gap["outside_ns"] is not None else ""
    spent = " and ".join(filter(None, (inside, outside)))
    where = f"; until then its thread was {spent}" if spent else ""
    return f"{told}, which was submitted {render_ns(gap['unsubmitted_ns'])} after the gap began{where}"


def _explain_still_open(evidence: Evidence) -> Iterator[Answer]:
    """Yield the answer to what was open at the end, if a call was."""
    if evidence.still_open.calls.height:
        found = evidence.still_open
        yield Answer(STILL_OPEN, tuple(describe_still_open(found)), list_events(found), is_first=True)


_MAX_FAILURES, _MAX_FATAL, _MAX_TEXT = 8, 4, 160
_FATAL, _WARNING = (NOTICE, WORST_LEVELS[0]), WORST_LEVELS[2]
# Harmless: the runtime prints the first at the end of most processes (ROCclr's rocdevice.cpp), the second of a queue
# that has nothing to do with the failure.
_HARMLESS = ("unknown_event", IDLE_QUEUE)
# ROCm 7.2 prints it at the launch of a graph without further streams; a graph on one stream needs none.
_NO_STREAMS = "graph_streams_missing"


def answer_everything(evidence: Evidence, verdicts: Sequence[Verdict]) -> tuple[Answer, ...]:
    """Return all answers: what was still open first, then what went wrong, then those that every capture has."""
    return (*_explain_still_open(evidence), *explain_failures(evidence), *answer_questions(evidence, verdicts))


def explain_failures(evidence: Evidence) -> Iterator[Answer]:
    """Yield the answer to what went wrong, if something did: the first failure first, then what came after it.

    That is: problems of the capture; errors and notices of the runtime, failed calls, failures in the kernel's log, in
    the order of time; then what has no time, ioctls, warnings, and the exit status of the workload.
    """
    timed = sorted(_list_moments(evidence), key=lambda moment: moment[:2])
    shown = timed[:_MAX_FAILURES]
    # What ends a program comes late, and is shown too.
    shown += [moment for moment in timed[_MAX_FAILURES:] if moment.is_fatal][:_MAX_FATAL]
    lines = [*_describe_problems(evidence)]
    lines += [_after(moment, shown[0]) + moment.text for moment in shown]
    if len(timed) > len(shown):
        rest = "sections Errors and warnings of the runtime, HIP calls, Kernel log"
        lines.append(f"... and {len(timed) - len(shown)} more: {rest}")
    lines += [_describe_allocations(row) for row in evidence.memory.filter(pl.col("failed") > 0).iter_rows(named=True)]
    more, events = _describe_untimed(evidence)
    lines += more
    status = describe_exit(evidence.info)
    lines += [f"the workload ended with status {status}"] if status not in ("", "0") else []
    if lines:
        yield Answer(WENT_WRONG, tuple(lines), (*(moment.event for moment in shown), *events))


def _describe_allocations(row: dict[str, Any]) -> str:
    """Return how many allocations of a kind failed, and what was held."""
    size = f" ({row['failed_bytes']:,} bytes)" if row["failed_bytes"] is not None else ""
    told = f"{row['kind']}: {count_of(row['failed'], 'allocation')} failed{size}, {row['allocations']} succeeded"
    peak = f"; at most {row['peak_bytes']:,} bytes were held at once" if row["peak_bytes"] is not None else ""
    return f"{told}{peak} (section Memory)"


class _Moment(NamedTuple):
    """Hold one failure: when, its event, what it is, and whether it ends a queue or a program."""

    at_ns: int
    event: int
    text: str
    is_fatal: bool


def _after(moment: _Moment, first: _Moment) -> str:
    """Return how much later than the first failure one came."""
    if moment == first:
        return ""
    later = moment.at_ns - first.at_ns
    return f"then, {render_ns(later)} later: " if later else "then: "


def _list_moments(evidence: Evidence) -> Iterator[_Moment]:
    """Yield the failures that have a time."""
    told = evidence.complaints.filter(~pl.col("name").is_in(_HARMLESS), pl.col("severity") != _WARNING)
    needless = _NO_STREAMS if _run_on_one_stream(evidence.tables) else None
    packets = {row["event"]: row for row in find_aborted_packets(evidence.tables).iter_rows(named=True)}
    for row in told.iter_rows(named=True):
        packet = packets.get(row["first_event"])
        text = _describe_packet(packet) if packet else _describe_complaint(row, needless)
        yield _Moment(row["first_ns"], row["first_event"], text, row["severity"] in _FATAL)
    for row in summarize_failures(evidence.tables("events")).filter(pl.col("layer") == "hip").iter_rows(named=True):
        text = f"{row['name']} returned {row['result']} {_times(row['times'])} (first: event {row['first_event']})"
        yield _Moment(row["first_ns"], row["first_event"], text, is_fatal=False)
    for row in _kernel_failures(evidence).drop_nulls("first_ns").iter_rows(named=True):
        yield _Moment(row["first_ns"], row["first_event"], _describe_kernel_line(row), is_fatal=False)


def _kernel_failures(evidence: Evidence) -> pl.DataFrame:
    found = list_kernel_failures(evidence.tables)
    return found.unique(["name", "gpu", "process"], keep="first", maintain_order=True).head(_MAX_FAILURES)


def _describe_untimed(evidence: Evidence) -> tuple[list[str], list[int]]:
    """Return what failed without a time that could be compared, warnings, and their events."""
    untimed = _kernel_failures(evidence).filter(pl.col("first_ns").is_null())
    lines = [_describe_kernel_line(row) for row in untimed.iter_rows(named=True)]
    ioctls = summarize_failures(evidence.tables("events")).filter(pl.col("layer") == "ioctl")
    if ioctls.height:
        kinds = ioctls.group_by("result").agg(pl.col("times").sum()).sort("times", "result", descending=[True, False])
        results = ", ".join(f"{result} {_times(times)}" for result, times in kinds.iter_rows())
        lines.append(f"{count_of(int(ioctls['times'].sum()), 'ioctl')} failed: {results} (section Ioctls)")
    warnings = evidence.complaints.filter(pl.col("severity") == _WARNING).head(_MAX_FAILURES)
    lines += [_describe_complaint(row, None) for row in warnings.iter_rows(named=True)]
    parts = (untimed["first_event"], ioctls["first_event"].head(_MAX_FAILURES), warnings["first_event"])
    return lines, pl.concat(parts).to_list()


def _describe_kernel_line(row: dict[str, Any]) -> str:
    means = f": {row['means']}" if row["means"] else ""
    times = "" if row["lines"] == 1 else f" ({row['lines']} lines)"
    text = (row["text"] or row["name"]).strip()[:_MAX_TEXT]
    return f"the kernel's log says `{text}`{times} (event {row['first_event']}){means}"


def _describe_packet(row: dict[str, Any]) -> str:
    """Return the packet at which a queue aborted or stands, as the runtime printed it."""
    shape = ", ".join(
        f"{what} {' x '.join(str(row[f'{what}_{axis}']) for axis in 'xyz')}"
        for what in ("grid", "workgroup")
        if row[f"{what}_x"] is not None
    )
    kernel = f"kernel {row['kernel_name']}" if row["kernel_name"] else "a kernel that is not named"
    does = "aborted" if row["name"] == ABORTED_PACKET else "stands"
    told = [f"the queue {does} at {kernel if row['kernel_object'] is not None else 'a barrier'}", shape]
    told += [f"LDS {row['group_bytes']:,} bytes"] if row["group_bytes"] is not None else []
    told += [f"queue {row['ring']:#x}"] if row["ring"] is not None else []
    told += [f"rptr {row['rptr']}, wptr {row['wptr']}"] if row["rptr"] is not None else []
    packet = f"; packet: event {row['packet']} of call {row['call']}" if row["packet"] is not None else ""
    return f"{', '.join(filter(None, told))} (event {row['event']}{packet})"


def _describe_problems(evidence: Evidence) -> Iterator[str]:
    """Yield the problems of the recording."""
    problems = [str(text) for text in evidence.info.get("problems") or []]
    yield from problems[:_MAX_FAILURES]
    if len(problems) > _MAX_FAILURES:
        yield f"... and {len(problems) - _MAX_FAILURES} more problems of the capture: tracecorr info"
    # They may be the reason why the trace covers less than the log.
    if problems:
        yield from list_partial(evidence)


def _run_on_one_stream(tables: Tables) -> bool:
    """Tell whether the log says that no graph ran on more than one stream (from level 4 on)."""
    graphs = tables("args").filter(pl.col("key").cast(pl.String) == "max_streams")
    return bool(collect(graphs.select(pl.col("u64").max()))["u64"].item() == 1)


def _describe_complaint(row: dict[str, Any], needless: str | None) -> str:
    """Return the line of a message; for the one named `needless` with the reason why it is harmless."""
    message = row["message"] if len(row["message"]) <= _MAX_TEXT else f"{row['message'][: _MAX_TEXT - 3]}..."
    call = f", in {row['call']}" if row["call"] else ""
    times = f"{row['severity']}, {_times(row['times'])}"
    if row["variants"] > 1:
        times += f" in {row['variants']} variants with different numbers, the first"
    why = "; each graph ran on one stream, so no others were needed" if row["name"] == needless else ""
    if row["severity"] == NOTICE:
        return f"printed beside the log, {_times(row['times'])}: {message} (first: event {row['first_event']})"
    return f"the runtime's log has this {times}: {message} (first: event {row['first_event']}{call}){why}"


def _times(number: int) -> str:
    return "once" if number == 1 else f"{number} times"


_MAX_QUEUES = 8
_KERNELS = "dispatch"  # kind of the packets that start a kernel outside of graphs
_TOLD = {"pid": "process", "tid": "tid", "gpu": "gpu"}
_NAMED = (("gpus", "gpu", "gpu_id"), ("streams", "stream", "handle"))
_NOT_RECORDED = "its CREATE_QUEUE ioctl is not recorded"
# Functions of the driver, and its SMI events.
_EVICTIONS = r"evict|restore_process|suspend_queues|resume_queues|^QUEUE_EVICTION$"


def answer_questions(evidence: Evidence, verdicts: Sequence[Verdict]) -> tuple[Answer, ...]:
    """Return the answers; what the capture does not have is called not recorded."""
    made, tables = _name_makers(evidence), evidence.tables
    said = {v.name: v for v in verdicts}
    return (
        _creation(made, "amd_log" in evidence.sources),
        _mqd(made),
        _path(said, list_doorbell_pages(tables).join(made, on="process", how="semi"), "ftrace" in evidence.sources),
        _queues(evidence, made),
        _priority(evidence, said),
        Answer(BUSY, *describe_busy(evidence)),
        _devices(evidence),
    )


def _name_makers(evidence: Evidence) -> pl.DataFrame:
    """Return `queue_creation` with `maker` (process, thread, GPU, if they differ) and `whose` (stream) in words."""
    made, tables = evidence.queue_creation, evidence.tables
    gpus, streams = (tables(name).select(key, value).collect() for name, key, value in _NAMED)
    named = made.join(gpus.with_columns(gpu_id_text()), on="gpu", how="left", maintain_order="left")
    named = named.join(streams, on="stream", how="left", maintain_order="left")
    # Processes of two nodes may have one pid.
    several = {key: made[whose].drop_nulls().n_unique() > 1 for key, whose in _TOLD.items()}
    maker = [
        pl.format(text, "gpu_id" if key == "gpu" else key) if several[key] else pl.lit(None, pl.String)
        for key, text in (("pid", "process {}"), ("tid", "thread {}"), ("gpu", "GPU {}"))
    ]
    words = pl.concat_str(_name_node(evidence), *maker, separator=", ", ignore_nulls=True)
    whose = pl.format(" for stream {}", hex_text(pl.col("handle")))
    return named.with_columns(
        maker=pl.when(words != "").then(pl.format(" ({})", words)).fill_null(""), whose=whose.fill_null("")
    )


def _name_node(evidence: Evidence) -> pl.Expr:
    """Return the node of a queue, in words; null if all are of one."""
    nodes = evidence.info.get("nodes") or []
    return pl.format("node {}", node_of("queue", nodes if len(nodes) > 1 else [], "queues"))


def _creation(made: pl.DataFrame, has_log: bool) -> Answer:
    told = made.filter(pl.col("created_line_event").is_not_null()) if has_log else made
    # One of the unjoined ioctls may be that of a queue.
    missing = "which CREATE_QUEUE ioctl created it is unknown" if made.height > told.height else _NOT_RECORDED
    lines = [_describe_creation(row, has_log, missing) for row in told.head(_MAX_QUEUES).iter_rows(named=True)]
    if told.height > _MAX_QUEUES:
        lines.append(f"... and {told.height - _MAX_QUEUES} more queues: section Queue creation")
    if made.height > told.height:
        lines.append(_describe_unlogged(made.filter(pl.col("created_line_event").is_null())))
    events = told.select(pl.coalesce("created_line_event", "create_ioctl_event")).to_series().head(_MAX_QUEUES)
    return Answer(CREATION, tuple(lines) or ("no queue creation is recorded",), tuple(events.to_list()))


def _describe_unlogged(made: pl.DataFrame) -> str:
    """Return the fate of the CREATE_QUEUE ioctls without a line in the log."""
    what = count_of(made.height, "more CREATE_QUEUE ioctls are", "more CREATE_QUEUE ioctl is")
    refused = _refused(made)
    end = f"; the driver refused {_all_or(refused.height, made.height)}{_named(refused)}" if refused.height else ""
    longest = made["ioctl_ns"].max()
    took = f"; the longest took {_describe_short(longest)}" if isinstance(longest, int) else ""
    return f"{what} not joined to a line of the HIP log (ROCr's own queues and SDMA queues have none){took}{end}"


def _refused(made: pl.DataFrame) -> pl.DataFrame:
    return made.filter(pl.col("ioctl_result").is_not_null() & (pl.col("ioctl_result") != "0"))


def _named(refused: pl.DataFrame) -> str:
    return f" ({', '.join(refused['ioctl_result'].unique().sort())})"


def _all_or(part: int, whole: int) -> str:
    return ("it" if whole == 1 else "all of them") if part == whole else f"{part} of them"


def _describe_creation(row: dict[str, Any], has_log: bool, missing: str) -> str:
    ioctl = missing if row["create_ioctl_event"] is None else _describe_ioctl(row)
    name = f"queue {row['queue']}{row['maker']}"
    if not has_log:
        return f"{name}: {ioctl}; which HIP call requested it is unknown without a HIP log"
    asked = f"requested by {row['call']} (event {row['call_event']})" if row["call"] else "its HIP call is unknown"
    asked += row["whose"] if row["call"] else ""
    return f"{name}: {asked}; {_describe_runtime(row)}; {ioctl}"


def _describe_runtime(row: dict[str, Any]) -> str:
    """Return how long the runtime took, and the ioctls of its thread that certainly lie in this time."""
    if row["rocr_ns"] is None:
        return "runtime time unknown"
    said = f"the runtime took {render_ns(row['rocr_ns'])}"
    if not row["rocr_in_ioctls_ns"]:
        return said
    ioctls = f"{count_of(row['rocr_ioctls'], 'ioctl')} of {render_ns(row['rocr_in_ioctls_ns'])}"
    # Ioctls that may lie outside by the errors of the clocks are not counted.
    return f"{said}, in it at least {ioctls} in total"


def _describe_ioctl(row: dict[str, Any]) -> str:
    result = row["ioctl_result"]
    ioctl = f"CREATE_QUEUE (event {row['create_ioctl_event']}) took {_describe_short(row['ioctl_ns'])}"
    if result is None:
        unknown = "its return was not recorded" if row["ioctl_ns"] is None else "its result is unknown"
        return f"{ioctl} and {unknown}"
    return f"{ioctl} and returned {result}{'' if result == '0' else ': the driver created no queue'}"


def _describe_short(took_ns: int | None) -> str:
    """Return a duration; it may be 0 because a trace text has stamps of whole microseconds."""
    if took_ns is None:
        return "an unknown time"
    return "less than 1 us" if took_ns == 0 else render_ns(took_ns)


def _mqd(made: pl.DataFrame) -> Answer:
    seen = made.drop_nulls("init_mqd_event")
    if seen.is_empty():
        return Answer(MQD, ("not recorded: no MQD function was traced (capture with the KFD and MQD probes)",))
    lines = [
        f"queue {row['queue']}{row['maker']}: in event {row['init_mqd_event']}, {_describe_short(row['mqd_ns'])} after "
        f"CREATE_QUEUE began; operations: {row['mqd_operations']}"
        for row in seen.head(_MAX_QUEUES).iter_rows(named=True)
    ]
    lines.append("the driver hands it over before CREATE_QUEUE returns (runlist under HWS, add_hw_queue under MES)")
    return Answer(MQD, tuple(lines), tuple(seen["init_mqd_event"].head(_MAX_QUEUES).to_list()))


def _path(said: dict[str, Verdict], pages: pl.DataFrame, has_trace: bool) -> Answer:
    names = ("compute_uses_doorbell", "doorbell_per_packet", "copies_use_user_sdma", "no_kcq_use")
    lines = [f"{name}: {said[name].outcome}, {said[name].finding.reason}" for name in names if name in said]
    if pages.height:
        times = int(pages["mappings"].sum())
        what = "the doorbell page was mapped once" if times == 1 else f"doorbell pages were mapped {times} times"
        pairs = "" if pages.height == 1 else f", for {pages.height} pairs of process and GPU"
        lines.append(f"{what}{pairs} (it is mapped once per process and GPU)")
    else:
        lines.append(
            "no mapping of a doorbell page is in the trace"
            if has_trace
            else "the mapping of the doorbell page is not recorded: there is no kernel trace"
        )
    return Answer(PATH, tuple(lines), tuple(pages["event"].sort().to_list()))


def _devices(evidence: Evidence) -> Answer:
    question = "Was /dev/kfd opened, when and by whom, and which render nodes?"
    processes = evidence.tables("processes").select("process", "pid", pl.col("comm").cast(pl.String))
    rows = evidence.devices.join(collect(processes), on="process", how="left", maintain_order="left")
    lines = [_describe_device(row) for row in rows.head(_MAX_QUEUES).iter_rows(named=True)]
    if rows.height > _MAX_QUEUES:
        lines.append(f"... and {rows.height - _MAX_QUEUES} more: section GPU devices of the processes")
    seen = evidence.info.get("devices") or {}
    lines += [
        f"/proc showed while it ran: process {pid} had open {', '.join(f'descriptor {text}' for text in found['open'])}"
        for pid, found in list(seen.items())[:_MAX_QUEUES] if found.get("open")
    ]  # fmt: skip
    if not lines:
        none = "no open of /dev/kfd or of a render node, and no call on one, is in the trace"
        return Answer(question, (none if "ftrace" in evidence.sources else "not recorded: there is no kernel trace",))
    events = rows.select(pl.coalesce("open_event", "first_event")).to_series().drop_nulls()
    return Answer(question, (*lines, _LSOF), tuple(events.head(_MAX_QUEUES)))


_LSOF = (
    "`lsof` shows less: nothing of a process that has ended, without root nothing of other users, and the processes of "
    "a container only from inside its PID namespace"
)


def _describe_device(row: dict[str, Any]) -> str:
    """Return when a process opened a device, by which thread, and what it called there."""
    device = "a DRM device (its path is not recorded)" if row["device"] == "drm" else row["device"]
    who = "a process that is not known" if row["process"] is None else f"process {row['process']}"
    told = ", ".join(str(row[key]) for key in ("comm", "pid") if row[key] is not None)
    what = f"{device}, {who}{f' ({told})' if told else ''}"
    calls = "no call on it is recorded"
    if row["calls"]:
        by = f" by thread {row['first_by']}" if row["first_by"] else ""
        at = f" at {row['first_ns'] / 1e9:.6f} s" if row["first_ns"] is not None else ""
        calls = f"{count_of(row['calls'], 'call')} on it, the first{at}{by} (event {row['first_event']})"
    if row["open_event"] is not None:
        by = f" by thread {row['opened_by']}" if row["opened_by"] else ""
        return f"{what}: opened at {row['opened_ns'] / 1e9:.6f} s{by} (event {row['open_event']}); {calls}"
    why = "it was opened before the trace began, or by a parent" if row["opens"] else _NO_OPENS
    return f"{what}: its open is not in the trace ({why}); {calls}"


_NO_OPENS = "the trace has no open calls: record syscalls:sys_enter_openat and sys_exit_openat"


def _queues(evidence: Evidence, made: pl.DataFrame) -> Answer:
    queues = evidence.by_node(lambda node: summarize_queues(node.tables("queues"), node.tables("stream_queues")))
    used = queues.filter(pl.col("dispatches") > 0)
    types = queues.group_by(pl.col("type").fill_null("unknown type")).len().sort("type").iter_rows()
    kinds = f": {_list(f'{n} {kind}' for kind, n in types)}" if queues.height else ""
    doubled = count_doubled(queues)
    least = f"{queues.height - doubled} to " if doubled else ""
    lines = [f"{least}{count_of(queues.height, 'queues are', 'queue is')} known{kinds}"]
    if not queues.height and evidence.profiled[0]:
        lines = [f"{count_of(evidence.profiled[0], 'queues are', 'queue is')} known, from the profile alone"]
    lines += explain_doubled(queues)
    guessed = queues.filter(pl.col("ring_evidence") == INFERRED)
    if guessed.height:
        whose = _all_or(guessed.height, queues.height)
        lines.append(f"the created ring is inferred for {whose}: up to ROCm 6.1 the line does not name it")
    hidden = queues.filter("intercepted")
    if hidden.height:
        whose = _all_or(hidden.height, queues.height)
        lines.append(
            f"a profiler intercepts {whose}: HWq of the log is its buffer, `ring base` the ring of the hardware; the "
            "packets and doorbells of that ring are not recorded"
        )
    if used.height or queues["barriers"].sum():
        lines.append(f"{used.height} of them had dispatches{_untold(queues)}")
    elif queues.height:
        lines.append("which of them had dispatches is unknown: no packet is recorded")
    refused = _refused(made)
    if refused.height:
        whose = _all_or(refused.height, queues.height)
        lines.append(f"the driver refused CREATE_QUEUE for {whose}{_named(refused)}")
    shared = list(_describe_shared(queues, evidence.tables))
    first = "".join(shared[:1])
    return Answer(SHARED, (*lines, *shared), finding=first if first.startswith("shared") else "")


def _describe_shared(queues: pl.DataFrame, tables: Tables) -> Iterator[str]:
    """Yield which queues were shared by streams that lived at the same time, and which were used one after another."""
    living = count_streams_at_once(tables("streams"), tables("stream_queues"))
    several = queues.filter(pl.col("streams") > 1).join(living, on="queue", how="left", maintain_order="left")
    shared, followed = (several.filter(is_so) for is_so in (pl.col("at_once") > 1, pl.col("at_once") == 1))
    if shared.height:
        told = (
            f"queue {q} by streams {ids}" + (f" ({living} at once)" if living < n else "")
            for q, ids, n, living in shared.select("queue", "stream_ids", "streams", "at_once").iter_rows()
        )
        yield f"shared: {'; '.join(told)}"
    elif (streams := queues.drop_nulls("dispatches")["streams"]).sum() and not streams.null_count():
        yield "no queue was shared by streams"
    if followed.height:
        told = (f"queue {q} by streams {ids}" for q, ids in followed.select("queue", "stream_ids").iter_rows())
        yield f"used by one stream after another: {'; '.join(told)}"


def _untold(queues: pl.DataFrame) -> str:
    """Return for how many queues the log does not show whether they had dispatches."""
    sdma = pl.col("type").str.starts_with("sdma").fill_null(value=False)
    untold = queues.filter(pl.col("dispatches").is_null() & ~sdma).height
    return f"; for {untold} more it is unknown: the log does not show their packets" if untold else ""


def _priority(evidence: Evidence, said: dict[str, Verdict]) -> Answer:
    rows = evidence.priorities.filter(pl.col("priority_hip").is_not_null())
    kinds = rows.group_by("priority_hip", "priority_log", "priority_driver").len()
    kinds = kinds.sort("priority_hip", "priority_log", "priority_driver")
    lines = [
        f"{count_of(n, 'queue')}: HIP priority {hip}, log {_or_unknown(log)}, driver {_or_unknown(driver)}"
        for hip, log, driver, n in kinds.iter_rows()
    ]
    if "priority_reaches_hardware" in said:
        verdict = said["priority_reaches_hardware"]
        lines.append(f"priority_reaches_hardware: {verdict.outcome}, {verdict.finding.reason}")
    lines += _describe_service(evidence)
    moved = collect(
        evidence.tables("events")
        .filter(pl.col("layer").is_in(["kfd", "mqd", "smi"]) & is_counted())
        .select("event", pl.col("name").cast(pl.String))
        .filter(pl.col("name").str.contains(_EVICTIONS))
    )
    lines.append(_describe_moves(evidence, moved.height))
    events, finding = tuple(moved["event"].head(20).to_list()), _find_effect(evidence, said, rows)
    return Answer(PRIORITY, tuple(lines), events, finding=finding)


# Number of a priority in the log -> its name.
_NAMES = {2: "high", 1: "normal", 0: "low"}
_REACHED = {
    "PASS": "the setting reached the hardware", "FAIL": "the setting did not reach the hardware",
    "UNKNOWN": "whether the setting reached the hardware is not known",
}  # fmt: skip


def _find_effect(evidence: Evidence, said: dict[str, Verdict], rows: pl.DataFrame) -> str:
    """Return whether requested priorities are known to have had an effect; empty if none but normal was requested."""
    verdict = said.get("priority_reaches_hardware")
    if verdict is None or not (rows["priority_hip"] != 0).any():
        return ""
    told = f"did the priority help? not shown: {_REACHED[verdict.outcome]}"
    timed = _choose_kind(evidence.service.filter(pl.col("timed") > 0))
    if not timed.is_empty():
        shown = timed.group_by("priority_log").agg(pl.col("start_p50_ns").min()).sort("priority_log", descending=True)
        waits = (f"{_NAMES.get(log, log)} {render_ns(ns)}" for log, ns in shown.drop_nulls().iter_rows())
        kind = timed["kind"][0]
        told += f"; doorbell to GPU start, P50 of the best queue: {_list(waits)}"
        told += "" if kind == _KERNELS else f" (of {kind} packets, not of kernels)"
    return f"{told}; `tracecorr experiment preempt` can show it"


def _describe_service(evidence: Evidence) -> list[str]:
    """Return how long the packets of each priority waited, if queues of several priorities were timed."""
    rows = _choose_kind(evidence.service.filter(pl.col("timed") > 0))
    if rows.is_empty():
        return [_describe_unserved(evidence)]
    kind = rows["kind"][0]
    rows, shown = _choose_compared(rows, evidence)
    lines = [
        f"queue {row['queue']} (log priority {_or_unknown(row['priority_log'])}{row['where']}): doorbell to GPU start "
        f"{render_ns(row['start_p50_ns'])} P50, {render_ns(row['start_p95_ns'])} P95 of {row['timed']} {kind} packets, "
        f"{_describe_error(row['start_error_ns'])}"
        for row in shown.iter_rows(named=True)
    ]
    if rows.height > shown.height:
        lines.append(f"... and {rows.height - shown.height} more queues: section Waiting for the GPU by priority")
    if kind != _KERNELS:
        lines.append(
            f"these are {kind} packets, not kernels (no kernels of two priorities were timed): each starts when the "
            "packets before it are done, so its wait includes their time and does not show how long a kernel waits"
        )
    return [
        *lines,
        "a queue that waits less may only have less work: `tracecorr experiment preempt` compares alone and together",
    ]


def _describe_unserved(evidence: Evidence) -> str:
    """Return why nothing tells whose kernels are served first, and what would."""
    timed, rung = pl.col("gpu_start_ns").is_not_null(), pl.col("doorbell_evidence").cast(pl.String) == RECORDED
    kernels = evidence.tables("launches").filter(pl.col("kind").cast(pl.String) == _KERNELS)
    counts = collect(kernels.select(n=pl.len(), timed=timed.sum(), rung=rung.sum(), both=(timed & rung).sum())).row(
        0, named=True
    )
    if "amd_log" not in evidence.sources:
        why, tell = "there is no HIP log", "record one (AMD_LOG_LEVEL=5), with GPU times of kernels"
    elif not counts["n"]:
        why, tell = "no kernel is in the log", "launch some, with AMD_LOG_LEVEL=5"
    elif not counts["timed"]:
        why = "no kernel has GPU times"
        tell = "run with profiling on, or import a profile of the same run (--rocprof)"
        tell += "" if counts["rung"] else ", and trace the doorbells"
    elif not counts["both"]:
        why, tell = "no kernel with GPU times has a recorded doorbell", "trace with the doorbell probe"
    else:
        why, tell = "no kernels of two priorities were timed (those of graphs do not count)", "launch such kernels"
    return (
        f"who is served first is unknown: {why}; to know it: {tell}, or compare latencies alone and together with "
        "`tracecorr experiment preempt`"
    )


def _choose_kind(timed: pl.DataFrame) -> pl.DataFrame:
    """Return the rows of one kind of packets with several priorities: kernels, else what most are; or none.

    Packets of a graph wait for each other, so their wait shows nothing about the queue.
    """
    of_kind = timed.group_by("kind").agg(pl.col("timed").sum(), pl.col("priority_log").n_unique().alias("priorities"))
    several = of_kind.filter((pl.col("priorities") > 1) & ~pl.col("kind").str.ends_with(OF_A_GRAPH))
    chosen = several.sort(pl.col("kind") != _KERNELS, -pl.col("timed"), "kind")["kind"].head(1)
    return timed.filter(pl.col("kind").is_in(chosen.implode()))


def _choose_compared(rows: pl.DataFrame, evidence: Evidence) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the queues with `where` (node and GPU, if several), and those to show: of each priority alike."""
    gpus = evidence.tables("gpus").select("gpu", "gpu_id").collect().with_columns(gpu_id_text())
    rows = rows.join(evidence.queues.select("queue", "gpu"), on="queue", how="left", maintain_order="left")
    rows = rows.join(gpus, on="gpu", how="left", maintain_order="left")
    several = rows["gpu"].drop_nulls().n_unique() > 1
    gpu = pl.format("GPU {}", "gpu_id") if several else pl.lit(None, pl.String)
    where = [pl.format(", {}", words).fill_null("") for words in (_name_node(evidence), gpu)]
    rows = rows.with_columns(where=pl.concat_str(where), turn=pl.int_range(pl.len()).over("gpu", "priority_log"))
    # Only queues of one GPU wait for each other.
    order, falls = ["gpu", "priority_log", "queue"], [False, True, False]
    chosen = rows.sort("turn", *order, descending=[False, *falls]).head(_MAX_QUEUES)
    return rows, chosen.sort(order, descending=falls)


def _describe_error(error_ns: int | None) -> str:
    return "with an unknown error" if error_ns is None else f"each known to +- {render_ns(error_ns)}"


def _describe_moves(evidence: Evidence, moves: int) -> str:
    if moves:
        return (
            f"{count_of(moves, 'evictions, suspends or restores', 'eviction, suspend or restore')} of queues recorded"
        )
    smi = any(entry.get("form") == "smi" for entry in evidence.info.get("files") or [])
    if smi or any(re.search(_EVICTIONS, name) for name in evidence.armed):
        return "no eviction, suspend or restore of queues was recorded; preemption by firmware alone leaves no event"
    return "evictions, suspends and restores of queues are not recorded (capture with the KFD's functions, as root)"


def _or_unknown(value: int | None) -> str:
    return "not recorded" if value is None else str(value)


def _list(words: Iterable[str]) -> str:
    return ", ".join(words) or "none"
