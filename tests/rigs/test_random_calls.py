"""Random HIP calls on the null GPU: the tables equal what the program wrote down and what the model did."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import polars as pl
import pytest
from rig import NullGpu, Run, capture_run, check_packets, check_threads

from tracecorr.clock.causal_pairs import LOG_STEP_NS

pytestmark = pytest.mark.nullgpu

_PROGRAM = Path(__file__).with_name("random_calls.py")
_INVALIDATED = 901  # hipErrorStreamCaptureInvalidated (HIP API, hip_runtime_api.h)
_JOURNAL = ["tid", "name", "start_ns", "end_ns", "status", "given", "what"]


@pytest.mark.parametrize(("seed", "steps", "threads", "gpus"), [(1, 400, 1, 2), (2, 200, 3, 2), (3, 250, 4, 1)])
def test_random_calls_are_in_the_tables_as_they_really_were(
    nullgpu: NullGpu, tmp_path: Path, seed: int, steps: int, threads: int, gpus: int
) -> None:
    _check_run(nullgpu, tmp_path, [], (seed, steps, threads), gpus)


@pytest.mark.parametrize(("seed", "steps", "threads", "gpus"), [(21, 200, 1, 2), (22, 120, 3, 2)])
def test_so_are_those_of_an_older_release(
    nullgpu: NullGpu, older_hip: Path, tmp_path: Path, seed: int, steps: int, threads: int, gpus: int
) -> None:
    """HIP 6.4 names neither the index of barriers nor the stream of commands."""
    shutil.copy(older_hip, tmp_path)
    # With interrupts it was seen to wait without end, in about one run of eight: the model wakes it by signals alone.
    setting = ["env", f"HIP_LIBRARY={tmp_path / older_hip.name}", "HSA_ENABLE_INTERRUPT=0"]
    run = _check_run(nullgpu, tmp_path, setting, (seed, steps, threads), gpus)
    launches = run.table("launches").filter(pl.col("kind").cast(pl.String) != "copy")
    bare = launches.filter(pl.col("wptr").is_null())
    assert set(bare["kind"].cast(pl.String)) <= {"barrier_and", "barrier_value"}
    assert launches["packet_index"].null_count() == 0 < bare.height


@pytest.mark.parametrize(("seed", "steps", "threads", "gpus"), [(41, 200, 1, 2), (42, 120, 3, 2)])
def test_so_are_those_without_direct_dispatch(
    nullgpu: NullGpu, tmp_path: Path, seed: int, steps: int, threads: int, gpus: int
) -> None:
    """Worker threads write the packets."""
    setting = ["env", "AMD_DIRECT_DISPATCH=0"]
    _check_run(nullgpu, tmp_path, setting, (seed, steps, threads), gpus, by_workers=True)


def _check_run(
    nullgpu: NullGpu, work: Path, setting: list[str], numbers: tuple[int, ...], gpus: int, *, by_workers: bool = False
) -> Run:
    """Run the program and compare the tables with its journal and the model; `setting` comes before its name."""
    shutil.copy(_PROGRAM, work)
    journal = work / "journal.json"
    program = [*setting, "python3", str(work / _PROGRAM.name), *map(str, numbers), str(journal)]
    run = capture_run(nullgpu, work, program, gpus=gpus)
    assert run.ended.status == 0, run.ended.err
    check_packets(run)
    check_threads(run)
    calls = _match_calls(run, json.loads(journal.read_text()))
    _check_calls(calls)
    _check_launches(run, calls, by_workers=by_workers)
    _check_ends(run, by_workers=by_workers)
    assert run.table("losses").is_empty()
    return run


def _match_calls(run: Run, journal: list[list[object]]) -> pl.DataFrame:
    """Return each call of the journal with its row of `events`: calls of a thread are in the same order in both."""
    written = pl.DataFrame(journal, schema=_JOURNAL, orient="row").sort("tid", "start_ns")
    events = run.table("events").filter(pl.col("layer").cast(pl.String) == "hip", pl.col("depth") == 0)
    found = events.with_columns(pl.col("name", "result").cast(pl.String)).sort("tid", "offset")
    found = found.filter(pl.col("name").is_in(written["name"].unique().implode()))
    assert found.select("tid", "name").rows() == written.select("tid", "name").rows()
    columns = ("event", "ts_ns", "dur_ns", "err_lo_ns", "err_hi_ns", "result")
    return pl.concat([written, found.select(columns)], how="horizontal")


def _check_calls(calls: pl.DataFrame) -> None:
    """Each row lies in the span of its call, within the error of its times, and tells the call's result."""
    begin, end = pl.col("ts_ns") + pl.col("err_hi_ns"), pl.col("ts_ns") + pl.col("dur_ns") - pl.col("err_lo_ns")
    assert calls.filter(begin < pl.col("start_ns")).is_empty()
    assert calls.filter(end > pl.col("end_ns") + LOG_STEP_NS).is_empty()
    told = calls.drop_nulls("result")
    assert ((told["status"] == 0) == (told["result"] == "hipSuccess")).all()
    # Launches that are captured, those on a stream whose capture broke, and hipGetLastError print no exit.
    silent = pl.col("what").is_in(["captured", "broken"])
    assert set(calls.filter(pl.col("dur_ns").is_null() & ~silent)["name"]) <= {"hipGetLastError"}
    broken = calls.filter(pl.col("what") == "broken")
    assert broken.filter((pl.col("status") != _INVALIDATED) | pl.col("dur_ns").is_not_null()).is_empty()


