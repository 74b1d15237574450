"""The table `links`: every edge from a cause to its effect, with its rule and its evidence."""

from __future__ import annotations

import polars as pl

from tracecorr.model.kinds import DERIVED

_SHAPE = {"from_event": pl.Int64, "to_event": pl.Int64, "rule": pl.String, "evidence": pl.String}


def list_links(
    events: pl.DataFrame, launches: pl.DataFrame, queue_table: pl.DataFrame, inside: pl.DataFrame, *more: pl.DataFrame
) -> pl.DataFrame:
    """Return the table `links`.

    Args:
        events: linked events.
        launches, queue_table: the tables.
        inside: event, call, evidence of system calls inside HIP calls.
        more: edges that other modules made: from_event, to_event, rule, evidence.
    """
    is_copy = pl.col("kind").cast(pl.String) == "copy"
    edges = pl.concat([
        _nesting(events),
        _functions(events),
        _edge(launches.filter(~is_copy), "call_event", "event", "packet_in_call"),
        _edge(launches.filter(~is_copy), "command_event", "event", "packet_of_command"),
        _edge(launches.filter(is_copy), "command_event", "event", "copy_of_command"),
        launches.drop_nulls("doorbell_event").select(
            from_event="event", to_event="doorbell_event", rule=pl.lit("doorbell_of_packet"),
            evidence=pl.col("doorbell_evidence").cast(pl.String),
        ),
        inside.select(from_event="call", to_event="event", rule=pl.lit("syscall_in_call"), evidence="evidence"),
        queue_table.drop_nulls(["create_ioctl_event", "created_line_event"]).select(
            from_event="create_ioctl_event", to_event="created_line_event", rule=pl.lit("ioctl_creates_queue"),
            evidence=pl.col("create_evidence").cast(pl.String),
        ),
        *more,
    ])  # fmt: skip
    return _add_gaps(edges.sort("from_event", "to_event", maintain_order=True), events)


def _edge(rows: pl.DataFrame, cause: str, effect: str, rule: str) -> pl.DataFrame:
    # Which call and which command is meant follows from the order of a thread's lines, not from a key.
    return rows.drop_nulls([cause, effect]).select(
        from_event=cause, to_event=effect, rule=pl.lit(rule), evidence=pl.lit(DERIVED)
    )


def _nesting(events: pl.DataFrame) -> pl.DataFrame:
    """Return the edges that the readers saw themselves: a record between the enter and exit of its parent."""
    layers = events.select(parent="event", over=pl.col("layer").cast(pl.String), over_source="source")
    nested = events.drop_nulls("parent").join(layers, on="parent")
    nested = nested.filter(pl.col("source") == pl.col("over_source"))
    layer = pl.col("layer").cast(pl.String)
    rule = (
        pl.when((layer == "hip") & (pl.col("over") == "hip")).then(pl.lit("call_nesting"))
        .when((layer == "command") & (pl.col("over") == "hip")).then(pl.lit("command_in_call"))
        .when((layer == "mqd") & pl.col("over").is_in(["kfd", "ioctl"])).then(pl.lit("mqd_in_kfd"))
    )  # fmt: skip
    # Enclosed by enter and exit of one thread: by order, since neither line names the other.
    return nested.select(from_event="parent", to_event="event", rule=rule, evidence=pl.lit(DERIVED)).drop_nulls("rule")


def _functions(events: pl.DataFrame) -> pl.DataFrame:
    """Return the edges from each ioctl to all KFD functions that ran in it, however deep."""
    layer = pl.col("layer").cast(pl.String)
    ioctls = events.filter(layer == "ioctl").select(enclosing_call="event")
    inside = events.filter(layer == "kfd").join(ioctls, on="enclosing_call", maintain_order="left")
    return inside.select(
        from_event="enclosing_call", to_event="event", rule=pl.lit("kfd_in_ioctl"), evidence=pl.lit(DERIVED)
    )


def _add_gaps(edges: pl.DataFrame, events: pl.DataFrame) -> pl.DataFrame:
    width = (pl.col("err_lo_ns").cast(pl.Int64) + pl.col("err_hi_ns").cast(pl.Int64)) // 2
    times = events.select("event", "ts_ns", width=width)
    joined = edges.join(times, left_on="from_event", right_on="event", how="left", maintain_order="left").join(
        times, left_on="to_event", right_on="event", how="left", suffix="_to", maintain_order="left"
    )
    return joined.select(
        *_SHAPE, gap_ns=pl.col("ts_ns_to") - pl.col("ts_ns"), gap_err_ns=pl.col("width") + pl.col("width_to")
    )
