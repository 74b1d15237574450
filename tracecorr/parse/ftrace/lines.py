"""From bytes to records: blocks, lines, the prefix of a record, lost and header lines."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import polars as pl

from tracecorr.model import schema

BLOCK_BYTES = 6 << 20
# Lines looked at from the end of a block for one that starts a record.
_LOOK_BACK = 4096

# comm may hold spaces, dashes, brackets: the anchor is `-pid ... [cpu] ... stamp:`. The kernel has 15
# bytes for comm; other tools print up to 31.
_PREFIX = (
    r"^ *(?P<comm>.{1,32}?)-(?P<tid>\d+) +(?:\( *(?P<pid>\d+|-+)\) +)?\[(?P<cpu>\d{3,})\] +"
    r"(?:[a-zA-Z0-9.#]{4,5} +)?(?P<sec>\d+)(?:\.(?P<frac>\d{1,9}))?: +"
)
_BODY = r"(?P<event>[^ :(+<]*)(?P<sep>: *|\(| -> |[ +]?[^<]* <-)?(?P<rest>.*)$"
_GRAPH_LINE = r"^ *(?:\d+\.\d{6} +\| +)?\d+\) .*[|=]"
_RECORD_START = re.compile(
    rb"^ *.{1,32}?-\d+ +(?:\( *(?:\d+|-+)\) +)?\[\d{3,}\] +(?:[a-zA-Z0-9.#]{4,5} +)?\d+(?:\.\d+)?: "
    rb"|^ *(?:\d+\.\d{6} +\| +)?\d+\) .*[|=]"
)
_HEAD_RECORD = re.compile(_RECORD_START.pattern, re.MULTILINE)
_LOST = r"^CPU:(?P<lost_cpu>\d+) \[LOST (?:(?P<lost>\d+) )?EVENTS\]"
_WRITTEN = re.compile(rb"^# entries-in-buffer/entries-written: (\d+)/(\d+)", re.MULTILINE)
_HEADER = r"^#|^cpus=\d+\s*$|^ ?-{20,}\s*$|^\s*$"


@dataclass
class BlockLines:
    """Hold the records of one block and the account of its bytes."""

    records: pl.DataFrame
    graph: pl.DataFrame
    ledger: pl.DataFrame
    losses: pl.DataFrame


def looks_like_ftrace_text(head: bytes) -> bool:
    """Tell whether the first bytes of a file are kernel trace text."""
    return head.startswith(b"# tracer: ") or (b"\0" not in head and _HEAD_RECORD.search(head) is not None)


def cut_blocks(chunks: Iterable[bytes], size: int = BLOCK_BYTES) -> Iterator[tuple[int, bytes]]:
    """Yield (offset, bytes) blocks that depend on the stream only, not on how `chunks` cut it.

    A block ends before a line that starts a record, so that continuation lines stay with theirs.
    """
    buffer, offset = bytearray(), 0
    for chunk in chunks:
        buffer += chunk
        while len(buffer) >= size:
            block = bytes(buffer[: _cut(buffer, size)])
            del buffer[: len(block)]
            yield offset, block
            offset += len(block)
    if buffer:
        yield offset, bytes(buffer)


def _cut(buffer: bytearray, size: int) -> int:
    end = last = buffer.rfind(b"\n", 0, size) + 1
    if not end:
        return size
    for _ in range(_LOOK_BACK):
        start = buffer.rfind(b"\n", 0, end - 1) + 1
        if start == 0:
            break
        if _RECORD_START.match(buffer[start : min(end, start + 200)]):
            return start
        end = start
    return last


def split_lines(block: bytes, offset: int) -> pl.DataFrame:
    """Return `offset`, `length`, `size` (with line end) and `line` of every line of `block`."""
    ends = np.flatnonzero(np.frombuffer(block, np.uint8) == 10)
    starts = np.concatenate([[0], ends + 1])
    stops = np.concatenate([ends, [len(block)]])
    sizes = np.concatenate([ends + 1, [len(block)]]) - starts
    # A file in another encoding must not stop the reader: bad bytes become U+FFFD.
    lines = pl.Series([block.decode("utf-8", "replace")]).str.split("\n").explode()
    frame = pl.DataFrame({"offset": starts + offset, "length": stops - starts, "size": sizes, "line": lines})
    if b"\r\n" in block:
        frame = frame.with_columns(pl.col("line").str.strip_chars_end("\r"))
    return frame if sizes[-1] else frame.head(-1)


def read_block(block: bytes, offset: int, file: int) -> BlockLines:
    """Return the records of `block`, whose first byte is byte `offset` of the file."""
    frame = split_lines(block, offset).with_row_index("seq").cast({"seq": pl.Int64})
    frame = frame.with_columns(pl.col("line").str.extract_groups(_PREFIX + _BODY).alias("m")).unnest("m")
    frame = frame.with_columns(_kinds().alias("kind"))
    frame = _attach_continuations(frame)
    records = _finish_records(frame.filter(pl.col("kind") == "record"))
    graph = frame.filter(pl.col("kind") == "graph").select("seq", "offset", "length", "line")
    losses = _losses(frame.filter(pl.col("kind") == "lost"), records, block)
    return BlockLines(records, graph, _ledger(frame, losses, file), losses)


def _kinds() -> pl.Expr:
    line = pl.col("line")
    return (
        pl.when(pl.col("cpu").is_not_null())
        .then(pl.lit("record"))
        .when(line.str.contains(_HEADER))
        .then(pl.lit("header"))
        .when(line.str.contains(_LOST))
        .then(pl.lit("lost"))
        .when(line.str.contains(_GRAPH_LINE))
        .then(pl.lit("graph"))
        .otherwise(pl.lit("rest"))
    )


def _attach_continuations(frame: pl.DataFrame) -> pl.DataFrame:
    """Join lines without a prefix to the record before them; those without one stay `rest`."""
    if not (frame["kind"] == "rest").any():
        return frame
    owner = pl.when(pl.col("kind") == "record").then(pl.col("offset")).when(pl.col("kind") != "rest").then(-1)
    frame = frame.with_columns(owner.forward_fill().fill_null(-1).alias("owner"))
    frame = frame.with_columns(
        pl.when((pl.col("kind") == "rest") & (pl.col("owner") >= 0))
        .then(pl.lit("more"))
        .otherwise("kind")
        .alias("kind")
    )
    more = frame.filter(pl.col("kind") == "more")
    joined = more.group_by("owner").agg(
        pl.col("line").str.join("\n").alias("tail"), (pl.col("offset") + pl.col("length")).max().alias("stop")
    )
    frame = frame.join(joined, left_on="offset", right_on="owner", how="left", maintain_order="left")
    has = pl.col("tail").is_not_null()
    return frame.with_columns(
        pl.when(has).then(pl.col("rest") + "\n" + pl.col("tail")).otherwise("rest").alias("rest"),
        pl.when(has).then(pl.col("stop") - pl.col("offset")).otherwise("length").alias("length"),
    ).drop("tail", "stop", "owner")


def stamp_ns(sec: pl.Expr, frac: pl.Expr) -> pl.Expr:
    """Return nanoseconds; a stamp without a fraction (clocks `counter`, `uptime`, `x86-tsc`) stays as it is."""
    whole = sec.str.to_integer(strict=False)
    part = frac.str.pad_end(9, "0").str.to_integer(strict=False)
    return pl.when(frac.is_null()).then(whole).otherwise(whole * 1_000_000_000 + part)


def _finish_records(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.select(
        "seq",
        "offset",
        "length",
        stamp_ns(pl.col("sec"), pl.col("frac")).alias("stamp_ns"),
        pl.col("cpu").str.to_integer(strict=False).cast(pl.UInt16, strict=False),
        pl.col("tid").str.to_integer(strict=False).cast(pl.UInt64, strict=False),
        pl.col("pid").str.to_integer(strict=False).cast(pl.UInt32, strict=False),
        pl.col("comm"),
        pl.col("event"),
        pl.col("sep").fill_null(""),
        pl.col("rest"),
    )


def _losses(lost: pl.DataFrame, records: pl.DataFrame, block: bytes) -> pl.DataFrame:
    """Return the gaps; one ends at the next record of its CPU and starts after the last one before it."""
    groups = lost["line"].str.extract_groups(_LOST).struct.unnest()
    rows: list[dict[str, object]] = []
    for offset, cpu, count in zip(lost["offset"], groups["lost_cpu"], groups["lost"], strict=True):
        stamps = records.filter(pl.col("cpu") == int(cpu))
        before = stamps.filter(pl.col("offset") < offset)["stamp_ns"]
        after = stamps.filter(pl.col("offset") > offset)["stamp_ns"]
        rows.append(
            {
                "source": "ftrace",
                "cpu": int(cpu),
                "from_ns": before[-1] if len(before) else None,
                "to_ns": after[0] if len(after) else None,
                "count": None if count is None else int(count),
            }
        )
    # The plain search is fast; the pattern has to look at every line.
    counts = _WRITTEN.findall(block) if b"entries-written" in block else []
    for present, written in counts:
        if int(present) < int(written):
            first = records["stamp_ns"].min()
            rows.append({"source": "ftrace", "to_ns": first, "count": int(written) - int(present)})
    return pl.DataFrame(rows, schema=schema.LOSSES.schema)


def _ledger(frame: pl.DataFrame, losses: pl.DataFrame, file: int) -> pl.DataFrame:
    rest = pl.col("kind") == "rest"
    account = (
        frame.group_by(
            pl.when(rest).then(pl.lit("skipped")).otherwise(pl.lit("used")).alias("outcome"),
            pl.when(rest).then(pl.lit("no_record_prefix")).otherwise(pl.lit("")).alias("reason"),
        )
        .agg((pl.col("kind") != "more").sum().alias("records"), pl.col("size").sum().alias("bytes"))
        .select("outcome", "reason", "records", "bytes")
    )
    count = int(losses["count"].fill_null(1).sum())
    if count:
        lost = pl.DataFrame({"outcome": ["lost"], "reason": ["ring_buffer_overrun"], "records": [count], "bytes": [0]})
        account = pl.concat([account, lost], how="vertical_relaxed")
    return schema.LEDGER.conform(account.with_columns(pl.lit(file).alias("file"), pl.lit("ftrace").alias("source")))
