"""SYNTHETIC rows of traces that lost single records: which system calls are those of two."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from tracecorr.link.losses.false_syscalls import open_false_syscalls
from tracecorr.model.kinds import Flag
from tracecorr.model.schema import CAT

_TYPES = {
    "file": pl.UInt16, "thread": pl.UInt32, "source": CAT, "layer": CAT, "name": CAT, "flags": pl.UInt16,
    "parent": pl.Int64, "enclosing_call": pl.Int64, "err_lo_ns": pl.UInt32, "err_hi_ns": pl.UInt32,
    "process": pl.UInt32, "arg": pl.UInt64, "packet_index": pl.Int64, "clock": CAT,
}  # fmt: skip
CREATE, ALLOC = "AMDKFD_IOC_CREATE_QUEUE", "AMDKFD_IOC_ALLOC_MEMORY_OF_GPU"
MAP, DESTROY = "AMDKFD_IOC_MAP_MEMORY_TO_GPU", "AMDKFD_IOC_DESTROY_QUEUE"
NO_LINES = pl.DataFrame(schema={"thread": pl.UInt32, "at": pl.Int64})


def call(name: str, at: int, dur: int | None, flags: int = 0) -> dict[str, Any]:
    return {"name": name, "ts_ns": at, "dur_ns": dur, "flags": flags, "layer": "ioctl", "parent": None, "call": None}


def function(name: str, at: int, inside: int) -> dict[str, Any]:
    return {**call(name, at, 5), "layer": "kfd", "parent": inside, "call": inside}


# Calls of another thread: of so many, a false one is a small share.
OTHERS = [{**call("close", 10**6 + 100 * n, 20), "layer": "syscall", "thread": 9} for n in range(200)]


def parted(rows: list[dict[str, Any]], lines: pl.DataFrame = NO_LINES) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the events of rows, and what is left of them."""
    shared = {
        "file": 0, "thread": 1, "source": "ftrace", "err_lo_ns": 500, "err_hi_ns": 500, "process": 0, "arg": None,
        "packet_index": None, "clock": None,
    }  # fmt: skip
    events = pl.DataFrame(
        [{"event": n, "offset": 10 * n, **shared, **row, "enclosing_call": row["call"]} for n, row in enumerate(rows)],
        schema_overrides=_TYPES,
    )
    return events, open_false_syscalls(events, lines)


def opened(rows: list[dict[str, Any]], lines: pl.DataFrame = NO_LINES) -> tuple[list[int], list[int]]:
    """Return the calls that lost their end, and the functions that lost their call."""
    events, after = parted(rows, lines)
    ends, calls = (events[name].is_not_null() & after[name].is_null() for name in ("dur_ns", "enclosing_call"))
    assert (after["flags"].gather(ends.arg_true()) & int(Flag.ENTER_ONLY) > 0).all()
    assert after["parent"].equals(after["enclosing_call"])
    return ends.arg_true().to_list(), calls.arg_true().to_list()


@pytest.mark.parametrize(
    ("printed", "thread", "expected"),
    [(15_000, 1, [0]), (15_000, 2, []), (10_400, 1, []), (18_499, 1, [0]), (18_500, 1, []), (19_000, 1, []),
     (25_000, 1, [])],
)  # fmt: skip
def test_a_thread_prints_nothing_while_it_is_in_the_kernel(printed: int, thread: int, expected: list[int]) -> None:
    """Times within the errors, or of another thread, say nothing."""
    lines = pl.DataFrame({"thread": [thread], "at": [printed]}, schema_overrides={"thread": pl.UInt32})
    rows = [call(CREATE, 10_000, 10_000), call(ALLOC, 30_000, 10_000), *OTHERS]
    assert opened(rows, lines) == (expected, [])


def printed_at(*times: int) -> pl.DataFrame:
    return pl.DataFrame({"thread": [1] * len(times), "at": times}, schema=NO_LINES.schema)


