"""Small tables for the analyses: rows as dictionaries, columns that are not named being null."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import polars as pl

from tracecorr.model import schema

Rows = dict[str, list[dict[str, Any]]]


def table(name: str, *rows: dict[str, Any]) -> pl.LazyFrame:
    """Return a table with `rows`."""
    if not rows:
        return schema.TABLES[name].empty().lazy()
    known = schema.TABLES[name].schema
    frame = pl.DataFrame(list(rows), schema={k: known[k] for row in rows for k in row}, infer_schema_length=None)
    return schema.TABLES[name].conform(frame).lazy()


def tables_of(rows: Rows) -> Callable[[str], pl.LazyFrame]:
    """Return a function that gives each table by its name; tables without rows are empty."""
    return lambda name: table(name, *rows.get(name, []))
