"""Send INT and TERM to a capture in each of its phases after the workload, and measure how long it takes to end.

Phases: waiting for the engine of containers, closing logs, building tables, summing up; then `correlate` and `import`
of the same log. Each is interrupted at random moments of it. The workload writes a SYNTHETIC log of
some hundred MB at once. A round that takes more than two seconds is a fault, and so is a phase that no round met.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.big_log import write_big_log

LIMIT_SECONDS = 2.0
_PATIENCE_SECONDS = 120
_REPO = Path(__file__).resolve().parents[2]
_WORKLOAD = 'cat "$0" > "${AMD_LOG_LEVEL_FILE}_1"; touch "$1"'
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def _obey_signals() -> None:
    """Give SIGINT, which a script's `&` ignores, its default meaning again."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def _start(work: Path, words: Sequence[str]) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "PYTHONPATH": str(_REPO), "PATH": f"{work / 'bin'}:{os.environ['PATH']}"}
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "tracecorr", *words], cwd=work, env=environment, preexec_fn=_obey_signals,
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip


def _capture_words(work: Path, *more: str) -> list[str]:
    script = ["sh", "-c", _WORKLOAD, str(work / "big.log"), str(work / "done")]
    return ["capture", "--quiet", *more, "-o", "x", "--", *script]


def _capture(work: Path) -> subprocess.Popen[bytes]:
    return _start(work, _capture_words(work))


def _contain(work: Path) -> subprocess.Popen[bytes]:
    """Start a capture in a container of an engine that never answers."""
    engine = work / "bin" / "docker"
    engine.parent.mkdir()
    engine.write_text(f"#!/bin/sh\ntouch {work / 'asked'}\nexec sleep 600\n")
    engine.chmod(0o755)
    return _start(work, ["capture", "--container", "some", "-o", "x", "--", "true"])


def _correlate(work: Path) -> subprocess.Popen[bytes]:
    _start(work, _capture_words(work, "--no-correlate")).wait()
    return _start(work, ["correlate", "x"])


def _import(work: Path) -> subprocess.Popen[bytes]:
    return _start(work, ["import", "--amd-log", "big.log", "-o", "x"])


def _builds(work: Path) -> bool:
    return any((work / "x.tracecorr").glob(".tables.*"))


# How each phase is started, what shows that it began, and how many seconds of it are tried.
PHASES: dict[str, tuple[Callable[[Path], subprocess.Popen[bytes]], Callable[[Path], bool], float]] = {
    "waiting for an engine": (_contain, lambda work: (work / "asked").exists(), 1.0),
    "closing logs": (_capture, lambda work: (work / "done").exists(), 1.0),
    "building tables": (_capture, _builds, 6.0),
    "summing up": (_capture, lambda work: (work / "x.tracecorr/tables/events.parquet").exists(), 0.5),
    "correlate": (_correlate, _builds, 6.0),
    "import": (_import, lambda work: any(work.glob(".x.tracecorr*")), 1.0),
}


def interrupt(phase: str, log: Path, number: signal.Signals, chosen: random.Random) -> float | None:
    """Return the seconds from a signal in a phase to the end of the process; None if it had ended before.

    Args:
        phase: of `PHASES`.
        log: a long HIP log.
        number: the signal.
        chosen: gives the moment.
    """
    start, has_begun, span = PHASES[phase]
    work = Path(tempfile.mkdtemp(prefix="tracecorr-endings-"))
    try:
        (work / "big.log").symlink_to(log)
        process = start(work)
        until = time.monotonic() + _PATIENCE_SECONDS
        while process.poll() is None and time.monotonic() < until and not has_begun(work):
            time.sleep(0.002)
        time.sleep(chosen.uniform(0, span))
        if process.poll() is not None:
            return None
        sent = time.monotonic()
        process.send_signal(number)
        try:
            process.wait(_PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        return time.monotonic() - sent
    finally:
        shutil.rmtree(work, ignore_errors=True)


def main() -> int:
    """Interrupt each phase, print a line for it; return 1 if one took too long, or was never met."""
    parser = argparse.ArgumentParser(prog="scripts/soak/run endings", description=__doc__)
    parser.add_argument("phases", nargs="*", metavar="PHASE", help="phases to interrupt (default: all)")
    parser.add_argument("--count", type=int, default=6, help="signals in each phase, INT and TERM in turn")
    parser.add_argument("--size-mb", type=int, default=300, help="size of the log")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "big.log"
        write_big_log(log, size_bytes=given.size_mb * 1_000_000)
        for phase in given.phases or PHASES:
            chosen = random.Random(f"{phase}-{given.seed}")
            found = [interrupt(phase, log, _SIGNALS[n % 2], chosen) for n in range(given.count)]
            took = [seconds for seconds in found if seconds is not None]
            shown = ", ".join(f"{seconds:.2f}" for seconds in took) or "never met"
            print(f"{phase}: {len(took)} of {given.count} met, seconds to the end: {shown}", flush=True)
            failed |= not took or max(took) > LIMIT_SECONDS
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
