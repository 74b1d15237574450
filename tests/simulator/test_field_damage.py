"""SYNTHETIC runs as servers have them: what files, ring buffers and namespaces do makes no link wrong."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random

import polars as pl
import pytest
from benchmarks.damaged import list_faults, make_reference
from fuzz_links import FIELD_SEEDS, draw_damages, draw_scene, fuzz
from simulator import Scene, simulate
from simulator.damage import Damage
from simulator.field_damage import FIELD_LOG_DAMAGES, FIELD_TEXT_DAMAGES, LOSSLESS_LOG
from simulator.record import Line

from tracecorr.pipeline import correlate, import_files
from tracecorr.store import Capture


def test_damage_of_servers_makes_links_missing_but_not_wrong(tmp_path: Path) -> None:
    # Before it was mended a thread of the log was one of another process than all others of its own.
    runs, wrong = fuzz(FIELD_SEEDS + 153, tmp_path)
    assert runs == 4
    assert wrong == []


def test_equal_rings_of_several_processes_join_no_threads_of_two(tmp_path: Path) -> None:
    """The trace shows one process alone, the log names the threads of another one."""
    assert fuzz(FIELD_SEEDS + 415, tmp_path)[1] == []


def test_a_ring_joins_no_creation_of_a_process_whose_others_it_contradicts(tmp_path: Path) -> None:
    """The log of each process shows the host's pid of the other one, and the trace begins when threads are known."""
    assert fuzz(1833000018, tmp_path)[1] == []


@pytest.mark.parametrize(("doorbell", "swapped"), [("rich", True), ("plain", False), ("none", False)])
def test_the_log_of_one_process_and_the_trace_of_another_have_nothing_in_common(
    doorbell: str, swapped: bool, tmp_path: Path
) -> None:
    """Both are made of equal threads, rings and indexes at about the same time, as ranks of one job are."""
    scene = Scene(
        seed=5, span_s=0.1, processes=2, threads=2, doorbell=doorbell, thread_events=(), same_layout=True,
        swapped_pids=swapped,
    )  # fmt: skip
    made = simulate(scene, tmp_path)
    lines = made.trace.read_bytes().splitlines(keepends=True)
    made.trace.write_bytes(b"".join(line for line in lines if line.startswith(b"#") or b"(  15020) [" in line))
    import_files(tmp_path / "x.tracecorr", made.logs[:1], [made.trace], clock="mono")
    correlate(tmp_path / "x.tracecorr")
    capture = Capture.open(tmp_path / "x.tracecorr")
    threads = capture.table("threads").collect()
    assert threads.drop_nulls(["tid", "log_tid"]).is_empty()
    sources = capture.table("events").collect()["source"].cast(pl.String)
    links = capture.table("links").collect()
    assert len(links) > 100
    assert (sources.gather(links["from_event"]) == sources.gather(links["to_event"])).all()


def test_two_processes_with_equal_rings_that_write_to_one_log_lack_no_packets(tmp_path: Path) -> None:
    made = simulate(draw_scene(FIELD_SEEDS + 413), tmp_path)
    out = tmp_path / "x.tracecorr"
    import_files(out, made.logs, [made.trace], clock=made.scene.clock.name, clock_samples=made.samples)
    correlate(out)
    assert Capture.open(out).table("launches").collect()["unlinked_reason"].null_count() > 300
    assert Capture.open(out).table("losses").collect().is_empty()


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
    "damage", [*FIELD_LOG_DAMAGES.values(), *FIELD_TEXT_DAMAGES.values()],
    ids=[*FIELD_LOG_DAMAGES, *FIELD_TEXT_DAMAGES],
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
