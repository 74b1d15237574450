"""SYNTHETIC rows of logs that lost lines: which packet is surely its command's, and has its kernel's name."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from tracecorr.link.packets.sure_commands import drop_late, keep_sure_commands, list_unsure_kernels
from tracecorr.model.kinds import Flag
from tracecorr.model.schema import CAT

_TYPES = {
    "layer": CAT, "name": CAT, "flags": pl.UInt16, "parent": pl.Int64, "file": pl.UInt16, "thread": pl.UInt32,
    "process": pl.UInt32, "queue": pl.UInt32, "packet_index": pl.Int64, "command": pl.UInt64, "stream": pl.UInt32,
    "command_event": pl.Int64,
}  # fmt: skip
_ROW: dict[str, Any] = {
    "layer": "aql", "name": "dispatch", "flags": 0, "parent": None, "file": 0, "thread": 0, "process": 0, "queue": 0,
    "packet_index": None, "command": None, "stream": 0, "command_event": None, "graph": False,
}  # fmt: skip


def frame(rows: list[dict[str, Any]]) -> pl.DataFrame:
    made = [{"event": n, "offset": 10 * n, **_ROW, **row} for n, row in enumerate(rows)]
    return pl.DataFrame(made, schema_overrides=_TYPES)


def losses(*lost: float) -> pl.DataFrame:
    return pl.DataFrame({"file": range(len(lost)), "lost": lost}, schema={"file": pl.UInt16, "lost": pl.Float64})


def call(thread: int = 0, *, told: bool = False, name: str = "hipLaunchKernel") -> dict[str, Any]:
    return {"layer": "hip", "name": name, "thread": thread, "flags": int(Flag.SPAN_TOLD if told else Flag.CUT)}


def command(pointer: int, **more: Any) -> dict[str, Any]:
    return {"layer": "command", "name": "KernelExecution", "command": pointer, **more}


def packet(index: int | None, of: int | None, **more: Any) -> dict[str, Any]:
    """Return a dispatch, and the number of the row of its command."""
    return {"packet_index": index, "command_event": of, **more}


def sure(rows: list[dict[str, Any]], lost: float = 0.1, rung: tuple[int, ...] = ()) -> list[int]:
    """Return the packets that keep their command; before those in `rung` packets lack, as doorbell stores show."""
    events = frame(rows)
    launches = events.filter(pl.col("layer").is_in(["aql", "copy"]))
    found = launches.select("event", "command_event", command_stream="stream").drop_nulls("command_event")
    lacking = events.filter(pl.col("event").is_in(rung)).select("event", "file", "thread", "offset")
    return sorted(keep_sure_commands(found.reverse(), launches, events, losses(lost), lacking)["event"])


def test_a_packet_outside_of_calls_is_sure_only_for_a_thread_that_makes_none() -> None:
    caller = [call(0), command(1, thread=0), packet(0, 1, thread=0)]
    assert sure([*caller, command(2, thread=1), packet(1, 3, thread=1)]) == [4]


def test_behind_a_store_of_a_packet_that_lacks_only_a_call_that_tells_its_duration_is_sure() -> None:
    workers = [command(1, thread=1), packet(0, 0, thread=1)]
    assert sure(workers, rung=(1,)) == []
    told = [call(told=True), command(1), packet(0, 1, parent=0)]
    assert sure(told, rung=(2,)) == [2]
    assert sure([call(), *told[1:]], rung=(2,)) == []


@pytest.mark.parametrize("name", ["processing", "submitted"])
def test_a_worker_says_which_command_it_begins(name: str) -> None:
    """The `submitted` line of the next command was lost: its packet stands behind that of the first one."""
    begun = command(1, name=name, thread=1)
    other = command(2, name=name, thread=2)
    assert sure([command(1, thread=1), begun, other, packet(0, 0, thread=1)]) == [3]
    assert sure([command(2, thread=1), begun, other, packet(0, 0, thread=1)]) == []
    # The line of the command itself says nothing of another one.
    assert sure([begun, command(2, thread=1), packet(0, 1, thread=1)]) == []
    assert sure([command(1, name="queue_marker", thread=1), command(2, thread=1), packet(0, 1, thread=1)]) == [2]


def test_each_command_may_have_its_packet_and_one_that_is_no_kernel_several() -> None:
    two = [command(1), packet(0, 0), command(2), packet(1, 2)]
    assert sure(two) == [1, 3]
    assert sure([command(1, name="CopyBuffer"), packet(0, 0), packet(1, 0)]) == [1, 2]
    assert sure([command(1), packet(0, 0), packet(1, 0)]) == [1]


@pytest.mark.parametrize(("rare", "kept"), [(1, 0), (2, 2)])
def test_a_stream_writes_to_the_queues_of_most_of_its_packets(rare: int, kept: int) -> None:
    """One of 31 packets on another queue is that of another stream's command; two are not by chance."""
    rows = []
    for n in range(30):
        rows += [command(n), packet(n, 2 * n)]
    for n in range(rare):
        rows += [command(50 + n), packet(n, 60 + 2 * n, queue=1)]
    # Whatever other streams write.
    other = [command(60, thread=1, stream=1), packet(0, len(rows), thread=1, stream=1, queue=2)]
    assert len(sure([*rows, *other])) == 31 + kept
    # So do the commands that name no stream, where their thread wrote them.
    assert len(sure([{**row, "stream": None} for row in rows])) == 30 + rare


