"""The chain of an event: every row that shares its root call, is part of its launch, or is linked to it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import polars as pl

from tracecorr.analyze.values import Tables
from tracecorr.model.columns import is_counted

_Row = dict[str, Any]

# Steps of a launch in causal order; the edges between them need no row in `links`.
STEPS = ("call_event", "command_event", "event", "doorbell_event", "gpu_event")
_ALL_STEPS = (*STEPS, "announce_event")
# Maximum number of rows of a chain.
_MAX_ROWS = 500


@dataclass(frozen=True)
class _Members:
    """Hold what belongs to the chain of an event.

    Args:
        root: the outermost HIP call; None = unknown.
        events: ids of its rows in `events`.
        launches: rows of `launches`.
        links: rows of `links` that touch them.
    """

    root: int | None
    events: set[int]
    launches: list[_Row]
    links: list[_Row]


def find_members(tables: Tables, event: int, max_rows: int = _MAX_ROWS) -> _Members | None:
    """Return the members of an event's chain: its launch, or all that a HIP call caused; None without such an event."""
    own = read_events(tables, [event])
    if not own:
        return None
    launches = _launches(tables, event, own[0], max_rows)
    narrow = own[0]["layer"] != "hip" and len(launches) == 1
    members = {event, *(launch[c] for launch in launches for c in _ALL_STEPS if launch[c] is not None)}
    if own[0]["parent"] is not None:
        members.add(own[0]["parent"])
    root = own[0]["chain"] if own[0]["chain"] is not None else (launches[0]["call_event"] if launches else None)
    if root is not None:
        members.add(root)
    if not narrow:
        members |= _same_chain(tables, event if root is None else root, max_rows)
    # Only links of the event itself widen the chain, else one signal would pull in everything.
    members |= {e for k in _links(tables, {event}, max_rows) for e in (k["from_event"], k["to_event"])}
    return _Members(root, members, launches, _links(tables, members, max_rows))


def list_chain(tables: Tables, event: int) -> pl.DataFrame:
    """Return the chain of an event in time order, empty when there is no such event.

    Returns: event, since_root_ns (time since the start of the root call), ts_ns, dur_ns, error_ns (width of the
        interval that holds the start), layer, name, evidence, source, result, rule and gap_ns (of the link that leads
        to the row from another of the chain).
    """
    found = find_members(tables, event)
    rows = pl.DataFrame(
        read_events(tables, found.events if found else [])[:_MAX_ROWS] or None, schema=tables("events").collect_schema()
    )
    text = [pl.col(c).cast(pl.String) for c in ("layer", "name", "evidence", "source", "result")]
    error = pl.col("err_lo_ns").cast(pl.Int64) + pl.col("err_hi_ns").cast(pl.Int64)
    ordered = rows.sort("ts_ns", "event").select("event", "ts_ns", "dur_ns", error.alias("error_ns"), *text)
    start = ordered.filter(pl.col("event").eq_missing(found.root if found else None))["ts_ns"]
    origin = start[0] if start.len() else (ordered["ts_ns"][0] if ordered.height else 0)
    return ordered.join(_incoming(found), on="event", how="left", maintain_order="left").select(
        "event", (pl.col("ts_ns") - origin).alias("since_root_ns"), pl.exclude("event")
    )


def _incoming(found: _Members | None) -> pl.DataFrame:
    """Return, per row of the chain, the link that leads to it."""
    shape = {"event": pl.Int64, "rule": pl.String, "gap_ns": pl.Int64}
    links = [
        (k["to_event"], k["rule"], k["gap_ns"])
        for k in (found.links if found else [])
        if found and k["from_event"] in found.events and k["to_event"] in found.events
    ]
    return pl.DataFrame(links, schema=shape, orient="row").unique("event", keep="first", maintain_order=True)


def read_events(tables: Tables, events: Iterable[int]) -> list[_Row]:
    """Return the rows of `events` with the given ids."""
    wanted = pl.Series("event", sorted(events), pl.Int64)
    frame = tables("events").filter(pl.col("event").is_in(wanted.implode())).collect()
    return list(frame.iter_rows(named=True))


def _same_chain(tables: Tables, root: int, max_rows: int) -> set[int]:
    # A call that two tracers recorded is one step.
    same = ((pl.col("chain") == root) | (pl.col("parent") == root)) & is_counted()
    return set(tables("events").filter(same).select("event").head(4 * max_rows).collect()["event"])


def _launches(tables: Tables, event: int, row: _Row, max_rows: int) -> list[_Row]:
    steps = pl.any_horizontal(pl.col(c) == event for c in _ALL_STEPS)
    table = tables("launches")
    found = list(table.filter(steps).head(max_rows).collect().iter_rows(named=True))
    # A store announces every packet before it; prefer the packets with this store as their own.
    found = [r for r in found if any(r[c] == event for c in STEPS)] or found
    if found or row["chain"] is None:
        return found
    return list(table.filter(pl.col("call_event") == row["chain"]).head(max_rows).collect().iter_rows(named=True))


def _links(tables: Tables, members: set[int], max_rows: int) -> list[_Row]:
    wanted = pl.Series("event", sorted(members), pl.Int64).implode()
    touches = pl.col("from_event").is_in(wanted) | pl.col("to_event").is_in(wanted)
    return list(tables("links").filter(touches).head(4 * max_rows).collect().iter_rows(named=True))
