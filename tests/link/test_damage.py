"""Damage: recorded logs that lost a part, or that several processes wrote into each other."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import polars as pl
import pytest
from benchmarks.lost_lines import (
    CAPTURES,
    Found,
    Piece,
    compare_calls,
    cut_log,
    find_wrong,
    import_pieces,
    interleave,
    select_left,
)

from tracecorr.link.damage import drop_counts, find_damage, limit_evidence, list_losses, open_calls
from tracecorr.model import schema
from tracecorr.model.kinds import Flag
from tracecorr.model.part_tables import MISSING
from tracecorr.model.schema import CAT
from tracecorr.pipeline import correlate, import_files
from tracecorr.store import Capture

# The stamps of two calls are in whole microseconds.
_STEP_NS = 2_000
# Logs of processes with different pids.
_WRITERS = (
    "streams-priority", "hip-7.2.4", "kfd-6.12-t1", "mt-threads", "t1-local-clock", "writes-local", "caseB-4streams",
    "gemm-rocblas-300",
)  # fmt: skip
_PART = 120_000  # bytes of each

Import = Callable[[tuple[bytes, ...], tuple[Piece, ...]], Found]


@pytest.fixture(scope="module")
def found_in(tmp_path_factory: pytest.TempPathFactory) -> Import:
    """Return what imports a log made of pieces; a log is imported once."""

    @cache
    def find(logs: tuple[bytes, ...], pieces: tuple[Piece, ...]) -> Found:
        return import_pieces(logs, pieces, tmp_path_factory.mktemp("pieces"))

    return find


@pytest.mark.parametrize(("kind", "share"), [("hole", 0.07), ("head", 0.6), ("tail", 0.6)])
@pytest.mark.parametrize("name", CAPTURES)
def test_what_is_left_of_a_log_is_that_of_the_whole_log(
    name: str, kind: str, share: float, found_in: Import, data_folder: Path
) -> None:
    log = (data_folder / "captures" / name / "amd.log").read_bytes()
    whole = found_in((log,), ((0, 0, len(log)),))
    pieces = tuple(cut_log(log, kind, share))
    found = found_in((log,), pieces)
    right, opened, false = compare_calls(found, whole)
    assert false == 0
    assert opened <= 0.02 * (right + opened)
    wrong = find_wrong(found, whole)
    assert wrong.height <= (kind == "hole")
    assert set(wrong["evidence"]) <= {"inferred"}
    # A hole takes the ends of commands that lie across it; a head and a tail take nothing that both records show.
    left = select_left(whole, pieces)
    kept = left.join(found.links, on=["rule", "cause", "effect"], how="semi")
    assert kept.height > (0.9 if kind == "hole" else 0.99) * left.height


@pytest.mark.parametrize(
    ("count", "size", "switches"),
    [(2, 128, 0.01), (2, 4096, 0.1), (2, 8192, 0.5), (8, 128, 0.5), (8, 4096, 0.01), (8, 8192, 0.1)],
)
def test_what_processes_wrote_into_each_other_is_no_sure_link(
    count: int, size: int, switches: float, found_in: Import, data_folder: Path
) -> None:
    logs = tuple(_read_part(data_folder / "captures" / name / "amd.log") for name in _WRITERS[:count])
    parts = [found_in((log,), ((0, 0, len(log)),)) for log in logs]
    whole = Found(
        pl.concat([_name_log(part.links, number, "cause", "effect") for number, part in enumerate(parts)]),
        pl.concat([_name_log(part.calls, number, "name") for number, part in enumerate(parts)]),
    )
    found = found_in(logs, tuple(interleave(logs, size, switches, seed=count)))
    assert set(find_wrong(found, whole)["evidence"]) <= {"inferred"}
    right, opened, _ = compare_calls(found, whole)
    assert right > opened


def _read_part(path: Path) -> bytes:
    data = path.read_bytes()[:_PART]
    return data[: data.rfind(b"\n") + 1]


def _name_log(rows: pl.DataFrame, number: int, *columns: str) -> pl.DataFrame:
    return rows.with_columns(pl.col(name).str.replace("^0 ", f"{number} ") for name in columns)


@pytest.mark.parametrize("trace", ["ftrace.txt", "raw"])
def test_two_processes_that_cut_each_others_lines_lose_no_call(trace: str, data_folder: Path, tmp_path: Path) -> None:
    recorded = data_folder / "captures" / "two-processes"
    out = tmp_path / "x.tracecorr"
    import_files(out, [recorded / "amd.log"], [recorded / trace], clock_samples=recorded / "clock.json")
    correlate(out)
    events = Capture.open(out).table("events").collect().with_columns(pl.col("layer", "name").cast(pl.String))
    calls = events.filter(pl.col("layer") == "hip", pl.col("name") == "hipLaunchKernel")
    assert calls["dur_ns"].count() == calls.height == 160
    # The probe of the same function tells when each call ran.
    probes = events.filter(pl.col("layer") == "hsa", pl.col("name") == "launch").select("thread", "ts_ns", "dur_ns")
    key = ["thread", "nth"]
    nth = pl.int_range(pl.len()).over("thread").alias("nth")
    both = calls.sort("ts_ns").with_columns(nth).join(probes.sort("ts_ns").with_columns(nth), on=key, suffix="_probe")
    assert both.height == 160
    begun = pl.col("ts_ns_probe") - pl.col("ts_ns")
    ended = (pl.col("ts_ns") + pl.col("dur_ns")) - (pl.col("ts_ns_probe") + pl.col("dur_ns_probe"))
    assert both.filter((begun > _STEP_NS) | (ended > _STEP_NS)).is_empty()
    launches = Capture.open(out).table("launches").collect()
    assert launches.select("call_event", "command_event").count().row(0) == (288, 288)
    assert launches.height == 288


_EVENTS = {
    "event": pl.Int64, "file": pl.UInt16, "process": pl.UInt32, "thread": pl.UInt32, "cpu": pl.UInt16,
    "offset": pl.Int64, "end_offset": pl.Int64, "parent_offset": pl.Int64, "ts_ns": pl.Int64, "dur_ns": pl.Int64,
    "flags": pl.UInt16, "layer": CAT, "name": CAT, "source": CAT, "clock": CAT, "ring": pl.UInt64,
    "packet_index": pl.Int64, "index_counted": pl.Boolean, "command": pl.UInt64,
}  # fmt: skip
_LEDGER, _LOSSES, _MISSING = schema.LEDGER.empty(), schema.LOSSES.empty(), MISSING.empty()


def _events(*rows: dict[str, object]) -> pl.DataFrame:
    """Return rows of one thread of a log; each is 100 bytes and 100 ns behind the one before."""
    common = {"file": 0, "process": 0, "thread": 0, "cpu": 0, "source": "amd_log", "clock": "mono", "flags": 0,
              "index_counted": False}  # fmt: skip
    made = [
        {**common, "event": n, "offset": 100 * n, "ts_ns": 100 * n, **row}
        | ({"end_offset": 100 * n + row["dur_ns"]} if "dur_ns" in row else {})
        for n, row in enumerate(rows)
    ]  # fmt: skip
    begin = {**common, "event": len(made), "offset": -1, "ts_ns": -1, "layer": "other", "name": "gpu_agents"}
    return pl.DataFrame([*made, begin], _EVENTS)


def _packet(index: int | None, **more: object) -> dict[str, object]:
    return {"layer": "aql", "name": "dispatch", "ring": 1, "packet_index": index, **more}


def _call(name: str = "hipFree", **more: object) -> dict[str, object]:
    return {"layer": "hip", "name": name, **more}


def test_packet_indexes_that_leave_numbers_out_are_a_hole() -> None:
    events = _events(_packet(0), _packet(1), _packet(5), _packet(6))
    damage = find_damage(events, _LEDGER, _LOSSES, _MISSING)
    assert damage.holes.select("low", "high", "count").rows() == [(100, 200, 3)]
    assert list_losses(events, damage).select("from_ns", "to_ns", "count").rows() == [(100, 200, 3)]


def test_barriers_that_print_no_index_leave_no_hole() -> None:
    assert find_damage(_events(_packet(0), _packet(None), _packet(2)), _LEDGER, _LOSSES, _MISSING).holes.is_empty()


def test_holes_that_meet_are_one_at_the_place_that_they_share() -> None:
    other = {"ring": 2, "thread": 1}
    events = _events(_packet(0), _packet(0, **other), _packet(4), _packet(4, **other))
    holes = find_damage(events, _LEDGER, _LOSSES, _MISSING).holes
    assert holes.select("thread", "low", "high").sort("thread").rows() == [(0, 100, 200), (1, 100, 200)]


def test_a_call_over_a_hole_loses_its_end_and_what_lies_behind_the_hole() -> None:
    events = _events(
        _call(dur_ns=90), _call(dur_ns=450), _packet(0, parent_offset=100), _packet(3, parent_offset=100),
        _call(dur_ns=90), _call(dur_ns=90),
    )  # fmt: skip
    opened = open_calls(events, find_damage(events, _LEDGER, _LOSSES, _MISSING)).filter(pl.col("name") != "gpu_agents")
    assert opened["dur_ns"].to_list() == [90, None, None, None, 90, 90]
    assert opened["flags"].to_list() == [0, int(Flag.ENTER_ONLY), 0, 0, 0, 0]
    assert opened["parent_offset"].to_list() == [None, None, 100, None, None, None]


def test_a_call_that_tells_its_duration_keeps_its_end() -> None:
    events = _events(
        _call(dur_ns=350, flags=int(Flag.SPAN_TOLD)), _packet(0, parent_offset=0), _packet(3, parent_offset=0)
    )
    assert open_calls(events, find_damage(events, _LEDGER, _LOSSES, _MISSING)).equals(events)


@pytest.mark.parametrize(
    ("half", "place"), [
        ([_call(flags=int(Flag.EXIT_ONLY))], [(200, 300)]),
        # HIP 7.2 prints no return of hipModuleLaunchKernel into a graph that is being captured.
        ([_call(flags=int(Flag.ENTER_ONLY))], []),
        ([_call(flags=int(Flag.ENTER_ONLY)), _packet(0)], [(300, 500)]),
        ([_call(flags=int(Flag.ENTER_ONLY)), {"layer": "command", "name": "Marker"}], [(300, 500)]),
        ([_call(flags=int(Flag.ENTER_ONLY)), {"layer": "command", "name": "complete"}], []),
        ([_call(flags=int(Flag.ENTER_ONLY)), _packet(0, thread=1)], []),
        # One that begins no other call of its name prints one line only.
        ([_call("hipGetDevice", flags=int(Flag.EXIT_ONLY))], []),
        ([_call("hipGetDevice", flags=int(Flag.ENTER_ONLY)), _packet(0)], []),
    ],
)  # fmt: skip
def test_a_call_of_which_one_line_is_there_is_a_hole(
    half: list[dict[str, object]], place: list[tuple[int, int]]
) -> None:
    rows = [_call(dur_ns=90), _call(dur_ns=90), _call(dur_ns=90), *half, _call(dur_ns=90)]
    assert find_damage(_events(*rows), _LEDGER, _LOSSES, _MISSING).holes.select("low", "high").rows() == place


def test_a_call_at_the_end_of_its_thread_is_no_damage() -> None:
    rows = [_call(dur_ns=90), _call(dur_ns=90), _call(flags=int(Flag.ENTER_ONLY)), _packet(0)]
    assert find_damage(_events(*rows), _LEDGER, _LOSSES, _MISSING).holes.is_empty()


def test_a_log_without_ends_of_calls_is_damaged_throughout() -> None:
    events = _events(*[_call(f"hip{n}", flags=int(Flag.ENTER_ONLY)) for n in range(5)])
    damage = find_damage(events, _LEDGER, _LOSSES, _MISSING)
    assert damage.throughout.to_list() == [0]
    assert list_losses(events, damage).select("from_ns", "to_ns", "count").rows() == [(-1, 400, None)]


@pytest.mark.parametrize(("recorded", "files"), [(False, [0]), (True, [])])
def test_a_log_of_two_writers_with_cut_lines_is_damaged_unless_their_writes_are_known(
    recorded: bool, files: list[int]
) -> None:
    write = {"layer": "syscall", "name": "write", "source": "ftrace", "file": 1}
    rows = [_packet(0, flags=int(Flag.TORN)), _packet(0, process=1)]
    rows += [{**write, "process": n} for n in (0, 1)] if recorded else []
    assert find_damage(_events(*rows), _LEDGER, _LOSSES, _MISSING).throughout.to_list() == files


def test_counts_behind_a_hole_are_dropped() -> None:
    events = _events(_packet(0, index_counted=True), _packet(1), _packet(5), _packet(6, index_counted=True))
    dropped = drop_counts(events, find_damage(events, _LEDGER, _LOSSES, _MISSING))
    assert dropped["packet_index"].to_list()[:4] == [0, 1, 5, None]


@pytest.mark.parametrize(("cpu", "flags"), [(0, int(Flag.ENTER_ONLY)), (1, 0)])
def test_a_system_call_over_what_its_cpu_lost_has_no_end(cpu: int, flags: int) -> None:
    events = _events({"layer": "syscall", "name": "ioctl", "source": "ftrace", "dur_ns": 90})
    losses = schema.LOSSES.conform(
        pl.DataFrame({"source": "ftrace", "cpu": cpu, "from_ns": 20, "to_ns": 30, "count": 4})
    )
    opened = open_calls(events, find_damage(events, _LEDGER, losses, _MISSING))
    assert opened["flags"][0] == flags
    assert opened["dur_ns"][0] == (None if flags else 90)


@pytest.mark.parametrize(
    ("rule", "thread", "evidence"), [
        ("packet_of_command", 0, "inferred"), ("packet_of_command", 7, "derived"), ("signal_dependency", 7, "inferred"),
        ("doorbell_of_packet", 0, "derived"),
    ],
)  # fmt: skip
def test_links_over_a_hole_by_order_or_handle_are_inferred(rule: str, thread: int, evidence: str) -> None:
    events = _events(
        {"layer": "command", "name": "Marker", "thread": thread},
        _packet(0),
        _packet(3),
        {"layer": "other", "name": "x", "thread": thread},
    )
    links = pl.DataFrame(
        {"from_event": [0], "to_event": [3], "rule": [rule], "evidence": ["derived"]},
        schema_overrides={"rule": CAT, "evidence": CAT},
    )
    found = limit_evidence(links, events, find_damage(events, _LEDGER, _LOSSES, _MISSING))
    assert found["evidence"].to_list() == [evidence]