@pytest.mark.parametrize(
    ("index", "stream", "expected"), [
        (1, 0, [1, 3, 5]), (2, 0, [1, 3]),
        pytest.param(2, 1, [1, 3, 5], id="no queue of its stream"),
        pytest.param(2, None, [1, 3], id="a queue of its thread, where it names no stream"),
    ],
)  # fmt: skip
def test_a_packet_that_lacks_on_another_queue_may_be_the_commands(
    index: int, stream: int | None, expected: list[int]
) -> None:
    """Stream 0 writes to both queues; of queue 1 packets lack behind the last command's line, if any do."""
    rows = [
        command(1), packet(0, 0), command(2), packet(0, 2, queue=1),
        command(3, stream=stream), packet(1, 4, stream=stream), packet(index, None, queue=1, thread=3),
    ]  # fmt: skip
    assert sure(rows) == expected


_BEGUN = [command(1), packet(0, 0), command(2), packet(0, 2, queue=1)]
_OTHER: dict[str, Any] = {"queue": 1, "thread": 3}


@pytest.mark.parametrize(
    ("rows", "expected"), [
        ([command(3), packet(2, None, **_OTHER), packet(1, 4), packet(1, None, **_OTHER)], [1, 3, 6]),
        pytest.param([command(3), packet(1, None, **_OTHER), packet(3, None, **_OTHER), packet(1, 4)], [1, 3],
                     id="it lacks between the lines"),
        pytest.param([packet(2, None, **_OTHER), packet(5, None, **_OTHER), packet(7, None, **_OTHER), command(3),
                      packet(1, 7), packet(3, None, **_OTHER)], [1, 3], id="the later ones were printed before"),
        pytest.param(
            [command(3, stream=None, thread=1), packet(1, 4, stream=None, thread=1),
             command(4, stream=None, thread=2), packet(2, 6, stream=None, thread=2, queue=1)], [1, 3, 5],
            id="no queue of its thread",
        ),
    ],
)  # fmt: skip
def test_where_a_queue_lacks_packets_their_indexes_tell(rows: list[dict[str, Any]], expected: list[int]) -> None:
    """Threads may print the packets of a queue in another order than that of their indexes."""
    assert sure([*_BEGUN, *rows]) == expected


def test_each_queue_lacks_packets_of_its_own() -> None:
    """The first packet of queue 1 lacks; the index before it is that of a packet of queue 0."""
    rows = [command(1), packet(0, 0), command(2, stream=1), packet(2, 2, stream=1, queue=1), packet(1, None)]
    assert sure(rows) == [1]
    # Packets of queue 1 lack all the time, one of queue 0 before the command.
    rows = [
        packet(0, None, queue=1, thread=3), packet(0, None), packet(2, None), command(3), packet(3, 3),
        packet(2, None, queue=1, thread=3),
    ]  # fmt: skip
    assert sure(rows) == [4]


def test_a_queue_that_prints_no_index_is_whole_where_few_lines_were_lost() -> None:
    rows = [command(1), packet(None, 0), command(2, stream=1), packet(0, 2, stream=1, queue=1)]
    assert sure(rows, 0.001) == [1, 3]
    assert sure(rows) == [3]
    # One that prints some of its indexes is not.
    assert sure([packet(None, None), command(1), packet(5, 1)], 0.001) == []


def test_a_copy_is_sure_where_no_packet_of_its_stream_lacks() -> None:
    copied = [command(2, name="CopyBuffer"), {"layer": "copy", "name": "copy", "queue": None, "command_event": 2}]
    assert sure([command(1), packet(0, 0), *copied, packet(1, None)]) == [1, 3]
    assert sure([command(1), packet(0, 0), *copied, packet(2, None)]) == [1]


