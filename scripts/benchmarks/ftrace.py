"""Speed of the readers of kernel traces, next to `trace-cmd report` and `grep -c` on the same events.

Real system calls are recorded on this machine, in a tracefs instance of its own that is removed again:
once as text (`trace`), once as pages (`trace_pipe_raw`). Needs root; every figure is a median of paired runs.
"""

from __future__ import annotations

import argparse
import fcntl
import mmap
import multiprocessing
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from benchmarks import measure
from benchmarks.measure import Cost
from tracecorr.capture.tracefs.drain import list_cpus
from tracecorr.export.trace_dat import write_kernel_trace
from tracecorr.pipeline import import_files
from tracecorr.read.ftrace.pages import read_ftrace_pages
from tracecorr.read.ftrace.text import read_ftrace_text
from tracecorr.store import Capture
from tracecorr.store.raw import read_chunks
from tracecorr.store.trace_folders import list_recordings, open_page_trace

TRACEFS = Path("/sys/kernel/tracing")
CALLS = ("ioctl", "openat", "close", "mmap", "munmap")
EVENTS = tuple(f"syscalls/sys_{side}_{call}" for call in CALLS for side in ("enter", "exit"))
# One round of the workload makes 14 ioctls and one each of the others: 36 records.
_RECORDS_PER_ROUND = 36
_GET_PTY_NUMBER = 0x80045430
_PAGE = 4096


def _work(rounds: int) -> None:
    terminal, answer = os.open("/dev/ptmx", os.O_RDWR | os.O_NOCTTY), bytearray(4)
    for _ in range(rounds):
        for _ in range(14):
            fcntl.ioctl(terminal, _GET_PTY_NUMBER, answer)
        os.close(os.open("/dev/null", os.O_RDONLY))
        mmap.mmap(-1, _PAGE).close()


@contextmanager
def _instance(buffer_kib: int) -> Iterator[Path]:
    """Make a tracefs instance and remove it, whatever happens."""
    instance = TRACEFS / "instances" / f"tracecorr_bench_{os.getpid()}"
    instance.mkdir()
    try:
        (instance / "tracing_on").write_text("0")
        (instance / "trace_clock").write_text("mono")
        (instance / "buffer_size_kb").write_text(str(buffer_kib))
        for option in ("record-tgid", "event-fork"):
            (instance / "options" / option).write_text("1")
        for event in EVENTS:
            (instance / "events" / event / "enable").write_text("1")
        yield instance
    finally:
        (instance / "events/enable").write_text("0")
        (instance / "set_event_pid").write_text("\n")
        instance.rmdir()


