"""Pieces of a HIP log become the log in the order in which they are given; what has no such order is refused."""

from __future__ import annotations

import gzip
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from polars.testing import assert_frame_equal
from simulator import Scene, simulate

from tracecorr.model.errors import InputError
from tracecorr.pipeline import correlate, import_files
from tracecorr.store import Capture

BASE = Scene(span_s=0.1, threads=2)
TWINS = replace(BASE, container=True, processes=2, same_layout=True)


def _cut(data: bytes, *shares: float) -> list[bytes]:
    """Return the data in pieces of whole lines."""
    places = [0, *(data.index(b"\n", int(share * len(data))) + 1 for share in shares), len(data)]
    return [data[low:high] for low, high in pairwise(places)]


def _import(folder: Path, pieces: dict[str, bytes]) -> list[bytes]:
    """Import pieces in their order; return the logs that they became."""
    for name, data in pieces.items():
        (folder / name).write_bytes(data)
    capture = import_files(folder / "x.tracecorr", [folder / name for name in pieces], [], force=True)
    return [capture.raw(entry["file"], 0, entry["size"]) for entry in capture.info["files"]]


@pytest.mark.parametrize("name", ["caseB-4streams", "mt-threads", "hip-5.7.1", "hip-6.4.3"])
def test_a_recorded_log_in_pieces_is_whole_again(name: str, data_folder: Path, tmp_path: Path) -> None:
    whole = (data_folder / "captures" / name / "amd.log").read_bytes()
    one, two, three = _cut(whole, 0.4, 0.7)
    assert _import(tmp_path, {"z.log": one, "b.log": two, "a.log": three}) == [whole]
    # Within a line, where the end of one file and the beginning of the next are one record.
    place = whole.index(b"us: [pid", len(whole) // 2)
    assert _import(tmp_path, {"z.log": whole[:place], "b.log": whole[place:]}) == [whole]


def test_halves_give_the_tables_of_the_whole(data_folder: Path, tmp_path: Path) -> None:
    recorded = data_folder / "captures" / "caseB-4streams"
    one, other = _cut((recorded / "amd.log").read_bytes(), 0.5)
    (tmp_path / "1.log.gz").write_bytes(gzip.compress(one))
    (tmp_path / "2.log").write_bytes(other)
    captures = []
    for out, logs in (("whole", [recorded / "amd.log"]), ("halves", [tmp_path / "1.log.gz", tmp_path / "2.log"])):
        captures.append(import_files(tmp_path / f"{out}.tracecorr", logs, [recorded / "ftrace.txt"], clock="mono"))
        correlate(captures[-1].path)
    whole, halves = captures
    assert [piece["name"] for piece in halves.info["files"][0]["pieces"]] == ["1.log.gz", "2.log"]
    for table in ("events", "links", "launches", "threads", "queues", "clock_map", "ledger"):
        assert_frame_equal(halves.table(table).collect(), whole.table(table).collect())


def test_another_order_is_refused_with_the_right_one(data_folder: Path, tmp_path: Path) -> None:
    one, other = _cut((data_folder / "captures" / "mt-threads" / "amd.log").read_bytes(), 0.5)
    with pytest.raises(InputError, match="the second one is older") as raised:
        _import(tmp_path, {"b.log": other, "a.log": one})
    assert raised.value.next_step.endswith("--amd-log a.log b.log")
    assert not (tmp_path / "x.tracecorr").exists()


def test_pieces_that_share_lines_are_refused(data_folder: Path, tmp_path: Path) -> None:
    whole = (data_folder / "captures" / "mt-threads" / "amd.log").read_bytes()
    one, shared, other = _cut(whole, 0.4, 0.6)
    with pytest.raises(InputError, match="at the same times"):
        _import(tmp_path, {"a.log": one + shared, "b.log": shared + other})


@pytest.mark.parametrize(
    "scene", [
        replace(BASE, container=True, processes=2), replace(BASE, processes=2, reuse_pid=True), TWINS,
        replace(TWINS, reuse_pid=True), replace(TWINS, level=3),
    ],
    ids=["containers", "pid reused", "equal containers", "one after the other", "without pids"],
)  # fmt: skip
def test_logs_of_several_processes_stay_apart(scene: Scene, tmp_path: Path) -> None:
    logs = [log.read_bytes() for log in simulate(scene, tmp_path).logs]
    assert _import(tmp_path, {f"{number}.log": data for number, data in enumerate(logs)}) == logs
    assert Capture.open(tmp_path / "x.tracecorr").info["import_warnings"] == []


def test_a_piece_that_names_no_thread_is_told(tmp_path: Path) -> None:
    (log,) = simulate(replace(BASE, level=3), tmp_path).logs
    one, other = _cut(log.read_bytes(), 0.5)
    assert _import(tmp_path, {"a.log": one, "b.log": other}) == [one, other]
    correlate(tmp_path / "x.tracecorr")
    (told,) = Capture.open(tmp_path / "x.tracecorr").info["import_warnings"]
    assert told.startswith("the lines of b.log name no pid and tid") and "cat" in told
