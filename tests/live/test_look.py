"""Two looks at real processes: their memory, threads and ends; none is changed, none is waited for too long."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path

import pytest
from images import BASE, Image, dispatch, hold

from tracecorr.analyze.hangs import judge_scene
from tracecorr.cli import main
from tracecorr.live.look import look_twice
from tracecorr.live.process_memory import PAGE, Memory
from tracecorr.live.processes import read_threads, tell_occupancy
from tracecorr.live.scene import describe_sight, make_scene

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="the memory of another process is read as root")


def _resident(pid: int) -> str:
    return next(line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmRSS"))


def test_queues_are_found_in_the_memory_of_a_process_that_stays_as_it_is() -> None:
    image = Image()
    done = image.signal(1)
    for _ in range(100):
        image.queue([dispatch(completion=done)] * 5, read=2)
    with hold(image) as process:
        before = _resident(process.pid)
        (sight,) = look_twice([process.pid], 0.1, 20)
        assert _resident(process.pid) == before
        assert sight.gaps == []
        queues = sight.looks[-1].queues or []
        assert [(q.write, q.read, len(q.packets)) for q in queues] == [(5, 2, 3)] * 100
        assert [j.cause for j in judge_scene(make_scene(sight), 10**8, 10**10)] == ["kernel"] * 100
        assert process.poll() is None


def test_absent_pages_and_other_mappings_are_not_read() -> None:
    with hold(Image()) as process:
        memory = Memory(process.pid)
        assert memory.read(BASE + (512 << 20), 8) == b""
        library = next(m for m in memory.mappings if "libc" in m.path)
        assert memory.read(library.start, 8) == b""
        assert memory.read(1 << 63, 8) == memory.read(0, PAGE) == b""
        looked = sum(end - start for start, end in memory.list_present())
        assert 0 < looked < 256 << 20
        assert memory.find_signals(1, 5.0)[1:] == (False, 0)
        memory.close()


def test_a_process_that_ends_meanwhile_is_no_failure() -> None:
    with hold(Image()) as process:
        pid = process.pid
        process.kill()
        process.wait()
    (sight,) = look_twice([pid], 0.1, 5)
    assert sight.looks[-1].process is None
    assert judge_scene(make_scene(sight), 10**8, 10**8) == []


def test_what_may_not_be_read_is_told_with_what_would_help(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process of another user: its threads are seen, its memory and system calls are not."""
    monkeypatch.setattr("tracecorr.live.look._end_with", lambda _: os.setuid(65534))
    with hold(Image(), 3) as process:
        (sight,) = look_twice([process.pid], 0.1, 20)
    (gap,) = sight.gaps
    assert "not readable (Permission denied): look as root" in gap
    last = sight.looks[-1]
    assert (last.queues, len(last.threads)) == (None, 4)
    assert all(thread.doing.startswith("not readable") for thread in last.threads)
    assert describe_sight(sight, [])["status"] == 5


def test_many_threads_and_a_stopped_process_are_told() -> None:
    with hold(Image(), 1000) as process:
        assert len(read_threads(process.pid)) == 1001
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
    assert "not read in time" in sight.gaps[0]


def test_queues_that_share_too_few_slots_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """amdgpu issue 227, legacy-rocm-build#2705: 9 compute queues of 3 processes on 8 slots; SYNTHETIC sysfs."""
    node = tmp_path / "topology" / "nodes" / "1"
    node.mkdir(parents=True)
    (node / "gpu_id").write_text("42924\n")
    (node / "properties").write_text("simd_count 160\nnum_cp_queues 8\n")
    for pid in (1, 2, os.getpid()):
        # The last one is of SDMA, which needs no slot of compute.
        for number, kind in enumerate((0, 0, 0, 1)):
            queue = tmp_path / "proc" / str(pid) / "queues" / str(number)
            queue.mkdir(parents=True)
            (queue / "gpuid").write_text("42924\n")
            (queue / "type").write_text(f"{kind}\n")
    monkeypatch.setattr("tracecorr.live.processes._SYSFS", tmp_path)
    (line,) = tell_occupancy()
    assert line.startswith("GPU a7ac: ")
    told = [int(word) for word in line.split() if word.isdecimal()]
    assert told[-1] == 8
    assert told[0] == 3 * told[1]
    assert f"pid {os.getpid()}: 3" in line
    assert ("oversubscribed" in line) == (told[0] > 8)


@pytest.mark.parametrize(
    ("words", "status", "told"),
    [
        (("--deep", "--watch"), 2, "--deep and --watch cannot be combined"), (("--stall", "0s"), 2, "is not a time"),
        (("--wait", "1 day"), 2, "is not a time"), (("--debugfs", "."), 2, "--deep"),
        (("--pid", "1", "--all"), 2, "exclude each other"), (("--pid", "4194304999"), 2, "there is no process"),
    ],
)  # fmt: skip
def test_what_cannot_be_meant_is_refused(
    words: tuple[str, ...], status: int, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["hang", *words]) == status
    assert told in " ".join(capsys.readouterr().err.split())


def test_a_process_that_ends_while_it_is_looked_at_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    with hold(Image()) as process:
        threading.Timer(1.0, process.kill).start()
        threading.Timer(1.5, process.wait).start()
        assert main(["hang", "--pid", str(process.pid), "--wait", "2s"]) == 0
        assert f"process {process.pid}, which ended meanwhile" in capsys.readouterr().out
