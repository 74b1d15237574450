"""From binary payloads to the wide frames and halves that the text reader makes too."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import polars as pl

from tracecorr.parse.ftrace import halves as hv
from tracecorr.parse.ftrace.formats import Field, Format
from tracecorr.parse.ftrace.ring import Ints, Records
from tracecorr.parse.ftrace.text import add_marker_texts

_KERNEL = 1 << 63
# Fields whose binary name differs from the name that the event prints.
_PRINTED = {
    "sched_process_fork": {"parent_comm": "comm", "parent_pid": "pid"},
    "drm_sched_job": {"name": "ring"},
    "drm_run_job": {"name": "ring"},
    "drm_sched_job_queue": {"name": "ring"},
    "drm_sched_job_run": {"name": "ring"},
    "drm_sched_job_wait_dep": {"name": "ring", "ctx": "context", "seqno": "seq"},
}


class Payloads:
    """Add the records of a batch to a `Batch`, event by event."""

    def __init__(self, formats: Mapping[int, Format], functions: Mapping[str, str], symbols: Mapping[int, str]) -> None:
        self._formats, self._functions, self._symbols = formats, functions, symbols

    def add(self, batch: hv.Batch, records: Records, base: pl.DataFrame) -> tuple[int, int]:
        """Add all records; return (records, bytes) of events without a format file."""
        kinds = records.ints(np.arange(len(records.data)), 0, 2).astype(np.int64)
        unknown = (0, 0)
        for kind in np.unique(kinds).tolist():
            rows = np.flatnonzero(kinds == kind)
            found = self._formats.get(kind)
            if found is None:
                unknown = (unknown[0] + len(rows), unknown[1] + int(records.size[rows].sum()))
            else:
                self._add_event(batch, records, rows, base[rows], found)
        return unknown

    def _add_event(self, batch: hv.Batch, records: Records, rows: Ints, frame: pl.DataFrame, event: Format) -> None:
        renamed = _PRINTED.get(event.name, {})
        keys: list[str] = []
        columns: list[pl.Series] = []
        for field in event.fields:
            key = renamed.get(field.name, field.name)
            columns += _columns(records, rows, field, key)
            keys.append(key)
        frame = frame.with_columns(columns)
        keys = [k for k in keys if f"u_{k}" in frame.columns]
        self._choose(event)(batch, frame, event, keys)

    def _choose(self, event: Format) -> Callable[[hv.Batch, pl.DataFrame, Format, list[str]], None]:
        names = {f.name for f in event.fields}
        if event.system == "syscalls" and event.name.startswith("sys_enter_"):
            return _enter
        if event.system == "syscalls" and event.name.startswith("sys_exit_"):
            return _exit
        if {"__probe_ip", "__probe_func"} & names:
            return self._probe
        if event.system == "ftrace" and event.name == "function":
            return self._function
        if event.system == "ftrace" and event.name == "print":
            return _marker
        return _event

    def _probe(self, batch: hv.Batch, frame: pl.DataFrame, event: Format, keys: list[str]) -> None:
        back = "__probe_func" in keys
        keys = [k for k in keys if not k.startswith("__probe")]
        if event.name.startswith("doorbell") and not back and {"sig", "val"} <= set(keys):
            hv.add_doorbell(batch, frame, event.name, keys)
            return
        kernel = pl.col("u___probe_func" if back else "u___probe_ip") >= _KERNEL
        # Without the definition of the probe its own name is the best name of the function.
        name = self._functions.get(event.name) or (event.name[:-4] if event.name.endswith("_ret") else event.name)
        frame = frame.with_columns(
            pl.when(kernel).then(pl.lit(name)).alias("function"), pl.lit(None, pl.String).alias("module")
        )
        hv.add_probe(batch, frame, event.name, keys, is_return=back)

    def _function(self, batch: hv.Batch, frame: pl.DataFrame, event: Format, keys: list[str]) -> None:
        del event, keys
        names = [self._symbols.get(ip, hex(ip)) for ip in frame["u_ip"].to_list()]
        function = pl.Series("function", names, dtype=pl.String)
        hv.add_function(batch, frame.with_columns(function, pl.lit(None, pl.String).alias("module")))


def _columns(records: Records, rows: Ints, field: Field, key: str) -> list[pl.Series]:
    """Return `u_KEY` and `t_KEY` of one field; nothing for a field of a type that cannot be shown."""
    if field.is_text:
        texts = _texts(records, rows, field)
        return [
            pl.Series(f"u_{key}", [None] * len(rows), dtype=pl.UInt64),
            pl.Series(f"t_{key}", texts, dtype=pl.String),
        ]
    if field.size not in (1, 2, 4, 8) or "__data_loc" in field.type:
        return []
    values = records.ints(rows, field.offset, field.size, signed=field.signed)
    return [pl.Series(f"u_{key}", values), pl.Series(f"t_{key}", [None] * len(rows), dtype=pl.String)]


def _texts(records: Records, rows: Ints, field: Field) -> list[str]:
    if "__data_loc" in field.type or "__rel_loc" in field.type:
        where = records.ints(rows, field.offset, 4).astype(np.int64)
        relative = field.offset + 4 if "__rel_loc" in field.type else 0
        return records.texts(rows, (where & 0xFFFF) + relative, where >> 16)
    size = field.size or 1 << 20
    return records.texts(rows, np.full(len(rows), field.offset), np.full(len(rows), size))


def _enter(batch: hv.Batch, frame: pl.DataFrame, event: Format, keys: list[str]) -> None:
    # From 7.2 on the text behind a path pointer is a field `__NAME_val`.
    for key in [k for k in keys if k.endswith("_val")][:1]:
        frame = frame.with_columns(pl.col(f"u_{key}").alias("u_path"), pl.col(f"t_{key}").alias("t_path"))
        keys = [*keys, "path"]
    keys = [k for k in keys if not k.startswith("__")]
    hv.add_syscall_enter(batch, frame, event.name.removeprefix("sys_enter_"), keys)


def _exit(batch: hv.Batch, frame: pl.DataFrame, event: Format, keys: list[str]) -> None:
    if "ret" in keys:
        hv.add_syscall_exit(batch, frame, event.name.removeprefix("sys_exit_"))


def _marker(batch: hv.Batch, frame: pl.DataFrame, event: Format, keys: list[str]) -> None:
    del event
    text = pl.col("t_buf").str.strip_chars_end("\n") if "buf" in keys else pl.lit("")
    add_marker_texts(batch, frame.with_columns(text.alias("rest")))


def _event(batch: hv.Batch, frame: pl.DataFrame, event: Format, keys: list[str]) -> None:
    for first, second, key in (("fence_context", "fence_seqno", "fence"), ("ctx", "seqno", "depends_fence")):
        if "fence_context" in keys and {first, second} <= set(keys):
            text = pl.format("{}:{}", f"u_{first}", f"u_{second}").alias(f"t_{key}")
            frame = frame.with_columns(text, pl.lit(None, pl.UInt64).alias(f"u_{key}"))
            keys = [*(k for k in keys if k not in (first, second)), key]
    hv.add_event(batch, frame, event.name, keys)
