"""SYNTHETIC logs in the form of ROCm 6.4: commands name no stream, the calls that enqueue them are given one."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from tracecorr.link.streams import name_null_stream
from tracecorr.pipeline import correlate, import_files
from tracecorr.store import Capture

_LAUNCH = "\x1b[32m hipLaunchKernel ( 0x55f9, {1,1,1}, {64,1,1}, 0x7f51, 0, stream:%s ) \x1b[0m"
_GRAPH = "\x1b[32m hipGraphLaunch ( 0x50, stream:0x660 ) \x1b[0m"
_LEAVE = "%s: Returned hipSuccess : : duration: 9 us"


def _command(kind: str, pointer: int) -> str:
    return f"Command ({kind}) enqueued: {pointer:#x}"


def _packet(kind: str, index: int, ring: int = 0x3C00000) -> str:
    head = {
        "dispatch": "Dispatch Header = 0xb02 (type=2), setup=1",
        "barrier_and": "BarrierAND Header = 0x1503 (type=3)",
    }
    return f"SWq=0x22, HWq={ring:#x}, id=1, {head[kind]}, rptr=0, wptr={index}"


def _streams(folder: Path, *messages: str) -> list[tuple[str, int | None, str | None]]:
    """Return kind, handle of the stream, and evidence of the stream's queue, of each packet."""
    prefix = ":4:{:<25}:{:<4}: {:010d} us: [pid:7 tid: 0x7f00000000a0] {}\n"
    text = "".join(prefix.format("rocvirtual.cpp", 965, 5000000000 + 9 * i, m) for i, m in enumerate(messages))
    (folder / "amd.log").write_text(text)
    out = folder / "log.tracecorr"
    import_files(out, [folder / "amd.log"], [])
    correlate(out)
    capture = Capture.open(out)
    handles = capture.table("streams").select("stream", "handle")
    edges = capture.table("stream_queues").select("stream", "queue", pl.col("evidence").cast(pl.String))
    launches = capture.table("launches").select("event", pl.col("kind").cast(pl.String), "stream", "queue")
    found = launches.join(handles, on="stream", how="left").join(edges, on=["stream", "queue"], how="left")
    return found.sort("event").select("kind", "handle", "evidence").collect().rows()


def test_a_dispatch_is_of_the_stream_that_its_call_was_given(tmp_path: Path) -> None:
    """A marker in front of it may be of another stream, for which the launch waits."""
    wait = (_command("InternalMarker", 0x77), _packet("barrier_and", 0))
    kernel = (_command("KernelExecution", 0x55), _packet("dispatch", 1))
    found = _streams(tmp_path, _LAUNCH % "0x660", *wait, *kernel, _LEAVE % "hipLaunchKernel")
    assert found == [("barrier_and", None, None), ("dispatch", 0x660, "derived")]


def test_the_null_stream_has_a_handle_of_its_own(tmp_path: Path) -> None:
    kernel = (_command("KernelExecution", 0x55), _packet("dispatch", 0))
    assert _streams(tmp_path, _LAUNCH % "<null>", *kernel, _LEAVE % "hipLaunchKernel") == [("dispatch", 1, "derived")]


@pytest.mark.parametrize("first", ["0x660", "<null>"])
def test_what_a_command_names_goes_before_what_its_call_was_given(first: str, tmp_path: Path) -> None:
    """ROCm 7.0 prints both; the null stream is shown by its own handle."""
    kernel = (_command("KernelExecution", 0x55) + " to queue: 0x770", _packet("dispatch", 0))
    found = _streams(tmp_path, _LAUNCH % first, *kernel, _LEAVE % "hipLaunchKernel")
    assert found == [("dispatch", 0x770, "recorded")]
    handles = Capture.open(tmp_path / "log.tracecorr").table("streams").collect()["handle"].to_list()
    assert handles == ([0x660, 0x770] if first == "0x660" else [0x770])


def test_what_a_graph_launch_enqueues_may_be_of_any_stream(tmp_path: Path) -> None:
    kernel = (_command("KernelExecution", 0x55), _packet("dispatch", 0))
    assert _streams(tmp_path, _GRAPH, *kernel, _LEAVE % "hipGraphLaunch") == [("dispatch", None, None)]


