"""What ends a recording: the workload, signals, limits, a full disk; and what is left after each."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from own_captures import HANGS, QUICK, REPO, Capture, unchanged

from tracecorr.capture.tracefs.control import Tracefs
from tracecorr.store.recording import describe_gaps

pytestmark = pytest.mark.usefixtures("capturing")


def test_a_killed_workload_gives_its_signal(tmp_path: Path) -> None:
    assert Capture(tmp_path, *QUICK, "--", "sh", "-c", "kill -KILL $$").end()[0] == 137


def test_termination_ends_both_and_closes_the_folder(tmp_path: Path, tracefs: Tracefs) -> None:
    with unchanged(tracefs):
        capture = Capture(tmp_path, *QUICK, "--", "sh", "-c", "touch started; exec sleep 60")
        capture.wait_for("started")
        capture.process.send_signal(signal.SIGTERM)
        assert capture.end()[0] == 128 + signal.SIGTERM
    assert capture.info["state"] == "complete"
    assert "SIGTERM" in capture.info["end_reason"]


def test_a_known_cause_of_no_log_is_not_followed_by_guesses(tmp_path: Path) -> None:
    """SYNTHETIC runtime: a file of its name, mapped by a program whose log was turned off."""
    (tmp_path / "libamdhip64.so.7").write_bytes(b"not a library (synthetic)")
    program = (
        "import mmap, time; f = open('libamdhip64.so.7', 'rb'); m = mmap.mmap(f.fileno(), 0, prot=1); time.sleep(1)"
    )
    words = (*QUICK, "--", "env", "AMD_LOG_LEVEL=0", sys.executable, "-c", program)
    status, _, err = Capture(tmp_path, *words).end()
    assert (status, "was started with AMD_LOG_LEVEL=0" in err, "no HIP log appeared" in err) == (0, True, False)
    assert "HIP log: none; the warning above says why" in err


@pytest.mark.parametrize("redirected", [False, True])
def test_no_live_line_mixes_with_what_the_workload_prints(tmp_path: Path, redirected: bool) -> None:
    ours, theirs = pty.openpty()
    script = "printf 'half a '; sleep 2.5; echo line"
    words = [sys.executable, "-m", "tracecorr", "capture", "-o", "x", "--event-set", "minimal", "--no-correlate"]
    with (tmp_path / "out").open("w") as out:
        subprocess.run(
            [*words, "--", "sh", "-c", script], cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(REPO)}, check=True,
            stdin=subprocess.DEVNULL, stdout=out if redirected else theirs, stderr=theirs,
        )  # fmt: skip
    os.close(theirs)
    shown = os.read(ours, 1 << 16).decode()
    os.close(ours)
    assert ("tracecorr: recording" in shown) == redirected
    assert ("half a line" in shown) != redirected


def test_the_first_interrupt_is_the_workloads_the_second_ends_the_capture(tmp_path: Path, tracefs: Tracefs) -> None:
    script = "trap 'touch interrupted' INT; touch started; while :; do sleep 0.1; done"
    with unchanged(tracefs):
        capture = Capture(tmp_path, *QUICK, "--", "sh", "-c", script)
        capture.wait_for("started")
        capture.process.send_signal(signal.SIGINT)
        capture.wait_for("interrupted")
        time.sleep(0.3)
        assert capture.process.poll() is None
        capture.process.send_signal(signal.SIGINT)
        status = capture.process.wait(timeout=HANGS)
    (workload,) = [p["pid"] for p in capture.info["processes"] if p["how"] == "started"]
    os.kill(workload, signal.SIGKILL)
    _, _, err = capture.end()
    assert status == 128 + signal.SIGINT, err
    assert (capture.info["end_reason"], capture.info["exit_status"]) == ("interrupted", None)
    assert f"the workload still runs: {workload} (sh)" in err
    assert any(f"{workload} (sh)" in problem for problem in capture.info["problems"])


def test_a_workload_that_outlives_its_capture_takes_no_space(tmp_path: Path, tracefs: Tracefs) -> None:
    """SYNTHETIC log."""
    script = """
