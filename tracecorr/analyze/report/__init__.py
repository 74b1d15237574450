"""Put the answers together: what `tracecorr report` prints and the page's overview shows."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import polars as pl

from tracecorr.analyze.evidence import Evidence, count_at_least, list_partial
from tracecorr.analyze.launches import count_packets
from tracecorr.analyze.queues import count_doubled
from tracecorr.analyze.report.answers import Report, Section
from tracecorr.analyze.report.questions import answer_everything
from tracecorr.analyze.report.sections import list_sections
from tracecorr.analyze.run_facts import describe_run
from tracecorr.analyze.values import Tables, collect
from tracecorr.analyze.verdicts import Thresholds, judge_capture
from tracecorr.store.recording import count_read

__all__ = ["Report", "Section", "summarize_capture"]


def summarize_capture(
    name: str,
    tables: Tables,
    info: Mapping[str, Any] | None = None,
    thresholds: Thresholds | None = None,
    claims: Collection[str] = (),
    nodes: Mapping[str, Tables] | None = None,
) -> Report:
    """Return the report of a capture, from its tables.

    Args:
        name: name of the capture.
        tables: gives the table of a capture by its name.
        info: contents of capture.json, which names what was armed.
        thresholds: limits that verdicts judge by.
        claims: names of the verdicts wanted; all when empty.
        nodes: of a dataset, what gives the tables of each node.

    Raises:
        InputError: there is no such claim.
    """
    evidence = Evidence(tables, thresholds, info, nodes)
    sections = tuple(list_sections(evidence))
    verdicts = tuple(judge_capture(evidence, names=claims))
    answers = answer_everything(evidence, verdicts)
    summary = _summarize(evidence, {s.key: s.frame for s in sections})
    ledger = tables("ledger").collect()
    return Report(name, summary, sections, verdicts, answers, tuple(describe_run(info or {}, read=count_read(ledger))))


# A source with less than this part of the events does not make the usual error: early lines of the kernel's log.
_HARDLY_ANY = 100


def _count_dispatched(tables: Tables) -> int:
    """Return how many kernels were dispatched; nodes of a dataset have a row each for the same kernel."""
    dispatched = tables("launches").filter(pl.col("kind").cast(pl.String) == "dispatch").select("kernel")
    named = (
        tables("kernels").join(dispatched, on="kernel", how="semi").select(pl.coalesce("name", "display").n_unique())
    )
    return int(collect(named).item())


def _count_rows(table: pl.LazyFrame) -> int:
    return int(collect(table.select(pl.len())).item())


def _summarize(evidence: Evidence, frames: dict[str, pl.DataFrame]) -> dict[str, Any]:
    tables, sources = evidence.tables, evidence.sources
    packets, clocks = frames["launches"], frames["clocks"]
    errors = frames["time_errors"]
    return {
        "sources": sorted(sources),
        "hip_calls": _total(frames["hip_calls"], "calls"),
        "hip_internal": _total(frames["hip_internal"], "calls"),
        "ioctls": _total(frames["ioctls"], "calls"),
        "queues": frames["queues"].height,
        "queues_doubled": count_doubled(frames["queues"]),
        "streams": frames["streams"].height,
        "kernels": _count_dispatched(tables),
        "kernels_named": _count_rows(tables("kernels")),
        "launches_named": _total(frames["kernels"], "named"),
        "drm_jobs": _count_rows(tables("drm_jobs")),
        "profiled": evidence.profiled,
        "rocprof": _count_domains(frames["rocprof"]) if "rocprof" in sources else None,
        "dispatches": _total(packets.filter(pl.col("kind") == "dispatch"), "packets"),
        "packets_and_copies": _total(packets, "packets"),
        "packets": count_packets(tables("launches")),
        "doorbell_stores": evidence.layers.get("doorbell", 0),
        "doorbells_recorded": _total(packets, "doorbell_recorded"),
        "doorbells_inferred": _total(packets, "doorbell_inferred"),
        **_summarize_clocks(clocks),
        "time_error_p50_ns": errors.filter(pl.col("events") * _HARDLY_ANY >= pl.col("events").sum())["p50_ns"].max(),
        "time_error_ns": errors["max_ns"].max(),
        "widest_clock": _name_widest(clocks),
        "time_error_unknown": _total(errors, "error_unknown"),
        "records_lost": _total(frames["losses"], "lost"),
        "losses_untold": _total(frames["losses"], "untold"),
        "losses_at_least": count_at_least(frames["losses"]),
        "trace_losses": _total(frames["losses"].filter(pl.col("source") == "ftrace"), "spans"),
        "trace_covers": list(list_partial(evidence)),
        "killed": evidence.info.get("state") == "killed",
    }


def _summarize_clocks(clocks: pl.DataFrame) -> dict[str, Any]:
    """Return how many clocks there are, those that are unaligned, and the nodes of a dataset that have only one.

    Such a node's clock is unaligned with nothing; of a dataset `clocks` are those of the node that has most.
    """
    unaligned = clocks.filter(pl.col("method") == "unaligned")
    if "node" not in clocks.columns:
        return {"unaligned": sorted(set(unaligned["source"].drop_nulls())), "clocks": clocks["source"].n_unique()}
    counted = clocks.group_by("node", maintain_order=True).agg(pl.col("source").n_unique())
    alone = counted.filter(pl.col("source") == 1)["node"].to_list()
    apart = unaligned if len(alone) == counted.height else unaligned.filter(~pl.col("node").is_in(alone))
    named = apart.select(pl.format("{} of {}", "source", "node"))
    return {
        "unaligned": named.to_series().unique().sort().to_list(),
        "clocks": counted["source"].max() or 0,
        "nodes_of_one_clock": alone,
    }


def _name_widest(clocks: pl.DataFrame) -> str | None:
    """Return the clock with the widest bounds; None if all are exact."""
    wide = clocks.filter(pl.col("error_ns") > 0).sort("error_ns")
    return str(wide["source"][-1]) if wide.height else None


def _count_domains(profile: pl.DataFrame) -> dict[str, int]:
    return dict(profile.group_by("domain", maintain_order=True).agg(pl.col("calls").sum()).iter_rows())


def _total(frame: pl.DataFrame, column: str) -> int:
    return int(frame[column].sum() or 0)
