"""Jobs of the kernel's gpu_scheduler: queued, handed to the ring, done."""

from __future__ import annotations

import polars as pl

from tracecorr.link.events import attach_fields
from tracecorr.model import frames, schema
from tracecorr.model.frames import gives
from tracecorr.model.kinds import RECORDED
from tracecorr.read.kfd.ioctls import hex_text

# Old naming up to Linux 6.16 and in the DKMS trees, new naming from 6.17 on.
_QUEUE = ("drm_sched_job", "drm_sched_job_queue")
_RUN = ("drm_run_job", "drm_sched_job_run")
_DONE = ("drm_sched_process_job", "drm_sched_job_done")
# If only the driver's own events were recorded: their fence is the job's finished fence, too.
_DRIVER_QUEUE, _DRIVER_RUN, _FENCE_DONE = "amdgpu_cs_ioctl", "amdgpu_sched_run_job", "dma_fence_signaled"
# As posted for review in 2024, before the new naming: `fence=(context:7914, seqno:920)`.
_DRAFT_FENCE = (r"^\(context: ?(\d+), seqno: ?(\d+)\)$", "$1:$2")
# What the steps of a job have in common, as far as they tell it.
_NAMES = ("id", "ring", "dev", "client_id")
_STEPS = ((0, "queue"), (1, "run"), (2, "done"))
_TIMES = ((0, "queued"), (1, "run"), (2, "done"))
# amdgpu_ring.c and the ring init functions: `comp_1.0.0`, on gfx9.4.3 `comp_0.1.0.0`; `sdma0`, `sdma1.3`, `page0`.
_RINGS = (
    (r"^comp_", "kcq"), (r"^gfx", "gfx"), (r"^(?:sdma|page)\d", "sdma"), (r"^(?:uvd|vce|vcn|jpeg|vpe)", "media"),
)  # fmt: skip


def build_drm_jobs(events: pl.DataFrame, args: pl.DataFrame) -> pl.DataFrame:
    """Return the table `drm_jobs`.

    A job is known by its finished fence. The kernel reuses the memory of fences (old naming): each time one is
    queued, a new job begins. An end whose begin was not seen is no job. Steps that name another ring or number are of
    another job.

    Args:
        events: placed events with `process`, `thread`.
        args: args by event.
    """
    steps = _steps(events, args)
    if steps.is_empty():
        return schema.DRM_JOBS.empty()
    # A run without its queueing begins a job too; so does an end, which is then left out.
    begins = (pl.col("step") == 0) | ~_goes_on().fill_null(value=False)
    steps = steps.with_columns(number=begins.cast(pl.Int64).cum_sum().over("fence"))
    grouped = steps.group_by("fence", "number", maintain_order=True).agg(
        pl.col("dev", "ring", "id", "client_id").drop_nulls().first(),
        pl.col("process", "thread").filter(pl.col("step") == 0).first(),
        *(pl.col("event").filter(pl.col("step") == n).first().alias(f"{name}_event") for n, name in _STEPS),
        *(pl.col("ts_ns").filter(pl.col("step") == n).first().alias(f"{name}_ns") for n, name in _TIMES),
    )
    jobs = grouped.filter(pl.col("queue_event").is_not_null() | pl.col("run_event").is_not_null()).drop("number")
    return schema.DRM_JOBS.conform(jobs.with_columns(ring_kind=ring_kind(pl.col("ring"))).with_row_index("job"))


def _goes_on() -> pl.Expr:
    """Tell which steps, in the order of time, go on with the job of the step before them that has their fence."""
    last = {name: pl.col(name).shift(1).over("fence") for name in ("step", *_NAMES)}
    differs = pl.any_horizontal((pl.col(name) != last[name]).fill_null(value=False) for name in _NAMES)
    once = pl.col("fence").str.contains(":")  # context and number, which are given out once
    return (pl.col("step") > last["step"]) & (once | ~differs)


def ring_kind(ring: pl.Expr) -> pl.Expr:
    """Return the kind of a ring by its name: `kcq`, `gfx`, `sdma`, `media` or `other`."""
    kind: pl.Expr = pl.when(ring.is_not_null()).then(pl.lit("other"))
    for pattern, name in reversed(_RINGS):
        kind = pl.when(ring.str.contains(pattern)).then(pl.lit(name)).otherwise(kind)
    return kind


@gives(frames.EDGES)
def link_drm_jobs(jobs: pl.DataFrame) -> pl.DataFrame:
    """Return the edges `drm_job`: queue -> run -> done of each job, by its fence."""
    first = jobs.select(from_event="queue_event", to_event=pl.coalesce("run_event", "done_event"))
    second = jobs.select(from_event="run_event", to_event="done_event")
    return pl.concat([first, second]).drop_nulls().select(
        "from_event", "to_event", rule=pl.lit("drm_job"), evidence=pl.lit(RECORDED)
    )  # fmt: skip


def _steps(events: pl.DataFrame, args: pl.DataFrame) -> pl.DataFrame:
    """Return the events of all jobs in time order, with their step (0 queued, 1 run, 2 done) and fields."""
    name = pl.col("name")
    events = events.select("event", "ts_ns", "process", "thread", "layer", "name")
    chosen = events.filter((pl.col("layer") == "drm_sched") & name.is_in([*_QUEUE, *_RUN, *_DONE]))
    if chosen.is_empty():
        return _driver_steps(events, args)
    step = pl.when(name.is_in(_QUEUE)).then(0).when(name.is_in(_RUN)).then(1).otherwise(2)
    steps = chosen.select("event", "ts_ns", "process", "thread", step=step)
    steps = attach_fields(steps, args, ("fence", "ring", "dev"), _text())
    steps = attach_fields(steps, args, ("id", "client_id"), _number())
    steps = steps.with_columns(pl.col("fence").str.replace(*_DRAFT_FENCE))
    return steps.drop_nulls("fence").sort("event")


def _driver_steps(events: pl.DataFrame, args: pl.DataFrame) -> pl.DataFrame:
    """Return the steps of jobs as the events of amdgpu and dma_fence tell them (Linux 4.11 to 7.2)."""
    steps_of = {_DRIVER_QUEUE: 0, _DRIVER_RUN: 1, _FENCE_DONE: 2}
    step = pl.col("name").cast(pl.String).replace_strict(steps_of, return_dtype=pl.Int32)
    steps = events.filter(pl.col("name").is_in(list(steps_of)))
    steps = steps.select("event", "ts_ns", "process", "thread", step=step)
    steps = attach_fields(steps, args, ("fence", "timeline"), _text())
    steps = attach_fields(steps, args, ("context", "seqno"), _number())
    none = {key: pl.lit(None, dtype) for key, dtype in (("dev", pl.String), ("id", pl.Int64), ("client_id", pl.Int64))}
    fence = pl.coalesce("fence", pl.format("{}:{}", "context", "seqno"))
    steps = steps.select("event", "ts_ns", "process", "thread", "step", fence=fence, ring="timeline", **none)
    # Most fences that are signalled are no jobs of these rings.
    jobs = steps.filter(pl.col("step") < 2).select("fence").unique()
    return steps.join(jobs, on="fence", how="semi").sort("event")


def _text() -> pl.Expr:
    return pl.coalesce("text", hex_text(pl.col("u64")))


def _number() -> pl.Expr:
    return pl.col("u64").cast(pl.Int64, strict=False)
