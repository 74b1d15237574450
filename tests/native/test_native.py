"""The compiled loops over lines give what plain Python gives, on any bytes, and touch nothing beside them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracecorr import native
from tracecorr.model.kinds import LAYERS, Flag
from tracecorr.native.binding import LIBRARY, checksum, load
from tracecorr.read.amdlog import tokens
from tracecorr.read.amdlog.calls import NO_EXIT, OPEN
from tracecorr.read.amdlog.messages import Kind
from tracecorr.read.byte_text import PAD, Codes, Text

_SOURCES = sorted(Path(native.__file__).parent.glob("*.[ch]"))
_LINES = st.lists(
    st.sampled_from(
        [b"", b"\r", b"a us:", b"12345 us: x", b":3:f:1: 123456789d us: y", b"1234 us:", b" us: us:", b"x" * 70]
    ),
    max_size=12,
).map(b"\n".join)


def _places(text: Text, places: list[int]) -> native.Ints:
    return np.array(places, np.int64) + text.start


@given(_LINES, st.sampled_from([b"", b"\n"]))
def test_lines_are_those_between_newlines(data: bytes, end: bytes) -> None:
    data += end
    text = Text(data)
    start, stop = text.lines()
    assert [data[i:j] for i, j in zip(start - PAD, stop - PAD, strict=True)] == data.removesuffix(b"\n").split(b"\n")[
        : len(start)
    ]
    assert len(start) == data.count(b"\n") + (not data.endswith(b"\n") and data != b"")


@given(st.lists(st.tuples(st.integers(0, 2**64 - 1), st.integers(0, 1000)), unique_by=lambda item: max(item[0], 1)))
def test_a_table_gives_back_what_was_put_into_it(items: list[tuple[int, int]]) -> None:
    table = native.HashTable()
    for first in range(0, len(items), 5):
        hashes, codes = zip(*items[first : first + 5], strict=True)
        table.add(np.array(hashes, np.uint64), np.array(codes))
    keys = np.array([key for key, _ in items] + [12345678901234567890], np.uint64)
    known = {max(key, 1): code for key, code in items}
    found, all_known = table.find(keys)
    assert found.tolist() == [known.get(max(int(key), 1), -1) for key in keys]
    assert all_known == (-1 not in found)


@given(st.lists(st.binary(max_size=40), min_size=1, max_size=30))
def test_equal_texts_have_equal_hashes_and_codes_and_others_do_not(texts: list[bytes]) -> None:
    data = b"".join(texts)
    ends = np.cumsum([len(one) for one in texts])
    text = Text(data)
    at, end = _places(text, [0, *ends[:-1].tolist()]), _places(text, ends.tolist())
    hashes = native.hash_spans(text.bytes, at, end).tolist()
    assert len(set(hashes)) == len(set(texts))
    codes = Codes(bytes)
    assert [codes.values[code] for code in codes.encode(text, at, end).tolist()] == texts


_STAMPS = st.lists(st.tuples(st.integers(0, 3), st.integers(-(2**62), 2**62), st.booleans()), max_size=20)


@given(_STAMPS)
def test_lanes_are_those_of_the_keys_and_times_that_lie_behind_are_told(rows: list[tuple[int, int, bool]]) -> None:
    types = (np.int32, np.int64, np.bool_)
    thread, stamp, is_rocr = (np.array([row[i] for row in rows], kind) for i, kind in enumerate(types))
    key_of, lane_now, last = np.array([0, 1, 1, 2]), np.array([5, 7, 9]), np.array([10, -20, 30])
    lane, now, (least, latest, behind) = native.set_lanes(
        thread.astype(np.int32), key_of, lane_now, stamp, is_rocr, last
    )
    assert lane.tolist() == lane_now[key_of[thread]].tolist()
    timed = [(int(key_of[row]), time) for row, time, left_out in rows if not left_out]
    assert now.tolist() == [([int(last[key])] + [time for own, time in timed if own == key])[-1] for key in range(3)]
    if timed:
        times = [time for _, time in timed]
        assert (least, latest) == (min(times), max(int(last[key]) for key, _ in timed))
        farthest = max(max(times[: i + 1]) - time for i, time in enumerate(times))
        assert behind == farthest or farthest >= 2**63
    else:
        assert least > latest


@pytest.mark.parametrize("place", [-(10**12), -1, 0, 7, 10**12])
def test_places_outside_of_the_bytes_fit_nothing(place: int) -> None:
    text = Text(b":3:a.cpp : 1 : 123456789 us: [pid:1 tid: 0x7f00000000a0] hipA ( ) \n")
    at = np.array([place, len(text.raw) - 4, 2**62])
    empty = native.hash_spans(text.bytes, at * 0, at * 0)
    assert native.hash_spans(text.bytes, at, at + 9).tolist() == empty.tolist()


def test_a_kernel_of_another_source_is_not_used(tmp_path: Path) -> None:
    kernel = tmp_path / "kernel.so"
    for path in (LIBRARY, *_SOURCES):
        shutil.copy(path, tmp_path)
    load(kernel)
    with (tmp_path / "bytes.h").open("ab") as header:
        header.write(b"\n")
    with pytest.raises(ImportError, match="built of other sources; install tracecorr again"):
        load(kernel)
    broken = tmp_path / "broken.so"
    broken.write_bytes(b"no library")
    with pytest.raises(ImportError, match="cannot be loaded"):
        load(broken)


def _records(rows: list[tuple[int, int, int]]) -> native.Records:
    """Return rows of (lane, kind, name) 10 bytes apart, a microsecond between each and the next."""
    lane, kind, name = np.array(rows, np.int64).reshape(-1, 3).T
    none, number = np.zeros(len(lane), np.bool_), np.arange(len(lane))
    columns = {"offset": 10 * number, "stamp": 1000 * number, "shared": none, "passed": none, "is_rocr": none}
    return native.Records(lane=lane, kind=kind, name=name, **columns)


_ROWS = st.lists(
    st.tuples(st.integers(0, 2), st.sampled_from([Kind.ENTER, Kind.EXIT, Kind.ROW]), st.integers(0, 2)), max_size=30
)


@given(_ROWS)
def test_calls_that_nest_are_joined_as_brackets_are(rows: list[tuple[int, int, int]]) -> None:
    records = _records(rows)
    partner, following, left, _ = records.pair_calls(np.zeros(len(rows), np.bool_))
    expected = np.full(len(rows), OPEN)
    for lane in range(3):
        stack: list[int] = []
        for row in (i for i, one in enumerate(rows) if one[0] == lane and one[1] != Kind.ROW):
            if stack and rows[row][1:] == (Kind.EXIT, rows[stack[-1]][2]) and rows[stack[-1]][1] == Kind.ENTER:
                enter = stack.pop()
                expected[row], expected[enter] = enter, row
            else:
                stack.append(row)
    assert partner.tolist() == expected.tolist()
    calls = [i for i, one in enumerate(rows) if one[1] != Kind.ROW]
    assert left.tolist() == [i for i in calls if expected[i] == OPEN]
    after = {i: next((j for j in calls if j > i and rows[j][0] == rows[i][0]), -1) for i in calls}
    assert following.tolist() == [after.get(i, -1) for i in range(len(rows))]


@given(_ROWS, st.sampled_from([15, 55, 1000]))
def test_a_call_encloses_what_follows_up_to_its_exit_or_the_next_call(
    rows: list[tuple[int, int, int]], wait_bytes: int
) -> None:
    records = _records(rows)
    partner, following, _, _ = records.pair_calls(np.zeros(len(rows), np.bool_))
    depth, parent = records.nest_calls(partner, wait_bytes)
    for row, (lane, _, _) in enumerate(rows):
        around = []
        for call, (of_lane, kind, _) in enumerate(rows[:row]):
            if of_lane != lane or kind != Kind.ENTER:
                continue
            waits = partner[call] >= 0 and 10 * (partner[call] - call) <= wait_bytes
            end = partner[call] if waits else following[call]
            if end < 0 or row < end:
                around.append(call)
        assert depth[row] == len(around)
        assert parent[row] == max(around, default=-1)


@pytest.mark.parametrize(
    ("rows", "shader", "kernarg", "command"),
    [
        ("E C S K D X", 2, 3, 1),
        ("E C S K X E D X", -1, -1, -1),  # a call between
        ("E S C K D X", -1, 3, 2),  # a command between the name and the dispatch
        ("S D D", 0, -1, -1),  # the second dispatch has no name
        ("S S D", 1, -1, -1),
    ],
)
def test_what_stands_before_a_dispatch_in_its_call_belongs_to_it(
    rows: str, shader: int, kernarg: int, command: int
) -> None:
    kinds = {"E": Kind.ENTER, "X": Kind.EXIT, "C": Kind.COMMAND, "S": Kind.SHADER, "K": Kind.KERNARG, "D": Kind.PACKET}
    records = _records([(0, kinds[row], 0) for row in rows.split()])
    last = max(i for i, row in enumerate(rows.split()) if row == "D")
    is_dispatch = np.array([row == "D" for row in rows.split()])
    kernel, pointer = np.arange(len(is_dispatch), dtype=np.int32), np.arange(len(is_dispatch), dtype=np.uint64)
    found = records.fold(is_dispatch, kernel, pointer)
    if rows != "S D D":
        assert [int(column[last]) for column in found[:3]] == [shader, kernarg, command]
    else:
        assert found[0].tolist() == [-1, 0, -1]
    # What the name and the command say is the packet's, too.
    assert kernel.tolist() == [row if name < 0 else name for row, name in enumerate(found[0].tolist())]
    assert pointer.tolist() == [row if before < 0 else before for row, before in enumerate(found[2].tolist())]


@given(
    st.lists(st.tuples(st.integers(0, 10), st.integers(-2, 29), *[st.booleans()] * 3), max_size=30),
    st.booleans(),
)
def test_what_becomes_an_event_is_listed(rows: list[tuple[int, int, bool, bool, bool]], is_last: bool) -> None:
    records = _records([(0, row[0], 0) for row in rows])
    partner = np.array([min(row[1], len(rows) - 1) for row in rows], np.int64)
    done, waiting, held = (np.array([row[i] for row in rows], np.bool_) for i in (2, 3, 4))
    shader = np.array([i - 1 if row[1] % 3 == 0 else -1 for i, row in enumerate(rows)], np.int64)
    is_simple = np.zeros(16, np.bool_)
    is_simple[[Kind.ROW, Kind.PACKET]] = True

    def is_event(row: int) -> bool:
        kind = rows[row][0]
        if kind == Kind.SHADER:
            return not waiting[row] and row not in shader
        if kind == Kind.EXIT:
            return int(partner[row]) == NO_EXIT
        if kind == Kind.ENTER:
            return is_last or int(partner[row]) != OPEN
        return bool(is_simple[kind]) and not done[row]

    found = records.list_events(is_simple, done, partner, shader, waiting, held, is_last=is_last)
    assert found.tolist() == [row for row in range(len(rows)) if is_event(row) and not held[row]]


_FLAGS = {
    "IS_TORN": tokens.IS_TORN, "IS_ROCR": tokens.IS_ROCR, "IS_INCOMPLETE": tokens.IS_INCOMPLETE,
    "FLAG_TORN": int(Flag.TORN), "FLAG_CUT": int(Flag.CUT), "HIP_LAYER": LAYERS.index("hip"),
}  # fmt: skip


def test_vocabularies_are_those_of_python() -> None:
    source = "".join(path.read_text() for path in _SOURCES)
    kinds = re.search(r"enum \{ (OTHER, .*?) \}; /\* `messages.Kind`", source)
    assert kinds
    assert {name: getattr(Kind, name) for name in kinds[1].split(", ")} == {
        name: number for number, name in enumerate(kinds[1].split(", "))
    }
    assert f"enum {{ OPEN = {OPEN}, NO_EXIT = {NO_EXIT} }};" in source
    for name, values in _FLAGS.items():
        assert f"{name} = {values}" in source
    lists = re.search(r"enum { (TEXTS, .*?) };", source)
    assert lists
    assert lists[1].lower().split(", ") == list(tokens.LISTS)


_SANITIZED = """
import ctypes, sys
plain = ctypes.CDLL
ctypes.CDLL = lambda name, *a, **k: plain(sys.argv[1] if str(name).endswith("kernel.so") else name, *a, **k)
from random import Random
from fuzz_amd_log import check, damage
data = open(sys.argv[2], "rb").read()
for seed in range(30):
    random = Random(seed)
    check(damage(data, random), random.choice([300, 4000, 100_000]))
