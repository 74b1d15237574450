"""Is there exactly one doorbell store for each packet?"""

from __future__ import annotations

import polars as pl

from tracecorr.analyze.frames import collect
from tracecorr.analyze.verdicts.evidence import Evidence
from tracecorr.analyze.verdicts.model import Claim, Finding, failed, passed, unknown
from tracecorr.analyze.verdicts.unrecorded import ASK_EACH, explain_unrecorded

_IS_BARE = pl.col("doorbell_event").is_null()
_ALONE = "run without a profiler"


def judge(evidence: Evidence) -> Finding:
    """Count stores per packet: own ones, stores of another packet that announced several, none at all."""
    if not evidence.layers.get("doorbell"):
        if evidence.queues["intercepted"].any():
            return unknown("a profiler intercepts the queues: HIP's stores go to its signals, not to doorbells", _ALONE)
        causes = explain_unrecorded(evidence, _IS_BARE)
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
    causes = explain_unrecorded(evidence, _IS_BARE)
    if causes is None:
        return unknown(why, ASK_EACH, counts, bare)
    return unknown(f"{why}: {causes.reason}", causes.remedy, counts | causes.counts, bare)


CLAIM = Claim(
    "doorbell_per_packet",
    "each packet has a doorbell store of its own (`batched_doorbell_share`, default 0, may share that of another)",
    ("ftrace", "amd_log"),
    judge,
)