def test_any_system_call_may_be_two_and_keeps_its_other_flags() -> None:
    rows = [
        {**call("futex", 10_000, 10_000, int(Flag.UNALIGNED)), "layer": "syscall"},
        {**call("read", 30_000, 10_000), "layer": "syscall", "flags": None}, call(ALLOC, 50_000, 10_000),
    ]  # fmt: skip
    after = parted([*rows, *OTHERS], printed_at(35_000, 15_000))[1].head(len(rows))
    assert after["dur_ns"].to_list() == [None, None, 10_000]
    assert after["flags"].to_list() == [Flag.UNALIGNED | Flag.ENTER_ONLY, Flag.ENTER_ONLY, 0]


def test_in_an_open_call_only_the_function_of_its_own_request_surely_ran() -> None:
    """The thread printed a line during the first call; the second one is whole."""
    rows = [
        call(CREATE, 10_000, 10_000), {**function("kfd_ioctl_create_queue", 11_000, 0), "dur_ns": 8_000},
        {**function("init_mqd", 12_000, 0), "layer": "mqd", "parent": 1, "dur_ns": 6_000},
        {**function("kfd_release", 18_000, 0), "layer": "mqd"},
        call(CREATE, 30_000, 10_000), function("kfd_ioctl_create_queue", 31_000, 4),
        {**function("init_mqd", 32_000, 4), "layer": "mqd"},
    ]  # fmt: skip
    after = parted([*rows, *OTHERS], printed_at(15_000))[1].head(len(rows))
    assert after["dur_ns"].to_list() == [None, 8_000, 6_000, 5, 10_000, 5, 5]
    assert after["enclosing_call"].to_list() == [None, 0, None, None, None, 4, 4]
    # A function in another one stays there.
    assert after["parent"].to_list() == [None, 0, 1, None, None, 4, 4]


def test_an_ioctl_whose_request_is_not_known_may_run_any_function() -> None:
    assert opened([call("ioctl", 10, 90), function("kfd_ioctl_create_queue", 50, 0)]) == ([], [])


def test_the_driver_runs_the_function_of_the_request() -> None:
    rows = [call(ALLOC, 10, 90), function("kfd_ioctl_create_queue", 50, 0), function("kfd_ioctl_svm", 60, 0)]
    assert opened(rows) == ([0], [1, 2])
    own = [call(CREATE, 10, 90), function("kfd_ioctl_create_queue", 50, 0), function("init_mqd", 60, 0)]
    assert opened(own) == ([], [])
    # That the thread printed a line meanwhile says the same.
    assert opened([call(ALLOC, 10_000, 10_000), function("kfd_create_queue", 12_000, 0)], printed_at(15_000)) == (
        [0],
        [1],
    )
    # Pages without the definitions of their probes name them as they were called.
    assert opened([call(CREATE, 10, 90), function("kfd_create_queue", 50, 0)]) == ([], [])
    assert opened([call(ALLOC, 10, 90), function("kfd_create_queue", 50, 0)]) == ([0], [1])
    assert opened([call(ALLOC, 10, 90), function("kfd_create_queue", 20, 0), *rows[1:]]) == ([0], [1, 2, 3])


def test_what_runs_in_the_function_of_a_request_is_no_second_one() -> None:
    """kfd_set_event runs in kfd_ioctl_set_event."""
    name = "AMDKFD_IOC_SET_EVENT"
    rows = [
        call(name, 10, 90), function("kfd_ioctl_set_event", 15, 0), function("kfd_set_event", 60, 0) | {"parent": 1},
        call(name, 200, 30),
    ]  # fmt: skip
    assert parted([*rows, *OTHERS])[1]["dur_ns"].head(4).to_list() == [90, 5, 5, 30]


@pytest.mark.parametrize(("at", "expected"), [(60, ([0], [2, 3])), (21, ([], []))])
def test_a_request_runs_its_function_once(at: int, expected: tuple[list[int], list[int]]) -> None:
    """Two probes may show one function: then its records are nearer to each other than a whole call is long."""
    rows = [
        call(CREATE, 10, 90), function("kfd_ioctl_create_queue", 15, 0), function("kfd_create_queue", at, 0),
        function("init_mqd", at + 5, 0), call(CREATE, 200, 30), function("kfd_create_queue", 215, 4),
    ]  # fmt: skip
    found = opened([*rows, *OTHERS])
    assert found == expected


