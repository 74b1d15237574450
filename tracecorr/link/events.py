"""What events get of what links them: fields as columns, chains, and the keys of queues, streams, kernels and GPUs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from tracecorr.clock.placing import UNTIMED
from tracecorr.model import schema
from tracecorr.model.kernel_names import demangle_name, label_kernels
from tracecorr.model.kinds import KERNEL_FIELDS, Flag

# No file is longer, in bytes.
_MOST_OFFSET = 1 << 48


def attach_columns(frame: pl.DataFrame, found: pl.DataFrame, key: str = "event") -> pl.DataFrame:
    """Return `frame` with the columns of `found`, null in rows that `found` does not name.

    Args:
        frame: its row i is number i.
        found: one row per number that it names.
        key: column of `found` with the numbers.
    """
    names = [name for name in found.columns if name != key]
    if found.is_empty():
        # Literals take no memory.
        return frame.with_columns(pl.lit(None, found.schema[name]).alias(name) for name in names)
    nothing = (pl.repeat(None, frame.height, dtype=found.schema[name], eager=True) for name in names)
    return frame.with_columns(
        column.scatter(found[key], found[name]).alias(name) for name, column in zip(names, nothing, strict=True)
    )


def fill_columns(frame: pl.DataFrame, found: pl.DataFrame, key: str = "event") -> pl.DataFrame:
    """Return `frame` with the values of `found` where its own are null; arguments as in `attach_columns`."""
    names = [name for name in found.columns if name != key]
    if found.is_empty():
        return frame
    added = attach_columns(pl.DataFrame(height=frame.height), found, key)
    return frame.with_columns(pl.coalesce(name, added[name]).alias(name) for name in names)


def find_places(rows: pl.DataFrame, asked: pl.DataFrame, offset: str = "offset", own: str = "offset") -> pl.Series:
    """Return the number of the row with the same file and offset for each of `asked`, of several the first one.

    Args:
        rows: columns file, and `own`.
        asked: columns file, and `offset`.
        offset, own: bytes; null is no place.
    """
    known, wanted = (
        frame.select((pl.col("file").cast(pl.Int64) * _MOST_OFFSET + pl.col(name)).fill_null(-1)).to_series().to_numpy()
        for frame, name in ((rows, own), (asked, offset))
    )
    if not len(known):
        return pl.repeat(None, len(wanted), dtype=pl.UInt32, eager=True)
    order = np.argsort(known, kind="stable")
    at = np.minimum(np.searchsorted(known[order], wanted), len(known) - 1)
    missing = (known[order[at]] != wanted) | (wanted < 0)
    return pl.Series(order[at], dtype=pl.UInt32).set(pl.Series(missing), None)


def attach_args(rows: pl.DataFrame, args: pl.DataFrame, keys: Sequence[str]) -> pl.DataFrame:
    """Return `rows` with a column for each of some named fields of their records, null if a record has none.

    Args:
        rows: columns file, offset.
        args: part args; a record has a field at most once.
        keys: the names of the fields.
    """
    place = ["file", "offset"]
    for key in keys:
        values = args.filter(pl.col("key") == key).select(*place, pl.col("u64").alias(key))
        rows = rows.join(values, on=place, how="left", maintain_order="left")
    return rows


def pivot_args(args: pl.DataFrame, events: pl.Series, keys: Sequence[str]) -> pl.DataFrame:
    """Return one row per event that has any of some fields: event, and a UInt64 column for each of them.

    Args:
        args: args by event: event, key, u64.
        events: the events that are asked about.
        keys: the names of the fields.
    """
    # There are many fields, and a capture has no event of most kinds.
    asked = args if len(events) else args.clear()
    wanted = asked.filter(pl.col("event").is_in(events.implode()) & pl.col("key").is_in(keys))
    first = [pl.col("u64").filter(pl.col("key") == key).first().alias(key) for key in keys]
    return wanted.group_by("event", maintain_order=True).agg(first)


def attach_fields(rows: pl.DataFrame, args: pl.DataFrame, keys: Sequence[str], value: pl.Expr) -> pl.DataFrame:
    """Return `rows` with a column for each of some fields of their events, null if an event has none.

    Args:
        rows: column event.
        args: args by event: event, key, u64, text.
        keys: the names of the fields.
        value: what is taken of a field.
    """
    asked = args if len(rows) else args.clear()
    for key in keys:
        values = asked.filter((pl.col("key") == key) & pl.col("event").is_in(rows["event"].implode()))
        values = values.select("event", value.alias(key)).unique("event", keep="first")
        rows = rows.join(values, on="event", how="left", maintain_order="left")
    return rows


def list_kernels(events: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the table `kernels`, and `event` -> `kernel_id` for every row that names one.

    A kernel that is printed mangled and demangled is one: HIP 6.4.3 prints mangled what a graph launches, demangled
    what a call does. If two mangled names read the same, the demangled one is neither of them.
    """
    named = events.select("event", "kernel").drop_nulls("kernel")
    groups = named.select("kernel").unique(maintain_order=True).with_row_index("code")
    codes = named.join(groups, on="kernel", how="left", maintain_order="left")["code"]
    printed = groups.select(pl.col("kernel").cast(pl.String)).with_row_index("code")
    readable = pl.Series([demangle_name(name) for name in printed["kernel"]], dtype=pl.String)
    is_mangled = pl.col("kernel").str.starts_with("_Z")
    names = printed.with_columns(name=readable, mangled=pl.when(is_mangled).then("kernel"))
    only = pl.when(pl.col("mangled").n_unique().over("name") - pl.col("mangled").is_null().any().over("name") == 1)
    shared = pl.col("mangled").drop_nulls().first().over("name")
    names = names.with_columns(mangled=only.then(shared).otherwise("mangled"))
    table = names.select("name", "mangled").unique(maintain_order=True).with_row_index("id")
    ids = names.join(table, on=["name", "mangled"], how="left", nulls_equal=True, maintain_order="left")["id"]
    display = pl.Series(label_kernels(table["name"].to_list()), dtype=pl.String)
    return table.select(kernel="id", name="name", mangled="mangled", display=display), named.select(
        "event", kernel_id=ids.gather(codes)
    )


