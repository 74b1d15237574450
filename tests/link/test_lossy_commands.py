"""SYNTHETIC rows of logs that lost lines: which commands are sure, and what their ends show of losses."""

from __future__ import annotations

import polars as pl
import pytest
from lost_lines import WHOLE, Row, events_of, losses_of

from tracecorr.link.packets.commands import match_completions
from tracecorr.link.packets.sure_commands import drop_late, keep_sure_commands
from tracecorr.model.kinds import COMMAND_MENTIONS, SUBMITTED, Flag
from tracecorr.model.schema import CAT


def commands_of(lines: list[tuple[str, int | None]], **more: pl.Expr) -> pl.DataFrame:
    """Return a whole call, and lines that name a pointer."""
    pointers = pl.Series([None, *(pointer for _, pointer in lines)], dtype=pl.UInt64)
    events = events_of([WHOLE, *((name, None, None, 0) for name, _ in lines)])
    return events.with_columns(command=pointers, **more)


_ENDED = [("Ker", 7), ("complete", 7)]


@pytest.mark.parametrize("missing", [{7, 8, 9}, set(range(40))])
def test_a_kind_of_commands_that_lacks_more_ends_does_not_show_them_as_a_rule(missing: set[int]) -> None:
    lines = [line for n in range(40) for line in _ENDED if n not in missing or line[0] == "Ker"]
    assert losses_of(commands_of(lines)).is_empty()


@pytest.mark.parametrize(
    "lines", [
        pytest.param([*_ENDED * 30, ("Ker", 7), ("Ker", 8), ("complete", 7), ("complete", 8)], id="two pointers"),
        pytest.param([*_ENDED * 30, ("barrier kind", 7), *_ENDED * 30], id="another kind that shows no end"),
        pytest.param([*_ENDED * 30, ("Ker", None), ("Ker", None), *_ENDED], id="lines that name no pointer"),
        pytest.param([*_ENDED * 30, ("Ker", 7), ("dispatch", 7), ("complete", 7), *_ENDED], id="its packet"),
        pytest.param([*_ENDED * 9, ("Ker", 7), *_ENDED, *(("Ker", n) for n in range(10, 40))],
                     id="pointers that come into use only once tell nothing"),
        *(pytest.param([*_ENDED * 30, ("Ker", 7), (name, 7), ("complete", 7), *_ENDED], id=name)
          for name in (*COMMAND_MENTIONS, SUBMITTED)),
    ],
)  # fmt: skip
def test_a_log_that_shows_the_end_of_each_command_lost_nothing(lines: list[tuple[str, int | None]]) -> None:
    is_line = pl.col("name").is_in(["Ker", "complete", "barrier kind", "dispatch", *COMMAND_MENTIONS, SUBMITTED])
    layer = pl.when(pl.col("name") == "dispatch").then(pl.lit("aql")).when(is_line).then(pl.lit("command"))
    assert losses_of(commands_of(lines, layer=layer.otherwise("layer").cast(CAT))).is_empty()


def test_commands_of_two_processes_may_have_one_pointer() -> None:
    lines = [("Ker", 7), ("Ker", 7), ("complete", 7), ("complete", 7), *_ENDED * 30]
    in_turns = pl.when(pl.col("event") <= 4).then(pl.col("event") % 2).otherwise(0)
    assert losses_of(commands_of(lines, process=in_turns)).is_empty()
    assert losses_of(commands_of(lines))["lost"].to_list() == [1 / 32]


@pytest.mark.parametrize(("ends", "lost"), [(13, [13 / 33]), (31, [])])
def test_a_log_that_begins_in_the_middle_of_a_run_lacks_the_lines_before(ends: int, lost: list[float]) -> None:
    """Most of the commands that end were enqueued before it."""
    events = commands_of([*(("complete", n) for n in range(100, 100 + ends)), *_ENDED * 20])
    assert losses_of(events)["lost"].to_list() == lost
    # What another log shows changes nothing.
    other = commands_of(_ENDED * 50, file=pl.lit(1, pl.UInt16), process=pl.lit(1), event=pl.col("event") + 1000)
    both = losses_of(pl.concat([events.cast({"event": pl.Int64}), other.select(events.columns).cast(events.schema)]))
    assert both["lost"].to_list() == lost


@pytest.mark.parametrize("name", [*COMMAND_MENTIONS, SUBMITTED])
def test_a_line_that_only_mentions_a_command_enqueues_none(name: str) -> None:
    layer = pl.when(pl.col("event") > 0).then(pl.lit("command")).otherwise("layer").cast(CAT)
    events = commands_of([*_ENDED * 9, (name, 7), ("complete", 7)], layer=layer)
    assert losses_of(events)["lost"].to_list() == [0.1]


