"""Run the workloads of a preemption experiment: alone, one after the other, together; on the host or in a container."""

from __future__ import annotations

import json
import mmap
import os
import re
import secrets
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path

import polars as pl

from tracecorr.analyze.experiment import APART, STAMPS, TOGETHER, as_rows, measure_overhead
from tracecorr.capture.plan.runtimes import installed_libraries
from tracecorr.capture.workload.engines import container_pid, find_engine
from tracecorr.capture.workload.invoker import find_invoker, read_environment
from tracecorr.control.controller import HOLD, HoldError
from tracecorr.experiment.policies import (
    NONE,
    STEERED,
    PolicyOptions,
    Steered,
    choose_variables,
    export_words,
    find_refusal,
    steer,
)
from tracecorr.experiment.running import (
    find_error,
    hold_interrupts,
    make_callers_folder,
    refuse_machine,
    run_as_caller,
    run_capture_of,
    watch_model,
)
from tracecorr.model.errors import InputError, TracecorrError
from tracecorr.model.hip_environment import HONOUR_PRIORITIES, IGNORES_PRIORITIES, describe_effects, is_on
from tracecorr.store import Capture
from tracecorr.store.capture import write_info
from tracecorr.store.raw import write_atomically

# tracecorr-stamp START RETURN COMPLETE: CLOCK_MONOTONIC ns before the call, after it, and when its end was noticed.
# No clock shows more than 18 digits, and more may not fit into a column.
_LINE = re.compile(rb"^tracecorr-stamp (\d{1,18}) (\d{1,18}) (\d{1,18})\s*$", re.MULTILINE)
_Stamp = tuple[int, int, int]


def read_stamps(text: bytes) -> list[_Stamp]:
    """Return the stamps in the output of a workload; invalid lines and times that run backwards are left out.

    >>> read_stamps(b"hello\\ntracecorr-stamp 1 2 30\\ntracecorr-stamp 9 8 7\\n")
    [(1, 2, 30)]
    """
    found = [(int(m[1]), int(m[2]), int(m[3])) for m in _LINE.finditer(text)]
    return [stamp for stamp in found if stamp[0] <= stamp[1] <= stamp[2]]


def _read_stamp_file(path: Path) -> list[_Stamp]:
    """Return the stamps in a file with a workload's output; none when there is no such file."""
    return read_stamps(path.read_bytes()) if path.is_file() else []


_MARK = "tracecorr-output"
_PART = re.compile(rb"^tracecorr-output (\w+)\n", re.MULTILINE)
_END_SECONDS = 10


def _name_folder() -> str:
    """Return a path inside a container that nothing else uses: a phase keeps its outputs there."""
    return f"/tmp/tracecorr-experiment-{secrets.token_hex(8)}"


def _join_script(line: str, folder: str, roles: Mapping[str, str]) -> str:
    """Return a shell script that runs a phase and prints the output of each workload behind its name.

    Args:
        line: runs the workloads; their outputs go to `roles[role]`.
        folder: made for the phase, removed at its end.
        roles: role -> file inside of `folder`.
    """
    shown = " ".join(f'echo; echo "{_MARK} {role}"; cat "{path}";' for role, path in roles.items())
    start = f"mkdir {folder} && echo $$ > {folder}/pid || exit 125"
    return f'{start}; {line}; s=$?; {shown} rm -r {folder}; exit "$s"'


def _output_paths(folder: str, roles: tuple[str, ...]) -> dict[str, str]:
    """Return the file of each workload's output inside the container."""
    return {role: f"{folder}/{role}" for role in roles}


def _split_outputs(stdout: bytes) -> dict[str, bytes]:
    """Return the output of each workload from what `_join_script` printed.

    >>> _split_outputs(b"tracecorr-output high\\na\\n\\ntracecorr-output low\\nb\\n")
    {'high': b'a\\n\\n', 'low': b'b\\n'}
    """
    parts = _PART.split(stdout)[1:]
    return {role.decode(): text for role, text in zip(parts[::2], parts[1::2], strict=True)}


