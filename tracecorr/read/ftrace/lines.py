"""From bytes to records: blocks, lines, the prefix of a record, lost and header lines."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import polars as pl

from tracecorr.model import schema
from tracecorr.model.reasons import BROKEN_RECORD, NUL_BYTES
from tracecorr.read.digits import Ints, Mask
from tracecorr.read.ftrace.markers import MARKERS
from tracecorr.read.ftrace.prefixes import INSTANCE, TWO_NAMES, Prefix, find_prefix
from tracecorr.read.ftrace.written import count_lost
from tracecorr.read.text import Text

BLOCK_BYTES = 8 << 20
# Lines looked at from the end of a block for one that starts a record.
_LOOK_BACK = 4096
_HEAD_BYTES = 1 << 16

_BODY = r"(?P<event>[^ :(+<]*)(?P<sep>: *|\(| -> |[ +]?[^<]* <-)?(?P<rest>.*)$"
_GRAPH_LINE = r"^ *(?:\d+\.\d{6} +\| +)?\d+\) .*[|=]"
_RECORD_START = re.compile(
    rb"^ *" + INSTANCE.encode() + rb".{1,32}?-\d+ +(?:\( *(?:\d+|-+)\) +)?"
    rb"\[\d{3,}\](?: +(?:[a-zA-Z0-9.#]{4,5} +)?)?\d+(?:\.\d+)?: "
    rb"|^ *(?:\d+\.\d{6} +\| +)?\d+\) .*[|=]"
)
_HEAD_RECORD = re.compile(_RECORD_START.pattern, re.MULTILINE)
# The kernel's own note, and that of trace-cmd report.
_LOST = (
    rf"^ *{INSTANCE.replace('{2,}', '+')}CPU:(?P<lost_cpu>\d+) "
    r"\[(?:LOST )?(?:(?P<lost>\d+) )?EVENTS(?: DROPPED)?\]"
)
_LOST_LINE = re.compile(_LOST.removeprefix("^").encode())
# What is left of the prefix of a record where a few of its bytes are others: its task and CPU, or its time.
_BROKEN = (
    r"^.{1,40}-\d{1,7} +(?:\( *(?:\d+|-+)\) +)?\[\d{3,}\] "
    r"|^.{6,60}[\[\]].{2,16}\d{1,9}\.\d{6}: \w"
)
# A line that ended early goes on with the next one that was written. What programs print may be anything.
_HEAD = r"-\d{1,7} +(?:\( *(?:\d+|-+)\) +)?\[\d{3,}\](?: +[a-zA-Z0-9.#]{4,5})? +\d+\.\d{6,9}: "
_GLUED_TEXT = r"\S {2,}\S+-\d{1,7} +(?:\( *(?:\d+|-+)\) +)?\[\d{3,}\]"
_OF_PROGRAMS = (*MARKERS, "bprint", "bputs")
_BRACKET = r"\[(\d{3,})\]"
_REASONS = {"rest": "no_record_prefix", "broken": BROKEN_RECORD, "nul": NUL_BYTES}
_HEADER = r"^#|^cpus=\d+\s*$|^ ?-{20,}\s*$|^\s*$"


@dataclass
class BlockText:
    """Hold the lines of one block.

    Args:
        text: the block.
        start: first byte of each line, as a position in `text`.
        end: the byte after its last one.
        offset: byte of the file that the block starts with.
    """

    text: Text
    start: Ints
    end: Ints
    offset: int

    def sizes(self) -> Ints:
        """Return the bytes of each line with its line end."""
        return np.minimum(self.end + 1, self.text.stop) - self.start

    def hollow(self) -> Ints:
        """Return the lines with NULs in them: something that was never stored, and two halves of records."""
        raw, stop = self.text.raw, self.text.stop
        if raw.find(b"\0", self.text.start, stop) < 0:
            return np.zeros(0, np.int64)
        places = np.flatnonzero(self.text.bytes[self.text.start : stop] == 0) + self.text.start
        return np.unique(np.searchsorted(self.start, places, "right") - 1)

    def lines(self, rows: Mask) -> pl.DataFrame:
        """Return `seq`, `offset`, `length`, `size` (with line end) and `line` of some lines."""
        start, end = self.start[rows], self.end[rows]
        # A file in another encoding must not stop the reader: bad bytes become U+FFFD.
        lines = [self.text.read(a, b) for a, b in zip(start.tolist(), end.tolist(), strict=True)]
        frame = pl.DataFrame({
            "seq": np.flatnonzero(rows), "offset": start - self.text.start + self.offset, "length": end - start,
            "size": self.sizes()[rows], "line": pl.Series(lines, dtype=pl.String),
        })  # fmt: skip
        return frame.with_columns(pl.col("line").str.strip_chars_end("\r"))


@dataclass
class BlockLines:
    """Hold the records of one block and the account of its bytes.

    Args:
        lines: seq, offset, kind, line and others of the lines that were read as text.
        losses: what notes between the lines tell.
        damages: rows as in `losses`: between which records those lie that cannot be read, for each CPU of the block.
    """

    lines: pl.DataFrame
    records: pl.DataFrame
    graph: pl.DataFrame
    ledger: pl.DataFrame
    losses: pl.DataFrame
    damages: pl.DataFrame


def looks_like_ftrace_text(head: bytes) -> bool:
    """Tell whether the first bytes of a file are kernel trace text."""
    if head.startswith(b"# tracer: "):
        return True
    return b"\0" not in head and (_HEAD_RECORD.search(head) is not None or find_prefix(head[:_HEAD_BYTES]) is not None)


def cut_blocks(chunks: Iterable[bytes], size: int = BLOCK_BYTES) -> Iterator[tuple[int, bytes]]:
    """Yield (offset, bytes) blocks that depend on the stream only, not on how `chunks` cut it.

    A block ends before a line that starts a record, so that continuation lines stay with theirs.
    """
    parts: list[bytes] = []
    held = offset = 0
    for chunk in chunks:
        parts.append(chunk)
        held += len(chunk)
        if held < size:
            continue
        buffer, at = b"".join(parts), 0
        while len(buffer) - at >= size:
            end = _cut(buffer, at, size)
            yield offset + at, buffer[at:end]
            at = end
        parts, held, offset = [buffer[at:]], len(buffer) - at, offset + at
    rest = b"".join(parts)
    if rest:
        yield offset, rest


def _cut(buffer: bytes, begin: int, size: int) -> int:
    """Return where the block that begins at `begin` ends: before the last line that starts a record."""
    end = last = buffer.rfind(b"\n", begin, begin + size) + 1
    if not end:
        return begin + size
    for _ in range(_LOOK_BACK):
        start = buffer.rfind(b"\n", begin, end - 1) + 1
        if start <= begin:
            break
        if _RECORD_START.match(buffer[start : min(end, start + 200)]):
            return _before_lost(buffer, begin, start)
        end = start
    return _before_lost(buffer, begin, last)


def _before_lost(buffer: bytes, begin: int, at: int) -> int:
    """Return where the notes of losses in front of the record at `at` begin: it tells when the losses ended."""
    while (start := buffer.rfind(b"\n", begin, at - 1) + 1) > begin and _LOST_LINE.match(buffer, start):
        at = start
    return at


def read_lines(block: BlockText, rest: Mask, file: int, others: pl.DataFrame, prefix: Prefix) -> BlockLines:
    """Return the records of the lines `rest` of a block, and the account of all its lines.

    Args:
        block: the lines.
        rest: which lines to read.
        file: key of the file.
        others: the records that the other lines are, with `offset`, `cpu`, `stamp_ns`.
        prefix: the form of the records.
    """
    frame = block.lines(rest)
    frame = frame.with_columns(pl.col("line").str.extract_groups(prefix.pattern + _BODY).alias("m")).unnest("m")
    frame = _attach_continuations(_mark_damages(frame.with_columns(_kinds().alias("kind")), block.hollow()))
    records = _finish_records(frame.filter(pl.col("kind") == "record"), prefix)
    graph = frame.filter(pl.col("kind") == "graph").select("seq", "offset", "length", "line")
    losses, damages = _losses(frame, [records, others]), _list_damages(frame, [records, others])
    read = block.sizes()[~rest]
    ledger = _ledger(frame, losses, file, (len(read), int(read.sum())))
    return BlockLines(frame, records, graph, ledger, losses, damages)


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


def _mark_damages(frame: pl.DataFrame, hollow: Ints) -> pl.DataFrame:
    """Return the lines with the kinds `nul` and `broken` where what is left of them are no records."""
    kind, rest = frame["kind"], (frame["kind"] == "rest").arg_true()
    broken = rest.filter(frame["line"].gather(rest).str.contains(_BROKEN))
    glued = frame.select(_is_glued().arg_true()).to_series()
    if broken.is_empty() and glued.is_empty() and not len(hollow):
        return frame
    kind = kind.scatter(broken, "broken").scatter(glued, "broken")
    return frame.with_columns(kind.scatter(frame["seq"].is_in(hollow.tolist()).arg_true(), "nul"))


def _is_glued() -> pl.Expr:
    """Tell which records end early, in the beginning of the next line."""
    twice = (pl.col("line").str.count_matches(_HEAD) > 1) & ~pl.col("event").is_in(_OF_PROGRAMS)
    return (pl.col("kind") == "record") & (twice | pl.col("comm").str.contains(TWO_NAMES))


def _list_damages(frame: pl.DataFrame, records: list[pl.DataFrame]) -> pl.DataFrame:
    """Return where records are damaged: from the one before them to the one behind.

    One whose CPU is still told counts there; others may be any number, on every CPU, and so may those between a line
    that ended early and the one behind it.
    """
    hurt = frame.filter(pl.col("kind").is_in(["broken", "nul"]))
    stamps = stamps_of(records).drop_nulls()
    if hurt.is_empty() or stamps.is_empty():
        return schema.LOSSES.empty()
    behind = stamps["offset"].search_sorted(hurt["offset"])
    before = stamps["stamp_ns"].gather((behind.cast(pl.Int64) - 1).clip(0))
    after = stamps["stamp_ns"].gather(behind.clip(0, stamps.height - 1))
    one = (pl.col("kind") == "broken") & ~pl.col("line").str.contains(_GLUED_TEXT)
    told = pl.when(one).then(pl.col("line").str.extract(_BRACKET).cast(pl.UInt16, strict=False))
    # Behind the last record of a block nothing tells how far it goes: to the next one of its thread, at least.
    spans = hurt.select(told.alias("cpu")).with_columns(before.alias("from_ns"), after.alias("to_ns")).with_columns(
        pl.max_horizontal("to_ns", pl.col("from_ns") + 1)
    )  # fmt: skip
    known, unknown = spans.drop_nulls("cpu"), spans.filter(pl.col("cpu").is_null()).drop("cpu").unique()
    counted = known.group_by("cpu", "from_ns", "to_ns").agg(count=pl.len().cast(pl.Int64))
    anywhere = unknown.join(stamps.select("cpu").unique(), how="cross").with_columns(count=pl.lit(None, pl.Int64))
    return schema.LOSSES.conform(pl.concat([counted, anywhere.select(counted.columns)]))


def stamps_of(records: list[pl.DataFrame]) -> pl.DataFrame:
    """Return offset, cpu, stamp_ns of records, in the order of the file."""
    columns = {"offset": pl.Int64, "cpu": pl.UInt16, "stamp_ns": pl.Int64}
    return pl.concat([f.select(pl.col(c).cast(t) for c, t in columns.items()) for f in records]).sort("offset")


def _attach_continuations(frame: pl.DataFrame) -> pl.DataFrame:
    """Join lines without a prefix to the record before them; those without one stay `rest`."""
    if not (frame["kind"] == "rest").any():
        return frame
    # A blank line may lie in the middle of a text of several lines.
    outer = (pl.col("kind") != "rest") & (pl.col("line") != "")
    owner = pl.when(pl.col("kind") == "record").then(pl.col("offset")).when(outer).then(-1)
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


def _finish_records(frame: pl.DataFrame, prefix: Prefix) -> pl.DataFrame:
    return frame.select(
        "seq",
        "offset",
        "length",
        prefix.stamp_ns().alias("stamp_ns"),
        prefix.whole("cpu").cast(pl.UInt16, strict=False),
        prefix.whole("tid"),
        pl.col("pid").str.to_integer(strict=False).cast(pl.UInt32, strict=False),
        pl.col("comm"),
        pl.col("event"),
        pl.col("sep").fill_null(""),
        pl.col("rest"),
        pl.col("frac").is_null().alias("whole"),
    )


def _losses(frame: pl.DataFrame, records: list[pl.DataFrame]) -> pl.DataFrame:
    """Return the gaps; one ends at the next record of its CPU and starts after the last one before it."""
    lost = frame.filter(pl.col("kind") == "lost")
    if lost.is_empty():
        return schema.LOSSES.empty()
    stamps = stamps_of(records)
    rows = [_gap(stamps, offset, line) for offset, line in lost.select("offset", "line").iter_rows()]
    return pl.DataFrame(rows, schema=schema.LOSSES.schema)


def _gap(records: pl.DataFrame, offset: int, line: str) -> dict[str, object]:
    found = re.match(_LOST, line)
    cpu = int(found["lost_cpu"]) if found else None
    stamps = records.filter(pl.col("cpu") == cpu)
    before = stamps.filter(pl.col("offset") < offset)["stamp_ns"]
    after = stamps.filter(pl.col("offset") > offset)["stamp_ns"]
    return {
        "source": "ftrace",
        "cpu": cpu if cpu is not None and cpu < 1 << 16 else None,
        "from_ns": before[-1] if len(before) else None,
        "to_ns": after[0] if len(after) else None,
        "count": count_lost(int(found["lost"])) if found and found["lost"] else None,
    }


def _ledger(frame: pl.DataFrame, losses: pl.DataFrame, file: int, others: tuple[int, int]) -> pl.DataFrame:
    is_no_record = pl.col("kind").is_in(list(_REASONS))
    # Headers, notes of losses and what a record goes on with are bytes of the file, but no records.
    counted = pl.col("kind").is_in(["record", "graph", *_REASONS])
    account = (
        frame.group_by(
            pl.when(is_no_record).then(pl.lit("skipped")).otherwise(pl.lit("used")).alias("outcome"),
            pl.col("kind").replace_strict(_REASONS, default="").alias("reason"),
        )
        .agg(counted.sum().alias("records"), pl.col("size").sum().alias("bytes"))
        .select("outcome", "reason", "records", "bytes")
    )
    used = pl.DataFrame([("used", "", *others)], schema=account.schema, orient="row")
    account = pl.concat([used, account]).group_by("outcome", "reason").agg(pl.col("records", "bytes").sum())
    account = account.filter(pl.col("records") + pl.col("bytes") > 0)
    account = schema.LEDGER.conform(account.with_columns(pl.lit(file).alias("file"), pl.lit("ftrace").alias("source")))
    return pl.concat([account, book_lost(losses, file)])


def book_lost(losses: pl.DataFrame, file: int) -> pl.DataFrame:
    """Return the row of the ledger for records that the kernel lost."""
    count = int(losses["count"].fill_null(1).sum())
    row = {"file": file, "source": "ftrace", "outcome": "lost", "reason": "ring_buffer_overrun", "records": count}
    return schema.LEDGER.conform(pl.DataFrame([{**row, "bytes": 0}] if count else [], schema=schema.LEDGER.schema))
