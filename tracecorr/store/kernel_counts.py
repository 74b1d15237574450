"""What a capture counted of the kernel's records, compared with what its files hold: the rest was lost."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl

from tracecorr.model.reasons import Lost, list_lossy

_OVERRUN = "the kernel counted records for which its buffers had no room, of which no file tells"
# A hit that was seen twice was counted once; of what damage took nobody counted the records.
_NO_RECORDS = ["duplicate_sample", *list_lossy(Lost.UNTOLD)]


def count_read(ledger: pl.DataFrame) -> int:
    """Return how many records the files of the kernel trace hold.

    Args:
        ledger: the table.
    """
    told = ledger.with_columns(pl.col("source", "outcome", "reason").cast(pl.String))
    held = told.filter(
        (pl.col("source") == "ftrace")
        & (pl.col("outcome") != "lost")
        & ~pl.col("reason").is_in(_NO_RECORDS).fill_null(value=False)
    )
    return int(held["records"].sum() or 0)


def complete_losses(info: Mapping[str, Any], ledger: pl.DataFrame, losses: pl.DataFrame) -> list[dict[str, Any]]:
    """Return `losses` of capture.json with the records of the trace that were lost without a file that tells of them.

    What the capture could not write gets its number of records: those that it counted, without those that are there.
    What the kernel counted as lost, and neither a file nor that explains, is an entry of its own.

    Args:
        info: contents of capture.json.
        ledger: rows of the parts.
        losses: spans that the readers found.
    """
    given = [dict(loss) for loss in info.get("losses") or []]
    if not isinstance(info.get("events"), int) or not isinstance(info.get("lost_events"), int):
        return given
    unwritten = int(info.get("unwritten_events") or 0)
    told = losses.filter(pl.col("source").cast(pl.String) == "ftrace")["count"]
    missing = max(info["events"] - count_read(ledger), 0) + unwritten
    for loss in given:
        if loss["source"] == "ftrace" and loss.get("records") is None and missing:
            loss["records"], missing = missing, 0
    rest = info["lost_events"] - unwritten - int(told.sum() or 0)
    # A span of unknown number may hold any of them.
    if rest > 0 and not told.null_count():
        given.append({"source": "ftrace", "records": rest, "bytes": 0, "reason": _OVERRUN})
    return given
