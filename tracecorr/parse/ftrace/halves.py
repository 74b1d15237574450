"""Half records: what one trace record says before enter and exit are paired.

Both readers (text and ring buffer pages) make the same wide frames: the columns of `BASE`, and for
each field `x` of the event `u_x` (u64) and `t_x` (text). The functions here turn them into halves.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import polars as pl

from tracecorr.model import schema
from tracecorr.parse.kfd import ioctl_names, layer_of, result_text

BASE = ("seq", "file", "offset", "length", "stamp_ns", "cpu", "tid", "pid", "comm")
INSTANT, ENTER, EXIT = 0, 1, 2
SYSCALL, FUNCTION, GRAPH = 1, 2, 3

HALF = pl.Schema(
    {
        "seq": pl.Int64, "file": pl.UInt16, "offset": pl.Int64, "length": pl.UInt32, "stamp_ns": pl.Int64,
        "cpu": pl.UInt16, "tid": pl.UInt64, "pid": pl.UInt32, "comm": pl.String, "layer": pl.String,
        "name": pl.String, "phase": pl.Int8, "call": pl.Int8, "key": pl.String, "result": pl.String,
        "ring": pl.UInt64, "packet_index": pl.Int64, "arg": pl.UInt64, "fd": pl.Int32, "cmd": pl.UInt32,
        "size_bytes": pl.Int64, "depth": pl.UInt16, "parent_offset": pl.Int64, "dur_ns": pl.Int64,
    }
)  # fmt: skip

# Per system call: which field fills which column, and which fields become rows of args.
_COLUMNS: dict[str, tuple[dict[str, str], tuple[str, ...]]] = {
    "ioctl": ({"fd": "fd", "cmd": "cmd", "arg": "arg"}, ()),
    "mmap": ({"fd": "fd", "arg": "off", "size_bytes": "len"}, ("addr", "prot", "flags")),
    "munmap": ({"arg": "addr", "size_bytes": "len"}, ()),
    "openat": ({"arg": "filename"}, ("path",)),
    "open": ({"arg": "filename"}, ("path",)),
    "close": ({"fd": "fd"}, ()),
    "dup": ({"fd": "fildes"}, ()),
    "dup2": ({"fd": "oldfd"}, ("newfd",)),
    "dup3": ({"fd": "oldfd"}, ("newfd",)),
    "fcntl": ({"fd": "fd", "arg": "arg"}, ("cmd",)),
    "set_robust_list": ({"arg": "head"}, ()),
    "arch_prctl": ({"arg": "arg2"}, ("option",)),
    "execve": ({"arg": "filename"}, ("path",)),
}
# Tracepoints that have a layer of their own (see `event_layer`).
KNOWN_EVENTS = r"^(?:drm_run_job$|drm_sched_|sched_|amdgpu_|kfd_)"
_ADDRESS_CALLS = ("mmap", "mremap", "brk", "shmat")
_RETURN_KEYS = ("ret", "retval", "status")


@dataclass
class Batch:
    """Collect the halves and args of one block; args of exits wait until pairing names their enter."""

    halves: list[pl.DataFrame] = field(default_factory=list)
    args: list[pl.DataFrame] = field(default_factory=list)
    exit_args: list[pl.DataFrame] = field(default_factory=list)

    def add(self, frame: pl.DataFrame, *, phase: int, call: int, **columns: pl.Expr | str | None) -> None:
        """Add the rows of `frame` as halves, with `columns` on top of `BASE`."""
        values = {k: v if isinstance(v, pl.Expr) else pl.lit(v, pl.String) for k, v in columns.items()}
        values |= {"phase": pl.lit(phase), "call": pl.lit(call)}
        chosen = [values[c].cast(t).alias(c) if c in values else pl.col(c).cast(t) if c in frame.columns and c in BASE
                  else pl.lit(None, t).alias(c) for c, t in HALF.items()]  # fmt: skip
        self.halves.append(frame.select(chosen))

    def add_args(self, frame: pl.DataFrame, keys: list[str] | tuple[str, ...], *, of_exit: bool = False) -> None:
        """Add rows of args for the fields `keys` of `frame`."""
        target = self.exit_args if of_exit else self.args
        for key in keys:
            if f"u_{key}" not in frame.columns:
                continue
            rows = frame.select(
                "file",
                "offset",
                pl.lit(key).alias("key"),
                pl.col(f"u_{key}").alias("u64"),
                pl.col(f"t_{key}").alias("text"),
            )
            target.append(rows.filter(pl.col("u64").is_not_null() | pl.col("text").is_not_null()))

    def add_text(self, frame: pl.DataFrame, key: str, text: pl.Expr) -> None:
        """Add one row of args with `text` per row of `frame`."""
        rows = frame.select(
            "file", "offset", pl.lit(key).alias("key"), pl.lit(None, pl.UInt64).alias("u64"), text.alias("text")
        )
        self.args.append(rows.filter(pl.col("text").is_not_null() & (pl.col("text") != "")))


def wrap(value: pl.Expr, bits: int) -> pl.Expr:
    """Return u64 values as signed integers of `bits` bits."""
    if bits == 64:
        return value.reinterpret(signed=True)
    low = (value & ((1 << bits) - 1)).cast(pl.Int64)
    return pl.when(low >= 1 << (bits - 1)).then(low - (1 << bits)).otherwise(low)


def add_syscall_enter(batch: Batch, frame: pl.DataFrame, name: str, keys: list[str]) -> None:
    """Add the entries into system call `name`; `keys` are its fields."""
    chosen, args = _COLUMNS.get(name, ({}, tuple(keys)))
    columns: dict[str, pl.Expr | str | None] = {}
    for column, key in chosen.items():
        if key in keys:
            value = pl.col(f"u_{key}")
            columns[column] = {"fd": wrap(value, 32), "cmd": value & 0xFFFFFFFF, "size_bytes": wrap(value, 64)}.get(
                column, value
            )
    columns |= {"layer": "syscall", "name": name}
    if "cmd" in columns:
        frame = frame.with_columns((pl.col("u_cmd") & 0xFFFFFFFF).alias("cmd"))
        frame = frame.join(ioctl_names(frame["cmd"]), on="cmd", how="left", maintain_order="left")
        known = pl.col("ioctl").is_not_null()
        columns["name"] = pl.col("ioctl").fill_null(name)
        columns["layer"] = pl.when(known).then(pl.lit("ioctl")).otherwise(pl.lit("syscall"))
    batch.add(frame, phase=ENTER, call=SYSCALL, key=name, **columns)
    batch.add_args(frame, args)


def add_syscall_exit(batch: Batch, frame: pl.DataFrame, name: str) -> None:
    """Add the exits of system call `name`; the value is the field `ret`."""
    result = result_text(pl.col("u_ret").reinterpret(signed=True), pl.lit(name in _ADDRESS_CALLS))
    batch.add(frame, phase=EXIT, call=SYSCALL, key=name, layer="syscall", name=name, result=result)


def add_doorbell(batch: Batch, frame: pl.DataFrame, event: str, keys: list[str]) -> None:
    """Add hits of a probe on a doorbell store: fields `sig`, `val`, perhaps `ring` and others."""
    ring = pl.col("u_ring") if "ring" in keys else pl.lit(None, pl.UInt64)
    batch.add(
        frame, phase=INSTANT, call=0, layer="doorbell", name="doorbell", arg=pl.col("u_sig"),
        packet_index=wrap(pl.col("u_val"), 64), ring=ring,
    )  # fmt: skip
    batch.add_args(frame, [k for k in keys if k not in ("sig", "val", "ring")])
    if event != "doorbell":
        batch.add_text(frame, "probe", pl.lit(event))


def add_probe(batch: Batch, frame: pl.DataFrame, event: str, keys: list[str], *, is_return: bool) -> None:
    """Add hits of a kernel or user probe; columns `function` (null = user space) and `module`."""
    user = pl.col("function").is_null()
    base = event[:-4] if is_return and event.endswith("_ret") else event
    name = pl.when(user).then(pl.lit(base)).otherwise(pl.col("function"))
    layer = pl.when(user).then(pl.lit("hsa")).otherwise(layer_of(pl.col("function"), pl.col("module")))
    columns: dict[str, pl.Expr | str | None] = {"layer": layer, "name": name, "key": name}
    value = next((k for k in keys if k in _RETURN_KEYS), None) if is_return else None
    if value:
        columns["result"] = result_text(wrap(pl.col(f"u_{value}"), 64), pl.lit(value=False)).fill_null(
            pl.col(f"t_{value}")
        )
    batch.add(frame, phase=EXIT if is_return else ENTER, call=FUNCTION, **columns)
    batch.add_args(frame, [k for k in keys if k != value], of_exit=is_return)


def add_function(batch: Batch, frame: pl.DataFrame) -> None:
    """Add function tracer records; columns `function` and `module`."""
    layer = layer_of(pl.col("function"), pl.col("module"))
    batch.add(frame, phase=INSTANT, call=FUNCTION, layer=layer, name=pl.col("function"))


def add_event(batch: Batch, frame: pl.DataFrame, event: str, keys: list[str]) -> None:
    """Add tracepoint records with the fields `keys`; without any, the column `rest` is their `body`."""
    batch.add(frame, phase=INSTANT, call=0, layer=event_layer(event), name=event or "unknown")
    batch.add_args(frame, keys)
    if not keys and "rest" in frame.columns:
        batch.add_text(frame, "body", pl.col("rest"))


def add_others(batch: Batch, frame: pl.DataFrame) -> None:
    """Add records of events that are not known, named by column `event`, with the `body` in `rest`."""
    name = pl.when(pl.col("event") == "").then(pl.lit("unknown")).otherwise(pl.col("event"))
    batch.add(frame, phase=INSTANT, call=0, layer="other", name=name)
    batch.add_text(frame, "body", pl.col("rest"))


def event_layer(event: str) -> str:
    """Return the layer of a tracepoint by its name."""
    if event == "drm_run_job" or event.startswith("drm_sched_"):
        return "drm_sched"
    if event.startswith("sched_"):
        return "sched"
    if event.startswith("amdgpu_"):
        return "amdgpu"
    return "kfd" if event.startswith("kfd_") else "other"


def add_marker(batch: Batch, frame: pl.DataFrame, keys: list[str]) -> None:
    """Add trace markers: with the fields `keys` a clock sample, without them free text in `rest`."""
    batch.add(frame, phase=INSTANT, call=0, layer="marker", name="clock_sync" if keys else "marker")
    batch.add_args(frame, keys)
    if not keys:
        batch.add_text(frame, "text", pl.col("rest"))


def all_args(frames: list[pl.DataFrame]) -> pl.DataFrame:
    """Return the frames as rows of `PART_ARGS`."""
    return schema.PART_ARGS.conform(pl.concat(frames, how="vertical_relaxed")) if frames else schema.PART_ARGS.empty()
