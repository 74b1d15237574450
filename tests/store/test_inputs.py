"""Any ordinary file is an input: compressed in every usual way, sparse; what would fill memory or never end is told."""

from __future__ import annotations

import gzip
import json
import os
import shutil
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import polars as pl
import pytest
import zstandard

from tests.read.rocprof.rocpd_cases import sdk_json, write_rocpd
from tracecorr.model.checksum import Checksum
from tracecorr.model.errors import CaptureError, InputError
from tracecorr.pipeline import correlate, import_files
from tracecorr.store import Capture
from tracecorr.store.raw import SHOWN_BYTES, RawStream, copy_in, describe_file, read_at, read_chunks, read_head
from tracecorr.store.trace_folders import trace_clock
from tracecorr.store.zstd_frames import FRAME_BYTES, FrameReader, FrameWriter

LINE = b":3:hip_memory.cpp            :777 : 0123456789 us: [pid:7 tid:0x7f01] hipMalloc: Returned hipSuccess : \n"
_GIB = 1 << 30


def _piped(data: bytes) -> bytes:
    """Pack as `cat LOG | zstd` does: the size is not known."""
    out = BytesIO()
    with zstandard.ZstdCompressor().stream_writer(out, closefd=False) as writer:
        writer.write(data)
    return out.getvalue()


def _many(data: bytes) -> bytes:
    return b"".join(_piped(data[at : at + 700_001]) for at in range(0, len(data), 700_001))


def _seekable(data: bytes) -> bytes:
    path = Path(os.environ["PYTEST_CURRENT_TEST"].split("::")[0]).name
    file = Path("/dev/shm") / f"{path}.{os.getpid()}.zst"
    writer = FrameWriter.create(file)
    for at in range(0, len(data), FRAME_BYTES):
        writer.append(data[at : at + FRAME_BYTES])
    writer.finish()
    try:
        return file.read_bytes()
    finally:
        file.unlink()


PACKS = {"gz": gzip.compress, "whole": zstandard.compress, "piped": _piped, "many": _many, "seekable": _seekable}