def _run_in_container(container: str, script: str, folder: str) -> subprocess.CompletedProcess[bytes]:
    """Run the script of a phase in a running container, without HIP log.

    Args:
        container: name or id.
        script: what `_join_script` gave.
        folder: of the phase, inside the container.

    Raises:
        InputError: no engine has the container.
        MachineError: no engine is installed.
        KeyboardInterrupt: Ctrl-C, which the workloads got, too.
    """
    root, invoker = find_invoker(os.environ, as_root=True), find_invoker(os.environ)
    engine, _ = find_engine("container", container, root, invoker)
    try:
        with hold_interrupts(most=1):
            return engine.run("exec", container, "sh", "-c", script)
    except KeyboardInterrupt:
        # Ctrl-C ends the engine's client alone: what it started in the container would run on.
        engine.run("exec", container, "sh", "-c", _end_script(folder))
        raise


def _end_script(folder: str) -> str:
    """Return a script that interrupts all processes of a phase, and kills those that do not end."""
    lives = "kill -0 -- -$p 2> /dev/null"
    return (
        f"p=$(cat {folder}/pid) || exit 0; kill -INT -- -$p; n=0; "
        f"while {lives} && [ $n -lt {_END_SECONDS} ]; do sleep 1; n=$((n + 1)); done; {lives} && kill -KILL -- -$p; "
        f"rm -rf {folder}"
    )


