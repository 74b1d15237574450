"""How many hardware slots of each GPU the queues of all processes took, and when they were oversubscribed.

The hardware scheduler (HWS) holds as many compute queues as a GPU has slots, and as many processes as it has VMIDs.
Beyond that it rotates: an idle queue that is mapped holds its slot for a quantum, and a GPU without work shows as busy
(kfd_packet_manager.c, Linux 6.1 to 7.3).
"""

from __future__ import annotations

import polars as pl

from tracecorr.analyze.values import Tables, as_text, collect

_QUEUES, _PROCESSES = "queues", "processes"
# VMIDs of the KFD (gmc_v*.c, kfd_device.c, Linux 6.1 to 7.3); amdgpu.hws_max_conc_proc may lower them.
_VMIDS, _VMIDS_OF_MI = 8, 13
_MI_TARGETS = ("gfx908", "gfx90a", "gfx940", "gfx941", "gfx942", "gfx950")
_VMIDS_OF_CPX = 6
_OVERSUBSCRIBED = "runlist_oversubscribed"
_SAMPLES = ("cp_queues", "sdma_queues", "queue_processes")
_EVICTED = "evicted_ms_"
# As table `samples` names them: a process that no other source shows is in the name.
_HOLDERS = r"^(?<kind>cp_queues|sdma_queues)_\d+(?: pid (?<pid>\d+))?$"


def summarize_occupancy(tables: Tables) -> pl.DataFrame:
    """Return one row per GPU whose queues sysfs showed.

    Returns: gpu, cp_slots, most_cp_queues (of all processes, at one poll), own_cp_queues (of the processes of this
        capture), process_limit (derived from the target; null without HWS), most_processes (with compute queues),
        sdma_slots, most_sdma_queues, oversubscribed (`yes`: a poll showed it, or the driver said so; `no`; null = slots
        or limit are not known), over_ns (time between the polls that showed it), evicted_ms (of the processes of this
        capture), evicted_others_ms (of all others), polls. Counts are of queues that exist: one that is suspended takes
        no slot.
    """
    samples, gpus = _list_samples(tables), _list_limits(tables)
    totals = samples.filter(pl.col("name").is_in(_SAMPLES) & pl.col("process").is_null())
    most = totals.group_by("gpu").agg(
        *(pl.col("value").filter(pl.col("name") == name).max().cast(pl.Int64).alias(name) for name in _SAMPLES),
        polls=pl.col("ts_ns").n_unique().cast(pl.Int64),
    )
    own = (
        samples.filter(pl.col("name").str.starts_with("cp_queues_") & pl.col("process").is_not_null())
        .group_by("gpu", "ts_ns").agg(pl.col("value").sum())
        .group_by("gpu").agg(own_cp_queues=pl.col("value").max().cast(pl.Int64))
    )  # fmt: skip
    spans = list_oversubscribed(tables).group_by("gpu").agg(over_ns=(pl.col("to_ns") - pl.col("from_ns")).sum())
    rows = most.join(gpus, on="gpu", how="left").join(own, on="gpu", how="left").join(spans, on="gpu", how="left")
    rows = rows.join(_sum_evictions(samples), on="gpu", how="left").sort("gpu")
    is_over = (pl.col("cp_queues") > pl.col("cp_slots")) | (pl.col("queue_processes") > pl.col("process_limit"))
    lines = _list_lines(tables)
    is_told = pl.lit(lines["named"].null_count() > 0) | pl.col("gpu").is_in(lines["named"].drop_nulls().implode())
    return rows.select(
        "gpu", "cp_slots", pl.col("cp_queues").alias("most_cp_queues"), pl.col("own_cp_queues").fill_null(0),
        "process_limit", pl.col("queue_processes").alias("most_processes"), "sdma_slots",
        pl.col("sdma_queues").alias("most_sdma_queues"),
        pl.when(is_over | is_told).then(pl.lit("yes")).when(~is_over).then(pl.lit("no")).alias("oversubscribed"),
        "over_ns", "evicted_ms", "evicted_others_ms", "polls",
    )  # fmt: skip


def describe_occupancy(tables: Tables) -> str:
    """Return the most compute queues of each GPU and its slots, as text; empty if sysfs was not polled."""
    told = [
        f"GPU {row['gpu']}: {row['most_cp_queues']} of {row['cp_slots'] or 'unknown'}"
        + (" (oversubscribed)" if row["oversubscribed"] == "yes" else "")
        for row in summarize_occupancy(tables).iter_rows(named=True)
    ]
    return ", ".join(told)


def summarize_queue_holders(tables: Tables) -> pl.DataFrame:
    """Return one row per process and GPU with queues there, those of other programs included.

    Returns: gpu, process (null = none of this capture), pid, most_cp_queues, most_sdma_queues, first_ns, last_ns (polls
        that showed queues).
    """
    samples = _list_samples(tables).filter(pl.col("name").str.contains(_HOLDERS) & (pl.col("value") > 0))
    pids = collect(tables("processes").select("process", own_pid=pl.col("pid").cast(pl.Int64)))
    told = samples.with_columns(pl.col("name").str.extract_groups(_HOLDERS).alias("told")).unnest("told")
    told = told.join(pids, on="process", how="left").with_columns(
        pid=pl.coalesce("own_pid", pl.col("pid").cast(pl.Int64))
    )
    most = [
        pl.col("value").filter(pl.col("kind") == kind).max().fill_null(0).cast(pl.Int64).alias(f"most_{kind}")
        for kind in ("cp_queues", "sdma_queues")
    ]
    times = [pl.col("ts_ns").min().alias("first_ns"), pl.col("ts_ns").max().alias("last_ns")]
    return told.group_by("gpu", "process", "pid").agg(*most, *times).sort("gpu", "first_ns", "pid")


