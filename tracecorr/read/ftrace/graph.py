"""Lines of the function_graph tracer: functions with a duration, and records printed as comments."""

from __future__ import annotations

import polars as pl

from tracecorr.read.ftrace.halves import GRAPH, INSTANT, Batch, add_durations, add_graph
from tracecorr.read.ftrace.markers import CLOCK_TEXT, MARKERS
from tracecorr.read.ftrace.prefixes import stamp_ns
from tracecorr.read.kfd import layer_of

_LINE = (
    r"^ *(?:(?P<sec>\d+)\.(?P<frac>\d{6}) +\| +)?(?P<cpu>\d+)\) +(?:(?P<comm>[^|]{1,32}?)-(?P<tid>\d{1,7}) +\| +)?"
    r"(?:[+!#*@$] *)?(?:(?P<us>\d+(?:\.\d+)?) us +)?\|(?P<indent> *)(?P<code>.*)$"
)
_REPORT = r"^ *(?:[+!#*@$] *)?(?:(?P<us>\d+(?:\.\d+)?) us +)?\|(?P<indent> *)(?P<code>.*)$"
_FUNCTION = r"^(?P<function>[\w.]+)(?: \[(?P<module>[\w-]+)\])?\(.*?\)(?P<open> \{|;)"
_CLOSE = r"^\}(?: /\* (?P<function>[\w.]+))?"
_COMMENT = r"^/\* (?P<event>[^ :(+<]*)(?P<sep>: *|\(| -> |[ +]?[^<]* <-)?(?P<rest>.*?)(?: \*/)?$"


def graph_records(lines: pl.DataFrame, batch: Batch, file: int) -> pl.DataFrame:
    """Add the function rows of `lines` to `batch` and return the comments as records of events."""
    frame = lines.with_columns(pl.col("line").str.extract_groups(_LINE).alias("m")).unnest("m")
    frame = frame.filter(pl.col("code").is_not_null()).select(
        "seq", pl.lit(file).alias("file"), "offset", "length",
        stamp_ns(pl.col("sec").str.to_integer(strict=False), pl.col("frac")).alias("stamp_ns"),
        pl.col("cpu").str.to_integer(strict=False),
        pl.col("tid").str.to_integer(strict=False).cast(pl.UInt64, strict=False), pl.lit(None, pl.UInt32).alias("pid"),
        "comm", "code", (pl.col("indent").str.len_bytes() // 2).alias("level"),
        _duration(pl.col("us")).alias("dur_ns"),
    )  # fmt: skip
    _add_functions(batch, frame)
    return _comments(frame)


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


def add_graph_reports(batch: Batch, records: pl.DataFrame) -> None:
    """Add function_graph records as `trace-cmd report` prints them: the drawing is the body of an event."""
    parts = records["rest"].str.extract_groups(_REPORT).struct.unnest()
    frame = pl.concat([records, parts], how="horizontal").with_columns(
        (pl.col("indent").str.len_bytes() // 2).alias("level"), _duration(pl.col("us")).alias("dur_ns")
    )
    _add_functions(batch, frame)


def _duration(us: pl.Expr) -> pl.Expr:
    return (us.cast(pl.Float64, strict=False) * 1000).round().cast(pl.Int64, strict=False)


def _comments(frame: pl.DataFrame) -> pl.DataFrame:
    comments = frame.filter(pl.col("code").str.starts_with("/* "))
    body = comments["code"].str.extract_groups(_COMMENT).struct.unnest()
    comments = pl.concat([comments, body], how="horizontal")
    # Of a marker the tracer prints the text alone.
    mark = pl.col("code").str.extract(r"^/\* (.*?) \*/$")
    is_clock = mark.str.contains(CLOCK_TEXT).fill_null(value=False)
    comments = comments.with_columns(
        event=pl.when(is_clock).then(pl.lit(MARKERS[0])).otherwise("event"),
        sep=pl.when(is_clock).then(pl.lit(": ")).otherwise("sep"),
        rest=pl.when(is_clock).then(mark).otherwise("rest"),
    )
    return comments.select(
        "seq",
        "offset",
        "length",
        "stamp_ns",
        pl.col("cpu").cast(pl.UInt16),
        "tid",
        "pid",
        "comm",
        "event",
        pl.col("sep").fill_null(""),
        "rest",
    )
