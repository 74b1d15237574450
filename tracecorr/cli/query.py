"""The verb `query`: SQL over the tables of a capture."""

from __future__ import annotations

import json
import os
import shutil
import sys
import textwrap
from collections.abc import Iterator
from enum import StrEnum
from itertools import zip_longest
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated

import typer

from tracecorr.cli.console import begin_with, complete_captures, open_capture, show
from tracecorr.model.errors import InputError, quote_path
from tracecorr.model.printable import printable
from tracecorr.store.folder_names import SUFFIX, named_folder
from tracecorr.threads import begin_polars

if TYPE_CHECKING:
    import polars as pl

    from tracecorr.store import Capture


def _complete_examples(incomplete: str) -> list[str]:
    """Return the example queries that fit."""
    from tracecorr.analyze.examples import EXAMPLES

    return begin_with(incomplete, EXAMPLES)


class _Format(StrEnum):
    """Name the forms in which rows can be printed."""

    TABLE = "table"
    CSV = "csv"
    JSON = "json"


def query_verb(
    first: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME", help="Capture folder; default: the newest one here.", autocompletion=complete_captures
        ),
    ] = None,
    second: Annotated[str | None, typer.Argument(metavar="SQL", help="Query, such as 'SELECT * FROM queues'.")] = None,
    form: Annotated[_Format, typer.Option("--format", help="Output format of the rows.")] = _Format.TABLE,
    schema: Annotated[bool, typer.Option("--schema", help="List all tables and columns, and stop.")] = False,
    example: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Run the example query of this name.", autocompletion=_complete_examples),
    ] = None,
    examples: Annotated[bool, typer.Option("--examples", help="List the examples with their SQL, and stop.")] = False,
) -> None:
    """Run SQL over the tables of a capture.

    A terminal shows units and rounded numbers; pipes, csv and json get exact numbers (times in ns).
    Write addresses as 0x1400e00000; every format prints them like this.
    In a dataset of several captures, each table has the additional column `node`.
    """
    from tracecorr.analyze.examples import find_example

    _refuse_two_questions(first, second, schema=schema, example=example, examples=examples)
    if schema:
        _print_schema(form)
        return
    if examples:
        _print_examples(Path(first) if first else None)
        return
    if example is not None:
        capture = open_capture(Path(first) if first else None)
        _print_rows(capture, find_example(example, by_node=bool(capture.nodes)), form)
        return
    name, sql = (None, first) if second is None else (first, second)
    if sql is None or not sql.strip() or (second is None and _names_capture(sql)):
        raise InputError(
            "the query has no SQL",
            "write it last: tracecorr query NAME 'SELECT * FROM queues'; --examples lists useful queries",
        )
    if name is not None and " " in name and _names_capture(sql):
        raise InputError(
            "the query is before the capture", f"write it last: tracecorr query {quote_path(sql)} {quote(name)}"
        )
    _print_rows(open_capture(Path(name) if name else None), sql, form)


def _refuse_two_questions(
    first: str | None, second: str | None, *, schema: bool, example: str | None, examples: bool
) -> None:
    """Refuse SQL beside an option that asks something else, and two such options; a capture's name may stand there.

    Raises:
        InputError: two things are asked.
    """
    given = {"--schema": schema, "--examples": examples, "--example": example is not None}
    asked = [option for option, is_there in given.items() if is_there]
    if len(asked) > 1:
        raise InputError(f"{' and '.join(asked)} cannot be combined", "call it once for each")
    sql = second if second is not None else first if first is not None and any(c.isspace() for c in first) else None
    if asked and sql is not None and not _names_capture(sql):
        raise InputError(f"{asked[0]} cannot be combined with a query", "leave one of them out")


def _names_capture(word: str) -> bool:
    """Tell whether the only word of a query is a capture, with or without its suffix, and no SQL."""
    return word.endswith(SUFFIX) or any(os.path.isdir(path) for path in (word, f"{word}{SUFFIX}"))  # noqa: PTH112


