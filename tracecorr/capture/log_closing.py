"""The end of the logs of a capture: completed, brought into its folder, taken back from the workload."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

from tracecorr.capture.folder import RecordingFolder
from tracecorr.capture.late_writers import LateWriters
from tracecorr.capture.launch import Launched
from tracecorr.capture.log_file import CUT_SHORT
from tracecorr.capture.logs import LogKeeper

# A runtime writes some KB at once.
_FULL_BYTES = 1 << 16


@dataclass
class ClosedLogs:
    """What came of it.

    Args:
        losses: what was lost of the logs.
        problems: what to tell the user.
        failures: why the logs could not be brought in.
    """

    losses: list[dict[str, Any]] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    failures: list[OSError] = field(default_factory=list)

    @property
    def is_cut(self) -> bool:
        """Tell whether somebody wrote on after the recording had ended."""
        return any(loss["reason"] == CUT_SHORT for loss in self.losses)


def close_logs(
    logs: LogKeeper, launched: Launched, folder: RecordingFolder, alive: Iterable[int], seconds: float
) -> ClosedLogs:
    """Complete the logs, whatever the workload did to them; who still writes cannot change them any more.

    Args:
        logs: the logs.
        launched: the workload.
        folder: the capture folder.
        alive: processes of the workload that go on.
        seconds: for how long it ran.
    """
    closed = ClosedLogs()
    strange: list[str] = []
    with closing(LateWriters(launched.logs, alive)) as late:
        steps: list[Callable[[], None]] = [
            lambda: closed.losses.extend(logs.finish(late.names)),
            lambda: closed.problems.extend(launched.collect() or ()),
            lambda: strange.extend(folder.seal_logs()),
        ]
        for step in steps:
            try:
                step()
            except OSError as error:
                closed.failures.append(error)
        said = late.discard(logs.size / seconds)
    closed.problems += [*logs.problems, *(f"the logs are not complete: {error}" for error in closed.failures)]
    closed.problems += [f"{name} in the log folder was no plain file and was removed" for name in strange]
    closed.problems += [said] if said else []
    if folder.free_bytes() < _FULL_BYTES:
        closed.problems.append(
            "the disk is full: what the HIP runtime could not write is missing in its log, uncounted"
        )
    return closed
