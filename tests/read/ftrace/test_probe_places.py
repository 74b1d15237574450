"""Probes within a function, as `perf probe` puts on a line of its source: no calls of it (SYNTHETIC lines)."""

from __future__ import annotations

import polars as pl
import pytest
from ftrace_cases import read_text

from tracecorr.read.ftrace.formats import probed_functions

_LINE = "              t1-7       (      7) [000] .....    24.{:06}: {}\n"


@pytest.mark.parametrize("fields", ["x=5", 'x="a b"', ""])
def test_a_probe_within_a_function_is_a_moment_of_its_call(fields: str) -> None:
    records = [
        "sys_ioctl(fd: 0x3, cmd: 0xc0604b02, arg: 0x7ffe)",
        "a: (kfd_ioctl+0x4/0x570 [amdgpu]) cmd=0xc0604b02 arg=0x7ffe",
        f"mid: (kfd_ioctl+0x120/0x570 [amdgpu]) {fields}".strip(),
        "init: (init_mqd_v9_4_3+0x30/0x90 [amdgpu])",
        "a_ret: (__x64_sys_ioctl+0x8d/0xd0 <- kfd_ioctl) ret=0",
        "sys_ioctl -> 0x0",
    ]
    trace = read_text("".join(_LINE.format(10 * n, record) for n, record in enumerate(records)).encode())
    rows = trace.events.sort("stamp_ns").with_columns(span=pl.col("end_stamp_ns") - pl.col("stamp_ns"))
    assert rows.select("layer", "name", "span", "depth", "result", "flags").rows() == [
        ("ioctl", "AMDKFD_IOC_CREATE_QUEUE", 50_000, None, "0", 0), ("kfd", "kfd_ioctl", 30_000, 1, "0", 0),
        ("other", "kfd_ioctl+0x120", None, 2, None, 0), ("other", "init_mqd_v9_4_3+0x30", None, 2, None, 0),
    ]  # fmt: skip
    assert rows["parent_offset"].drop_nulls().n_unique() == 1
    assert trace.arg("x") == {"x=5": [5], 'x="a b"': ["a b"], "": []}[fields]


def test_places_in_pages_are_those_of_the_definitions() -> None:
    probes = [
        "p:kfd/a amdgpu:kfd_ioctl+4", "p:kfd/mid amdgpu:kfd_ioctl+288 x=%di", "p:kfd/hex kfd_ioctl+0x120",
        "r8:kfd/a_ret kfd_ioctl+0",
    ]  # fmt: skip
    assert probed_functions("\n".join(probes)) == {
        "a": "kfd_ioctl", "mid": "kfd_ioctl+0x120", "hex": "kfd_ioctl+0x120", "a_ret": "kfd_ioctl",
    }  # fmt: skip
