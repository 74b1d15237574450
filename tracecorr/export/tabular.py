"""Tables as files: CSV, Parquet or Arrow IPC, one file per table."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import polars as pl

from tracecorr.analyze.frames import Tables
from tracecorr.analyze.values import plain_columns
from tracecorr.export.selection import Selection, first_ns
from tracecorr.model import schema
from tracecorr.model.errors import InputError

FORMS = {"csv": "csv", "parquet": "parquet", "arrow": "arrow"}
# Tables that have a row per event, and the column that names it.
_BY_EVENT = {"events": "event", "launches": "event", "args": "event", "links": "from_event"}
_TIMES = {"samples": "ts_ns"}


def write_tables(
    tables: Tables, folder: Path, form: str, selection: Selection, names: Sequence[str] = ()
) -> list[Path]:
    """Write tables into a folder, one file each, and return the files.

    Tables of events hold the selected events only; tables of things (queues, kernels, ...) are always whole. In CSV,
    addresses are `0x...` text; Parquet and Arrow keep them as 64 bit numbers.

    Args:
        form: a key of `FORMS`.
        names: tables wanted; all when empty.

    Raises:
        InputError: there is no such table.
    """
    wrong = [name for name in names if name not in schema.TABLES]
    if wrong:
        raise InputError(f"there is no table {wrong[0]!r}", f"tables are: {', '.join(schema.TABLES)}")
    written = []
    for name in names or schema.TABLES:
        path = folder / f"{name}.{FORMS[form]}"
        _sink(select_rows(tables, name, selection), path, form)
        written.append(path)
    return written


def select_rows(tables: Tables, name: str, selection: Selection) -> pl.LazyFrame:
    """Return a table with the rows that belong to a selection."""
    rows = tables(name)
    if selection.everything:
        return rows
    if name == "events":
        return selection.filter_events(tables)
    if name in _BY_EVENT:
        wanted = selection.filter_events(tables).select(pl.col("event").alias(_BY_EVENT[name]))
        return rows.join(wanted, on=_BY_EVENT[name], how="semi")
    if name in _TIMES:
        first = first_ns(tables)
        for limit, keep in ((selection.start_ns, pl.Expr.ge), (selection.end_ns, pl.Expr.lt)):
            if limit is not None:
                rows = rows.filter(keep(pl.col(_TIMES[name]), first + limit))
    return rows


def _sink(rows: pl.LazyFrame, path: Path, form: str) -> None:
    if form == "csv":
        columns = rows.collect_schema()
        plain = rows.with_columns(plain_columns(columns))
        lists = [
            pl.col(n).cast(pl.List(pl.String)).list.join(" ") for n, t in columns.items() if isinstance(t, pl.List)
        ]
        plain.with_columns(lists).sink_csv(path)
    elif form == "parquet":
        rows.sink_parquet(path, compression="zstd")
    else:
        rows.sink_ipc(path, compression="zstd")
