"""The verb `query`: SQL over the tables of a capture."""

from __future__ import annotations

import json
import re
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tracecorr.cli.console import open_capture
from tracecorr.model.errors import InputError

if TYPE_CHECKING:
    import polars as pl

    from tracecorr.store import Capture

# A quoted text or name, or a comment, is left alone; a hex literal outside of them becomes decimal.
_HEX_OR_QUOTED = re.compile(r"'(?:[^']|'')*'|\"[^\"]*\"|--[^\n]*|/\*.*?\*/|\b0[xX][0-9a-fA-F]+\b", re.DOTALL)


class Format(StrEnum):
    """Name the forms in which rows can be printed."""

    TABLE = "table"
    CSV = "csv"
    JSON = "json"


def query_verb(
    first: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="Capture folder; without it the newest one here.")
    ] = None,
    second: Annotated[str | None, typer.Argument(metavar="SQL", help="Query, such as 'SELECT * FROM queues'.")] = None,
    form: Annotated[Format, typer.Option("--format", help="Form of the rows.")] = Format.TABLE,
    schema: Annotated[bool, typer.Option("--schema", help="List all tables and columns, and stop.")] = False,
) -> None:
    """Run SQL over the tables of a capture.

    Write addresses as 0x1400e00000; they are printed so in every format.
    """
    if schema:
        _print_schema(form)
        return
    name, sql = (None, first) if second is None else (first, second)
    if sql is None or (second is None and (sql.endswith(".tracecorr") or Path(sql).is_dir())):
        raise InputError("the query has no SQL", "write it last: tracecorr query NAME 'SELECT * FROM queues'")
    rows = run_sql(open_capture(Path(name) if name else None), sql)
    _print_rows(rows, form)


def run_sql(capture: Capture, sql: str) -> pl.DataFrame:
    """Return the rows of an SQL query over the tables of a capture, addresses as `0x...` text.

    Raises:
        InputError: the query is wrong.
    """
    import polars as pl

    from tracecorr.analyze.values import addresses_as_text
    from tracecorr.model import schema

    # Only addresses may arrive as UInt64, so that a result column tells by its type what it holds.
    small = pl.col(pl.UInt32, pl.UInt16).cast(pl.Int64)
    tables = {t: capture.table(t).with_columns(pl.col(pl.Categorical).cast(pl.String), small) for t in schema.TABLES}
    try:
        rows = pl.SQLContext(tables).execute(replace_hex(sql), eager=True)
    except pl.exceptions.PolarsError as error:
        reason = next(iter(str(error).splitlines()), "")
        raise InputError(f"the query failed: {reason}", "tracecorr query --schema lists tables and columns") from error
    return addresses_as_text(rows)


def replace_hex(sql: str) -> str:
    """Return `sql` with its `0x...` numbers as decimals: SQL takes them for binary text."""
    return _HEX_OR_QUOTED.sub(lambda m: str(int(m[0], 16)) if m[0][:2] in ("0x", "0X") else m[0], sql)


def _print_schema(form: Format) -> None:
    from tracecorr.model import schema

    if form is Format.TABLE:
        typer.echo("\n".join(schema.render_reference()))
        return
    columns = [
        {"table": t.name, "column": c.name, "type": str(c.dtype), "unit": c.unit, "meaning": c.meaning}
        for t in schema.TABLES.values()
        for c in t.columns
    ]
    if form is Format.JSON:
        typer.echo(json.dumps(columns, indent=1))
        return
    from polars import DataFrame

    typer.echo(DataFrame(columns).write_csv(), nl=False)


def _print_rows(rows: pl.DataFrame, form: Format) -> None:
    import polars as pl

    if form is Format.JSON:
        typer.echo(json.dumps(rows.to_dicts(), default=str))
    elif form is Format.CSV:
        lists = [pl.col(c).cast(pl.List(pl.String)).list.join(" ") for c, t in rows.schema.items() if t == pl.List]
        typer.echo(rows.with_columns(lists).write_csv(), nl=False)
    else:
        with pl.Config(
            tbl_rows=-1,
            tbl_cols=-1,
            tbl_width_chars=-1 if not sys.stdout.isatty() else None,
            fmt_str_lengths=100,
            tbl_hide_column_data_types=True,
            tbl_hide_dataframe_shape=True,
            tbl_formatting="MARKDOWN",
        ):
            typer.echo(str(rows))
