"""Read `raw/kfd_smi.txt`: the SMI events of the KFD, one line each, as a capture took them from the driver.

A line is `AFTER BEFORE GPU EVENT`: the read that brought the event returned at BEFORE, and at AFTER there was nothing
to read (CLOCK_MONOTONIC, ns); GPU is the gpu_id (hex) that was asked; EVENT is the driver's own line, `ID FIELDS`
(kfd_smi_events.c and kfd_ioctl.h, Linux 5.8 to 7.2 and the DKMS driver up to id 14). Most events carry the time of
CLOCK_BOOTTIME. VMFAULT, THERMAL_THROTTLE, the resets and PROCESS_START and _END carry none: theirs is that of the read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import polars as pl

from tracecorr.model import schema
from tracecorr.model.kinds import Flag
from tracecorr.model.parts import Block
from tracecorr.read.kfd.ioctls import result_text

_SOURCE = "kfd_smi"
# Argument of an event whose time is that of its read: ns before that in which it happened.
_WAITED = "waited_ns"
_PAGE_BYTES = 4096
_HEAD = r"^(?<after>\d{1,18}) (?<before>\d{1,18}) (?<gpu>[0-9a-f]{1,8}) (?<id>[0-9a-f]{1,8}) (?<rest>.*?)[\x00 ]*$"
_TIMED = r"^(?<ns>\d{1,18}) -(?<pid>\d+) "
_RANGE = r"@(?<page>[0-9a-f]{1,16})\((?<pages>[0-9a-f]{1,16})\) "
_FAULT = r"@(?<page>[0-9a-f]{1,16})\((?<node>[0-9a-f]{1,8})\) "
# Per id: the name of what it begins, ends or is, its part in that, and what its fields look like.
_FORMS: dict[int, tuple[str, str, str]] = {
    1: ("VMFAULT", "", r"^(?<hexpid>[0-9a-f]{1,8}):(?<task>.*)$"),
    2: ("THERMAL_THROTTLE", "", r"^(?<bitmask>[0-9a-f]{1,16}):(?<counter>[0-9a-f]{1,16})$"),
    3: ("GPU_RESET", "start", r"^(?<sequence>[0-9a-f]{1,8})(?: (?<cause>.*))?$"),
    4: ("GPU_RESET", "end", r"^(?<sequence>[0-9a-f]{1,8})(?: (?<cause>.*))?$"),
    5: ("MIGRATE", "start", rf"{_TIMED}{_RANGE}(?<from>[0-9a-f]{{1,8}})->(?<to>[0-9a-f]{{1,8}}) "
        r"(?<prefetch>[0-9a-f]{1,8}):(?<preferred>[0-9a-f]{1,8}) (?<trigger>\d+)$"),
    6: ("MIGRATE", "end", rf"{_TIMED}{_RANGE}(?<from>[0-9a-f]{{1,8}})->(?<to>[0-9a-f]{{1,8}}) (?<trigger>\d+)"
        r"(?: (?<error>-?\d+))?$"),
    7: ("PAGE_FAULT", "start", rf"{_TIMED}{_FAULT}(?<access>[RW])$"),
    8: ("PAGE_FAULT", "end", rf"{_TIMED}{_FAULT}(?<recovery>[MU])$"),
    9: ("QUEUE_EVICTION", "start", rf"{_TIMED}(?<node>[0-9a-f]{{1,8}}) (?<trigger>\d+)$"),
    10: ("QUEUE_EVICTION", "end", rf"{_TIMED}(?<node>[0-9a-f]{{1,8}})(?: (?<again>[0R]))?$"),
    11: ("UNMAP_FROM_GPU", "", rf"{_TIMED}{_RANGE}(?<node>[0-9a-f]{{1,8}}) (?<trigger>\d+)$"),
    12: ("PROCESS_START", "", r"^(?<hexpid>[0-9a-f]{1,8}) (?<task>.*)$"),
    13: ("PROCESS_END", "", r"^(?<hexpid>[0-9a-f]{1,8}) (?<task>.*)$"),
    14: ("DROPPED_EVENT", "", rf"{_TIMED}(?<dropped>\d{{1,9}})$"),
}  # fmt: skip
# A restore that failed and is tried again ends nothing.
_RESCHEDULED = "QUEUE_RESTORE_RESCHEDULED"
_TRIGGERS = {
    "MIGRATE": ("PREFETCH", "PAGEFAULT_GPU", "PAGEFAULT_CPU", "TTM_EVICTION"),
    "QUEUE_EVICTION": ("SVM", "USERPTR", "TTM", "SUSPEND", "CRIU_CHECKPOINT", "CRIU_RESTORE"),
    "UNMAP_FROM_GPU": ("MMU_NOTIFY", "MMU_NOTIFY_MIGRATE", "UNMAP_FROM_CPU"),
}
_RECOVERIES = {"M": "migration", "U": "page table update"}
_TEXTS = (
    "after", "before", "ns", "pid", "hexpid", "task", "bitmask", "counter", "sequence", "cause", "page", "pages",
    "from", "to", "prefetch", "preferred", "trigger", "error", "node", "access", "recovery", "again", "dropped",
)  # fmt: skip
# What names one thing that begins and ends.
_KEY = ("name", "gpu_id", "pid", "page", "pages", "from", "to", "sequence")
_HEX_ARGS = ("bitmask", "counter", "sequence", "from", "to", "prefetch", "preferred")


def read_smi_events(chunks: Iterable[bytes], file: int) -> Iterator[Block]:
    """Yield the one block of the SMI events of a capture.

    What begins and ends is one row: `QUEUE_EVICTION` lasts until the restore of the same process on the same GPU,
    `PAGE_FAULT`, `MIGRATE` and `GPU_RESET` likewise; layer `smi`, pid = host pid, clock `boot`. An event without a time
    of its own has clock `mono`, the end of the read, and `_WAITED` says how much earlier it may have happened. Events
    that the driver dropped are losses.

    Args:
        chunks: its decompressed bytes.
        file: key of its file.
    """
    rows = _read_lines(b"".join(chunks), file)
    known = rows.filter(pl.col("name").is_not_null())
    events = _pair(known)
    dropped = known.filter(pl.col("dropped").is_not_null())
    losses = dropped.select(source=pl.lit(_SOURCE), from_ns="after", to_ns="before", count=pl.col("dropped"))
    yield Block(
        events=schema.PART_EVENTS.conform(events.select(n for n in schema.PART_EVENTS.schema if n in events.columns)),
        args=_args(events), ledger=_ledger(rows, file), losses=schema.LOSSES.conform(losses),
    )  # fmt: skip


def _read_lines(data: bytes, file: int) -> pl.DataFrame:
    """Return a row per line: where it is, its fields, and the reason why it is none of these events."""
    lines = data.split(b"\n")
    torn = lines.pop()
    sizes = [len(line) + 1 for line in lines] + ([len(torn)] if torn else [])
    texts = [line.decode(errors="replace") for line in lines] + ([torn.decode(errors="replace")] if torn else [])
    frame = pl.DataFrame({"text": texts, "size": sizes}, schema={"text": pl.String, "size": pl.Int64})
    ends = pl.col("size").cum_sum()
    head = frame.with_columns(
        pl.col("text").str.extract_groups(_HEAD), file=pl.lit(file), offset=ends - pl.col("size"),
        length=pl.col("size") - (pl.int_range(pl.len()) < len(lines)).cast(pl.Int64),
        torn=pl.int_range(pl.len()) >= len(lines),
    ).unnest("text")  # fmt: skip
    head = head.with_columns(
        pl.col("id").str.to_integer(base=16, strict=False), gpu_id=_hexadecimal("gpu"), fields="rest"
    ).drop("gpu", "rest")
    pieces = [_read_form(piece, *_FORMS.get(int(key or 0), ("", "", ""))) for (key,), piece in _by_id(head)]
    if not pieces:
        pieces = [_read_form(head, "", "", "")]
    read = pl.concat(pieces).sort("offset").with_columns(
        pl.col("after", "before", "ns", "dropped").cast(pl.Int64, strict=False),
        pid=pl.coalesce(pl.col("pid").cast(pl.Int64, strict=False), _hexadecimal("hexpid").cast(pl.Int64)),
    )  # fmt: skip
    return _settle(read)


def _by_id(head: pl.DataFrame) -> Iterator[tuple[tuple[int | None], pl.DataFrame]]:
    for key, piece in head.group_by("id", maintain_order=True):
        yield (key[0],), piece


def _read_form(piece: pl.DataFrame, name: str, part: str, form: str) -> pl.DataFrame:
    """Return the lines of one id with their fields; `name` is null if a line is not of its form."""
    have = ("after", "before")
    found = piece.with_columns(pl.col("fields").str.extract_groups(form or "^(?<none>$)x").alias("found"))
    inner = [f.name for f in found.schema["found"].fields]  # type: ignore[attr-defined]
    texts = [
        pl.col("found").struct.field(n).alias(n) if n in inner else pl.lit(None, pl.String).alias(n)
        for n in _TEXTS if n not in have
    ]  # fmt: skip
    fits = pl.col("found").struct.field(inner[0]).is_not_null() if form else pl.lit(value=False)
    kept = ("file", "offset", "length", "size", "torn", "id", "gpu_id", *have)
    whole = fits & ~pl.col("torn")
    return found.select(*kept, *texts, name=pl.when(whole).then(pl.lit(name)), part=pl.when(whole).then(pl.lit(part)))


def _settle(read: pl.DataFrame) -> pl.DataFrame:
    """Tell restores that are tried again from those that end an eviction; say why a line is no event."""
    again = (pl.col("id") == 10) & (pl.col("again") == "R").fill_null(False)
    reason = (
        pl.when(pl.col("name").is_not_null()).then(pl.lit(""))
        .when(pl.col("torn")).then(pl.lit("torn_line"))
        .when(pl.col("id").is_null()).then(pl.lit("no_line_of_smi_events"))
        .when(pl.col("id").is_in(list(_FORMS))).then(pl.lit("unknown_fields"))
        .otherwise(pl.lit("unknown_event"))
    )  # fmt: skip
    known = pl.col("name").is_not_null()
    return read.with_columns(
        name=pl.when(known & again).then(pl.lit(_RESCHEDULED)).otherwise("name"),
        part=pl.when(known & again).then(pl.lit("")).otherwise("part"),
        # That line names the process that reads, not one that something happened to.
        pid=pl.when(pl.col("dropped").is_null()).then("pid"),
        reason=reason,
        stamp_ns=pl.coalesce("ns", "before"),
        clock=pl.when(pl.col("ns").is_not_null()).then(pl.lit("boot")).otherwise(pl.lit("mono")),
    )


def _pair(rows: pl.DataFrame) -> pl.DataFrame:
    """Return a row per thing: start and end of one depth of the same thing are one."""
    step = pl.col("part").replace_strict({"start": 1, "end": -1}, default=0, return_dtype=pl.Int64)
    depth = step.cum_sum().over(_KEY)
    level = pl.when(pl.col("part") == "end").then(depth + 1).otherwise(depth)
    spans = rows.filter(pl.col("part") != "").sort("offset").with_columns(level=level)
    key = [*_KEY, "level"]
    follows, leads = (pl.col("part").shift(by).over(key) for by in (-1, 1))
    closed = (pl.col("part") == "start") & (follows == "end").fill_null(False)
    ends = {
        "end_stamp_ns": "stamp_ns", "end_offset": "offset", "end_length": "length", "end_error": "error",
        "end_recovery": "recovery",
    }  # fmt: skip
    spans = spans.with_columns(
        *(pl.when(closed).then(pl.col(of).shift(-1).over(key)).alias(name) for name, of in ends.items()),
        taken=(pl.col("part") == "end") & (leads == "start").fill_null(False),
    ).with_columns(
        pl.coalesce("end_error", "error").alias("error"), pl.coalesce("end_recovery", "recovery").alias("recovery")
    )
    half = (
        pl.when(pl.col("end_offset").is_not_null()).then(0)
        .when(pl.col("part") == "start").then(int(Flag.ENTER_ONLY))
        .otherwise(int(Flag.EXIT_ONLY))
    )  # fmt: skip
    whole = spans.filter(~pl.col("taken")).with_columns(flags=half)
    moments = rows.filter(pl.col("part") == "").with_columns(flags=pl.lit(0))
    both = pl.concat([moments, whole], how="diagonal_relaxed").sort("offset")
    error = pl.col("error").cast(pl.Int64, strict=False)
    return both.with_columns(
        layer=pl.lit("smi"),
        size_bytes=_in_bytes("pages"),
        result=result_text(error, pl.lit(value=False)),
    )


def _args(events: pl.DataFrame) -> pl.DataFrame:
    trigger = pl.coalesce(
        *(pl.when(pl.col("name") == name).then(
            pl.col("trigger").replace({str(n): text for n, text in enumerate(texts)})
        ) for name, texts in _TRIGGERS.items())
    )  # fmt: skip
    numbers = {name: _hexadecimal(name) for name in _HEX_ARGS}
    read = pl.col("clock") == "mono"
    numbers |= {
        "gpu_id": pl.col("gpu_id"), "address": _in_bytes("page"), "dropped": pl.col("dropped"),
        _WAITED: pl.when(read).then(pl.col("before") - pl.col("after")),
    }  # fmt: skip
    recovery = pl.col("recovery").replace(_RECOVERIES)
    texts = {"trigger": trigger, "cause": pl.col("cause"), "task": pl.col("task"), "access": pl.col("access"),
             "recovered_by": recovery}  # fmt: skip
    pieces = [
        events.select("file", "offset", key=pl.lit(name), u64=value.cast(pl.UInt64, strict=False))
        .drop_nulls("u64").with_columns(text=pl.lit(None, pl.String))
        for name, value in numbers.items()
    ] + [
        events.select("file", "offset", key=pl.lit(name), u64=pl.lit(None, pl.UInt64), text=value).drop_nulls("text")
        for name, value in texts.items()
    ]  # fmt: skip
    return schema.PART_ARGS.conform(pl.concat(pieces).sort("offset", maintain_order=True))


def _ledger(rows: pl.DataFrame, file: int) -> pl.DataFrame:
    counted = rows.group_by("reason", maintain_order=True).agg(records=pl.len(), bytes=pl.col("size").sum())
    outcome = pl.when(pl.col("reason") == "").then(pl.lit("used")).otherwise(pl.lit("skipped"))
    return schema.LEDGER.conform(counted.with_columns(file=pl.lit(file), source=pl.lit(_SOURCE), outcome=outcome))


def _in_bytes(name: str) -> pl.Expr:
    """Return a hexadecimal number of pages in bytes; null if no address space has so many."""
    pages = _hexadecimal(name)
    return pl.when(pages < 2**64 // _PAGE_BYTES).then(pages * _PAGE_BYTES)


def _hexadecimal(name: str) -> pl.Expr:
    return pl.col(name).str.to_integer(base=16, dtype=pl.UInt64, strict=False)
