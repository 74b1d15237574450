"""The verb `experiment`: run workloads alone and together, and measure how much they delay each other."""

from __future__ import annotations

import json
import math
import time
from pathlib import Path
from typing import Annotated

import typer

from tracecorr.cli.console import FAILED, UNKNOWN, say, show
from tracecorr.model.errors import InputError


def experiment_verb(
    kind: Annotated[str, typer.Argument(metavar="preempt", help="The experiment; only `preempt` exists.")],
    high: Annotated[str, typer.Option(metavar="CMD", help="High-priority workload; it prints stamps.")],
    low: Annotated[str, typer.Option(metavar="CMD", help="Low-priority workload; it prints stamps.")],
    rounds: Annotated[
        int, typer.Option(metavar="N", help="Number of uninstrumented rounds; the results come from these.")
    ] = 5,
    no_capture: Annotated[bool, typer.Option("--no-capture", help="Skip the captured rounds (needs no root).")] = False,
    container: Annotated[
        str | None, typer.Option(metavar="NAME", help="Run the workloads in this running container.")
    ] = None,
    log_level: Annotated[int, typer.Option(metavar="N", help="AMD_LOG_LEVEL of the captured rounds.")] = 5,
    kept: Annotated[
        float, typer.Option(metavar="TIMES", help="PASS if P95 together is at most this many times P95 alone.")
    ] = 1.2,
    policy: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="none, priority, cumask, slice, event, stop or all; may be given again."),
    ] = None,
    policy_command: Annotated[
        str,
        typer.Option(metavar="CMD", help="A policy of your own: events on its input, `hold low`, `release low` back."),
    ] = "",
    share: Annotated[
        float, typer.Option(metavar="PERCENT", help="The low one's share of time (slice) or CUs (cumask).")
    ] = 20,
    period_ms: Annotated[float, typer.Option(metavar="MS", help="Period of the slices.")] = 10,
    target_ms: Annotated[float, typer.Option(metavar="MS", help="How soon the high one shall have the GPU.")] = 5,
    force: Annotated[bool, typer.Option("--force", help="Also stop a member of a distributed job.")] = False,
    output: Annotated[Path | None, typer.Option("--output", "-o", metavar="FOLDER", help="Folder to write.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    check: Annotated[
        bool, typer.Option("--check", help="Exit with 4 when the verdict is FAIL, 5 when UNKNOWN.")
    ] = False,
) -> None:
    """Run a high-priority and a low-priority workload alone and together, then again while capturing.

    A workload prints one line `tracecorr-stamp START RETURN COMPLETE` per launch (CLOCK_MONOTONIC, ns).
    """
    if kind != "preempt":
        raise InputError(f"there is no experiment {kind!r}", "the experiment is called preempt")
    _check_options(high, low, rounds, kept)
    _check_policy(share, period_ms, target_ms)
    folder = output or Path(time.strftime("preempt-%Y%m%d-%H%M%S.experiment"))
    if folder.exists():
        raise InputError(f"{folder} exists", "choose another folder with -o")

    from tracecorr.analyze.report.markdown import render_experiment
    from tracecorr.experiment.policies import PolicyOptions, choose_policies
    from tracecorr.experiment.preempt import PreemptOptions, owned_by_caller, run_preempt
    from tracecorr.experiment.report import summarize_experiment
    from tracecorr.store.raw import write_atomically

    acts = PolicyOptions(share / 100, round(period_ms * 1e6), policy_command, force)
    policies = tuple(choose_policies(policy or [], policy_command))
    options = PreemptOptions(high, low, folder.resolve(), rounds, not no_capture, container, log_level, policies, acts)
    with owned_by_caller(options.folder):
        try:
            runs = run_preempt(options, say)
        except KeyboardInterrupt:
            say(f"interrupted: {folder} holds what the workloads printed until then, but no report")
            raise
        report = summarize_experiment(runs, kept, round(target_ms * 1e6))
        told = json.dumps(report.as_dict(), indent=1, allow_nan=False)
        write_atomically(options.folder / "report.json", told.encode())
    found = report.finding
    if as_json:
        typer.echo(told)
    else:
        show(render_experiment(folder.name, found, report.sections, report.notices), keep="\n")
    if check and found.outcome != "PASS":
        raise typer.Exit(FAILED if found.outcome == "FAIL" else UNKNOWN)


def _check_options(high: str, low: str, rounds: int, kept: float) -> None:
    """Refuse what would run nothing, or could not be judged.

    Raises:
        InputError: an option is so.
    """
    for option, command in (("--high", high), ("--low", low)):
        if not command.strip():
            raise InputError(f"{option} is empty", "write the command of the workload, in quotes")
    if not 0 < kept < math.inf:
        raise InputError(
            f"--kept {kept} is not a positive number", "write how many times longer P95 may be, such as 1.2"
        )
    if rounds < 1:
        raise InputError(f"--rounds {rounds} is less than 1", "use 1 or more")


def _check_policy(share: float, period_ms: float, target_ms: float) -> None:
    """Refuse shares and times that no policy can have.

    Raises:
        InputError: one is so.
    """
    if not 0 < share < 100:
        raise InputError(f"--share {share:g} is not between 0 and 100", "write percent, such as 20")
    for option, value in (("--period-ms", period_ms), ("--target-ms", target_ms)):
        if not 0 < value < math.inf:
            raise InputError(f"{option} {value:g} is not a positive number", "write milliseconds, such as 5")
