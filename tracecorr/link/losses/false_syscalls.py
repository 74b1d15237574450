"""False system calls: in a trace that lost records, which calls are not those of one enter and its own exit.

Where the exit of a call and the enter of the next one are missing, the enter of the one and the exit of the other look
like one call.
"""

from __future__ import annotations

from typing import Any

import polars as pl

from tracecorr.clock.causal_pairs import LOG_STEP_NS
from tracecorr.clock.intervals import pair_spans
from tracecorr.clock.joins import join_nearest, sort_rows
from tracecorr.clock.rows import attach_columns
from tracecorr.link.losses.bursts import list_burst_calls
from tracecorr.link.losses.false_calls import list_longest
from tracecorr.link.losses.open_calls import take_ends
from tracecorr.link.losses.store_gaps import list_store_gaps, list_unstored, measure_losses
from tracecorr.model.kinds import HALF_SEEN, Flag
from tracecorr.read.kfd.ioctls import HANDLER_PREFIX, KFD_NAMES, KFD_PREFIX

_OPERATIONS = [name.removeprefix(KFD_PREFIX).lower() for name in KFD_NAMES.values()]
_CALLS = ("syscall", "ioctl")
# A call that shows both records less often is one of which only one event was traced.
_LEAST_WHOLE = 0.1
# Where more records are missing, too many calls are false to tell them from others by their length.
_MOST_LOST = 0.05
# What follows at least this share of a request's calls follows it as a rule: but for one, all of ten at least.
_USUAL_NEXT = 0.9
# A call that lasts so many times as long as any other of its name is unlike them.
_LONGER = 1.5


def open_false_syscalls(events: pl.DataFrame, lines: pl.DataFrame) -> pl.DataFrame:
    """Return `events` in which system calls that are surely or likely those of two are open: their end is not known.

    So are calls
    - during which their thread printed a line of the log,
    - in which the driver's function of another request of the KFD ran, or that of their own one twice,
    - of the KFD that lack the request that follows those of their name as a rule, and are long enough to hold it, too;
      also where their thread makes no other one behind them, or prints before it could,
    - over a place at which several threads or doorbells lack records, or one does and the call lasts much longer than
      all others of its name,
    - in a trace that lacks enters and exits, or doorbell stores, here and there: the longest of each name, as many as
      may be false; where it lacks many, all.

    What ran in an open call is in none, nor is what ran in one whose exit is missing, but for the driver's function of
    the request.

    Args:
        events: events nested by `twins.nest_calls`.
        lines: thread, at (ns) of the lines of the log, on a clock that the trace shares (`nesting.list_lines`).
    """
    columns = ("event", "file", "thread", "offset", "name", "ts_ns", "dur_ns", "err_lo_ns", "err_hi_ns", "flags")
    mine = pl.col("layer").is_in(_CALLS) & (pl.col("source") == "ftrace") & pl.col("thread").is_not_null()
    calls = events.select(*columns, "layer", "source").filter(mine).select(columns)
    ended = calls.filter(pl.col("dur_ns") > 0)
    if ended.is_empty():
        return events
    inside, printed = _list_functions(events), sort_rows(lines.select("thread", printed_ns="at"), "printed_ns")
    enters, exits = _list_lone(calls, events)
    surely = pl.concat([_interrupted(ended, printed), _of_another(inside), _of_two(inside, ended)]).unique()
    of_two = ended.join(surely, on="event", how="semi").join(_count_calls(calls), on="file")
    stores = list_store_gaps(events)
    false = pl.concat([
        surely, _unlikely(enters, exits, of_two, measure_losses(stores, events), ended),
        _of_bursts(enters, exits, stores, ended, events), _without_next(calls, ended, printed),
    ]).unique()  # fmt: skip
    unended = pl.concat([false, enters.select("event")])
    if unended.is_empty():
        return events
    return _open(events, false["event"], _list_doubtful(inside, unended, calls))


def _list_doubtful(inside: pl.DataFrame, unended: pl.DataFrame, calls: pl.DataFrame) -> pl.Series:
    """Return what may have run in a later call (event): all but functions of the request right behind its enter.

    A function that ran sooner than the shortest call of the name takes is in no later one.

    Args:
        inside: as `_list_functions` returns it.
        unended: event of the calls that have ended at another time than the trace says.
        calls: all calls.
    """
    begun = calls.select("name", call="event", begun_ns="ts_ns", least=pl.col("dur_ns").min().over("name"))
    asked = inside.join(unended.select(call="event"), on="call", how="semi").join(begun, on="call")
    soon = pl.col("ts_ns") - pl.col("begun_ns") < pl.col("least")
    return asked.filter(~(pl.col("own") & soon).fill_null(value=False))["event"]