def test_a_call_that_lost_its_end_gives_no_stream(tmp_path: Path) -> None:
    """The next call's enter may be lost as well: the dispatch may be of that one."""
    kernel = (_command("KernelExecution", 0x55), _packet("dispatch", 0))
    whole = (_LAUNCH % "0x660", *kernel, _LEAVE % "hipLaunchKernel")
    late = (_command("KernelExecution", 0x99), _packet("dispatch", 1))
    found = _streams(tmp_path, *whole, _LAUNCH % "0x880", *late, *whole)
    assert found[1] == ("dispatch", None, None)


def test_a_copy_that_waits_is_of_the_null_stream(tmp_path: Path) -> None:
    """Its call is given no stream; its marker, and the copy of a call that is given one, are not."""
    copy = "HSA Async Copy on copy_engine=0x1, dst=0x10, src=0x20, size=64, forceSDMA=0, wait_event=0x0"
    copied = (_command("CopyHostToDevice", 0x55), f"{copy}, completion_signal=0x7f3b00")
    wait = (_command("InternalMarker", 0x77), _packet("barrier_and", 0))
    given = "0x7f51, 0x7f52, 64, hipMemcpyHostToDevice"
    found = _streams(
        tmp_path, f"\x1b[32m hipMemcpy ( {given} ) \x1b[0m", *copied, *wait, _LEAVE % "hipMemcpy",
        f"\x1b[32m hipMemcpyAsync ( {given}, stream:0x660 ) \x1b[0m", *copied, _LEAVE % "hipMemcpyAsync",
    )  # fmt: skip
    assert found == [("copy", 1, None), ("barrier_and", None, None), ("copy", 0x660, None)]


@pytest.mark.parametrize(("other", "handles"), [("", [1]), ("0x990", [1, 0x880, 0x990])])
def test_the_null_stream_is_one_stream_though_a_marker_names_it_otherwise(
    other: str, handles: list[int], tmp_path: Path
) -> None:
    """With two such handles one may be of a stream that was made before the log began."""
    wait = ("\x1b[32m hipStreamSynchronize ( stream:<null> ) \x1b[0m", "Queue marker to command queue: 0x880")
    more = (f"Queue marker to command queue: {other}",) if other else ()
    _streams(tmp_path, *wait, *more, "hipStreamSynchronize: Returned hipSuccess : ")
    streams = Capture.open(tmp_path / "log.tracecorr").table("streams").collect()
    assert sorted(streams["handle"]) == handles


@pytest.mark.parametrize(
    ("call", "inside", "stream"),
    [
        pytest.param({"name": "hipMemcpy"}, {}, 0x1, id="a copy that waits"),
        pytest.param({"name": "hipMemcpyAsync"}, {}, None, id="a call that may be given a stream"),
        pytest.param({"name": "hipMemcpy", "stream": 0x70}, {}, 0x70, id="it was given one"),
        pytest.param({"name": "hipMemcpy", "layer": "roctx"}, {}, None, id="a range of that name"),
        pytest.param({"name": "hipMemcpy"}, {"stream": 0x50}, None, id="the command names its stream"),
        pytest.param({"name": "hipMemcpy"}, {"layer": "aql", "name": "dispatch"}, None, id="no command"),
        pytest.param({"name": "hipMemcpy"}, {"name": "complete"}, None, id="the end of a command"),
    ],
)
def test_a_call_whose_command_names_no_stream_is_of_the_null_stream(
    call: dict[str, object], inside: dict[str, object], stream: int | None
) -> None:
    """HAND-MADE rows."""
    command = {"event": 1, "parent": 0, "layer": "command", "name": "CopyHostToDevice", "stream": None}
    rows = [{"event": 0, "parent": None, "layer": "hip", "stream": None, **call}, {**command, **inside}]
    types = {
        "event": pl.Int64,
        "parent": pl.Int64,
        "layer": pl.Categorical,
        "name": pl.Categorical,
        "stream": pl.UInt64,
    }
    named = name_null_stream(pl.DataFrame(rows, schema=types))
    assert named["stream"].to_list() == [stream, inside.get("stream")]
