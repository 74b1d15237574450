"""What a capture lost beyond what its readers see: records that the kernel counted, ends of raw files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import polars as pl

from tracecorr.model import schema
from tracecorr.model.reasons import MISSING_BYTES, Lost, list_lossy
from tracecorr.store.raw import find_compression

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


def list_missing_bytes(root: Path, files: Iterable[Mapping[str, Any]]) -> pl.DataFrame:
    """Return a row of `ledger` for each raw file whose end is not there any more.

    A compressed one is left out: it does not decompress without its end.

    Args:
        root: the capture folder.
        files: the entries `files` of capture.json.
    """
    paths = [(entry, root / entry["path"]) for entry in files]
    rows = [
        {"file": entry["file"], "source": entry["source"], "bytes": entry["size"] - path.stat().st_size}
        for entry, path in paths
        if path.is_file() and not find_compression(path)
    ]
    found = pl.DataFrame(rows, schema={"file": pl.Int64, "source": pl.String, "bytes": pl.Int64})
    lacking = found.filter(pl.col("bytes") > 0)
    return schema.LEDGER.conform(lacking.with_columns(outcome=pl.lit("lost"), reason=pl.lit(MISSING_BYTES), records=0))
