"""What a capture costs its workload and everybody else: per ioctl, per doorbell store, per log line, per program.

Needs root, tracefs and gcc; the whole-program table also the null GPU rig (TRACECORR_RIGS, NULLGPU_CACHE).
Every figure is a median of paired runs: all variants run in turn. Costs of calls are CPU time, so that a busy
machine disturbs them little; of the whole program both CPU time and the time on the wall are given.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.big_log import write_big_log
from benchmarks.measure import markdown, run

# A library that exports what a runtime exports is probed like one; its signal has the layout of amd_hsa_signal.h.
_LIBRARY = """
#include <stdint.h>
#include <stddef.h>
int hsa_queue_create(void *a, uint32_t s, int t) { return 0; }
static volatile int64_t sink;
void hsa_signal_store_relaxed(void *signal, int64_t value) { sink = value + 1; }
void hsa_signal_store_screlease(void *signal, int64_t value) { sink = value; }
"""
_PROGRAM = """
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
void hsa_signal_store_screlease(void *signal, int64_t value);
static int64_t now(clockid_t clock) {
  struct timespec t;
  clock_gettime(clock, &t);
  return t.tv_sec * 1000000000LL + t.tv_nsec;
}
static void *nothing(void *argument) { return argument; }
static void start_thread(void) {
  pthread_t thread;
  if (!pthread_create(&thread, 0, nothing, 0)) pthread_join(thread, 0);
}
static int there[2], back[2];
static void *echo(void *argument) {
  char byte;
  for (long i = (long)argument; i; i--) if (read(there[0], &byte, 1) != 1 || write(back[1], &byte, 1) != 1) break;
  return 0;
}
static void start_echo(long count) {
  pthread_t thread;
  cpu_set_t first;
  CPU_ZERO(&first);
  CPU_SET(0, &first);
  sched_setaffinity(0, sizeof first, &first);
  if (pipe(there) || pipe(back) || pthread_create(&thread, 0, echo, (void *)count)) exit(1);
}
static void switch_twice(void) {
  char byte = 0;
  if (write(there[1], &byte, 1) != 1 || read(back[0], &byte, 1) != 1) exit(1);
}
static int open_log(int is_log, const char *program) {
  char name[4096], *file = getenv("AMD_LOG_LEVEL_FILE");
  snprintf(name, sizeof name, "%s_%d", is_log && file ? file : program, getpid());
  return open(name, O_WRONLY | O_CREAT | O_TRUNC, 0644);
}
int main(int argc, char **argv) {
  char line[150] = {0};
  int log = open_log(!strcmp(argv[1], "line"), argv[0]);
  long count = atol(argv[2]), rate = argc > 3 ? atol(argv[3]) : 0;
  int fd = open("/dev/null", O_RDWR);
  uint64_t queue[8] = {0, 0x1000, 0, 0, 7}, signal[8] = {(uint64_t)-1, 0x2000, 0, 0, 0, 0, (uint64_t)queue};
  usleep(300000); /* probes of a library that was just mapped are armed meanwhile */
  if (!strcmp(argv[1], "switch")) start_echo(count);
  int64_t start = now(CLOCK_MONOTONIC), used = now(CLOCK_PROCESS_CPUTIME_ID);
  for (long i = 0; i < count; i++) {
    if (!strcmp(argv[1], "ioctl")) ioctl(fd, 0x4b01, 0);
    else if (!strcmp(argv[1], "getppid")) syscall(SYS_getppid);
    else if (!strcmp(argv[1], "thread")) start_thread();
    else if (!strcmp(argv[1], "switch")) switch_twice();
    else if (!strcmp(argv[1], "line") || !strcmp(argv[1], "other")) write(log, line, sizeof line);
    else hsa_signal_store_screlease(signal, i);
    if (rate && i % 100 == 0) while (now(CLOCK_MONOTONIC) < start + i * 1000000000LL / rate) {}
  }
  printf("%.2f\\n", (double)(now(CLOCK_PROCESS_CPUTIME_ID) - used) / count);
}
"""
_LOG_OFF = ("--log-level", "0")
PARTS = ("calls", "losses", "log", "program")


class Bench:
    """The program, and how to run it alone, captured, and beside a capture."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "library.c").write_text(_LIBRARY)
        (folder / "program.c").write_text(_PROGRAM)
        compile_c = ["gcc", "-O2", "-w", "-pthread"]
        library = folder / "libhsa-runtime64.so.1"
        subprocess.run([*compile_c, "-shared", "-fPIC", "-o", library, folder / "library.c"], check=True)
        link = ["-o", folder / "program", folder / "program.c", library, f"-Wl,-rpath,{folder}"]
        subprocess.run([*compile_c, *link], check=True)

    def alone(self, *words: str) -> float:
        """Return ns per call without any capture."""
        return float(_output([str(self.folder / "program"), *words]))

    def captured(self, *words: str, options: Sequence[str] = ()) -> float:
        """Return ns per call of a captured run."""
        return float(_output(self.capture(options, str(self.folder / "program"), *words)))

    def beside(self, *words: str) -> float:
        """Return ns per call while something else is captured."""
        ready, over = self.folder / "ready", self.folder / "over"
        for file in (ready, over):
            file.unlink(missing_ok=True)
        script = f"touch {ready}; until [ -e {over} ]; do sleep 0.05; done"
        other = subprocess.Popen(self.capture((), "sh", "-c", script), stderr=subprocess.DEVNULL)
        try:
            while not ready.exists() and other.poll() is None:
                pass
            return self.alone(*words)
        finally:
            over.touch()
            other.wait()

    def capture(self, options: Sequence[str], *command: str) -> list[str]:
        """Return the command that captures `command`."""
        fixed = ["-o", str(self.folder / "x"), "--force", "--no-correlate", "--quiet"]
        return [sys.executable, "-m", "tracecorr", "capture", *fixed, *options, "--", *command]


