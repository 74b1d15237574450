"""What a section of the report lacks, and how to get it; each text is empty where nothing is missing."""

from __future__ import annotations

import polars as pl

from tracecorr.analyze.frames import Tables
from tracecorr.analyze.launches import NO_PACKET, ONLY_NAMED, count_packets
from tracecorr.link.queues.hqds import NONE_OF_LOG, shows_none_of_log

_NO_LOG = "no AMD log: {} unknown; import with --amd-log"
_NO_TRACE = "no ftrace: {} unknown; import with --ftrace"
_PROFILED_KERNELS = "no AMD log: dispatches unknown; section What rocprof timed has the kernels of the profile"


def explain_lack(sources: set[str], what: str, *, log: bool = False, trace: bool = False) -> str:
    """Return which of the sources that a section needs were not read.

    Args:
        sources: those that were read.
        what: what is unknown without them.
        log, trace: whether the section needs the HIP log, the kernel trace.
    """
    needs = ((_NO_LOG, log, "amd_log"), (_NO_TRACE, trace, "ftrace"))
    return "; ".join(text.format(what) for text, is_needed, source in needs if is_needed and source not in sources)


def explain_lack_of_packets(tables: Tables, sources: set[str]) -> str:
    """Return that the HIP log shows no packet."""
    return NO_PACKET if "amd_log" in sources and not count_packets(tables("launches")) else ""


def explain_lack_of_doorbells(packets: pl.DataFrame) -> str:
    """Return that no doorbell store was traced.

    Args:
        packets: as `launches.summarize_launches` returns them.
    """
    if packets.filter(pl.col("kind") != "copy").is_empty():
        return NO_PACKET
    if packets["doorbell_recorded"].sum():
        return ""
    return "no recorded doorbell: their times are intervals; trace with the doorbell probe (uprobe on hsa_signal_store)"


def explain_lack_of_dumps(tables: Tables) -> str:
    """Return that none of the queues of a dump is one of the log."""
    return NONE_OF_LOG if shows_none_of_log(tables("hqd").collect(), tables("queues").collect()) else ""


def explain_lack_of_kernels(kernels: pl.DataFrame, sources: set[str]) -> str:
    """Return that no dispatch is known, or that none has GPU times.

    Args:
        kernels: as `kernels.summarize_named` returns them.
        sources: those that were read.
    """
    if "amd_log" not in sources:
        return _PROFILED_KERNELS if "rocprof" in sources else explain_lack(sources, "kernels", log=True)
    if kernels["named"].sum() and not kernels["dispatches"].sum():
        return ONLY_NAMED
    if kernels.is_empty() or kernels["gpu_timed"].sum():
        return ""
    return (
        "no dispatch has GPU times: kernel durations unknown; run with profiling on, so that the log has `Signal =` "
        "lines of the dispatches themselves (those of barriers do not tell a kernel's time)"
    )
