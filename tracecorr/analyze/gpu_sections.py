"""The sections of a report on what the GPUs did: busy, idle, and who waited."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from tracecorr.analyze.answers import Section
from tracecorr.analyze.gpu_busy import AT_LEAST
from tracecorr.analyze.gpu_work import KERNELS
from tracecorr.analyze.lacks import explain_lack
from tracecorr.analyze.launches import NO_DISPATCH
from tracecorr.analyze.verdicts.evidence import Evidence

_UNTIMED = (
    "no kernel has GPU times: how busy the GPU was is not known; run with profiling on, so that the log has `Signal =` "
    "lines of the dispatches themselves (those of barriers, which wait, are no work), or import a profile of the same "
    "run (--rocprof)"
)
_NOT_ALL = "not every kernel is timed, or the log lost lines: where the GPU was idle is not known"
_NO_GAP = "no GPU was ever without a kernel between its first and its last"


def list_gpu_sections(evidence: Evidence, sources: set[str]) -> Iterator[Section]:
    """Yield the sections on the time of the GPUs, in their order.

    Args:
        evidence: the tables of a capture.
        sources: the sources that were read.
    """
    busy = evidence.by_node(lambda node: node.gpu_times.gpus)
    kernels = busy.filter(pl.col("work") == KERNELS)
    lack = _explain_untimed(kernels, sources)
    yield Section(
        "gpu_busy",
        "How busy the GPUs were",
        busy,
        "GPU times are recorded (`Signal =` lines, or rocprof), whose they are is derived. `figures`: `exact` = all "
        "packets that the log shows are timed, and no line of it is known to lack; `at least` = others may have run, "
        "too: busy times are lower bounds, and idle ones are not known; `of the profile` = no kernel of a log is "
        "timed, these are all that a profiler recorded, on its own clock if that is UNALIGNED. `busy` = at least one "
        "ran (what ran at once counts once), `overlap` = those of two queues and more did, `idle` = none did between "
        "the first start and the last end. Of the idle time `unsubmitted` = before the line of the packet that ended "
        "the gap (of a profile: before its call), `in ring` = after its doorbell had been rung for sure. Programs and "
        "queues that are not recorded may have used the GPU. `agent` = the GPU as a profile names it; neither it nor "
        "`gpu` = which GPU these packets ran on is not known: if on several, busy is where one of them was. `error` = "
        "how far a clock may move all of these times together",
        lack,
        nothing=NO_DISPATCH,
    )
    yield Section(
        "queue_busy",
        "How busy the queues were",
        evidence.by_node(lambda node: node.gpu_times.queues),
        "the same of the kernels of each queue; of a profile alone `queue` is the id that it prints",
        lack,
        nothing=NO_DISPATCH,
    )
    yield Section(
        "gpu_gaps",
        "Longest times without a kernel",
        evidence.by_node(lambda node: node.gpu_times.gaps),
        "of each GPU the ten longest. `event` = the packet that ended it, `call` the HIP call that submitted that; "
        "`unsubmitted` and `in ring` as above. `host call` = where the thread of that call was longest in "
        "`unsubmitted`, `outside` = the time of it outside of HIP calls, of which nothing is recorded. `error` = how "
        "far both may lie from the truth. Copies may have run in a gap, and a packet in the ring may wait for another",
        lack or (_NOT_ALL if AT_LEAST in kernels["figures"].to_list() else ""),
        nothing=_NO_GAP,
    )


def _explain_untimed(kernels: pl.DataFrame, sources: set[str]) -> str:
    """Return what is missing where no kernel is timed."""
    if kernels["timed"].sum():
        return ""
    return _UNTIMED if kernels.height else explain_lack(sources, "GPU times are", log=True)