_Say = Callable[[str], None]
_PLAIN = ("high_alone", "low_alone", "sequential", "together")
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
        policies: what is tried, `none` first.
        policy: how these act.
    """

    high: str
    low: str
    folder: Path
    rounds: int = 5
    capture: bool = True
    container: str | None = None
    log_level: int = 5
    policies: tuple[str, ...] = (NONE,)
    policy: PolicyOptions = field(default_factory=PolicyOptions)


@dataclass(frozen=True)
class Tried:
    """Hold what became of a policy.

    Args:
        policy: its name.
        refused: why it was not tried; empty if it was.
        holds: how often the low one was held in the uninstrumented rounds.
        reads: how often it asked whether it may launch; None if it is held without asking.
        reached: how many of its processes or queues were held, in all holds together; None if it is asked.
        took_ns: how long the actions took, each.
        environment: of a workload, as far as it says that there is no GPU.
    """

    policy: str
    refused: str = ""
    holds: int = 0
    reads: int | None = None
    reached: int | None = None
    took_ns: tuple[int, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Runs:
    """Hold what the experiment measured.

    Args:
        stamps: launches of the uninstrumented rounds (`analyze.experiment.stamps.STAMPS`).
        captured: launches of the captured rounds.
        captures: phase, and policy where there is one -> capture folder.
        commands: role -> what was run.
        tried: what became of each policy.
    """

    stamps: pl.DataFrame
    captured: pl.DataFrame
    captures: dict[str, Path]
    commands: Mapping[str, str]
    tried: tuple[Tried, ...] = (Tried(NONE),)


def run_preempt(options: PreemptOptions, say: _Say) -> Runs:
    """Run all phases, uninstrumented rounds first, and keep stamps and captures in the folder.

    Raises:
        InputError: a command fails or prints no stamps, or the folder cannot be made.
        MachineError: this machine cannot capture; nothing was started then.
    """
    if options.capture:
        _check_machine(options)
    if told := warn_of_priorities(options):
        say(told)
    try:
        make_callers_folder(options.folder)
    except OSError as error:
        raise InputError(f"cannot make {options.folder}: {error.strerror}", "choose another folder with -o") from None
    try:
        return _run_rounds(options, say)
    except TracecorrError:
        _leave(options.folder, say)
        raise


def warn_of_priorities(options: PreemptOptions) -> str:
    """Return why stream priorities may reach no queue of the workloads; empty if nothing says so.

    Raises:
        MachineError: the caller's environment cannot be read.
    """
    if options.container is None:
        pid, root, environment = None, Path("/"), find_invoker(os.environ).environment
    else:
        pid = container_pid(options.container, os.environ)
        root, environment = Path(f"/proc/{pid}/root"), read_environment(pid) or {}
    if (on := is_on(environment, IGNORES_PRIORITIES)) is not None:
        told = "; ".join(text for text in describe_effects(environment) if text.startswith(IGNORES_PRIORITIES))
        return f"{told}; {HONOUR_PRIORITIES}" if on else ""
    program = "" if pid is not None else shutil.which(options.high.split()[0], path=environment.get("PATH")) or ""
    for name, path in installed_libraries(root, environment, program).items():
        if "libamdhip64" in name and _holds(path, IGNORES_PRIORITIES.encode()):
            return f"{name} may ignore stream priorities, so that none reaches the GPU: {HONOUR_PRIORITIES}"
    return ""


def _holds(path: Path, text: bytes) -> bool:
    """Tell whether a library has a text; not if it cannot be read."""
    try:
        with path.open("rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as content:
            return content.find(text) >= 0
    except (OSError, ValueError):
        return False


def _run_rounds(options: PreemptOptions, say: _Say) -> Runs:
    parts, captured, captures, tried = [pl.DataFrame(schema=STAMPS)], [pl.DataFrame(schema=STAMPS)], {}, []
    for policy in options.policies:
        if refused := find_refusal(policy, options.policy, options.low, options.container):
            say(f"policy {policy} was not tried: {refused}")
            tried.append(Tried(policy, refused))
            continue
        try:
            found, what = _try_policy(options, policy, say)
            parts += found
            tried.append(what)
        except HoldError as error:
            say(f"policy {policy} was given up: {error.what}")
            tried.append(Tried(policy, error.what))
    for place in _list_captured(options, [t.policy for t in tried if not t.refused]):
        say(f"captured: {place.shown}")
        target = options.folder / f"{place.stem.removeprefix('captured-')}.tracecorr"
        try:
            stamps = _capture_phase(place, target, say)
        except HoldError as error:
            say(f"{place.shown} was not captured: {error.what}")
            continue
        captures[place.shown] = target
        captured.append(as_rows(place.phase, 0, stamps, place.policy))
    commands = {"high": options.high, "low": options.low}
    runs = Runs(pl.concat(parts), pl.concat(captured), captures, commands, tuple(tried))
    _store(options, runs)
    return runs


def _try_policy(options: PreemptOptions, policy: str, say: _Say) -> tuple[list[pl.DataFrame], Tried]:
    """Run the uninstrumented rounds of a policy; return their stamps, and what became of it.

    Raises:
        HoldError: it is given up.
    """
    steered, found = [], []
    for number in range(options.rounds):
        for phase in _PLAIN if policy == NONE else _CAPTURED:
            place = _Place(options, policy, phase, number)
            say(f"round {number + 1} of {options.rounds}: {place.shown}")
            stamps, what = _run_phase(place)
            found.append(as_rows(phase, number, stamps, policy))
            steered.append(what)
    return found, _sum_up(policy, steered)


def _list_captured(options: PreemptOptions, policies: Sequence[str]) -> Iterator[_Place]:
    """Yield the phases that are captured once: all without a policy, both at once with one."""
    if options.capture:
        yield from (_Place(options, NONE, phase, None) for phase in _CAPTURED)
        yield from (_Place(options, policy, TOGETHER, None) for policy in policies if policy != NONE)


def _sum_up(policy: str, steered: Sequence[Steered]) -> Tried:
    applied = [one for what in steered for one in what.applied]
    holds = sum(one.action.kind == HOLD for one in applied)
    environment = {name: value for what in steered for name, value in what.environment.items()}
    reads, reached = _add_up(what.reads for what in steered), _add_up(what.reached for what in steered)
    return Tried(policy, "", holds, reads, reached, tuple(one.took_ns for one in applied), environment)


def _add_up(values: Iterable[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _store(options: PreemptOptions, runs: Runs) -> None:
    """Keep stamps and settings in the folder."""
    _store_overhead(runs)
    for name, rows in (("stamps", runs.stamps), ("captured", runs.captured)):
        table = BytesIO()
        rows.write_parquet(table)
        write_atomically(options.folder / f"{name}.parquet", table.getvalue())
    told = {"experiment": "preempt", **runs.commands, "rounds": options.rounds, "container": options.container,
            "policies": [tried.policy for tried in runs.tried]}  # fmt: skip
    write_atomically(options.folder / "experiment.json", json.dumps(told, indent=1).encode())


@dataclass(frozen=True)
class _Place:
    """Name a phase of the experiment.

    Args:
        options: what is run.
        policy: what acts on the workloads.
        phase: which of them run, and whether at once.
        number: of the uninstrumented round; None = captured.
    """

    options: PreemptOptions
    policy: str
    phase: str
    number: int | None

    @property
    def shown(self) -> str:
        """Return its name for a reader."""
        return self.phase if self.policy == NONE else f"{self.phase} under {self.policy}"

    @property
    def stem(self) -> str:
        """Return the first part of the names of its files."""
        name = self.phase if self.policy == NONE else f"{self.policy}-{self.phase}"
        return f"captured-{name}" if self.number is None else f"{name}-{self.number}"

    @property
    def outputs(self) -> dict[str, Path]:
        """Return role -> file of its output."""
        return {role: self.options.folder / f"{self.stem}-{role}.txt" for role in _roles(self.phase)}

    @property
    def channel(self) -> Path:
        """Return the file that controller and workloads map."""
        return self.options.folder / "channel"

    @property
    def pid_files(self) -> dict[str, Path]:
        """Return role -> file with the number of its shell."""
        return {role: self.options.folder / f"{role}.pid" for role in ("high", "low")}


def _leave(folder: Path, say: _Say) -> None:
    """Remove the folder of an experiment that failed before any output; else say what it holds."""
    if any(path.stat().st_size for path in folder.rglob("*") if path.is_file()):
        say(f"{folder} holds the outputs of the workloads, but no report: name another folder with -o next time")
    else:
        shutil.rmtree(folder, ignore_errors=True)


def _store_overhead(runs: Runs) -> None:
    """Write into each capture how many times slower its launches were than those of the plain rounds."""
    plain, captured = (rows.filter(pl.col("policy") == NONE) for rows in (runs.stamps, runs.captured))
    found = measure_overhead(plain, captured).drop_nulls("ratio")
    for phase, path in runs.captures.items():
        if phase not in _CAPTURED:
            continue
        called = (TOGETHER, APART) if phase == TOGETHER else (phase,)
        worst = found.filter(pl.col("phase").is_in(called)).group_by("role").agg(pl.col("ratio").max()).sort("role")
        ratios = dict(worst.rows())
        if ratios:
            # For two workloads the worse figure counts.
            info = Capture.open(path).info
            write_info(path, {**info, "overhead_ratio": max(ratios.values()), "overhead_ratios": ratios})


def _roles(phase: str) -> tuple[str, ...]:
    return {"high_alone": ("high",), "low_alone": ("low",)}.get(phase, ("high", "low"))


def _script(place: _Place, outputs: Mapping[str, str]) -> str:
    """Return the shell line of a phase; each workload's output goes to a file, any failure is the line's.

    Args:
        place: the phase.
        outputs: role -> file, as the shell reads it; two roles in the order in which they start.
    """
    parts = [f"( {_command(place, role)} ) > {path}" for role, path in outputs.items()]
    if place.phase != "together":
        return " && ".join(parts)
    # The pipe carries only a status: a command started with `&` would ignore Ctrl-C and run on.
    first, second = (f"{part} < /dev/null" for part in parts)
    return f'( {first}; echo $? ) | ( {second}; y=$?; read x; [ $y = 0 ] && exit "${{x:-1}}"; exit $y )'


def _command(place: _Place, role: str) -> str:
    """Return what the shell of a workload runs: what its policy gives it, then its command."""
    variables = choose_variables(place.policy, role, place.options.policy, place.channel)
    commands = {"high": place.options.high, "low": place.options.low}
    # $$ of a subshell is the number of its parent.
    path = shlex.quote(str(place.pid_files[role]))
    told = f"sh -c 'echo $PPID' > {path}; " if place.policy in STEERED else ""
    return f"{told}{export_words(variables)}{commands[role]}"


def _run_phase(place: _Place) -> tuple[dict[str, list[_Stamp]], Steered]:
    """Run a phase; return the stamps of its workloads, and what its policy did."""
    options = place.options
    with _steered(place) as steered, _watched(place) as steered.environment:
        if options.container is not None:
            inside = _name_folder()
            done = _run_in_container(options.container, _inner_script(place, inside), inside)
            _keep(done.stdout, place.outputs)
        else:
            with hold_interrupts(most=1):
                done = run_as_caller(["sh", "-c", _outer_script(place)])
    _check(place.shown, done)
    return _read(place.shown, place.outputs), steered


def _steered(place: _Place) -> AbstractContextManager[Steered]:
    for path in place.pid_files.values():
        path.unlink(missing_ok=True)
    return steer(place.policy, place.options.policy, place.channel, place.pid_files)


def _watched(place: _Place) -> AbstractContextManager[dict[str, str]]:
    """Look once, in the first phase on the host, whether the workload has a GPU."""
    is_first = (place.policy, place.phase, place.number, place.options.container) == (NONE, _PLAIN[0], 0, None)
    return watch_model() if is_first else nullcontext({})


def _outer_script(place: _Place) -> str:
    return _script(place, {role: shlex.quote(str(path)) for role, path in place.outputs.items()})


def _inner_script(place: _Place, folder: str) -> str:
    """Return the script of a phase inside a container, where the files of the host are not."""
    paths = _output_paths(folder, _roles(place.phase))
    return _join_script(_script(place, paths), folder, paths)


def _keep(stdout: bytes, outputs: Mapping[str, Path]) -> None:
    found = _split_outputs(stdout)
    for role, path in outputs.items():
        write_atomically(path, found.get(role, b""))


def _capture_options(options: PreemptOptions) -> list[str]:
    words = ["--log-level", str(options.log_level)]
    return words if options.container is None else [*words, "--container", options.container]


def _check_machine(options: PreemptOptions) -> None:
    """Check that rounds can be captured before the plain rounds, which take long."""
    words = [sys.executable, "-m", "tracecorr", "capture", *_capture_options(options), "--dry-run", "--", "true"]
    done = subprocess.run(words, capture_output=True, stdin=subprocess.DEVNULL, check=False)
    refuse_machine(done)
    if done.returncode:
        raise InputError(find_error(done), "run tracecorr capture --dry-run")


def _capture_phase(place: _Place, target: Path, say: _Say) -> dict[str, list[_Stamp]]:
    inside = place.options.container is not None
    script = _inner_script(place, _name_folder()) if inside else _outer_script(place)
    with _steered(place):
        done = run_capture_of(target, ["sh", "-c", script], _capture_options(place.options))
    if inside:
        _keep(done.stdout, place.outputs)
    for line in done.stderr.decode(errors="replace").splitlines():
        say(line)
    if done.returncode:
        raise InputError(
            f"the captured round {place.shown} ended with status {done.returncode}", "run its commands by hand first"
        )
    return _read(f"captured {place.shown}", place.outputs)


def _check(phase: str, done: subprocess.CompletedProcess[bytes]) -> None:
    if done.returncode:
        last = done.stderr.decode(errors="replace").strip().splitlines()[-1:]
        told = ": ".join([f"the phase {phase} ended with status {done.returncode}", *last])
        raise InputError(told, "run its commands by hand first")


def _read(phase: str, outputs: Mapping[str, Path]) -> dict[str, list[_Stamp]]:
    found = {role: _read_stamp_file(path) for role, path in outputs.items()}
    for role, stamps in found.items():
        if not stamps:
            raise InputError(
                f"the {role} workload printed no stamp in the phase {phase}",
                "print `tracecorr-stamp START RETURN COMPLETE` per launch, as samples/workloads/stamps.py does",
            )
    return found