def test_calls_that_are_surely_two_lack_an_exit_and_an_enter() -> None:
    """One of five calls is: any of the others may be two as well."""
    rows = [call(CREATE, 10_000 * n, 5_000) for n in range(1, 6)]
    assert opened(rows) == ([], [])
    assert opened(rows, printed_at(12_500)) == ([0, 1, 2, 3, 4], [])


@pytest.mark.parametrize(("others", "expected"), [(0, []), (1, [2, 3, 4])])
def test_a_thread_that_stores_to_a_doorbell_is_in_no_call(others: int, expected: list[int]) -> None:
    """A trace may begin and end in calls, but not in those behind and before which their threads stored."""
    store = {**call("doorbell", 50, None), "layer": "doorbell"}
    edges = [{**call("ioctl", 100, None, int(Flag.EXIT_ONLY)), "thread": 1},
             {**call(ALLOC, 900, None, int(Flag.ENTER_ONLY)), "thread": 2}]  # fmt: skip
    whole = [{**call(ALLOC, 300 + 100 * n, 10 + n), "thread": 3} for n in range(3)]
    stores = [{**store, "thread": 1}, {**store, "ts_ns": 950, "thread": 2}][: 2 * others]
    assert opened([*edges, *whole, *stores]) == (expected, [])


def test_where_single_records_are_missing_the_longest_calls_are_open() -> None:
    whole = [call(ALLOC, 100 * n, 10 + n % 7) for n in range(500)]
    enters = [call(ALLOC, 50_000 + n, None, int(Flag.ENTER_ONLY)) for n in range(15)]
    exits = [call("ioctl", 60_000 + n, None, int(Flag.EXIT_ONLY)) for n in range(15)]
    last = [call(ALLOC, 90_000, 5)]
    assert opened([*whole, call(ALLOC, 50_000, 90), *last]) == ([], [])
    assert opened([*whole, call(ALLOC, 50_000, 90), *enters, *exits, *last]) == ([500], [])
    # Where many are missing, nothing tells which.
    assert len(opened([*whole[:50], *enters, *exits, *last])[0]) == 51
    # A filter leaves out the enters, or the exits, of calls that it does not want.
    assert opened([*whole, call(ALLOC, 50_000, 90), *exits, *last]) == ([], [])
    assert opened([*whole, call(ALLOC, 50_000, 90), *enters, *last]) == ([], [])


def test_of_pages_of_several_cpus_one_may_show_enters_alone_and_another_one_exits() -> None:
    whole = [{**call(ALLOC, 100 * n, 10 + n % 7), "file": n % 2} for n in range(50)]
    enters = [call(ALLOC, 50_000 + n, None, int(Flag.ENTER_ONLY)) for n in range(5)]
    exits = [{**call("ioctl", 60_000 + n, None, int(Flag.EXIT_ONLY)), "file": 1} for n in range(5)]
    assert len(opened([*whole, *enters, *exits, call(ALLOC, 90_000, 5)])[0]) == 51


def test_other_flags_of_calls_do_not_hide_that_records_are_missing() -> None:
    whole = [call(ALLOC, 100 * n, 90 if n == 77 else 10 + n % 7, int(Flag.UNALIGNED)) for n in range(500)]
    lone = [
        call(name, 60_000 + n, None, int(flag))
        for n in range(15) for name, flag in ((ALLOC, Flag.ENTER_ONLY), ("ioctl", Flag.EXIT_ONLY))
    ]  # fmt: skip
    assert opened([*whole, *lone, call(ALLOC, 90_000, 5)]) == ([77], [])


def test_calls_of_which_one_event_alone_was_traced_lack_no_record() -> None:
    whole = [call(ALLOC, 100 * n, 10 + n % 7) for n in range(50)]
    halves = [
        {**call(name, 100 * n + 50, None, int(flag)), "layer": "syscall"}
        for n in range(40) for name, flag in (("read", Flag.ENTER_ONLY), ("write", Flag.EXIT_ONLY))
    ]  # fmt: skip
    assert opened([*halves, *whole]) == ([], [])


