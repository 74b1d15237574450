"""Several processes and several runs in one file, and files that begin in the middle (synthetic logs)."""

from __future__ import annotations

import gzip
from pathlib import Path

import polars as pl
import pytest
import zstandard
from amdlog_cases import DISPATCH, Read, enter, leave, line, log, read
from hypothesis import given
from hypothesis import strategies as st

from tracecorr.model.errors import InputError
from tracecorr.model.kinds import Flag
from tracecorr.pipeline import correlate, import_files
from tracecorr.store import Capture

_ROCR = "[***rocr***] HWq=0x3, id=0, Barrier Header = 0x103 (type=3, barrier=1, acquire=0, release=0)"


def _spans(found: Read) -> list[tuple[str, int, int | None, int]]:
    columns = ("name", "stamp_ns", "end_stamp_ns", "flags")
    return [tuple(row[c] for c in columns) for row in found.rows(layer="hip")]  # type: ignore[misc]


def _run(start_us: int, *messages: str) -> str:
    return "".join(line(message, start_us + i) for i, message in enumerate(messages))


@pytest.mark.parametrize("block_bytes", [100, 4 << 20])
def test_a_run_that_was_appended_goes_on_with_nothing_of_the_one_before(block_bytes: int) -> None:
    # The first run is killed in hipSync; the machine boots again and gives out the same numbers.
    first = _run(9_000_000_000, enter("hipInit"), leave("hipInit"), "ShaderName : old(int)", enter("hipSync"))
    command = "Command (KernelExecution) enqueued: 0x5 to queue: 0x6"
    second = _run(7_000_000, leave("hipInit"), DISPATCH, leave("hipSync"), enter("hipSync"), command, leave("hipSync"))
    found = read(first + second, block_bytes)
    assert _spans(found) == [
        ("hipInit", 9_000_000_000_000, 9_000_000_001_000, 0),
        ("hipSync", 9_000_000_003_000, None, Flag.ENTER_ONLY),
        ("hipInit", 7_000_000_000, None, Flag.EXIT_ONLY),
        ("hipSync", 7_000_002_000, None, Flag.EXIT_ONLY),
        ("hipSync", 7_000_003_000, 7_000_005_000, 0),
    ]
    dispatch = found.one(name="dispatch")
    assert (dispatch["kernel"], dispatch["command"], dispatch["depth"]) == (None, None, 0)


@pytest.mark.parametrize("block_bytes", [100, 4 << 20])
def test_a_run_is_known_behind_lines_of_other_threads(block_bytes: int) -> None:
    first, second = _run(9_000_000_000, enter("hipA")), _run(7_000_001, "Free hsa memory 0x1")
    between = line("Free hsa memory 0x1", 7_000_000, "[pid:7 tid: 0x7f00000000b0] ")
    found = read(first + between + second, block_bytes)
    assert [row["depth"] for row in found.rows()] == [0, 0, 0]


def test_steps_back_that_are_no_new_run() -> None:
    # ROCr prints another clock; threads of a release without threads in the prefix overtake each other.
    rocr = line(_ROCR, 1_000_000)
    found = read(_run(9_000_000_000, enter("hipA")) + rocr + _run(9_000_000_009, leave("hipA")))
    assert found.one(name="hipA")["flags"] == 0
    text = (
        line(enter("hipA"), 5_000_000_100, " ") + line("init", 5_000_000_000, " ") + line(leave("hipA"), 5_000_000_200)
    )
    assert read(text.replace("[pid:7 tid: 0x7f00000000a0] ", " ")).one(name="hipA")["flags"] == 0


def test_processes_of_several_hosts_in_one_file_keep_their_calls() -> None:
    # Each host has its own uptime, so that the times of the file go to and fro.
    far = "[pid:8 tid: 0x7f00000000b0] "
    messages = [enter("hipA"), enter("hipB"), leave("hipB"), leave("hipA")]
    text = "".join(line(m, 9_000_000_000 + i) + line(m, 7_000_000 + i, far) for i, m in enumerate(messages))
    assert [row["flags"] for row in read(text).rows(layer="hip")] == [0] * 4


_MESSAGES = (
    enter("hipA"), leave("hipA"), enter("hipB"), leave("hipB"), "ShaderName : k(int)", DISPATCH, "Free hsa memory 0x1",
    "Command (KernelExecution) enqueued: 0x5 to queue: 0x6", enter("hipGetLastError"), "a new message 7",
)  # fmt: skip
_COLUMNS = (
    "name", "pid", "tid", "stamp_ns", "end_stamp_ns", "kernel", "command", "depth", "ring", "packet_index", "flags",
    "layer", "length",
)  # fmt: skip


@given(st.lists(st.tuples(st.integers(0, 2), st.sampled_from(_MESSAGES)), max_size=60), st.sampled_from([200, 4 << 20]))
def test_a_file_read_by_process_gives_the_rows_of_the_whole(lines: list[tuple[int, str]], block_bytes: int) -> None:
    threads = [f"[pid:{pid} tid: 0x7f00000000a{tid}] " for pid, tid in ((7, 0), (12345, 0), (8, 1))]
    records = [(who, line(m, 5_000_000_000 + i, threads[who])) for i, (who, m) in enumerate(lines)]
    whole = read("".join(text for _, text in records), block_bytes).events.select(_COLUMNS)
    parts = [read("".join(text for who, text in records if who == one)).events.select(_COLUMNS) for one in range(3)]
    assert whole.sort("stamp_ns").equals(pl.concat(parts).sort("stamp_ns"))


def test_a_file_that_was_cut_to_zero_begins_in_the_middle() -> None:
    # AMD_LOG_LEVEL_SIZE: all before is lost; a writer that keeps its place leaves a hole of NUL bytes.
    middle = log("ShaderName : k(int)", DISPATCH, leave("hipLaunchKernel"), enter("hipA"), leave("hipA"))
    for hole, reason in ((0, "nul_bytes"), (5, "program_output"), (300_000, "nul_bytes")):
        found = read(b"\0" * hole + middle.encode())
        assert [(row["name"], row["flags"]) for row in found.rows(layer="hip")] == [
            ("hipLaunchKernel", Flag.EXIT_ONLY), ("hipA", 0),
        ]  # fmt: skip
        assert (found.one(name="dispatch")["kernel"], found.one(name="dispatch")["parent_offset"]) == ("k(int)", None)
        assert {name: size for name, (_, size) in found.counts().items() if name != "used"} == (
            {reason: hole} if hole else {}
        )  # fmt: skip


@pytest.mark.parametrize("name", ["log.gz", "log.zst"])
def test_a_cut_compressed_file_says_so_or_books_what_it_holds(tmp_path: Path, name: str) -> None:
    text = "".join(log(enter("hipA"), leave("hipA")) for _ in range(3000)).encode()
    data = gzip.compress(text) if name.endswith("gz") else zstandard.ZstdCompressor().compress(text)
    (tmp_path / name).write_bytes(data[: len(data) // 2])
    try:
        import_files(tmp_path / "x.tracecorr", [tmp_path / name], [])
        correlate(tmp_path / "x.tracecorr")
    except InputError as error:
        assert name in str(error)
        return
    events = Capture.open(tmp_path / "x.tracecorr").table("events").collect()
    losses = Capture.open(tmp_path / "x.tracecorr").table("losses").collect()
    assert len(events) < 3000
    assert len(losses) > 0