def describe_kernels(
    kernels: pl.DataFrame, of_packets: pl.DataFrame, events: pl.DataFrame, args: pl.DataFrame
) -> pl.DataFrame:
    """Return the kernels with what the compiler gave them: as a profile tells it, else the largest of their packets.

    Args:
        kernels: the table, without these columns.
        of_packets: kernel, lds, scratch, kernarg_bytes.
        events: event, kernel_id.
        args: args by event, with `KERNEL_FIELDS` of dispatches of a profile.
    """
    told = args.filter(pl.col("key").is_in(KERNEL_FIELDS))
    told = told.join(events.select("event", kernel="kernel_id").drop_nulls("kernel"), on="event")
    largest = [pl.col("u64").filter(pl.col("key") == key).max().alias(key) for key in KERNEL_FIELDS]
    found = kernels.join(told.group_by("kernel").agg(largest), on="kernel", how="left", maintain_order="left")
    found = found.join(of_packets, on="kernel", how="left", maintain_order="left", suffix="_packets")
    either = {key: pl.coalesce(key, f"{key}_packets") for key in of_packets.columns if key != "kernel"}
    return schema.KERNELS.conform(found.with_columns(**either).drop(f"{key}_packets" for key in either))


def forget_rings(events: pl.DataFrame, addressed: pl.DataFrame) -> pl.DataFrame:
    """Take the ring from packets where it is the address of their queue."""
    if addressed.is_empty():
        return events
    joined = attach_columns(events, addressed.select("event", named="line"))
    return joined.with_columns(ring=pl.when(pl.col("named").is_null()).then("ring")).drop("named")


def adopt_syscalls(events: pl.DataFrame, inside: pl.DataFrame) -> pl.DataFrame:
    """Make HIP calls the parents of the outermost rows that happened inside them, and find all chains."""
    joined = fill_columns(events, inside.select("event", parent="call"))
    root = _find_roots(joined["parent"])
    # A chain is named by its root HIP call; a tree without one (a bare syscall) is no chain.
    is_hip = joined.select(pl.col("layer") == "hip").to_series().gather(root)
    return joined.with_columns(chain=root.set(~is_hip, None))


def _find_roots(parent: pl.Series) -> pl.Series:
    """Return the outermost row around each one: itself if nothing encloses it."""
    root = parent.fill_null(pl.int_range(len(parent), eager=True)).to_numpy()
    # Each step doubles the way up.
    for _ in range(len(parent).bit_length()):
        above = root[root]
        if np.array_equal(above, root):
            break
        root = above
    return pl.Series(root)


def attach_keys(
    events: pl.DataFrame, queue_table: pl.DataFrame, found: Sequence[pl.DataFrame], hqd: pl.DataFrame
) -> pl.DataFrame:
    """Return events with the keys of their queues, streams and kernels.

    Args:
        events: rows of all sources; row i is event i.
        queue_table: the table, with the ioctls and lines that made each queue.
        found: event and key: those of queues first.
        hqd: rows of the dumps with the queues of their slots.
    """
    of_queues, *others = found
    # An ioctl or a queue line that made a queue belongs to it, though it names no ring.
    made = pl.concat([
        queue_table.select(event="create_ioctl_event", queue="queue"),
        queue_table.select(event="created_line_event", queue="queue"),
    ]).drop_nulls().unique("event", keep="first")  # fmt: skip
    of_queues = of_queues.drop_nulls("queue")
    made = made.join(of_queues, on="event", how="anti", maintain_order="left")
    for keys in (pl.concat([of_queues, made]), *others):
        events = attach_columns(events, keys)
    seen = hqd.drop_nulls("queue").select("file", "offset", "queue").unique(["file", "offset"], keep="first")
    if seen.is_empty():
        return events
    sights = events.select("file", "offset", "event").join(seen, on=["file", "offset"])
    return fill_columns(events, sights.select("event", "queue"))


