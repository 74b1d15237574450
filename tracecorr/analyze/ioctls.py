"""What the kernel did: ioctls and their causes, driver functions, evictions, jobs of the DRM scheduler."""

from __future__ import annotations

import polars as pl

from tracecorr.analyze.values import Tables, as_text, collect, count_failed, describe_ns, spread_ns, total
from tracecorr.model.columns import is_counted
from tracecorr.model.kinds import HALF_SEEN
from tracecorr.read.kfd.ioctls import HANDLER_PREFIX


def summarize_ioctls(events: pl.LazyFrame) -> pl.DataFrame:
    """Return one row per ioctl on a KFD or DRM descriptor, the longest total first.

    Returns: name, calls, errors and not_yet (of those with a known result; null = of none), result_unknown (calls
        without a recorded result), total_ns, mean_ns, p95_ns, max_ns.
    """
    ioctls = events.filter(pl.col("layer").cast(pl.String) == "ioctl")
    return collect(
        ioctls.with_columns(as_text("name"))
        .group_by("name")
        .agg(
            pl.len().cast(pl.Int64).alias("calls"),
            *count_failed(),
            pl.col("result").null_count().cast(pl.Int64).alias("result_unknown"),
            *describe_ns("dur_ns", (95,)),
        )
        .sort(["total_ns", "name"], descending=[True, False], nulls_last=True)
    )


def summarize_syscalls(events: pl.LazyFrame) -> pl.DataFrame:
    """Return one row per system call that is no ioctl on a KFD or DRM descriptor, the longest total first.

    Returns: name, calls, errors and not_yet (of those with a known result), result_unknown, total_ns, mean_ns, p95_ns,
        max_ns, longest (event of the longest one).
    """
    calls = events.filter(pl.col("layer").cast(pl.String) == "syscall").with_columns(as_text("name"))
    longest = pl.col("event").get(pl.col("dur_ns").arg_max(), null_on_oob=True)
    return collect(
        calls.group_by("name")
        .agg(
            pl.len().cast(pl.Int64).alias("calls"),
            *count_failed(),
            pl.col("result").null_count().cast(pl.Int64).alias("result_unknown"),
            *describe_ns("dur_ns", (95,)),
            longest=longest,
        )
        .sort(["total_ns", "name"], descending=[True, False], nulls_last=True)
    )


_KFD = "/dev/kfd"
_OPENED_BY = {"kfd_open": _KFD, "drm_open": "drm", "amdgpu_driver_open_kms": "drm"}
_OPENS = ("open", "openat", "openat2", "creat")


def summarize_devices(tables: Tables) -> pl.DataFrame:
    """Return one row per process and GPU device that it opened or called: `/dev/kfd`, render nodes.

    Returns: process, device (its path; `drm` where no path is recorded), opened_ns, open_event, opened_by (name of the
        thread), calls (ioctls and mappings on it), first_event, first_ns, first_by, known_by (how the device behind the
        descriptor is known), opens (whether the trace has an open of any file by the process).
    """
    events = tables("events").select("event", "ts_ns", "process", "thread", *as_text("name", "result"))
    names = tables("threads").select("thread", comm=pl.col("comm").cast(pl.String))
    args = tables("args").with_columns(as_text("key")).select("event", "key", "text").drop_nulls("text")
    told = args.filter(pl.col("key").is_in(["device", "device_by"])).group_by("event").agg(
        device=pl.col("text").filter(pl.col("key") == "device").first().replace({"kfd": _KFD}),
        known_by=pl.col("text").filter(pl.col("key") == "device_by").first(),
    ).drop_nulls("device")  # fmt: skip
    on_device = events.join(told, on="event").join(names, on="thread", how="left").sort("event")
    is_open, whose = pl.col("name").is_in(_OPENS), ["process", "device"]
    uses = on_device.filter(~is_open).group_by(whose).agg(
        calls=pl.len().cast(pl.Int64), first_event=pl.col("event").first(), first_ns=pl.col("ts_ns").first(),
        first_by=pl.col("comm").first(), known_by=pl.col("known_by").first(),
    )  # fmt: skip
    paths = args.filter((pl.col("key") == "path") & pl.col("text").str.contains("^/dev/(kfd|dri/)"))
    failed = pl.col("result").str.starts_with("E").fill_null(value=False)
    by_path = events.filter(~failed).join(paths.select("event", device="text"), on="event")
    by_name = events.filter(pl.col("name").is_in(list(_OPENED_BY))).with_columns(
        device=pl.col("name").replace_strict(_OPENED_BY, default=None, return_dtype=pl.String)
    )
    others = pl.concat([by_path, by_name], how="diagonal").join(names, on="thread", how="left")
    opened = pl.concat([on_device.filter(is_open), others], how="diagonal").sort("event").group_by(whose).agg(
        opened_ns=pl.col("ts_ns").first(), open_event=pl.col("event").first(), opened_by=pl.col("comm").first()
    )  # fmt: skip
    shown = ("process", "device", "opened_ns", "open_event", "opened_by", "calls", "first_event", "first_ns",
             "first_by", "known_by", "opens")  # fmt: skip
    both = opened.join(uses, on=whose, how="full", coalesce=True, nulls_equal=True)
    traced = events.filter(is_open).group_by("process").agg(opens=pl.lit(value=True))
    both = both.join(traced, on="process", how="left", nulls_equal=True)
    counted = both.with_columns(pl.col("calls").fill_null(0), pl.col("opens").fill_null(value=False))
    return collect(counted.select(shown).sort("process", "device"))


