"""SYNTHETIC logs in the form of ROCm 7: what a handle of a stream names before it is made and after it is destroyed."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from tracecorr.pipeline import correlate, import_files
from tracecorr.store import Capture

_MAKE = ("hipStreamCreateWithFlags ( 0x7ffd10, 1 )", "hipStreamCreateWithFlags: Returned hipSuccess : stream:0x660")
_DESTROY = ("hipStreamDestroy ( stream:0x660 )", "hipStreamDestroy: Returned hipSuccess : ")
_GRAPH = ("hipGraphLaunch ( 0x50, stream:0x880 )", "hipGraphLaunch: Returned hipSuccess : ")
_LAUNCH = ("hipModuleLaunchKernel ( 0x55f9, 1, 1, 1, 64, 1, 1, 0, stream:0x660, 0x7f51, char array:<null> )",
           "hipModuleLaunchKernel: Returned hipSuccess : ")  # fmt: skip
_ERROR = ("hipStreamDestroy ( stream:0x660 )", "hipStreamDestroy: Returned hipErrorContextIsDestroyed : ")
_A, _B = "0x7f00000000a0", "0x7f00000000b0"

_Line = tuple[str, str]


def _calls(*calls: tuple[tuple[str, str], str], thread: str = _A) -> list[_Line]:
    """Return the lines of calls; each has a command on a handle, where one is given."""
    lines: list[_Line] = []
    for number, ((enter, leave), handle) in enumerate(calls):
        lines.append((thread, f"\x1b[32m {enter} \x1b[0m"))
        if handle:
            command = 0x7000 + 16 * number
            lines += [(thread, f"Command (KernelExecution) enqueued: {command:#x} to queue: {handle}"),
                      (thread, f"Command {command:#x} complete")]  # fmt: skip
        lines.append((thread, f"{leave}: duration: 9 us"))
    return lines


def _read(folder: Path, lines: list[_Line]) -> tuple[list[tuple[str, bool, bool]], pl.DataFrame]:
    """Return the call of each command, whether its stream shows its creation and its end, and the streams of 0x660."""
    prefix = ":4:{:<25}:{:<4}: {:010d} us: [pid:7 tid: {}] {}\n"
    text = "".join(prefix.format("command.cpp", 364, 5000000000 + 9 * i, *line) for i, line in enumerate(lines))
    (folder / "amd.log").write_text(text)
    out = folder / "log.tracecorr"
    import_files(out, [folder / "amd.log"], [])
    correlate(out)
    capture = Capture.open(out)
    events, streams = capture.table("events").collect(), capture.table("streams").collect()
    events = events.with_columns(pl.col("name", "layer").cast(pl.String))
    commands = events.filter(pl.col("name") == "KernelExecution").join(streams, on="stream", how="left")
    commands = commands.join(events.select(parent="event", call="name"), on="parent").sort("event")
    shown = commands.select(
        "call", made=pl.col("create_event").is_not_null(), gone=pl.col("destroyed_ns").is_not_null()
    )
    assert commands["handle"].null_count() == 0
    return shown.rows(), streams.filter(pl.col("handle") == 0x660)


def test_a_destroyed_handle_names_the_stream_no_more(tmp_path: Path) -> None:
    """HIP's own streams, which work on branches of a graph, get addresses that were of the program's streams."""
    first, graph, second = (_LAUNCH, "0x660"), (_GRAPH, "0x660"), (_LAUNCH, "0x660")
    lines = _calls((_MAKE, ""), first, (_DESTROY, "0x660"), graph, (_MAKE, ""), second)
    found, streams = _read(tmp_path, lines)
    assert found == [
        ("hipModuleLaunchKernel", True, True), ("hipStreamDestroy", True, True), ("hipGraphLaunch", False, False),
        ("hipModuleLaunchKernel", True, False),
    ]  # fmt: skip
    assert streams.height == 3


def test_a_handle_names_another_stream_before_it_is_made(tmp_path: Path) -> None:
    found, streams = _read(tmp_path, _calls((_GRAPH, "0x660"), (_MAKE, ""), (_LAUNCH, "0x660"), (_DESTROY, "")))
    assert found == [("hipGraphLaunch", False, False), ("hipModuleLaunchKernel", True, True)]
    assert streams.height == 2


def test_an_end_belongs_to_one_life(tmp_path: Path) -> None:
    """Where the line that ended a stream is missing, that of the next stream of its handle is not taken for it."""
    _, streams = _read(tmp_path, _calls((_MAKE, ""), (_LAUNCH, "0x660"), (_MAKE, ""), (_DESTROY, "")))
    assert [x is not None for x in streams.sort("created_ns")["destroyed_ns"]] == [False, True]


@pytest.mark.parametrize("end", [_ERROR, (_DESTROY[0], "hipModuleLoad: Returned hipSuccess : ")])
def test_what_is_not_known_to_be_destroyed_lives_on(end: tuple[str, str], tmp_path: Path) -> None:
    found, _ = _read(tmp_path, _calls((_MAKE, ""), (end, ""), (_LAUNCH, "0x660")))
    assert [made for _, made, _ in found] == [True]


def test_a_refused_destruction_ends_no_stream(tmp_path: Path) -> None:
    made = [(_MAKE, ""), (_LAUNCH, "0x660"), (_ERROR, "")]
    (tmp_path / "refused").mkdir()
    (tmp_path / "again").mkdir()
    _, refused = _read(tmp_path / "refused", _calls(*made))
    _, again = _read(tmp_path / "again", _calls(*made, (_DESTROY, "")))
    assert refused["destroyed_ns"].to_list() == [None]
    assert (again["destroyed_ns"] - again["created_ns"]).to_list() == [63_000]


def test_an_address_is_given_again_before_the_end_of_its_stream_is_printed(tmp_path: Path) -> None:
    destroy = _calls((_DESTROY, ""))
    made = _calls((_MAKE, ""), thread=_B)
    lines = [*_calls((_MAKE, "")), destroy[0], *made, destroy[1], *_calls((_LAUNCH, "0x660"), thread=_B)]
    found, streams = _read(tmp_path, lines)
    assert found == [("hipModuleLaunchKernel", True, False)]
    assert streams.height == 2


_RESET = ("hipDeviceReset (  )", "hipDeviceReset: Returned hipSuccess : ")
_FAILED_RESET = (_RESET[0], "hipDeviceReset: Returned hipErrorInvalidValue : ")
_CHOOSE = ("hipSetDevice ( 1 )", "hipSetDevice: Returned hipSuccess : ")
_ONE_GPU = (_A, "Initializing runtime stack, Enumerated GPU agents = 1")
_TWO_GPUS = (_A, "Initializing runtime stack, Enumerated GPU agents = 2")


def _count_ended(folder: Path, lines: list[_Line]) -> list[bool]:
    return _read(folder, lines)[1].sort("created_ns")["destroyed_ns"].is_not_null().to_list()


def test_a_reset_of_the_device_ends_the_streams_that_were_made_before(tmp_path: Path) -> None:
    launch = (_LAUNCH, "0x660")
    lines = _calls((_MAKE, ""), launch, (_RESET, ""), (_MAKE, ""), launch)
    assert _count_ended(tmp_path, lines) == [True, False]


@pytest.mark.parametrize(
    ("calls", "ended"),
    [([_FAILED_RESET], False), ([_CHOOSE, _RESET], False), ([_RESET], True), ([_DESTROY, _RESET], True)],
)
def test_a_reset_ends_no_stream_that_may_be_of_another_device(
    tmp_path: Path, calls: list[tuple[str, str]], ended: bool
) -> None:
    lines = [_TWO_GPUS, *_calls((_MAKE, ""), (_LAUNCH, "0x660"), *((call, "") for call in calls))]
    assert _count_ended(tmp_path, lines) == [ended]


def test_a_reset_of_the_only_device_ends_streams_whichever_was_chosen(tmp_path: Path) -> None:
    lines = [_ONE_GPU, *_calls((_CHOOSE, ""), (_MAKE, ""), (_LAUNCH, "0x660"), (_RESET, ""))]
    assert _count_ended(tmp_path, lines) == [True]


def test_a_stream_with_a_cu_mask_is_made_like_others(tmp_path: Path) -> None:
    """What it is given behind the handle is a mask, neither flags nor a priority."""
    make = ("hipExtStreamCreateWithCUMask ( 0x7ffd10, 2, 3 )",
            "hipExtStreamCreateWithCUMask: Returned hipSuccess : stream:0x660")  # fmt: skip
    _, streams = _read(tmp_path, _calls((make, ""), (_DESTROY, ""), (make, "")))
    assert streams["destroyed_ns"].is_null().to_list() == [False, True]
    assert streams.select("flags", "priority").rows() == [(None, None)] * 2
    assert streams["create_event"].null_count() == 0
