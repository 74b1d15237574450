"""The plan in capture.json while the capture runs: what is armed late is told there at once, for who kills it."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from tracecorr.capture.folder import RecordingFolder
from tracecorr.capture.late_probes import LateProbes
from tracecorr.capture.pace import Pace
from tracecorr.capture.plan_facts import facts_after_late
from tracecorr.capture.recorder import KernelRecorder

_SECONDS = 1.0
# Whoever fills the disk would take the space that is kept for the end of the capture while it changes hands.
_LEAST_BYTES = 2 << 20


class KeptPlan:
    """Keep capture.json true.

    Args:
        folder: the capture folder.
        info: contents of capture.json.
        recorder: the recording.
        late: what is armed while it runs.
    """

    def __init__(
        self, folder: RecordingFolder, info: dict[str, Any], recorder: KernelRecorder, late: LateProbes
    ) -> None:
        self._folder, self._info = folder, info
        self._recorder, self._late = recorder, late
        self._pace = Pace(_SECONDS)
        self._told = self._count()

    def learn(self) -> None:
        """Take into `info` what was armed, also late, and what is absent after all."""
        self._info["plan"] = facts_after_late(self._recorder.plan, self._late.armed, self._late.absent)

    def tick(self) -> None:
        """Write capture.json if there is news, at most once a second."""
        if self._count() != self._told:
            self._pace.run(self._write)

    def _write(self) -> None:
        if self._folder.free_bytes() < _LEAST_BYTES:
            return
        count = self._count()
        self.learn()
        with suppress(OSError):  # the end of the capture tries again
            self._folder.write_info(self._info)
            self._told = count

    def _count(self) -> tuple[int, int]:
        return len(self._late.armed), len(self._late.absent)
