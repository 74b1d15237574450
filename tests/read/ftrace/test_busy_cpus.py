"""One busy CPU among hundreds that write little: its pages are handed out in wide windows, in order (SYNTHETIC)."""

from __future__ import annotations

import numpy as np

from tracecorr.read.ftrace.ring import CpuPages, next_window

PAGE_BYTES, HEAD_BYTES = 4096, 16
IDLE_CPUS, IDLE_PAGES, BUSY_PAGES = 300, 20, 6000


def _page(stamp: int) -> bytes:
    """Return a page with one record of four bytes at its time."""
    head = stamp.to_bytes(8, "little") + (8).to_bytes(8, "little")
    return (head + (1).to_bytes(4, "little") + b"data").ljust(PAGE_BYTES, b"\0")


def _cpu(number: int, pages: int, step: int) -> CpuPages:
    chunks = (b"".join(_page(1 + step * i + number) for i in range(a, min(a + 8, pages))) for a in range(0, pages, 8))
    return CpuPages(number, number, chunks, (HEAD_BYTES, PAGE_BYTES))


def test_windows_hold_many_pages_of_the_busy_cpu() -> None:
    cpus = [_cpu(0, BUSY_PAGES, 1000), *(_cpu(1 + n, IDLE_PAGES, 300_000) for n in range(IDLE_CPUS))]
    windows, stamps, busy = 0, [], 0
    # As for a machine of 301 CPUs: 2048 pages are 6 of each, and at least 16 are read.
    while (window := next_window(cpus, 16, 2048)) is not None:
        windows += 1
        stamps.append(np.sort(window.records.stamp))
        busy += int((window.source == 0).sum())
    merged = np.concatenate(stamps)
    assert (np.diff(merged) >= 0).all()
    assert (busy, len(merged)) == (BUSY_PAGES, BUSY_PAGES + IDLE_CPUS * IDLE_PAGES)
    assert windows < 100
