"""Recorded: text of Linux 5.10, with four columns of flags and the process of each thread, is read to the last line."""

from __future__ import annotations

import polars as pl
from ftrace_cases import read_text

from tracecorr.read.ftrace.lines import looks_like_ftrace_text

# Debian 11, kernel 5.10.223, no GPU: CREATE_QUEUE under kprobes, system call events and the function tracer.
_TRACE = b"""\
# tracer: function
#
# entries-in-buffer/entries-written: 797/797   #P:2
#
#                                          _-----=> irqs-off
#                                         / _----=> need-resched
#                                        | / _---=> hardirq/softirq
#                                        || / _--=> preempt-depth
#                                        ||| /     delay
#           TASK-PID       TGID    CPU#  ||||   TIMESTAMP  FUNCTION
#              | |           |       |   ||||      |         |
         python3-113     (    113) [000] ....    64.113615: sys_ioctl(fd: 3, cmd: c0584b02, arg: 7fff97ca9e30)
         python3-113     (    113) [000] ....    64.113655: kfd_ioctl <-__x64_sys_ioctl
         python3-113     (    113) [000] ....    64.118288: create_queue: (kfd_ioctl_create_queue+0x0/0x4f0 [amdgpu])\
 ring=0x7f1100000000 size=65536 prio=7
         python3-113     (    113) [000] ....    64.118586: kfd_ioctl_create_queue <-kfd_ioctl
         python3-113     (    113) [000] ....    64.118745: kfd_device_by_id <-kfd_ioctl_create_queue
         python3-113     (    113) [000] d...    64.122714: create_queue_ret: (kfd_ioctl+0x2e5/0x400 [amdgpu]\
 <- kfd_ioctl_create_queue) ret=-22
         python3-113     (    113) [000] ....    64.122973: sys_ioctl -> 0xffffffffffffffea
"""


def test_text_of_linux_5_10_is_read() -> None:
    assert looks_like_ftrace_text(_TRACE)
    trace = read_text(_TRACE)
    assert trace.ledger["outcome"].unique().to_list() == ["used"]
    assert trace.ledger["bytes"].sum() == len(_TRACE)
    texts = pl.col("layer", "name", "result").cast(pl.String)
    rows = trace.events.sort("stamp_ns").select("tid", "pid", "cpu", "stamp_ns", "end_stamp_ns", texts)
    assert set(rows.select("tid", "pid", "cpu").rows()) == {(113, 113, 0)}
    assert rows.select("name", "stamp_ns", "end_stamp_ns", "result").rows() == [
        ("AMDKFD_IOC_CREATE_QUEUE", 64_113_615_000, 64_122_973_000, "EINVAL"),
        ("kfd_ioctl", 64_113_655_000, None, None),
        ("kfd_ioctl_create_queue", 64_118_288_000, 64_122_714_000, "EINVAL"),
        ("kfd_ioctl_create_queue", 64_118_586_000, None, None),
        ("kfd_device_by_id", 64_118_745_000, None, None),
    ]
    assert (trace.arg("ring"), trace.arg("size"), trace.arg("prio")) == ([0x7F1100000000], [65536], [7])
