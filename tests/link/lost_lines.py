"""What the modules that look for lost lines are asked, one after the other."""

from __future__ import annotations

import polars as pl

from tracecorr.link.calls import find_parents
from tracecorr.link.false_calls import find_losses, list_empty_calls, list_half_calls, open_false_calls
from tracecorr.link.packet_gaps import list_packet_gaps
from tracecorr.model.schema import CAT

_OF_PACKETS = {"ring": pl.UInt64, "packet_index": pl.Int64, "clock": CAT}


def losses_of(events: pl.DataFrame) -> pl.DataFrame:
    """Return the files that lost lines."""
    return find_losses(events, list_half_calls(events))


def gaps_of(events: pl.DataFrame) -> pl.DataFrame:
    """Return where packets are missing; rows may lack what packets have."""
    missing = {name: pl.lit(None, kind) for name, kind in _OF_PACKETS.items() if name not in events.columns}
    return list_packet_gaps(events.with_columns(**missing))


def with_parents(events: pl.DataFrame) -> pl.DataFrame:
    """Return the events with the rows that enclose them."""
    return find_parents(events, losses_of(events), list_half_calls(events), gaps_of(events))


def with_false_calls_open(events: pl.DataFrame, losses: pl.DataFrame | None = None) -> pl.DataFrame:
    """Return the events in which calls that are likely two have no end; `losses` if not its own."""
    losses = losses_of(events) if losses is None else losses
    return open_false_calls(events, losses, list_half_calls(events), gaps_of(events))


def empty_calls(events: pl.DataFrame) -> list[bool]:
    """Return which rows are open calls that enclose nothing."""
    found: list[bool] = list_empty_calls(events, losses_of(events), list_half_calls(events)).tolist()
    return found
