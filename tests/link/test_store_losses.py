"""SYNTHETIC rows: what a thread stored between a command and its dispatch is of a packet whose line was lost."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from tracecorr.link.packets.store_losses import drop_rung, list_rung_before

_LINE = {
    "event": pl.Int64, "file": pl.UInt16, "thread": pl.UInt32, "offset": pl.Int64, "ts_ns": pl.Int64,
    "layer": pl.String, "name": pl.String,
}  # fmt: skip
_STORE = {"thread": pl.UInt32, "ts_ns": pl.Int64, "err_lo_ns": pl.UInt32, "err_hi_ns": pl.UInt32}
Line = tuple[str, int] | tuple[str, int, int]


def _lines(lines: list[Line]) -> pl.DataFrame:
    """Return lines of one log: name, time in us, thread (0)."""
    made: list[dict[str, Any]] = [
        {"event": n, "file": 0, "thread": line[2] if len(line) > 2 else 0, "offset": 10 * n, "ts_ns": 1000 * line[1],
         "layer": "command" if line[0] in ("enqueued", "submitted") else "aql", "name": line[0]}
        for n, line in enumerate(lines)
    ]  # fmt: skip
    return pl.DataFrame(made, schema=_LINE)


_NO_INDEX = pl.lit(None, pl.Int64), pl.lit(value=False)


def _rung(
    lines: list[Line], *stores: int, thread: int = 0, error: int | None = 0, index: tuple[pl.Expr, pl.Expr] = _NO_INDEX
) -> list[int]:
    """Return the dispatches behind stores at some times (us), of packets with one index, which may be counted."""
    rows = _lines(lines).with_columns(packet_index=index[0], index_counted=index[1])
    made = pl.DataFrame([(thread, 1000 * at, error, error) for at in stores], schema=_STORE, orient="row")
    sides = (rows.filter(pl.col("layer") == layer) for layer in ("aql", "command"))
    return sorted(list_rung_before(*sides, made)["event"])


# Two whole launches, of which the second waits for a barrier, and one with 20 us between command and dispatch.
_WHOLE: list[Line] = [
    ("enqueued", 10), ("dispatch", 15), ("enqueued", 30), ("barrier_and", 36), ("dispatch", 40),
]  # fmt: skip
_LATE: list[Line] = [*_WHOLE, ("submitted", 50), ("dispatch", 70)]


def test_each_packet_has_its_own_store() -> None:
    """A dispatch is printed before its store, a barrier behind it."""
    assert _rung(_LATE, 18, 34, 43, 75) == []


@pytest.mark.parametrize(
    ("stores", "error", "thread", "expected"), [
        ((60,), 0, 0, [6]), ((43, 60, 75), 0, 0, [6]),
        pytest.param((60,), 0, 1, [], id="of another thread"),
        pytest.param((60,), 8_000, 0, [6], id="surely between"),
        pytest.param((60,), 9_500, 0, [], id="perhaps before"),
        pytest.param((60,), None, 0, [], id="on a clock that is not known"),
    ],
)  # fmt: skip
def test_a_store_between_a_command_and_its_dispatch_is_of_a_packet_that_lacks(
    stores: tuple[int, ...], error: int | None, thread: int, expected: list[int]
) -> None:
    assert _rung(_LATE, *stores, thread=thread, error=error) == expected


def test_the_lines_of_another_thread_come_between_nothing() -> None:
    lines = [*_LATE[:-1], ("enqueued", 62, 1), ("dispatch", 66, 1), _LATE[-1]]
    assert _rung(lines, 60) == [8]


def test_a_log_whose_level_may_leave_packets_out_tells_nothing() -> None:
    """It shows no barrier, or stores before most dispatches."""
    assert _rung([line for line in _LATE if line[0] != "barrier_and"], 60) == []
    assert _rung(_LATE, 13, 60) == []


def test_packets_that_print_their_index_need_no_stores() -> None:
    printed = pl.lit(7, pl.Int64), pl.lit(value=False)
    assert _rung(_LATE, 60, index=printed) == []
    assert _rung(_LATE, 60, index=(printed[0], pl.lit(value=True))) == [6]


def test_packets_behind_a_place_at_which_one_lacks_are_not_of_a_command_before_it() -> None:
    """Packets 1, 3 and 4 are said to be of command 0, packets 6 and 7 of the command 5."""
    events = _lines([
        ("enqueued", 1), ("dispatch", 2), ("enqueued", 3), ("dispatch", 4), ("dispatch", 5), ("enqueued", 6),
        ("dispatch", 7), ("dispatch", 7, 1),
    ])  # fmt: skip
    pairs = events[[1, 3, 4, 6, 7]].with_columns(command_offset=pl.Series([0, 0, 0, 50, 50]))
    rung = events.filter(pl.col("event") == 3)
    assert drop_rung(pairs, rung)["event"].to_list() == [1, 6, 7]
    assert drop_rung(pairs, rung.clear()).equals(pairs)