@pytest.mark.parametrize(
    ("lost", "pointers", "expected"), [(0.3, [7, 8], []), (0.01, [7, 8], [1]), (0.3, [7, 8, 7], [1])]
)
def test_where_no_pointer_is_seen_twice_none_is_known_to_be_still_the_same(
    lost: float, pointers: list[int], expected: list[int]
) -> None:
    """The last pointer's use is asked for, which nothing follows."""
    times = range(10, 10 * len(pointers) + 10, 10)
    uses = pl.DataFrame({"process": [0] * len(pointers), "command": pointers, "ts_ns": times})
    asked = {"event": [1], "file": [0], "process": [0], "enqueue_ns": [10 * len(pointers)], "complete_ns": [99]}
    found = pl.DataFrame(asked, schema_overrides={"file": pl.UInt16})
    losses = pl.DataFrame({"file": [0], "lost": [lost]}, schema_overrides={"file": pl.UInt16})
    assert drop_late(found, uses, losses, "complete_ns")["event"].to_list() == expected


def test_a_completion_in_another_log_is_of_another_process_with_the_same_pid() -> None:
    row = {"process": 0, "thread": 1, "command": 7, "stream_id": None}
    commands = pl.DataFrame(
        [{"event": 0, "file": 0, "ts_ns": 10, "name": "Ker", **row},
         {"event": 2, "file": 1, "ts_ns": 30, "name": "complete", **row}],
        schema_overrides={"file": pl.UInt16},
    )  # fmt: skip
    packet = {"event": 1, "file": 0, "process": 0, "command": 7, "ts_ns": 20, "enqueue_ns": 10, "command_stream": None,
              "kind": "Ker", "name": "dispatch"}  # fmt: skip
    launches = pl.DataFrame([packet], schema_overrides={"file": pl.UInt16})
    none = pl.DataFrame(schema={"file": pl.UInt16, "lost": pl.Float64})
    logs = pl.DataFrame({"file": [0, 1], "log": [0, 1]}, schema={"file": pl.UInt16, "log": pl.UInt16})
    assert match_completions(launches, commands, none, logs).is_empty()
    # But not in the next file of the same log.
    one = logs.with_columns(log=pl.lit(0, pl.UInt16))
    assert match_completions(launches, commands, none, one)["complete_event"].to_list() == [2]
    commands = commands.with_columns(file=pl.lit(0, pl.UInt16))
    assert match_completions(launches, commands, none, logs)["complete_event"].to_list() == [2]


def test_the_command_of_a_graph_launch_is_no_next_use_of_its_own_pointer() -> None:
    """It is printed behind its packets."""
    row = {"file": 0, "process": 0, "thread": 1, "command": 7, "stream_id": None}
    names = [("Task", 10), ("complete", 30), ("Task", 30), ("complete", 50)]
    lines = [{"event": 5 + n, "ts_ns": at, "name": kind, **row} for n, (kind, at) in enumerate(names)]
    packet = {"event": 1, "file": 0, "process": 0, "name": "dispatch", "command": 7, "kind": "Task", "ts_ns": 4,
              "enqueue_ns": 10, "command_stream": None}  # fmt: skip
    file = {"file": pl.UInt16}
    none = pl.DataFrame(schema={**file, "lost": pl.Float64})
    logs = pl.DataFrame({"file": [0], "log": [0]}, schema={**file, "log": pl.UInt16})
    commands, launches = (pl.DataFrame(rows, schema_overrides=file) for rows in (lines, [packet]))
    assert match_completions(launches, commands, none, logs)["complete_event"].to_list() == [6]


@pytest.mark.parametrize(
    ("name", "lost", "expected"), [("barrier_and", 0.0, [8]), ("barrier_and", 0.1, []), ("dispatch", 0.0, [])]
)
def test_a_barrier_may_be_complete_before_its_line(name: str, lost: float, expected: list[int]) -> None:
    """It is printed after its store (recorded captures); what ended with the enqueue's stamp was the use before."""
    row = {"file": 0, "process": 0, "thread": 1, "command": 7, "stream_id": None}
    names = [("Marker", 10), ("complete", 20), ("Marker", 20), ("complete", 30)]
    lines = [{"event": 5 + n, "ts_ns": at, "name": kind, **row} for n, (kind, at) in enumerate(names)]
    commands = pl.DataFrame(lines, schema_overrides={"file": pl.UInt16})
    packet = {"event": 1, "file": 0, "process": 0, "name": name, "command": 7, "kind": "Marker", "ts_ns": 40,
              "enqueue_ns": 20, "command_stream": None}  # fmt: skip
    launches = pl.DataFrame([packet], schema_overrides={"file": pl.UInt16})
    losses = pl.DataFrame({"file": [0], "lost": [lost]}, schema_overrides={"file": pl.UInt16})
    logs = pl.DataFrame({"file": [0], "log": [0]}, schema={"file": pl.UInt16, "log": pl.UInt16})
    assert match_completions(launches, commands, losses, logs)["complete_event"].to_list() == expected