def record(folder: Path, events: int) -> int:
    """Record about `events` records into `folder`: `trace.txt`, and `pages/` as `import --ftrace` reads it.

    Returns: the number of records, as the kernel counts them.
    """
    workers = os.cpu_count() or 1
    with _instance(max(64 * events // 1000, 1024)) as instance:
        (instance / "set_event_pid").write_text(str(os.getpid()))
        (instance / "tracing_on").write_text("1")
        rounds = events // _RECORDS_PER_ROUND // workers
        tasks = [multiprocessing.Process(target=_work, args=(rounds,)) for _ in range(workers)]
        for task in tasks:
            task.start()
        for task in tasks:
            task.join()
        (instance / "tracing_on").write_text("0")
        with (instance / "trace").open("rb") as text, (folder / "trace.txt").open("wb") as out:
            shutil.copyfileobj(text, out, 1 << 20)
        _save_descriptions(folder / "pages")
        return sum(_save_pages(instance / "per_cpu" / f"cpu{cpu}", folder / "pages") for cpu in list_cpus(instance))


def _save_descriptions(folder: Path) -> None:
    for event in (*EVENTS, "ftrace/print"):
        target = folder / "events" / event / "format"
        target.parent.mkdir(parents=True)
        target.write_text((TRACEFS / "events" / event / "format").read_text())
    for name in ("events/header_page", "events/header_event", "saved_cmdlines", "saved_tgids"):
        (folder / Path(name).name).write_bytes((TRACEFS / name).read_bytes())


def _save_pages(buffer: Path, folder: Path) -> int:
    """Save the pages of one CPU; return its number of records."""
    stats = dict(line.split(": ") for line in (buffer / "stats").read_text().splitlines())
    if int(stats["overrun"]) or int(stats["dropped events"]):
        raise RuntimeError("the buffer was too small: records were lost")
    source = os.open(buffer / "trace_pipe_raw", os.O_RDONLY | os.O_NONBLOCK)
    try:
        with (folder / f"{buffer.name}.bin").open("wb") as out:
            while page := _read(source):
                out.write(page)
    finally:
        os.close(source)
    return int(stats["entries"])


def _read(source: int) -> bytes:
    try:
        return os.read(source, _PAGE)
    except BlockingIOError:
        return b""


def read_pages(folder: Path) -> None:
    """Read a folder of pages to parts."""
    entries = [
        {"path": f"raw/ftrace/0/{path.relative_to(folder)}", "file": number,
         "form": "pages" if path.suffix == ".bin" else "description"}
        for number, path in enumerate(sorted(p for p in folder.rglob("*") if p.is_file()))
    ]  # fmt: skip
    with tempfile.TemporaryDirectory() as root:
        (Path(root) / "raw/ftrace").mkdir(parents=True)
        (Path(root) / "raw/ftrace/0").symlink_to(folder)
        trace, files = open_page_trace(Capture(Path(root), {}), list_recordings(entries)[0])
        for _ in read_ftrace_pages(trace, files, "mono"):
            pass


def read_text(path: Path) -> None:
    """Read a trace text to parts."""
    for _ in read_ftrace_text(read_chunks(path), 0, "mono"):
        pass


def _alone(work: Callable[[Path], None], path: Path) -> Cost:
    """Measure a function in a process of its own, without the start of the interpreter and the imports."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(_measure, work, path).result()


def _measure(work: Callable[[Path], None], path: Path) -> Cost:
    return measure.run_here(lambda: work(path))


def _trace_dat(folder: Path) -> Path:
    """Write the pages as a `trace.dat`: trace-cmd itself cannot record on every kernel."""
    capture = import_files(folder / "bench.tracecorr", [], [folder / "pages"], clock="mono")
    path = folder / "trace.dat"
    with path.open("wb") as out:
        write_kernel_trace(capture, out)
    return path


def compare(folder: Path, events: int, runs: int) -> str:
    """Return the table of costs of one recording."""
    text, pages = folder / "trace.txt", folder / "pages"
    measure.cache(text)
    works: dict[str, Callable[[], Cost]] = {
        "`grep -c sys_ioctl` on the text": lambda: measure.run(["grep", "-c", "sys_ioctl", str(text)], {"LC_ALL": "C"}),
        "read pages": lambda: _alone(read_pages, pages),
        "read text": lambda: _alone(read_text, text),
    }
    if shutil.which("trace-cmd"):
        dat = _trace_dat(folder)
        works["`trace-cmd report` of the pages"] = lambda: measure.run(["trace-cmd", "report", "-i", str(dat)])
    else:
        print("trace-cmd is not installed: its report is left out", file=sys.stderr)
    costs = measure.paired(works, runs)
    rows = []
    for name, found in costs.items():
        middle = measure.median(found)
        times = f"{measure.ratio(found, costs['`grep -c sys_ioctl` on the text']):.1f}"
        speed = f"{events / middle.cpu / 1e6:.2f}"
        rows.append((name, f"{middle.cpu:.2f}", f"{middle.wall:.2f}", times, f"{middle.peak_mib:.0f}", speed))
    return measure.markdown(("work", "CPU s", "wall s", "x grep (CPU)", "peak MiB", "M records per CPU s"), rows)


def main(arguments: list[str]) -> None:
    """Record system calls of this machine and measure what reads them."""
    parser = argparse.ArgumentParser(prog="scripts/bench ftrace", description=__doc__)
    parser.add_argument("--events", type=int, default=3_400_000, help="records to make (default: %(default)s)")
    parser.add_argument("--runs", type=int, default=5)
    given = parser.parse_args(arguments)
    if not os.access(TRACEFS / "instances", os.W_OK):
        raise SystemExit(f"{TRACEFS}/instances cannot be written: run this as root where tracefs is mounted")
    with tempfile.TemporaryDirectory() as folder:
        events = record(Path(folder), given.events)
        sizes = [sum(p.stat().st_size for p in Path(folder).glob(g)) / 1e6 for g in ("trace.txt", "pages/*.bin")]
        print(f"{events:,} records of system calls: {sizes[0]:.0f} MB of text, {sizes[1]:.0f} MB of pages; "
              f"medians of {given.runs} paired runs\n")  # fmt: skip
        print(compare(Path(folder), events, given.runs))
