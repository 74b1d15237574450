"""Which HIP calls did set-up work on the way, so that their times say nothing about a steady launch?"""

from __future__ import annotations

import polars as pl

from tracecorr.analyze.frames import collect
from tracecorr.model.kinds import QUEUE_CREATED
from tracecorr.read.kfd.ioctls import CREATE_QUEUE, UPDATE_QUEUE

# What a launch does only the first time, or when it runs out of something.
_REASONS = (
    ("creates a queue", "ioctl", (CREATE_QUEUE, UPDATE_QUEUE)),
    ("creates a queue", "aql", (QUEUE_CREATED,)),
    ("loads code", "syscall", ("openat",)),
    ("loads code", "other", ("code_object_version",)),  # of the log: CLR builds the program of a kernel's first launch
    ("allocates memory", "ioctl", ("AMDKFD_IOC_ALLOC_MEMORY_OF_GPU", "AMDKFD_IOC_MAP_MEMORY_TO_GPU")),
    ("allocates memory", "memory", ("allocate_host", "allocate_device", "lock")),
    ("allocates memory", "syscall", ("mmap",)),
)


def list_setup_calls(events: pl.LazyFrame) -> pl.DataFrame:
    """Return the outermost HIP calls that created a queue, loaded code or allocated memory on the way.

    Returns: chain (the call's event), reasons (text), one row per call.
    """
    layers = sorted({layer for _, layer, _ in _REASONS})
    rows = events.filter(pl.col("layer").is_in(layers) & pl.col("chain").is_not_null())
    layer, name = (pl.col(c).cast(pl.String) for c in ("layer", "name"))
    reason = pl.coalesce(pl.when((layer == of) & name.is_in(names)).then(pl.lit(text)) for text, of, names in _REASONS)
    found = collect(rows.select("chain", reason.alias("reason")).drop_nulls())
    return found.group_by("chain", maintain_order=True).agg(
        pl.col("reason").unique().sort().str.join(", ").alias("reasons")
    )