@pytest.mark.parametrize(("ended", "lossy", "expected"), [(1, True, []), (1, False, [0]), (3, True, [0, 1, 2])])
def test_an_end_of_a_kind_of_commands_that_shows_none_is_of_the_pointers_next_use(
    ended: int, lossy: bool, expected: list[int]
) -> None:
    row = {"file": 0, "process": 0, "thread": 1, "stream_id": None}
    uses = [{"event": 100 + n, "command": n, "ts_ns": 10 * n, "name": "Ker", **row} for n in range(40)]
    ends = [{"event": 200 + n, "command": n, "ts_ns": 900 + n, "name": "complete", **row} for n in range(ended)]
    commands = pl.DataFrame([*uses, *ends], schema_overrides={"file": pl.UInt16})
    packet = {"file": 0, "process": 0, "kind": "Ker", "name": "dispatch", "command_stream": None}
    launches = pl.DataFrame(
        [{"event": n, "command": n, "ts_ns": 10 * n + 1, "enqueue_ns": 10 * n, **packet} for n in range(40)],
        schema_overrides={"file": pl.UInt16},
    )
    losses = pl.DataFrame({"file": [0], "lost": [0.0]}, schema_overrides={"file": pl.UInt16})
    logs = pl.DataFrame({"file": [0], "log": [0]}, schema={"file": pl.UInt16, "log": pl.UInt16})
    found = match_completions(launches, commands, losses if lossy else losses.clear(), logs)
    assert sorted(found["event"]) == expected


@pytest.mark.parametrize(("lost", "expected"), [(None, [0, 1]), (0.0, [0, 1]), (1e-9, [1]), (0.001, [1])])
def test_ends_out_of_order_are_left_out_where_lines_lack(lost: float | None, expected: list[int]) -> None:
    """The event thread of HIP ends batches of a stream out of order; where lines were lost an end may be another's."""
    row = {"file": 0, "process": 0, "thread": 1, "stream_id": 7}
    uses = [{"event": 10 + n, "command": n, "ts_ns": 10 * n, "name": "Ker", **row} for n in range(2)]
    ends = [{"event": 20 + n, "command": n, "ts_ns": 90 - 10 * n, "name": "complete", **row} for n in range(2)]
    commands = pl.DataFrame([*uses, *ends], schema_overrides={"file": pl.UInt16}).sort("ts_ns")
    packet = {"file": 0, "process": 0, "kind": "Ker", "name": "dispatch", "command_stream": 7}
    launches = pl.DataFrame(
        [{"event": n, "command": n, "ts_ns": 10 * n + 1, "enqueue_ns": 10 * n, **packet} for n in range(2)],
        schema_overrides={"file": pl.UInt16},
    )
    losses = pl.DataFrame({"file": [0], "lost": [lost]}, schema={"file": pl.UInt16, "lost": pl.Float64}).drop_nulls()
    logs = pl.DataFrame({"file": [0], "log": [0]}, schema={"file": pl.UInt16, "log": pl.UInt16})
    assert sorted(match_completions(launches, commands, losses, logs)["event"]) == expected


def sure(rows: list[Row], indexes: dict[int, int], pairs: list[tuple[int, int]], *, lossy: bool = True) -> list[int]:
    """Return the packets whose command is sure; `indexes` holds those of the packets, `pairs` packet and command."""
    events = events_of(rows).with_columns(command=pl.when(pl.col("layer") == "command").then(1).cast(pl.UInt64))
    packets = pl.DataFrame({"event": list(indexes), "packet_index": list(indexes.values())})
    launches = packets.join(events, on="event").with_columns(queue=pl.lit(0, pl.UInt32))
    found = pl.DataFrame(pairs, schema={"event": pl.Int64, "command_event": pl.Int64}, orient="row")
    found = found.with_columns(command_stream=pl.lit(0, pl.UInt32))
    losses = pl.DataFrame({"file": [0] if lossy else [], "lost": [0.1] if lossy else []},
                          schema={"file": pl.UInt16, "lost": pl.Float64})  # fmt: skip
    return keep_sure_commands(found, launches, events, losses, launches.clear())["event"].to_list()


def test_a_packet_behind_a_lost_one_is_of_no_sure_command() -> None:
    rows: list[Row] = [
        ("hipEventRecord", 5, None, 0), ("KernelExecution", None, 0, 0), ("dispatch", None, 0, 0),
        ("hipEventRecord", 5, None, 0), ("KernelExecution", None, 3, 0), ("dispatch", None, 3, 0),
    ]  # fmt: skip
    pairs = [(2, 1), (5, 4)]
    assert sure(rows, {2: 0, 5: 1}, pairs) == [2, 5]
    assert sure(rows, {2: 0, 5: 2}, pairs) == [2]
    assert sure(rows, {2: 0, 5: 2}, pairs, lossy=False) == [2, 5]
    told = [(*row[:3], int(Flag.SPAN_TOLD) if row[0].startswith("hip") else 0) for row in rows]
    assert sure(told, {2: 0, 5: 2}, pairs) == [2, 5]


def test_behind_a_kernels_dispatch_comes_the_next_command() -> None:
    rows: list[Row] = [
        ("KernelExecution", None, None, 0), ("dispatch", None, None, 0), ("barrier_and", None, None, 0),
        ("dispatch", None, None, 0),
    ]  # fmt: skip
    assert sure(rows, {1: 0, 2: 1, 3: 2}, [(1, 0), (2, 0), (3, 0)]) == [1]
