"""Probes as `trace-cmd report` (3.1.6) prints them: addresses alone, the function before what it returns to.

The lines are those of a recorded trace.
"""

from __future__ import annotations

import polars as pl
from ftrace_cases import read_text

_LINES = """cpus=2
            t1-168   [000]    20.132785: kfd_ioctl:            (ffffffffc0775194) cmd=0x80084b01 arg=0x7ffc69e60250
            t1-168   [000]    20.133218: kfd_ioctl_ret:        (ffffffffc0775194 <- ffffffffa6a64e44) ret=-22
            t1-168   [000]    22.637567: doorbell:             (7fa9c4d7e1c0) sig=0x7ffb80 val=0
            t1-168   [000]    22.711854: launch:               (7fa9c5ab0690) func=0x5621aaabfd90 stream=0x5621e5e21a00
            t1-168   [000]    22.795894: launch_ret:           (7fa9c5ab0690 <- 5621aaabaa89) status=0
            t1-168   [000]    22.795895: a_name_of_a_probe_that_is_long: (7fa9c5ab0690) x=1
"""


def test_probes_of_a_report_are_those_of_the_trace() -> None:
    trace = read_text(_LINES.encode())
    span = (pl.col("end_stamp_ns") - pl.col("stamp_ns")).alias("span")
    rows = trace.events.sort("stamp_ns").select("layer", "name", span, "result", "cmd", "arg", "packet_index")
    assert rows.rows() == [
        ("kfd", "kfd_ioctl", 433_000, "EINVAL", 0x80084B01, 0x7FFC69E60250, None),
        ("doorbell", "doorbell", None, None, None, 0x7FFB80, 0),
        ("hsa", "launch", 84_040_000, "0", None, None, None),
        ("hsa", "a_name_of_a_probe_that_is_long", None, None, None, None, None),
    ]
    assert trace.arg("stream") == [0x5621E5E21A00] and trace.arg("x") == [1]
