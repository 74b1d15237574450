"""Kill captures of the null GPU at random moments, clean up, and compare the machine with its state before.

Each round starts `tracecorr capture` of the rig's program t1, every third one of a user's program that writes a log,
sends one of KILL, TERM, INT and HUP after a random time, and runs `tracecorr clean`. Compared are the control
files of tracefs, its instances, probes and event switches, /run/tracecorr, and who owns the capture folder.
TRACECORR_RIGS names the folder of the rigs, NULLGPU_CACHE what its build.sh made. Arguments: rounds (60), seed.
"""

from __future__ import annotations

import os
import pwd
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

TRACEFS = Path("/sys/kernel/tracing")
RUN = Path("/run/tracecorr")
REPO = Path(__file__).resolve().parents[2]
SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
LATEST_SECONDS = 6.0
# A workload may run on after TERM, INT or HUP; its capture waits for it.
PATIENCE_SECONDS = 60
_LOGGING = 'i=0; while [ $i -lt 300000 ]; do echo "line $i of a log"; i=$((i+1)); done > "${AMD_LOG_LEVEL_FILE}_1"'
FILES = (
    "uprobe_events", "kprobe_events", "dynamic_events", "set_event", "set_event_pid", "set_ftrace_filter",
    "set_ftrace_pid", "current_tracer", "trace_clock", "tracing_on", "trace_options",
)  # fmt: skip


def read_state() -> dict[str, str]:
    """Return what a capture may change on the machine, by name; `buffer_size_kb` without the note on its growth."""
    state = {name: _read(TRACEFS / name) for name in FILES if (TRACEFS / name).exists()}
    state["buffer_size_kb"] = _read(TRACEFS / "buffer_size_kb").partition(" (")[0].strip()
    state |= {f"events of {path.name}": _read(path / "enable") for path in (TRACEFS / "events").iterdir()}
    state["instances"] = _list(TRACEFS / "instances")
    state["journals"] = _list(RUN)
    return state


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError as error:
        return f"errno {error.errno}"


def _list(folder: Path) -> str:
    return " ".join(sorted(path.name for path in folder.iterdir())) if folder.is_dir() else ""


def _obey_signals() -> None:
    """Give the signals that a script's `&` or nohup ignores their default meaning again."""
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_DFL)


def start_capture(work: Path, user: pwd.struct_passwd | None) -> subprocess.Popen[bytes]:
    """Start a capture: of the null GPU as root, or of a program that writes a log as `user` who called sudo."""
    rig, cache = Path(os.environ["TRACECORR_RIGS"]).resolve() / "nullgpu", os.environ.get("NULLGPU_CACHE", "")
    environment = {**os.environ, "PYTHONPATH": str(REPO), "NULLGPU_CACHE": cache or str(rig / "cache")}
    environment |= {"NULLGPU_BIND": f"{work}:{work}", "NULLGPU_KERNEL_NS": "30000"}
    command = [str(rig / "run.sh"), "/rig/programs/t1", "2000", "3"]
    if user is not None:
        environment |= {"HOME": user.pw_dir, "SUDO_USER": user.pw_name}
        environment |= {"SUDO_UID": str(user.pw_uid), "SUDO_GID": str(user.pw_gid)}
        command = ["sh", "-c", _LOGGING]
    words = [sys.executable, "-P", "-m", "tracecorr", "capture", "--quiet", "-o", str(work / "x"), "--", *command]
    return subprocess.Popen(
        words, cwd=work, env=environment, preexec_fn=_obey_signals, start_new_session=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip


def end_capture(capture: subprocess.Popen[bytes], number: signal.Signals, seconds: float) -> None:
    """Send the signal after some seconds, and see to it that capture and workload end."""
    time.sleep(seconds)
    capture.send_signal(number)
    try:
        capture.wait(PATIENCE_SECONDS)
    except subprocess.TimeoutExpired:
        capture.kill()
        capture.wait()
    with suppress(ProcessLookupError):
        os.killpg(capture.pid, signal.SIGKILL)  # the workload of a killed capture


def clean() -> str:
    """Run `tracecorr clean` until nothing is left; return what it says of the last time, if that was not enough."""
    for _ in range(5):
        words = [sys.executable, "-P", "-m", "tracecorr", "clean"]
        done = subprocess.run(
            words, env={**os.environ, "PYTHONPATH": str(REPO)}, capture_output=True, text=True, check=False
        )
        if not done.returncode:
            return ""
        time.sleep(1)
    return done.stdout + done.stderr


def list_faults(work: Path, user: int, before: dict[str, str]) -> list[str]:
    """Return what differs from the state before, and what of the capture is not its caller's."""
    after = read_state()
    names = sorted(before.keys() | after.keys())
    faults = [f"{n}: {before.get(n)!r} is {after.get(n)!r} now" for n in names if before.get(n) != after.get(n)]
    found = [work / "x.tracecorr", *(work / "x.tracecorr").rglob("*")] if (work / "x.tracecorr").exists() else []
    return faults + [f"{path} belongs to user {path.lstat().st_uid}" for path in found if path.lstat().st_uid != user]


def run_round(chosen: random.Random, user: pwd.struct_passwd | None, before: dict[str, str]) -> tuple[str, list[str]]:
    """Kill one capture; return what was done, and the faults found."""
    number, seconds = chosen.choice(SIGNALS), chosen.uniform(0.2, LATEST_SECONDS)
    work = Path(tempfile.mkdtemp(prefix="tracecorr-kills-"))
    if user is not None:
        os.chown(work, user.pw_uid, user.pw_gid)
    try:
        end_capture(start_capture(work, user), number, seconds)
        left = clean()
        faults = list_faults(work, user.pw_uid if user is not None else 0, before)
        return f"{number.name} after {seconds:.2f} s", faults + ([f"clean: {left}"] if left else [])
    finally:
        shutil.rmtree(work, ignore_errors=True)


def main(count: int = 60, seed: int | None = None) -> int:
    """Kill `count` captures; return 1 if one of them left something on the machine."""
    seed = random.SystemRandom().randrange(1 << 32) if seed is None else seed
    print(f"seed {seed}", flush=True)
    chosen, user = random.Random(seed), pwd.getpwnam("nobody")
    clean()
    before, failed = read_state(), 0
    for done in range(1, count + 1):
        what, faults = run_round(chosen, None if done % 3 else user, before)
        failed += bool(faults)
        print(f"{done}/{count} {what}: {'; '.join(faults) or 'as before'}", flush=True)
    print(f"{count - failed} of {count} captures left the machine as it was")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