trap 'touch interrupted' INT; exec 3>>"$AMD_LOG_LEVEL_FILE"_$$; touch started
while :; do printf '%65535s\\n' line >&3; sleep 0.01; done
"""
    with unchanged(tracefs):
        capture = Capture(tmp_path, *QUICK, "--", "bash", "-c", script)
        capture.wait_for("started")
        capture.process.send_signal(signal.SIGINT)
        capture.wait_for("interrupted")
        capture.process.send_signal(signal.SIGINT)
        status = capture.process.wait(timeout=HANGS)
    (workload,) = [p["pid"] for p in capture.info["processes"] if p["how"] == "started"]
    try:
        (file,) = [file for file in capture.info["files"] if file["source"] == "amd_log"]
        stored = capture.shown / file["path"]
        kept, log = stored.stat().st_size, Path(f"/proc/{workload}/fd/3")
        assert log.stat().st_nlink == 0
        sizes = [log.stat().st_blocks]
        while sizes[-1] >= max(sizes) and len(sizes) < 6000:
            time.sleep(0.01)
            sizes.append(log.stat().st_blocks)
        assert sizes[-1] < max(sizes)
        assert stored.stat().st_size == kept == file["size"]
    finally:
        os.kill(workload, signal.SIGKILL)
    _, _, err = capture.end()
    assert status == 128 + signal.SIGINT, err
    assert f"still runs (pid {workload}" in err  # its `sleep` has the log open, too
    (loss,) = capture.info["losses"] or [None]
    assert loss is None or loss["reason"] == "the recording had ended"


def test_a_process_that_left_its_parents_is_named_and_cannot_change_the_capture(
    tmp_path: Path, tracefs: Tracefs
) -> None:
    """SYNTHETIC log, of a daemon: the processes between it and the command ended before they were seen."""
    daemon = "echo $$ > daemon; exec 3>>${AMD_LOG_LEVEL_FILE}_7; touch started; while sleep 0.01; do echo x; done >&3"
    script = f"(setsid sh -c '{daemon}' </dev/null >/dev/null 2>&1 &) & wait; until [ -e started ]; do sleep 0.01; done"
    with unchanged(tracefs):
        capture = Capture(tmp_path, *QUICK, "--", "sh", "-c", script)
        status, _, err = capture.end()
    pid = int((tmp_path / "daemon").read_text())
    try:
        assert (status, capture.info["state"]) == (0, "complete"), err
        assert f"the command has ended, but it left processes that go on: {pid} (sh)" in err
        (file,) = [file for file in capture.info["files"] if file["source"] == "amd_log"]
        time.sleep(0.5)
        assert (capture.shown / file["path"]).stat().st_size == file["size"]
    finally:
        os.kill(pid, signal.SIGKILL)
    assert pid in {seen["pid"] for seen in capture.info["processes"]}


def test_a_process_that_writes_on_and_ends_before_the_capture_is_named(tmp_path: Path, tracefs: Tracefs) -> None:
    """SYNTHETIC log, of a process that the command leaves behind, which ends with the capture's trace instances."""
    own = "/sys/kernel/tracing/instances/tracecorr_$CAPTURE"
    left = f"exec 3>>${{AMD_LOG_LEVEL_FILE}}_$$; touch started; while ls -d {own}_*; do echo x >&3; done; echo y >&3"
    start = f"export CAPTURE=$PPID; (bash -c '{left}' </dev/null >/dev/null 2>&1 &)"
    with unchanged(tracefs):
        capture = Capture(tmp_path, *QUICK, "--", "bash", "-c", f"{start}; until [ -e started ]; do sleep 0.01; done")
        status, _, err = capture.end()
    assert (status, capture.info["losses"][0]["reason"]) == (0, "the recording had ended"), err
    assert "the command has ended, but it left processes that " in err


def test_a_quit_is_the_workloads(tmp_path: Path, tracefs: Tracefs) -> None:
    script = "trap 'exit 9' QUIT; touch started; while :; do sleep 0.1; done"
    with unchanged(tracefs):
        capture = Capture(tmp_path, *QUICK, "--", "sh", "-c", script)
        capture.wait_for("started")
        capture.process.send_signal(signal.SIGQUIT)
        status, _, err = capture.end()
    assert (status, capture.info["state"]) == (9, "complete"), err


