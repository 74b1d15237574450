"""Verdicts on packets and doorbells."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import polars as pl

from tracecorr.analyze.evidence import Evidence, because
from tracecorr.analyze.values import collect, count_of, render_ns
from tracecorr.analyze.verdicts.model import EARLIER, RECORD_WHOLE, Finding, claim, failed, passed, unknown
from tracecorr.model.hip_environment import DIRECT_DOORBELL, is_on
from tracecorr.model.kinds import DERIVED, RECORDED
from tracecorr.store.recording import list_late, measure_lateness, rings_doorbells

_BEFORE, _AFTER, _LATE, _LOST, _OPEN = (
    "before_the_trace", "after_the_trace", "before_the_probe", "in_lost_records", "without_known_cause",
)  # fmt: skip
# First words of the reason why a recording began late or ended early -> remedy.
_SINCE = {
    "--delay": "capture with a shorter --delay, or none",
    "--start-on-signal": "send SIGUSR1 earlier, or capture without --start-on-signal",
    "the capture was attached": "start the program under tracecorr capture, not --pid",
    "": "start the kernel trace before the program",
}
_UNTIL = {
    "--duration": "capture with a longer --duration, or none",
    "the capture was killed": "capture again, and let the capture end: Ctrl-C, not kill -9",
    "the trace cannot be written": "make room on the disk of the capture folder, and capture again",
    "only": "make room on the disk of the capture folder, and capture again",
    "": "let the kernel trace last as long as the program",
}
_ASK_EACH = "the column unlinked_reason of `launches` gives the reason for each; start the probe before the program"
_FIRST, _LAST = -(2**63), 2**63 - 1
_TIMES = ("event", "process", "doorbell_lo_ns", "doorbell_hi_ns")


class _Unrecorded(NamedTuple):
    """Hold how many packets have no recorded store by cause, in words (largest first), and the remedy for that."""

    counts: dict[str, int]
    reason: str
    remedy: str


def _explain_unrecorded(evidence: Evidence, is_bare: pl.Expr) -> _Unrecorded | None:
    """Return why packets have no recorded doorbell; None if all have one, or if doorbells were not probed.

    Args:
        evidence: the tables of a capture.
        is_bare: selects the rows of `launches` without one.
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
    """Return event and cause of each packet: the first cause that holds for its whole doorbell interval."""
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
    """Return process, probe_ns: the time until which the doorbells of a process were certainly not probed.

    A library is probed once, when the first process maps it; which library another process uses is unknown.
    """
    late = _list_late(evidence)
    own = {int(entry["pid"]): int(entry["doorbells_ns"]) for entry in late if isinstance(entry.get("pid"), int)}
    earliest = min((int(entry["doorbells_ns"]) for entry in late), default=None)
    processes = evidence.tables("processes").select("process", "pid").collect()
    times = [own.get(pid, earliest) for pid in processes["pid"]]
    return processes.select("process", probe_ns=pl.Series(times, dtype=pl.Int64))


def _list_in_losses(evidence: Evidence, packets: pl.LazyFrame) -> pl.Series:
    """Return the packets with a store that may lie in a span of lost trace records."""
    losses = evidence.tables("losses").filter(pl.col("source").cast(pl.String) == "ftrace")
    spans = losses.select(pl.col("from_ns").fill_null(_FIRST), pl.col("to_ns").fill_null(_LAST))
    if evidence.info.get("state") == "killed":
        # Each CPU had its own buffer, which was no longer read.
        stored = evidence.tables("events").filter(pl.col("layer") == "doorbell")
        spans = pl.concat([spans, stored.select(from_ns=pl.col("ts_ns").max(), to_ns=pl.lit(_LAST, pl.Int64))])
    timed = packets.drop_nulls(["doorbell_lo_ns", "doorbell_hi_ns"])
    inside = timed.join_where(
        spans, pl.col("doorbell_lo_ns") <= pl.col("to_ns"), pl.col("doorbell_hi_ns") >= pl.col("from_ns")
    )
    return collect(inside.select("event").unique())["event"]


def _describe(evidence: Evidence, cause: str, number: int) -> str:
    why = _tell_why(evidence, cause)
    if cause == _BEFORE:
        return f"{number} rang before {'the kernel trace began' if why else 'its first record'}{because(why)}"
    if cause == _AFTER:
        return f"{number} rang after {'the kernel trace ended' if why else 'its last record'}{because(why)}"
    if cause == _LATE:
        late = render_ns(max(map(measure_lateness, _list_late(evidence))))
        return f"{number} rang before the doorbell probe was set, {late} after the library was mapped"
    if cause == _LOST:
        return f"{number} rang where the kernel trace lost records"
    return f"{count_of(number, 'packet')} without a known cause"


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


_SUBMIT = ("DRM_IOCTL_AMDGPU_CS",)
_IS_RECORDED = pl.col("doorbell_evidence").is_in([RECORDED, DERIVED]).fill_null(value=False)
_TRACE = "record a kernel trace with the ioctl system calls and the doorbell probe (uprobe on hsa_signal_store)"


