"""Verdicts on packets and doorbells."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import polars as pl

from tracecorr.analyze.evidence import Evidence, because
from tracecorr.analyze.frames import collect
from tracecorr.analyze.values import count_of, render_ns
from tracecorr.analyze.verdicts.model import EARLIER, RECORD_WHOLE, Claim, Finding, failed, passed, unknown
from tracecorr.model.kinds import DERIVED, RECORDED
from tracecorr.store.recording import list_late, measure_lateness, rings_doorbells

_BEFORE, _AFTER, _LATE, _LOST, _OPEN = (
    "before_the_trace", "after_the_trace", "before_the_probe", "in_lost_records", "without_known_cause",
)  # fmt: skip
# How the reason begins for which a recording began late or ended early -> what helps.
_SINCE = {
    "--delay": "capture with a shorter --delay, or none",
    "--start-on-signal": "send SIGUSR1 earlier, or capture without --start-on-signal",
    "the capture was attached": "start the program under tracecorr capture, not --pid",
    "": "start the kernel trace before the program",
}
_UNTIL = {
    "--duration": "capture with a longer --duration, or none",
    "the capture was killed": "capture again, and let the capture end: Ctrl-C, not kill -9",
    "the trace cannot be written": "make room on the disk where the capture lands, and capture again",
    "only": "make room on the disk where the capture lands, and capture again",
    "": "let the kernel trace last as long as the program",
}
_ASK_EACH = "the column unlinked_reason of `launches` says why for each; start the probe before the program"
_FIRST, _LAST = -(2**63), 2**63 - 1
_TIMES = ("event", "process", "doorbell_lo_ns", "doorbell_hi_ns")


class _Unrecorded(NamedTuple):
    """Hold how many packets have no recorded store for which cause, in words the largest first, and its remedy."""

    counts: dict[str, int]
    reason: str
    remedy: str


def _explain_unrecorded(evidence: Evidence, is_bare: pl.Expr) -> _Unrecorded | None:
    """Return why packets have no recorded doorbell; None where all have one, or there was no probe for doorbells.

    Args:
        evidence: the tables of a capture.
        is_bare: which rows of `launches` have none.
    """
    if not _was_probed(evidence):
        return None
    causes = collect(_name_causes(evidence, evidence.packets.filter(is_bare).select(_TIMES)))
    counted = causes.group_by("cause").len().sort(["len", "cause"], descending=[True, False])
    counts = {str(cause): int(number) for cause, number in counted.iter_rows()}
    if not counts:
        return None
    told = ", ".join(_describe(evidence, cause, number) for cause, number in counts.items())
    return _Unrecorded(counts, told, _find_remedy(evidence, next(iter(counts))))


def _was_probed(evidence: Evidence) -> bool:
    late = (evidence.info.get("plan") or {}).get("late") or []
    return evidence.saw("doorbell", "doorbell") or any(rings_doorbells(entry) for entry in late)


def _name_causes(evidence: Evidence, packets: pl.LazyFrame) -> pl.LazyFrame:
    """Return `packets` with the cause of each: the first of those that its interval leaves no doubt about."""
    low, high = pl.col("doorbell_lo_ns"), pl.col("doorbell_hi_ns")
    span = evidence.coverage
    began, ended = (span.trace_from_ns, span.trace_to_ns) if span else (None, None)
    joined = packets.join(_probe_times(evidence).lazy(), on="process", how="left")
    cause = (
        pl.when(high < pl.lit(began, pl.Int64)).then(pl.lit(_BEFORE))
        .when(low > pl.lit(ended, pl.Int64)).then(pl.lit(_AFTER))
        .when(high < pl.col("probe_ns")).then(pl.lit(_LATE))
        .when(pl.col("event").is_in(_list_in_losses(evidence, packets).implode())).then(pl.lit(_LOST))
        .otherwise(pl.lit(_OPEN))
    )  # fmt: skip
    return joined.select("event", cause=cause)


def _probe_times(evidence: Evidence) -> pl.DataFrame:
    """Return for each process the moment up to which its doorbells were surely not probed: process, probe_ns.

    A library is probed once, when the first process maps it: of another process it is not known which one it uses.
    """
    late = _list_late(evidence)
    own = {int(entry["pid"]): int(entry["doorbells_ns"]) for entry in late if isinstance(entry.get("pid"), int)}
    earliest = min((int(entry["doorbells_ns"]) for entry in late), default=None)
    processes = evidence.tables("processes").select("process", "pid").collect()
    times = [own.get(pid, earliest) for pid in processes["pid"]]
    return processes.select("process", probe_ns=pl.Series(times, dtype=pl.Int64))


def _list_in_losses(evidence: Evidence, packets: pl.LazyFrame) -> pl.Series:
    """Return the packets whose store may lie where the trace lost records; an open side of a span bounds nothing."""
    losses = evidence.tables("losses").filter(pl.col("source").cast(pl.String) == "ftrace")
    spans = losses.select(pl.col("from_ns").fill_null(_FIRST), pl.col("to_ns").fill_null(_LAST))
    if evidence.info.get("state") == "killed":
        # Each CPU had a buffer of its own that nobody read any more.
        stored = evidence.tables("events").filter(pl.col("layer") == "doorbell")
        spans = pl.concat([spans, stored.select(from_ns=pl.col("ts_ns").max(), to_ns=pl.lit(_LAST, pl.Int64))])
    timed = packets.drop_nulls(["doorbell_lo_ns", "doorbell_hi_ns"])
    inside = timed.join_where(
        spans, pl.col("doorbell_lo_ns") <= pl.col("to_ns"), pl.col("doorbell_hi_ns") >= pl.col("from_ns")
    )
    return collect(inside.select("event").unique())["event"]


def _describe(evidence: Evidence, cause: str, number: int) -> str:
    if cause == _BEFORE:
        why = _tell_why(evidence, cause)
        begin = "the kernel trace began" if why else "the first record of the kernel trace"
        return f"{number} rang before {begin}{because(why)}"
    if cause == _AFTER:
        why = _tell_why(evidence, cause)
        end = "the kernel trace ended" if why else "the last record of the kernel trace"
        return f"{number} rang after {end}{because(why)}"
    if cause == _LATE:
        return f"{number} rang before the doorbell probe was set, {_describe_late(evidence)}"
    if cause == _LOST:
        return f"{number} rang where the kernel trace lost records"
    return f"of {count_of(number, 'packet')} no cause is known"


def _describe_late(evidence: Evidence) -> str:
    return f"{render_ns(max(map(measure_lateness, _list_late(evidence))))} after the library was seen to be mapped"


def _list_late(evidence: Evidence) -> list[Mapping[str, Any]]:
    return [entry for entry in list_late(evidence.info.get("plan") or {}) if rings_doorbells(entry)]


def _find_remedy(evidence: Evidence, cause: str) -> str:
    if cause in (_BEFORE, _AFTER):
        why, known = _tell_why(evidence, cause), _SINCE if cause == _BEFORE else _UNTIL
        return next(remedy for begin, remedy in known.items() if why.startswith(begin))
    return {_LATE: EARLIER, _LOST: RECORD_WHOLE, _OPEN: _ASK_EACH}[cause]


def _tell_why(evidence: Evidence, cause: str) -> str:
    span = evidence.coverage
    return "" if span is None else span.began if cause == _BEFORE else span.ended


_SUBMIT = ("DRM_IOCTL_AMDGPU_CS", "DRM_IOCTL_AMDGPU_USERQ_SIGNAL")
_IS_RECORDED = pl.col("doorbell_evidence").is_in([RECORDED, DERIVED]).fill_null(value=False)
_TRACE = "record a kernel trace with the ioctl system calls and the doorbell probe (uprobe on hsa_signal_store)"


def _judge_compute_uses_doorbell(evidence: Evidence) -> Finding:
    """Look for a recorded store to a hardware doorbell for each packet, and for command submissions."""
    counts, missing = _count_packets(evidence)
    submissions = _submissions(evidence)
    counts |= {"drm_command_submissions": submissions.len()} | _count_syscalls(evidence)
    packets = counts["packets"]
    if not packets:
        return unknown("no packet is recorded", "record the HIP log with AMD_LOG_LEVEL=5", counts)
    if submissions.len():
        return failed(f"the process submitted {submissions.len()} command buffers through the DRM", counts, submissions)
    if not evidence.saw("ioctl", "sys_enter_ioctl"):
        return unknown("no ioctl is recorded: a command submission would not have been seen", _TRACE, counts)
    intercepted = counts["intercepted_packets"]
    if intercepted:
        return unknown(
            f"{intercepted} packets went to queues that a profiler intercepts: their doorbells are no hardware's",
            "run without a profiler", counts,
        )  # fmt: skip
    if counts["recorded"] < packets:
        why = f"{packets - counts['recorded']} of {packets} doorbells were not recorded"
        causes = _explain_unrecorded(evidence, ~_IS_RECORDED)
        if causes is None:
            return unknown(why, _TRACE, counts, missing)
        return unknown(f"{why}: {causes.reason}", causes.remedy, counts | causes.counts, missing)
    return passed(
        f"all {packets} packets have a recorded doorbell store and no command submission was made",
        counts,
        by_absence=True,
    )


def _count_packets(evidence: Evidence) -> tuple[dict[str, int], pl.Series]:
    rows = collect(
        evidence.packets.select(
            packets=pl.len(), recorded=_IS_RECORDED.sum(), inferred=(pl.col("doorbell_evidence") == "inferred").sum(),
            missing=pl.col("event").filter(~_IS_RECORDED).head(20).implode(),
        )
    )  # fmt: skip
    queues = evidence.queues.filter(pl.col("intercepted").fill_null(False))
    hidden = collect(evidence.packets.filter(pl.col("queue").is_in(queues["queue"].implode())).select(pl.len())).item()
    counts = {name: int(rows[name].item()) for name in ("packets", "recorded", "inferred")}
    return counts | {"intercepted_packets": int(hidden)}, rows["missing"].explode()


def _submissions(evidence: Evidence) -> pl.Series:
    rows = evidence.of_layer("ioctl", *_SUBMIT)
    return rows.filter(pl.col("process").is_in(evidence.log_processes))["event"]


def _count_syscalls(evidence: Evidence) -> dict[str, int]:
    """Count the system calls inside launching calls: with set-up work (queue, code, memory) apart from steady ones."""
    inside = collect(
        evidence.tables("events")
        .filter(pl.col("layer").is_in(["syscall", "ioctl"]) & pl.col("chain").is_not_null())
        .select("event", "chain", pl.col("name").cast(pl.String))
    )
    dispatches = evidence.packets.filter(pl.col("kind") == "dispatch").select(chain="call_event")
    launching = collect(dispatches.join(inside.lazy().select("chain").unique(), on="chain", how="semi")).unique()
    inside = inside.join(launching, on="chain", how="semi")
    steady = inside.join(evidence.setup_calls, on="chain", how="anti")
    names = steady.group_by("name").len().sort(["len", "name"], descending=[True, False])
    return {
        "syscalls_in_setup_launches": inside.height - steady.height,
        "syscalls_in_steady_launches": steady.height,
    } | {f"steady_{name}": int(count) for name, count in names.iter_rows()}


COMPUTE_USES_DOORBELL = Claim(
    "compute_uses_doorbell",
    "every packet was announced by a store to a hardware doorbell, and the process submitted nothing through the DRM",
    ("ftrace",),
    _judge_compute_uses_doorbell,
)


_IS_BARE = pl.col("doorbell_event").is_null()
_ALONE = "run without a profiler"


def _judge_doorbell_per_packet(evidence: Evidence) -> Finding:
    """Count stores per packet: own ones, stores of another packet that announced several, none at all."""
    if not evidence.layers.get("doorbell"):
        if evidence.queues["intercepted"].any():
            return unknown("a profiler intercepts the queues: HIP's stores go to its signals, not to doorbells", _ALONE)
        causes = _explain_unrecorded(evidence, _IS_BARE)
        if causes is not None:
            return unknown(f"no doorbell store is recorded: {causes.reason}", causes.remedy, causes.counts)
        return unknown("no doorbell store is recorded", "capture with the doorbell probe (uprobe on hsa_signal_store)")
    rows = evidence.tables("events").filter(pl.col("layer") == "doorbell")
    stores = collect(rows.select("queue", "packet_index", doorbell_event="event"))
    values = stores.lazy().select("doorbell_event", value="packet_index")
    packets = collect(
        evidence.packets.select("event", "packet_index", "doorbell_event").join(values, on="doorbell_event", how="left")
    )
    batched = packets.filter(pl.col("value") != pl.col("packet_index"))
    bare = packets.filter(_IS_BARE)
    # A store whose value the probe could not read is of no known index.
    repeated = stores.drop_nulls(["queue", "packet_index"]).filter(pl.len().over("queue", "packet_index") > 1)
    again = repeated.select("queue", "packet_index").n_unique()
    counts = {
        "packets": packets.height, "stores": evidence.layers["doorbell"],
        "own_store": packets.height - batched.height - bare.height, "batched": batched.height, "without": bare.height,
        "stored_twice": again,
    }  # fmt: skip
    if packets.is_empty():
        return unknown("no packet is recorded", "record the HIP log with AMD_LOG_LEVEL=5", counts)
    if bare.height:
        return _explain_bare(evidence, counts, bare["event"])
    if again or batched.height > evidence.thresholds.batched_doorbell_share * packets.height:
        return failed(
            f"{batched.height} of {packets.height} packets share the store of another packet (graph launches do), "
            f"{again} indexes were stored more than once", counts,
            pl.concat([batched["event"], repeated["doorbell_event"]]),
        )  # fmt: skip
    return passed(f"{packets.height} packets, each with its doorbell store", counts)


def _explain_bare(evidence: Evidence, counts: dict[str, int], bare: pl.Series) -> Finding:
    """Return why packets have no store of their own: they are `bare`."""
    why = f"{bare.len()} of {counts['packets']} packets have no doorbell store that is surely theirs"
    causes = _explain_unrecorded(evidence, _IS_BARE)
    if causes is None:
        return unknown(why, _ASK_EACH, counts, bare)
    return unknown(f"{why}: {causes.reason}", causes.remedy, counts | causes.counts, bare)


DOORBELL_PER_PACKET = Claim(
    "doorbell_per_packet",
    "each packet has a doorbell store of its own (`batched_doorbell_share`, default 0, may share that of another)",
    ("ftrace", "amd_log"),
    _judge_doorbell_per_packet,
)


def _judge_packet_sequence_complete(evidence: Evidence) -> Finding:
    """Compare, per queue, how many indexes there are with how far they reach."""
    queues = _summarize_indexes(evidence)
    counts = {
        "queues": queues.height,
        **{name: int(queues[name].sum() or 0) for name in ("packets", "indexed", "missing", "repeated")},
    }
    if stored := int(queues["stored"].sum() or 0):
        counts["indexed_by_store"] = stored
    if queues.is_empty():
        return unknown("no packet is recorded", "record the HIP log with AMD_LOG_LEVEL=5", counts)
    wrong = queues.filter((pl.col("missing") > 0) | (pl.col("repeated") > 0))
    if wrong.height:
        missing, places = count_of(counts["missing"], "indexes are", "index is"), count_of(wrong.height, "queue")
        return failed(
            f"{missing} missing and {counts['repeated']} occur twice, on {places}: packets that the log does not show, "
            "or shows twice", counts, wrong["first"], by_absence=True,
        )  # fmt: skip
    bare = counts["packets"] - counts["indexed"]
    if bare:
        return unknown(
            f"{bare} of {counts['packets']} packets were printed without an index (dispatches up to ROCm 6.1, barriers "
            "up to ROCm 6.4), and no doorbell store shows it",
            "ROCm 7.0 and later print the index of every packet; capture with the doorbell probe: a store shows it",
            counts,
        )  # fmt: skip
    said = f"{count_of(counts['indexed'], 'packet')} on {count_of(queues.height, 'queue')}, no index missing"
    return passed(said + (f"; of {stored} the doorbell store shows it" if stored else ""), counts)


def _summarize_indexes(evidence: Evidence) -> pl.DataFrame:
    """Return per queue: packets, those of a known index, the indexes that no packet has, and those that two have.

    An index that was counted shows no gap, but a doorbell store of that index does. Where packets have none, as many
    of the missing indexes are theirs.
    """
    printed = pl.col("wptr").is_not_null()
    stored = ~printed & (pl.col("doorbell_evidence") == RECORDED).fill_null(value=False)
    index = pl.when(printed | stored).then("packet_index")
    queues = collect(
        evidence.packets.drop_nulls("queue").group_by("queue").agg(
            packets=pl.len(), indexed=index.count(), stored=stored.sum(), different=index.drop_nulls().n_unique(),
            low=index.min(), high=index.max(), first=pl.col("event").first(),
        )
    ).join(evidence.queues.select("queue", "created_line_event"), on="queue", how="left")  # fmt: skip
    # The first index is 0, but only the Created line proves that the queue was seen from its start.
    start = pl.when(pl.col("created_line_event").is_not_null()).then(0).otherwise(pl.col("low"))
    unshown, bare = pl.col("high") - start + 1 - pl.col("different"), pl.col("packets") - pl.col("indexed")
    return queues.with_columns(
        missing=pl.max_horizontal(unshown - bare, 0), repeated=pl.col("indexed") - pl.col("different")
    )


PACKET_SEQUENCE_COMPLETE = Claim(
    "packet_sequence_complete",
    "the packet indexes of each queue have no gap and no repetition",
    ("amd_log",),
    _judge_packet_sequence_complete,
)
