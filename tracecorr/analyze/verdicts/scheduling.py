"""Verdicts on the scheduler, priorities, backlog and quantum of queues, and on deadlocks."""

from __future__ import annotations

import polars as pl

from tracecorr.analyze.evidence import Evidence
from tracecorr.analyze.hangs import End, describe_chain
from tracecorr.analyze.priorities import LOG_OF_HIP, QUEUE_OF_LOG
from tracecorr.analyze.values import count_of
from tracecorr.analyze.verdicts.model import Finding, claim, failed, has_log, has_queues, passed, unknown
from tracecorr.link.hqds import NONE_OF_LOG, shows_none_of_log
from tracecorr.model.hip_environment import HONOUR_PRIORITIES, IGNORES_PRIORITIES, is_on
from tracecorr.model.kinds import INFERRED

# Functions that only one kind of scheduler calls (amdkfd, kernels 5.10 to 7.2).
_HWS = r"_cpsch|^pm_send_|^map_queues_|^unmap_queues_|^execute_queues_"
_MES = r"_queue_mes$|^mes_v\d+"
_NONE = r"_nocpsch|^allocate_hqd$"


@claim(
    "scheduler_mode",
    "the queues are scheduled by firmware (HWS or MES), or as `scheduler` says",
    concerns=has_queues,
)
def _scheduler_mode(evidence: Evidence) -> Finding:
    """Compare functions, HQDs and facts of the host; they must agree."""
    seen = _by_functions(evidence) + _by_hiq(evidence) + _by_facts(evidence)
    found = {mode for mode, _, _ in seen}
    counts = {f"{how}_{mode}": events.len() for mode, how, events in seen}
    rows = pl.concat([e for _, _, e in seen]) if seen else None
    wanted = evidence.thresholds.scheduler
    if not found:
        return unknown(
            "no record shows which scheduler is used",
            "capture with the KFD function probes (pm_send_runlist, add_queue_mes), or with HQD dumps", counts,
        )  # fmt: skip
    if len(found) > 1:
        return failed(f"the sources contradict each other: {', '.join(sorted(found))}", counts, rows)
    mode = found.pop()
    said = f"the scheduler is {mode}" + (f", wanted was {wanted}" if wanted else "")
    good = mode == wanted if wanted else mode in ("HWS", "MES")
    return passed(said, counts, rows) if good else failed(said, counts, rows)


def _by_functions(evidence: Evidence) -> list[tuple[str, str, pl.Series]]:
    functions = evidence.kernel_events.filter(pl.col("layer").is_in(["kfd", "mqd"]))
    patterns = (("none", _NONE), ("HWS", _HWS), ("MES", _MES))
    hits = [(mode, functions.filter(pl.col("name").str.contains(pattern))) for mode, pattern in patterns]
    return [(mode, "functions", rows["event"]) for mode, rows in hits if rows.height]


def _by_hiq(evidence: Evidence) -> list[tuple[str, str, pl.Series]]:
    hiq = evidence.tables("hqd").filter((pl.col("type") == "hiq") & pl.col("active")).select("snapshot").collect()
    return [("HWS", "active_hiq", pl.Series([None] * hiq.height, dtype=pl.Int64))] if hiq.height else []


def _by_facts(evidence: Evidence) -> list[tuple[str, str, pl.Series]]:
    modes = evidence.tables("gpus").select(pl.col("scheduler").cast(pl.String)).collect()["scheduler"].drop_nulls()
    return [(str(mode), "gpus", pl.Series([None], dtype=pl.Int64)) for mode in modes.unique().sort()]


_REMEDY = {
    "priority_log": "record the HIP log from before the streams are made",
    "priority_driver": "capture with a probe on kfd_ioctl_update_queue that reads the priority (prio=+20($arg3):u32)",
    "priority_hqd": "add HQD dumps (debugfs kfd/hqds) taken while the queues exist",
}

_IS_IGNORED = pl.col("ignored").fill_null(value=False)
_IS_SPECIAL = (pl.col("priority_hip") != 0) | (pl.col("priority_log") != 1) | _IS_IGNORED
_IS_UNTOLD = pl.col("priority_hip").is_null() & pl.col("priority_log").is_null()


def _may_ask(evidence: Evidence) -> bool:
    """Tell whether a program requested a priority, or may have done so."""
    asked = evidence.priorities
    return has_log(evidence) and (asked.is_empty() or asked.filter(_IS_SPECIAL | _IS_UNTOLD).height > 0)


