"""Which part of the HIP log does the kernel trace cover, and why no more of it?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl

from tracecorr.store.fleet import Tables
from tracecorr.store.recording import is_attached

# A trace that begins or ends with the log differs from it by less than this, and by less than this share of it: what
# is there first and last of either is chance.
_LEAST_NS, _LEAST_SHARE = 1_000_000, 0.01
# How a recording ends that lasted as long as its workload.
_USUAL_END = "the workload ended"


@dataclass(frozen=True)
class Coverage:
    """Hold the first and the last moment of the rows of the log and of the kernel trace, on the common clock.

    Args:
        log_from_ns, log_to_ns: of the HIP log.
        trace_from_ns, trace_to_ns: of the kernel trace.
        began, ended: why the trace began late and ended early, as far as the capture knows; else empty.
    """

    log_from_ns: int
    log_to_ns: int
    trace_from_ns: int
    trace_to_ns: int
    began: str = ""
    ended: str = ""

    @property
    def late_ns(self) -> int:
        """Return how much of the log lies before the trace, 0 if that is next to nothing."""
        return self._beyond(min(self.trace_from_ns, self.log_to_ns) - self.log_from_ns, self.began)

    @property
    def early_ns(self) -> int:
        """Return how much of the log lies behind the trace, 0 if that is next to nothing."""
        return self._beyond(self.log_to_ns - max(self.trace_to_ns, self.log_from_ns), self.ended)

    @property
    def covered_ns(self) -> int:
        """Return how much of the log lies in the time of the trace."""
        return max(min(self.log_to_ns, self.trace_to_ns) - max(self.log_from_ns, self.trace_from_ns), 0)

    @property
    def log_ns(self) -> int:
        """Return how long the log lasts."""
        return self.log_to_ns - self.log_from_ns

    @property
    def is_whole(self) -> bool:
        """Tell whether the trace covers the log from end to end."""
        return not self.late_ns and not self.early_ns

    def _beyond(self, ns: int, why: str) -> int:
        least = _LEAST_NS if why else max(_LEAST_NS, _LEAST_SHARE * self.log_ns)
        return ns if ns > least else 0


def measure_coverage(tables: Tables, info: Mapping[str, Any] | None = None) -> Coverage | None:
    """Return what the kernel trace covers; None without log or trace, or where the trace's clock is not known.

    Args:
        tables: gives the table of a capture by its name.
        info: contents of capture.json, which tells why a trace began late or ended early.
    """
    methods = tables("clock_map").select(pl.col("source", "method").cast(pl.String))
    unaligned = pl.col("source").str.starts_with("ftrace") & (pl.col("method") == "unaligned")
    if methods.select(unaligned.any()).collect().item():
        return None
    found = _span_sources(tables)
    if "amd_log" not in found or "ftrace" not in found:
        return None
    return Coverage(*found["amd_log"], *found["ftrace"], _explain_start(info or {}), _explain_end(info or {}))


def _span_sources(tables: Tables) -> dict[str, tuple[int, int]]:
    """Return first and last moment of each source; times of the GPU are those of the work, not of its lines."""
    events = tables("events")
    # Who draws holds a part of the columns.
    key = "source" if "source" in events.collect_schema() else "file"
    if key == "file" and not {"amd_log", "ftrace"} <= set(tables("files").select("source").collect()["source"]):
        return {}
    end = pl.col("ts_ns") + pl.col("dur_ns").fill_null(0)
    rows = events.filter(pl.col("layer") != "gpu").group_by(key).agg(first=pl.col("ts_ns").min(), last=end.max())
    if key == "file":
        rows = rows.join(tables("files").select("file", "source"), on="file")
    found = rows.group_by(pl.col("source").cast(pl.String)).agg(pl.col("first").min(), pl.col("last").max())
    return {source: (first, last) for source, first, last in found.drop_nulls().collect(engine="streaming").iter_rows()}


def _explain_start(info: Mapping[str, Any]) -> str:
    """Return why the recording began while the workload ran already; empty if it did not, or it is not known."""
    told = str(info.get("start_reason") or "")
    return told or ("the capture was attached to a running process" if is_attached(info) else "")


def _explain_end(info: Mapping[str, Any]) -> str:
    """Return why the recording ended before its workload; empty if it did not, or it is not known."""
    if info.get("state") == "killed":
        return "the capture was killed"
    told = str(info.get("end_reason") or "")
    return "" if told == _USUAL_END else told
