"""Who waited for a lock, and who woke it: SYNTHETIC futex calls with the known answer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
from analyze_tables import Rows, tables_of

from tracecorr.analyze.slow_calls import summarize_lock_waits
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
    capture = Capture.open(tmp_path / "x.tracecorr")
    found = summarize_lock_waits(capture.table)
    assert found.select("tid", "lock", "longest_ns", "woken_by").rows() == [
        (11, 0x7F0010, 250_000, 12), (16, 0x7F0010, 100_000, None),
    ]  # fmt: skip
    links = capture.table("links").filter(pl.col("rule").cast(pl.String) == "lock_wait").collect()
    assert links.select("from_event", "to_event").rows() == found.select("wake_event", "event").head(1).rows()
    assert links["evidence"].cast(pl.String).to_list() == ["derived"]


def test_waits_of_many_threads_for_one_holder_are_one_fact() -> None:
    """SYNTHETIC, after rocm-systems#11678: seven threads wait for a lock until a hipStreamSynchronize ends."""
    calls = [_call(0, "hipStreamSynchronize", 1, 404)] + [_call(n, "hipMemcpyAsync", n, 370) for n in range(2, 9)]
    waits = [_futex(10 + n, n, n, 361) for n in range(2, 9)]
    wakes = [_futex(30 + n, 1, 0, 0, result="1") for n in range(2, 9)]
    args = [
        {"event": row["event"], "key": key, "u64": value}
        for row in (*waits, *wakes)
        for key, value in (("uaddr", 0x10), ("op", 0x80 if row in waits else 0x81), ("val", 2 if row in waits else 1))
    ]  # fmt: skip
    links = [{"from_event": 30 + n, "to_event": 10 + n, "rule": "lock_wait"} for n in range(2, 9)]
    rows: Rows = {"events": [*calls, *waits, *wakes], "args": args, "links": links}
    (row,) = summarize_lock_waits(tables_of(rows)).to_dicts()
    told = {key: row[key] for key in ("call", "waits", "threads", "longest_ns", "woken_by", "waker_call")}
    assert told == {
        "call": "hipMemcpyAsync", "waits": 7, "threads": 7, "longest_ns": 361_000_000, "woken_by": 1,
        "waker_call": "hipStreamSynchronize",
    }  # fmt: skip
    assert row["waited_ns"] == 7 * 361_000_000
    assert row["summary"] == (
        "hipMemcpyAsync of 7 threads waited 2.53 s in all (7 waits, the longest 361.00 ms) for lock 0x10; woken by "
        "thread 1, which was in hipStreamSynchronize"
    )


def _call(event: int, name: str, tid: int, ms: int) -> dict[str, Any]:
    return {"event": event, "ts_ns": event, "dur_ns": ms * 1_000_000, "layer": "hip", "name": name, "process": 0,
            "thread": tid, "tid": tid, "source": "amd_log"}  # fmt: skip


def _futex(event: int, tid: int, chain: int, ms: int, result: str = "0") -> dict[str, Any]:
    return {"event": event, "ts_ns": event, "dur_ns": ms * 1_000_000, "layer": "syscall", "name": "futex", "process": 0,
            "thread": tid, "tid": tid, "chain": chain, "result": result, "source": "ftrace"}  # fmt: skip
