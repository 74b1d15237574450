"""A rocpd database beside the log of the same run: its clock is derived, its kernels and copies find their packets.

The log, the calls and the GPU times are those of a RECORDED run of the null GPU; the database is SYNTHETIC, made of
them, on a clock that is SHIFT_NS ahead (a host that slept), with each call taking a little longer than the log says.
"""

from __future__ import annotations

import json
import random
from pathlib import Path

import polars as pl
import pytest

from tests.read.rocprof.rocpd_cases import Profile, sdk_json, write_rocpd
from tracecorr.model.kinds import Flag
from tracecorr.pipeline import correlate, import_files
from tracecorr.store import Capture

SHIFT_NS = 5_000_000_000


@pytest.fixture(scope="module")
def recorded(data_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Profile, pl.DataFrame]:
    """Return the folder of a run, a profile of it, and the times of its dispatches: hwq, packet_index, start, end."""
    folder = data_folder / "captures" / "streams-priority"
    plain = import_files(tmp_path_factory.mktemp("plain") / "x.tracecorr", [folder / "amd.log"], [])
    correlate(plain.path)
    truth = pl.read_csv(folder / "truth.csv").filter(pl.col("type") == "dispatch")
    truth = truth.with_columns(hwq=pl.col("queue_ring_base").str.slice(2).str.to_integer(base=16).cast(pl.UInt64))
    launches, queues = (
        plain.table("launches").collect(),
        plain.table("queues").select("queue", "log_id", "hwq").collect(),
    )
    names = plain.table("kernels").select("kernel", "name").collect()
    both = launches.join(queues, on="queue").join(names, on="kernel").join(truth, on=["hwq", "packet_index"])
    numbered = both.sort("packet_ns").with_row_index("number", 1)
    events = plain.table("events").filter(pl.col("layer") == "hip").collect()
    noise = random.Random(7)
    profile = Profile(pid=14446)
    for i, (name, start, duration) in enumerate(events.sort("offset").select("name", "ts_ns", "dur_ns").iter_rows()):
        before, after = noise.randint(300, 3000), noise.randint(1300, 4000)
        if duration is not None:
            times = start + SHIFT_NS - before, start + duration + SHIFT_NS + after
            profile.calls.append(("HIP_RUNTIME_API_EXT", 14446, i + 1, *times, name))
    places = {int(e): i + 1 for i, e in enumerate(events.sort("offset")["event"])}
    for row in numbered.iter_rows(named=True):
        times = row["start_mono_ns"] + SHIFT_NS, row["end_mono_ns"] + SHIFT_NS
        # Other numbers of queues than the log's: only their kernels tell which is which.
        profile.kernels.append(
            (14446, places.get(row["call_event"], 0), *times, row["log_id"] + 40, row["number"], row["name"])
        )
    copies = launches.filter((pl.col("kind") == "copy") & pl.col("size_bytes").is_not_null()).sort("packet_ns")
    for row in copies.iter_rows(named=True):
        start = row["packet_ns"] + SHIFT_NS + 100
        profile.copies.append((14446, 0, start, start + 5000, "MEMORY_COPY_HOST_TO_DEVICE", row["size_bytes"]))
    return folder, profile, both.select("hwq", "packet_index", "start_mono_ns", "end_mono_ns")


def imported(folder: Path, profile: Profile, out: Path, form: str = "db") -> tuple[Capture, list[str]]:
    """Import the log of the run with a profile and no clock samples, and return the capture and its warnings."""
    path = out.with_suffix(f".{form}")
    if form == "db":
        write_rocpd(path, profile)
    else:
        path.write_text(json.dumps(sdk_json(profile)))
    made = import_files(out, [folder / "amd.log"], [], rocprof=[path])
    return made, correlate(made.path)


def times_of_packets(capture: Capture) -> pl.DataFrame:
    """Return what rocprof timed of each linked packet: hwq, packet_index, ts_ns, dur_ns."""
    links = capture.table("links").filter(pl.col("rule") == "rocprof_of_packet")
    times = capture.table("events").select("flags", "ts_ns", "dur_ns", to_event="event")
    packets = capture.table("launches").join(capture.table("queues").select("queue", "hwq"), on="queue")
    packets = packets.select("hwq", "packet_index", from_event="event")
    return links.join(times, on="to_event").join(packets, on="from_event").collect()


