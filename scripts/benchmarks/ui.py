"""Speed and memory of the timeline page in Debian's Chromium, on a SYNTHETIC capture.

Measured inside the page: from a change of the view to the frame that shows its data. The raw round trip is
a plain `fetch` of a small file from the same server, in the same page.
"""

from __future__ import annotations

import argparse
import contextlib
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import measure
from benchmarks.big_capture import LENGTH_S, Shape, write_big_capture
from benchmarks.measure import Cost
from tracecorr.store import Capture
from tracecorr.timeline.build import build_views
from tracecorr.timeline.pyramid import read_views, write_views

CHROMIUM = "/usr/bin/chromium"
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
)  # fmt: skip
SPANS_NS = {
    "whole": LENGTH_S * 10**9, "20 s": 2 * 10**10, "4 s": 4 * 10**9, "400 ms": 4 * 10**8, "40 ms": 4 * 10**7,
    "4 ms": 4 * 10**6, "400 us": 4 * 10**5, "20 us": 2 * 10**4,
}  # fmt: skip
TARGETS = {
    "first data, s": 2.0, "zoom or pan median, ms": 150, "zoom or pan p95, ms": 300, "server p95, ms": 50,
    "payload, MB": 1.5, "browser tab, MB": 500, "server, MiB": 1024, "build of views, s": 10,
    "derived levels, bytes per event": 25,
}  # fmt: skip

# Changes the view, waits until everything is fetched and painted, and returns the time and what was fetched.
_CHANGE = """async ([t0, t1, scroll]) => {
  const log = __perf.log.length, begun = performance.now();
  __perf.idle = false;
  __tl.view.setRange(t0, t1);
  if (scroll !== null) __tl.view.scroll = scroll;
  __tl.changed();
  await new Promise((done) => { const look = () => (__perf.idle ? done() : requestAnimationFrame(look)); look(); });
  return { ms: performance.now() - begun, fetched: __perf.log.slice(log) };
}"""
_RAW = """async () => {
  const begun = performance.now();
  await (await fetch("/assets/style.css", { cache: "no-store" })).arrayBuffer();
  return performance.now() - begun;
}"""


@dataclass
class Found:
    """Hold all measurements of one zoom level."""

    redraw_ms: list[float]
    server_ms: list[float]
    payload: list[int]


def _p95(values: list[float]) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(0.95 * len(ordered)))]


def _build(path: Path) -> Cost:
    def build() -> None:
        write_views(path, build_views(Capture.open(path).table))

    return measure.run_here(build)


def _derived_bytes(path: Path, events: int) -> float:
    files = (path / "views" / "pyramid").glob("[1-9]*.*.npy")
    return sum(file.stat().st_size for file in files) / events


