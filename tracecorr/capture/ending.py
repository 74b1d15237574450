"""What becomes of the workload when a limit ends its recording: it runs on, or is ended, too (`--kill`)."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable

from tracecorr.capture.workload import Workload

# As `docker stop` waits.
GRACE_SECONDS = 10.0


class Ending:
    """Let the workload run on, or end it: SIGTERM, and SIGKILL where that does not.

    Args:
        workload: the process.
        tell: prints a message.
        is_wanted: end it.
        clock: gives the time in seconds.
    """

    def __init__(
        self,
        workload: Workload,
        tell: Callable[[str], None],
        *,
        is_wanted: bool,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._workload, self._tell, self._is_wanted, self._clock = workload, tell, is_wanted, clock
        self._until: float | None = None

    def begin(self, reason: str) -> None:
        """Say why the recording ended; ask the workload to end where that is wanted."""
        after = "gets SIGTERM (--kill)" if self._is_wanted else "runs on"
        self._tell(f"the recording ended: {reason}; the workload {after}")
        if self._is_wanted:
            self._until = self._clock() + GRACE_SECONDS
            self._workload.send(signal.SIGTERM)

    def tick(self) -> None:
        """Kill the workload once its time is over; with the first process of a container all others of it end, too.

        To that process the kernel gives a SIGTERM only where it has a handler.
        """
        if self._until is None or self._clock() < self._until or self._workload.status is not None:
            return
        self._until = None
        self._tell(f"the workload still runs {GRACE_SECONDS:g} s after SIGTERM: it gets SIGKILL")
        self._workload.send(signal.SIGKILL)