@pytest.mark.parametrize(("at_edge", "inside"), [(Flag.EXIT_ONLY, Flag.ENTER_ONLY), (Flag.ENTER_ONLY, Flag.EXIT_ONLY)])
def test_a_trace_begins_and_ends_in_calls_of_its_threads(at_edge: Flag, inside: Flag) -> None:
    rows = []
    for thread in range(12):
        whole = [call(ALLOC, 1000 * thread + 100 * n, 10) for n in range(1, 5)]
        edge = call(ALLOC, 1000 * thread + (0 if at_edge == Flag.EXIT_ONLY else 900), None, int(at_edge))
        ordered = [edge, *whole] if at_edge == Flag.EXIT_ONLY else [*whole, edge]
        rows += [{**row, "thread": thread} for row in ordered]
    # One record is missing: of which kind of calls one lacks its other one, none is two.
    rows.insert(2, {**call(ALLOC, 150, None, int(inside)), "thread": 0})
    assert opened(rows) == ([], [])


def test_of_few_calls_the_share_that_lacks_records_may_be_larger_than_seen() -> None:
    """4 halves of 60 calls: the share is 7 %, or up to 13 %, as where too many records are missing to tell."""
    whole = [call(ALLOC, 100 * n, 10 + n % 7) for n in range(56)]
    halves = [
        call(ALLOC, 10_000, None, int(Flag.ENTER_ONLY)), call(ALLOC, 11_000, None, int(Flag.ENTER_ONLY)),
        call("ioctl", 12_000, None, int(Flag.EXIT_ONLY)), call("ioctl", 13_000, None, int(Flag.EXIT_ONLY)),
    ]  # fmt: skip
    assert len(opened([*whole, *halves, call(ALLOC, 90_000, 5)])[0]) == 57


@pytest.mark.parametrize(
    ("following", "length", "expected"), [
        (DESTROY, 30, [24]), (DESTROY, 15, [24]), (MAP, 30, []),
        pytest.param(DESTROY, 11, [], id="too short for both"),
        pytest.param(CREATE, 30, [], id="what never follows a mapping"),
    ],
)  # fmt: skip
def test_a_request_that_lacks_the_one_that_follows_it_may_be_both(
    following: str, length: int, expected: list[int]
) -> None:
    """No record shows that others are missing: the exit of the one and the enter of the other are side by side."""
    rows = [call(name, 100 * n, dur) for n in range(12) for name, dur in ((ALLOC, 10), (MAP, 5), (DESTROY, 1))]
    for n, row in enumerate(rows):
        row["ts_ns"] += 20 * (n % 3)
    assert opened(rows) == ([], [])
    assert opened([*rows[:24], call(ALLOC, 800, length), call(following, 840, 5), *rows[27:]]) == (expected, [])


@pytest.mark.parametrize(
    ("last", "length", "pairs", "ends_at", "expected"), [
        pytest.param(MAP, 30, 12, 2000, True, id="another thread ends so"),
        pytest.param(MAP, 9, 12, 2000, False, id="too short for both"),
        pytest.param(MAP, 15, 12, 1220, False, id="the trace may end before the next one"),
        pytest.param(MAP, 30, 12, 1230, True, id="it lasts much longer than all others"),
        pytest.param(DESTROY, 30, 12, 2000, False, id="no thread ends so"),
        pytest.param(MAP, 30, 7, 2000, False, id="of few"),
    ],
)  # fmt: skip
def test_the_last_request_of_a_thread_may_be_the_one_that_lacks_behind_it_too(
    last: str, length: int, pairs: int, ends_at: int, expected: bool
) -> None:
    rows = [call(name, 100 * n + at, dur) for n in range(pairs) for name, at, dur in ((ALLOC, 0, 10), (MAP, 20, 5))]
    other = [{**call(name, at, 5), "thread": 2} for name, at in ((ALLOC, 10), (MAP, 30), (last, 50))]
    rows = [*rows, *other, {**call("close", ends_at, 1), "layer": "syscall"}, call(ALLOC, 1200, length)]
    assert opened(rows) == ([len(rows) - 1] if expected else [], [])


