"""Names behind the addresses of binary records: kernel functions and formats of trace_printk."""

from __future__ import annotations

import re
from functools import cached_property

import numpy as np
import polars as pl

from tracecorr.read.digits import Words
from tracecorr.read.ftrace.halves import ENTRY, number_values

# A text is written from anywhere inside of a function.
INSIDE = 1 << 16
_SYMBOL = r"^([0-9a-fA-F]{8,16}) [tTwW] (\S+)(?:\s+\[([\w-]+)\])?"
_FORMAT = re.compile(r'^(0x[0-9a-fA-F]+)\s*:\s*"(.*)"\s*$')
_ESCAPES = {"n": "\n", "t": "\t", '"': '"', "\\": "\\"}


class Symbols:
    """Look up kernel functions by address.

    Args:
        kallsyms: text of `/proc/kallsyms`, or nothing.
    """

    def __init__(self, kallsyms: str = "") -> None:
        self._text = kallsyms

    @cached_property
    def _table(self) -> pl.DataFrame:
        """Functions with an address, in order; a text read without rights has zeros only."""
        lines = pl.Series("line", self._text.splitlines(), dtype=pl.String)
        found = (
            lines.str.extract_groups(_SYMBOL).struct.rename_fields(["address", "function", "module"]).struct.unnest()
        )
        address = pl.col("address").str.to_integer(base=16, dtype=pl.UInt64, strict=False)
        return found.with_columns(address).filter(pl.col("address") > 0).sort("address")

    def names(self, address: Words, reach: int = ENTRY) -> pl.DataFrame:
        """Return `function` (hexadecimal where it is not known) and `module` of each address.

        Args:
            address: kernel addresses.
            reach: bytes that an address may lie behind the start of its function: a table need not have all.
        """
        distinct, codes = number_values(address)
        table = self._table
        at = np.searchsorted(table["address"].to_numpy(), distinct, "right").astype(np.int64) - 1
        starts = table["address"].to_numpy()
        near = (at >= 0) & (distinct - starts[np.maximum(at, 0)] < np.uint64(reach)) if len(starts) else at >= 0
        index = pl.Series(np.where(near, at, -1))
        found = table[pl.select(pl.when(index >= 0).then(index).cast(pl.UInt32)).to_series()]
        bare = pl.Series([hex(number) for number in distinct.tolist()], dtype=pl.String)
        names = found.select(pl.coalesce("function", bare).alias("function"), "module")
        return names[codes]


def parse_printk_formats(text: str) -> dict[int, str]:
    """Return the formats of `printk_formats` by their address."""
    found = (_FORMAT.match(line) for line in text.splitlines())
    return {int(m[1], 16): re.sub(r"\\(.)", lambda e: _ESCAPES.get(e[1], e[0]), m[2]) for m in found if m}
