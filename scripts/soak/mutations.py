"""Read mutated files with every reader: each must end in rows with a closed ledger, or in an InputError.

Each is read in a forked process with 10 s of CPU time and 1 GiB of memory more than it began with; of some the tables
are built, too.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import resource
import shutil
import signal
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import polars as pl
import zstandard

from tests.read.rocprof.rocpd_cases import write_rocpd
from tracecorr.model.errors import CaptureError, InputError, MachineError
from tracecorr.pipeline import correlate, import_files, read_raw_files
from tracecorr.progress import Stages
from tracecorr.store import Capture
from tracecorr.store.recording import close_killed

ROWS, REFUSED = "rows", "refused"
_SECONDS = 10
# What waits uses no CPU time; on a busy machine a second of it takes many.
_WAIT_SECONDS = 1800
_BYTES = 1 << 30
# A mutation that changes more than this of a file makes garbage, which every reader refuses in its first line.
_LARGEST_PIECE = 300
_CHANGES = (1, 1, 2, 5, 20)
_PIECES = (
    b"\n", b"\r\n", b"\x00", b"\xff\xfe", b",", b'"', b"[[[[", b"{", b"-1", b"18446744073709551616", b"0x", b"nan",
    b"9" * 40, b":3:", b"us: ", b"wptr=", b"Header = ", b"sys_enter_ioctl: fd: 3, cmd: c0104b01, arg: 0", b"# ", b"\\",
)  # fmt: skip


@dataclass(frozen=True)
class Reader:
    """Name one reader: the file that is mutated, and how a capture is made of it."""

    name: str
    target: Path
    load: Callable[[Path, Path], Capture]


def list_readers(repo: Path, data: Path, work: Path) -> list[Reader]:
    """Return every reader with a small input of it, copied or made below `work`.

    Args:
        repo: the checkout, for its samples.
        data: the recorded data.
        work: an empty folder.
    """
    text, pages = repo / "samples/t1-streams.tracecorr/raw", repo / "samples/streams-graph.tracecorr/raw"
    real = data / "real"
    log = _copy(data / "captures/hip-7.2.4/amd.log", work / "log/amd.log", 60_000)
    trace = _copy(text / "ftrace/0-ftrace.txt", work / "text/ftrace.txt", 80_000)
    for name in ("gpu", "probes"):
        shutil.copytree(pages / "ftrace" / name, work / name / "trace")
    dat = _copy_unpacked(data / "vm/trixie/ftrace/tc.dat.gz", work / "dat/trace.dat")
    csv = _copy(real / "rocprofv3-docs-kernel_trace.csv", work / "csv/kernel_trace.csv", 60_000)
    profile = _copy(real / "rocprofv1-mi308x-vectoradd-trace.json", work / "json/trace.json", 1 << 30)
    tree = json.loads(profile.read_bytes())
    profile.write_text(json.dumps({**tree, "traceEvents": tree["traceEvents"][:500]}))
    dump = _copy(real / "kfd-hqds-mi308x-8gpu-active-32streams.txt", work / "dump/hqds.txt", 60_000)
    (work / "rocpd").mkdir()
    database = write_rocpd(work / "rocpd/results.db")
    dmesg = work / "kernel_log/dmesg.txt"
    dmesg.parent.mkdir()
    dmesg.write_text(_render_dmesg(repo))
    gz = _pack(log, work / "gz/amd.log.gz", gzip.compress)
    zst = _pack(log, work / "zst/amd.log.zst", zstandard.compress)
    clock = _copy(data / "captures/t1-local-clock/clock.json", work / "clock/clock.json", 100_000)
    capture = work / "capture/x.tracecorr"
    shutil.copytree(repo / "samples/t1-streams.tracecorr", capture)
    return [
        Reader("amd_log", log, lambda path, out: _import(out, amd_logs=[path])),
        Reader("ftrace_text", trace, lambda path, out: _import(out, ftrace=[path])),
        Reader("ftrace_pages", work / "gpu/trace/cpu0.bin", lambda path, out: _import(out, ftrace=[path.parent])),
        Reader("perf_pages", work / "probes/trace/perf-cpu0.bin", lambda path, out: _import(out, ftrace=[path.parent])),
        Reader("trace_dat", dat, lambda path, out: _import(out, ftrace=[path])),
        Reader("rocprof_csv", csv, lambda path, out: _import(out, rocprof=[path])),
        Reader("rocprof_json", profile, lambda path, out: _import(out, rocprof=[path])),
        Reader("rocpd", database, lambda path, out: _import(out, rocprof=[path])),
        Reader("kernel_log", dmesg, lambda path, out: _import(out, kernel_logs=[path])),
        Reader("dump", dump, lambda path, out: _import(out, hqd=[path])),
        Reader("gzip", gz, lambda path, out: _import(out, amd_logs=[path])),
        Reader("zstd", zst, lambda path, out: _import(out, amd_logs=[path])),
        Reader("clock_samples", clock, lambda path, out: _import(out, amd_logs=[log], clock_samples=path)),
        Reader("capture_json", capture / "capture.json", lambda path, _: Capture.open(path.parent)),
    ]


def mutate(data: bytes, random: Random) -> bytes:
    """Return a file with some bytes changed, removed, doubled, moved, cut off, or with foreign ones inside."""
    out = bytearray(data)
    for _ in range(random.choice(_CHANGES)):
        at, size = random.randrange(len(out) + 1), random.randrange(1, _LARGEST_PIECE)
        match random.randrange(6):
            case 0:
                out[at : at + 1] = bytes([random.randrange(256)])
            case 1:
                del out[at : at + size]
            case 2:
                out[at:at] = random.choice(_PIECES)
            case 3:
                out[at:at] = out[at : at + size]
            case 4:
                other = random.randrange(len(out) + 1)
                out[at:at] = out[other : other + size]
            case _:
                out[at : at + 8] = random.choice((b"\xff" * 8, bytes(8), random.randbytes(8)))
    return bytes(out[: random.randrange(len(out))] if random.randrange(8) == 0 and out else out)


def mutate_json(data: bytes, random: Random) -> bytes:
    """Return a JSON file in which one value, at a random depth, is of another type, or gone."""
    tree = json.loads(data)
    node = tree
    while True:
        keys = list(node) if isinstance(node, dict) else list(range(len(node)))
        if not keys:
            return mutate(data, random)
        key = random.choice(keys)
        inner = node[key]
        if not isinstance(inner, dict | list) or not inner or random.randrange(4) == 0:
            break
        node = inner
    if random.randrange(4) == 0:
        del node[key]
    else:
        node[key] = random.choice((None, -1, 1 << 70, 1.5, "x", "", [], {}, [[1]], {"x": 1}, True))
    return json.dumps(tree).encode()


def run_reader(reader: Reader, seeds: range, tables_every: int, work: Path) -> Iterator[tuple[int, str]]:
    """Read mutations of one reader's file; yield the seed of each, and how it ended.

    It ends in ROWS, REFUSED (the error names a next step), or in the text of a fault.

    Args:
        reader: what is mutated.
        seeds: one of each mutation.
        tables_every: of each seed that it divides the tables are built, too.
        work: a folder for the mutated files.
    """
    for seed in seeds:
        folder = work / f"{reader.name}-{seed}"
        ended = _run_apart(partial(_try_one, reader, seed, seed % tables_every == 0, folder))
        shutil.rmtree(folder, ignore_errors=True)
        yield seed, ended


def _try_one(reader: Reader, seed: int, has_tables: bool, folder: Path) -> str:
    shutil.copytree(reader.target.parent, folder)
    path = folder / reader.target.name
    path.chmod(0o644)
    data, random = reader.target.read_bytes(), Random(f"{reader.name}-{seed}")
    of_json = path.suffix == ".json" and random.randrange(4) > 0
    path.write_bytes(mutate_json(data, random) if of_json else mutate(data, random))
    try:
        capture = reader.load(path, folder / "out.tracecorr")
        _check_ledger(capture, _read_tables(capture) if has_tables else _read_raw(capture))
    except (InputError, CaptureError, MachineError):
        return REFUSED
    return ROWS


def _import(out: Path, amd_logs: list[Path] | None = None, ftrace: list[Path] | None = None, **options: Any) -> Capture:
    return import_files(out, amd_logs or [], ftrace or [], **options)


def _read_raw(capture: Capture) -> pl.DataFrame:
    """Return the ledger after all raw files were read."""
    parts, _ = read_raw_files(close_killed(capture), Stages(), {}, 1)
    parts.read_events()
    return parts.small("ledger")


def _read_tables(capture: Capture) -> pl.DataFrame:
    """Return the ledger after the tables were built."""
    correlate(capture.path)
    return Capture.open(capture.path).table("ledger").collect()


def _check_ledger(capture: Capture, ledger: pl.DataFrame) -> None:
    """Raise AssertionError if the ledger of a file does not account for each of its bytes."""
    sizes = {entry["file"]: entry["size"] for entry in Capture.open(capture.path).info["files"]}
    told = ledger.group_by("file").agg(pl.col("bytes").sum())
    for file, bytes_ in told.iter_rows():
        assert bytes_ == sizes[file], f"the ledger of file {file} has {bytes_} of {sizes[file]} bytes"


def _run_apart(work: Callable[[], str]) -> str:
    """Run a function in a forked process with limits; return what it returned, or what went wrong."""
    receive, send = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(receive)
        _end_as_child(work, send)
    os.close(send)
    with os.fdopen(receive, "rb") as stream:
        text = stream.read().decode(errors="replace")
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return f"ended by {signal.Signals(os.WTERMSIG(status)).name}. {text}"
    return text


def _end_as_child(work: Callable[[], str], send: int) -> None:
    """Do the work of a forked process, write how it ended to `send`, and end the process."""
    resource.setrlimit(resource.RLIMIT_CPU, (_SECONDS, _SECONDS + 1))
    signal.alarm(_WAIT_SECONDS)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + _BYTES, used + _BYTES))
    try:
        text = work()
    except BaseException:  # polars panics with one
        text = traceback.format_exc()
    os.write(send, text[-4000:].encode())
    os._exit(0)


def _copy(source: Path, target: Path, size: int) -> Path:
    target.parent.mkdir(parents=True)
    target.write_bytes(source.read_bytes()[:size])
    return target


def _copy_unpacked(source: Path, target: Path) -> Path:
    target.parent.mkdir(parents=True)
    target.write_bytes(gzip.decompress(source.read_bytes()))
    return target


def _render_dmesg(repo: Path) -> str:
    """Return a SYNTHETIC text of dmesg with the messages that the tests of the reader know."""
    known = (repo / "tests/read/kernel_log/messages.txt").read_text().splitlines()
    texts = [line.split("|", 2)[-1].strip() for line in known]
    return "".join(f"[{number:5}.{number:06}] {text}\n" for number, text in enumerate(texts))


def _pack(source: Path, target: Path, pack: Callable[[bytes], bytes]) -> Path:
    target.parent.mkdir(parents=True)
    target.write_bytes(pack(source.read_bytes()))
    return target


def main() -> int:
    """Run all readers, or those that are named; print a line for each fault."""
    parser = argparse.ArgumentParser(prog="scripts/soak/run mutations", description=__doc__)
    parser.add_argument("readers", nargs="*", metavar="READER", help="readers to try (default: all)")
    parser.add_argument("--count", type=int, default=1000, help="mutations of each reader")
    parser.add_argument("--seed", type=int, default=1, help="seed of the first one")
    parser.add_argument("--tables-every", type=int, default=1, help="build the tables of every Nth one (default: all)")
    given = parser.parse_args()
    repo = Path(__file__).resolve().parents[2]
    data = Path(os.environ.get("TRACECORR_DATA") or repo.parent / "shared" / "data")
    faults = 0
    with tempfile.TemporaryDirectory() as folder:
        for reader in list_readers(repo, data, Path(folder)):
            if given.readers and reader.name not in given.readers:
                continue
            ends = Counter[str]()
            seeds = range(given.seed, given.seed + given.count)
            for seed, ended in run_reader(reader, seeds, given.tables_every, Path(folder)):
                is_fault = ended not in (ROWS, REFUSED)
                ends["faults" if is_fault else ended] += 1
                if is_fault:
                    print(f"{reader.name}, seed {seed}: {ended}", flush=True)
            counts = ", ".join(f"{ends[end]} {end}" for end in (ROWS, REFUSED, "faults"))
            print(f"{reader.name}: {given.count} mutations from seed {given.seed}: {counts}", flush=True)
            faults += ends["faults"]
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