def test_a_duration_ends_the_recording_and_not_the_workload(tmp_path: Path) -> None:
    script = "touch started; until [ -e seen ]; do sleep 0.05; done; exit 5"
    capture = Capture(tmp_path, "--duration", "0.3", *QUICK, "--", "sh", "-c", script)
    capture.wait_for("started")
    capture.wait_until(capture.has_ended_recording)
    (tmp_path / "seen").touch()
    status, _, err = capture.end()
    assert status == 5
    assert "--duration 0.3 s is over; the workload keeps running" in err
    start, stop = (capture.info[key]["monotonic"] for key in ("start", "stop"))
    assert stop - start >= 300_000_000


def test_kill_ends_the_workload_with_the_recording(tmp_path: Path) -> None:
    capture = Capture(tmp_path, "--duration", "0.2", "--kill", *QUICK, "--", "sleep", "60")
    status, _, err = capture.end()
    assert status == 128 + signal.SIGTERM
    assert "--duration 0.2 s is over; the workload gets SIGTERM (--kill)" in err and "still runs" not in err


def test_too_little_space_ends_the_recording(tmp_path: Path) -> None:
    script = "touch started; until [ -e seen ]; do sleep 0.05; done"
    capture = Capture(tmp_path, "--min-free-gb", "1000000", *QUICK, "--", "sh", "-c", script)
    capture.wait_for("started")
    capture.wait_until(capture.has_ended_recording)
    (tmp_path / "seen").touch()
    status, _, err = capture.end()
    assert status == 0
    assert "GB are free on the disk of the capture folder (--min-free-gb 1e+06)" in err
    assert capture.info["state"] == "complete"


def test_a_log_beyond_its_limit_is_cut_and_counted(tmp_path: Path) -> None:
    line = ":3:x.cpp :1 : 100 us: [pid:7 tid: 0x7f00] hipInit ( 0 )"
    script = (
        f"import os, time\nf = open(os.environ['AMD_LOG_LEVEL_FILE'] + '_7', 'a')\n"
        f"n = 0\nwhile n < 30 or not os.path.exists('seen'):\n    n += 1\n    f.write(({line!r} + '\\n') * 2000)\n"
        "    f.flush()\n    time.sleep(0.05)\nopen('count', 'w').write(str(2000 * n))\n"
    )
    capture = Capture(tmp_path, "--max-log-gb", "0.0005", *QUICK, "--", sys.executable, "-c", script)
    capture.wait_until(lambda: (capture.shown / "raw/amd_log/hip_7").exists())
    capture.wait_until(capture.has_ended_recording)
    (tmp_path / "seen").touch()
    status, _, err = capture.end()
    assert status == 0, err
    assert "--max-log-gb" in err
    count = int((tmp_path / "count").read_text())
    (loss,) = capture.info["losses"]
    kept = (capture.shown / "raw/amd_log/hip_7").read_bytes()
    assert len(kept) >= 500_000
    assert kept.endswith(b"\n")
    assert kept.count(b"\n") + loss["records"] == count
    assert len(kept) + loss["bytes"] == count * (len(line) + 1)


def test_the_end_of_a_recording_is_told_before_its_buffers_are_emptied(tmp_path: Path) -> None:
    """Reading them takes longer than many a workload; the marks at its end are the last that it records."""
    capture = Capture(tmp_path, *QUICK, "--", "sleep", "0.2")
    assert capture.end()[0] == 0
    samples = json.loads((capture.shown / "raw/clock.json").read_text())["samples"]
    last = max(sample["mono1"] for sample in samples if sample["label"] == "end")
    assert capture.info["start"]["monotonic"] + 200_000_000 < capture.info["stop"]["monotonic"] < last


