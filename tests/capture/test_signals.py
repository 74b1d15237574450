"""Signals to the capture: what is collected, and what the caller wanted ignored."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

REPO = Path(__file__).resolve().parents[2]
# In a process of its own: the inbox changes the signal mask, and its failure would end the tests.
_SEND_TO_ITSELF = """
import os, select, signal, sys
from tracecorr.capture.interrupts import SignalInbox
sent, ignored = ([signal.Signals[name] for name in word.split(",") if name] for word in sys.argv[1:])
for number in ignored:
    signal.signal(number, signal.SIG_IGN)
with SignalInbox() as inbox:
    for number in sent:
        os.kill(os.getpid(), number)
    os.kill(os.getpid(), signal.SIGCHLD)
    inbox.start()
    got = []
    while not any(r.number == signal.SIGCHLD for r in got):
        select.select([inbox.descriptor], [], [])
        got += inbox.take()
    os.kill(os.getpid(), signal.SIGQUIT)
print(*sorted(r.number.name for r in got if r.from_process))
"""


def _send(sent: str, ignored: str = "") -> str:
    done = subprocess.run(
        [sys.executable, "-c", _SEND_TO_ITSELF, sent, ignored], text=True, capture_output=True, timeout=60,
        env={**os.environ, "PYTHONPATH": str(REPO)}, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done
    return done.stdout.strip()


def test_all_that_would_end_the_process_is_collected() -> None:
    assert _send("SIGINT,SIGQUIT,SIGTERM,SIGHUP") == "SIGCHLD SIGHUP SIGINT SIGQUIT SIGTERM"


@pytest.mark.parametrize("ignored", ["SIGHUP", "SIGINT,SIGQUIT", "SIGTERM"])
def test_what_the_caller_ignores_is_not_obeyed(ignored: str) -> None:
    every = {"SIGINT", "SIGQUIT", "SIGTERM", "SIGHUP"}
    left = sorted({"SIGCHLD", *every} - set(ignored.split(",")))
    assert _send(",".join(sorted(every)), ignored) == " ".join(left)


_STOP_ITSELF = """
import os, select, signal
from tracecorr.capture.interrupts import SignalInbox
with SignalInbox() as inbox:
    inbox.start()
    os.kill(os.getpid(), signal.SIGSTOP)
    os.kill(os.getpid(), signal.SIGTERM)
    got = []
    while not got or select.select([inbox.descriptor], [], [], 0.5)[0]:
        select.select([inbox.descriptor], [], [])
        got += inbox.take()
print(*(r.number.name for r in got))
"""


def test_a_stop_is_no_signal_and_those_after_it_are_collected() -> None:
    environment = {**os.environ, "PYTHONPATH": str(REPO)}
    child = subprocess.Popen([sys.executable, "-c", _STOP_ITSELF], text=True, stdout=subprocess.PIPE, env=environment)
    os.waitid(os.P_PID, child.pid, os.WSTOPPED)
    time.sleep(1)  # as somebody who looks at something else
    child.send_signal(signal.SIGCONT)
    assert child.communicate(timeout=60)[0].split() == ["SIGTERM"]
