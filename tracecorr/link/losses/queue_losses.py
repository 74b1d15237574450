"""Queue losses: logs that lack the line that follows a count of the hardware queues, or the count before that line."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from tracecorr.clock.causal_pairs import LOG_STEP_NS
from tracecorr.clock.joins import join_nearest, sort_rows
from tracecorr.model.kinds import QUEUE_CREATED, QUEUE_SELECTED, QUEUES_COUNTED, Flag
from tracecorr.read.kfd.ioctls import CREATE_QUEUE

_OUTCOMES = (QUEUE_CREATED, QUEUE_SELECTED)
# Where more counts are followed by another one, a release or a level does not print what came of them.
_MOST_ALONE = 0.5


def list_unanswered(events: pl.DataFrame) -> pl.DataFrame:
    """Return the files (file) in which a thread counts the queues twice, and makes or takes none in between.

    Recorded logs of HIP 5.7 to 7.2 print a Created or Selected line behind each count.

    Args:
        events: rows with file, offset, thread, name, layer.
    """
    following = pl.col("name").shift(-1).over("file", "thread")
    return _select_alone(_list_lines(events), following == QUEUES_COUNTED).select("file").unique()


def list_unshown(events: pl.DataFrame) -> pl.Series:
    """Return the files (file) in which a thread takes a queue, though it made one since it counted the queues.

    The trace shows that it made one: the lines of that one, and the count behind them, were lost.

    Args:
        events: placed rows with file, offset, thread, name, layer, ts_ns, dur_ns, err_lo_ns, err_hi_ns.
    """
    requests = _list_requests(events)
    if requests.is_empty():
        return events["file"].clear()
    following = pl.col("name").shift(-1).over("file", "thread")
    alone = _select_alone(_mark_made(_list_lines(events, "ts_ns"), requests), _is_another(following))
    return alone["file"].unique()


def list_crowded(events: pl.DataFrame) -> pl.DataFrame:
    """Return the files (file) that name no thread, and in which more counts wait for an answer than calls are open.

    Each count is of a call: the lines of one, its exit and the enter of another one lack. Of files that count the
    queues while no call is open, as threads do that make none, nothing is known.

    Args:
        events: rows with file, offset, end_offset, thread, name, layer, source, flags.
    """
    columns = ("file", "offset", "end_offset", "thread", "name", "layer", "source", "flags")
    rows = events.select(columns).filter((pl.col("source") == "amd_log") & pl.col("thread").is_null())
    asked = rows.filter((pl.col("layer") == "aql") & pl.col("name").is_in([QUEUES_COUNTED, *_OUTCOMES]))
    if asked.is_empty():
        return asked.select("file")
    calls = rows.filter(pl.col("layer") == "hip")
    begun = calls.filter(pl.col("flags").fill_null(0) & int(Flag.EXIT_ONLY) == 0)
    ended = calls.drop_nulls("end_offset").with_columns(offset="end_offset")
    is_count, no_count = pl.col("name") == QUEUES_COUNTED, pl.lit(value=False)
    steps = pl.concat([
        side.select("file", "offset", is_count=marked, open=opens, waiting=waits)
        for side, marked, opens, waits in (
            (asked, is_count, pl.lit(0), pl.when(is_count).then(1).otherwise(-1)),
            (begun, no_count, pl.lit(1), pl.lit(0)), (ended, no_count, pl.lit(-1), pl.lit(0)),
        )
    ]).sort("file", "offset")  # fmt: skip
    steps = steps.with_columns(pl.col("open", "waiting").cum_sum().over("file"))
    # What the file begins within shows no enter, and no count.
    lows = (pl.col(name).cum_min().clip(upper_bound=0).over("file") for name in ("open", "waiting"))
    open_calls, waiting = (pl.col(name) - low for name, low in zip(("open", "waiting"), lows, strict=True))
    steps = steps.with_columns(open=open_calls, waiting=waiting).filter("is_count")
    crowded = (pl.col("waiting") > pl.col("open")).any() & (pl.col("open") > 0).all()
    return steps.group_by("file").agg(crowded=crowded).filter("crowded").select("file")


def list_unanswered_calls(damaged: pl.DataFrame, events: pl.DataFrame) -> pl.DataFrame:
    """Return the calls (event) that count the queues, and show nothing or two things of what came of it: lines lack.

    Args:
        damaged: calls of files that lost lines: event.
        events: rows as for `list_unanswered`, with `parent`.
    """
    if damaged.is_empty():
        return damaged.select("event")
    following, outer = (pl.col(name).shift(-1).over("file", "thread") for name in ("name", "parent"))
    before, outer_before = (pl.col(name).shift(1).over("file", "thread") for name in ("name", "parent"))
    answered = following.is_in(_OUTCOMES) & (outer == pl.col("parent"))
    is_second = before.is_in(_OUTCOMES) & (outer_before == pl.col("parent"))
    requests, lines = _list_requests(events), _list_lines(events, "parent")
    if len(requests):
        lines = _mark_made(_list_lines(events, "parent", "ts_ns"), requests)
        answered &= ~_is_another(following)
    alone = _select_alone(lines, ~answered.fill_null(value=False)), _select_alone(lines, is_second, _OUTCOMES)
    calls = pl.concat(side.select(event="parent") for side in alone)
    return damaged.select("event").join(calls, on="event", how="semi")


def _is_another(following: pl.Expr) -> pl.Expr:
    """Tell which counts are followed by the taking of a queue behind the making of another one."""
    return ((following == QUEUE_SELECTED) & pl.col("made")).fill_null(value=False)


def _list_lines(events: pl.DataFrame, *more: str) -> pl.DataFrame:
    """Return the lines of the log that count the queues, and those that tell what came of it."""
    lines = events.select("file", "offset", "thread", "name", "layer", *more)
    is_asked = (pl.col("layer") == "aql") & pl.col("name").is_in([QUEUES_COUNTED, *_OUTCOMES])
    return lines.filter(is_asked & pl.col("thread").is_not_null()).sort("file", "offset")


def _list_requests(events: pl.DataFrame) -> pl.DataFrame:
    """Return thread, begun, end (ns; at the earliest, at the latest) of the CREATE_QUEUE ioctls, by `begun`."""
    is_request = (pl.col("layer") == "ioctl") & (pl.col("name") == CREATE_QUEUE)
    if not events.select(is_request.any()).item():
        return pl.DataFrame(schema={"thread": events.schema["thread"], "begun": pl.Int64, "end": pl.Int64})
    asked = events.select("thread", "ts_ns", "dur_ns", "err_lo_ns", "err_hi_ns", "layer", "name").filter(is_request)
    asked = asked.drop_nulls(["thread", "ts_ns", "err_lo_ns", "err_hi_ns"])
    early, late = pl.col("err_lo_ns").cast(pl.Int64), pl.col("err_hi_ns").cast(pl.Int64)
    end = pl.col("ts_ns") + pl.col("dur_ns").fill_null(0) + late
    return sort_rows(asked.select("thread", begun=pl.col("ts_ns") - early, end=end), "begun")


def _mark_made(lines: pl.DataFrame, requests: pl.DataFrame) -> pl.DataFrame:
    """Return `lines` with `made`: whether a request of their thread surely lies before its next line."""
    until = pl.col("ts_ns").shift(-1).over("file", "thread")
    rows = lines.with_columns(until=until, since=pl.col("ts_ns") + LOG_STEP_NS)
    found = join_nearest(rows, requests, ["thread"], "since", "begun", forward=True)
    return found.with_columns(made=pl.col("end") < pl.col("until"))


def _select_alone(lines: pl.DataFrame, alone: pl.Expr, names: Sequence[str] = (QUEUES_COUNTED,)) -> pl.DataFrame:
    """Return the lines of these names that stand alone, in files in which most do not."""
    counts = lines.with_columns(alone=alone.fill_null(value=False)).filter(pl.col("name").is_in(names))
    return counts.filter(pl.col("alone"), pl.col("alone").mean().over("file") < _MOST_ALONE)
