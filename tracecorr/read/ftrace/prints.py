"""Prints that a capture copied from the top tracing buffer: a source of its own, on the clock of that buffer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import polars as pl

from tracecorr.model import schema
from tracecorr.model.parts import Block
from tracecorr.read.ftrace.text import read_ftrace_text

SOURCE = "trace_printk"


def read_prints(chunks: Iterable[bytes], file: int, clock: str) -> Iterator[Block]:
    """Yield the blocks of `raw/trace_printk/CLOCK.txt`: lines of a kernel trace text without its heading.

    Args:
        chunks: its decompressed bytes.
        file: key of its file.
        clock: clock of the top buffer.
    """
    source = pl.lit(SOURCE).cast(schema.CAT).alias("source")
    for block in read_ftrace_text(chunks, file, clock):
        yield replace(block, ledger=block.ledger.with_columns(source), losses=block.losses.with_columns(source))
