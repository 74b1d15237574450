"""Leave out the roctx ranges and marks that a capture was not asked to keep."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import polars as pl

from tracecorr.model import schema
from tracecorr.model.parts import Block

_REASON = "range_not_chosen"
_PLACE = ["file", "offset"]


def keep_ranges(blocks: Iterable[Block], names: Iterable[str]) -> Iterator[Block]:
    """Yield the blocks of a kernel trace without the roctx ranges and marks that have another text.

    The ledger calls their records skipped. A pop is dropped with its push, so that it ends no other range; one whose
    push was not seen has no text and is dropped, too.

    Args:
        blocks: of one recording, in order; the text of a range comes with or before its row.
        names: texts of the ranges to keep.
    """
    chosen = pl.Series(list(names), dtype=pl.String)
    places = schema.PART_ARGS.empty().select(_PLACE)
    for block in blocks:
        told = block.args.filter((pl.col("key").cast(pl.String) == "text") & pl.col("text").is_in(chosen.implode()))
        places = pl.concat([places, told.select(_PLACE)])
        is_range = (pl.col("layer") == "marker") & pl.col("name").cast(pl.String).is_in(["roctx_range", "roctx_mark"])
        others = block.events.filter(is_range).join(places, on=_PLACE, how="anti")
        if others.is_empty():
            yield block
            continue
        events = block.events.join(others, on=_PLACE, how="anti", maintain_order="left")
        yield replace(block, events=events, ledger=pl.concat([block.ledger, _count_skipped(others)]))


def _count_skipped(rows: pl.DataFrame) -> pl.DataFrame:
    """Return ledger rows that take the records of `rows` from the used ones and call them skipped."""
    ended = pl.col("end_length").is_not_null()
    counts = rows.group_by("file", maintain_order=True).agg(
        (1 + ended).cast(pl.Int64).sum().alias("records"),
        (pl.col("length").cast(pl.Int64) + pl.col("end_length").fill_null(0)).sum().alias("bytes"),
    )
    texts = {"source": pl.lit("ftrace"), "outcome": pl.lit("skipped"), "reason": pl.lit(_REASON)}
    taken = counts.with_columns(-pl.col("records"), -pl.col("bytes"), source=pl.lit("ftrace"), outcome=pl.lit("used"),
                                reason=pl.lit(""))  # fmt: skip
    return schema.LEDGER.conform(pl.concat([taken, counts.with_columns(**texts)]))