def spread_queues(events: pl.DataFrame, named: pl.DataFrame) -> pl.DataFrame:
    """Give ioctls the queue that they name by id, and what ran inside an ioctl the queue of that ioctl."""
    events = fill_columns(events, named)
    columns = events.select("event", "layer", "queue", "enclosing_call")
    owners = columns.filter((pl.col("layer") == "ioctl") & pl.col("queue").is_not_null())
    if owners.is_empty():
        return events
    inside = columns.drop("queue").join(owners.select("queue", enclosing_call="event"), on="enclosing_call")
    return fill_columns(events, inside.select("event", "queue"))


def attach_gpus(events: pl.DataFrame, queue_table: pl.DataFrame, named: pl.DataFrame) -> pl.DataFrame:
    """Return events with `gpu`: that of their queue, else the one that they name (event, named_gpu)."""
    # Queues are numbered by their rows.
    gpus = queue_table["gpu"]
    known = gpus.null_count() < len(gpus)
    owned = events.with_columns(gpus.gather(events["queue"]) if known else pl.lit(None, gpus.dtype).alias("gpu"))
    return fill_columns(owned, named.rename({"named_gpu": "gpu"}))


def name_commands(events: pl.DataFrame, commands: pl.DataFrame) -> pl.DataFrame:
    """Give packets the command that their launch has, where their row names another one or none."""
    if commands.is_empty():
        return events
    return events.with_columns(events["command"].scatter(commands["event"], commands["command"]))


def forget_kernels(events: pl.DataFrame, unnamed: pl.Series) -> pl.DataFrame:
    """Take the kernel from dispatches that may have that of another one."""
    if unnamed.is_empty():
        return events
    joined = attach_columns(events, unnamed.to_frame("event").with_columns(is_unnamed=pl.lit(value=True)))
    return joined.with_columns(kernel_id=pl.when(pl.col("is_unnamed").is_null()).then("kernel_id")).drop("is_unnamed")


def chain_doorbells(events: pl.DataFrame, launches: pl.DataFrame) -> pl.DataFrame:
    """Give each matched doorbell store the chain of its packet, with the packet as its parent."""
    stores = launches.select("event", "call_event", "doorbell_event", "packet_index").drop_nulls("doorbell_event")
    stores = stores.sort("packet_index", nulls_last=True)
    stores = stores.unique("doorbell_event", keep="last", maintain_order=True)
    owners = stores.select(event="doorbell_event", parent="event", chain="call_event")
    return fill_columns(events, owners)


def describe_gpu_times(events: pl.DataFrame, gpu: pl.DataFrame) -> pl.DataFrame:
    """Give each GPU time the queue, kernel and chain of its packet, with the packet as its parent."""
    if gpu.is_empty():
        return events
    columns = ("name", "queue", "gpu", "kernel_id", "stream_id", "packet_index", "chain")
    owners = events.select("event", *columns).join(gpu, on="event").rename({"event": "parent"})
    owners = owners.rename({name: f"{name}_owner" for name in ("parent", *columns)})
    joined = attach_columns(events, owners, "gpu_event")
    is_gpu = pl.col("parent_owner").is_not_null()
    return joined.with_columns(
        pl.when(is_gpu).then(f"{name}_owner").otherwise(name).alias(name) for name in ("parent", *columns)
    ).drop(f"{name}_owner" for name in ("parent", *columns))


def finish_events(events: pl.DataFrame) -> pl.DataFrame:
    """Return the table `events`."""
    shaped = _forget_counts(events).with_columns(
        evidence=pl.lit("recorded"), pid=pl.col("host_pid"), tid=pl.col("host_tid"), stream=pl.col("stream_id"),
        kernel=pl.col("kernel_id"),
    )  # fmt: skip
    return shaped.select([name for name in schema.EVENTS.schema if name in shaped.columns])


def _forget_counts(events: pl.DataFrame) -> pl.DataFrame:
    """Take the durations from rows of a clock that counts cycles or events and was not mapped: they are no times."""
    is_count = pl.any_horizontal(pl.col("clock") == name for name in UNTIMED)
    timeless = (is_count & (pl.col("flags") & int(Flag.UNALIGNED) != 0)).fill_null(value=False)
    if not events.select(timeless.any()).item():
        return events
    return events.with_columns(dur_ns=pl.when(~timeless).then("dur_ns"))
