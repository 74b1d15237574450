"""Which results of calls are failures?"""

from __future__ import annotations

import polars as pl

SUCCEEDED = ("hipSuccess", "HIPRTC_SUCCESS")
# What was asked for is not done yet, or a wait ended before it was.
NOT_YET = (
    "hipErrorNotReady", "EAGAIN", "ETIMEDOUT",
    # A signal ended a wait, and the kernel may start the call again.
    "EINTR", "ERESTARTSYS", "ERESTARTNOINTR", "ERESTARTNOHAND", "ERESTART_RESTARTBLOCK",
)  # fmt: skip
# 0, what a call counted or made (bytes, a descriptor, a pid), or where it put something.
NUMBER = "^([0-9]+|0x[0-9a-f]+)$"


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
