"""Does the priority of a stream arrive: in the log, in UPDATE_QUEUE, in the HQD? (The setting, not preemption.)"""

from __future__ import annotations

import polars as pl

from tracecorr.analyze.priorities import LOG_OF_HIP, QUEUE_OF_LOG
from tracecorr.analyze.values import count_of
from tracecorr.analyze.verdicts.evidence import Evidence
from tracecorr.analyze.verdicts.model import Claim, Finding, failed, has_log, passed, unknown
from tracecorr.model.kinds import INFERRED

_REMEDY = {
    "priority_log": "record the HIP log from before the streams are made",
    "priority_driver": "capture with a probe on kfd_ioctl_update_queue that reads the priority (prio=+20($arg3):u32)",
    "priority_hqd": "add HQD dumps (debugfs kfd/hqds) taken while the queues exist",
}

_IS_SPECIAL = (pl.col("priority_hip") != 0) | (pl.col("priority_log") != 1)
_IS_UNTOLD = pl.col("priority_hip").is_null() & pl.col("priority_log").is_null()


def judge(evidence: Evidence) -> Finding:
    """Follow each priority that is not the normal one; contradiction fails, a missing stage is UNKNOWN."""
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
        said = "no stream is known to have asked for another priority than normal"
        said += f"; of {count_of(untold, 'queue')} the log shows neither a stream nor its creation" if untold else ""
        return unknown(said, "use hipStreamCreateWithPriority, and record the log from the start", counts)
    log = pl.col("priority_hip").replace_strict(LOG_OF_HIP, default=None, return_dtype=pl.Int64)
    queue = pl.col("priority_log").replace_strict(QUEUE_OF_LOG, default=None, return_dtype=pl.Int64)
    # The log's priority is that of the Created line, as is the ioctl; streams and dumps are those of the ring.
    by_ring = (pl.col("priority_log") != log) | (pl.col("priority_hqd") != queue)
    by_line = (pl.col("priority_driver") != queue) | pl.col("update_refused")
    guessed = (pl.col("ring_evidence") == INFERRED).fill_null(value=False)
    wrong = special.filter(by_line | (by_ring & ~guessed))
    if wrong.height:
        # What CREATE_QUEUE asked for is the last word only if no UPDATE_QUEUE followed.
        by_create = wrong.filter(pl.col("update_event").is_null() & ~by_ring.fill_null(value=False))
        return failed(_describe(wrong), counts, wrong["evidence_event"], by_absence=by_create.height == wrong.height)
    unsure = special.filter(by_ring)
    if unsure.height:
        said = f"{_describe(unsure)}, but which ring the line of its creation tells of is inferred"
        return unknown(
            said, "use ROCm 6.2 or later, whose Created lines name the ring", counts, unsure["evidence_event"]
        )
    for stage, remedy in _REMEDY.items():
        lacking = special.filter(pl.col(stage).is_null())
        if lacking.height:
            reached = _describe_reached([s for s in _STAGES if special[s].null_count() == 0])
            said = (
                f"the priority in the {_STAGES[stage]} is not known of {count_of(lacking.height, 'queue')}; {reached}"
            )
            return unknown(said, remedy, counts, special["evidence_event"])
    said = f"the priorities of {count_of(special.height, 'queue')} arrived in the HQD"
    nameless = special["priority_hip"].null_count()
    said += f", from the log on: what the streams of {nameless} asked for is not known" if nameless else ""
    return passed(said, counts, special["evidence_event"])


_STAGES = {"priority_hip": "HIP", "priority_log": "log", "priority_driver": "driver", "priority_hqd": "HQD"}


def _describe_reached(known: list[str]) -> str:
    """Return how far a priority was followed, from the stages that know it of all queues."""
    if known[1:]:
        return f"it agrees as far as the {_STAGES[known[-1]]}"
    if known == ["priority_hip"]:
        return "nothing below the stream is known"
    return f"only that in the {_STAGES[known[0]]} is" if known else "it is not known of all of them anywhere else"


def _describe(wrong: pl.DataFrame) -> str:
    row = wrong.row(0, named=True)
    known = {stage: row[name] for name, stage in _STAGES.items()}
    told = ", ".join(f"{stage} {'not recorded' if value is None else value}" for stage, value in known.items())
    refused = "; its UPDATE_QUEUE was refused" if row["update_refused"] else ""
    which = "it is" if wrong.height == 1 else "the first is"
    return (
        f"the priority of {count_of(wrong.height, 'queue')} did not arrive as asked, {which} queue {row['queue']}: "
        f"{told}{refused}"
    )


def _may_ask(evidence: Evidence) -> bool:
    """Tell whether a program is known that asked for a priority, or of which nobody knows."""
    asked = evidence.priorities
    return has_log(evidence) and (asked.is_empty() or asked.filter(_IS_SPECIAL | _IS_UNTOLD).height > 0)


CLAIM = Claim(
    "priority_reaches_hardware",
    "a stream priority -1/0/1 is 2/1/0 in the log, 11/7/0 in UPDATE_QUEUE and in the HQD (proves the setting, "
    "not that the GPU preempts)",
    ("ftrace",),
    judge,
    _may_ask,
)
