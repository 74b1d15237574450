"""A log of several processes is read by the bytes of each: SYNTHETIC pieces, and the REAL log of two processes."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

import numpy as np
import polars as pl

from tracecorr.model.kinds import Flag
from tracecorr.pipeline import correlate, import_files
from tracecorr.read.amdlog.reader import read_amd_log
from tracecorr.read.amdlog.shared import SharedLog, find_order
from tracecorr.store import Capture

_RECORD = ":3:hip_memory.cpp :{}: 100000{:03d} us: [pid:{} tid: 0x7f{:010x}]  hipMalloc ( 0x7ffd, {} ) \n"


def _cut(sizes: dict[int, list[int]]) -> tuple[bytes, list[tuple[int, int, int]]]:
    """Return a log of processes in turns, pieces of at most 60 bytes, and position, length, pid of each piece."""
    texts = {
        pid: "".join(_RECORD.format(600 + n, n, pid, pid, size) for n, size in enumerate(own)).encode()
        for pid, own in sizes.items()
    }
    data, pieces = b"", []
    while any(texts.values()):
        for pid, text in texts.items():
            line = text[: text.find(b"\n") + 1]
            piece = line[:60]
            if piece:
                pieces.append((len(data), len(piece), pid))
                data, texts[pid] = data + piece, text[len(piece) :]
    return data, pieces


def test_records_that_were_cut_into_each_other_are_whole() -> None:
    data, pieces = _cut({41: [1, 22, 333], 42: [4444, 5, 66, 7]})
    position, length, pids = zip(*pieces, strict=True)
    log = SharedLog.of(np.array(position), np.array(length), pids, len(data))
    outputs = [BytesIO() for _ in range(log.count)]
    log.split(lambda at, size: data[at : at + size], outputs)  # type: ignore[arg-type]
    blocks = [
        log.restore(block, writer)
        for writer, output in enumerate(outputs)
        for block in read_amd_log(BytesIO(output.getvalue()), 0)
    ]
    rows = pl.concat([block.events for block in blocks]).sort("offset")
    assert rows["pid"].value_counts().sort("pid").rows() == [(41, 3), (42, 4)]
    assert rows["flags"].fill_null(0).to_list() == [int(Flag.ENTER_ONLY)] * 7
    assert sum(block.ledger["bytes"].sum() for block in blocks) == len(data)
    # The span of a record in the file begins and ends with it.
    for start, size in rows.select("offset", "length").iter_rows():
        assert data[start : start + 2] == b":3"
        assert data[start : start + size].rstrip().endswith(b")")


def test_two_writes_that_landed_in_the_other_order_are_swapped() -> None:
    data, pieces = _cut({41: [1, 22, 333], 42: [4444, 5, 66, 7]})
    # The log's pieces 2 and 3 are the rests of the records of 41 and 42; they began in the other order.
    pids = [pid for _, _, pid in pieces]
    assert pids[2:4] == [41, 42]
    lengths = np.array([size for _, size, _ in pieces])
    lengths[[2, 3]], pids[2], pids[3] = lengths[[3, 2]], 42, 41
    position = np.cumsum(lengths) - lengths
    at_once = np.arange(len(pids)) == 2
    found = find_order(position, lengths, pids, at_once, lambda at, size: data[at : at + size], len(data))
    assert found.swapped.tolist() == [2]


def test_each_record_of_two_processes_on_one_stderr_has_its_process(data_folder: Path, tmp_path: Path) -> None:
    source, out = data_folder / "captures" / "writes-two-processes", tmp_path / "two.tracecorr"
    import_files(out, [source / "amd.log"], [source / "raw"], clock_samples=source / "clock.json")
    assert correlate(out) == []
    capture = Capture.open(out)
    pids = capture.table("processes").select("process", "pid")
    launches = capture.table("launches").join(pids, on="process").group_by("pid", kind=pl.col("kind").cast(pl.String))
    # As truth.csv counts them: its barriers are BarrierAND packets.
    truth = pl.read_csv(source / "truth.csv").group_by("pid", kind="type").len().rows()
    expected = {(pid, "barrier_and" if kind == "barrier" else kind): count for pid, kind, count in truth}
    found = {(pid, kind): count for pid, kind, count in launches.len().collect().rows()}
    for pid in (4765, 4766):
        assert found[pid, "dispatch"] == expected[pid, "dispatch"] == 81
        assert found[pid, "barrier_and"] == expected[pid, "barrier_and"]
        assert found[pid, "copy"] == expected[pid, "sdma_copy"]
    lines = capture.table("events").filter(source=pl.lit("amd_log")).collect()
    assert lines["process"].null_count() == 0
    assert lines.filter(pl.col("layer").cast(pl.String) != "gpu")["thread"].null_count() == 0
    assert (lines["flags"] & int(Flag.TORN)).sum() == 0