@pytest.mark.parametrize(
    ("more", "told", "expected"), [
        ([], True, [2]), ([], False, []),
        pytest.param([command(1, name="complete", parent=0)], True, [2], id="an end is no second command"),
        pytest.param([command(2, parent=0)], True, [], id="two commands"),
        pytest.param([call(told=True), command(2, parent=3), command(3, parent=3)], True, [], id="two in another call"),
        pytest.param([call(told=True, name="hipMemcpy"), command(2, parent=3), command(3, parent=3)], True, [2],
                     id="two in another function"),
    ],
)  # fmt: skip
def test_a_call_that_tells_its_duration_holds_one_command_and_its_packets(
    more: list[dict[str, Any]], told: bool, expected: list[int]
) -> None:
    """The queue's packets 0 to 4 were lost."""
    assert sure([call(told=told), command(1, parent=0), packet(5, 1, parent=0), *more]) == expected


def unsure(packets: list[dict[str, Any]], disordered: list[int] | None = None) -> list[int]:
    """Return the dispatches whose kernel is not sure; row 0 is a call that tells its duration, row 1 another one."""
    events = frame([call(told=True), call(), *packets])
    launches = events.filter(pl.col("layer") != "hip")
    files = pl.Series(disordered or [], dtype=pl.UInt16)
    return sorted(list_unsure_kernels(launches, events, losses(0.1, 0.1), files) - 2)


@pytest.mark.parametrize(
    ("packets", "expected"), [
        ([packet(0, 9), packet(1, 9)], []),
        pytest.param([packet(1, 9), packet(0, 9)], [], id="printed the other way round"),
        pytest.param([packet(0, 9), packet(2, 9)], [1], id="the one before lacks"),
        pytest.param([packet(3, 9)], [0], id="all before it lack"),
        pytest.param([packet(0, 9), packet(1, 9), packet(2, 9, queue=1)], [2], id="of another queue"),
        pytest.param([packet(0, 9), packet(1, 9), packet(2, 9, file=1)], [2], id="of another log"),
        pytest.param([packet(3, None, file=2)], [], id="in a whole log nothing lacks"),
        pytest.param([packet(0, 9), packet(None, 9)], [], id="no index"),
        pytest.param([packet(0, None), packet(1, None, parent=1)], [0, 1], id="no command"),
        pytest.param([packet(0, None, parent=0), packet(None, None, parent=0)], [], id="no command, its call is sure"),
        pytest.param([packet(0, None, parent=0, graph=True), packet(None, None, parent=0, graph=True)], [1],
                     id="of a graph launch only where its place is known"),
        pytest.param([packet(3, None, name="barrier_and"), packet(None, None, layer="copy", name="copy")], [],
                     id="what runs no kernel"),
    ],
)  # fmt: skip
def test_a_dispatch_has_its_kernel_where_the_packet_before_it_is_there(
    packets: list[dict[str, Any]], expected: list[int]
) -> None:
    assert unsure(packets) == expected


def test_kernels_of_a_graph_are_not_sure_where_lines_are_out_of_order() -> None:
    rows = [packet(0, 9, graph=True), packet(1, 9)]
    assert (unsure(rows, [0]), unsure(rows, [1])) == ([0], [])


@pytest.mark.parametrize(("lost", "expected"), [(0.1, [1]), (0.01, [1]), (0.001, [1, 2])])
def test_an_end_that_comes_when_the_pointer_may_be_in_use_again_is_of_another_command(
    lost: float, expected: list[int]
) -> None:
    """Each pointer is used every tenth time: up to half of that, five commands on, it is surely the same."""
    rows = [(0, n % 10, 10 * n) for n in range(60)] + [(1, n, 105 + n) for n in range(40)]
    uses = pl.DataFrame(rows[::-1], schema=["process", "command", "ts_ns"], orient="row")
    found = pl.DataFrame({"event": [2, 1], "complete_ns": [169, 149], "enqueue_ns": [100, 90]}).with_columns(
        file=pl.lit(0, pl.UInt16), process=pl.lit(0, pl.Int64)
    )
    assert sorted(drop_late(found, uses, losses(lost), "complete_ns")["event"]) == expected


def test_packets_on_another_queue_than_the_first_one_are_of_a_command_whose_line_was_lost() -> None:
    rows = [call(told=True, name="hipMemcpyAsync"), command(1, parent=0)]
    rows += [packet(0, 1, parent=0), packet(7, 1, parent=0, queue=1), packet(1, 1, parent=0)]
    assert sure(rows) == [2, 4]
    # A copy is on no queue of these.
    rows[2] = {"layer": "copy", "name": "copy", "queue": None, "command_event": 1, "parent": 0}
    assert sure(rows) == [2, 3]