def _open(events: pl.DataFrame, false: pl.Series, doubtful: pl.Series) -> pl.DataFrame:
    marks = pl.concat([
        false.to_frame("event").with_columns(is_false=pl.lit(value=True)),
        doubtful.to_frame("event").with_columns(is_false=pl.lit(value=False)),
    ])  # fmt: skip
    joined = attach_columns(events, marks)
    is_inside = ~pl.col("is_false").fill_null(value=True)
    # A function in another one keeps that as its parent.
    direct = is_inside & (pl.col("parent") == pl.col("enclosing_call")).fill_null(value=False)
    return joined.with_columns(
        *take_ends(pl.col("is_false")),
        parent=pl.when(~direct).then("parent"),
        enclosing_call=pl.when(~is_inside).then("enclosing_call"),
    ).drop("is_false")


def _list_functions(events: pl.DataFrame) -> pl.DataFrame:
    """Return what lies in each system call.

    Returns: event, call, ts_ns, own, other (functions of the request, of another), nested (runs in a function of a
        request, as kfd_set_event does in kfd_ioctl_set_event).
    """
    rows = events.select("event", "name", "layer", "source", "ts_ns", "parent", call="enclosing_call").filter(
        (pl.col("source") == "ftrace") & pl.col("call").is_not_null()
    )
    name = pl.col("name").cast(pl.String)
    # Pages without the definitions of their probes name a function as its probe was called: kfd_create_queue.
    operation = pl.when(pl.col("layer") == "kfd").then(name.str.strip_prefix(HANDLER_PREFIX).str.strip_prefix("kfd_"))
    request = events["name"].gather(rows["call"]).cast(pl.String).str.strip_prefix(KFD_PREFIX).str.to_lowercase()
    is_own = (operation == request).fill_null(value=False)
    # In a call that is no ioctl of the KFD a function is one of a request by its whole name alone: kfd_create_process
    # runs in an open. Of an ioctl of which only the exit was seen the request is not known.
    is_request = request.is_in(_OPERATIONS) | ((request != "ioctl") & name.str.starts_with(HANDLER_PREFIX))
    is_other = operation.is_in(_OPERATIONS).fill_null(value=False) & is_request & ~is_own
    around = events["name"].gather(rows["parent"]).cast(pl.String)
    nested = around.str.starts_with(HANDLER_PREFIX).fill_null(value=False)
    return rows.select("event", "call", "ts_ns", own=is_own, other=is_other, nested=nested)


def _interrupted(ended: pl.DataFrame, printed: pl.DataFrame) -> pl.DataFrame:
    """Return the calls (event) during which their thread printed a line: it was in user space then."""
    after = pl.col("ts_ns") + pl.col("err_hi_ns").cast(pl.Int64)
    before = pl.col("ts_ns") + pl.col("dur_ns") - pl.col("err_lo_ns").cast(pl.Int64)
    found = join_nearest(ended.with_columns(after=after), printed, ["thread"], "after", "printed_ns", forward=True)
    return found.filter(pl.col("printed_ns") + LOG_STEP_NS < before).select("event")


def _of_another(inside: pl.DataFrame) -> pl.DataFrame:
    return inside.filter("other").select(event="call").unique()


def _of_two(inside: pl.DataFrame, ended: pl.DataFrame) -> pl.DataFrame:
    """Return the calls (event) in which the driver's function of the request ran twice.

    Two probes may show one function; then less time is between them than the shortest call of the name takes.
    """
    at = pl.col("ts_ns")
    ran = (
        inside.filter(pl.col("own") & ~pl.col("nested"))
        .group_by("call")
        .agg(apart=at.max() - at.min())
        .filter(pl.col("apart") > 0)
    )
    shortest = ended.group_by("name").agg(least=pl.col("dur_ns").min())
    asked = ended.select("event", "name").join(ran, left_on="event", right_on="call").join(shortest, on="name")
    return asked.filter(pl.col("apart") >= pl.col("least")).select("event")


def _count_calls(calls: pl.DataFrame) -> pl.DataFrame:
    return calls.group_by("file").agg(total=pl.len())


