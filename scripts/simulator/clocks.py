"""Clocks of the model: what a source's clock shows at a true CLOCK_MONOTONIC time."""

from __future__ import annotations

from dataclasses import dataclass

# Jiffies pass every 4 ms; `uptime` shows them in clock_t, hundredths of a second.
_JIFFY_NS, _CLOCK_T_NS = 4_000_000, 10_000_000


@dataclass(frozen=True)
class ClockModel:
    """Describe a clock against CLOCK_MONOTONIC.

    Args:
        name: as trace_clock names it.
        offset_ns: MONOTONIC minus this clock at the start of the run.
        ppm: drift: growth of the offset.
        slew_ppm, slew_at_ns: another drift from this time of the run on (an NTP correction).
        ticks_per_ns: of a clock that does not count nanoseconds.
    """

    name: str = "mono"
    offset_ns: int = 0
    ppm: float = 0.0
    slew_ppm: float = 0.0
    slew_at_ns: int = 0
    ticks_per_ns: float = 1.0

    def show(self, mono_ns: float, start_ns: int) -> int:
        """Return what the clock shows at a time, when the run began at `start_ns`."""
        since = mono_ns - start_ns
        offset = self.offset_ns + self.ppm * 1e-6 * since
        if self.slew_ppm and since > self.slew_at_ns:
            offset += self.slew_ppm * 1e-6 * (since - self.slew_at_ns)
        shown = int(mono_ns - offset)
        if self.name == "uptime":
            return shown // _JIFFY_NS * _JIFFY_NS // _CLOCK_T_NS
        return shown if self.ticks_per_ns == 1.0 else int(since * self.ticks_per_ns) + self.offset_ns