def _print_examples(name: Path | None) -> None:
    """Print all examples, as `--example` runs them on the capture of this name, if it is named and there."""
    from tracecorr.analyze.examples import EXAMPLES, find_example

    is_there = name is not None and (named_folder(name) / "capture.json").is_file()
    by_node = is_there and bool(open_capture(name, tables=False).nodes)
    for example, (answers, _) in EXAMPLES.items():
        typer.echo(f"{example}: {answers}\n    {find_example(example, by_node=by_node)}\n")


def _print_schema(form: _Format) -> None:
    begin_polars()
    from tracecorr.model import schema

    if form is _Format.TABLE:
        typer.echo("\n".join(schema.render_reference()))
        return
    columns = [
        {"table": t.name, "column": c.name, "type": str(c.dtype), "unit": c.unit, "meaning": c.meaning}
        for t in schema.TABLES.values()
        for c in t.columns
    ]
    if form is _Format.JSON:
        typer.echo(json.dumps(columns, indent=1))
        return
    from polars import DataFrame

    typer.echo(DataFrame(columns).write_csv(), nl=False)


def _lay_out(rows: pl.DataFrame, width: int) -> Iterator[str]:
    """Yield rows for people as lines: a table where it fits into the terminal, else one column a line."""
    from tracecorr.analyze.values import addresses_as_text, render_row

    names = [printable(name) for name in rows.columns]
    told = [list(map(printable, render_row(rows.columns, row))) for row in addresses_as_text(rows).iter_rows()]
    left = [not dtype.is_numeric() for dtype in rows.dtypes]
    # Long names go over several lines, if that makes the table fit.
    for heads in ([[name] for name in names], [name.replace("_", "_ ").split() for name in names]):
        wide = [max(map(len, (*head, *cells))) for head, *cells in zip(heads, *told, strict=True)]
        if sum(wide) + 2 * len(wide) <= width:
            lines = [textwrap.wrap(" ".join(head), size) for head, size in zip(heads, wide, strict=True)]
            lines = [[line.replace("_ ", "_") for line in head] for head in lines]
            for cells in (*zip_longest(*lines, fillvalue=""), ["-" * size for size in wide], *told):
                placed = (c.ljust(n) if text else c.rjust(n) for c, n, text in zip(cells, wide, left, strict=True))
                yield "  ".join(placed).rstrip()
            return
    for number, cells in enumerate(told, 1):
        yield f"row {number}"
        yield from (f"  {name:{max(map(len, names))}}  {cell}" for name, cell in zip(names, cells, strict=True))


def _print_rows(capture: Capture, sql: str, form: _Format) -> None:
    import polars as pl

    from tracecorr.analyze.sql import run_sql
    from tracecorr.analyze.values import plain_rows

    rows = run_sql(capture.table_by_node, sql)
    if form is _Format.JSON:
        typer.echo(json.dumps(plain_rows(rows), default=str, allow_nan=False))
    elif form is _Format.CSV:
        lists = [pl.col(c).cast(pl.List(pl.String)).list.join(" ") for c, t in rows.schema.items() if t == pl.List]
        typer.echo(rows.with_columns(lists).write_csv(), nl=False)
    elif sys.stdout.isatty():
        for line in _lay_out(rows, shutil.get_terminal_size().columns):
            show(line)
    else:
        with pl.Config(
            tbl_rows=-1,
            tbl_cols=-1,
            # Fitted to a terminal, a value would be cut into pieces of three characters.
            tbl_width_chars=-1,
            fmt_str_lengths=100,
            # A large float would be cut to five digits: 4.9785e12.
            fmt_float="full",
            tbl_hide_column_data_types=True,
            tbl_hide_dataframe_shape=True,
            tbl_formatting="MARKDOWN",
        ):
            texts = pl.selectors.string() | pl.selectors.categorical()
            safe = rows.with_columns(texts.cast(pl.String).map_elements(printable, return_dtype=pl.String))
            show(safe.rename(printable), keep="\n")