from pathlib import Path
from tracecorr.pipeline import correlate, import_files
for seed in range(3):
    log = Path(sys.argv[2]).with_name(f"{seed}.log")
    log.write_bytes(damage(data, Random(seed)) if seed else data)
    import_files(out := log.with_suffix(".tracecorr"), [log], [])
    correlate(out)
print("read", len(list(out.glob("views/*/*"))) > 0)
"""


def test_no_byte_beside_a_block_is_touched(tmp_path: Path, capture_log: Path) -> None:
    """Damaged logs are read, linked and drawn by a kernel that stops at each access outside of what was allocated."""
    compiler = shutil.which("gcc")
    runtime = compiler and subprocess.check_output([compiler, "-print-file-name=libasan.so"], text=True).strip()
    if not compiler or not runtime or not Path(runtime).is_absolute():
        pytest.skip("no gcc with its address sanitizer is installed")
    kernel = tmp_path / "sanitized.so"
    told = f'-DSOURCE_CHECKSUM="{checksum(LIBRARY.parent)}"'
    files = [str(path) for path in _SOURCES if path.suffix == ".c"]
    flags = [told, "-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-g", "-O1", "-fPIC", "-shared"]
    subprocess.run([compiler, *flags, "-o", str(kernel), *files], check=True)
    # Python and polars keep memory to their end, and bring allocators of their own.
    options = "detect_leaks=0:verify_asan_link_order=0"
    environment = {**os.environ, "LD_PRELOAD": runtime, "ASAN_OPTIONS": options, "PYTHONMALLOC": "malloc"}
    environment["PYTHONPATH"] = os.pathsep.join(sys.path)
    done = subprocess.run(
        [sys.executable, "-c", _SANITIZED, str(kernel), str(capture_log)],
        env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "read True\n"), done.stderr[-3000:]


@pytest.fixture
def capture_log(tmp_path: Path) -> Path:
    """Return a SYNTHETIC log."""
    from benchmarks.big_log import write_big_log

    path = tmp_path / "big.log"
    write_big_log(path, size_bytes=150_000)
    return path
