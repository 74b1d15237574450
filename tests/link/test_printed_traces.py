"""What a driver prints with trace_printk is in the top buffer, on a clock of its own: SYNTHETIC traces of one run."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from tracecorr.pipeline import correlate, import_files
from tracecorr.store import Capture

_RECORD = "  python-11   (     10) [000] .....  5000.{:06d}: {}\n"
_MADE = "pqm_create_queue: [KFD-TRACE] CREATE_QUEUE_SUCCESS: pid=10 queue_id={} doorbell_offset=0x1000"


def _read(folder: Path, later_us: int, clock: str, more: str) -> list[str]:
    """Return the source of the prints of three queues.

    Args:
        folder: where the files are written.
        later_us: by how much the clock of the prints is behind that of the ioctls.
        clock: what is told of both.
        more: another record beside the prints.
    """
    calls = [(1_000 * n, "sys_ioctl(fd: 4, cmd: 0xc0604b02, arg: 0x7ffc)") for n in (20, 21, 22)]
    calls += [(at + 90, "sys_ioctl -> 0x0") for at, _ in calls]
    prints = [(1_000 * n + 50 - later_us, _MADE.format(n)) for n in (20, 21, 22)]
    if more:
        prints.append((25_000, more))
    for name, records in (("trace.txt", calls), ("top.txt", prints)):
        (folder / name).write_text(
            "# tracer: nop\n#\n" + "".join(_RECORD.format(*record) for record in sorted(records))
        )
    import_files(folder / "x.tracecorr", [], [folder / "trace.txt", folder / "top.txt"], clock=clock)
    correlate(folder / "x.tracecorr")
    rows = Capture.open(folder / "x.tracecorr").table("events").sort("event").collect()
    return [str(source) for source in rows.filter(pl.col("name") == "CREATE_QUEUE_SUCCESS")["source"]]


@pytest.mark.parametrize(
    ("later_us", "clock", "more", "source"),
    [
        (0, "auto", "", "ftrace"),
        (15_300, "auto", "", "trace_printk"),
        # The clock of both is told, or the trace of the prints holds more than these.
        (15_300, "mono", "", "ftrace"),
        (15_300, "auto", "sys_close(fd: 4)", "ftrace"),
    ],
    ids=["one clock", "two clocks", "told", "more than prints"],
)
def test_prints_on_another_clock_are_a_source_of_their_own(
    tmp_path: Path, later_us: int, clock: str, more: str, source: str
) -> None:
    assert _read(tmp_path, later_us, clock, more) == [source] * 3


@pytest.mark.parametrize(
    ("cpus", "later_us", "clock", "told"),
    [
        ((0, 0), 0, "auto", True),
        ((0, 0), 0, "mono", False),
        # The files of the CPUs of one trace, and pieces of one.
        ((0, 1), 0, "auto", False),
        ((0, 0), 5_000, "auto", False),
    ],
    ids=["two buffers", "told", "two CPUs", "two pieces"],
)
def test_two_buffers_may_be_on_two_clocks(
    tmp_path: Path, cpus: tuple[int, int], later_us: int, clock: str, told: bool
) -> None:
    record, files = "  python-11   (     10) [{:03d}] .....  5000.{:06d}: {}\n", []
    for n, cpu in enumerate(cpus):
        calls = [(1_000 * at + 300 * n + n * later_us, f"sys_close(fd: {at})") for at in (20, 21, 22)]
        files.append(tmp_path / f"{n}.txt")
        lines = [record.format(cpu, at, enter) + record.format(cpu, at + 9, "sys_close -> 0x0") for at, enter in calls]
        files[-1].write_text("# tracer: nop\n#\n" + "".join(lines))
    import_files(tmp_path / "x.tracecorr", [], files, clock=clock)
    assert any("as two buffers do" in warning for warning in correlate(tmp_path / "x.tracecorr")) == told