@pytest.mark.parametrize(
    ("lines", "expected"), [
        pytest.param([203_200], True, id="no room for the next one"),
        pytest.param([204_000], False, id="room for the next one"),
        pytest.param([], False, id="no line behind it"),
        pytest.param([2_000, 203_200], False, id="others print between the two"),
        pytest.param([7_000, 203_200], True, id="others print behind both"),
    ],
)  # fmt: skip
def test_a_line_leaves_no_room_for_the_next_request_at_the_end_of_a_trace(lines: list[int], expected: bool) -> None:
    """It may come up to 500 ns earlier, and the line is up to 1 us later than it tells: 2 us are enough for a mapping.

    Another thread's last request is a mapping.
    """
    pairs = [
        call(name, 10_000 * n + at, dur) for n in range(12) for name, at, dur in ((ALLOC, 0, 10), (MAP, 4000, 2000))
    ]
    other = [{**call(name, at, 2000), "thread": 2} for name, at in ((ALLOC, 10), (MAP, 4000))]
    rows = [*pairs, *other, call(ALLOC, 200_000, 3000)]
    assert opened(rows, printed_at(*lines)) == ([len(rows) - 1] if expected else [], [])


def test_what_other_threads_ask_and_other_calls_do_not_come_between_two_requests() -> None:
    rows = [call(name, 100 * n, dur) for n in range(12) for name, dur in ((ALLOC, 10), (MAP, 5), (DESTROY, 1))]
    for n, row in enumerate(rows):
        row["ts_ns"] += 20 * (n % 3)
    rows = [*rows[:24], call(ALLOC, 800, 30), call(DESTROY, 840, 5), *rows[27:]]
    mixed = []
    for row in rows:
        at = row["ts_ns"] + row["dur_ns"]
        mixed += [row, {**call("futex", at, 1), "layer": "syscall"}, {**call(DESTROY, at + 1, 1), "thread": 2}]
    assert opened(mixed) == ([72], [])


@pytest.mark.parametrize(
    "followers", [
        pytest.param([MAP, DESTROY] * 20, id="two come as often"),
        pytest.param([ALLOC] * 40, id="one that repeats itself ends at some time"),
    ],
)  # fmt: skip
def test_a_request_that_no_other_one_follows_as_a_rule_is_whole(followers: list[str]) -> None:
    last = [CREATE] if ALLOC not in followers else []
    pairs = [row for name in followers for row in ((ALLOC, 10), (name, 5), *((other, 1) for other in last))]
    rows = [call(name, 100 * n, dur) for n, (name, dur) in enumerate([*pairs, (ALLOC, 90), (CREATE, 5), (MAP, 5)])]
    assert opened(rows) == ([], [])


@pytest.mark.parametrize(("thread", "expected"), [(3, [6]), (2, [])])
def test_a_call_over_a_place_where_two_threads_lost_the_records_before_is_open(
    thread: int, expected: list[int]
) -> None:
    """Both threads show calls up to 400, and behind them lone exits at 900; lines of the log fill no gap."""
    lone = int(Flag.EXIT_ONLY)
    before = [{**call(ALLOC, 100 + n, 300), "thread": 2 + n} for n in range(2)]
    within = [{**function("svm_range_add", 150, n), "thread": 2 + n} for n in range(2)]
    log = [{**call("line", 600, None), "source": "amd_log", "layer": "command", "thread": n} for n in (2, 3)]
    exits = [{**call("ioctl", 900 + n, None, lone), "thread": number} for n, number in enumerate((2, thread))]
    whole = [call(CREATE, 5000 + 10 * n, 5) for n in range(3000)]
    alone = [{**call(CREATE, 90_000, None, int(Flag.ENTER_ONLY)), "thread": 4}, {**call(ALLOC, 90_500, 5), "thread": 4}]
    rows = [*before, *within, *log, call(CREATE, 450, 100), call(CREATE, 120, 100), *exits, *whole, *alone]
    assert opened(rows) == (expected, [])


