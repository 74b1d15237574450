"""HAND-MADE ends of logs: which of them go on with another one, and what is said of the others."""

from __future__ import annotations

from pathlib import Path

import pytest

from tracecorr.store.log_joining import Arrangement, arrange_logs, join_pieces

RING = 0x3C00000
BEGIN = "Initializing runtime stack, Enumerated GPU agents = 1"


def line(us: int, text: str, pid: int = 7, tid: int = 0x7FA8C5C4F880) -> str:
    return f":5:rocvirtual.cpp           :1177: {5_000_000_000 + us} us: [pid:{pid} tid: {tid:#x}] {text}\n"


def packets(start_us: int, *indexes: int | None, ring: int = RING, number: int = 1) -> str:
    """Return barriers, one each 10 us; where the index is None, in the form of ROCm 6.4, which prints none."""
    barrier = f"SWq=0x220000, HWq={ring:#x}, id={number}, BarrierAND Header = 0x1503 (type=3, barrier=1, acquire=2, "
    barrier += "release=2), dep_signal=[0x0, 0x0, 0x0, 0x0, 0x0], completion_signal=0x0"
    told = ["" if index is None else f", rptr=0, wptr={index}" for index in indexes]
    return "".join(line(start_us + 10 * place, barrier + end) for place, end in enumerate(told))


def arrange(folder: Path, *texts: str) -> Arrangement:
    paths = {folder / f"{number}.log": f"{number}.log" for number, _ in enumerate(texts)}
    for path, text in zip(paths, texts, strict=True):
        path.write_text(text)
    return arrange_logs(paths)


GAP = "the packet indexes of their queues do not go on"
NOTHING = "nothing shows that the one goes on where the other ends"
FIRST = line(0, BEGIN)


@pytest.mark.parametrize(
    ("before", "behind", "doubt"),
    [
        pytest.param(packets(10, 5, 6), packets(100, 7, 8), "", id="goes on"),
        pytest.param(packets(10, 4, 5, 7), packets(100, 6, 8), "", id="two threads at the border"),
        pytest.param(packets(10, 2**32 - 2, 2**32 - 1), packets(100, 0, 1), "", id="wrap"),
        pytest.param(packets(10, 5, 6), packets(100, 8, 9), GAP, id="a packet is missing"),
        pytest.param(packets(10, 5, 6), packets(100, 6, 7), GAP, id="a packet is there twice"),
        pytest.param(packets(10, 5, 6), packets(100, 0, 1), GAP, id="begins anew"),
        pytest.param(
            packets(10, 5) + packets(20, 3, ring=0x9000), packets(100, 6) + packets(110, 9, ring=0x9000), GAP,
            id="one of two queues",
        ),
        pytest.param(packets(10, 5), packets(100, 0, number=2), NOTHING, id="another queue with this ring"),
        pytest.param(packets(10, 5, None), packets(100, None, 8, None), "", id="one of two prints it"),
        pytest.param(packets(10, 5, None), packets(100, None, 80, None), GAP, id="one of two prints it, some missing"),
        pytest.param(packets(10, None), packets(100, None), NOTHING, id="no index, no beginning"),
        pytest.param(FIRST + packets(100, None), packets(200, None), "", id="no index"),
        pytest.param(FIRST + packets(100, None), packets(201, None), NOTHING, id="no index, a longer silence"),
    ],
)  # fmt: skip
def test_indexes_or_the_beginning_tell(before: str, behind: str, doubt: str, tmp_path: Path) -> None:
    found = arrange(tmp_path, behind, before)
    assert len(found.logs) == (not doubt)
    assert len(found.doubts) == bool(doubt)
    if doubt:
        assert f"1.log and 0.log may be pieces of one log of process 7, but {doubt}" in found.doubts[0]
    else:
        assert join_pieces(found.logs[0]).read_text() == before + behind


@pytest.mark.parametrize("first", [BEGIN, "Initializing HSA stack."])
def test_a_process_that_begins_goes_on_with_none(first: str, tmp_path: Path) -> None:
    assert arrange(tmp_path, FIRST + packets(10, 0, 1), line(90, first) + packets(100, 2, 3)) == Arrangement()


@pytest.mark.parametrize("tid", [0x7FA8C5C4F880, 0x1000])
def test_a_process_that_begins_later_in_a_file_does_not_part_it(tid: int, tmp_path: Path) -> None:
    """Several processes may write one file at once, or one after the other, also with one pid."""
    one, other = FIRST + packets(10, 0, 1), packets(100, *range(2, 20))
    for pid in (7, 8):
        late = other + line(900, BEGIN, pid=pid, tid=tid) if pid == 7 else line(90, BEGIN, pid=pid, tid=tid) + other
        assert [join_pieces(pieces).read_text() for pieces in arrange(tmp_path, one, late).logs] == [one + late]


def test_the_second_line_of_a_process_is_no_beginning(tmp_path: Path) -> None:
    """ROCm 6.1 to 6.4 count the agents in a line of its own."""
    one, other = line(0, "Initializing HSA stack.") + line(50, "a"), line(90, "Enumerated GPU agents = 1")
    assert [join_pieces(pieces).read_text() for pieces in arrange(tmp_path, one, other).logs] == [one + other]


@pytest.mark.parametrize(("begins", "doubts"), [(True, 0), (False, 1)])
def test_the_same_pid_without_a_thread_in_common(begins: bool, doubts: int, tmp_path: Path) -> None:
    other = (line(400, BEGIN, tid=0x1000) if begins else "") + line(500, "a", tid=0x1000)
    found = arrange(tmp_path, FIRST + packets(10, 0), other)
    assert (found.logs, len(found.doubts)) == ([], doubts)
    assert all("but no thread is seen in both" in doubt for doubt in found.doubts)


def test_other_pids_are_other_logs(tmp_path: Path) -> None:
    assert arrange(tmp_path, FIRST + packets(10, 5), line(100, "a", pid=8)) == Arrangement()


@pytest.mark.parametrize(("end", "begin"), [("\n", ""), ("", ""), ("", "\n")])
def test_a_last_line_without_its_end(end: str, begin: str, tmp_path: Path) -> None:
    """An editor may have dropped it; where a file was cut by bytes, the next one begins with it."""
    one, other = FIRST + packets(10, 5), packets(20, 6)
    found = arrange(tmp_path, one.removesuffix("\n") + end, begin + other)
    assert join_pieces(found.logs[0]).read_text() == one + other


def test_a_file_without_records_is_no_piece(tmp_path: Path) -> None:
    assert arrange(tmp_path, FIRST, "Warning: Resource leak\n", ":1:a.cpp :1 : 5 us: a\n") == Arrangement()
