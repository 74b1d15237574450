"""Polled values and SMI events: the process and the GPU of each."""

from __future__ import annotations

import polars as pl

from tracecorr.link.events import fill_columns
from tracecorr.link.threads.lives import number_lives
from tracecorr.link.threads.thread_map import Identities
from tracecorr.model import schema


def add_polled_gpus(known: pl.DataFrame, polls: pl.DataFrame) -> pl.DataFrame:
    """Return rows of `schema.GPUS`: `known`, and one for each further gpu_id that was polled."""
    fresh = polls.select("gpu_id").drop_nulls().unique().join(known, on="gpu_id", how="anti").sort("gpu_id")
    return pl.concat([known, schema.GPUS.conform(fresh)])


def build_samples(polls: pl.DataFrame, gpus: pl.DataFrame, processes: pl.DataFrame) -> pl.DataFrame:
    """Return the table `samples`.

    If no row of the other tables is the owner of a value, its name says it: `gpu_busy_percent 0000:03:00.0` of a
    device that is several GPUs (partitions) or none, `vram_26017 pid 70` of a process that no other source shows.

    Args:
        polls: rows of `schema.PART_POLLS`.
        gpus, processes: the tables.
    """
    devices = gpus.select("pci", card="gpu").drop_nulls().filter(pl.len().over("pci") == 1)
    ids = gpus.select("gpu_id", "gpu").drop_nulls().unique("gpu_id")
    rows = polls.with_row_index("row").join(ids, on="gpu_id", how="left", maintain_order="left")
    rows = rows.join(devices, on="pci", how="left", maintain_order="left")
    rows = rows.join(_owners(rows, processes), on="row", how="left", maintain_order="left")
    foreign = pl.concat_str(
        "name",
        pl.when(pl.col("card").is_null()).then(pl.format(" {}", "pci")),
        pl.when(pl.col("process").is_null()).then(pl.format(" pid {}", "pid")),
        ignore_nulls=True,
    )
    placed = rows.select("ts_ns", "process", "value", gpu=pl.coalesce("gpu", "card"), name=foreign)
    return schema.SAMPLES.conform(placed.sort("ts_ns", maintain_order=True))


def _owners(rows: pl.DataFrame, processes: pl.DataFrame) -> pl.DataFrame:
    """Return row, process: a pid that was given out again names the life that had begun last."""
    lives = processes.select("process", pl.col("pid").cast(pl.Int64), "from_ns", lives=pl.len().over("pid"))
    lives = lives.drop_nulls("pid")
    polled = rows.select("row", "pid", "ts_ns").drop_nulls("pid")
    alone = polled.join(lives.filter(lives=1), on="pid").select("row", "process")
    several = polled.sort("ts_ns").join_asof(
        lives.filter(pl.col("lives") > 1).drop_nulls("from_ns").sort("from_ns"), left_on="ts_ns", right_on="from_ns",
        by="pid", check_sortedness=False,
    )  # fmt: skip
    return pl.concat([alone, several.drop_nulls("process").select("row", "process")])


def attach_processes(events: pl.DataFrame, identities: Identities) -> pl.DataFrame:
    """Return `events` with the process of each SMI event: they name the host pid, also of foreign processes.

    Args:
        events: placed rows of all sources.
        identities: processes of the capture; a pid that was given out again names one life at a time.
    """
    is_ours = pl.col("source") == "kfd_smi"
    if not events.select(is_ours.any()).item():
        return events
    # Captures of our own alone hold them: there the lives of the trace are on the common clock, too.
    rows = events.select("source", "pid", "tid", stamp_ns="ts_ns").with_row_index("_row")
    mine = rows.filter(is_ours & pl.col("pid").is_not_null()).drop("source")
    traced = identities.trace_threads.select("tgid_key", "process").drop_nulls().unique("tgid_key")
    seen = identities.processes.select(tgid_key=pl.col("pid").cast(pl.Int64), process="process").drop_nulls()
    alone = seen.join(traced, on="tgid_key", how="anti").filter(pl.len().over("tgid_key") == 1)
    found = number_lives(mine, identities.lives, identities.births).join(
        pl.concat([traced, alone]), on="tgid_key", how="left", maintain_order="left"
    )
    owners = found.select("_row", "process", host_pid=pl.col("pid").cast(events.schema["host_pid"]))
    return fill_columns(events, owners, "_row")
