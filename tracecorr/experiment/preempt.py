"""The experiment `preempt`: does a high priority workload keep its latency beside a low priority one?"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from tracecorr.analyze.experiment import STAMPS, as_rows
from tracecorr.experiment.stamps import Stamp, read_stamp_file
from tracecorr.model.errors import InputError, MachineError

Say = Callable[[str], None]
_CAPTURED = ("high_alone", "low_alone", "together")


@dataclass(frozen=True)
class PreemptOptions:
    """Say what the experiment runs.

    Args:
        high, low: shell commands that print stamps.
        folder: where stamps, outputs and captures are kept.
        rounds: uninstrumented rounds.
        capture: whether each phase is captured once as well.
        container: run everything in this running container.
        log_level: AMD_LOG_LEVEL of the captured rounds.
    """

    high: str
    low: str
    folder: Path
    rounds: int = 5
    capture: bool = True
    container: str | None = None
    log_level: int = 5


@dataclass(frozen=True)
class Runs:
    """Hold what the experiment measured.

    Args:
        stamps: launches of the uninstrumented rounds (`analyze.experiment.STAMPS`).
        captured: launches of the captured rounds.
        captures: phase -> capture folder.
    """

    stamps: pl.DataFrame
    captured: pl.DataFrame
    captures: dict[str, Path]


def run_preempt(options: PreemptOptions, say: Say) -> Runs:
    """Run all phases, uninstrumented rounds first, and keep stamps and captures in the folder.

    Raises:
        InputError: a command fails or prints no stamps.
        MachineError: this machine cannot capture.
    """
    options.folder.mkdir(parents=True)
    parts = [pl.DataFrame(schema=STAMPS)]
    for number in range(options.rounds):
        for phase in ("high_alone", "low_alone", "sequential", "together"):
            say(f"round {number + 1} of {options.rounds}: {phase}")
            parts.append(as_rows(phase, number, _run_phase(options, phase, options.folder / f"{phase}-{number}")))
    captured, captures = [pl.DataFrame(schema=STAMPS)], {}
    for phase in _CAPTURED if options.capture else ():
        say(f"captured: {phase}")
        captures[phase] = options.folder / f"{phase}.tracecorr"
        captured.append(as_rows(phase, 0, _capture_phase(options, phase, captures[phase], say)))
    runs = Runs(pl.concat(parts), pl.concat(captured), captures)
    runs.stamps.write_parquet(options.folder / "stamps.parquet")
    runs.captured.write_parquet(options.folder / "captured.parquet")
    told = {"high": options.high, "low": options.low, "rounds": options.rounds, "container": options.container}
    (options.folder / "experiment.json").write_text(json.dumps({"experiment": "preempt", **told}, indent=1))
    return runs


def _roles(phase: str) -> tuple[str, ...]:
    return {"high_alone": ("high",), "low_alone": ("low",)}.get(phase, ("high", "low"))


def _script(options: PreemptOptions, phase: str, outputs: Mapping[str, Path]) -> str:
    """Return the shell line of a phase; each workload's output goes to a file, any failure is the line's."""
    commands = {"high": options.high, "low": options.low}
    parts = [f"( {commands[role]} ) > {shlex.quote(str(path))}" for role, path in outputs.items()]
    if phase != "together":
        return " && ".join(parts)
    return f"{parts[0]} & a=$!; {parts[1]} & b=$!; wait $a; x=$?; wait $b && exit $x"


def _run_phase(options: PreemptOptions, phase: str, stem: Path) -> dict[str, list[Stamp]]:
    outputs = {role: Path(f"{stem}-{role}.txt") for role in _roles(phase)}
    if options.container is not None:
        return _run_in_container(options, phase, outputs)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("AMD_LOG_")}
    done = subprocess.run(
        ["sh", "-c", _script(options, phase, outputs)], env=environment, stderr=subprocess.PIPE, check=False
    )
    _check(phase, done)
    return _read(phase, outputs)


def _run_in_container(options: PreemptOptions, phase: str, outputs: Mapping[str, Path]) -> dict[str, list[Stamp]]:
    """Run a phase with `docker exec`, so that the files of its outputs are the host's."""
    inner = {"high": options.high, "low": options.low}
    wrapped = {
        role: f"docker exec {shlex.quote(str(options.container))} sh -c {shlex.quote(inner[role])}" for role in inner
    }
    outside = PreemptOptions(wrapped["high"], wrapped["low"], options.folder)
    done = subprocess.run(["sh", "-c", _script(outside, phase, outputs)], stderr=subprocess.PIPE, check=False)
    _check(phase, done)
    return _read(phase, outputs)


def _capture_phase(options: PreemptOptions, phase: str, target: Path, say: Say) -> dict[str, list[Stamp]]:
    outputs = {role: options.folder / f"captured-{phase}-{role}.txt" for role in _roles(phase)}
    command = [sys.executable, "-m", "tracecorr", "capture", "--quiet", "--log-level", str(options.log_level)]
    command += ["--container", options.container] if options.container is not None else []
    # A process of its own: a capture forks, which a process with threads must not.
    done = subprocess.run(
        [*command, "-o", str(target), "--", "sh", "-c", _script(options, phase, outputs)],
        stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, check=False,
    )  # fmt: skip
    said = done.stderr.decode(errors="replace").strip()
    say(said)
    if done.returncode == MachineError.exit_code and "error: " in said:
        raise MachineError(
            said.rsplit("error: ", 1)[1].splitlines()[0], "tracecorr doctor says more; or use --no-capture"
        )
    if done.returncode:
        raise InputError(
            f"the captured round {phase} ended with status {done.returncode}", "run its commands by hand first"
        )
    # In a container the outputs stay inside; then the captured round has no stamps to compare.
    return {role: read_stamp_file(path) for role, path in outputs.items()}


def _check(phase: str, done: subprocess.CompletedProcess[bytes]) -> None:
    if done.returncode:
        last = done.stderr.decode(errors="replace").strip().splitlines()[-1:]
        raise InputError(
            f"the phase {phase} ended with status {done.returncode}: {' '.join(last)}", "run its commands by hand first"
        )


def _read(phase: str, outputs: Mapping[str, Path]) -> dict[str, list[Stamp]]:
    found = {role: read_stamp_file(path) for role, path in outputs.items()}
    for role, stamps in found.items():
        if not stamps:
            raise InputError(
                f"the {role} workload printed no stamp in the phase {phase}",
                "print `tracecorr-stamp START RETURN COMPLETE` per launch, as samples/workloads/stamps.py does",
            )
    return found
