"""Who waited for a lock, and who woke it: SYNTHETIC futex calls with the known answer."""

from __future__ import annotations

from pathlib import Path

from tracecorr.analyze.locks import list_lock_waits
from tracecorr.pipeline import correlate, import_files
from tracecorr.store import Capture

# 0x80 = FUTEX_WAIT, 0x81 = FUTEX_WAKE, both PRIVATE; 0x189 = a condition variable. A word of 2: others wait.
_TRACE = """# tracer: nop
#
  app-11 [000] .....  1.000100: sys_futex(uaddr: 7f0010, op: 80, val: 2, utime: 0, uaddr2: 0, val3: 0)
  app-14 [003] .....  1.000110: sys_futex(uaddr: 7f0040, op: 189, val: 0, utime: 0, uaddr2: 0, val3: ffffffff)
  app-13 [002] .....  1.000150: sys_futex(uaddr: 7f0010, op: 80, val: 2, utime: 0, uaddr2: 0, val3: 0)
  app-13 [002] .....  1.000151: sys_futex -> 0xfffffffffffffff5
  app-15 [003] .....  1.000200: sys_futex(uaddr: 7f0020, op: 81, val: 1, utime: 0, uaddr2: 0, val3: 0)
  app-15 [003] .....  1.000201: sys_futex -> 0x1
  app-12 [001] .....  1.000300: sys_futex(uaddr: 7f0010, op: 81, val: 1, utime: 0, uaddr2: 0, val3: 0)
  app-12 [001] .....  1.000310: sys_futex -> 0x1
  app-11 [000] .....  1.000350: sys_futex -> 0x0
  app-14 [003] .....  1.000400: sys_futex -> 0x0
  app-16 [003] .....  1.000500: sys_futex(uaddr: 7f0010, op: 80, val: 2, utime: 0, uaddr2: 0, val3: 0)
  app-16 [003] .....  1.000600: sys_futex -> 0x0
"""


def test_a_wait_for_a_mutex_names_who_woke_it(tmp_path: Path) -> None:
    """Not a wait: one that returned at once (EAGAIN), a condition variable; the last one has no waker in the trace."""
    trace = tmp_path / "trace.txt"
    trace.write_text(_TRACE)
    import_files(tmp_path / "x.tracecorr", [], [trace], clock="mono")
    correlate(tmp_path / "x.tracecorr")
    found = list_lock_waits(Capture.open(tmp_path / "x.tracecorr").table)
    assert found.select("tid", "lock", "waited_ns", "woken_by").rows() == [
        (11, 0x7F0010, 250_000, 12), (16, 0x7F0010, 100_000, None),
    ]  # fmt: skip