def test_after_sigkill_the_folder_opens_and_clean_restores(tmp_path: Path, tracefs: Tracefs) -> None:
    with unchanged(tracefs):
        capture = Capture(tmp_path, *QUICK, "--", "sh", "-c", "touch started; exec sleep 60")
        capture.wait_for("started")
        time.sleep(0.3)
        (workload,) = _children(capture.process.pid)
        capture.process.kill()
        # It has the capture's output open, too.
        os.kill(workload, signal.SIGKILL)
        capture.end()
        assert capture.info["state"] == "recording"
        verb = [sys.executable, "-m", "tracecorr"]
        environment = {**os.environ, "PYTHONPATH": str(REPO)}
        subprocess.run([*verb, "clean"], check=True, env=environment, capture_output=True)
    done = subprocess.run([*verb, "correlate", capture.shown], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert capture.info["state"] == "killed"
    assert any(entry["form"] == "pages" for entry in capture.info["files"])


def test_a_killed_capture_tells_what_was_probed_late(tmp_path: Path, tracefs: Tracefs, hsa_library: Path) -> None:
    program = f"import ctypes, time; ctypes.CDLL('{hsa_library}'); time.sleep(60)"
    with unchanged(tracefs):
        capture = Capture(tmp_path, *QUICK, "--", sys.executable, "-c", program)
        capture.wait_until(lambda: (capture.shown / "capture.json").exists() and bool(capture.info["plan"].get("late")))
        (workload,) = _children(capture.process.pid)
        capture.process.kill()
        os.kill(workload, signal.SIGKILL)
        capture.end()
        environment = {**os.environ, "PYTHONPATH": str(REPO)}
        subprocess.run([sys.executable, "-m", "tracecorr", "clean"], check=True, env=environment, capture_output=True)
    told = list(describe_gaps(capture.info["plan"]))
    assert any(line.startswith(f"late: {hsa_library.name} was found") for line in told)
    assert not any("doorbells (libhsa-runtime64)" in line for line in told)


@pytest.mark.parametrize("small_disk", ["3m"], indirect=True)
def test_a_full_disk_ends_the_recording_and_the_folder_opens(small_disk: Path, tracefs: Tracefs) -> None:
    script = "touch started; dd if=/dev/zero of=fill bs=64k 2>/dev/null; sleep 1; rm -f fill; exit 6"
    with unchanged(tracefs):
        capture = Capture(small_disk, "--min-free-gb", "0", *QUICK, "--", "sh", "-c", script)
        status, _, err = capture.end()
    assert status in (6, 125), err
    assert capture.info["state"] == ("failed" if status == 125 else "complete")


@pytest.mark.parametrize("small_disk", ["64k"], indirect=True)
def test_a_capture_that_finds_no_room_to_begin_says_where_and_leaves_nothing(
    small_disk: Path, tracefs: Tracefs
) -> None:
    (small_disk / "fill").write_bytes(bytes(60 << 10))
    with unchanged(tracefs):
        capture = Capture(small_disk, *QUICK, "--", "touch", "ran")
        status, _, err = capture.end()
    assert status == 3, err
    assert f"cannot start in {small_disk}" in err
    assert "make room there" in err
    assert [path.name for path in small_disk.iterdir()] == ["fill"]


@pytest.mark.parametrize("small_disk", ["4m"], indirect=True)
def test_a_disk_that_stays_full_has_room_for_the_end_of_the_capture(small_disk: Path, tracefs: Tracefs) -> None:
    script = "touch started; dd if=/dev/zero of=fill bs=4k 2>/dev/null; sleep 1; ls -R / >/dev/null 2>&1; exit 6"
    with unchanged(tracefs):
        capture = Capture(small_disk, "--min-free-gb", "0", "--no-correlate", "-q", "--", "sh", "-c", script)
        status, _, err = capture.end()
    info = capture.info
    assert (status, info["state"], info["exit_status"]) == (125, "failed", 6), err
    assert info["failure"] == "No space left on device"
    assert any("the trace could not be written" in problem for problem in info["problems"])
    assert "the disk is full: what the HIP runtime could not write is missing" in err
    assert err.splitlines()[-1].startswith("next step: make room on its disk; ")
    assert not (capture.shown / ".capture.json.new").exists()


def _children(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