@pytest.mark.parametrize("form", ["db", "json"])
def test_a_profile_is_put_on_the_clock_of_the_log_and_linked_to_its_packets(
    recorded: tuple[Path, Profile, pl.DataFrame], tmp_path: Path, form: str
) -> None:
    folder, profile, truth = recorded
    capture, warnings = imported(folder, profile, tmp_path / "x.tracecorr", form)
    assert not [w for w in warnings if "rocprof" in w]
    clock = capture.table("clock_map").filter(pl.col("source") == "rocprof:boot").collect().row(0, named=True)
    assert clock["method"] == "causal_pairs"
    # The tightest calls of the profile took 0.3 us more than the log says, the log's step is 1 us.
    assert clock["offset_ns"] - clock["lo_ns"] <= -SHIFT_NS <= clock["offset_ns"] + clock["hi_ns"]
    assert clock["lo_ns"] + clock["hi_ns"] < 10_000
    linked = times_of_packets(capture).join(truth, on=["hwq", "packet_index"])
    assert linked.height == truth.height == 101
    assert (linked["ts_ns"] - linked["start_mono_ns"]).abs().max() < 10_000
    assert (linked["dur_ns"] == linked["end_mono_ns"] - linked["start_mono_ns"]).all()
    copies = capture.table("launches").filter(pl.col("kind") == "copy").collect()
    assert copies.drop_nulls("gpu_event").height == len(profile.copies)


def test_calls_lead_to_their_kernels(recorded: tuple[Path, Profile, pl.DataFrame], tmp_path: Path) -> None:
    folder, profile, _ = recorded
    capture, _ = imported(folder, profile, tmp_path / "x.tracecorr")
    links = capture.table("links").filter(pl.col("rule") == "rocprof_correlation").collect()
    with_call = sum(1 for k in profile.kernels if k[1])
    assert links.height == with_call > 50
    events = capture.table("events").select("event", "name").collect()
    causes = links.join(events, left_on="from_event", right_on="event")["name"].cast(pl.String).unique().to_list()
    assert "hipLaunchKernel" in causes


def test_a_profile_of_other_calls_stays_unaligned(recorded: tuple[Path, Profile, pl.DataFrame], tmp_path: Path) -> None:
    folder, profile, _ = recorded
    calls = [(c[0], c[1], c[2], c[3], c[4], n[5]) for c, n in zip(profile.calls, reversed(profile.calls), strict=True)]
    capture, warnings = imported(folder, Profile(profile.pid, calls, profile.kernels), tmp_path / "x.tracecorr")
    assert any("rocprof:boot is UNALIGNED" in w and "0 HIP calls" in w for w in warnings)
    times = times_of_packets(capture)
    assert times.height == 101, "kernels are linked by their order, without a clock"
    assert (times["flags"] & int(Flag.UNALIGNED) > 0).all()


def test_another_run_with_the_same_calls_contradicts(
    recorded: tuple[Path, Profile, pl.DataFrame], tmp_path: Path
) -> None:
    """The same program run again makes the same calls, at other times: no one clock fits."""
    folder, profile, _ = recorded
    noise = random.Random(3)
    calls, shift = [], 0
    for c in profile.calls:
        shift += noise.randint(0, 400_000)
        calls.append((*c[:3], c[3] + shift, c[4] + shift, c[5]))
    _, warnings = imported(folder, Profile(profile.pid, calls), tmp_path / "x.tracecorr")
    assert any("rocprof:boot is UNALIGNED" in w and "contradict" in w for w in warnings)


def test_a_profile_alone_links_its_calls(tmp_path: Path) -> None:
    """SYNTHETIC tables of rocprofv3, without a log: the one of kernels names no process, as rocprofv3 writes it."""
    calls, kernels = tmp_path / "hip_api_trace.csv", tmp_path / "kernel_trace.csv"
    calls.write_text(
        '"Domain","Function","Process_Id","Thread_Id","Correlation_Id","Start_Timestamp","End_Timestamp"\n'
        '"HIP_RUNTIME_API_EXT","hipMalloc",7,7,1,1000,1100\n"HIP_RUNTIME_API_EXT","hipLaunchKernel",7,7,2,1200,1300\n'
    )
    kernels.write_text(
        '"Kind","Queue_Id","Thread_Id","Dispatch_Id","Kernel_Name","Correlation_Id","Start_Timestamp","End_Timestamp"\n'
        '"KERNEL_DISPATCH",1,7,1,"vadd(int)",2,1500,1900\n'
    )
    made = import_files(tmp_path / "x.tracecorr", [], [], rocprof=[calls, kernels])
    correlate(made.path)
    names = made.table("events").select("event", pl.col("name").cast(pl.String))
    links = made.table("links").join(names, left_on="from_event", right_on="event")
    found = links.select(pl.col("rule", "evidence").cast(pl.String), "name").collect()
    assert found.rows() == [("rocprof_correlation", "recorded", "hipLaunchKernel")]
