"""Tell the function tracer which functions to trace, without making the kernel search for each name."""

from __future__ import annotations

from collections.abc import Sequence

from tracecorr.capture.tracefs import Tracefs

_FILTER = "set_ftrace_filter"
DRIVER_MODULE = "[amdgpu]"
# Marks a name that only the driver's function of this name is meant by.
OF_DRIVER = ":mod:amdgpu"


def traceable_functions(tracefs: Tracefs) -> list[str]:
    """Return the lines `name` or `name [module]` of all functions that can be traced, in the kernel's order.

    Raises:
        ControlFileError: the kernel does not show them.
    """
    return tracefs.read("available_filter_functions").splitlines()


def set_functions(instance: Tracefs, names: Sequence[str], lines: Sequence[str]) -> dict[str, str]:
    """Set the filter of an instance and read it back; return why the kernel refused some names.

    A name makes the kernel look through all 60,000 functions, a line number of its list does not (Linux 5.1), so
    numbers are tried first. What does not come back as it was asked for is asked for again by name.

    Args:
        instance: where to set the filter; its tracer must be off.
        names: functions, all copies of each; with `OF_DRIVER` behind the name only the driver's.
        lines: what `traceable_functions` returned.

    Raises:
        ControlFileError: the filter cannot be used here.
    """
    numbers, missing = number_functions(lines, names)
    wanted = {name.partition(":")[0] for name in names} - set(missing)
    instance.write(_FILTER, "")
    if instance.append_words(_FILTER, map(str, numbers)) or functions_set(instance) != wanted:
        instance.write(_FILTER, "")
        refused = instance.append_words(_FILTER, [name for name in names if name not in missing])
        return {**missing, **refused}
    return missing


def functions_set(instance: Tracefs) -> set[str]:
    """Return the names in the filter of an instance; none means that every function would be traced."""
    return {line.split()[0] for line in instance.read(_FILTER).splitlines() if line and line[0] != "#"}


def number_functions(lines: Sequence[str], names: Sequence[str]) -> tuple[list[int], dict[str, str]]:
    """Return the line numbers (from 1) of all functions with these names, and the names that are not there.

    Args:
        lines: `name` or `name [module]`, as the kernel lists them.
        names: functions, perhaps with `OF_DRIVER`.
    """
    wanted = {name.partition(":")[0]: name.endswith(OF_DRIVER) for name in names}
    numbers: list[int] = []
    found: set[str] = set()
    for number, line in enumerate(lines, 1):
        name, _, module = line.partition(" ")
        if name in wanted and (not wanted[name] or module == DRIVER_MODULE):
            numbers.append(number)
            found.add(name)
    return numbers, {n: "there is no such function" for n in names if n.partition(":")[0] not in found}