@pytest.mark.parametrize(("thread", "expected"), [(3, [4]), (2, [])])
def test_a_call_over_a_place_where_two_threads_lost_records_is_open(thread: int, expected: list[int]) -> None:
    """Of the calls of one thread that lack their exits no two can be at one place."""
    lone = int(Flag.ENTER_ONLY)
    begun = [{**call(CREATE, 100, None, lone), "thread": 2}, {**call(CREATE, 200, None, lone), "thread": thread}]
    ends = [{**call(ALLOC, 900, 5), "thread": 2}, {**call(ALLOC, 901, 5), "thread": 3}]
    whole = [call(CREATE, 1000 + 10 * n, 5) for n in range(40)]
    # Others last as long.
    rows = [*begun, *ends, call(CREATE, 50, 700), call(CREATE, 910, 5), *whole, call(CREATE, 2000, 600)]
    assert opened(rows) == (expected, [])


@pytest.mark.parametrize(("lasts", "thread", "expected"), [(700, 2, [5]), (30, 2, []), (700, 1, [])])
@pytest.mark.parametrize("flags", [Flag.ENTER_ONLY, Flag.EXIT_ONLY])
def test_a_call_much_longer_than_all_others_over_a_place_where_another_thread_lost_a_record_is_open(
    flags: Flag, lasts: int, thread: int, expected: list[int]
) -> None:
    half = {**call(ALLOC, 500, None, int(flags)), "thread": thread}
    around = [{**call(ALLOC, at, 5), "thread": thread} for at in (40, 450, 545, 900)]
    whole = [call(CREATE, 1000 + 30 * n, 20 + n % 5) for n in range(20)]
    rows = [half, *around, call(CREATE, 500 - lasts // 2, lasts), *whole]
    assert opened(rows) == (expected, [])


def stores(*indexes: int, at: int, doorbell: int = 1) -> list[dict[str, Any]]:
    """Return stores of these indexes to a doorbell by thread 2, one each 10 ns."""
    made = {**call("doorbell", 0, None), "layer": "doorbell", "thread": 2, "arg": doorbell}
    return [{**made, "ts_ns": at + 10 * n, "packet_index": index} for n, index in enumerate(indexes)]


def of_log(name: str, layer: str, at: int, dur: int | None = None) -> dict[str, Any]:
    return {**call(name, at, dur), "layer": layer, "source": "amd_log", "thread": 3, "clock": "mono"}


LONG = call(CREATE, 500, 300)
CREATIONS = [call(CREATE, 2000 + 100 * n, 20) for n in range(5)]
HIP = of_log("hipSetDevice", "hip", 10, 5)
LAUNCHES = [of_log("hipLaunchKernel", "hip", 600 + 10 * n, 5) for n in range(5)]
NAMELESS = [{**row, "process": None, "thread": None} for row in LAUNCHES]
OTHERS_STORES = [{**row, "process": 1} for row in stores(0, 1, 2, at=3000, doorbell=2)]
BOTH_LACK = [
    row for bell in (1, 2) for at, *of in ((400, 0, 1), (900, 4, 5)) for row in stores(*of, at=at, doorbell=bell)
]
# Its enter was lost, long behind the long call.
LONE = call(CREATE, 2950, None, int(Flag.EXIT_ONLY))


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        pytest.param([], [], id="a long call alone"),
        pytest.param([*stores(0, 1, at=400), *stores(4, 5, at=900), HIP], [0], id="indexes that lack"),
        pytest.param([*stores(0, 1, at=400), *stores(4, 5, at=900)], [], id="whose process no log tells"),
        pytest.param(BOTH_LACK, [0], id="of two doorbells, whose process no log tells"),
        pytest.param([*BOTH_LACK, *stores(0, 2, at=3000, doorbell=3)], [], id="as graphs do again and again"),
        pytest.param([*stores(0, 1, at=400), *stores(2, 3, at=900), HIP], [], id="none lacks"),
        pytest.param([*stores(0, 2, 1, at=400), *stores(3, at=900), HIP], [], id="out of order"),
        pytest.param([*stores(0, 4, at=300), *stores(5, at=900), HIP], [], id="at another time"),
        pytest.param([*stores(7, 8, at=400), *stores(0, 1, at=3000), HIP], [], id="of the next queue"),
        pytest.param(
            [*stores(0, at=400), *stores(4, at=900), HIP, of_log("hipGraphLaunch", "hip", 600, 100)], [],
            id="of a graph",
        ),
        pytest.param(
            [*stores(0, 1, 2, 3, 4, at=3000), *(of_log("dispatch", "aql", 600 + n) for n in range(5))], [0],
            id="packets without stores",
        ),
        pytest.param(
            [*stores(0, 1, at=400), *(of_log("dispatch", "aql", 600 + n) for n in range(5))], [],
            id="packets of a process that hardly shows stores",
        ),
        pytest.param(
            [
                *stores(0, 1, 2, 3, 4, at=3000), *stores(5, at=650),
                *(of_log("dispatch", "aql", 600 + n) for n in range(5)),
            ], [], id="a store among packets",
        ),
        pytest.param(
            [
                *stores(*range(10), at=3000), *stores(10, at=650),
                *(of_log("dispatch", "aql", 600 + n) for n in range(10)),
            ], [0], id="a store among many packets",
        ),
        pytest.param(
            [*stores(0, 1, 2, 3, 4, at=3000), *LAUNCHES], [], id="launches in a trace that lacks no record",
        ),
        pytest.param(
            [*stores(0, 1, 2, 3, 4, at=3000), *LAUNCHES, LONE], [0], id="launches at a level without packets",
        ),
        pytest.param(
            [*stores(0, 1, 2, 3, 4, at=3000), *LAUNCHES, LONE, of_log("dispatch", "aql", 4000)], [],
            id="launches beside packets",
        ),
        pytest.param(
            [*stores(0, 1, 2, 3, 4, at=3000), *NAMELESS, LONE], [0], id="launches of a log without processes",
        ),
        pytest.param(
            [*stores(0, 1, 2, at=3000), *OTHERS_STORES, *NAMELESS, LONE], [], id="of one of two processes",
        ),
    ],
)  # fmt: skip
def test_a_long_call_over_a_place_where_stores_lack_is_open(rows: list[dict[str, Any]], expected: list[int]) -> None:
    assert opened([LONG, *CREATIONS, *rows]) == (expected, [])