@pytest.mark.parametrize("size", [5_000, 9_000_000])
@pytest.mark.parametrize("pack", PACKS)
def test_a_compressed_file_reads_as_the_plain_one(tmp_path: Path, pack: str, size: int) -> None:
    data = b"".join(LINE.replace(b"0123456789", b"%010d" % n) for n in range(size // len(LINE)))
    name = f"hip.log.{'gz' if pack == 'gz' else 'zst'}"
    (tmp_path / name).write_bytes(PACKS[pack](data))
    assert b"".join(read_chunks(tmp_path / name)) == data
    assert read_head(tmp_path / name, 99) == data[:99]
    seen = Checksum()
    stored = copy_in(tmp_path / name, tmp_path / "stored" / "hip.log", seen, compress=True)
    assert b"".join(read_chunks(stored)) == data
    assert read_at(stored, size // 2, 500) == data[size // 2 :][:500]
    assert (seen.size, seen.text()) == describe_file(stored)
    (entry,) = import_files(tmp_path / "x.tracecorr", [tmp_path / name], []).info["files"]
    assert entry["size"] == len(data)


@pytest.mark.parametrize("pack", [_piped, _many])
def test_every_option_takes_it(data_folder: Path, tmp_path: Path, pack: Callable[[bytes], bytes]) -> None:
    recorded = data_folder / "captures" / "streams-priority"
    given = {name: tmp_path / f"{name}.zst" for name in ("amd.log", "ftrace.txt", "clock.json")}
    for name, path in given.items():
        path.write_bytes(pack((recorded / name).read_bytes()))
    tables = []
    for folder, suffix in ((recorded, ""), (tmp_path, ".zst")):
        logs, traces, clock = (folder / f"{name}{suffix}" for name in given)
        out = import_files(tmp_path / f"x{suffix}.tracecorr", [logs], [traces], clock_samples=clock)
        correlate(out.path)
        tables.append(out.table("events").collect())
    assert tables[0].equals(tables[1])


@pytest.mark.parametrize("pack", ["gz", "piped"])
def test_what_is_no_log_is_unpacked(data_folder: Path, tmp_path: Path, pack: str) -> None:
    """A database, tables, a dump, a kernel log and a trace.dat: each is read as the plain one."""
    real, plain, packed = data_folder / "real", tmp_path / "plain", tmp_path / "packed"
    plain.mkdir()
    packed.mkdir()
    write_rocpd(plain / "results.db")
    (plain / "trace.json").write_text(json.dumps(sdk_json()))
    shutil.copy(real / "rocprofv3-docs-kernel_trace.csv", plain / "kernels.csv")
    shutil.copy(real / "kfd-hqds-mi308x-8gpu-active-32streams.txt", plain / "hqds.txt")
    (plain / "dmesg.txt").write_text("[    1.500000] amdgpu 0000:c1:00.0: amdgpu: GPU reset begin!\n")
    (plain / "trace.dat").write_bytes(gzip.decompress((data_folder / "vm/trixie/ftrace/tc.dat.gz").read_bytes()))
    tables = []
    for folder, suffix in ((plain, ""), (packed, ".gz" if pack == "gz" else ".zst")):
        for path in plain.iterdir() if suffix else ():
            (packed / (path.name + suffix)).write_bytes(PACKS[pack](path.read_bytes()))
        traces, dumps, logs = ([folder / f"{name}{suffix}"] for name in ("trace.dat", "hqds.txt", "dmesg.txt"))
        profiles = [folder / f"{name}{suffix}" for name in ("results.db", "trace.json", "kernels.csv")]
        out = tmp_path / f"x{suffix}.tracecorr"
        capture = import_files(out, [], traces, hqd=dumps, rocprof=profiles, kernel_logs=logs)
        correlate(out)
        tables.append([capture.table(name).collect() for name in ("events", "args", "ledger", "files")])
    assert all(one.equals(other) for one, other in zip(*tables, strict=True))
    assert {"rocprof", "hqd", "kernel_log", "ftrace"} == set(tables[0][3]["source"].cast(pl.String))


def _write_sparse(path: Path, parts: list[bytes | int]) -> None:
    with path.open("wb") as out:
        for part in parts:
            out.seek(part, os.SEEK_CUR) if isinstance(part, int) else out.write(part)
        out.truncate(out.tell())


def test_a_hole_of_a_terabyte_costs_its_blocks(tmp_path: Path) -> None:
    log = tmp_path / "hip.log"
    _write_sparse(log, [LINE * 50, 1000 * _GIB, b"\n" + LINE * 7])
    capture = import_files(tmp_path / "x.tracecorr", [log], [])
    (entry,) = capture.info["files"]
    assert entry["size"] == log.stat().st_size > 1000 * _GIB
    assert capture.raw_path(entry).stat().st_blocks < 1000
    correlate(capture.path)
    ledger = capture.table("ledger").with_columns(pl.col("reason", "outcome").cast(pl.String)).collect()
    assert ledger["bytes"].sum() == entry["size"]
    (hole,) = ledger.filter(pl.col("reason") == "nul_bytes").to_dicts()
    assert hole["records"] == 1 and hole["bytes"] == pytest.approx(1000 * _GIB, abs=4096)
    last = capture.table("events").select("file", "offset", "length").collect().row(-1)
    assert last[1] == entry["size"] - len(LINE) and capture.raw(*last) == LINE[:-1]


def test_a_hole_reads_as_its_zeros_do(data_folder: Path, tmp_path: Path) -> None:
    data = (data_folder / "captures" / "caseA-1stream" / "amd.log").read_bytes()
    at = data.index(b"\n", len(data) // 2) // 4096 * 4096 + 4096
    holed: list[bytes | int] = [data[:at], 3 << 20, data[at:]]
    dense = [bytes(part) if isinstance(part, int) else part for part in holed]
    tables = []
    for name, parts in (("holed", holed), ("dense", dense)):
        (tmp_path / name).mkdir()
        log = tmp_path / name / "amd.log"
        _write_sparse(log, parts)  # type: ignore[arg-type]
        capture = import_files(tmp_path / f"{name}.tracecorr", [log], [])
        correlate(capture.path)
        tables.append([capture.table(table).collect() for table in ("events", "launches", "ledger", "args")])
    assert all(one.equals(other) for one, other in zip(*tables, strict=True))


def test_a_log_with_holes_is_compressed_as_it_is(tmp_path: Path) -> None:
    log, stored = tmp_path / "hip.log", tmp_path / "hip.log.zst"
    parts: list[bytes | int] = [LINE * 90_000, 40 * _GIB, b"x" * 5000, 3 << 20, LINE * 60_000, 7 * _GIB]
    _write_sparse(log, parts)
    writer, size, offset = FrameWriter.create(stored), log.stat().st_size, 0
    with log.open("rb") as source:
        while offset < size:
            offset = writer.append_from(source.fileno(), offset, size)
    writer.finish()
    assert stored.stat().st_size < 1 << 20
    reader = FrameReader(stored)
    assert reader.size == size and reader.has_holes
    for place in (0, len(LINE) * 90_000 - 9, 40 * _GIB + 9_000_000, size - 9, size - 7 * _GIB - 100):
        with log.open("rb") as source:
            source.seek(place)
            assert reader.read(place, 500) == source.read(500) == read_at(stored, place, 500)
    assert describe_file(stored)[0] == size
    assert FrameWriter.reopen(stored).size == size
    copied = copy_in(stored, tmp_path / "again", compress=True)
    assert describe_file(copied) == describe_file(stored)


def test_of_a_hole_a_reader_sees_its_first_bytes(tmp_path: Path) -> None:
    log = tmp_path / "hip.log"
    _write_sparse(log, [b"a" * 4096, 2 << 20, b"b" * 4096])
    stream = RawStream(log)
    read = b"".join(stream)
    assert read == b"a" * 4096 + bytes(SHOWN_BYTES) + b"b" * 4096
    assert stream.skipped == [(4096 + SHOWN_BYTES, (2 << 20) - SHOWN_BYTES)]


@pytest.mark.parametrize("line", [b"x" * (1 << 20), b"\n" * (1 << 20)], ids=["one line", "empty lines"])
@pytest.mark.parametrize("pack", ["gz", "zst"])
def test_what_was_made_to_fill_memory_is_refused(tmp_path: Path, pack: str, line: bytes) -> None:
    path = tmp_path / f"hip.log.{pack}"
    with (
        path.open("wb") as file,
        gzip.GzipFile("", "wb", 1, file) if pack == "gz" else zstandard.ZstdCompressor().stream_writer(file) as stream,
    ):
        stream.write(LINE * 10)
        for _ in range(192):
            stream.write(line)
    with pytest.raises(InputError, match="200 times larger") as raised:
        import_files(tmp_path / "x.tracecorr", [path], [])
    assert "decompress it" in raised.value.next_step and not list(tmp_path.glob("*.tracecorr"))


@pytest.mark.parametrize(
    ("told", "samples", "expected"),
    [({}, "mono", "mono"), ({"ftrace_clock": "auto"}, "boot", "boot"), ({"ftrace_clock": "local"}, "mono", "local"),
     ({"ftrace_clock": ""}, "mono", "unknown"), ({"ftrace_clock": [1]}, None, "unknown"), ({}, "", "unknown"),
     ({}, None, "unknown")],
)  # fmt: skip
def test_a_clock_without_a_name_is_unknown(
    tmp_path: Path, told: dict[str, object], samples: str | None, expected: str
) -> None:
    if samples is not None:
        (tmp_path / "raw").mkdir()
        (tmp_path / "raw/clock.json").write_text(json.dumps({"trace_clock": samples, "samples": []}))
    assert trace_clock(cast(Capture, SimpleNamespace(info=told, path=tmp_path))) == expected


@pytest.fixture
def capture(tmp_path: Path, repo: Path) -> Capture:
    path = tmp_path / "x.tracecorr"
    shutil.copytree(repo / "samples" / "t1-streams.tracecorr", path)
    correlate(path)
    return Capture.open(path)


def test_a_fifo_in_the_place_of_a_raw_file_is_not_waited_for(capture: Capture) -> None:
    entry = next(entry for entry in capture.info["files"] if entry["form"] == "log")
    path = capture.raw_path(entry)
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(InputError, match="no regular file"):
        capture.raw(entry["file"], 0, 9)
    with pytest.raises(InputError, match="no regular file"):
        correlate(capture.path)
    info = capture.path / "capture.json"
    info.unlink()
    os.mkfifo(info)
    with pytest.raises(CaptureError):
        Capture.open(capture.path)


def test_a_raw_folder_that_is_a_link_is_not_read(capture: Capture, tmp_path: Path) -> None:
    (capture.path / "raw").rename(tmp_path / "elsewhere")
    (capture.path / "raw").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(CaptureError, match="outside its raw folder"):
        capture.raw(0, 0, 9)
    with pytest.raises(CaptureError, match="outside its raw folder"):
        correlate(capture.path)
