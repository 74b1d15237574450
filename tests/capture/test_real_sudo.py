"""Real sudo, called by a user who exists in a mount namespace alone: who the workload is, and its terminal."""

from __future__ import annotations

import json
import os
import pty
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

REPO = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.usefixtures("capturing", "machine_lock")
USER, OWN_GROUP, RENDER = 47110, 47111, 47112
# The files of users and rules are covered for these processes only; nothing of the machine is changed.
_AS_USER = """
for file in passwd group sudoers; do mount --bind "$0/$file" "/etc/$file"; done
cd "$0/work"
exec setpriv --reuid {user} --regid {own} --groups {render},{own} -- env -i HOME="$0/work" PATH=/usr/bin:/bin "$@"
"""


@pytest.fixture
def home(request: pytest.FixtureRequest) -> Iterator[Path]:
    """Return the folder of a user who may call sudo; a parameter is one more line of the rules."""
    if shutil.which("sudo") is None:
        pytest.skip("no sudo on this machine")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        users = Path("/etc/passwd").read_text() + f"gpu_user:*:{USER}:{OWN_GROUP}::{folder}/work:/bin/sh\n"
        groups = Path("/etc/group").read_text() + f"gpu_user:x:{OWN_GROUP}:\nmine:x:{RENDER}:gpu_user\n"
        rules = f"{getattr(request, 'param', '')}\ngpu_user ALL=(ALL) NOPASSWD:SETENV: ALL\n"
        for file, text in (("passwd", users), ("group", groups), ("sudoers", rules)):
            (folder / file).write_text(text)
        (folder / "sudoers").chmod(0o440)
        (folder / "work").mkdir()
        os.chown(folder / "work", USER, OWN_GROUP)
        yield folder


def command(home: Path, script: str) -> list[str]:
    """Return the command that runs a script of sh as the user; `sudo $CAPTURE` in it captures as root."""
    program = f"env PYTHONPATH={REPO} TRACECORR_RUN={home}/run {sys.executable} -m tracecorr"
    become = _AS_USER.format(user=USER, own=OWN_GROUP, render=RENDER)
    known = [f"TRACECORR={program}", f"CAPTURE={program} capture --force -o one --"]
    return ["unshare", "-m", "sh", "-c", become, str(home), *known, "sh", "-c", script]


def run(home: Path, script: str) -> list[str]:
    """Run a script of sh as the user; return the lines that it and its workloads print."""
    done = subprocess.run(command(home, script), text=True, capture_output=True, timeout=120, check=False)
    assert done.returncode == 0, done
    return done.stdout.splitlines()


def test_the_workload_has_the_groups_of_its_user(home: Path) -> None:
    [plain, ours] = run(home, "id -G; sudo $CAPTURE id -G")
    assert sorted(ours.split()) == sorted(plain.split()) == [str(OWN_GROUP), str(RENDER)]
    assert (home / "work" / "one.tracecorr" / "capture.json").stat().st_uid == USER


def test_what_was_set_last_holds(home: Path) -> None:
    shown = "sh -c 'echo $KEPT $SHELL_SET $ADDED $HOME'"
    lines = run(
        home,
        f"export KEPT=1 SHELL_SET=1; sudo $CAPTURE {shown}; sudo SHELL_SET=2 ADDED=2 $CAPTURE {shown};"
        f'sudo sh -c "export SHELL_SET=3 ADDED=3; $CAPTURE {shown.replace("$", chr(92) + "$")}"',
    )
    work = home / "work"
    assert lines == [f"1 1 {work}", f"1 2 2 {work}", f"1 3 3 {work}"]


_STAMPS = """
echo "$(id -u) $(id -G | tr ' ' '\\n' | sort -n | tr '\\n' ' ')$HIP_VISIBLE_DEVICES $HOME"
read up rest < /proc/uptime
for i in $(seq 100 160); do at="${up%.*}${up#*.}$i"; echo "tracecorr-stamp ${at}0000 ${at}1000 ${at}2000"; done
"""


def test_all_rounds_of_an_experiment_run_as_the_user(home: Path) -> None:
    work = home / "work"
    (work / "stamps.sh").write_text(_STAMPS)
    experiment = "sudo $TRACECORR experiment preempt -o x.experiment --rounds 1"
    run(home, f"export HIP_VISIBLE_DEVICES=3; {experiment} --high 'sh stamps.sh' --low 'sh stamps.sh' > report.md")
    outputs = sorted((work / "x.experiment").glob("*.txt"))
    assert len(outputs) == 10  # 6 of the plain round, 4 of the captured one
    told = {output.read_text().splitlines()[0] for output in outputs}
    assert told == {f"{USER} {OWN_GROUP} {RENDER} 3 {work}"}
    assert {each.stat().st_uid for each in (work / "x.experiment").rglob("*")} == {USER}