@pytest.mark.parametrize(("file", "expected"), [(0, [0]), (1, [])])
def test_stores_of_all_cpus_are_those_of_one_doorbell(file: int, expected: list[int]) -> None:
    """Each CPU has pages of its own; of which a store lacks is not known where those beside it are of two."""
    near = [*stores(0, at=400), *stores(1, 2, at=420), *stores(3, at=450), *stores(7, at=900)]
    near = [{**row, "file": file if n in (1, 2, 4) else 0} for n, row in enumerate(near)]
    assert opened([LONG, *CREATIONS, *near, HIP]) == (expected, [])


def test_a_call_over_a_place_where_stores_to_two_doorbells_lack_is_open() -> None:
    lacking = [
        row for bell in (1, 2) for row in (*stores(0, 1, at=400, doorbell=bell), *stores(4, at=900, doorbell=bell))
    ]
    # Another call lasts as long.
    whole = [call(CREATE, 2000, 300), *CREATIONS[1:]]
    assert opened([LONG, *whole, *lacking, HIP]) == ([0], [])


@pytest.mark.parametrize(
    ("lacking", "unprinted", "thread", "expected"), [
        pytest.param((10, 20, 30, 35), (), 2, [0, 1, 2, 3, 4], id="single ones"),
        pytest.param((10, 11, 12, 13), (), 2, [], id="a piece"),
        pytest.param((10, 20, 30, 35), (9, 19, 29, 34), 2, [], id="as many packets"),
        pytest.param((10, 20, 30, 35), (), 3, [], id="of threads that the trace does not show"),
    ],
)  # fmt: skip
def test_where_single_stores_lack_any_call_may_be_two(
    lacking: tuple[int, ...], unprinted: tuple[int, ...], thread: int, expected: list[int]
) -> None:
    """No call lacks its enter or its exit; the others of their name last as long."""
    stored = [row for row in stores(*range(41), at=3000) if row["packet_index"] not in lacking]
    packets = [of_log("dispatch", "aql", 3000 + 10 * n) for n in range(41) if n not in unprinted]
    rows = [*CREATIONS, *stored, *({**row, "thread": thread} for row in packets), HIP]
    assert opened(rows) == (expected, [])
