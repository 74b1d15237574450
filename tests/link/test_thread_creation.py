"""HAND-MADE: threads that `clone` and `clone3` made."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from tracecorr.pipeline import correlate, import_files
from tracecorr.store import Capture

MAIN, CHILD = 0x7F5190000000, 0x7F5180000000


def _log(path: Path) -> None:
    lines = []
    for us, address in ((5_000_010, MAIN), (5_000_400, CHILD)):
        head = ":3:hip_memory.cpp           :777 : {:010d} us: [pid:700   tid: {:#x}] "
        lines.append(head.format(us, address) + "\x1b[32m hipMalloc ( 0x7f517a5fdc88, 262144 ) \x1b[0m\n")
        lines.append(head.format(us + 90, address) + "hipMalloc: Returned hipSuccess : 0x1401e80000: duration: 90 us\n")
    path.write_text("".join(lines))


def _trace(path: Path, call: str, returned: int) -> None:
    def line(tid: int, us: int, text: str) -> str:
        return f"             app-{tid:<7} (    700) [000] .....      5.{us:06d}: {text}\n"

    lines = [
        line(700, 1, f"sys_set_robust_list(head: {MAIN + 0x2E0:#x}, len: 18)"),
        line(700, 2, "sys_set_robust_list -> 0x0"),
        line(700, 30, "sys_ioctl(fd: 4, cmd: 0xc0284b16, arg: 0x7ffd061c4300)"), line(700, 60, "sys_ioctl -> 0x0"),
        line(700, 300, call), line(700, 320, f"{call.split('(')[0]} -> {returned:#x}"),
        line(701, 330, f"{call.split('(')[0]} -> 0x0"),
        line(701, 420, "sys_ioctl(fd: 4, cmd: 0xc0284b16, arg: 0x7ffd061c4300)"), line(701, 450, "sys_ioctl -> 0x0"),
    ]  # fmt: skip
    path.write_text("# tracer: nop\n" + "".join(lines))


def _threads(folder: Path, call: str, returned: int = 701) -> list[dict[str, object]]:
    _log(folder / "amd.log")
    _trace(folder / "ftrace.txt", call, returned)
    out = folder / "case.tracecorr"
    import_files(out, [folder / "amd.log"], [folder / "ftrace.txt"], clock="mono")
    correlate(out)
    columns = pl.col("how", "evidence").cast(pl.String)
    return Capture.open(out).table("threads").with_columns(columns).sort("tid").collect().to_dicts()


CLONE = "sys_clone(clone_flags: {flags}, newsp: 7f517fffedb0, parent_tidptr: 7f51800002d0, tls: 7f5180000000)"
CLONE3 = "sys_clone3(uargs: 0x7ffcc982c610, size: 0x58)"


@pytest.mark.parametrize("call", [CLONE.format(flags="3d0f00"), CLONE3], ids=["clone", "clone3"])
def test_the_creator_of_a_thread_is_told_by_what_its_call_returns(call: str, tmp_path: Path) -> None:
    """Whose log tid it is must come from elsewhere."""
    rows = _threads(tmp_path, call)
    child, main = (next(row for row in rows if row["tid"] == tid) for tid in (701, 700))
    assert (child["creator"], child["how"]) == (main["thread"], None)
    assert (main["log_tid"], main["how"], main["creator"]) == (MAIN, "set_robust_list", None)


def test_a_number_of_another_namespace_names_no_thread(tmp_path: Path) -> None:
    rows = _threads(tmp_path, CLONE3, returned=8)
    child = next(row for row in rows if row["tid"] == 701)
    assert (child["creator"], child["log_tid"]) == (None, None)
