"""Lines of the function_graph tracer: functions with a duration, and records printed as comments."""

from __future__ import annotations

import polars as pl

from tracecorr.model.part_tables import LATEST_NS
from tracecorr.model.schema import CAT
from tracecorr.read.ftrace.events import GRAPH, INSTANT, Batch, add_durations, add_graph
from tracecorr.read.kfd import layer_of

_LINE = (
    r"^ *(?:(?P<sec>\d+)\.(?P<frac>\d{6}) +\| +)?(?P<cpu>\d+)\) +(?:(?P<comm>[^|]{1,32}?)-(?P<tid>\d{1,7}) +\| +)?"
    r"(?:[+!#*@$] *)?(?:(?P<us>\d+(?:\.\d+)?) us +)?\|(?P<indent> *)(?P<code>.*)$"
)
_FUNCTION = r"^(?P<function>[\w.]+)(?: \[(?P<module>[\w-]+)\])?\(.*?\)(?P<open> \{|;)"
_CLOSE = r"^\}(?: /\* (?P<function>[\w.]+))?"
_COMMENT = r"^/\* (.*?)(?: \*/)?$"


def add_graph_lines(batch: Batch, lines: pl.DataFrame) -> pl.DataFrame:
    """Add the functions of `lines` to `batch`; return the records that are printed as comments.

    Args:
        batch: takes the functions.
        lines: `seq`, `file`, `offset`, `length`, `line`.

    Returns:
        seq, file, offset, length, stamp_ns, cpu, tid, pid, comm, and `at`, `size`: the bytes of the text in its line.
    """
    frame = lines.with_columns(pl.col("line").str.extract_groups(_LINE).alias("m")).unnest("m")
    seconds = pl.col("sec").str.to_integer(strict=False)
    stamp = pl.when(seconds < LATEST_NS // 10**9).then(seconds * 10**9 + pl.col("frac").str.to_integer() * 1000)
    frame = frame.filter(pl.col("code").is_not_null()).select(
        "seq", "file", "offset", "length", stamp.alias("stamp_ns"),
        pl.col("cpu").str.to_integer(strict=False).cast(pl.UInt16, strict=False),
        pl.col("tid").str.to_integer(strict=False).cast(pl.UInt64, strict=False), pl.lit(None, pl.UInt32).alias("pid"),
        pl.col("comm").cast(CAT), "code", (pl.col("indent").str.len_bytes() // 2).alias("level"),
        (pl.col("us").cast(pl.Float64, strict=False) * 1000).round().cast(pl.Int64, strict=False).alias("dur_ns"),
    )  # fmt: skip
    _add_functions(batch, frame)
    return _read_comments(frame)


def _add_functions(batch: Batch, frame: pl.DataFrame) -> None:
    opens = frame.with_columns(pl.col("code").str.extract_groups(_FUNCTION).alias("f")).unnest("f")
    opens = opens.filter(pl.col("function").is_not_null())
    depth = pl.col("level").cast(pl.Int64).clip(1) - 1
    leaf = pl.col("open") == ";"
    batch.add(
        opens.filter(leaf), phase=INSTANT, call=GRAPH, layer=layer_of(pl.col("function"), pl.col("module")),
        name=pl.col("function"), depth=depth.clip(0, 60000), dur_ns=pl.col("dur_ns"),
    )  # fmt: skip
    add_graph(batch, opens.filter(~leaf), depth, pl.lit(None, pl.Int64), is_exit=False)
    closes = frame.filter(pl.col("code").str.starts_with("}")).with_columns(
        pl.col("code").str.extract(_CLOSE, 1).fill_null("unknown").alias("function"),
        pl.lit(None, pl.String).alias("module"),
    )
    add_graph(batch, closes, depth, pl.col("dur_ns"), is_exit=True)
    # Without a stamp there is no end either: the duration is all that the line of a leaf tells.
    add_durations(batch, opens.filter(leaf & pl.col("stamp_ns").is_null()), of_exit=False)
    add_durations(batch, closes, of_exit=True)


def _read_comments(frame: pl.DataFrame) -> pl.DataFrame:
    """Return the records in comments, `at` which byte of the line their text begins, and its bytes."""
    comments = frame.filter(pl.col("code").str.starts_with("/* "))
    body = pl.col("code").str.extract(_COMMENT)
    at = pl.col("length").cast(pl.Int64) - pl.col("code").str.len_bytes() + len("/* ")
    return comments.with_columns(at.alias("at"), body.str.len_bytes().cast(pl.Int64).alias("size")).drop(
        "code", "level", "dur_ns"
    )
