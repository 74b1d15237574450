"""SYNTHETIC calls of logs that lost lines: those that the others of their name say nothing of, or contradict."""

from __future__ import annotations

import polars as pl
import pytest

from tracecorr.link.losses.usual_calls import (
    count_held,
    list_disordered,
    list_overfull,
    list_rare,
    list_underfull,
    number_kinds,
)
from tracecorr.model.schema import CAT

_KINDS = {"e": ("command", "enqueued"), "b": ("aql", "barrier"), "w": ("signal", "wait"), "c": ("command", "complete")}


def _inside(calls: pl.DataFrame, rows: list[tuple[int, str]]) -> pl.DataFrame:
    """Return rows in calls: number of the call, kind."""
    made = [{"parent": 10 * n, "layer": _KINDS[kind][0], "child": _KINDS[kind][1]} for n, kind in rows]
    return number_kinds(calls, pl.DataFrame(made, schema_overrides={"layer": CAT, "child": CAT}))


def _calls(names: list[str], lost: float) -> pl.DataFrame:
    rows = [{"event": 10 * n, "file": 0, "name": name, "lost": lost} for n, name in enumerate(names)]
    return pl.DataFrame(rows)


def _disordered(held: list[str]) -> list[int]:
    """Return which calls are told by their order, of calls that each hold rows of some kinds."""
    calls = _calls(["hipStreamSynchronize"] * len(held), 0.2)
    inside = _inside(calls, [(call, kind) for call, kinds in enumerate(held) for kind in kinds])
    found = list_disordered(calls, inside)
    return sorted(event // 10 for event in found["event"])


def test_two_calls_whose_rows_together_are_those_of_one_are_told_by_their_order() -> None:
    assert _disordered(["ebwc"] * 6 + ["bcew"]) == [6]


@pytest.mark.parametrize("odd", ["ec", "bw", "w", "ebbwc", "ebwcebwc"])
def test_lost_rows_and_rows_of_one_kind_make_no_other_order(odd: str) -> None:
    assert _disordered(["ebwc"] * 6 + [odd]) == []


def test_where_calls_hold_their_rows_in_either_order_neither_is_odd() -> None:
    assert _disordered(["ebwc"] * 6 + ["cebw"] * 3) == []


def test_the_orders_of_calls_of_another_name_tell_nothing() -> None:
    calls = _calls(["hipMemcpy"] * 6 + ["hipFree"], 0.2)
    inside = _inside(calls, [(n, kind) for n in range(7) for kind in ("eb" if n < 6 else "be")])
    assert list_disordered(calls, inside).is_empty()


def test_of_a_function_of_few_calls_none_is_known_to_be_usual_where_many_lines_lack() -> None:
    names = ["hipStreamCreate"] * 4 + ["hipFree"] * 5
    assert list_rare(_calls(names, 0.1))["event"].to_list() == [0, 10, 20, 30]
    assert list_rare(_calls(names, 0.04)).is_empty()


def _odd(held: list[str], lost: float) -> tuple[list[int], list[int]]:
    """Return which calls hold more than is usual, and which lack what is."""
    calls = _calls(["hipModuleLaunchKernel"] * len(held), lost)
    rows = count_held(_inside(calls, [(call, kind) for call, kinds in enumerate(held) for kind in kinds]))
    found = list_overfull(calls, rows), list_underfull(calls, rows)
    full, lacking = (sorted(event // 10 for event in frame["event"]) for frame in found)
    return full, lacking


def test_where_few_lines_were_lost_calls_that_do_different_things_are_all_usual() -> None:
    """Of 20 launches two wait twice, six need not wait, and each enqueues a command."""
    held = ["eb"] * 12 + ["e"] * 6 + ["ebb"] * 2
    assert _odd(held, 0.001) == ([], [])
    assert _odd(held, 0.01) == ([18, 19], list(range(12, 18)))
    assert _odd(held, 0.1)[0] == [18, 19]


def test_where_few_lines_were_lost_what_one_call_alone_does_or_lacks_is_odd() -> None:
    assert _odd(["eb"] * 18 + ["ebb", "b"], 0.001) == ([18], [19])