def explain_ioctls(events: pl.LazyFrame) -> str:
    """Return how the ioctls are known: by system calls, or by functions of the driver that stand for them."""
    wanted = events.filter(pl.col("layer").is_in(["ioctl", "kfd"]))
    rows = collect(wanted.select("event", "parent", "cmd", *as_text("layer", "name")))
    ioctls = rows.filter(pl.col("layer") == "ioctl")
    # The request number is recorded only by the system call or a probe on kfd_ioctl.
    bare = ioctls.filter(pl.col("cmd").is_null() & (pl.col("name") != "ioctl")).select(parent="event")
    has_calls = ioctls["cmd"].count() > 0
    inside = rows.filter((pl.col("layer") == "kfd") & pl.col("name").str.starts_with(HANDLER_PREFIX))
    entries = bare.join(inside, on="parent", how="semi").height
    handlers = bare.height - entries
    if not entries + handlers:
        return _BY_CALLS
    handler = f", for {handlers} of them that of the function in it" if handlers else ""
    told = f"{entries + handlers} ioctls are known only from functions of the driver, without a traced system call of "
    told += f"their thread: their time is that of kfd_ioctl{handler}"
    return f"{_BY_CALLS}; {told}" if has_calls else f"recorded: {told}"


_BY_CALLS = (
    "recorded: sys_enter and sys_exit of the trace, or a probe on kfd_ioctl if they are not traced; names are "
    "derived from the request number"
)


_ELSEWHERE = ("syscall", "ioctl", "doorbell", "hsa", "marker")


def summarize_driver_events(events: pl.LazyFrame) -> pl.DataFrame:
    """Return one row per function or event of the kernel trace, layer by layer, the most frequent first.

    System calls, ioctls, doorbells and probes on libraries have sections of their own. A call that two tracers recorded
    counts once.

    Returns: layer, name, rows, total_ns, mean_ns, p95_ns, max_ns (null if no row has a duration).
    """
    return collect(
        events.filter((pl.col("source") == "ftrace") & ~pl.col("layer").is_in(_ELSEWHERE) & is_counted())
        .select(*as_text("layer", "name"), "dur_ns")
        .group_by("layer", "name")
        .agg(pl.len().cast(pl.Int64).alias("rows"), *describe_ns("dur_ns", (95,)))
        .sort(["layer", "rows", "name"], descending=[False, True, False])
    )


_WHO = ("pid", "comm", "gpu", "name", "trigger")


def summarize_evictions(events: pl.LazyFrame, args: pl.LazyFrame, processes: pl.LazyFrame) -> pl.DataFrame:
    """Return one row per process, GPU, kind of SMI event and trigger.

    Args:
        events, args, processes: the tables of a capture.

    Returns: pid (host; null for events without a process), comm, gpu, name, trigger, events, total_ns and
        longest_ns (null for events without an end), half_seen (start or end is not recorded: not in total_ns), bytes
        (moved or unmapped), failed, first_ns. Evictions of one process on one GPU may overlap: total_ns counts each of
        them.
    """
    mine = events.filter(pl.col("layer").cast(pl.String) == "smi")
    triggers = args.filter(pl.col("key").cast(pl.String) == "trigger").select("event", trigger="text")
    comms = processes.select("process", *as_text("comm"))
    failed = pl.col("result").is_not_null() & (pl.col("result") != "0")
    return collect(
        mine.with_columns(as_text("name", "result"))
        .join(triggers, on="event", how="left")
        .join(comms, on="process", how="left")
        .group_by(_WHO)
        .agg(
            pl.len().cast(pl.Int64).alias("events"),
            total(pl.col("dur_ns")).alias("total_ns"),
            pl.col("dur_ns").max().alias("longest_ns"),
            ((pl.col("flags") & HALF_SEEN) != 0).sum().cast(pl.Int64).alias("half_seen"),
            total(pl.col("size_bytes")).alias("bytes"),
            failed.sum().cast(pl.Int64).alias("failed"),
            pl.col("ts_ns").min().alias("first_ns"),
        )
        .sort("pid", "gpu", "name", "trigger", nulls_last=True)
    )


def summarize_drm_jobs(jobs: pl.LazyFrame, *, timed: bool = True) -> pl.DataFrame:
    """Return one row per ring, the one with the most jobs first.

    Args:
        jobs: the table `drm_jobs`.
        timed: whether the clock of the trace counts nanoseconds; else no duration is known.

    Returns: dev, ring, ring_kind, jobs, queued, run, done (jobs recorded at each stage), processes (that
        submitted; null if unknown), waited_p50_ns, waited_p95_ns, waited_max_ns (queued to run),
        ran_p50_ns, ran_p95_ns, ran_max_ns (run to done).
    """
    times = {"waited": pl.col("run_ns") - pl.col("queued_ns"), "ran": pl.col("done_ns") - pl.col("run_ns")}
    times = {name: pl.when(timed).then(took) for name, took in times.items()}
    return collect(
        jobs.with_columns(as_text("dev", "ring", "ring_kind"))
        .group_by("dev", "ring", "ring_kind")
        .agg(
            pl.len().cast(pl.Int64).alias("jobs"),
            *(pl.col(f"{stage}_ns").count().cast(pl.Int64).alias(stage) for stage in ("queued", "run", "done")),
            pl.when(pl.col("process").count() > 0)
            .then(pl.col("process").drop_nulls().n_unique().cast(pl.Int64))
            .alias("processes"),
            *(told for name, took in times.items() for told in spread_ns(took, name)),
        )
        .sort(["jobs", "dev", "ring"], descending=[True, False, False])
    )