def _check_launches(run: Run, calls: pl.DataFrame, *, by_workers: bool) -> None:
    """Each launch has its one dispatch, on the stream that it was given; what is captured has none.

    A graph's branches have streams of HIP's own, and nothing is of a stream that is not there any more.
    """
    launches = run.table("launches").with_columns(pl.col("kind").cast(pl.String))
    streams = run.table("streams").select("stream", "handle", "create_event", "destroyed_ns")
    packets = launches.join(streams, on="stream", how="left").join(
        calls.select("what", "status", "given", call_event="event"), on="call_event"
    )
    assert packets.filter(pl.col("what") == "captured").is_empty()
    asked = calls.filter((pl.col("what") == "dispatch") & (pl.col("status") == 0))
    made = packets.filter((pl.col("what") == "dispatch") & (pl.col("kind") == "dispatch"))
    assert sorted(made["call_event"]) == sorted(asked["event"])
    assert made.filter((pl.col("given") != 0) & (pl.col("handle") != pl.col("given"))).is_empty()
    given = (pl.col("handle") == pl.col("given")) | (pl.col("given") == 0)
    branches = packets.filter((pl.col("what") == "graph") & ~given)
    assert branches["create_event"].null_count() == branches.height
    assert packets.filter(pl.col("call_ns") > pl.col("destroyed_ns")).is_empty()
    # No line is lost: only the barriers of queues that are deleted, or that a worker flushes, have no command.
    names = run.table("events").select(call_event="event", name=pl.col("name").cast(pl.String))
    without = launches.filter(pl.col("command_event").is_null()).join(names, on="call_event", how="left")
    assert set(without["kind"]) <= {"barrier_and"}
    assert set(without["name"]) <= {"hipStreamDestroy", "hipDeviceReset", *([None] if by_workers else [])}
    # A worker prints no ends of what nothing waits for before its process ends.
    assert by_workers or launches["complete_ns"].null_count() == without.height


def _check_ends(run: Run, *, by_workers: bool) -> None:
    """Nothing is noticed before the model ended it, and what waits begins after what it waits for has ended.

    Worker threads wait for each other by themselves.
    """
    launches = run.table("launches").drop_nulls("packet_index")
    rings = run.table("queues").select("queue", ring="hwq")
    truth = run.truth.filter(pl.col("type").is_in(["dispatch", "barrier", "vendor"]))
    ends = launches.join(rings, on="queue").join(
        truth.select("ring", true_ns="end_ns", packet_index="index"), on=["ring", "packet_index"]
    )
    # A ring that is given out again has its indexes twice.
    near = (pl.col("true_ns") - pl.col("packet_ns")).abs()
    ends = ends.sort(near).unique("event", keep="first")
    assert ends.height == launches.height
    assert ends.filter(pl.col("complete_ns") + LOG_STEP_NS < pl.col("true_ns")).is_empty()
    links = run.table("links").filter(pl.col("rule").cast(pl.String) == "signal_dependency")
    both = links.join(ends.select(from_event="event", first="true_ns"), on="from_event").join(
        ends.select(to_event="event", second="true_ns"), on="to_event"
    )
    assert by_workers or both.height > 0
    assert both.filter(pl.col("first") > pl.col("second")).is_empty()
