"""SYNTHETIC runs with damage to the log, to the trace, and to both: nothing is wrong by it (`scripts/fuzz_links`)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random

import polars as pl
import pytest
from benchmarks.damaged import make_reference
from fuzz_links import draw_damages, draw_scene, fuzz
from simulator import Scene, simulate
from simulator.damage import LOG_DAMAGES, PAGE_DAMAGES, TRACE_DAMAGES, Damage
from simulator.record import Line

from tracecorr.store import Capture


@pytest.mark.parametrize(
    "seed", [
        # What each of them found wrong before it was mended.
        pytest.param(20002, id="packets counted though lines of others were lost"),
        pytest.param(50026, id="packets counted in a log without any dispatch"),
        pytest.param(80005, id="a log without any exit"),
        pytest.param(80010, id="a call of two in a log without halves of calls"),
        pytest.param(80011, id="a call of two that lacks what others hold"),
        pytest.param(1000, id="rings, ids and indexes of the process before with the same pid"),
        pytest.param(92004, id="GPU times of packets that were lost, of handles used long before"),
        pytest.param(70012, id="times of lines of ROCr that were moved, and calls of two that hold nothing"),
        pytest.param(92009, id="a system call of two in a trace of few calls"),
        pytest.param(20005, id="a worker's kernel had the name of the one before"),
        pytest.param(50023, id="calls of two, and packets of a queue whose Created line was lost"),
        pytest.param(50024, id="intervals of stores of graph launches whose enters were lost"),
        pytest.param(60000, id="system calls of two"),
        pytest.param(60008, id="a store of the ring's life before, called recorded"),
        pytest.param(27, id="lines and calls of two threads in a log of level 3"),
        pytest.param(57, id="lines of workers in a log of 6.3 that names no thread"),
        pytest.param(197, id="counted indexes in a log of 6.3 that names no thread"),
        pytest.param(397, id="an exit and the next enter that changed places"),
        pytest.param(310020, id="a call over a burst of lost lines"),
        pytest.param(310039, id="calls of two, of the function that lost half of its lines"),
        pytest.param(310041, id="a kernel's name that was moved behind the next command"),
        pytest.param(697, id="a system call over a burst of lost records"),
        pytest.param(520106, id="a request and the next one in a trace that lacks no other record"),
        pytest.param(530123, id="a call of two whose rows are all there, in another order"),
        pytest.param(540028, id="a call of two of a function of which few calls are left"),
        pytest.param(890002, id="a log that ends within a number"),
        pytest.param(7310010, id="a system call of two in a trace whose threads end in doorbell stores"),
        pytest.param(530074, id="an ioctl in which the function of its request ran twice"),
        pytest.param(8800206, id="a function of a later ioctl in one whose exit was lost"),
        pytest.param(8800045, id="a call over a place at which several queues lost packets"),
        pytest.param(8800151, id="a call over a place at which a queue lost two packets"),
        pytest.param(8800133, id="packets counted though the log lacks the lines of a worker"),
        pytest.param(8800165, id="packets counted with those of the queue before on the same ring"),
        pytest.param(8800388, id="ioctls of other creations, which the doorbells contradict"),
        pytest.param(8810036, id="a driver's function in an open system call that is no ioctl"),
        pytest.param(770024, id="a system call of two, the longest, where another thread lacks an exit"),
        pytest.param(7310040, id="a system call of two, the longest, in which the log has packets without stores"),
        pytest.param(91770025, id="the log of a thread, and the trace of the next one with its stack"),
        pytest.param(55510024, id="a call of two that counts the queues and shows no answer"),
        pytest.param(8800225, id="a call of two that holds the ioctls of both"),
        pytest.param(8831016, id="a call of two of few that holds the ioctls of both"),
        pytest.param(66100343, id="a barrier that waits for a signal of the process before with the same pid"),
        pytest.param(66100048, id="a worker's dispatch of the command before, and stores of others between them"),
        pytest.param(66100018, id="a worker's dispatch long behind the command before"),
        pytest.param(55510085, id="a worker's dispatch without its kernel's name, and a store before it"),
        pytest.param(66100280, id="a call of two that holds the stores of both, at a level without packets"),
        pytest.param(66100225, id="a call of two that made a queue and takes another one"),
        pytest.param(55510087, id="a call of two in a log of 6.3 that names no thread, with the counts of both"),
        pytest.param(55510096, id="a trace whose only pair is of the process before with the same pid"),
        pytest.param(8800307, id="a system call of two during launches whose stores lack, at a level without packets"),
    ],
)  # fmt: skip
def test_damage_makes_links_missing_but_not_wrong(seed: int, tmp_path: Path) -> None:
    runs, wrong = fuzz(seed, tmp_path)
    assert runs == 4
    assert wrong == []


@pytest.mark.parametrize(
    "options", [
        {"level": 3, "threads": 1}, {"level": 3, "threads": 4}, {"era": "6.3", "level": 4},
        {"era": "6.3", "level": 4, "direct_dispatch": False},
    ],
    ids=str,
)  # fmt: skip
def test_whole_logs_that_name_no_thread_give_no_line_to_a_call_of_another_thread(
    options: dict[str, object], tmp_path: Path
) -> None:
    scene = replace(Scene(span_s=0.12, threads=2), **options)  # type: ignore[arg-type]
    # It fails where a link, a parent or a call of the whole run is not true.
    found = make_reference(scene, tmp_path / "whole").found
    calls = found.rows.filter(pl.col("layer") == "hip")
    assert calls["end_at"].count() > 0.6 * len(calls)
    assert found.rows["parent_at"].count() > 100
    assert found.launches.filter(pl.col("call_at").is_null() & pl.col("command_at").is_not_null()).is_empty()
    if scene.era == "6.3":
        launches = Capture.open(tmp_path / "whole" / "run.tracecorr").table("launches")
        reasons = launches.select("unlinked_reason").collect()
        assert "the log names no thread: no HIP call surely holds it" in reasons["unlinked_reason"].to_list()


def test_sparse_scenes_are_those_of_some_seeds_only() -> None:
    scenes = {seed: draw_scene(seed) for seed in range(100)}
    assert {seed for seed, scene in scenes.items() if scene.level == 3 or scene.era == "6.3"} == set(range(7, 100, 10))


def test_seeds_name_scenes_and_damages() -> None:
    assert draw_scene(7) == draw_scene(7) != draw_scene(8)
    sides = [(run.log_damage != "", run.trace_damage != "") for run in draw_damages(draw_scene(7))]
    assert sides == [(True, False), (False, True), (True, True), (True, True)]


@pytest.mark.parametrize("damage", {**LOG_DAMAGES, **TRACE_DAMAGES}.values(), ids={**LOG_DAMAGES, **TRACE_DAMAGES})
def test_damage_keeps_the_numbers_of_lines(damage: Damage) -> None:
    texts = (": Returned", "sys_ioctl(", "enqueued", "Barrier", "complete", "doorbell:")
    lines = [Line(n, 1000.0 * n, "log", f"tid: {n % 3:#x}] {texts[n % 6]} {n}") for n in range(600)]
    found = damage(Random(3), list(lines))
    assert found == damage(Random(3), list(lines))
    assert all(line.text.startswith(lines[line.number].text[: len(line.text)]) for line in found)
    assert any(damage(Random(seed), list(lines)) != lines for seed in range(20))


def test_the_same_damage_hits_logs_and_pages_in_one_way(tmp_path: Path) -> None:
    """The scene's own choices do not change by it, so what is left has its true times."""
    found = []
    for number, name in enumerate(("", "10 % lost")):
        (tmp_path / str(number)).mkdir()
        scene = Scene(span_s=0.05, pages=True, log_damage=name, trace_damage=name)
        found.append(simulate(scene, tmp_path / str(number)).moments)
    whole, damaged = found
    assert 0.8 * whole.height < damaged.height < 0.97 * whole.height
    assert damaged.join(whole, on=["line", "true_ns"]).height == damaged.height
    assert set(PAGE_DAMAGES) < set(TRACE_DAMAGES)


def test_a_fault_is_told_with_its_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fuzz_links.list_faults", lambda *_: ["link: 1, as {...}"])
    _, wrong = fuzz(60000, tmp_path)
    assert len(wrong) == 4
    assert wrong[0].startswith("seed 60000, seed=60000, ")
    assert "log_damage=" in wrong[0]
    assert wrong[0].endswith("link: 1, as {...}")
