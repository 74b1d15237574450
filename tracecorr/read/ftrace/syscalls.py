"""System calls by number: what the events of `raw_syscalls` tell (x86-64, Linux up to 6.18)."""

from __future__ import annotations

from functools import cache
from importlib.resources import files


def syscall_of(number: int) -> tuple[str, list[str]]:
    """Return name and arguments of a system call, named as in `events/syscalls`."""
    return _table().get(number, (f"syscall_{number}", [f"arg{i}" for i in range(6)]))


@cache
def _table() -> dict[int, tuple[str, list[str]]]:
    text = files("tracecorr.read.ftrace").joinpath("syscalls_x86_64.csv").read_text()
    rows = (line.split(",") for line in text.splitlines()[1:])
    return {int(number): (name, arguments.split()) for number, name, arguments in rows}
