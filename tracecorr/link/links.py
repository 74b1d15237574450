"""The table `links`: every edge from a cause to its effect, with its rule and its evidence."""

from __future__ import annotations

import numpy as np
import polars as pl

from tracecorr.model.columns import CAT
from tracecorr.model.kinds import DERIVED
from tracecorr.model.sights import is_counted

_SHAPE = {"from_event": pl.Int64, "to_event": pl.Int64, "rule": CAT, "evidence": CAT}
# Layer of the inner row, layers of the outer one, rule.
_NESTED = (
    ("hip", ["hip"], "call_nesting"), ("command", ["hip"], "command_in_call"), ("mqd", ["kfd", "ioctl"], "mqd_in_kfd"),
)  # fmt: skip


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
    ends = launches.select("event", "kind", "call_event", "command_event", "doorbell_event", "doorbell_evidence")
    copies, packets = (ends.filter(mark) for mark in (pl.col("kind") == "copy", pl.col("kind") != "copy"))
    parts = [
        *_nesting(events),
        _functions(events),
        _edge(packets, "call_event", "packet_in_call"),
        _edge(packets, "command_event", "packet_of_command"),
        _edge(copies, "command_event", "copy_of_command"),
        ends.drop_nulls("doorbell_event").select(
            from_event="event", to_event="doorbell_event", rule=pl.lit("doorbell_of_packet"),
            evidence="doorbell_evidence",
        ),
        inside.select(from_event="call", to_event="event", rule=pl.lit("syscall_in_call"), evidence="evidence"),
        queue_table.drop_nulls(["create_ioctl_event", "created_line_event"]).select(
            from_event="create_ioctl_event", to_event="created_line_event", rule=pl.lit("ioctl_creates_queue"),
            evidence="create_evidence",
        ),
        *more,
    ]  # fmt: skip
    edges = pl.concat(part.select(*_SHAPE).cast(_SHAPE) for part in parts)  # type: ignore[arg-type]
    del parts, packets, copies, ends  # large
    return _add_gaps(edges[_order(edges)], events)


def _order(edges: pl.DataFrame) -> pl.Series:
    # Events are numbered below 2^31, and one number is sorted sooner than two.
    key = edges.select(pl.col("from_event") * 2**32 + pl.col("to_event")).to_series().to_numpy()
    return pl.Series(np.argsort(key, kind="stable").astype(np.uint32))


def _edge(rows: pl.DataFrame, cause: str, rule: str) -> pl.DataFrame:
    """Return the edges from the event in column `cause` to each row itself."""
    # Which call and which command is meant follows from the order of a thread's lines, not from a key.
    edges = rows.select(from_event=cause, to_event="event").drop_nulls()
    return edges.with_columns(rule=pl.lit(rule), evidence=pl.lit(DERIVED))


def _nesting(events: pl.DataFrame) -> list[pl.DataFrame]:
    """Return the edges that the readers saw themselves: a record between the enter and exit of its parent."""
    is_inner = pl.col("layer").is_in([n for n, _, _ in _NESTED]) & pl.col("parent").is_not_null()
    inner = events.select("event", "parent", "layer", "source").filter(is_inner)
    above = events.select(over="layer", over_source="source")[inner["parent"]]
    inner = inner.with_columns(above.get_columns())
    is_same = pl.col("source") == pl.col("over_source")
    # Enclosed by enter and exit of one thread: by order, since neither line names the other.
    return [
        _edge(inner.filter(is_same & (pl.col("layer") == layer) & pl.col("over").is_in(over)), "parent", rule)
        for layer, over, rule in _NESTED
    ]


def _functions(events: pl.DataFrame) -> pl.DataFrame:
    """Return the edges from each ioctl to all KFD functions that ran in it, however deep."""
    rows = events.select("event", "enclosing_call", "layer", "flags")
    rows = rows.filter(pl.col("layer").is_in(["ioctl", "kfd"]) & is_counted())
    ioctls = rows.filter(pl.col("layer") == "ioctl").select(enclosing_call="event")
    inside = rows.filter(pl.col("layer") == "kfd").join(ioctls, on="enclosing_call", maintain_order="left")
    return inside.select(
        from_event="enclosing_call", to_event="event", rule=pl.lit("kfd_in_ioctl"), evidence=pl.lit(DERIVED)
    )


def _add_gaps(edges: pl.DataFrame, events: pl.DataFrame) -> pl.DataFrame:
    ends, at = (edges["from_event"].to_numpy(), edges["to_event"].to_numpy()), events["ts_ns"].to_numpy()
    gap = at[ends[1]]
    gap -= at[ends[0]]
    widths = events.select("err_lo_ns", "err_hi_ns")
    causes, effects = (widths[end.astype(np.uint32)] for end in ends)
    both = pl.concat([causes, effects.select(pl.all().name.suffix("_effect"))], how="horizontal")
    errors = {name: pl.col(name).cast(pl.Int64) for name in both.columns}
    # By how much the true gap can be larger and smaller.
    larger = errors["err_lo_ns"] + errors["err_hi_ns_effect"]
    smaller = errors["err_hi_ns"] + errors["err_lo_ns_effect"]
    known = larger.is_not_null() & smaller.is_not_null()
    widest = both.select(gap_err_ns=pl.when(known).then(pl.max_horizontal(larger, smaller)))
    return pl.concat([edges, pl.DataFrame({"gap_ns": gap}), widest], how="horizontal")
