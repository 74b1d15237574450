"""Which rows are packets or count as calls, which results are failures, and what the names of HIP's calls tell."""

from __future__ import annotations

import polars as pl

from tracecorr.model.kinds import NOT_YET, NUMBER, PACKET_KINDS, SUCCEEDED, Flag

# Which rows are packets in a ring; lines about queues are of layer `aql`, too.
IS_PACKET = (pl.col("layer") == "aql") & pl.col("name").is_in(PACKET_KINDS)
# What the names of calls that make a stream begin with.
STREAM_MAKERS = ("hipStreamCreate", "hipExtStreamCreate")


def is_counted() -> pl.Expr:
    """Tell of rows with `flags` whether each is the one that counts of its call; never null.

    Example:
        >>> pl.DataFrame({"flags": [None, 0, 512, 1024, 1536]}).select(is_counted()).to_series().to_list()
        [True, True, True, False, False]
    """
    return pl.col("flags").fill_null(0) & int(Flag.TWIN) == 0


def is_failed(result: pl.Expr) -> pl.Expr:
    """Tell of results (strings, as in `events.result`) whether they are known and a failure; never null.

    Example:
        >>> results = ["hipErrorNotFound", "HIPRTC_ERROR_COMPILATION", "EINVAL"]
        >>> pl.select(is_failed(pl.lit(pl.Series(results)))).to_series().to_list()
        [True, True, True]
        >>> results = ["hipSuccess", "hipErrorNotReady", "ERESTART_RESTARTBLOCK", "0", "12", "0x7f00", None]
        >>> pl.select(is_failed(pl.lit(pl.Series(results)))).to_series().any()
        False
    """
    fine = result.is_in([*SUCCEEDED, *NOT_YET]) | result.str.contains(NUMBER)
    return (~fine).fill_null(value=False)


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
