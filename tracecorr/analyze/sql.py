"""SQL over the tables of a capture, and queries worth knowing."""

from __future__ import annotations

import re

import polars as pl

from tracecorr.analyze.values import Tables, addresses_as_text
from tracecorr.model import schema
from tracecorr.model.errors import InputError, explain_damage

# A quoted text or name, or a comment, is left alone; a number with a point or in hex outside of them is rewritten.
_QUOTED = r"'(?:[^']|'')*'|\"[^\"]*\"|--[^\n]*|/\*.*?\*/"
_NUMBER_OR_QUOTED = re.compile(
    rf"{_QUOTED}|(?P<hex>\b0[xX][0-9a-fA-F]+\b)|(?P<point>(?<![\w.])(?:\d+\.\d*|\.\d+)(?![\w.]))", re.DOTALL
)

_QUOTED_HEX = re.compile(r"'(0[xX][0-9a-fA-F]+)'")
# The one column that SQL takes for a word of its own, where it follows a comma.
_OFFSET = re.compile(r",\s*offset\b", re.I)

# Statements that read; comments may stand before them.
_READS = re.compile(
    r"(?:\s|--[^\n]*\n|/\*.*?\*/|\()*(?:SELECT|WITH|FROM|VALUES|SHOW|EXPLAIN|DESCRIBE)\b", re.DOTALL | re.I
)


def run_sql(tables: Tables, sql: str) -> pl.DataFrame:
    """Return the rows of an SQL query over the tables of a capture, addresses as `0x...` text.

    Raises:
        InputError: the query is wrong, or a table is damaged.
    """
    if not _READS.match(sql):
        raise InputError(
            f"a query can only read, but this one begins with {' '.join(sql.split()[:1])!r}",
            "write SELECT ... FROM ...; tracecorr query --schema lists tables and columns",
        )
    # Only addresses may arrive as UInt64, so that a result column tells by its type what it holds.
    small = pl.col(pl.UInt32, pl.UInt16).cast(pl.Int64)
    frames = {t: tables(t).with_columns(pl.col(pl.Categorical).cast(pl.String), small) for t in schema.TABLES}
    try:
        rows = pl.SQLContext(frames).execute(rewrite_numbers(sql), eager=True)
    except pl.exceptions.PolarsError as error:
        if damage := explain_damage(error):
            raise damage from error
        reason = next(iter(str(error).splitlines()), "")
        quoted = _QUOTED_HEX.search(sql)
        steps = [f"write {quoted[1]} without quotes: addresses are numbers"] if quoted else []
        if _OFFSET.search(_NUMBER_OR_QUOTED.sub("", sql)):
            steps.append('write the column "offset" in double quotes: SQL has a word of that name')
        steps.append("tracecorr query --schema lists tables and columns")
        raise InputError(f"the query failed: {reason}", "; ".join(steps)) from error
    return addresses_as_text(rows)


def rewrite_numbers(sql: str) -> str:
    """Return `sql` with its `0x...` numbers as decimals, which SQL takes for binary text, and its `1000.0` as floats.

    Polars takes a number with a point for a decimal, whose quotients have six digits behind it: by 1000000000.0,
    nanoseconds would be whole microseconds.
    """
    return _NUMBER_OR_QUOTED.sub(_rewrite_number, sql)


def _rewrite_number(found: re.Match[str]) -> str:
    if found["hex"]:
        return str(int(found["hex"], 16))
    return f"{found['point']}e0" if found["point"] else found[0]
