"""Under which conditions was a capture taken: what was logged, and what did that cost?"""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from tracecorr.analyze.coverage import name_partial
from tracecorr.analyze.frames import collect
from tracecorr.analyze.hip_calls import is_called
from tracecorr.analyze.launches import count_packets
from tracecorr.analyze.run_facts import describe_overhead
from tracecorr.analyze.verdicts.evidence import Evidence
from tracecorr.model.reasons import BEHIND_NULS, BLANK_LINE, NUL_BYTES, PROGRAM_OUTPUT, TORN_RECORD
from tracecorr.store.recording import describe_event_cost

# What the ledger of a log counts that is no line of the runtime, or a part of one that it counts already.
_NO_LINES = (PROGRAM_OUTPUT, BLANK_LINE, NUL_BYTES, BEHIND_NULS, TORN_RECORD)
_NOT_MEASURED = "not measured (tracecorr experiment measures it)"


def describe_conditions(evidence: Evidence) -> dict[str, str]:
    """Return what a reader of a latency must know: log level, log lines per dispatch, trace, doorbell probe.

    The level is the one that capture.json names, else the lowest that prints the lines that were seen
    (ROCm 7.2: calls at 3, copies at 4, packets and commands at 5; before, packets at 4).
    """
    tables, layers = evidence.tables, evidence.layers
    of_log = pl.col("source").cast(pl.String) == "amd_log"
    no_line = pl.col("reason").cast(pl.String).is_in(_NO_LINES).fill_null(value=False)
    lines = collect(tables("ledger").filter(of_log & ~no_line).select(pl.col("records").sum())).item()
    dispatches = collect(tables("launches").filter(pl.col("kind") == "dispatch").select(pl.len())).item()
    per_dispatch = f"{lines / dispatches:.1f}" if lines and dispatches else "-"
    return {
        "AMD_LOG_LEVEL": _log_level(evidence),
        "log lines per dispatch": per_dispatch,
        "kernel trace": _describe_trace(evidence),
        "doorbell probe": "yes" if layers.get("doorbell") else "no",
        "overhead": describe_overhead(evidence.info) or _NOT_MEASURED,
        "cost of an event": describe_event_cost(evidence.info) or "not measured (tracecorr capture measures it)",
    }


def _describe_trace(evidence: Evidence) -> str:
    if not any(evidence.layers.get(layer) for layer in ("syscall", "ioctl", "kfd")):
        return "no"
    part = name_partial(evidence)
    return f"yes, {part}" if part else "yes"


def _log_level(evidence: Evidence) -> str:
    environment = evidence.info.get("environment")
    named = environment.get("AMD_LOG_LEVEL") if isinstance(environment, Mapping) else None
    if named:
        return str(named)
    launches = evidence.tables("launches")
    if count_packets(launches):
        return "4 or more (packets and commands are printed; from ROCm 7.2 on at 5)"
    if evidence.layers.get("command") or collect(launches.select(pl.len())).item():
        return "4 or more (no packet is printed)"
    # A profiler's calls are no lines of a log.
    logged = evidence.tables("events").filter(is_called() | is_called(internal=True)).head(1)
    return "3 or more (no packet is printed)" if collect(logged.select(pl.len())).item() else "no log"


def compare_conditions(first: Mapping[str, str], second: Mapping[str, str]) -> pl.DataFrame:
    """Return one row per condition, with the value of each side."""
    rows = [(name, first[name], second[name]) for name in first]
    return pl.DataFrame(rows, schema={"condition": pl.String, "a": pl.String, "b": pl.String}, orient="row")