def _output(command: Sequence[str]) -> str:
    found = subprocess.run(command, check=True, text=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    return found.stdout.split()[-1]


def _paired(works: dict[str, Callable[[], float]], runs: int) -> dict[str, float]:
    found: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(runs):
        for name, work in works.items():
            found[name].append(work())
    return {name: statistics.median(values) for name, values in found.items()}


def measure_calls(bench: Bench, runs: int) -> str:
    """Return the table of costs per call."""
    rows = []
    calls = {"ioctl": ("ioctl", "1000000"), "doorbell store": ("store", "100000"), "thread": ("thread", "2000")}
    calls["two switches between threads"] = ("switch", "100000")
    calls |= {"line of the HIP log": ("line", "300000"), "write to another file": ("other", "300000")}
    for name, words in calls.items():
        ns = _paired({"alone": lambda w=words: bench.alone(*w), "captured": lambda w=words: bench.captured(*w)}, runs)
        rows.append((f"{name} of the workload", f"{ns['alone']:.0f}", f"{ns['captured']:.0f}",
                     f"{ns['captured'] - ns['alone']:.0f}"))  # fmt: skip
    for name, words in {"system call": ("getppid", "5000000"), "doorbell store": ("store", "5000000")}.items():
        ns = _paired({"alone": lambda w=words: bench.alone(*w), "beside": lambda w=words: bench.beside(*w)}, runs)
        rows.append((f"{name} of another process", f"{ns['alone']:.0f}", f"{ns['beside']:.0f}",
                     f"{ns['beside'] - ns['alone']:.0f}"))  # fmt: skip
    return markdown(("call", "alone, ns CPU", "with a capture, ns CPU", "added ns"), rows)


def measure_losses(bench: Bench, events_per_second: int, seconds: int) -> str:
    """Return what a stream of events at a fixed rate lost."""
    calls = events_per_second // 2
    bench.captured("ioctl", str(calls * seconds), str(calls))
    info = json.loads((bench.folder / "x.tracecorr/capture.json").read_text())
    return f"{events_per_second:,} events/s for {seconds} s: {info['events']:,} recorded, {info['lost_events']:,} lost"


def measure_log(bench: Bench, size_mb: int, runs: int) -> str:
    """Return what following and compressing a growing log costs, and what is left of it on disk."""
    source = bench.folder / "source.log"
    write_big_log(source, size_bytes=size_mb * 1_000_000)
    size = source.stat().st_size / 1e6
    writer = ("sh", "-c", f'cat {source} > "${{AMD_LOG_LEVEL_FILE}}_$$"')
    found: dict[str, list[float]] = {"compressed": [], "left plain": []}
    stored = {}
    for _ in range(runs):
        for name, options in {"compressed": (), "left plain": ("--plain-log",)}.items():
            found[name].append(run(bench.capture(options, *writer)).cpu)
            (log,) = (bench.folder / "x.tracecorr/raw/amd_log").iterdir()
            stored[name] = log.stat().st_size / 1e6
    cpu = {name: statistics.median(seconds) for name, seconds in found.items()}
    rows = [(name, f"{cpu[name]:.2f}", f"{stored[name]:,.0f}", f"{size / stored[name]:.1f}") for name in found]
    added = (cpu["compressed"] - cpu["left plain"]) * 1e3 / size
    heads = (f"a log of {size:,.0f} MB (synthetic)", "CPU s of the capture", "MB on disk", "times smaller")
    return f"{markdown(heads, rows)}\n\ncompression costs {added:.2f} ms of CPU time per MB"


def measure_program(bench: Bench, rigs: Path, runs: int) -> str:
    """Return the table of the whole null GPU program, and what a log line costs."""
    folder = bench.folder
    environment = {"NULLGPU_BIND": f"{folder}:{folder}", "NULLGPU_KERNEL_NS": "5000"}
    inner = "TIMEFORMAT='%R %U %S'; { time /rig/programs/t1 2000 1 flat > /dev/null 2>&1; } 2>&1 | tail -n 1"
    command = [str(rigs / "nullgpu/run.sh"), "bash", "-c", inner]
    log = {"AMD_LOG_LEVEL": "5", "AMD_LOG_LEVEL_FILE": str(folder / "log")}
    works: dict[str, tuple[Sequence[str], dict[str, str]]] = {
        "nothing": (command, environment),
        "HIP log only": (command, {**environment, **log}),
        "kernel trace only": (bench.capture(_LOG_OFF, *command), environment),
        "both": (bench.capture((), *command), environment),
    }
    found: dict[str, list[tuple[float, float, float]]] = {name: [] for name in works}
    for _ in range(runs):
        for name, (words, variables) in works.items():
            found[name].append(_measure_run(words, variables))
    middle = {name: [statistics.median(column) for column in zip(*rows, strict=True)] for name, rows in found.items()}
    nothing = middle["nothing"]
    rows = [
        (name, f"{wall:.2f}", f"{own:.2f}", f"{own / nothing[1]:.2f}", f"{whole - own:.2f}")
        for name, (wall, own, whole) in middle.items()
    ]
    lines = sum(path.read_bytes().count(b"\n") for path in folder.glob("log_*")) / runs
    per_line = (middle["HIP log only"][1] - nothing[1]) * 1e6 / lines
    heads = ("recorded", "wall s", "CPU s of the program", "x nothing", "CPU s of the rest")
    return f"{markdown(heads, rows)}\n\n{lines:,.0f} log lines, {per_line:.2f} us of CPU time each"


def _measure_run(command: Sequence[str], environment: dict[str, str]) -> tuple[float, float, float]:
    """Return the program's seconds on the wall and of CPU time, and the CPU seconds of all that was started."""
    before = os.times()
    found = subprocess.run(
        command, check=True, text=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        env={**os.environ, **environment},
    )  # fmt: skip
    after = os.times()
    wall, user, system = (float(word) for word in found.stdout.split()[-3:])
    whole = after.children_user + after.children_system - before.children_user - before.children_system
    return wall, user + system, whole


def main(arguments: list[str]) -> None:
    """Measure all that this machine allows."""
    parser = argparse.ArgumentParser(prog="scripts/bench capture", description=__doc__)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--rate", type=int, default=200_000, help="events per second of the loss test")
    parser.add_argument("--seconds", type=int, default=10, help="duration of the loss test")
    parser.add_argument("--log-mb", type=int, default=1500, help="size of the synthetic HIP log")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS, help="what to measure")
    given = parser.parse_args(arguments)
    rigs = os.environ.get("TRACECORR_RIGS")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        bench = Bench(folder)
        print(f"medians of {given.runs} paired runs, {os.cpu_count()} CPUs, kernel {os.uname().release}\n")
        if "calls" in given.parts:
            print(measure_calls(bench, given.runs), flush=True)
        if "losses" in given.parts:
            print(f"\n{measure_losses(bench, given.rate, given.seconds)}", flush=True)
        if "log" in given.parts:
            print(f"\n{measure_log(bench, given.log_mb, given.runs)}", flush=True)
        if "program" in given.parts and rigs:
            print(f"\n{measure_program(bench, Path(rigs).resolve(), given.runs)}")
        elif "program" in given.parts:
            print("\nthe whole program was not measured: TRACECORR_RIGS is not set")


if __name__ == "__main__":
    main(sys.argv[1:])
