"""Parts of several kernel traces: what two of them hold counts once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import polars as pl

from tracecorr.link.parted_calls import find_parted_calls
from tracecorr.link.repeated_records import COLUMNS, find_repeated_records, find_repeated_unnamed
from tracecorr.link.repeated_traces import (
    drop_held_losses,
    drop_repeated_losses,
    skip_records,
    skip_repeated_records,
)
from tracecorr.model import schema
from tracecorr.read.ftrace.text import PRINTS
from tracecorr.store.parts import Parts, SourcePart, StoredPart, rewrite_part

_OF_PRINTS = ("layer", "name", "tid", "stamp_ns", "end_stamp_ns", "clock")
# How drivers call what they print, and those of it that tell of a queue that is made.
_PRINTED, _OF_CREATION = "^[A-Z][A-Z0-9_]+$", ("CREATE_QUEUE_SUCCESS", "KFD_MQD_CREATE")
# Text rounds a stamp by less.
_ROUNDED_NS = 1_000


def count_once(parts: Parts) -> Parts:
    """Return the parts without records of kernel traces that another trace holds, too."""
    traces = [part for part in parts.each if part.source == "ftrace"]
    if len(traces) < 2:
        return parts
    pieces = [(part, part.read_events(COLUMNS)) for part in traces]
    # Of equals that is kept whose stamps are finer. Of pieces the earlier one is whole where they meet.
    pieces.sort(key=lambda piece: (sum(piece[0].steps_ns), piece[1]["stamp_ns"].min() or 0))
    traces, events = [part for part, _ in pieces], [rows for _, rows in pieces]
    stored: dict[int, StoredPart | None] = {}
    left_out = []
    for part, rows, change in zip(traces, events, _find_changes(traces, events), strict=True):
        if len(rows) and len(change.repeated) == len(rows):
            stored[id(part)] = None
            left_out.append(skip_records(part.stored.ledger))
        elif change.is_any:
            stored[id(part)] = _apply(part, rows, change)
    changed = [(part, stored.get(id(part), part.stored)) for part in parts.each]
    kept = [replace(part, stored=new) for part, new in changed if new is not None]
    return Parts(kept, pl.concat([parts.skipped, *left_out]))


def set_prints_apart(parts: Parts) -> Parts:
    """Return the parts with a driver's prints as a source of their own where they are on another clock than its ioctls.

    trace_printk writes to the top tracing buffer, on the clock of that one (`local` by default), whatever clock an
    instance records with. What it tells of a queue that is made lies in an ioctl of its thread, on one clock.
    """
    traces = [part for part in parts.each if part.source == "ftrace"]
    if len(traces) < 2:
        return parts
    events = [part.read_events(_OF_PRINTS) for part in traces]
    ioctls = pl.concat([rows.filter(pl.col("layer") == "ioctl") for rows in events])
    apart = [id(part) for part, rows in zip(traces, events, strict=True) if _is_of_another_clock(rows, ioctls)]
    changed = [replace(part, source=PRINTS) if id(part) in apart else part for part in parts.each]
    return Parts(changed, parts.skipped)


def _is_of_another_clock(rows: pl.DataFrame, ioctls: pl.DataFrame) -> bool:
    """Tell of a trace whose clock is not told whether it holds prints alone, most of them outside of their ioctls."""
    name, clock = (rows[column].cast(pl.String) for column in ("name", "clock"))
    if rows.is_empty() or not (name.str.contains(_PRINTED).all() and (clock == "unknown").all()):
        return False
    made = rows.filter(name.is_in(_OF_CREATION)).join(ioctls.select("tid").unique(), on="tid", how="semi")
    begun = made.select("tid", at=pl.col("stamp_ns") + _ROUNDED_NS).drop_nulls().sort("at")
    calls = ioctls.select("tid", "stamp_ns", "end_stamp_ns").drop_nulls("stamp_ns").sort("stamp_ns")
    last = begun.join_asof(calls, left_on="at", right_on="stamp_ns", by="tid", check_sortedness=False, coalesce=False)
    # The end of one that goes on behind the trace is not known.
    open_still = pl.col("end_stamp_ns").is_null() | (pl.col("end_stamp_ns") >= pl.col("at") - 2 * _ROUNDED_NS)
    inside = last.select(pl.col("stamp_ns").is_not_null() & open_still).to_series().sum()
    return 2 * inside < begun.height


@dataclass(frozen=True)
class _Change:
    """Tell what becomes of one trace.

    Args:
        repeated: rows that another trace holds.
        exits: rows that end calls of another trace.
        ends: row, end_stamp_ns, result: calls that a row of another trace ends.
        args: of these rows, for the calls.
        losses: what is left of its losses.
        doubled: so many records are told as lost by another trace, too.
        is_less_lost: whether `losses` are not all of them.
    """

    repeated: pl.Series
    exits: pl.Series
    ends: pl.DataFrame
    args: pl.DataFrame
    losses: pl.DataFrame
    doubled: int
    is_less_lost: bool

    @property
    def is_any(self) -> bool:
        """Tell whether anything becomes different."""
        return bool(len(self.repeated) + len(self.exits) + len(self.ends) + self.doubled + self.is_less_lost)


def _find_changes(traces: Sequence[SourcePart], events: Sequence[pl.DataFrame]) -> list[_Change]:
    one_form = len({part.steps_ns for part in traces}) == 1
    repeated = find_repeated_records(events, (lambda n: traces[n].stored.read("args")) if one_form else None)
    repeated = pl.concat([repeated, find_repeated_unnamed(events, repeated)])
    losses, doubled = drop_repeated_losses([part.stored.losses for part in traces], repeated)
    gone = [rows[repeated.filter(pl.col("trace") == n)["row"]] for n, rows in enumerate(events)]
    counts = [len(rows) + rows["end_offset"].count() for rows in gone]
    losses = drop_held_losses(losses, [part.stored.ledger for part in traces], events, counts)
    joined = find_parted_calls(events, repeated, losses)
    args = _move_args(traces, events, joined)
    of_trace = pl.col("trace")
    return [
        _Change(
            repeated.filter(of_trace == n)["row"], joined.filter(pl.col("exit_trace") == n)["exit_row"],
            joined.filter(of_trace == n), args.filter(of_trace == n).drop("trace"), losses[n], doubled[n],
            len(losses[n]) != len(part.stored.losses),
        )
        for n, part in enumerate(traces)
    ]  # fmt: skip


def _move_args(traces: Sequence[SourcePart], events: Sequence[pl.DataFrame], joined: pl.DataFrame) -> pl.DataFrame:
    """Return the args of exits as those of their enters, with the trace of these."""
    found = [schema.PART_ARGS.empty().with_columns(trace=pl.lit(None, pl.UInt32))]
    for (one, other), calls in joined.partition_by("trace", "exit_trace", as_dict=True).items():
        places = pl.concat(
            [
                events[one].select("file", "offset")[calls["row"]],
                events[other].select(exit_file="file", exit_offset="offset")[calls["exit_row"]],
            ],
            how="horizontal",
        )
        args = traces[other].stored.read("args").rename({"file": "exit_file", "offset": "exit_offset"})
        moved = places.join(args, on=["exit_file", "exit_offset"]).select(schema.PART_ARGS.schema.names())
        found.append(moved.with_columns(trace=pl.lit(one, pl.UInt32)))
    return pl.concat(found)


def _apply(part: SourcePart, rows: pl.DataFrame, change: _Change) -> StoredPart:
    is_text = sum(part.steps_ns) > 0
    ledger = skip_repeated_records(part.stored.ledger, rows[change.repeated], change.doubled, is_text=is_text)
    stored = replace(part.stored, ledger=ledger, losses=change.losses)
    return rewrite_part(stored, pl.concat([change.repeated, change.exits]), change.ends, change.args)