@claim(
    "priority_reaches_hardware",
    "a stream priority -1/0/1 is 2/1/0 in the log, 11/7/0 in UPDATE_QUEUE and in the HQD (proves the setting, "
    "not that the GPU preempts)",
    rests_on=("ftrace",),
    concerns=_may_ask,
)
def _priority_reaches_hardware(evidence: Evidence) -> Finding:
    """Follow each priority other than normal: a contradiction is FAIL, a missing stage UNKNOWN."""
    asked = evidence.priorities
    special = asked.filter(_IS_SPECIAL)
    counts = {
        "queues": asked.height,
        "with_special_priority": special.height,
        "refused_updates": special.filter(pl.col("update_refused").fill_null(False)).height,
    }
    if asked.is_empty():
        return unknown("no queue of HIP is known", "record the HIP log from before the streams are made", counts)
    if special.is_empty():
        untold = asked.filter(_IS_UNTOLD).height
        said = "no stream is known to have requested a priority other than normal"
        said += f"; for {count_of(untold, 'queue')} the log shows neither stream nor creation" if untold else ""
        return unknown(said, "use hipStreamCreateWithPriority, and record the log from the start", counts)
    if told := _describe_ignored(evidence, special):
        return failed(f"{told}; {HONOUR_PRIORITIES}", counts, special["evidence_event"])
    log = pl.col("priority_hip").replace_strict(LOG_OF_HIP, default=None, return_dtype=pl.Int64)
    queue = pl.col("priority_log").replace_strict(QUEUE_OF_LOG, default=None, return_dtype=pl.Int64)
    # Log priority and ioctl belong to the Created line, streams and dumps to the ring.
    by_ring = (pl.col("priority_log") != log) | (pl.col("priority_hqd") != queue)
    by_line = (pl.col("priority_driver") != queue) | pl.col("update_refused")
    guessed = (pl.col("ring_evidence") == INFERRED).fill_null(value=False)
    wrong = special.filter(by_line | (by_ring & ~guessed))
    if wrong.height:
        # The priority of CREATE_QUEUE is final only if no UPDATE_QUEUE followed.
        by_create = wrong.filter(pl.col("update_event").is_null() & ~by_ring.fill_null(value=False))
        return failed(_describe(wrong), counts, wrong["evidence_event"], by_absence=by_create.height == wrong.height)
    unsure = special.filter(by_ring)
    if unsure.height:
        said = f"{_describe(unsure)}, but the ring of its creation line is inferred"
        return unknown(
            said, "use ROCm 6.2 or later, whose Created lines name the ring", counts, unsure["evidence_event"]
        )
    for stage, remedy in _REMEDY.items():
        missing = special.filter(pl.col(stage).is_null())
        if missing.height:
            reached = _describe_reached([s for s in _STAGES if special[s].null_count() == 0])
            said = f"the priority in the {_STAGES[stage]} is unknown for {count_of(missing.height, 'queue')}; {reached}"
            return unknown(said, remedy, counts, special["evidence_event"])
    said = f"the priorities of {count_of(special.height, 'queue')} reached the HQD"
    nameless = special["priority_hip"].null_count()
    said += f", from the log on: what the streams of {nameless} requested is unknown" if nameless else ""
    return passed(said, counts, special["evidence_event"])


def _describe_ignored(evidence: Evidence, special: pl.DataFrame) -> str:
    """Return how it shows that the runtime ignores priorities; empty if nothing shows it."""
    ignored = special.filter(_IS_IGNORED)
    if ignored.height:
        return (
            f"the runtime ignores stream priorities: packets on {count_of(ignored.height, 'queue')} of normal priority "
            "print streams of low or high priority"
        )
    unlike = special.filter((pl.col("priority_hip") != 0) & (pl.col("priority_log") == LOG_OF_HIP[0]))
    if unlike.height and is_on(evidence.info.get("environment") or {}, IGNORES_PRIORITIES):
        return f"the runtime ignores stream priorities, as {IGNORES_PRIORITIES} asks for"
    return ""


_STAGES = {"priority_hip": "HIP", "priority_log": "log", "priority_driver": "driver", "priority_hqd": "HQD"}


def _describe_reached(known: list[str]) -> str:
    """Return how far a priority was followed, from the stages at which it is known for all queues."""
    if known[1:]:
        return f"it agrees as far as the {_STAGES[known[-1]]}"
    if known == ["priority_hip"]:
        return "nothing below the stream is known"
    return f"only that in the {_STAGES[known[0]]} is known" if known else "no stage knows it for all of them"


def _describe(wrong: pl.DataFrame) -> str:
    row = wrong.row(0, named=True)
    known = {stage: row[name] for name, stage in _STAGES.items()}
    told = ", ".join(f"{stage} {'not recorded' if value is None else value}" for stage, value in known.items())
    refused = "; its UPDATE_QUEUE was refused" if row["update_refused"] else ""
    which = "" if wrong.height == 1 else "the first is "
    count = count_of(wrong.height, "queue")
    return f"the priority of {count} is not the requested one, {which}queue {row['queue']}: {told}{refused}"