def _in_terminal(home: Path, script: str, *steps: tuple[str, bytes]) -> tuple[str, int]:
    """Run a script in a terminal; type the second of each step when the first was printed.

    Returns: what was printed, the script's status.
    """
    pid, terminal = pty.fork()
    if pid == 0:
        os.execvp("unshare", command(home, script))
    try:
        shown = _talk(terminal, list(steps))
    except BaseException:
        os.kill(pid, signal.SIGKILL)
        raise
    finally:
        os.close(terminal)  # hangs up
        _, status = os.waitpid(pid, 0)
    return shown, os.waitstatus_to_exitcode(status)


def _talk(terminal: int, steps: list[tuple[str, bytes]]) -> str:
    shown, looked, limit = "", 0, time.monotonic() + 120
    while time.monotonic() < limit:
        if steps and (found := shown.find(steps[0][0], looked)) >= 0:
            looked = found + len(steps[0][0])
            os.write(terminal, steps.pop(0)[1])
        if select.select([terminal], [], [], 0.2)[0]:
            try:
                shown += os.read(terminal, 65536).decode(errors="replace")
            except OSError:  # all have closed it
                assert not steps, shown
                return shown
    pytest.fail(f"the terminal is still open, waiting for {steps}, after {shown}")


TERMINALS = pytest.mark.parametrize("home", ["Defaults !use_pty", "Defaults use_pty"], indirect=True)


@TERMINALS
def test_ctrl_c_ends_the_program_and_the_capture_is_kept(home: Path) -> None:
    script = "exec sudo $CAPTURE sh -c 'echo is up; exec sleep 60'"
    shown, status = _in_terminal(home, script, ("is up", b"\x03"))
    assert status == 128 + signal.SIGINT, shown
    assert (home / "work" / "one.tracecorr" / "tables" / "events.parquet").is_file(), shown


@TERMINALS
def test_a_stopped_capture_goes_on_and_still_takes_signals(home: Path) -> None:
    # `set -m`: the shell puts sudo in a process group of its own and can bring it back, as at a prompt.
    ticking = "sh -c 'echo is up; for i in 1 2 3 4 5 6 7 8 9; do sleep 1; echo tick $i; done'"
    script = f"set -m; sudo $CAPTURE {ticking}; echo stopped; sleep 2; fg; exit $?"
    shown, status = _in_terminal(home, script, ("is up", b"\x1a"), ("tick 2", b"\x03"))
    assert status == 128 + signal.SIGINT, shown
    assert "Traceback" not in shown, shown


def test_a_file_that_the_user_may_not_read_is_not_given_to_them(home: Path) -> None:
    secret = home / "work" / "secret"
    secret.write_text("of root\n")
    secret.chmod(0o600)
    run(home, "sudo $CAPTURE sh -c 'mv secret ${AMD_LOG_LEVEL_FILE}_9; echo line > ${AMD_LOG_LEVEL_FILE}_8'")
    capture = home / "work" / "one.tracecorr"
    assert [path.name for path in (capture / "raw/amd_log").iterdir()] == ["hip_8"]
    assert (capture / "foreign/hip_9").read_text() == "of root\n"
    assert (capture / "foreign").stat().st_uid == (capture / "foreign/hip_9").stat().st_uid == 0


@pytest.mark.parametrize("verb", ["clean", "correlate one.tracecorr"])
def test_the_folder_is_the_users_after_a_kill(home: Path, verb: str) -> None:
    capture = home / "work" / "one.tracecorr"
    with subprocess.Popen(command(home, "sudo $CAPTURE sh -c 'touch ran; exec sleep 60'")) as process:
        while not (home / "work/ran").exists():
            time.sleep(0.01)
        recorder = json.loads((capture / "capture.json").read_text())["recorder"]["pid"]
        os.kill(recorder, signal.SIGKILL)
        process.wait()
    assert capture.stat().st_uid == 0
    run(home, f"sudo $TRACECORR {verb}")
    assert [path for path in (capture, *capture.rglob("*")) if path.lstat().st_uid != USER] == []
    run(home, "sudo $TRACECORR clean; pkill -U gpu_user sleep || true")
