"""SYNTHETIC runs as servers have them: what files, ring buffers and namespaces do makes no link wrong."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from benchmarks.damaged import list_faults, make_reference
from fuzz_links import FIELD_SEEDS, draw_damages, draw_scene, fuzz
from simulator import Scene
from simulator.damage import Damage
from simulator.field_damage import FIELD_LOG_DAMAGES, FIELD_TRACE_DAMAGES, LOSSLESS_LOG
from simulator.record import Line

from tracecorr.store import Capture


def test_damage_of_servers_makes_links_missing_but_not_wrong(tmp_path: Path) -> None:
    # Before it was mended a thread of the log was one of another process than all others of its own.
    runs, wrong = fuzz(FIELD_SEEDS + 153, tmp_path)
    assert runs == 4
    assert wrong == []


def test_a_pid_of_a_namespace_is_not_that_of_the_process_whose_threads_are_known(tmp_path: Path) -> None:
    """The log of one process shows the host's pid of the other one, which is the only one that the trace shows."""
    scene = Scene(span_s=0.02, processes=2, swapped_pids=True)
    reference = make_reference(scene, tmp_path / "whole")
    for seed in range(2):
        folder = tmp_path / str(seed)
        damaged = replace(scene, trace_damage="events of one process", damage_seed=seed)
        assert list_faults(reference, damaged, folder) == []
        processes = Capture.open(folder / "run.tracecorr").table("processes").collect()
        assert processes["pid"].drop_nulls().len() == 1
        assert processes["log_pid"].drop_nulls().n_unique() == 2


def test_what_changes_the_form_of_a_log_loses_no_link(tmp_path: Path) -> None:
    scene = Scene(span_s=0.03, threads=2)
    reference = make_reference(scene, tmp_path / "whole")
    links = Capture.open(tmp_path / "whole" / "run.tracecorr").table("links").collect()
    assert len(links) > 100
    for name in LOSSLESS_LOG:
        assert list_faults(reference, replace(scene, log_damage=name), tmp_path / name) == []
        left = Capture.open(tmp_path / name / "run.tracecorr").table("links").collect()
        assert len(left) == len(links), name


@pytest.mark.parametrize(
    "damage", [*FIELD_LOG_DAMAGES.values(), *FIELD_TRACE_DAMAGES.values()],
    ids=[*FIELD_LOG_DAMAGES, *FIELD_TRACE_DAMAGES],
)  # fmt: skip
def test_damage_of_servers_keeps_the_numbers_of_lines(damage: Damage) -> None:
    lines = [
        Line(n, 1000.0 * n, "log", f"\x1b[32m{n:>150} : {n:>90} ", n % 2, f"hip0-{n % 3} ( 147{n % 2}0) [00{n % 2}]")
        for n in range(600)
    ]
    found = damage(Random(3), list(lines))
    assert found == damage(Random(3), list(lines))
    assert all((line.number == -1) == line.bare for line in found)
    assert any(damage(Random(seed), list(lines)) != lines for seed in range(20))


def test_seeds_of_servers_are_apart_from_the_others() -> None:
    logs = {run.log_damage for seed in range(FIELD_SEEDS, FIELD_SEEDS + 60) for run in draw_damages(draw_scene(seed))}
    assert logs == {"", *FIELD_LOG_DAMAGES}
    assert not logs & {run.log_damage for seed in range(60) for run in draw_damages(draw_scene(seed)) if run.log_damage}