@claim(
    "queue_backlog",
    "no ring fills beyond `backlog_share` of its size (default 0.9; wptr - rptr of the log)",
    rests_on=("amd_log",),
)
def _queue_backlog(evidence: Evidence) -> Finding:
    """Compare the peak of wptr - rptr, an upper bound of the backlog, with the ring size."""
    share = evidence.thresholds.backlog_share
    peaks = evidence.backlog.drop_nulls(["peak", "size"])
    if evidence.backlog["peak"].drop_nulls().is_empty():
        return unknown("the log prints no rptr and wptr", "ROCm 6.2 and later print them at level 5")
    if peaks.is_empty():
        return unknown(_explain_no_size(evidence), "record the log from before the queues are made")
    full = peaks.filter(pl.col("peak") >= share * pl.col("size"))
    top = peaks.sort(pl.col("peak") / pl.col("size"), descending=True).row(0, named=True)
    counts = {
        "queues": peaks.height,
        "full_queues": full.height,
        "peak_packets": top["peak"],
        "ring_packets": top["size"],
    }
    said = f"the fullest queue held at most {top['peak']} of {top['size']} packets"
    return failed(said, counts, full["peak_event"]) if full.height else passed(said, counts, peaks["peak_event"])


def _explain_no_size(evidence: Evidence) -> str:
    fullest = evidence.backlog.sort("peak", descending=True, nulls_last=True).row(0, named=True)
    return (
        f"no ring size is known, as the log does not show how its queues were made; the fullest ring held at most "
        f"{count_of(fullest['peak'], 'packet')} (queue {fullest['queue']})"
    )


_ENABLED = 1  # bit 0 of CP_HQD_QUANTUM


@claim(
    "hqd_quantum",
    "every active compute queue has an enabled quantum in its HQD",
    rests_on=("hqd",),
    concerns=has_queues,
)
def _hqd_quantum(evidence: Evidence) -> Finding:
    """Check CP_HQD_QUANTUM of every active compute slot; only queues of the capture can be FAIL."""
    told = evidence.tables("hqd").select("snapshot", "dump", "type", "active", "quantum", "queue").collect()
    dumps = told.filter(pl.col("dump") == "hqds")
    user = dumps.filter(pl.col("active") & (pl.col("type").cast(pl.String) == "cp") & pl.col("quantum").is_not_null())
    counts = {"snapshots": dumps["snapshot"].n_unique(), "slots": dumps.height, "active_compute_slots": user.height}
    if user.is_empty():
        why = "no dump shows an active compute queue" if dumps.height else "no HQD dump is in the capture"
        return unknown(why, "take HQD dumps while the program runs (debugfs kfd/hqds)", counts)
    values = user["quantum"].unique().sort()
    off = user.filter((pl.col("quantum") & _ENABLED) == 0)
    said = f"{user.height} active compute slots, quantum {', '.join(f'{v:#x}' for v in values)}"
    if shows_none_of_log(told, evidence.queues):
        remedy = "take HQD dumps while the program of this log runs (debugfs kfd/hqds)"
        return unknown(f"{NONE_OF_LOG}; it shows {said}", remedy, counts)
    ours = _list_own(evidence)
    own = off.join(ours, on="queue", how="semi") if ours.height else off
    counts |= {"without_quantum": own.height, "different_quanta": values.len()}
    if own.height:
        return failed(f"{said}; {own.height} have none enabled", counts)
    if off.height:
        counts |= {"without_quantum_of_unknown_queues": off.height}
        said += f"; {off.height} have none enabled, but may be queues of other programs"
        return unknown(said, "trace CREATE_QUEUE with its probe, or take the dumps while nothing else runs", counts)
    return passed(said, counts)


def _list_own(evidence: Evidence) -> pl.DataFrame:
    """Return the queues (one column) of the processes with a log; without a log, all queues."""
    queues = evidence.queues.select("queue", "process")
    logged = evidence.log_processes
    return (queues.filter(pl.col("process").is_in(logged)) if logged else queues).select("queue")


@claim(
    "no_deadlock",
    "there is no circular wait over ring order, dependencies, waited values and waits of the host",
    rests_on=("amd_log",),
)
def _no_deadlock(evidence: Evidence) -> Finding:
    """Follow what each open call waits for; if that ends at something unseen, the verdict is UNKNOWN."""
    if not evidence.layers.get("hip"):
        return unknown("no HIP call is recorded", "record the HIP log (AMD_LOG_LEVEL=5)")
    found = evidence.still_open
    circles = [event for event, chain in found.chains.items() if chain.end is End.CIRCLE and chain.is_gated]
    counts = {"open_calls": found.calls.height, "circles": len(circles)}
    if not found.calls.height:
        return passed("no call was open at the end of the log", counts, by_absence=True)
    names = dict(found.calls.select("event", "name").iter_rows())
    if circles:
        chain = found.chains[circles[0]]
        return failed(f"{names[circles[0]]}: {describe_chain(chain)}", counts, pl.Series([*circles, *chain.events]))
    event, chain = next(iter(found.chains.items()))
    said = f"{names[event]} is open (event {event}): {describe_chain(chain) or 'what it waits for is not in the log'}"
    remedy = "run `tracecorr hang` while it hangs, or record with AMD_LOG_LEVEL=5 from the start"
    return unknown(f"{said}; what a kernel waits for inside cannot be seen", remedy, counts, pl.Series([event]))


CLAIMS = (_no_deadlock, _scheduler_mode, _priority_reaches_hardware, _queue_backlog, _hqd_quantum)
