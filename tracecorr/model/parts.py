"""What every reader yields: one block of a source, ready to be stored."""

from __future__ import annotations

from dataclasses import dataclass, field

import polars as pl

from tracecorr.model import schema


@dataclass
class Block:
    """Hold the rows that one block of a source gave.

    Args:
        events: rows of `schema.PART_EVENTS`.
        packets: rows of `schema.PART_PACKETS` (AMD log only).
        args: rows of `schema.PART_ARGS`.
        ledger: rows of `schema.LEDGER`; the rows of all blocks of a file add up to its size.
        losses: rows of `schema.LOSSES`, on the source's clock.
        hqd: rows of `schema.HQD` (dumps of the KFD only).
        polls: rows of `schema.PART_POLLS` (polled values of sysfs only).
    """

    events: pl.DataFrame = field(default_factory=schema.PART_EVENTS.empty)
    packets: pl.DataFrame = field(default_factory=schema.PART_PACKETS.empty)
    args: pl.DataFrame = field(default_factory=schema.PART_ARGS.empty)
    ledger: pl.DataFrame = field(default_factory=schema.LEDGER.empty)
    losses: pl.DataFrame = field(default_factory=schema.LOSSES.empty)
    hqd: pl.DataFrame = field(default_factory=schema.HQD.empty)
    polls: pl.DataFrame = field(default_factory=schema.PART_POLLS.empty)