@contextlib.contextmanager
def _served(path: Path) -> Iterator[tuple[str, int]]:
    """Serve a capture in a process of its own; yield the address and the process id."""
    command = [sys.executable, "-m", "tracecorr", "serve", str(path), "--port", "0", "--no-browser"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            line = next(text for text in server.stdout if "http://" in text)
            yield line[line.index("http://") :].strip(), server.pid
        finally:
            server.terminate()


@contextlib.contextmanager
def _page(folder: Path) -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        context = playwright.chromium.launch_persistent_context(
            folder, executable_path=CHROMIUM, args=list(FLAGS), viewport={"width": 1500, "height": 900}
        )
        yield context.new_page()
        context.close()


def _open(page: Any, url: str) -> float:
    """Open the page and return the seconds until the first frame with data."""
    page.goto(url, wait_until="commit")
    until = time.monotonic() + 60
    while time.monotonic() < until:
        first = page.evaluate("() => (window.__perf && __perf.first) || null")
        if first is not None:
            return float(first) / 1000
        time.sleep(0.05)
    raise RuntimeError("the page showed nothing within a minute")


def _measure_level(page: Any, span: int, rounds: int, rng: random.Random) -> Found:
    """Visit random places at one zoom level; pan a little, and scroll, at each of them."""
    found = Found([], [], [])
    length = page.evaluate("() => __tl.view.meta.length")
    room = page.evaluate("() => Math.max(0, __tl.view.total - __tl.view.height)")
    for _ in range(rounds):
        t0 = rng.uniform(0, max(0, length - span))
        for shift, scroll in ((0.0, rng.uniform(0, room)), (0.15 * span, None)):
            got = page.evaluate(_CHANGE, [t0 + shift, t0 + shift + span, scroll])
            found.redraw_ms.append(got["ms"])
            for fetched in got["fetched"]:
                found.server_ms.append(float(fetched["server"].split("dur=")[1]))
                found.payload.append(fetched["bytes"])
    return found


def _tab_memory(folder: Path) -> float:
    """Return the resident MB of the largest renderer among the processes of this browser."""
    most = 0
    for status in Path("/proc").glob("[0-9]*/status"):
        try:
            command = (status.parent / "cmdline").read_bytes()
            if b"--type=renderer" in command and str(folder).encode() in _ancestry(status.parent):
                most = max(most, _resident(int(status.parent.name)))
        except OSError:
            continue
    return most / 1e6


def _ancestry(process: Path) -> bytes:
    """Return the command line of the process and of its parents: the browser names its folder."""
    out = b""
    while process.name != "1" and process.exists():
        out += (process / "cmdline").read_bytes()
        parent = next(text for text in (process / "status").read_text().splitlines() if text.startswith("PPid"))
        process = process.parent / parent.split()[1]
        if process.name == "0":
            break
    return out


def _resident(pid: int) -> int:
    text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    return 1024 * int(next(line for line in text.splitlines() if line.startswith("Rss:")).split()[1])


def _peak_mib(pid: int) -> float:
    text = Path(f"/proc/{pid}/status").read_text()
    return int(next(line for line in text.splitlines() if line.startswith("VmHWM")).split()[1]) / 1024


def _drive(path: Path, rounds: int) -> tuple[dict[str, Found], dict[str, float], float]:
    """Return what was found at each zoom level, the single figures, and the raw round trip in ms."""
    rng = random.Random(3)
    with tempfile.TemporaryDirectory() as profile, _served(path) as (url, pid), _page(Path(profile)) as page:
        single = {"first data, s": _open(page, url)}
        page.wait_for_timeout(500)
        raw = statistics.median(page.evaluate(_RAW) for _ in range(20))
        found = {name: _measure_level(page, span, rounds, rng) for name, span in SPANS_NS.items()}
        single |= {"browser tab, MB": _tab_memory(Path(profile)), "server, MiB": _peak_mib(pid)}
    return found, single, raw


def _levels_table(found: dict[str, Found]) -> str:
    rows = [
        (
            name, f"{statistics.median(f.redraw_ms):.0f}", f"{_p95(f.redraw_ms):.0f}",
            f"{_p95(f.server_ms):.1f}" if f.server_ms else "none asked",
            f"{max(f.payload, default=0) / 1e6:.2f}",
        )
        for name, f in found.items()
    ]  # fmt: skip
    return measure.markdown(("view", "redraw median ms", "redraw p95 ms", "server p95 ms", "payload MB"), rows)


def main(arguments: list[str]) -> None:
    """Measure the page on a synthetic capture of the given size."""
    parser = argparse.ArgumentParser(prog="scripts/bench ui", description=__doc__)
    parser.add_argument("--events", type=int, default=10_000_000)
    parser.add_argument("--threads", type=int, default=144, help="seven lanes each (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=9, help="places visited at each zoom level")
    parser.add_argument("--builds", type=int, default=3, help="times the views are built")
    parser.add_argument("--capture", type=Path, help="measure this capture, not a synthetic one")
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        path = given.capture or Path(folder) / "SYNTHETIC.tracecorr"
        if not given.capture:
            write_big_capture(path, Shape(events=given.events, threads=given.threads))
        costs = [_build(path) for _ in range(given.builds)]
        views = read_views(path)
        assert views is not None, "the views just written must be those of the tables"
        single = {
            "build of views, s": statistics.median(c.wall for c in costs),
            "derived levels, bytes per event": _derived_bytes(path, views.events),
        }
        cpu = statistics.median(c.cpu for c in costs)
        print(
            f"{'given' if given.capture else 'SYNTHETIC'} capture: {views.events:,} events, {len(views.lanes)} lanes\n"
        )
        del views
        found, more, raw = _drive(path, given.rounds)
    single |= more
    print(_levels_table(found))
    print(f"\nbuild of views: {cpu:.1f} s of CPU time, median of {len(costs)}")
    print(f"raw fetch round trip: {raw:.1f} ms (median of 20)\n")
    single |= {
        "zoom or pan median, ms": max(statistics.median(f.redraw_ms) for f in found.values()),
        "zoom or pan p95, ms": max(_p95(f.redraw_ms) for f in found.values()),
        "server p95, ms": _p95([ms for f in found.values() for ms in f.server_ms]),
        "payload, MB": max(max(f.payload, default=0) for f in found.values()) / 1e6,
    }
    rows = [
        (name, f"{single[name]:.1f}", f"{limit:g}", "met" if single[name] <= limit else "MISSED")
        for name, limit in TARGETS.items()
    ]
    print(measure.markdown(("figure (worst zoom level)", "measured", "target", ""), rows))
