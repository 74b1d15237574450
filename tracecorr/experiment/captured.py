"""Experiments that capture runs one after the other: two programs (`ab`), values of a setting (`sweep`), one GEMM."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from tracecorr.analyze.compare.statistics import summarize_setting
from tracecorr.experiment.running import find_error, make_callers_folder, run_capture_of
from tracecorr.model.errors import InputError, TracecorrError
from tracecorr.store import Capture
from tracecorr.store.raw import write_atomically

_Say = Callable[[str], None]
# Of `--set NAME=...` in a command: an argument of the program instead of a variable of its environment.
_PLACE = "{{{}}}"


@dataclass(frozen=True)
class CaptureOptions:
    """Say how each run is captured.

    Args:
        folder: where the captures are kept.
        log_level: AMD_LOG_LEVEL.
        container: run everything in this running container.
        seconds: end the run after so many; None = at its own end.
    """

    folder: Path
    log_level: int = 5
    container: str | None = None
    seconds: float | None = None

    @property
    def words(self) -> list[str]:
        """Return the options of `capture`."""
        limit = [] if self.seconds is None else ["--duration", f"{self.seconds:g}", "--kill"]
        inside = [] if self.container is None else ["--container", self.container]
        return ["--log-level", str(self.log_level), *limit, *inside]


def capture_in_turn(
    runs: Mapping[str, tuple[Sequence[str], Mapping[str, str]]], options: CaptureOptions, say: _Say
) -> dict[str, Capture]:
    """Capture commands one after the other into a new folder.

    Args:
        runs: name of the capture -> command and variables.
        options: how.
        say: prints a message.

    Returns: name -> capture.

    Raises:
        InputError: the folder cannot be made, or a command failed.
        MachineError: this machine cannot capture.
    """
    try:
        make_callers_folder(options.folder)
    except OSError as error:
        raise InputError(f"cannot make {options.folder}: {error.strerror}", "choose another folder with -o") from None
    captures: dict[str, Capture] = {}
    try:
        for name, (command, variables) in runs.items():
            say(f"captured: {name}")
            captures[name] = _capture_one(options.folder / f"{name}.tracecorr", command, variables, options, say)
    except TracecorrError:
        if not captures:
            shutil.rmtree(options.folder, ignore_errors=True)
        raise
    return captures


def _capture_one(
    target: Path, command: Sequence[str], variables: Mapping[str, str], options: CaptureOptions, say: _Say
) -> Capture:
    # In a container the variables of this process are not seen.
    words = ["env", *(f"{name}={value}" for name, value in variables.items()), *command] if variables else command
    done = run_capture_of(target, words, options.words)
    for line in done.stderr.decode(errors="replace").splitlines():
        say(line)
    was_ended = options.seconds is not None and done.returncode > 128
    if not target.is_dir() or (done.returncode and not was_ended):
        why = find_error(done) or f"it ended with status {done.returncode}"
        raise InputError(f"the run {target.stem} failed: {why}", "run its command by hand first")
    return Capture.open(target)


def parse_setting(text: str) -> tuple[str, list[str]]:
    """Return name and values of `NAME=V1,V2`.

    Raises:
        InputError: it is something else.

    >>> parse_setting("GPU_MAX_HW_QUEUES=1,4")
    ('GPU_MAX_HW_QUEUES', ['1', '4'])
    """
    name, equals, values = text.partition("=")
    found = [value for value in values.split(",") if value]
    if not name.isidentifier() or not equals or len(set(found)) < 2:
        raise InputError(f"--set {text} names no values to compare", "write --set NAME=V1,V2, such as STREAMS=1,4")
    return name, list(dict.fromkeys(found))


def _plan_sweep(
    name: str, values: Sequence[str], command: Sequence[str]
) -> dict[str, tuple[list[str], dict[str, str]]]:
    """Return a run per value: an argument where the command says `{NAME}`, else a variable of the environment.

    >>> _plan_sweep("N", ["1", "2"], ["t1", "{N}"])
    {'N-1': (['t1', '1'], {}), 'N-2': (['t1', '2'], {})}
    >>> _plan_sweep("N", ["1", "2"], ["t1"])["N-2"]
    (['t1'], {'N': '2'})
    """
    place, runs = _PLACE.format(name), {}
    is_argument = any(place in word for word in command)
    for value in values:
        shown = f"{name}-" + "".join(letter if letter.isalnum() or letter in "._-" else "_" for letter in value)
        words = [word.replace(place, value) for word in command]
        runs[shown] = (words, {} if is_argument else {name: value})
    return runs


def run_sweep(setting: str, command: Sequence[str], options: CaptureOptions, say: _Say) -> pl.DataFrame:
    """Capture a command once per value of a setting; return one row per value and stage (`summarize_setting`)."""
    name, values = parse_setting(setting)
    captures = capture_in_turn(_plan_sweep(name, values, command), options, say)
    parts = [
        summarize_setting(name, value, capture.table, capture.info)
        for value, capture in zip(values, captures.values(), strict=True)
    ]
    told = {"experiment": "sweep", "setting": name, "values": values, "command": list(command)}
    write_atomically(options.folder / "experiment.json", json.dumps(told, indent=1).encode())
    return pl.concat(parts)