def _list_lone(calls: pl.DataFrame, events: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the calls of which the exit, and those of which the enter, is missing, of those that show both as a rule.

    A trace begins in calls, and ends in some: an exit that is the first record of its thread tells nothing, nor does an
    enter that is the last one. Stores to doorbells are records, too: a thread makes them in user space.

    Each with `total`: the calls of its file.
    """
    flag = pl.col("flags").fill_null(0)
    is_lone = flag & HALF_SEEN > 0
    # An exit alone does not tell the request.
    call = pl.when(pl.col("name").cast(pl.String).str.starts_with(KFD_PREFIX)).then(pl.lit("ioctl")).otherwise("name")
    calls = calls.with_columns(call=call)
    usual = calls.group_by("file", "call").agg(lone=is_lone.mean()).filter(pl.col("lone") <= 1 - _LEAST_WHOLE)
    calls = calls.join(usual, on=["file", "call"], how="semi")
    lone = calls.filter(is_lone)
    stores = (pl.col("layer") == "doorbell") & (pl.col("source") == "ftrace") & pl.col("thread").is_not_null()
    stored = events.select("thread", "ts_ns", "layer", "source").filter(stores).select("thread", "ts_ns")
    shown = pl.concat([calls.select("thread", "ts_ns"), stored])
    ends = shown.group_by("thread").agg(first=pl.col("ts_ns").min(), last=pl.col("ts_ns").max())
    placed = lone.join(ends, on="thread").join(_count_calls(calls), on="file")
    enters = placed.filter((flag & int(Flag.ENTER_ONLY) > 0) & (pl.col("ts_ns") < pl.col("last")))
    exits = placed.filter((flag & int(Flag.EXIT_ONLY) > 0) & (pl.col("ts_ns") > pl.col("first")))
    return enters, exits


def _unlikely(
    enters: pl.DataFrame, exits: pl.DataFrame, of_two: pl.DataFrame, of_stores: pl.DataFrame, ended: pl.DataFrame
) -> pl.DataFrame:
    """Return the calls (event) that are the longest of their name in a trace that lacks single records.

    Args:
        enters, exits: calls of which the exit, and of which the enter, is missing: file, total.
        of_two: calls that are surely two, so that an exit and an enter are missing: file, total.
        of_stores: as `store_gaps.measure_losses` returns them.
        ended: calls that show both.
    """
    sides = [pl.concat([side.select("file", "total"), of_two.select("file", "total")]) for side in (enters, exits)]
    total = pl.col("total").first()
    halves = pl.concat(sides).group_by("file").agg(total, share=pl.len() / total)
    # A filter on one of the two events leaves halves of one kind only, on all CPUs.
    if any(side.is_empty() for side in sides):
        halves = halves.clear()
    # Of few calls the share is hardly known: it may be larger by two standard errors.
    share = pl.col("share")
    most = share + 2 * (share * (1 - share) / pl.col("total")).sqrt()
    lost = (
        pl.concat([halves.select("file", lost=most / (2 - most)), of_stores]).group_by("file").agg(pl.col("lost").max())
    )
    damaged = ended.join(lost, on="file")
    many = damaged.filter(pl.col("lost") >= _MOST_LOST)
    return pl.concat([many.select("event"), list_longest(damaged.filter(pl.col("lost") < _MOST_LOST))])


def _of_bursts(
    enters: pl.DataFrame, exits: pl.DataFrame, stores: pl.DataFrame, ended: pl.DataFrame, events: pl.DataFrame
) -> pl.DataFrame:
    """Return the calls (event) over places at which records of several threads or doorbells are missing.

    A call that lasts much longer than all others of its name needs one of another thread, or packets without stores.
    """
    gaps = _list_gaps(enters, exits, events)
    # A filter leaves out enters more often than exits: these count where both are missing.
    told, stores = stores.filter("told").select(gaps.columns), stores.select(gaps.columns)
    both = pl.concat([gaps.filter(pl.col("file").is_in(enters["file"].implode())), told])
    low = pl.col("ts_ns")
    spans = ended.with_columns(pl.col("thread").cast(pl.Int64), low=low, high=low + pl.col("dur_ns"))
    found = list_burst_calls(spans.select("event", "file", "low", "high"), both)
    longest = pl.col("dur_ns").top_k(2)
    least = pl.when(pl.len() > 1).then(_LONGER * longest.min()).over("file", "name")
    odd = spans.filter(pl.col("dur_ns") > least)
    lacks = not (enters.is_empty() and exits.is_empty())
    unstored = list_unstored(odd, events, lacks=lacks)
    return pl.concat([found, _list_over_others(odd, pl.concat([gaps, stores])), unstored])


def _list_over_others(spans: pl.DataFrame, gaps: pl.DataFrame) -> pl.DataFrame:
    """Return the spans (event) over gaps of other threads, or of doorbells."""
    span, gap = pair_spans(spans, gaps, ["file"])
    over, beside = spans[span], gaps[gap]
    meets = (over["low"] < beside["high"]) & (beside["low"] < over["high"]) & (over["thread"] != beside["thread"])
    return over.filter(meets).select("event").unique()


def _list_gaps(enters: pl.DataFrame, exits: pl.DataFrame, events: pl.DataFrame) -> pl.DataFrame:
    """Return between which times records of a thread are missing: file, thread, low, high (ns), weight."""
    gap = {"file": pl.UInt16, "thread": pl.Int64, "low": pl.Int64, "high": pl.Int64}
    if enters.is_empty() and exits.is_empty():
        return pl.DataFrame(schema={**gap, "weight": pl.Float64})
    rows = events.select("file", "thread", "ts_ns", "dur_ns", "source").filter(pl.col("source") == "ftrace")
    rows = rows.drop_nulls(["thread", "ts_ns"])
    begins = rows.select("file", "thread", other="ts_ns").sort("other")
    ends = rows.select("file", "thread", other=pl.col("ts_ns") + pl.col("dur_ns").fill_null(0)).sort("other")
    by: dict[str, Any] = {"left_on": "ts_ns", "right_on": "other", "by": ["file", "thread"]}
    by |= {"allow_exact_matches": False, "check_sortedness": False}
    behind = enters.sort("ts_ns").join_asof(begins, strategy="forward", **by)
    before = exits.sort("ts_ns").join_asof(ends, strategy="backward", **by)
    gaps = pl.concat([
        behind.select("file", "thread", low="ts_ns", high="other"),
        before.select("file", "thread", low="other", high="ts_ns"),
    ]).drop_nulls()  # fmt: skip
    return gaps.cast(gap).with_columns(weight=pl.lit(1.0))  # type: ignore[arg-type]


def _without_next(calls: pl.DataFrame, ended: pl.DataFrame, printed: pl.DataFrame) -> pl.DataFrame:
    """Return the KFD's requests (event) that may be one and the end of the next one, which lacks behind them.

    Nearly all requests of their name are followed by one of another name. Behind these comes at once what follows that
    other one, or no more of their thread, as behind some of those, and they are long enough to hold both.
    """
    pairs = _pair_requests(calls, printed)
    counts = pairs.group_by("name", "following").agg(
        count=pl.len(), pause=pl.col("pause").max(), spoken=(pl.col("room") < pl.col("pause")).any()
    )
    followed = counts.drop_nulls("following").with_columns(total=pl.col("count").sum().over("name"))
    as_a_rule = pl.col("count") >= _USUAL_NEXT * pl.col("total")
    usual = followed.filter(as_a_rule & (pl.col("name") != pl.col("following")))
    lasted = pl.col("dur_ns")
    shortest = ended.group_by("name").agg(least=lasted.min(), most=pl.when(pl.len() > 1).then(lasted.top_k(2).min()))
    # One that none follows is beside these.
    has_many = pl.col("count") >= _USUAL_NEXT * (pl.col("total") + 1)
    both = usual.select("name", "pause", "spoken", has_many.alias("many"), next="following").join(shortest, on="name")
    both = both.join(shortest.select(next="name", more="least"), on="next")
    odd = pairs.drop("pause").join(both, on="name").filter(pl.col("following").ne_missing(pl.col("next")))
    behind = counts.select(next="name", following="following")
    odd = odd.join(behind, on=["next", "following"], how="semi", nulls_equal=True)
    asked = ended.join(odd.drop("name"), on="event")
    asked = asked.join(calls.group_by("file").agg(last_ns=pl.col("ts_ns").max()), on="file")
    # Where a trace ends, the next request may come behind its end, but not behind a line that none of the others leaves
    # between the two; nor is it likely that a trace ends right behind a request much longer than all others.
    goes_on = pl.col("ts_ns") + pl.col("dur_ns") + pl.col("pause") < pl.col("last_ns")
    has_room = (pl.col("room") >= pl.col("more")).fill_null(value=True) | pl.col("spoken").fill_null(value=False)
    is_longest = lasted > _LONGER * pl.col("most")
    odd_one = pl.col("following").is_not_null() | (pl.col("many") & (goes_on | ~has_room | is_longest))
    return asked.filter((pl.col("dur_ns") >= pl.col("least") + pl.col("more")) & odd_one).select("event")


def _pair_requests(calls: pl.DataFrame, printed: pl.DataFrame) -> pl.DataFrame:
    """Return the KFD's requests: event, name, following (name of the thread's next one), pause (ns until then), room.

    The room (ns) is what is at most left behind a request until its thread prints its next line.
    """
    requests = calls.filter(pl.col("name").cast(pl.String).str.starts_with(KFD_PREFIX)).sort("ts_ns")
    following, begun = (pl.col(name).shift(-1).over("thread") for name in ("name", "ts_ns"))
    end = pl.col("ts_ns") + pl.col("dur_ns")
    since = end - pl.col("err_lo_ns").cast(pl.Int64) - LOG_STEP_NS
    pairs = requests.select("event", "name", "thread", following=following, pause=begun - end, since=since)
    found = join_nearest(pairs, printed, ["thread"], "since", "printed_ns", forward=True)
    return found.with_columns(room=pl.col("printed_ns") - pl.col("since")).drop("thread", "since", "printed_ns")
