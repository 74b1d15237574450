"""Whether a workload stands: two looks at each of its processes, as far apart as a stall lasts, again and again.

A read index never goes back, so a head that is the same in both looks has not moved between them.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable
from typing import Any

from tracecorr.analyze.hangs import Judgment, judge_scene
from tracecorr.capture.folder import RecordingFolder
from tracecorr.live.driver import read_driver
from tracecorr.live.look import Looking, Sight, begin_looking
from tracecorr.live.processes import find_processes, uses_gpu
from tracecorr.live.scene import describe_sight, make_scene

_LIMIT_SECONDS = 60.0


class StallWatch:
    """Watch the processes of one capture, and save what stands into its folder.

    Args:
        folder: the capture folder.
        seconds: how long nothing must move.
        tell: prints a message.
    """

    def __init__(self, folder: RecordingFolder, seconds: float, tell: Callable[[str], None]) -> None:
        self._folder, self._seconds, self._tell = folder, seconds, tell
        self._looking: dict[int, Looking] = {}
        self._told: set[tuple[int, tuple[str, ...]]] = set()
        self.found: list[dict[str, Any]] = []

    def tick(self, pids: Iterable[int]) -> str:
        """Take what the looks saw, and begin new ones; return what stands now in words, "" if nothing new does."""
        stands = ""
        for pid, looking in list(self._looking.items()):
            sight = looking.poll()
            if sight is not None:
                del self._looking[pid]
                stands = self._judge(sight) or stands
        for pid in filter(uses_gpu, set(pids) - set(self._looking)):
            self._looking[pid] = begin_looking(pid, self._seconds, _LIMIT_SECONDS)
        return stands

    def stop(self) -> None:
        """End all looks."""
        for looking in self._looking.values():
            looking.stop()
        self._looking.clear()

    def _judge(self, sight: Sight) -> str:
        stood_ns = sight.looks[-1].at_ns - sight.looks[0].at_ns
        stall_ns = int(self._seconds * 1e9)
        if len(sight.looks) < 2 or not judge_scene(make_scene(sight), stood_ns, stall_ns):
            return ""
        judged = judge_scene(make_scene(sight, read_driver()), stood_ns, stall_ns)
        stands = [judgment for judgment in judged if judgment.stands]
        key = (sight.pid, tuple(_name(judgment) for judgment in stands))
        if not stands or key in self._told:
            return ""
        self._told.add(key)
        now = time.monotonic_ns()
        name = f"raw/live/hang-{sight.pid}-{now}.json"
        self._folder.write_bytes(name, (json.dumps(describe_sight(sight, judged), indent=1) + "\n").encode())
        told = f"process {sight.pid} made no progress for {stood_ns / 1e9:.1f} s: {stands[0].means}"
        self.found.append({"ns": now, "pid": sight.pid, "file": name, "told": told})
        self._tell(f"{told}; what was seen is in {name}")
        return told


def _name(judgment: Judgment) -> str:
    """Return what tells a standstill from another one: its cause and head, without the time that it lasted."""
    return f"{judgment.cause} {judgment.seen[0].rpartition('; the head is ')[2] if judgment.seen else ''}"


def warn_of_reset(pids: Iterable[int]) -> str:
    """Return what ending a program may do to others, in words: those that use a GPU, too."""
    others = sorted(set(find_processes()) - set(pids))
    told = f"processes {', '.join(map(str, others))} use a GPU, too" if others else "no other process uses a GPU"
    return f"the program is ended (--stall-kill). If its queue cannot be unmapped, the driver resets the GPU; {told}"
