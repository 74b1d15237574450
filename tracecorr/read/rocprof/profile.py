"""Records of a profile, whatever file held them: which row each one is, and why others are none."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import polars as pl

from tracecorr.model import schema
from tracecorr.model.kinds import KERNEL_FIELDS
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
    # What the compiler gave a kernel.
    "vgpr": ("VGPR_Count", "Arch_VGPR_Count", "arch_vgpr"),
    "sgpr": ("SGPR_Count", "sgpr"),
    "lds": ("LDS_Block_Size", "lds"),
    "scratch": ("Scratch_Size", "scr"),
    "kernarg_bytes": ("Kernarg_Size",),
    # A counter that rocprofv3 read while a kernel ran: ROCm 6.2 prints 16384, later releases 16384.000000.
    "counter": ("Counter_Name",),
    "counter_value": ("Counter_Value",),
    # What a JSON trace of rocprof v1 calls the process in which it shows a record.
    "lane": ("lane",),
}
_NUMBERS = (
    "start", "end", "pid", "tid", "queue_id", "dispatch_id", "correlation_id", "stream_id", "size_bytes",
    *KERNEL_FIELDS,
)  # fmt: skip
_NUMBER, _WHOLE = r"^\d{1,18}$", r"^(\d{1,18})(?:\.0+)?$"
_ARGS = ("tid", "queue_id", "dispatch_id", "correlation_id", "stream_id")
# The records of one dispatch have these in common.
_DISPATCH = ("pid", "queue_id", "dispatch_id", "correlation_id", "name", "start", "end")
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

    def find(self, records: pl.DataFrame, file: int) -> pl.DataFrame:
        """Return what of a file an earlier one holds, and remember all of it.

        Args:
            records: layer, start, end (ns), dispatch_id, reason, offset.
            file: key of `files`.

        Returns: layer, start, end, dispatch_id, and of the earlier record `known_file` and `known_offset`.
        """
        place = pl.lit(file, pl.UInt16).alias("known_file"), pl.col("offset").alias("known_offset")
        rows = records.filter(pl.col("reason") == "").select(*_KEY, "dispatch_id", *place)
        found = [rows.clear()]
        for earlier in self._files:
            same = earlier.join(rows, on=_KEY, how="semi")
            counts = {"same": same, "own": rows, "other": earlier}
            shares = rows.select("layer").unique()
            for name, frame in counts.items():
                counted = frame.select(_KEY).unique().group_by("layer").agg(pl.len().alias(name))
                shares = shares.join(counted, on="layer")
            sure = shares.filter(2 * pl.col("same") >= pl.min_horizontal("own", "other"))
            found.append(same.join(sure, on="layer", how="semi"))
        self._files.append(rows)
        return pl.concat(found).unique([*_KEY, "dispatch_id"], keep="first", maintain_order=True)


def make_block(
    records: pl.DataFrame, others: Sequence[tuple[str, int, int]], file: int, repeated: RepeatedRecords | None,
    size: int = 0,
) -> Block:  # fmt: skip
    """Return the rows and the ledger of one file.

    Args:
        records: `offset` (byte, or number of the record), `length` (0 if its bytes have no place of their own),
            `size` (bytes to book), and any columns of rocprof as text, null or empty if a record has none;
            `is_cut` if the file may end inside of it.
        others: (reason, records, bytes) of what is no record.
        file: key of `files`.
        repeated: what the other files of the capture hold, None if there is no other.
        size: bytes to book with the first of the reasons, for records without a place of their own.
    """
    read = _place(_classify(_read_columns(records)), file)
    if repeated is not None:
        read = _find_again(read, repeated.find(read, file))
    used = read.filter(pl.col("reason") == "")
    own = used.filter(pl.col("is_own"))
    args = _args(used.filter(pl.col("is_own") | pl.col("counter").is_not_null()))
    return Block(events=_events(own, file), args=args, ledger=_ledger(read, others, file, size))


def _place(read: pl.DataFrame, file: int) -> pl.DataFrame:
    """Return the records with the place (`at_file`, `at`) of the row that each of them is of, and `is_own`: it is it.

    A line of counters is one value of a dispatch; the first record of a dispatch is its row.
    """
    is_told = pl.col("is_kernel") & (pl.col("reason") == "")
    is_counter = pl.col("counter").is_not_null() & is_told
    at = pl.when(is_counter).then(pl.col("offset").first().over(is_told, *_DISPATCH)).otherwise("offset")
    placed = read.with_columns(at_file=pl.lit(file, pl.UInt16), at=at)
    return placed.with_columns(is_own=pl.col("at") == pl.col("offset"))


def _find_again(read: pl.DataFrame, known: pl.DataFrame) -> pl.DataFrame:
    """Return the records; those that an earlier file holds are none, but counters are values of its dispatches."""
    joined = read.join(
        known.unique(_KEY, keep="first").select(_KEY, again=True), on=_KEY, how="left", maintain_order="left"
    ).join(known, on=[*_KEY, "dispatch_id"], how="left", nulls_equal=True, maintain_order="left")
    is_again = (pl.col("reason") == "") & pl.col("again").fill_null(value=False)
    is_value = is_again & pl.col("counter").is_not_null() & pl.col("known_offset").is_not_null()
    return joined.with_columns(
        at_file=pl.when(is_value).then("known_file").otherwise("at_file"),
        at=pl.when(is_value).then("known_offset").otherwise("at"),
        is_own=pl.col("is_own") & ~is_again,
        reason=pl.when(is_again & ~is_value).then(pl.lit(REPEATED)).otherwise("reason"),
    ).drop("again", "known_file", "known_offset")


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
        .when(pl.col("kernel_v1").is_not_null() | pl.col("kernel_v3").is_not_null())
        .then(pl.lit("gpu"))
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


def _args(used: pl.DataFrame) -> pl.DataFrame:
    """Return the fields that have no column of `events`; the value of a counter by the name of the counter.

    What the compiler gave a kernel stands at the first dispatch that has these values.
    """
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
    is_new = pl.col("is_kernel") & pl.col("is_own") & pl.struct("name", *KERNEL_FIELDS).is_first_distinct()
    told: list[tuple[pl.Expr, pl.Expr, pl.Expr]] = [
        (pl.lit(name), pl.when("is_own").then(pl.col(name)).cast(pl.UInt64), no_text) for name in _ARGS
    ]
    told += [(pl.lit(name), pl.when(is_new).then(pl.col(name)).cast(pl.UInt64), no_text) for name in KERNEL_FIELDS]
    told.append((pl.lit("agent"), none, pl.when("is_own", pl.col("layer") == "gpu").then(gpu)))
    has_counter = pl.col("counter").is_not_null()
    text = pl.when(has_counter & whole.is_null()).then("counter_value")
    told.append((pl.col("counter"), pl.when(has_counter).then(whole), text))
    pieces = [
        used.select(pl.lit(place).alias("place"), file="at_file", offset="at", key=key, u64=number, text=text)
        for place, (key, number, text) in enumerate(told)
    ]
    rows = pl.concat(pieces).filter(pl.col("u64").is_not_null() | pl.col("text").is_not_null())
    return schema.PART_ARGS.conform(rows.sort("offset", "place", maintain_order=True).drop("place"))


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
