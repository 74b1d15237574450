"""Records that were there and could not be read: the ledger books their bytes, here they become losses."""

from __future__ import annotations

from typing import Any

import polars as pl

from tracecorr.model import schema
from tracecorr.model.reasons import REASONS, REPEATED_TRACE, UNKNOWN_EVENT_ID, Lost, list_lossy

# So many files of one folder are named in a warning.
_MOST_NAMED = 3
_AT_END = [name for name, reason in REASONS.items() if reason.at_end]


def list_unreadable(ledger: pl.DataFrame, events: pl.DataFrame) -> pl.DataFrame:
    """Return rows of `losses`: one for each file and reason with which records of the file are lost.

    Where in the file they were is not told: the span is that of all rows of the file, or begins with the last one
    where the file ends in the damage. Lines of a HIP log are not counted, because what shows that one lacks may be the
    one that could not be read.

    Args:
        ledger: the table.
        events: file, ts_ns.
    """
    lossy = _list_lossy(ledger)
    if lossy.is_empty():
        return schema.LOSSES.empty()
    rows = events.lazy().select("file", "ts_ns").join(lossy.lazy().select("file").unique(), on="file", how="semi")
    spans = rows.group_by("file").agg(first=pl.col("ts_ns").min(), last=pl.col("ts_ns").max()).collect()
    at_end = pl.col("reason").is_in(_AT_END)
    counted = pl.col("reason").is_in(list_lossy(Lost.COUNTED)) & (pl.col("source") != "amd_log")
    found = lossy.join(spans, on="file", how="left").select(
        "source",
        from_ns=pl.when(at_end).then("last").otherwise("first"),
        to_ns=pl.when(~at_end).then("last"),
        count=pl.when(counted).then("records"),
    )
    return schema.LOSSES.conform(found)


def list_damaged(ledger: pl.DataFrame) -> pl.DataFrame:
    """Return the files with records that could not be read, other than the last one: file, source.

    Args:
        ledger: rows of the parts.
    """
    return _list_lossy(ledger).filter(~pl.col("reason").is_in(_AT_END)).select("file", "source").unique()


def _list_lossy(ledger: pl.DataFrame) -> pl.DataFrame:
    """Return the rows of the ledger that are losses; a trace of which another one holds all records has none."""
    told = ledger.with_columns(pl.col("source", "reason").cast(pl.String))
    used = told.filter(pl.col("outcome").cast(pl.String) == "used")
    repeated = told.filter(pl.col("reason") == REPEATED_TRACE).join(used, on="file", how="anti")
    return told.filter(pl.col("reason").is_in(list_lossy())).join(repeated, on="file", how="anti")


def warn_unreadable(ledger: pl.DataFrame, files: pl.DataFrame) -> list[str]:
    """Return a warning for each folder with files of which records could not be read, and one where formats lack.

    Args:
        ledger, files: the tables.
    """
    lossy = _list_lossy(ledger).join(files.select("file", "path"), on="file")
    folder = pl.col("path").str.extract(r"^(.*)/").fill_null("")
    found = lossy.group_by(folder.alias("folder"), maintain_order=True).agg(
        pl.col("path").unique(maintain_order=True), pl.col("bytes").sum(), pl.col("reason").unique().sort(),
        records=pl.col("records").filter(pl.col("reason").is_in(list_lossy(Lost.COUNTED))).sum(),
    )  # fmt: skip
    warnings = [_describe(row) for row in found.iter_rows(named=True)]
    return [*_warn_without_formats(ledger, files), *warnings]


def _describe(row: dict[str, Any]) -> str:
    paths = row["path"]
    more = f" and {len(paths) - _MOST_NAMED} more files" if len(paths) > _MOST_NAMED else ""
    counts = [f"{row[what]:,} {what}" for what in ("records", "bytes") if row[what]]
    return (
        f"{', '.join(paths[:_MOST_NAMED])}{more}: records were there and are lost: {' and '.join(counts) or 'the end'} "
        f'could not be read ({", ".join(row["reason"])}); see "What became of the bytes" in the report'
    )


def _warn_without_formats(ledger: pl.DataFrame, files: pl.DataFrame) -> list[str]:
    """Return a warning for each folder of pages of which no record is used, because no event has a format."""
    kinds = pl.col("outcome", "reason").cast(pl.String)
    told = ledger.filter(pl.col("source").cast(pl.String) == "ftrace").with_columns(kinds)
    named = told.join(files.select("file", "path"), on="file")
    unknown = pl.col("records").filter(pl.col("reason") == UNKNOWN_EVENT_ID).sum()
    used = pl.col("records").filter(pl.col("outcome") == "used").sum()
    sums = named.group_by(pl.col("path").str.extract(r"^(.*)/").alias("folder"), maintain_order=True).agg(
        unknown=unknown, used=used
    )
    return [
        f"{folder}: none of its {unknown:,} records can be told, because the trace has no formats of its events; copy "
        "events/ of the same tracefs beside the pages (of trace-cmd: record again), and import them again"
        for folder, unknown, used in sums.iter_rows()
        if unknown and not used
    ]
