"""The experiment `preempt`: does a high priority workload keep its latency beside a low priority one?"""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

import polars as pl

from tracecorr.analyze.experiment.phases import measure_overhead
from tracecorr.analyze.experiment.stamps import APART, STAMPS, TOGETHER, as_rows
from tracecorr.experiment.caller import make_callers_folder, run_as_caller
from tracecorr.experiment.container import join_script, name_folder, output_paths, run_in_container, split_outputs
from tracecorr.experiment.interrupts import hold_interrupts
from tracecorr.experiment.stamps import Stamp, read_stamp_file
from tracecorr.model.errors import InputError, MachineError, TracecorrError
from tracecorr.store import Capture
from tracecorr.store.capture import write_info
from tracecorr.store.raw import write_atomically

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
        stamps: launches of the uninstrumented rounds (`analyze.experiment.stamps.STAMPS`).
        captured: launches of the captured rounds.
        captures: phase -> capture folder.
        commands: role -> what was run.
    """

    stamps: pl.DataFrame
    captured: pl.DataFrame
    captures: dict[str, Path]
    commands: Mapping[str, str]


def run_preempt(options: PreemptOptions, say: Say) -> Runs:
    """Run all phases, uninstrumented rounds first, and keep stamps and captures in the folder.

    Raises:
        InputError: a command fails or prints no stamps, or the folder cannot be made.
        MachineError: this machine cannot capture; nothing was started then.
    """
    if options.capture:
        _check_machine(options)
    try:
        make_callers_folder(options.folder)
    except OSError as error:
        raise InputError(f"cannot make {options.folder}: {error.strerror}", "choose another folder with -o") from None
    try:
        return _run_rounds(options, say)
    except TracecorrError:
        _leave(options.folder, say)
        raise


def _run_rounds(options: PreemptOptions, say: Say) -> Runs:
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
    runs = Runs(pl.concat(parts), pl.concat(captured), captures, {"high": options.high, "low": options.low})
    _store_overhead(runs)
    for name, rows in (("stamps", runs.stamps), ("captured", runs.captured)):
        table = BytesIO()
        rows.write_parquet(table)
        write_atomically(options.folder / f"{name}.parquet", table.getvalue())
    told = {"experiment": "preempt", **runs.commands, "rounds": options.rounds, "container": options.container}
    write_atomically(options.folder / "experiment.json", json.dumps(told, indent=1).encode())
    return runs


def _leave(folder: Path, say: Say) -> None:
    """Take away the folder of an experiment that failed before a workload printed anything; else say what it holds."""
    if any(path.stat().st_size for path in folder.rglob("*") if path.is_file()):
        say(f"{folder} holds what the workloads printed until then, but no report: next time name another one with -o")
    else:
        shutil.rmtree(folder, ignore_errors=True)


def _store_overhead(runs: Runs) -> None:
    """Write into each capture how many times slower its launches were than those of the plain rounds."""
    found = measure_overhead(runs.stamps, runs.captured).drop_nulls("ratio")
    for phase, path in runs.captures.items():
        called = (TOGETHER, APART) if phase == TOGETHER else (phase,)
        worst = found.filter(pl.col("phase").is_in(called)).group_by("role").agg(pl.col("ratio").max()).sort("role")
        ratios = dict(worst.rows())
        if ratios:
            # Where two workloads ran, a reader of either must know the worse figure.
            info = Capture.open(path).info
            write_info(path, {**info, "overhead_ratio": max(ratios.values()), "overhead_ratios": ratios})


def _roles(phase: str) -> tuple[str, ...]:
    return {"high_alone": ("high",), "low_alone": ("low",)}.get(phase, ("high", "low"))


def _script(options: PreemptOptions, phase: str, outputs: Mapping[str, str]) -> str:
    """Return the shell line of a phase; each workload's output goes to a file, any failure is the line's.

    Args:
        options: what is run.
        phase: which workloads, and whether at once.
        outputs: role -> file, as the shell reads it; two roles in the order in which they start.
    """
    commands = {"high": options.high, "low": options.low}
    parts = [f"( {commands[role]} ) > {path}" for role, path in outputs.items()]
    if phase != "together":
        return " && ".join(parts)
    # A pipe of nothing but a status: what a script starts with `&` ignores Ctrl-C and would run on.
    first, second = (f"{part} < /dev/null" for part in parts)
    return f'( {first}; echo $? ) | ( {second}; y=$?; read x; [ $y = 0 ] && exit "${{x:-1}}"; exit $y )'


def _run_phase(options: PreemptOptions, phase: str, stem: Path) -> dict[str, list[Stamp]]:
    outputs = {role: Path(f"{stem}-{role}.txt") for role in _roles(phase)}
    if options.container is not None:
        inside = name_folder()
        done = run_in_container(options.container, _inner_script(options, phase, inside), inside)
        _keep(done.stdout, outputs)
    else:
        with hold_interrupts(most=1):
            done = run_as_caller(["sh", "-c", _outer_script(options, phase, outputs)])
    _check(phase, done)
    return _read(phase, outputs)


def _outer_script(options: PreemptOptions, phase: str, outputs: Mapping[str, Path]) -> str:
    return _script(options, phase, {role: shlex.quote(str(path)) for role, path in outputs.items()})


def _inner_script(options: PreemptOptions, phase: str, folder: str) -> str:
    """Return the script of a phase inside a container, where the files of the host are not."""
    paths = output_paths(folder, _roles(phase))
    return join_script(_script(options, phase, paths), folder, paths)


def _keep(stdout: bytes, outputs: Mapping[str, Path]) -> None:
    found = split_outputs(stdout)
    for role, path in outputs.items():
        write_atomically(path, found.get(role, b""))


def _capture_words(options: PreemptOptions) -> list[str]:
    words = [sys.executable, "-m", "tracecorr", "capture", "--quiet", "--log-level", str(options.log_level)]
    return words if options.container is None else [*words, "--container", options.container]


def _check_machine(options: PreemptOptions) -> None:
    """Ask whether rounds can be captured, before the plain ones: they take long, and would be in vain."""
    words = [*_capture_words(options), "--dry-run", "--", "true"]
    done = subprocess.run(words, capture_output=True, stdin=subprocess.DEVNULL, check=False)
    _refuse_machine(done)
    if done.returncode:
        raise InputError(_find_error(done), "tracecorr capture --dry-run says more")


def _refuse_machine(done: subprocess.CompletedProcess[bytes]) -> None:
    if done.returncode == MachineError.exit_code and (told := _find_error(done)):
        raise MachineError(told, "tracecorr doctor says more; or use --no-capture")


def _find_error(done: subprocess.CompletedProcess[bytes]) -> str:
    """Return what the last message of an error says, "" where there is none."""
    said = done.stderr.decode(errors="replace")
    return said.rsplit("error: ", 1)[1].splitlines()[0] if "error: " in said else ""


def _capture_phase(options: PreemptOptions, phase: str, target: Path, say: Say) -> dict[str, list[Stamp]]:
    outputs = {role: options.folder / f"captured-{phase}-{role}.txt" for role in _roles(phase)}
    inside = options.container is not None
    script = _inner_script(options, phase, name_folder()) if inside else _outer_script(options, phase, outputs)
    # A process of its own: a capture forks, which a process with threads must not. It obeys Ctrl-C by itself, and must
    # come to its end, which takes away what it armed.
    with hold_interrupts():
        done = subprocess.run(
            [*_capture_words(options), "-o", str(target), "--", "sh", "-c", script], capture_output=True,
            stdin=subprocess.DEVNULL, check=False,
        )  # fmt: skip
    if inside:
        _keep(done.stdout, outputs)
    say(done.stderr.decode(errors="replace").strip())
    _refuse_machine(done)
    if done.returncode:
        raise InputError(
            f"the captured round {phase} ended with status {done.returncode}", "run its commands by hand first"
        )
    return _read(f"captured {phase}", outputs)


def _check(phase: str, done: subprocess.CompletedProcess[bytes]) -> None:
    if done.returncode:
        last = done.stderr.decode(errors="replace").strip().splitlines()[-1:]
        told = ": ".join([f"the phase {phase} ended with status {done.returncode}", *last])
        raise InputError(told, "run its commands by hand first")


def _read(phase: str, outputs: Mapping[str, Path]) -> dict[str, list[Stamp]]:
    found = {role: read_stamp_file(path) for role, path in outputs.items()}
    for role, stamps in found.items():
        if not stamps:
            raise InputError(
                f"the {role} workload printed no stamp in the phase {phase}",
                "print `tracecorr-stamp START RETURN COMPLETE` per launch, as samples/workloads/stamps.py does",
            )
    return found
