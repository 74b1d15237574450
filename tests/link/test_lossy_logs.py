"""SYNTHETIC rows of logs that lost lines: which calls are false, and what shows a loss."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from lost_lines import HALF, WHOLE, Row, empty_calls, events_of, losses_of, with_false_calls_open

from tracecorr.link.packets.commands import add_bare_calls, add_lost_enqueues
from tracecorr.model.kinds import QUEUE_CREATED, QUEUE_SELECTED, Flag
from tracecorr.model.schema import CAT


def opened(rows: list[Row]) -> list[int]:
    """Return the events that lost their end."""
    events = events_of(rows)
    after = with_false_calls_open(events)
    return [n for n, (was, now) in enumerate(zip(events["dur_ns"], after["dur_ns"], strict=True)) if was and not now]


def test_what_tells_that_lines_were_lost() -> None:
    last_alone = ("hipFree", None, None, int(Flag.ENTER_ONLY))
    never = [("hipGetLastError", None, None, int(Flag.ENTER_ONLY))] * 9
    assert losses_of(events_of([WHOLE, *never, WHOLE, last_alone])).is_empty()
    assert losses_of(events_of([WHOLE, HALF, WHOLE]))["file"].to_list() == [0]
    # The log began in this call, or its release prints no enter of the first one.
    assert losses_of(events_of([HALF, WHOLE, WHOLE])).is_empty()
    assert losses_of(events_of([HALF, HALF, WHOLE]))["file"].to_list() == [0]
    assert losses_of(events_of([WHOLE, last_alone, WHOLE]))["file"].to_list() == [0]
    # Half of the calls that are left show one line: so it is where a third of the lines is lost.
    (lost,) = losses_of(events_of([WHOLE, HALF] * 50))["lost"]
    assert abs(lost - 1 / 3) < 0.01


def test_a_call_whose_exit_tells_another_duration_is_open() -> None:
    told, differs = ("hipFree", 5, None, int(Flag.SPAN_TOLD)), ("hipFree", 90, None, int(Flag.SPAN_DIFFERS))
    assert opened([told, told, differs, told, told]) == [2]
    # A release that measures otherwise makes no call false.
    assert opened([differs, differs, told]) == []


@pytest.mark.parametrize("held", [["dispatch", "dispatch"], ["barrier"]])
def test_a_call_that_holds_more_than_usual_or_lacks_that_is_open_where_lines_were_lost(held: list[str]) -> None:
    """Its own end may be among the lines that are missing inside it."""
    calls: list[Row] = []
    for n in range(10):
        calls += [("hipEventRecord", 5, None, 0), ("dispatch", None, 2 * n, 0)]
    odd: list[Row] = [*calls, ("hipEventRecord", 5, None, 0), *((name, None, 20, 0) for name in held)]
    assert opened(odd) == []
    assert opened([*odd, *[WHOLE] * 300, HALF]) == [20]
    told = [(name, dur, parent, flags | (int(Flag.SPAN_TOLD) if dur else 0)) for name, dur, parent, flags in odd]
    assert opened([*told, *[WHOLE] * 300, HALF]) == []


def test_one_of_few_calls_that_holds_twice_what_others_hold_is_open_where_many_lines_were_lost() -> None:
    calls: list[Row] = []
    for n in range(4):
        calls += [("hipStreamCreate", 50, None, 0), ("dispatch", None, 2 * n, 0)]
    twice = [*calls, ("dispatch", None, 2, 0)]
    halves = [("hipStreamQuery", 1, None, 0), ("hipStreamQuery", None, None, int(Flag.EXIT_ONLY))]
    assert opened([*twice, *[("hipStreamQuery", 1, None, 0)] * 300, *halves]) == []
    assert 2 in opened([*twice, *halves * 2])


def test_where_lines_of_one_function_were_lost_its_own_share_counts() -> None:
    """A quarter of its calls are those of two; of all calls few lack a line."""
    calls: list[Row] = []
    for held in [1] * 15 + [2] * 5:
        parent = len(calls)
        calls += [("hipStreamSynchronize", 5, None, 0), *[("barrier", None, parent, 0)] * held]
    twice = [n for n, row in enumerate(calls) if row[0] == "hipStreamSynchronize"][15:]
    others: list[Row] = [("hipFree", 5, None, int(Flag.SPAN_TOLD))] * 600
    sync = ("hipStreamSynchronize", None, None, int(Flag.EXIT_ONLY))
    assert opened([*calls, *others, *[HALF] * 10]) == []
    assert set(twice) < set(opened([*calls, *others, *[sync] * 10]))


@pytest.mark.parametrize(
    ("threads", "flag", "expected"), [
        ([1, 2], Flag.ENTER_ONLY, [0]), ([1, 1], Flag.ENTER_ONLY, []), ([1, 2], Flag.EXIT_ONLY, [0]),
        # The beginnings of threads, where others begin with an enter.
        ([4, 5], Flag.EXIT_ONLY, [0]), ([4, 4], Flag.EXIT_ONLY, []),
    ],
)  # fmt: skip
def test_a_call_over_a_place_where_two_threads_lost_lines_is_open(
    threads: list[int], flag: Flag, expected: list[int]
) -> None:
    """Of the halves of one thread no two can lack the other one at one place."""
    told = ("hipFree", 5, None, int(Flag.SPAN_TOLD))
    half = ("hipFree", None, None, int(flag))
    rows = [("hipSync", 100, None, 0), told, told, half, half, told, told, *[told] * 400]
    events = events_of([*rows, ("hipSync", 5, None, 0), ("dispatch", None, 0, 0)])
    owners = pl.Series([0, 1, 2, *threads, 1, 2, *[3] * 402], dtype=pl.UInt32)
    ends = pl.when(pl.col("event") == 0).then(55).otherwise("end_offset")
    events = events.with_columns(thread=owners, end_offset=ends)
    losses = pl.DataFrame({"file": [0], "lost": [0.001]}, schema_overrides={"file": pl.UInt16})
    after = with_false_calls_open(events, losses)
    lost = events["dur_ns"].is_not_null() & after["dur_ns"].is_null()
    assert lost.arg_true().to_list() == expected


def test_of_calls_that_tell_nothing_the_longest_are_open_where_many_lines_were_lost() -> None:
    calls: list[Row] = [("hipEventRecord", 5 + n, None, 0) for n in range(20)]
    assert opened(calls) == []
    halves = [("hipStreamQuery", 1, None, 0), ("hipStreamQuery", None, None, int(Flag.EXIT_ONLY))] * 50
    # 50 of 120 calls show one line, as where 26 % of the lines are lost: 2 * 0.26 ** 2 of 20 calls may be false.
    held = [("dispatch", None, n, 0) for n in range(20)]
    assert [n for n in opened([*calls, *held, *halves]) if n < 20] == [17, 18, 19]
    # What holds nothing cannot be told from a false one.
    assert [n for n in opened([*calls, *halves]) if n < 20] == list(range(20))
    some, few = ([("hipStreamQuery", 1, None, 0)] * count for count in (2000, 8000))
    assert [n for n in opened([*calls, *some, *halves]) if n < 20] == list(range(20))
    assert [n for n in opened([*calls, *few, *halves]) if n < 20] == []


def test_calls_that_take_a_queue_are_not_compared_with_those_that_make_one() -> None:
    """Of either kind one may be false; rows come in the order of their lines."""
    kinds = [(QUEUE_CREATED, 900)] * 5 + [(QUEUE_SELECTED, 5)] * 5
    calls: list[Row] = [("hipStreamCreate", dur + n, None, 0) for n, (_, dur) in enumerate(kinds)]
    held: list[Row] = [(name, None, n, 0) for n, (name, _) in enumerate(kinds)]
    halves = [("hipStreamQuery", 1, None, 0), ("hipStreamQuery", None, None, int(Flag.EXIT_ONLY))] * 20
    assert [n for n in opened([*calls, *held, *halves]) if n < 10] == [4, 9]


def test_a_call_that_holds_the_end_of_a_command_that_nothing_enqueued_is_open() -> None:
    rows: list[Row] = []
    for n in range(40):
        rows += [("hipSync", 5, None, 0), ("Ker", None, 3 * n, 0), ("complete", None, 3 * n, 0)]
    pointers = pl.Series([8 if n == 119 else 7 for n in range(120)], dtype=pl.UInt64)
    is_command = pl.col("layer") == "command"
    events = events_of(rows).with_columns(command=pl.when(is_command).then(7).cast(pl.UInt64))
    assert losses_of(events).is_empty()
    assert with_false_calls_open(events)["dur_ns"].drop_nulls().len() == 40
    # The last call enqueued another command than the one whose end it holds.
    torn = events.with_columns(command=pl.when(is_command).then(pointers))
    assert losses_of(torn).rows() == [(0, 0.025)]
    assert with_false_calls_open(torn)["dur_ns"].drop_nulls().len() == 39


@pytest.mark.parametrize(
    ("ended", "expected"), [
        (range(40), []), (set(range(40)) - {7}, [0]),
        # The last one may go on behind the end of the log.
        (range(39), []),
        # Kinds that show no end, or some of theirs only.
        ([], []), (range(0, 40, 2), []),
    ],
)  # fmt: skip
def test_a_command_that_lacks_its_end_where_others_show_it_shows_a_loss(ended: list[int], expected: list[int]) -> None:
    """All commands have the same pointer, one after the other."""
    rows: list[Row] = [WHOLE]
    for n in range(40):
        rows += [("Ker", None, None, 0), *([("complete", None, None, 0)] if n in ended else [])]
    is_command = pl.col("layer") == "command"
    events = events_of(rows).with_columns(command=pl.when(is_command).then(7).cast(pl.UInt64))
    assert losses_of(events)["file"].to_list() == expected


def test_calls_of_a_log_without_any_exit_hold_nothing() -> None:
    call = ("hipFree", None, None, int(Flag.ENTER_ONLY))
    for count in (4, 5):
        events = events_of([call] * count)
        assert losses_of(events).height == (count == 5)
        assert empty_calls(events) == [count == 5] * count


@pytest.mark.parametrize(("bare", "lost"), [(0, []), (1, [0.1]), (5, []), (10, [])])
def test_a_call_that_writes_a_packet_and_enqueues_no_command_shows_a_loss(bare: int, lost: list[float]) -> None:
    """Of ten calls; where half of them do, their commands are not shown."""
    call = {"file": 0, "name": "hipEventRecord", "layer": "hip", "parent": None, "end_offset": 9}
    events = pl.DataFrame([call] * 10, schema_overrides={"file": pl.UInt16})
    rows = [{"file": 0, "name": "x", "layer": layer, "parent": n} for n in range(10) for layer in ("command", "aql")]
    lines = pl.DataFrame(rows, schema_overrides={"file": pl.UInt16})
    packets, commands = lines.filter(pl.col("layer") == "aql"), lines.filter(pl.col("layer") == "command")[bare:]
    none = pl.DataFrame(schema={"file": pl.UInt16, "lost": pl.Float64})
    assert add_bare_calls(none, packets, commands, events)["lost"].to_list() == lost
    # The log ends in them.
    endless = events.with_columns(end_offset=pl.lit(None, pl.Int64))
    assert add_bare_calls(none, packets, commands, endless).is_empty()
    # What a thread that submits commands writes is in no call.
    outside = packets.with_columns(parent=pl.lit(None, pl.Int64))
    assert add_bare_calls(none, outside, commands[:0], events).is_empty()


@pytest.mark.parametrize(
    ("lines", "lost"), [
        ([("processing", 1), ("submitted", 1), ("processing", 2), ("submitted", 2)], None),
        pytest.param([("processing", 1), ("processing", 2), ("submitted", 2), ("processing", 3)], 0.5, id="none"),
        pytest.param([("processing", 1), ("submitted", 2)], 1.0, id="another one"),
        # A level, or a release, that prints one of them only.
        ([("processing", 1), ("processing", 2)], None),
    ],
)  # fmt: skip
def test_a_command_that_is_processed_and_not_submitted_shows_a_loss(
    lines: list[tuple[str, int]], lost: float | None
) -> None:
    commands = pl.DataFrame(
        [{"file": 0, "process": 0, "thread": 1, "offset": n, "end_offset": None, "name": name, "layer": "command",
          "command": command, "stream_id": None} for n, (name, command) in enumerate(lines)],
        schema_overrides={"file": pl.UInt16},
    )  # fmt: skip
    none = pl.DataFrame(schema={"file": pl.UInt16, "lost": pl.Float64})
    found = add_lost_enqueues(none, commands, commands, headless=True)
    assert found["lost"].to_list() == ([] if lost is None else [lost])
    # Another worker has commands of its own meanwhile, and another log may show none that is submitted.
    other = commands.with_columns(thread=pl.lit(2, pl.Int64), command=pl.col("command") + 10)
    silent = commands.filter(pl.col("name") == "processing").with_columns(file=pl.lit(1, pl.UInt16))
    both = pl.concat([commands, other]).sort("offset", maintain_order=True)
    found = add_lost_enqueues(none, pl.concat([both, silent]), both, headless=True)
    assert found.rows() == ([] if lost is None else [(0, lost)])


def test_open_calls_hold_nothing_where_lines_were_lost() -> None:
    call = ("hipFree", None, None, int(Flag.ENTER_ONLY))
    for rows, expected in (([call], [False]), ([call, WHOLE, WHOLE, HALF], [True, False, False, True])):
        events = events_of(rows)
        assert empty_calls(events) == expected


@pytest.mark.parametrize(("whole", "left"), [(4, 0), (8, 7)])
def test_where_few_calls_of_a_function_are_left_that_are_like_the_others_none_is_sure(whole: int, left: int) -> None:
    """One call in twenty lacks a line; three lack what the others hold, and the longest one may be two."""
    rows: list[Row] = [*[WHOLE] * 36, *[HALF] * 6, WHOLE]
    for n in range(whole + 3):
        rows += [("hipMake", 5, None, 0), *([("dispatch", None, len(rows), 0)] if n < whole else [])]
    made = [n for n, row in enumerate(rows) if row[0] == "hipMake"]
    assert len(made) - len(set(opened(rows)) & set(made)) == left


def test_a_count_of_queues_of_which_nothing_came_shows_a_loss() -> None:
    count, made = ("queue_allocated_count", None, None, 0), ("queue_created", None, None, 0)
    aql = pl.when(pl.col("name").cast(pl.String).str.starts_with("queue")).then(pl.lit("aql")).otherwise("layer")

    def lossy(rows: list[Row], **more: Any) -> list[int]:
        return losses_of(events_of(rows).with_columns(layer=aql.cast(CAT), **more))["file"].to_list()

    assert lossy([count, made] * 3 + [count, count, made]) == [0]
    assert lossy([count, made] * 3 + [count]) == []
    # The other one is another thread's; a log that shows counts alone does not print what came of them.
    thread = (pl.col("event") % 2).cast(pl.UInt32)
    assert lossy([count, count, made, made] * 3, thread=thread) == []
    assert lossy([count] * 9) == []


def test_the_last_call_of_a_function_that_lost_many_lines_holds_nothing_though_others_lost_few() -> None:
    rare, open_call = ("hipSync", 5, None, 0), (None, None, int(Flag.ENTER_ONLY))
    rows = [rare, ("hipSync", *open_call), *[WHOLE] * 200]
    assert empty_calls(events_of([*rows, ("hipSync", *open_call)]))[-1]
    assert not empty_calls(events_of([*rows, ("hipFree", *open_call)]))[-1]


def test_a_function_that_prints_no_exit_holds_what_follows_though_lines_were_lost() -> None:
    leaf = ("hipGetLastError", None, None, int(Flag.ENTER_ONLY))
    rows = [*[leaf] * 6, WHOLE, WHOLE, HALF]
    events = events_of(rows)
    assert empty_calls(events) == [False] * 8 + [True]
    # One exit shows that the others were lost.
    events = events_of([("hipGetLastError", None, None, int(Flag.EXIT_ONLY)), *rows])
    assert empty_calls(events) == [True] * 7 + [False] * 2 + [True]