@claim(
    "compute_uses_doorbell",
    "every packet was announced by a store to a hardware doorbell, and the process submitted nothing through the DRM",
    rests_on=("ftrace",),
)
def _compute_uses_doorbell(evidence: Evidence) -> Finding:
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
        return unknown("no ioctl is recorded: a command submission would not be seen", _TRACE, counts)
    intercepted = counts["intercepted_packets"]
    if intercepted:
        return unknown(
            f"{intercepted} packets went to queues that a profiler intercepts: their doorbells are not hardware",
            "run without a profiler", counts,
        )  # fmt: skip
    if counts["recorded"] < packets:
        why = f"{packets - counts['recorded']} of {packets} doorbells were not recorded"
        if _is_direct(evidence):
            return unknown(f"{why}: {_DIRECT}", _INDIRECT, counts, missing)
        causes = _explain_unrecorded(evidence, ~_IS_RECORDED)
        if causes is None:
            return unknown(why, _TRACE, counts, missing)
        return unknown(f"{why}: {causes.reason}", causes.remedy, counts | causes.counts, missing)
    return passed(
        f"all {packets} packets have a recorded doorbell store and there was no command submission",
        counts,
        by_absence=True,
    )


_DIRECT = f"CLR rings doorbells without a call ({DIRECT_DOORBELL}), which no probe sees"
_INDIRECT = f"run without {DIRECT_DOORBELL}"


def _is_direct(evidence: Evidence) -> bool:
    return bool(is_on(evidence.info.get("environment") or {}, DIRECT_DOORBELL))


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
    """Count the system calls inside launching calls, those with set-up work (queue, code, memory) separately."""
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


_IS_BARE = pl.col("doorbell_event").is_null()
_ALONE = "run without a profiler"


@claim(
    "doorbell_per_packet",
    "each packet has a doorbell store of its own (`batched_doorbell_share`, default 0, may share that of another)",
    rests_on=("ftrace", "amd_log"),
)
def _doorbell_per_packet(evidence: Evidence) -> Finding:
    """Count the stores of packets: own ones, those shared with another packet, none."""
    if not evidence.layers.get("doorbell"):
        if evidence.queues["intercepted"].any():
            return unknown(
                "a profiler intercepts the queues: HIP stores to the profiler's signals, not to doorbells", _ALONE
            )
        if _is_direct(evidence):
            return unknown(f"no doorbell store is recorded: {_DIRECT}", _INDIRECT)
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
    # If the probe could not read the value of a store, its index is unknown.
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
    """Return why the packets `bare` have no store."""
    why = f"{bare.len()} of {counts['packets']} packets have no certain doorbell store"
    causes = _explain_unrecorded(evidence, _IS_BARE)
    if causes is None:
        return unknown(why, _ASK_EACH, counts, bare)
    return unknown(f"{why}: {causes.reason}", causes.remedy, counts | causes.counts, bare)


@claim(
    "packet_sequence_complete",
    "the packet indexes of each queue have no gap and no repetition",
    rests_on=("amd_log",),
)
def _packet_sequence_complete(evidence: Evidence) -> Finding:
    """Compare, per queue, the number of indexes with their range."""
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
            f"{missing} missing and {counts['repeated']} occur twice, on {places}: packets that are missing in "
            "the log, or in it twice", counts, wrong["first"], by_absence=True,
        )  # fmt: skip
    bare = counts["packets"] - counts["indexed"]
    if bare:
        return unknown(
            f"{bare} of {counts['packets']} packets were printed without an index (dispatches up to ROCm 6.1, barriers "
            "up to ROCm 6.4), and no doorbell store has it",
            "ROCm 7.0 and later print the index of every packet; or use the doorbell probe, whose stores have it",
            counts,
        )  # fmt: skip
    said = f"{count_of(counts['indexed'], 'packet')} on {count_of(queues.height, 'queue')}, no index missing"
    return passed(said + (f"; {stored} of the indexes come from the doorbell store" if stored else ""), counts)


def _summarize_indexes(evidence: Evidence) -> pl.DataFrame:
    """Return per queue: packets, indexed, stored (index from the doorbell store), missing and repeated indexes.

    A counted index cannot show a gap, a doorbell store of that index can. Each packet without an index explains one
    missing index.
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
    # The first index is 0 only if the Created line proves that the queue was seen from its start.
    start = pl.when(pl.col("created_line_event").is_not_null()).then(0).otherwise(pl.col("low"))
    unshown, bare = pl.col("high") - start + 1 - pl.col("different"), pl.col("packets") - pl.col("indexed")
    return queues.with_columns(
        missing=pl.max_horizontal(unshown - bare, 0), repeated=pl.col("indexed") - pl.col("different")
    )


CLAIMS = (_compute_uses_doorbell, _doorbell_per_packet, _packet_sequence_complete)
