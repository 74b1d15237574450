"""Which names of calls in a HIP log are those of functions inside HIP?"""

from __future__ import annotations

import polars as pl

# What the names of calls that make a stream begin with.
STREAM_MAKERS = ("hipStreamCreate", "hipExtStreamCreate")


def makes_stream(name: pl.Expr) -> pl.Expr:
    """Tell of names (categories) whether such a call makes a stream."""
    return pl.any_horizontal(name.cat.starts_with(maker) for maker in STREAM_MAKERS)


def is_internal(name: pl.Expr) -> pl.Expr:
    """Tell of names (strings) whether no program calls such a function by name; also of none.

    The log names a function inside HIP when it is entered (`ihipLaunchKernel`), or only when it returns an error
    (`hipStreamSynchronize_common`, of 7.2).

    Example:
        >>> names = ["hipMalloc", "hipMemcpy_spt", "ihipLaunchKernel", "hipMemcpyToSymbol_common", None]
        >>> pl.select(is_internal(pl.lit(pl.Series(names)))).to_series().to_list()
        [False, False, True, True, True]
    """
    return (~name.str.starts_with("hip") | name.str.ends_with("_common")).fill_null(value=True)
