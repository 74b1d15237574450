"""Descriptors: an ioctl is known by its device (synthetic traces in the text of kernel 7.2, and recorded ones)."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from tracecorr.analyze.report import summarize_capture
from tracecorr.pipeline import correlate, import_files
from tracecorr.store import Capture

VERSION, TTY = "0x80084b01", "0x80045430"
Correlator = Callable[[str], Capture]


def _open(task: str, path: str, fd: int, flags: str = "O_RDWR|O_CLOEXEC") -> str:
    return (
        f'{task} 10 sys_openat(dfd: 4294967196, filename: 4689924 "{path}", flags: {flags})\n'
        f"{task} 10 sys_openat -> 0x{fd:x}\n"
    )


def _call(task: str, name: str, fields: str, result: str, tgid: int = 10) -> str:
    return f"{task} {tgid} sys_{name}({fields})\n{task} {tgid} sys_{name} -> {result}\n"


def _ioctl(fd: int, cmd: str = VERSION, task: str = "a-10", tgid: int = 10) -> str:
    return _call(task, "ioctl", f"fd: 0x{fd:x}, cmd: {cmd}, arg: 0x7ffc", "0x0", tgid)


def _ioctls(capture: Capture) -> list[tuple[str, str, str | None, str | None]]:
    """Return layer, name, device and device_by of every ioctl in order."""
    calls = pl.col("layer").cast(pl.String).is_in(["ioctl", "syscall"])
    events = capture.table("events").filter(calls & pl.col("cmd").is_not_null()).sort("event").collect()
    args = capture.table("args").collect()
    for key in ("device", "device_by"):
        own = args.filter(pl.col("key").cast(pl.String) == key).select("event", pl.col("text").alias(key))
        events = events.join(own, on="event", how="left", maintain_order="left")
    rows: list[tuple[str, str, str | None, str | None]] = events.select("layer", "name", "device", "device_by").rows()
    return rows


KFD = ("ioctl", "AMDKFD_IOC_GET_VERSION", "/dev/kfd", "path")
BY_NUMBER = ("ioctl", "AMDKFD_IOC_GET_VERSION", "kfd", "number")
PLAIN = ("syscall", "ioctl", None, None)


def test_a_descriptor_is_of_the_kfd_until_it_is_closed(correlate_trace: Correlator) -> None:
    kfd = _open("a-10", "/dev/kfd", 4)
    text = kfd + _ioctl(4) + _call("a-10", "close", "fd: 4", "0x0") + _open("a-10", "/dev/tty1", 4) + _ioctl(4)
    assert _ioctls(correlate_trace(text)) == [KFD, PLAIN]


def test_a_console_call_is_no_kfd_call_and_a_kfd_call_needs_no_direction(correlate_trace: Correlator) -> None:
    text = (
        _call("a-10", "close", "fd: 9", "0x0") + _open("a-10", "/dev/tty1", 3) + _ioctl(3, "0xc0044b27")
        + _open("a-10", "/dev/kfd", 4) + _ioctl(4, "0x4b27") + _ioctl(4, "0x5401")
    )  # fmt: skip
    assert _ioctls(correlate_trace(text)) == [
        PLAIN, ("ioctl", "AMDKFD_IOC_CREATE_PROCESS", "/dev/kfd", "path"), ("ioctl", "ioctl", "/dev/kfd", "path"),
    ]  # fmt: skip


def test_without_closes_a_number_is_not_doubted(correlate_trace: Correlator) -> None:
    """The trace may have missed that the descriptor was given to another file."""
    assert _ioctls(correlate_trace(_open("a-10", "/tmp/x", 4) + _ioctl(4))) == [BY_NUMBER]


def _unnamed(fd: int) -> str:
    """Open a file in the text of kernels before 7.2, which print no path."""
    return _call("a-10", "openat", "dfd: 0xffffff9c, filename: 0x7f00aa, flags: 0x80002, mode: 0", f"0x{fd:x}")


CLOSED, BARE = _call("a-10", "close", "fd: 4", "0x0"), "0x4b27"
MADE = ("ioctl", "AMDKFD_IOC_CREATE_PROCESS", "kfd", "number")


@pytest.mark.parametrize(
    ("calls", "found"),
    [
        (_unnamed(4) + _ioctl(4, BARE) + _ioctl(4) + CLOSED, [MADE, BY_NUMBER]),
        # Another file has the number next.
        (_unnamed(4) + _ioctl(4) + CLOSED + _unnamed(4) + _ioctl(4, BARE), [BY_NUMBER, PLAIN]),
        # Whether it has is not known where closes are not traced, nor what was opened before the trace.
        (_unnamed(4) + _ioctl(4) + _ioctl(4, BARE), [BY_NUMBER, PLAIN]),
        (_ioctl(4) + _ioctl(4, BARE) + CLOSED, [BY_NUMBER, PLAIN]),
        # No file is of two drivers.
        (_unnamed(4) + _ioctl(4) + _ioctl(4, "0xc0406400") + _ioctl(4, BARE) + CLOSED,
         [BY_NUMBER, ("ioctl", "DRM_IOCTL_VERSION", "drm", "number"), PLAIN]),
    ],
)  # fmt: skip
def test_an_ioctl_tells_of_the_others_of_its_open_file(
    correlate_trace: Correlator, calls: str, found: list[tuple[str, ...]]
) -> None:
    assert _ioctls(correlate_trace(calls)) == found


def test_an_ioctl_tells_what_its_file_is_mapped_from(correlate_trace: Correlator) -> None:
    """The page of registers (type 0) is at an offset that another file may have, too."""
    mapped = _call("a-10", "mmap", "addr: 0, len: 0x1000, prot: 3, flags: 1, fd: 4, off: 0x3def000000000000", "0x7f00")
    capture = correlate_trace(_unnamed(4) + _ioctl(4) + mapped + CLOSED)
    told = capture.table("args").filter(pl.col("key").cast(pl.String) == "kfd_mapping").collect()
    assert told["text"].to_list() == ["mmio"]


def test_an_unseen_open_leaves_the_number(correlate_trace: Correlator) -> None:
    text = _ioctl(4) + _ioctl(5, "0xc0186444") + _ioctl(6, TTY)
    assert _ioctls(correlate_trace(text)) == [
        BY_NUMBER, ("ioctl", "DRM_IOCTL_AMDGPU_CS", "drm", "number"), PLAIN,
    ]  # fmt: skip


@pytest.mark.parametrize(
    "copy",
    [
        _call("a-10", "dup", "fildes: 4", "0x7"),
        _call("a-10", "dup2", "oldfd: 4, newfd: 7", "0x7"),
        _call("a-10", "dup3", "oldfd: 4, newfd: 7, flags: 0x80000", "0x7"),
        _call("a-10", "fcntl", "fd: 4, cmd: 0, arg: 7", "0x7"),
        _call("a-10", "fcntl", "fd: 4, cmd: 0x406, arg: 7", "0x7"),
        _call("a-10", "dup", "fildes: 4", "0x6") + _call("a-10", "dup", "fildes: 6", "0x7"),
    ],
)
def test_copies_of_a_descriptor(correlate_trace: Correlator, copy: str) -> None:
    text = _open("a-10", "/dev/kfd", 4) + copy + _call("a-10", "close", "fd: 4", "0x0") + _ioctl(7)
    assert _ioctls(correlate_trace(text)) == [KFD]


def test_other_operations_of_fcntl_copy_nothing(correlate_trace: Correlator) -> None:
    text = _open("a-10", "/dev/kfd", 4) + _call("a-10", "fcntl", "fd: 4, cmd: 1, arg: 0", "0x7") + _ioctl(7)
    assert _ioctls(correlate_trace(text)) == [BY_NUMBER]


def test_threads_share_a_table(correlate_trace: Correlator) -> None:
    text = _open("a-10", "/dev/kfd", 4) + _ioctl(4, task="a-11") + _ioctl(4, task="b-20", tgid=20)
    assert _ioctls(correlate_trace(text)) == [KFD, BY_NUMBER]


FORK = "a-10 10 sched_process_fork: comm=a pid=10 child_comm=a child_pid=20\n"
EXEC = "a-20 20 sched_process_exec: filename=/bin/x pid=20 old_pid=20\n"


@pytest.mark.parametrize(
    ("flags", "after", "found"),
    [
        ("O_RDWR|O_CLOEXEC", FORK, KFD),
        ("O_RDWR|O_CLOEXEC", FORK + EXEC, BY_NUMBER),
        ("O_RDWR", FORK + EXEC, KFD),
        # What the parent does after the fork does not touch the child.
        ("O_RDWR", FORK + _call("a-10", "close", "fd: 4", "0x0"), KFD),
        ("O_RDWR", _call("a-10", "close", "fd: 4", "0x0") + FORK, BY_NUMBER),
    ],
)
def test_a_child_has_the_descriptors_that_fork_and_exec_leave_it(
    correlate_trace: Correlator, flags: str, after: str, found: tuple[str, str, str, str]
) -> None:
    text = _open("a-10", "/dev/kfd", 4, flags) + after + _ioctl(4, task="a-20", tgid=20)
    assert _ioctls(correlate_trace(text)) == [found]


@pytest.mark.parametrize("child", [1 << 31, (1 << 32) + 20, 1 << 64])
def test_a_child_whose_number_cannot_be_is_nobody(correlate_trace: Correlator, child: int) -> None:
    forked = FORK.replace("child_pid=20", f"child_pid={child}")
    text = _open("a-10", "/dev/kfd", 4) + forked + _ioctl(4, task="a-20", tgid=20)
    assert _ioctls(correlate_trace(text)) == [BY_NUMBER]


def test_the_order_inside_a_microsecond_is_that_of_the_file(correlate_trace: Correlator, tmp_path: Path) -> None:
    text = _open("a-10", "/dev/kfd", 4) + _ioctl(4) + _call("a-10", "close", "fd: 4", "0x0")
    text += _open("a-10", "/dev/null", 4) + _ioctl(4)
    correlate_trace(text)
    trace = tmp_path / "trace.txt"
    trace.write_text(re.sub(r"100\.\d{6}:", "100.000000:", trace.read_text()))
    import_files(tmp_path / "tied.tracecorr", [], [trace], clock="mono")
    correlate(tmp_path / "tied.tracecorr")
    assert _ioctls(Capture.open(tmp_path / "tied.tracecorr")) == [KFD, PLAIN]


def test_functions_inside_a_call_prove_its_device(correlate_trace: Correlator) -> None:
    text = """
        a-10 10 sys_openat(dfd: 0xffffff9c, filename: 0x7fa9, flags: 0x80002, mode: 0)
        a-10 10 kfd_open: (kfd_open+0x4/0xd0 [amdgpu])
        a-10 10 sys_openat -> 0x4
        a-10 10 sys_ioctl(fd: 4, cmd: 0x80084b01, arg: 0x7ffc)
        a-10 10 sys_ioctl -> 0x0
        a-10 10 sys_ioctl(fd: 5, cmd: 0x80084b01, arg: 0x7ffc)
        a-10 10 kfd_ioctl: (kfd_ioctl+0x4/0x570 [amdgpu]) cmd=0x80084b01 arg=0x7ffc
        a-10 10 sys_ioctl -> 0x0
    """
    assert _ioctls(correlate_trace(text)) == [
        ("ioctl", "AMDKFD_IOC_GET_VERSION", "kfd", "open"), ("ioctl", "AMDKFD_IOC_GET_VERSION", "kfd", "driver"),
    ]  # fmt: skip


def test_a_probe_in_the_place_of_the_system_call(correlate_trace: Correlator) -> None:
    text = "a-10 10 kfd_ioctl: (kfd_ioctl+0x4/0x570 [amdgpu]) cmd=0x80084b01 arg=0x7ffc"
    assert _ioctls(correlate_trace(text)) == [("ioctl", "AMDKFD_IOC_GET_VERSION", "kfd", "driver")]


def test_a_path_that_a_probe_read(correlate_trace: Correlator) -> None:
    text = """
        a-10 10 sys_openat(dfd: 0xffffff9c, filename: 0x7fa9, flags: 0x80002, mode: 0)
        a-10 10 open: (do_sys_openat2+0x0/0x90) dfd=-100 path="/dev/dri/renderD128"
        a-10 10 sys_openat -> 0x4
        a-10 10 sys_ioctl(fd: 4, cmd: 0xc0186444, arg: 0x7ffc)
        a-10 10 sys_ioctl -> 0x0
    """
    assert _ioctls(correlate_trace(text)) == [("ioctl", "DRM_IOCTL_AMDGPU_CS", "/dev/dri/renderD128", "path")]


@pytest.mark.parametrize(
    ("kernel", "known"),
    [("bookworm", {"driver": 24}), ("trixie", {"driver": 24})],
)
def test_no_system_call_but_the_ioctls_of_the_recorded_driver_is_one_of_it(
    data_folder: Path, tmp_path: Path, kernel: str, known: dict[str, int]
) -> None:
    """Real driver: kfd_ioctl 24 times, and no other of the 158 system calls becomes an ioctl of it."""
    out = tmp_path / "vm.tracecorr"
    import_files(out, [], [data_folder / "vm" / kernel / "ftrace" / "events.trace.txt"], clock="mono")
    correlate(out)
    rows = _ioctls(Capture.open(out))
    found = [r for r in rows if r[0] == "ioctl"]
    assert {by: sum(r[3] == by for r in found) for by in {str(r[3]) for r in found}} == known
    assert all(r == PLAIN for r in rows if r[0] != "ioctl")


def _opened(capture: Capture) -> list[tuple[str, bool, str]]:
    """Return of each device whether its open is known, and the answer's line."""
    report = summarize_capture(capture.name, capture.table, capture.info)
    rows = next(section.frame for section in report.sections if section.key == "devices")
    lines = next(answer.lines for answer in report.answers if "/dev/kfd" in answer.question)
    return [
        (row["device"], row["open_event"] is not None, line) for row, line in zip(rows.to_dicts(), lines, strict=False)
    ]


@pytest.mark.parametrize(
    ("text", "is_known", "told"),
    [
        # No path is printed before Linux 7.2: the open is the one whose descriptor was used.
        (_open("a-10", "/dev/kfd", 4).replace(' "/dev/kfd"', "") + _ioctl(4), True, "opened at 100.000000 s by thread"),
        (_open("a-10", "/dev/kfd", 4) + _ioctl(4), True, "opened at 100.000000 s by thread"),
        (_ioctl(4), False, "its open is not in the trace (the trace has no open calls: record syscalls:sys_enter_open"),
        (_open("a-10", "/etc/a", 3) + _ioctl(4), False, "(it was opened before the trace began, or by a parent)"),
    ],
)  # fmt: skip
def test_who_opened_the_kfd_is_told_or_why_not(
    correlate_trace: Correlator, text: str, is_known: bool, told: str
) -> None:
    ((device, known, line),) = _opened(correlate_trace(text))
    assert (device, known) == ("/dev/kfd", is_known)
    assert told in line and "1 call on it, the first at 100." in line
