"""Long logs are read by several processes at once, with exactly the tables that one process makes.

The captures are RECORDED runs of the null GPU; small blocks make several ranges of their logs.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from tracecorr import pipeline, sources
from tracecorr.cli import app
from tracecorr.model import schema
from tracecorr.model.errors import WorkerError
from tracecorr.store import log_ranges
from tracecorr.store.capture import Capture
from tracecorr.store.log_ranges import count_processes, open_processes
from tracecorr.store.zstd_frames import FrameReader, FrameWriter


def _imported(folder: Path, data: Path, name: str, *, compressed: bool) -> Path:
    source = data / "captures" / name
    out = pipeline.import_files(folder / f"{name}.tracecorr", [source / "amd.log"], [source / "ftrace.txt"]).path
    if compressed:
        [log] = (out / "raw" / "amd_log").iterdir()
        writer = FrameWriter.create(log.with_name(f"{log.name}.zst"))
        data_of_log = log.read_bytes()
        for start in range(0, len(data_of_log), 70_000):
            writer.append(data_of_log[start : start + 70_000])
        writer.finish()
        log.unlink()
        text = (out / "capture.json").read_text()
        (out / "capture.json").write_text(text.replace(log.name, f"{log.name}.zst"))
    return out


def _tables(path: Path) -> dict[str, pl.DataFrame]:
    found = {name: Capture.open(path).table(name).collect() for name in schema.TABLES if name != "files"}
    return {name: table.with_columns(pl.col(pl.Categorical).cast(pl.String)) for name, table in found.items()}


@pytest.mark.parametrize(("name", "compressed"), [("caseB-4streams", False), ("mt-threads", True)])
def test_tables_are_those_of_one_process(
    data_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, compressed: bool
) -> None:
    path = _imported(tmp_path, data_folder, name, compressed=compressed)
    pipeline.correlate(path)
    alone = _tables(path)
    monkeypatch.setattr(sources, "_LEAST_RANGE", 100_000)
    monkeypatch.setattr(sources, "BLOCK_BYTES", 50_000)
    said: list[str] = []
    pipeline.correlate(path, live=said.append, jobs=2)
    assert any("in 2 processes" in text for text in said), said
    together = _tables(path)
    assert [table for table, rows in alone.items() if not rows.equals(together[table])] == []
    parts = sorted(part.name for part in (path / "tables" / "parts").glob("amd_log*"))
    assert parts[0] == "amd_log-0.0.args.parquet"
    assert len(parts) == 6
    assert not list(path.glob(".*"))


def test_short_logs_start_no_process(data_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = _imported(tmp_path, data_folder, "mt-threads", compressed=False)
    monkeypatch.setattr(sources, "open_processes", lambda _: pytest.fail("a process was started"))
    result = CliRunner().invoke(app, ["correlate", str(path), "--jobs", "8"])
    assert result.exit_code == 0, result.output
    assert (path / "tables" / "parts" / "amd_log-0.parquet").is_file()


def test_no_job_is_refused() -> None:
    assert CliRunner().invoke(app, ["correlate", "x", "--jobs", "0"]).exit_code == 2


def test_a_killed_process_is_named_with_what_to_do() -> None:
    with pytest.raises(WorkerError, match="killed") as raised, open_processes(1) as submit:
        submit(os._exit, 9).result()
    assert "--jobs 1" in raised.value.next_step


def test_each_process_works_with_one_thread_of_polars(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("POLARS_MAX_THREADS", raising=False)
    with open_processes(1) as submit:
        assert submit(pl.thread_pool_size).result() == 1
    assert "POLARS_MAX_THREADS" not in os.environ


def test_an_interrupt_does_not_wait_for_what_is_still_read() -> None:
    with pytest.raises(KeyboardInterrupt), open_processes(1) as submit:
        submit(os.getpid).result()
        reading = submit(time.sleep, 10_000)
        # What polars does with the signal is part of it: it has been used by now.
        threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
        reading.result()
    with pytest.raises(BrokenProcessPool):
        reading.result()


@pytest.mark.parametrize(("cpus", "processes"), [(1, 1), (2, 1), (3, 1), (6, 3), (384, 8)])
def test_one_process_for_two_cpus_that_this_one_may_use(
    monkeypatch: pytest.MonkeyPatch, cpus: int, processes: int
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(7, 7 + cpus)))
    assert count_processes() == processes


@given(st.binary(max_size=300), st.binary(min_size=1, max_size=3), st.integers(0, 320), st.integers(0, 320))
def test_compressed_bytes_are_searched_like_others(data: bytes, text: bytes, start: int, end: int) -> None:
    # Few different bytes, so that most searches find something.
    data, text = (bytes(byte % 3 for byte in some) for some in (data, text))

    class Reader:
        size = len(data)

        def read(self, offset: int, length: int) -> bytes:
            return data[offset : offset + length]

    found = log_ranges._FrameBytes(Reader())  # type: ignore[arg-type]
    log_ranges._WINDOW, window = 7, log_ranges._WINDOW
    try:
        assert found.find(text, start, end) == data.find(text, start, end)
        assert found.rfind(text, start, end) == data.rfind(text, start, end)
        assert found[start:end] == data[start:end]
        assert len(found) == len(data)
    finally:
        log_ranges._WINDOW = window


def test_a_frame_reader_gives_the_bytes_of_a_range(tmp_path: Path) -> None:
    writer = FrameWriter.create(tmp_path / "x.zst")
    for piece in (b"abc\n:", b"def\n", b":ghi\n"):
        writer.append(piece)
    writer.finish()
    found = log_ranges._FrameBytes(FrameReader(tmp_path / "x.zst"))
    assert found[3:11] == b"\n:def\n:g"
    assert found.rfind(b"\n:", 0, 99) == 8