def list_oversubscribed(tables: Tables) -> pl.DataFrame:
    """Return the spans in which a GPU had more queues than slots, or more processes than its scheduler holds.

    Returns: gpu, reason (`queues`, `processes`), after_ns (last poll that did not show it; null = the first poll
        shows it), from_ns, to_ns (first and last poll that did), before_ns (first poll that did not any more; null =
        the last poll shows it), most (queues or processes), limit, event (line of the kernel log that says so, between
        after_ns and from_ns; null = none). Times are ns.
    """
    limits = _list_limits(tables)
    samples = _list_samples(tables).filter(pl.col("process").is_null())
    kinds = ((_QUEUES, "cp_queues", "cp_slots"), (_PROCESSES, "queue_processes", "process_limit"))
    spans = [_list_spans(samples.filter(name=name), limits.select("gpu", limit=limit), kind)
             for kind, name, limit in kinds]  # fmt: skip
    return _find_lines(pl.concat(spans).sort("gpu", "from_ns"), tables)


def _list_spans(samples: pl.DataFrame, limits: pl.DataFrame, reason: str) -> pl.DataFrame:
    """Return runs of polls over the limit, with the polls around them."""
    polled = samples.join(limits.drop_nulls(), on="gpu").sort("gpu", "ts_ns").with_columns(
        is_over=pl.col("value") > pl.col("limit"), before=pl.col("ts_ns").shift().over("gpu"),
        behind=pl.col("ts_ns").shift(-1).over("gpu"),
    )  # fmt: skip
    runs = polled.with_columns(run=pl.struct("gpu", "is_over").rle_id()).filter("is_over")
    return runs.group_by("gpu", "run", maintain_order=True).agg(
        reason=pl.lit(reason), after_ns=pl.col("before").first(), from_ns=pl.col("ts_ns").first(),
        to_ns=pl.col("ts_ns").last(), before_ns=pl.col("behind").last(), most=pl.col("value").max().cast(pl.Int64),
        limit=pl.col("limit").first().cast(pl.Int64),
    ).drop("run")  # fmt: skip


def _find_lines(spans: pl.DataFrame, tables: Tables) -> pl.DataFrame:
    """Return the spans with `event`: the line that the driver prints once when oversubscription begins."""
    found = spans.with_row_index("span").join(_list_lines(tables), how="cross").filter(
        (pl.col("ts_ns") <= pl.col("from_ns")) & (pl.col("ts_ns") >= pl.col("after_ns").fill_null(0))
        & (pl.col("named").is_null() | (pl.col("named") == pl.col("gpu")))
    )  # fmt: skip
    first = found.group_by("span").agg(pl.col("event").min())
    return spans.with_row_index("span").join(first, on="span", how="left", maintain_order="left").drop("span")


def _list_lines(tables: Tables) -> pl.DataFrame:
    """Return event, ts_ns, named (GPU; null = the line names none) of the lines of this run about oversubscription."""
    is_line = (pl.col("layer") == "kernel") & (pl.col("name").cast(pl.String) == _OVERSUBSCRIBED)
    timed = is_line & pl.col("err_lo_ns").is_not_null()
    return collect(tables("events").filter(timed).select("event", "ts_ns", named="gpu"))


def _sum_evictions(samples: pl.DataFrame) -> pl.DataFrame:
    """Return gpu, evicted_ms, evicted_others_ms: how much the counters of all processes grew between their polls."""
    counters = samples.filter(pl.col("name").str.starts_with(_EVICTED))
    grown = counters.sort("ts_ns").group_by("gpu", "process", "name").agg(
        grown=(pl.col("value").last() - pl.col("value").first()).cast(pl.Int64)
    )  # fmt: skip
    is_own = pl.col("process").is_not_null()
    return grown.group_by("gpu").agg(
        evicted_ms=pl.col("grown").filter(is_own).sum(), evicted_others_ms=pl.col("grown").filter(~is_own).sum()
    )


def _list_samples(tables: Tables) -> pl.DataFrame:
    return collect(
        tables("samples")
        .filter(pl.col("gpu").is_not_null())
        .select("ts_ns", "gpu", "process", "value", *as_text("name"))
    )


def _list_limits(tables: Tables) -> pl.DataFrame:
    """Return gpu, cp_slots, sdma_slots, process_limit: limits hold for HWS alone, MES tells none."""
    gpus = collect(
        tables("gpus").select("gpu", "gfx_target", "partition", "cp_slots", "sdma_slots", *as_text("scheduler"))
    )
    is_hws = pl.col("scheduler") == "HWS"
    limit = (
        pl.when(~is_hws | pl.col("gfx_target").is_null()).then(None)
        .when(pl.col("partition") == "CPX").then(_VMIDS_OF_CPX)
        .when(pl.col("gfx_target").is_in(_MI_TARGETS)).then(_VMIDS_OF_MI)
        .otherwise(_VMIDS)
    )  # fmt: skip
    return gpus.select(
        "gpu", "sdma_slots", cp_slots=pl.when(is_hws).then("cp_slots"), process_limit=limit.cast(pl.Int64)
    )
