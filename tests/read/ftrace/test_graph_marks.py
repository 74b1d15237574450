"""Clock marks in a text of the function_graph tracer, which prints of a marker its text alone.

A recorded trace in the layout of that tracer (SYNTHETIC layout) has the clock that it has in its own.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from polars.testing import assert_frame_equal

from tracecorr.pipeline import correlate, import_files
from tracecorr.store import Capture

_LINE = re.compile(r"^ *(.{1,16}?)-(\d+) +\( *[\d-]+\) +\[(\d+)\] +\S+ +(\d+\.\d+): (.*)$")


def _lay_out(trace: str) -> str:
    lines = ["# tracer: function_graph\n"]
    for line in trace.splitlines():
        found = _LINE.match(line)
        if found:
            comm, tid, cpu, stamp, body = found.groups()
            task, text = f"{comm[:7]}-{tid}", body.removeprefix("tracing_mark_write: ")
            lines.append(f"{stamp:>12} |  {int(cpu)})  {task:^14} |               |  /* {text} */\n")
    return "".join(lines)


@pytest.mark.parametrize("with_log", [False, True])
def test_the_marks_tell_the_clock_as_in_other_texts(data_folder: Path, tmp_path: Path, with_log: bool) -> None:
    recorded = data_folder / "captures" / "t1-local-clock"
    (tmp_path / "graph.txt").write_text(_lay_out((recorded / "ftrace.txt").read_text()))
    logs = [recorded / "amd.log"] if with_log else []
    maps = []
    for trace in (recorded / "ftrace.txt", tmp_path / "graph.txt"):
        out = tmp_path / f"{trace.stem}.tracecorr"
        import_files(out, logs, [trace], clock="local", clock_samples=recorded / "clock.json")
        correlate(out)
        maps.append(Capture.open(out).table("clock_map").collect())
    assert "samples" in maps[0]["method"].cast(str).to_list()
    assert_frame_equal(*maps)
