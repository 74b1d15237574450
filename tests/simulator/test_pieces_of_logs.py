"""SYNTHETIC and recorded logs that come in pieces: they are what the whole log is, or stay apart with a word on it."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from random import Random

import polars as pl
import pytest
from benchmarks.truth import compare
from polars.testing import assert_frame_equal
from simulator import Scene, Simulation, simulate

from tracecorr.pipeline import correlate, import_files
from tracecorr.store import Capture
from tracecorr.store.log_joining import Arrangement, arrange_logs, join_pieces

BASE = Scene(span_s=0.1, threads=2)
SCENES: dict[str, dict[str, object]] = {
    "7.2": {}, "7.0": {"era": "7.0"}, "6.4": {"era": "6.4"}, "6.2": {"era": "6.2"}, "5.7": {"era": "5.7"},
    "threads on shared queues": {"threads": 6, "queues": 2}, "6.4, shared": {"era": "6.4", "threads": 6, "queues": 2},
    "5.7, shared": {"era": "5.7", "threads": 6, "queues": 2}, "wrap at 2^32": {"first_index": 2**32 - 60},
    "queues made again": {"recreate": True, "threads": 1}, "Direct Dispatch off": {"direct_dispatch": False},
    "containers": {"container": True, "processes": 2}, "pid reused": {"processes": 2, "reuse_pid": True},
    "copies of a container, one after the other": {
        "container": True, "processes": 2, "same_layout": True, "reuse_pid": True,
    },
}  # fmt: skip
TWINS = replace(BASE, container=True, processes=2, same_layout=True)


def cut(data: bytes, random: Random, count: int) -> list[bytes]:
    """Return the data in pieces of whole lines."""
    lines = data.splitlines(keepends=True)
    places = [0, *sorted(random.sample(range(1, len(lines)), count - 1)), len(lines)]
    return [b"".join(lines[low:high]) for low, high in pairwise(places)]


def arrange(folder: Path, pieces: dict[str, bytes]) -> Arrangement:
    """Write pieces, and ask which of them are one log."""
    for name, data in pieces.items():
        (folder / name).write_bytes(data)
    return arrange_logs({folder / name: name for name in pieces})


def joined(found: Arrangement) -> list[bytes]:
    return [join_pieces(pieces).read_bytes() for pieces in found.logs]


@pytest.mark.parametrize("name", SCENES)
def test_pieces_in_any_order_are_the_whole_log(name: str, tmp_path: Path) -> None:
    made = simulate(replace(BASE, **SCENES[name]), tmp_path)  # type: ignore[arg-type]
    wholes = [log.read_bytes() for log in made.logs]
    for seed in range(8):
        random = Random(seed)
        pieces = {
            f"{number}-{place}": piece for number, whole in enumerate(wholes)
            for place, piece in enumerate(cut(whole, random, random.choice([2, 2, 3, 5])))
        }  # fmt: skip
        names = random.sample(sorted(pieces), len(pieces))
        found = arrange(tmp_path, {key: pieces[key] for key in names})
        assert found.doubts == []
        assert sorted(joined(found)) == sorted(wholes)


@pytest.mark.parametrize("name", ["caseB-4streams", "mt-threads", "hip-5.7.1", "hip-6.4.3"])
def test_recorded_logs_cut_anywhere_are_whole_again(name: str, data_folder: Path, tmp_path: Path) -> None:
    """Also within a line, where the end of one file and the beginning of the next are one record."""
    whole = (data_folder / "captures" / name / "amd.log").read_bytes()
    first, last = whole.find(b":3:rocdevice") + 200, whole.rfind(b"us: [pid")
    for seed in range(10):
        random = Random(seed)
        place = random.randrange(first, last)
        if seed % 2:
            place = whole.index(b"\n", place) + 1
        found = arrange(tmp_path, {"b.log": whole[place:], "a.log": whole[:place]})
        assert found.doubts == []
        assert joined(found) == [whole]


def test_a_log_of_several_processes_is_whole_again(tmp_path: Path) -> None:
    """As the standard error of a program whose processes share it."""
    made = simulate(replace(BASE, processes=3), tmp_path)
    lines = [line for log in made.logs for line in log.read_bytes().splitlines(keepends=True)]
    whole = b"".join(sorted(lines, key=lambda line: int(line.split(b" us:")[0].split()[-1])))
    for seed in range(8):
        one, other = cut(whole, Random(seed), 2)
        found = arrange(tmp_path, {"b.log": other, "a.log": one})
        assert found.doubts == []
        assert joined(found) == [whole]


@pytest.mark.parametrize(
    ("name", "clock"), [("caseB-4streams", "mono"), ("mt-threads", "mono"), ("t1-local-clock", "local")]
)
def test_halves_give_the_tables_of_the_whole(name: str, clock: str, data_folder: Path, tmp_path: Path) -> None:
    recorded = data_folder / "captures" / name
    data = (recorded / "amd.log").read_bytes()
    one, other = cut(data, Random(name), 2)
    (tmp_path / "1.log.gz").write_bytes(gzip.compress(other))
    (tmp_path / "2.log").write_bytes(one)
    captures = []
    for out, logs in (("whole", [recorded / "amd.log"]), ("halves", [tmp_path / "1.log.gz", tmp_path / "2.log"])):
        path = tmp_path / f"{out}.tracecorr"
        import_files(path, logs, [recorded / "ftrace.txt"], clock=clock)
        correlate(path)
        captures.append(Capture.open(path))
    whole, halves = captures
    assert halves.info["warnings"] == whole.info["warnings"]
    assert [(piece["name"], piece["size"]) for piece in halves.info["files"][0]["pieces"]] == [
        ("2.log", len(one)), ("1.log.gz", len(other)),
    ]  # fmt: skip
    for table in ("events", "links", "launches", "threads", "processes", "queues", "streams", "clock_map", "ledger"):
        assert_frame_equal(halves.table(table).collect(), whole.table(table).collect())
    links = halves.table("links").select(pl.col("rule").cast(pl.String)).collect()["rule"].unique()
    assert {"doorbell_of_packet", "syscall_in_call"} <= set(links)


def import_pieces(folder: Path, made: Simulation, one: bytes, other: bytes) -> Capture:
    for name, data in (("a.log", one), ("b.log", other)):
        (folder / name).write_bytes(data)
    out = folder / "x.tracecorr"
    import_files(out, [folder / "a.log", folder / "b.log"], [made.trace], clock="mono", force=True)
    correlate(out)
    return Capture.open(out)


@pytest.mark.parametrize("doorbell", ["plain", "none"])
def test_packets_are_counted_across_pieces_only_where_stores_test_it(doorbell: str, tmp_path: Path) -> None:
    """HIP 5.7 prints no index: lines that lack between two pieces may show nowhere. All other links stay."""
    made = simulate(replace(BASE, era="5.7", doorbell=doorbell), tmp_path)
    data = made.logs[0].read_bytes()
    import_files(tmp_path / "whole.tracecorr", made.logs, [made.trace], clock="mono")
    correlate(tmp_path / "whole.tracecorr")
    whole = compare("whole", made, Capture.open(tmp_path / "whole.tracecorr"))
    capture = import_pieces(tmp_path, made, *cut(data, Random(2), 2))
    halves = compare("halves", made, capture)
    assert [piece["proven"] for piece in capture.info["files"][0]["pieces"]] == [True, False]
    assert halves.links == whole.links
    right, found, true = halves.identities["packets"]
    assert (right, found) == ((true, true) if doorbell == "plain" else (0, 0))
    assert capture.table("losses").collect().is_empty()


def test_lines_that_lack_between_pieces_make_no_wrong_link(tmp_path: Path) -> None:
    """Fourteen lines, of two calls of one function, whose halves look like one call."""
    made = simulate(Scene(seed=30, span_s=0.15, threads=2, era="5.7", doorbell="none"), tmp_path)
    lines = made.logs[0].read_bytes().splitlines(keepends=True)
    place = Random(30).randrange(len(lines) // 5, len(lines) * 3 // 4)
    # Other text in their place leaves the lines behind them where they are.
    filler = b"-" * (len(b"".join(lines[place : place + 14])) - 1) + b"\n"
    capture = import_pieces(tmp_path, made, b"".join(lines[:place]), filler + b"".join(lines[place + 14 :]))
    assert len(capture.info["files"]) == 2
    score = compare("hole", made, capture)
    assert score.links["packet_of_command + copy_of_command"][0] > 500
    for rule, (found, right, _, _) in score.links.items():
        assert found == right, rule
    assert score.identities["packets"][:2] == (0, 0)


def run_twice(folder: Path, **options: object) -> Simulation:
    """Run a program twice, one after the other, with the same pid and the same addresses."""
    return simulate(replace(TWINS, reuse_pid=True, **options), folder)  # type: ignore[arg-type]


@pytest.mark.parametrize("era", ["7.2", "6.4", "6.2", "5.7"])
def test_the_end_of_another_run_goes_on_with_none(era: str, tmp_path: Path) -> None:
    """Pid, threads and queues are the same, and the times follow each other; one beginning is missing."""
    one, other = (log.read_bytes() for log in run_twice(tmp_path, era=era).logs)
    for seed in range(12):
        random = Random(seed)
        found = arrange(tmp_path, {"a.log": cut(one, random, 2)[0], "b.log": cut(other, random, 2)[1]})
        assert found.logs == []
        (doubt,) = found.doubts
        assert doubt.startswith("a.log and b.log may be pieces of one log of process 7, but ")
        assert doubt.endswith("if they are one log, join them: cat a.log b.log")


def test_containers_at_one_time_stay_apart(tmp_path: Path) -> None:
    one, other = (log.read_bytes() for log in simulate(TWINS, tmp_path).logs)
    random = Random(1)
    pieces = {f"{n}-{m}": piece for n, log in enumerate((one, other)) for m, piece in enumerate(cut(log, random, 2))}
    found = arrange(tmp_path, pieces)
    assert found.logs == []
    assert "show the same threads of process 7 at the same times" in found.doubts[0]


def hole(whole: bytes, low: float, high: float) -> tuple[bytes, bytes]:
    lines = whole.splitlines(keepends=True)
    return b"".join(lines[: int(low * len(lines))]), b"".join(lines[int(high * len(lines)) :])


@pytest.mark.parametrize("era", ["7.2", "6.4"])
def test_pieces_between_which_packets_are_missing_stay_apart(era: str, tmp_path: Path) -> None:
    (log,) = simulate(replace(BASE, era=era, span_s=0.3), tmp_path).logs
    one, other = hole(log.read_bytes(), 0.4, 0.7)
    found = arrange(tmp_path, {"a.log": one, "b.log": other})
    assert found.logs == []
    assert "but the packet indexes of their queues do not go on" in found.doubts[0]


def overlapping(whole: bytes) -> Iterator[tuple[str, dict[str, bytes]]]:
    lines = whole.splitlines(keepends=True)
    first, rest = b"".join(lines[:300]), b"".join(lines[200:])
    yield "some lines in both", {"b.log": rest, "a.log": first}
    yield "one line in both", {"a.log": first, "b.log": b"".join(lines[299:])}
    yield "a part of it", {"a.log": whole, "b.log": b"".join(lines[200:300])}
    yield "the beginning of it", {"a.log": first, "b.log": whole}
    yield "both halves and the whole", {"a.log": first, "b.log": whole, "c.log": b"".join(lines[300:])}
    yield "within a line", {"a.log": first + lines[300][:20], "b.log": rest}


@pytest.mark.parametrize("era", ["7.2", "5.7"])
@pytest.mark.parametrize("level", [5, 3])
def test_lines_in_two_files_count_once(era: str, level: int, tmp_path: Path) -> None:
    """Also where they name no pid and tid."""
    (log,) = simulate(replace(BASE, era=era, level=level), tmp_path).logs
    whole = log.read_bytes()
    for name, pieces in overlapping(whole):
        found = arrange(tmp_path, pieces)
        assert sum(piece.repeated for piece in found.logs[0]) == sum(map(len, pieces.values())) - len(whole), name
        assert (joined(found), found.doubts) == ([whole], []), name


@pytest.mark.parametrize("level", [5, 3])
def test_lines_in_two_files_that_cannot_be_one_are_told(level: int, tmp_path: Path) -> None:
    (log,) = simulate(replace(BASE, level=level), tmp_path).logs
    whole = log.read_bytes()
    some = b"".join(line for line in whole.splitlines(keepends=True) if b": Returned" in line)
    found = arrange(tmp_path, {"a.log": whole, "b.log": some})
    assert found.logs == []
    assert found.doubts[0].startswith("b.log holds lines of a.log again: they count twice")


def test_pieces_that_name_no_thread_are_told(tmp_path: Path) -> None:
    (log,) = simulate(replace(BASE, level=3), tmp_path).logs
    one, other = hole(log.read_bytes(), 0.5, 0.5)
    found = arrange(tmp_path, {"a.log": one, "b.log": other})
    assert found.logs == []
    assert "a.log and b.log may be pieces of one log, but their lines name no pid and tid" in found.doubts[0]


def test_whole_logs_that_name_no_thread_are_no_pieces(tmp_path: Path) -> None:
    for scene in (TWINS, replace(TWINS, reuse_pid=True)):
        one, other = (log.read_bytes() for log in simulate(replace(scene, level=3), tmp_path).logs)
        assert arrange(tmp_path, {"a.log": one, "b.log": other}) == Arrangement()


def test_what_stays_apart_is_a_warning_of_the_capture(tmp_path: Path) -> None:
    made = simulate(replace(BASE, span_s=0.3), tmp_path)
    one, other = hole(made.logs[0].read_bytes(), 0.4, 0.7)
    (tmp_path / "a.log").write_bytes(one)
    (tmp_path / "b.log").write_bytes(other)
    out = tmp_path / "x.tracecorr"
    import_files(out, [tmp_path / "a.log", tmp_path / "b.log"], [made.trace])
    for _ in range(2):
        assert correlate(out)[0].startswith("a.log and b.log may be pieces of one log of process 14720, but ")
        assert Capture.open(out).info["warnings"][0].startswith("a.log and b.log may be pieces")
