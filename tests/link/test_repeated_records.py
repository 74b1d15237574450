"""Traces that overlap: their common records count once; REAL traces cut in pieces, and SYNTHETIC ones."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import polars as pl
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tracecorr.model.reasons import REPEATED_TRACE
from tracecorr.pipeline import correlate, import_files
from tracecorr.store.capture import Capture


@dataclass
class _Recording:
    """Hold a recorded capture, the lines of its trace and what its tables tell."""

    folder: Path
    out: Path
    head: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        text = (self.folder / "ftrace.txt").read_text().splitlines(keepends=True)
        self.head = [line for line in text if line.startswith("#")]
        self.lines = [line for line in text if not line.startswith("#")]
        self.cpus = [line.partition("[")[2][:3] for line in self.lines]
        self.whole = _count(self.load([(0, len(self.lines))]))

    def load(self, cuts: list[tuple[int, int]], *more: Path) -> Capture:
        """Import pieces of the trace."""
        paths = []
        for number, (begin, end) in enumerate(cuts):
            paths.append(self.out / f"piece{number}.txt")
            paths[-1].write_text("".join(self.head + self.lines[begin:end]))
        return _import(self.out / "x.tracecorr", [self.folder / "amd.log"], [*paths, *more], self.folder / "clock.json")


def _import(out: Path, logs: list[Path], traces: list[Path], samples: Path | None = None, **more: str) -> Capture:
    capture = import_files(out, logs, traces, clock_samples=samples, force=True, **more)  # type: ignore[arg-type]
    correlate(capture.path)
    return Capture.open(out)


def _count(capture: Capture) -> list[list[tuple[object, ...]]]:
    """Return how many events, links and launches of each kind there are, and the queues."""
    keys = {
        "events": ["name", "layer", "result", pl.col("flags") & 3, pl.col("dur_ns").is_null().alias("open"), "depth",
                   pl.col("parent").is_null()],
        "links": ["rule", "evidence"],
        "launches": ["kind", "doorbell_evidence", "unlinked_reason"],
        "queues": ["hwq", "created_ns", "destroyed_ns", "kfd_queue_id", "known_from", "dispatches"],
        "losses": ["source", "cpu", "count"],
    }  # fmt: skip
    tables = {name: capture.table(name).with_columns(pl.col(pl.Categorical).cast(pl.String)) for name in keys}
    rows = [tables[name].group_by(key).len().collect().rows() for name, key in keys.items()]
    return [sorted(found, key=repr) for found in rows]


def _check_ledger(capture: Capture) -> dict[str, int]:
    """Return the records of each outcome of traces; the bytes of each file must add up."""
    ledger = capture.table("ledger").with_columns(pl.col(pl.Categorical).cast(pl.String)).collect()
    sizes = capture.table("files").collect().select("file", "size")
    sums = ledger.group_by("file").agg(pl.col("bytes").sum())
    assert sizes.join(sums, on="file").filter(pl.col("size") != pl.col("bytes")).is_empty()
    assert ledger.filter((pl.col("records") < 0) | (pl.col("bytes") < 0)).is_empty()
    traces = ledger.filter(pl.col("source") == "ftrace")
    kinds = pl.when(pl.col("reason") == REPEATED_TRACE).then("reason").otherwise("outcome")
    return dict(traces.group_by(kinds.alias("kind")).agg(pl.col("records").sum()).rows())


@pytest.fixture(scope="module")
def recording(data_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[_Recording]:
    """Return a small recorded trace with functions of the kernel."""
    yield _Recording(data_folder / "captures" / "kfd-6.12-t1", tmp_path_factory.mktemp("pieces"))


@pytest.mark.parametrize("turned", [False, True])
@settings(max_examples=6, derandomize=True)
@given(share=st.floats(0, 1), size=st.floats(0, 1))
def test_two_pieces_that_overlap_import_like_the_whole(
    recording: _Recording, turned: bool, share: float, size: float
) -> None:
    total = len(recording.lines)
    begin = 1 + int(share * (total - 3))
    end = begin + 1 + int(size**3 * (total - begin - 2))
    # Where a CPU shows nothing in both, its records may lack between the pieces.
    assume(set(recording.cpus[begin:end]) == set(recording.cpus))
    cuts = [(0, end), (begin, total)]
    capture = recording.load(cuts[::-1] if turned else cuts)
    assert _count(capture) == recording.whole
    assert _check_ledger(capture) == {"used": total, REPEATED_TRACE: end - begin}


def test_three_pieces_count_once_and_are_told(recording: _Recording) -> None:
    total = len(recording.lines)
    capture = recording.load([(0, 2000), (1500, 3000), (1000, total)])
    assert _count(capture) == recording.whole
    assert _check_ledger(capture) == {"used": total, REPEATED_TRACE: 3500 + total - 1000 - total}


def test_pages_and_a_piece_as_text_of_one_recording_count_once(data_folder: Path, tmp_path: Path) -> None:
    """A text rounds to a microsecond; the pages are what is kept."""
    folder = data_folder / "captures" / "streams-priority"
    lines = (folder / "ftrace.txt").read_text().splitlines(keepends=True)
    piece = tmp_path / "piece.txt"
    piece.write_text("".join(lines[:12] + lines[1500:2500]))
    traces = ([folder / "raw"], [piece, folder / "raw"])
    logs = [folder / "amd.log"]
    pages, both = (_import(tmp_path / f"{len(t)}.tracecorr", logs, t, folder / "clock.json") for t in traces)
    assert _count(both) == _count(pages)
    assert _check_ledger(both)[REPEATED_TRACE] == 1000


def _line(stamp: int, text: str, *, tid: int = 7, cpu: int = 0) -> str:
    return f"              t1-{tid}     (    {tid}) [{cpu:03}] .....    24.{stamp:06}: {text}\n"


def _load(folder: Path, *traces: list[str], clock: str = "mono") -> Capture:
    """Import SYNTHETIC traces."""
    paths = [folder / f"{number}.txt" for number in range(len(traces))]
    for path, lines in zip(paths, traces, strict=True):
        path.write_text("# tracer: nop\n" + "".join(lines))
    return _import(folder / "x.tracecorr", [], paths, clock=clock)


def _list_events(capture: Capture) -> list[tuple[str, int, int | None, int]]:
    """Return name, microsecond, duration and half of each row."""
    rows = capture.table("events").select(
        pl.col("name").cast(pl.String),
        pl.col("stamp_ns") // 1000 % 10**6,
        pl.col("dur_ns") // 1000,
        pl.col("flags") & 3,
    )
    return rows.collect().rows()


_FENCES = [_line(5, f"dma_fence_signaled: driver=amdgpu timeline=sdma0 context=1 seqno={n}") for n in range(4)]
_OPEN = [_line(n, "sys_close(fd: 3)", tid=n) for n in (1, 2, 3)]


@pytest.mark.parametrize(
    ("first", "second", "count"),
    [
        (_FENCES[:3], _FENCES[1:], 4),
        (_FENCES[1:], _FENCES[:2], 4),
        ([*_FENCES, _FENCES[0]], [_FENCES[0], *_OPEN], 8),
        ([_line(5, "sched_process_exit: comm=a pid=7 prio=1"), *_OPEN], [_line(5, "x: a=1"), *_OPEN[1:]], 5),
        ([_line(5, "sys_close(fd: 3)"), *_OPEN], [_line(5, "sys_close(fd: 4)"), *_OPEN[1:]], 5),
        ([_line(5, "sys_close(fd: 3)"), *_OPEN], [_line(5, "sys_close(fd: 3)", cpu=1), *_OPEN[1:]], 5),
        ([_line(5, "sys_close(fd: 3)"), *_OPEN], [_line(5, "sys_close(fd: 3)"), *_OPEN[1:], _line(9, "x: a=1")], 5),
    ],
)
def test_a_record_is_the_same_where_all_that_it_says_is(
    tmp_path: Path, first: list[str], second: list[str], count: int
) -> None:
    """Two instances may see different hits of one thread in one microsecond."""
    assert len(_list_events(_load(tmp_path, first, second))) == count


def test_without_a_clock_nothing_is_known_to_be_the_same_and_it_is_said(tmp_path: Path) -> None:
    lines = [_line(n, f"sys_close(fd: {n})") for n in range(400)]
    capture = _load(tmp_path, lines[:220], lines[180:], clock="auto")
    assert len(_list_events(capture)) == 440
    assert any("hold the same records (40)" in text and "--ftrace-clock" in text for text in capture.info["warnings"])
    named = _load(tmp_path, lines[:220], lines[180:])
    assert len(_list_events(named)) == 400
    assert "raw/ftrace/1-1.txt: 40 of its records are in another trace, too: they count once" in named.info["warnings"]


_CALL = [
    _line(10, "sys_close(fd: 9)", tid=8),
    _line(12, "sys_ioctl(fd: 3, cmd: 0xc0584b02, arg: 7ff)"),
    _line(14, "sys_close(fd: 8)", tid=8, cpu=1),
    _line(15, "sys_close -> 0x0", tid=8, cpu=1),
    _line(16, "sys_close(fd: 8)", tid=8),
    _line(20, "sys_ioctl -> 0x0"),
    _line(25, "sys_close(fd: 9)", tid=8),
]
_IOCTL = "AMDKFD_IOC_CREATE_QUEUE"


def test_half_of_a_span_goes_where_another_piece_holds_it_whole(tmp_path: Path) -> None:
    for number, pieces in enumerate(((_CALL[:5], _CALL[1:]), (_CALL[:6], _CALL[2:]))):
        (tmp_path / str(number)).mkdir()
        found = _list_events(_load(tmp_path / str(number), *pieces))
        assert [row for row in found if row[0] != "close"] == [(_IOCTL, 12, 8, 0)]


_LOST = "CPU:1 [LOST 3 EVENTS]\n"


@pytest.mark.parametrize(
    ("first", "second", "is_whole"),
    [
        (_CALL[:5], _CALL[2:], True),
        # Of CPU 1 nothing shows that the second piece has all since the first one.
        (_CALL[:5], [*_CALL[4:], _line(30, "sys_close(fd: 9)", tid=9, cpu=1)], False),
        (_CALL[:3], _CALL[4:], False),
        ([*_CALL[:3], _LOST, *_CALL[3:5]], [_CALL[2], _LOST, *_CALL[3:]], False),
    ],
)
def test_a_call_over_both_pieces_is_whole_where_nothing_lacks_between_them(
    tmp_path: Path, first: list[str], second: list[str], is_whole: bool
) -> None:
    found = [row for row in _list_events(_load(tmp_path, first, second)) if row[0] != "close"]
    assert found == ([(_IOCTL, 12, 8, 0)] if is_whole else [(_IOCTL, 12, None, 1), ("ioctl", 20, None, 2)])


def test_a_loss_that_both_traces_tell_counts_once(tmp_path: Path) -> None:
    first = [*_CALL[:3], _LOST, *_CALL[3:5]]
    capture = _load(tmp_path, first, [_LOST, *_CALL[3:]])
    assert capture.table("losses").select("cpu", "count").collect().rows() == [(1, 3)]
    assert _check_ledger(capture)["lost"] == 3
