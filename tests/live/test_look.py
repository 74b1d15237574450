"""Two looks at real processes: their memory, threads and ends; none is changed, none is waited for too long."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from images import BASE, Image, dispatch

from tracecorr.analyze.hangs import judge_scene
from tracecorr.live.look import look_twice
from tracecorr.live.memory import PAGE, Memory
from tracecorr.live.scene import make_scene
from tracecorr.live.threads import read_threads

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="the memory of another process is read as root")

# Maps what it reads from stdin at an address, in 1 GiB of which nothing else is touched; then does as it is told.
_HOLDER = """
import ctypes, mmap, sys, threading, time
libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
base, threads = int(sys.argv[1]), int(sys.argv[2])
data = sys.stdin.buffer.read()
fixed, anonymous, private, lazy = 0x10, 0x20, 0x02, 0x4000
at = libc.mmap(base, 1 << 30, 3, fixed | anonymous | private | lazy, -1, 0)
ctypes.memmove(at, data, len(data))
for _ in range(threads):
    threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
print("ready", flush=True)
time.sleep(600)
"""


@contextmanager
def _holder(image: Image, threads: int = 0) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen([sys.executable, "-c", _HOLDER, str(BASE), str(threads)], stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE)  # fmt: skip
    try:
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(bytes(image.data))
        process.stdin.close()
        assert process.stdout.readline() == b"ready\n"
        yield process
    finally:
        process.kill()
        process.wait()


def _resident(pid: int) -> str:
    return next(line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmRSS"))


def test_queues_are_found_in_the_memory_of_a_process_that_stays_as_it_is() -> None:
    image = Image()
    done = image.signal(1)
    for _ in range(32):
        image.queue([dispatch(completion=done)] * 5, read=2)
    with _holder(image) as process:
        before = _resident(process.pid)
        (sight,) = look_twice([process.pid], 0.1, 20)
        assert _resident(process.pid) == before
        assert sight.gaps == []
        queues = sight.looks[-1].queues or []
        assert [(q.write, q.read, len(q.packets)) for q in queues] == [(5, 2, 3)] * 32
        assert [j.cause for j in judge_scene(make_scene(sight), 10**8, 10**10)] == ["kernel"] * 32
        assert process.poll() is None


def test_absent_pages_and_other_mappings_are_not_read() -> None:
    with _holder(Image()) as process:
        memory = Memory(process.pid)
        assert memory.read(BASE + (512 << 20), 8) == b""
        library = next(m for m in memory.mappings if "libc" in m.path)
        assert memory.read(library.start, 8) == b""
        assert memory.read(1 << 63, 8) == memory.read(0, PAGE) == b""
        looked = sum(end - start for start, end in memory.list_present())
        assert 0 < looked < 256 << 20
        assert memory.find_signals(1, time.monotonic() + 5)[1:] == (False, 0)
        memory.close()


def test_a_process_that_ends_meanwhile_is_no_failure() -> None:
    with _holder(Image()) as process:
        pid = process.pid
        process.kill()
        process.wait()
    (sight,) = look_twice([pid], 0.1, 5)
    assert sight.looks[-1].process is None
    assert judge_scene(make_scene(sight), 10**8, 10**8) == []


def test_many_threads_and_a_stopped_process_are_told() -> None:
    with _holder(Image(), 300) as process:
        assert len(read_threads(process.pid)) == 301
        process.send_signal(signal.SIGSTOP)
        time.sleep(0.2)
        (sight,) = look_twice([process.pid], 0.1, 20)
        (judgment,) = judge_scene(make_scene(sight), 10**8, 10**10)
        assert (judgment.cause, judgment.certainty, judgment.stands) == ("halted", "proved", True)


def test_a_child_that_does_not_answer_is_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tracecorr.live.look.Memory", lambda _: time.sleep(60))
    started = time.monotonic()
    (sight,) = look_twice([os.getppid()], 0.1, 0.5)
    assert time.monotonic() - started < 30
    assert len(sight.looks) == 1 and sight.looks[0].threads
    assert "did not answer" in sight.gaps[0]
