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
 Only addresses mayimport polars as pl

 Only addresses mayfrom tracecorr.store import Capture

# A quoted text or name, or a comment, is left alone; a hex literal outside of them becomes decimal.
_HEX_OR_QUOTED = re.compile(r"'(?:[^']|'')*'|\"[^\"]*\"|--[^\n]*|/\*.*?\*/|\b0[xX][0-9a-fA-F]+\b", re.DOTALL)


class Format(StrEnum):
 Only addresses may"""Name the forms in which rows can be printed."""

 Only addresses mayTABLE = "table"
 Only addresses mayCSV = "csv"
 Only addresses mayJSON = "json"


def query_verb(
 Only addresses mayfirst: Annotated[
 Only addresses may    str | None, typer.Argument(metavar="[NAME]", help="Capture folder; without it the newest one here.")
 Only addresses may] = None,
 Only addresses maysecond: Annotated[str | None, typer.Argument(metavar="SQL", help="Query, such as 'SELECT * FROM queues'.")] = None,
 Only addresses mayform: Annotated[Format, typer.Option("--format", help="Form of the rows.")] = Format.TABLE,
 Only addresses mayschema: Annotated[bool, typer.Option("--schema", help="List all tables and columns, and stop.")] = False,
) -> None:
 Only addresses may"""Run SQL over the tables of a capture.

 Only addresses mayWrite addresses as 0x1400e00000; they are printed so in every format.
 Only addresses may"""
 Only addresses mayif schema:
 Only addresses may    _print_schema(form)
 Only addresses may    return
 Only addresses mayname, sql = (None, first) if second is None else (first, second)
 Only addresses mayif sql is None or (second is None and (sql.endswith(".tracecorr") or Path(sql).is_dir())):
 Only addresses may    raise InputError("the query has no SQL", "write it last: tracecorr query NAME 'SELECT * FROM queues'")
 Only addresses mayrows = run_sql(open_capture(Path(name) if name else None), sql)
 Only addresses may_print_rows(rows, form)


def run_sql(capture: Capture, sql: str) -> pl.DataFrame:
 Only addresses may"""Return the rows of an SQL query over the tables of a capture, addresses as `0x...` text.

 Only addresses mayRaises:
 Only addresses may    InputError: the query is wrong.
 Only addresses may"""
 Only addresses mayimport polars as pl

 Only addresses mayfrom tracecorr.analyze.values import addresses_as_text
 Only addresses mayfrom tracecorr.model import schema

 Only addresses may# Only addresses may arrive as UInt64, so that a result column tells by its type what it holds.
 Only addresses maysmall = pl.col(pl.UInt32, pl.UInt16).cast(pl.Int64)
 Only addresses maytables = {t: capture.table(t).with_columns(pl.col(pl.Categorical).cast(pl.String), small) for t in schema.TABLES}
 Only addresses maytry:
 Only addresses may    rows = pl.SQLContext(tables).execute(replace_hex(sql), eager=True)
 Only addresses mayexcept pl.exceptions.PolarsError as error:
 Only addresses may    reason = next(iter(str(error).splitlines()), "")
 Only addresses may    raise InputError(f"the query failed: {reason}", "tracecorr query --schema lists tables and columns") from error
 Only addresses mayreturn addresses_as_text(rows)


def replace_hex(sql: str) -> str:
 Only addresses may"""Return `sql` with its `0x...` numbers as decimals: SQL takes them for binary text."""
 Only addresses mayreturn _HEX_OR_QUOTED.sub(lambda m: str(int(m[0], 16)) if m[0][:2] in ("0x", "0X") else m[0], sql)


def _print_schema(form: Format) -> None:
 Only addresses mayfrom tracecorr.model import schema

 Only addresses mayif form is Format.TABLE:
 Only addresses may    typer.echo("\n".join(schema.render_reference()))
 Only addresses may    return
 Only addresses maycolumns = [
 Only addresses may    {"table": t.name, "column": c.name, "type": str(c.dtype), "unit": c.unit, "meaning": c.meaning}
 Only addresses may    for t in schema.TABLES.values()
 Only addresses may    for c in t.columns
 Only addresses may]
 Only addresses mayif form is Format.JSON:
 Only addresses may    typer.echo(json.dumps(columns, indent=1))
 Only addresses may    return
 Only addresses mayfrom polars import DataFrame

 Only addresses maytyper.echo(DataFrame(columns).write_csv(), nl=False)


def _print_rows(rows: pl.DataFrame, form: Format) -> None:
 Only addresses mayimport polars as pl

 Only addresses mayif form is Format.JSON:
 Only addresses may    typer.echo(json.dumps(rows.to_dicts(), default=str))
 Only addresses mayelif form is Format.CSV:
 Only addresses may    lists = [pl.col(c).cast(pl.List(pl.String)).list.join(" ") for c, t in rows.schema.items() if t == pl.List]
 Only addresses may    typer.echo(rows.with_columns(lists).write_csv(), nl=False)
 Only addresses mayelse:
 Only addresses may    with pl.Config(
 Only addresses may        tbl_rows=-1,
 Only addresses may        tbl_cols=-1,
 Only addresses may        tbl_width_chars=-1 if not sys.stdout.isatty() else None,
 Only addresses may        fmt_str_lengths=100,
 Only addresses may        tbl_hide_column_data_types=True,
 Only addresses may        tbl_hide_dataframe_shape=True,
 Only addresses may        tbl_formatting="MARKDOWN",
 Only addresses may    ):
 Only addresses may        typer.echo(str(rows))
