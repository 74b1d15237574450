"""What the event thread of ROCr does in a synthetic run."""

from __future__ import annotations

from collections.abc import Iterator

from simulator.machine import Signal, Thread


class EventThread(Thread):
    """The event thread of ROCr: prints what completed."""

    due_ns = 0.0

    def expect(self, lines: list[int], signal: Signal, command: int, after_ns: float) -> None:
        """Let the end of a command's packets be printed some time after `after_ns`; ends are printed in their order."""
        self.due_ns = max(self.due_ns + 20_000, after_ns + self.machine.random.uniform(0.2e6, 2e6))
        self.machine.start(self.due_ns, self.report(lines, signal, command, self.due_ns))

    def report(self, lines: list[int], signal: Signal, command: int, due_ns: float) -> Iterator[float]:
        """Print the GPU time of the last of some packets, and the end of their command."""
        self.now = max(self.now, due_ns, signal.end_ns + 8_000)
        yield from self.say("signal", f"Handler: value(0), timestamp(0x7f5174018900), handle({signal.handle:#x})")
        shift = self.scene.suspended_ns + self.scene.namespace_ns
        start, end = int(signal.start_ns) + shift, int(signal.end_ns) + shift
        times = f"{start} / {end}"
        more = f"Elapsed = {int(signal.end_ns - signal.start_ns)} ns"
        more += ", ticks start/end = 1 / 2, Ticks elapsed = 1, Engine = 0"
        text = f"Signal = ({signal.handle:#x}), Translated start/end = {times}, {more}"
        if self.scene.era < "6.3":
            text = f"Signal = ({signal.handle:#x}), start = {start}, end = {end}"
        told = yield from self.say("signal", text)
        self.machine.record.truth.gpu_times.append((lines[-1], told))
        done = yield from self.say("done", f"Command {command:#x} complete (Wall: 58162, CPU: 0, GPU: 0 us)")
        if done >= 0:
            self.machine.record.truth.completions += [(line, done) for line in lines]
