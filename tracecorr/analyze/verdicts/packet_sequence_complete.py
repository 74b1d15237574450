"""Are the packet indexes of each queue without a gap?"""

from __future__ import annotations

import polars as pl

from tracecorr.analyze.frames import collect
from tracecorr.analyze.values import count_of
from tracecorr.analyze.verdicts.evidence import Evidence
from tracecorr.analyze.verdicts.model import Claim, Finding, failed, passed, unknown
from tracecorr.model.kinds import RECORDED


def judge(evidence: Evidence) -> Finding:
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


CLAIM = Claim(
    "packet_sequence_complete", "the packet indexes of each queue have no gap and no repetition", ("amd_log",), judge
)
