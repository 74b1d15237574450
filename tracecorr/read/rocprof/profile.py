"""Records of a profile, whatever file held them: which row each one is, and why others are none."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import polars as pl

from tracecorr.model import schema
from tracecorr.model.parts import Block
from tracecorr.model.reasons import TORN_LINE

# rocprofiler stamps with CLOCK_BOOTTIME (the system clock of HSA).
CLOCK = "boot"
# Why rows are skipped that tell no time, as those of statistics do, and those that an earlier file holds.
TIMELESS, REPEATED = "no times", "in another file of rocprof, too"
OTHER_TABLE = "line of another table"

# Columns of rocprofv3 (ROCm 6.2 to 7.x) and rocprof v1 (ROCm 4 to 6) that mean the same.
_SAME = {
    "start": ("Start_Timestamp", "BeginNs"),
    "end": ("End_Timestamp", "EndNs"),
    "pid": ("Process_Id", "pid"),
    "tid": ("Thread_Id", "tid"),
    "queue_id": ("Queue_Id", "queue-id"),
    "dispatch_id": ("Dispatch_Id", "queue-index"),
    "correlation_id": ("Correlation_Id",),
    "stream_id": ("Stream_Id",),
    "size_bytes": ("Size", "Allocation_Size"),
    "agent_id": ("Agent_Id",),
    "gpu_id": ("gpu-id",),
    "kernel_v1": ("KernelName",),
    "kernel_v3": ("Kernel_Name",),
    "name": ("Kernel_Name", "KernelName", "Function", "Direction", "Operation", "Name"),
    "kind": ("Kind", "Domain"),
    # A counter that rocprofv3 read while a kernel ran: ROCm 6.2 prints 16384, later releases 16384.000000.
    "counter": ("Counter_Name",),
    "counter_value": ("Counter_Value",),
    # What a JSON trace of rocprof v1 calls the process in which it shows a record.
    "lane": ("lane",),
}
_NUMBERS = ("start", "end", "pid", "tid", "queue_id", "dispatch_id", "correlation_id", "stream_id", "size_bytes")
_NUMBER, _WHOLE = r"^\d{1,18}$", r"^(\d{1,18})(?:\.0+)?$"
_ARGS = ("tid", "queue_id", "dispatch_id", "correlation_id", "stream_id")
# Layers by a word in the kind that rocprofv3 names, first fit.
_KINDS = (("KERNEL", "gpu"), ("COPY", "gpu"), ("HIP", "hip"), ("HSA", "hsa"), ("MARKER", "marker"),
          ("MEMORY", "memory"), ("", "other"))  # fmt: skip
_COPIES, _KERNELS = "COPY", r"^GPU\d+$"
# `[clone .kd]` names the kernel descriptor; the HIP log prints the kernel.
_DESCRIPTOR = r"\s*\[clone \.kd\]$|\.kd$"
_KEY = ("layer", "start", "end")


class RepeatedRecords:
    """Find what earlier files of a capture hold, by layer, start and end in nanoseconds.

    Single times may agree by chance: records of a layer are the same only where half of those of one file are in the
    other.
    """

    def __init__(self) -> None:
        self._files: list[pl.DataFrame] = []

    def find(self, records: pl.DataFrame) -> pl.DataFrame:
        """Return the keys (layer, start, end) of a file that an earlier file holds, and remember all of them."""
        rows = records.filter(pl.col("reason") == "").select(_KEY).unique()
        found = [rows.clear()]
        for earlier in self._files:
            same = rows.join(earlier, on=_KEY, how="semi")
            shares = same.group_by("layer").agg(same=pl.len())
            for frame, name in ((rows, "own"), (earlier, "other")):
                shares = shares.join(frame.group_by("layer").agg(pl.len().alias(name)), on="layer")
            sure = shares.filter(2 * pl.col("same") >= pl.min_horizontal("own", "other"))
            found.append(same.join(sure, on="layer", how="semi"))
        self._files.append(rows)
        return pl.concat(found).unique()


def make_block(
    records: pl.DataFrame, others: Sequence[tuple[str, int, int]], file: int, repeated: RepeatedRecords | None,
    size: int = 0,
) -> Block:  # fmt: skip
    """Return the rows and the ledger of one file.

    Args:
        records: `offset` (byte, or number of the record), `length` (0 where its bytes have no place of their own),
            `size` (bytes to book), and any columns of rocprof as text, null or empty where a record has none;
            `is_cut` if the file may end inside of it.
        others: (reason, records, bytes) of what is no record.
        file: key of `files`.
        repeated: what the other files of the capture hold, None where there is no other.
        size: bytes to book with the first of the reasons, for records without a place of their own.
    """
    read = _classify(_read_columns(records))
    if repeated is not None:
        known = repeated.find(read)
        again = read.select(_KEY).join(known.with_columns(again=True), on=_KEY, how="left", maintain_order="left")
        is_again = again["again"].fill_null(value=False) & (read["reason"] == "")
        read = read.with_columns(reason=pl.when(is_again).then(pl.lit(REPEATED)).otherwise("reason"))
    used = read.filter(pl.col("reason") == "")
    return Block(events=_events(used, file), args=_args(used, file), ledger=_ledger(read, others, file, size))


def _read_columns(records: pl.DataFrame) -> pl.DataFrame:
    """Return the records with the columns of `_SAME`: the first that a record fills, numbers of at most 18 digits."""
    columns = {}
    for name, sources in _SAME.items():
        given = [pl.col(c).replace("", None) for c in sources if c in records.columns]
        value = pl.coalesce(given) if given else pl.lit(None, pl.String)
        if name in _NUMBERS:
            value = pl.when(value.str.contains(_NUMBER)).then(value).str.to_integer(dtype=pl.Int64, strict=False)
        columns[name] = value
    is_cut = "is_cut" if "is_cut" in records.columns else pl.lit(value=False).alias("is_cut")
    return records.select("offset", "length", "size", is_cut, **columns)


def _classify(read: pl.DataFrame) -> pl.DataFrame:
    """Return the records with `layer`, `is_kernel` and `reason`, empty for those that become rows."""
    kind, name, lane = pl.col("kind"), pl.col("name").fill_null("?"), pl.col("lane").fill_null("")
    by_kind = pl.lit(None, pl.String)
    for word, name_of in reversed(_KINDS):
        by_kind = pl.when(kind.str.contains(word, literal=True)).then(pl.lit(name_of)).otherwise(by_kind)
    on_gpu = (lane == _COPIES) | lane.str.contains(_KERNELS) | name.str.starts_with("async-copy")
    layer = (
        pl.when(kind.is_not_null())
        .then(by_kind)
        .when(pl.col("kernel_v1").is_not_null())
        .then(pl.lit("gpu"))
        # A counter of a kernel: the kernel's own record has its times.
        .when(pl.col("kernel_v3").is_not_null())
        .then(pl.lit("other"))
        .when(on_gpu)
        .then(pl.lit("gpu"))
        .when(name.str.starts_with("hsa_"))
        .then(pl.lit("hsa"))
        .otherwise(pl.lit("hip"))
    )
    timed = (pl.col("end") >= pl.col("start")).fill_null(value=False)
    # The last number of a file may be cut: that of the end.
    torn = pl.col("is_cut") & pl.col("start").is_not_null()
    reason = pl.when(timed).then(pl.lit("")).when(torn).then(pl.lit(TORN_LINE)).otherwise(pl.lit(TIMELESS))
    is_named = pl.col("kernel_v1").is_not_null() | pl.col("kernel_v3").is_not_null()
    return read.with_columns(layer=layer, reason=reason, name=name.str.replace_all(_DESCRIPTOR, "")).with_columns(
        is_kernel=(pl.col("layer") == "gpu") & (is_named | lane.str.contains(_KERNELS))
    )


def _events(used: pl.DataFrame, file: int) -> pl.DataFrame:
    return schema.PART_EVENTS.conform(
        used.select(
            "offset", "length", "layer", "pid", "size_bytes", stamp_ns="start", end_stamp_ns="end",
            name=pl.when("is_kernel").then(pl.lit("dispatch")).otherwise("name"),
            kernel=pl.when("is_kernel").then("name"), file=pl.lit(file, pl.UInt16), clock=pl.lit(CLOCK),
        )
    )  # fmt: skip


def _args(used: pl.DataFrame, file: int) -> pl.DataFrame:
    """Return the fields that have no column of `events`; the value of a counter by the name of the counter."""
    agent, lane = pl.col("agent_id"), pl.col("lane").fill_null("")
    # As rocprofv3 calls it (`Agent 4`), or rocprof v1 (`gpu-id 9`, `GPU0`).
    gpu = (
        pl.when(agent.str.contains(r"^\d+$"))
        .then(pl.format("Agent {}", agent))
        .when(agent.is_not_null())
        .then(agent)
        .when(pl.col("gpu_id").is_not_null())
        .then(pl.format("gpu-id {}", "gpu_id"))
        .when(lane.str.contains(_KERNELS))
        .then(lane)
    )
    whole = pl.col("counter_value").str.extract(_WHOLE).str.to_integer(dtype=pl.UInt64, strict=False)
    none, no_text = pl.lit(None, pl.UInt64), pl.lit(None, pl.String)
    told: list[tuple[pl.Expr, pl.Expr, pl.Expr]] = [
        (pl.lit(name), pl.col(name).cast(pl.UInt64), no_text) for name in _ARGS
    ]
    told.append((pl.lit("agent"), none, pl.when(pl.col("layer") == "gpu").then(gpu)))
    has_counter = pl.col("counter").is_not_null()
    text = pl.when(has_counter & whole.is_null()).then("counter_value")
    told.append((pl.col("counter"), pl.when(has_counter).then(whole), text))
    pieces = [
        used.select("offset", pl.lit(place).alias("place"), key=key, u64=number, text=text)
        for place, (key, number, text) in enumerate(told)
    ]
    rows = pl.concat(pieces).filter(pl.col("u64").is_not_null() | pl.col("text").is_not_null())
    rows = rows.sort("offset", "place", maintain_order=True).drop("place")
    return schema.PART_ARGS.conform(rows.with_columns(file=pl.lit(file, pl.UInt16)))


def _ledger(read: pl.DataFrame, others: Iterable[tuple[str, int, int]], file: int, size: int) -> pl.DataFrame:
    sums = read.group_by("reason", maintain_order=True).agg(
        pl.len().cast(pl.Int64).alias("records"), pl.col("size").cast(pl.Int64).sum().alias("bytes")
    )
    more = pl.DataFrame(list(others), schema=sums.schema, orient="row")
    rows = pl.concat([more, sums])
    if size:
        rows = rows.sort("reason", maintain_order=True).with_row_index("row")
        rows = rows.with_columns(bytes=pl.when(pl.col("row") == 0).then(size).otherwise("bytes")).drop("row")
    rows = rows.filter(pl.col("records") + pl.col("bytes") > 0)
    outcome = pl.when(pl.col("reason") == "").then(pl.lit("used")).otherwise(pl.lit("skipped"))
    columns = {"outcome": outcome, "file": pl.lit(file, pl.UInt16), "source": pl.lit("rocprof")}
    return schema.LEDGER.conform(rows.with_columns(**columns))


def number_records(rows: Sequence[Mapping[str, str | None]], columns: Iterable[str]) -> pl.DataFrame:
    """Return records that have no place of their own in their file: `offset` is their number, `length` 0.

    Args:
        rows: the columns of each record.
        columns: names of all columns.
    """
    frame = pl.DataFrame(rows, schema=dict.fromkeys(columns, pl.String)).with_row_index("offset")
    return frame.with_columns(pl.col("offset").cast(pl.Int64), size=pl.lit(0, pl.Int64), length=pl.lit(0))
