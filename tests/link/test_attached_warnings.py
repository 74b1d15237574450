"""What is said of a log and a trace of different times (SYNTHETIC): of an import, and of an attached process."""

from __future__ import annotations

from pathlib import Path

import pytest

from tracecorr.pipeline import correlate, import_files
from tracecorr.store import Capture
from tracecorr.store.capture import write_info

_LOG = ":3:hip_device_runtime.cpp   :682 : {:010d} us: [pid:7 tid: 0x7f00000000a0] hipInit: Returned hipSuccess : \n"
_TRACE = "# tracer: nop\n#\n          python3-7       [000] .....  {:.6f}: sys_enter_close: fd: 3\n"


def _warn(folder: Path, log_s: int, trace_s: int, how: str) -> list[str]:
    (folder / "amd.log").write_text(_LOG.format(log_s * 1_000_000))
    (folder / "trace.txt").write_text(_TRACE.format(trace_s))
    made = import_files(folder / "x.tracecorr", [folder / "amd.log"], [folder / "trace.txt"], clock="mono")
    write_info(made.path, {**Capture.open(made.path).info, "processes": [{"pid": 7, "how": how}] if how else []})
    return [text for text in correlate(made.path) if "overlap" in text or "log ends" in text]


def test_an_idle_process_that_was_attached_to_is_said_to_have_printed_nothing(tmp_path: Path) -> None:
    told = "the HIP log ends 14.0 s before the recording began: the process printed no line meanwhile"
    assert _warn(tmp_path, 100, 114, "attached") == [told]


@pytest.mark.parametrize(("log_s", "trace_s", "how"), [(100, 114, ""), (100, 114, "started"), (114, 100, "attached")])
def test_other_logs_and_traces_of_different_times_may_not_belong_together(
    tmp_path: Path, log_s: int, trace_s: int, how: str
) -> None:
    (said,) = _warn(tmp_path, log_s, trace_s, how)
    assert said.startswith("log and trace do not overlap in time")
