"""The verb `experiment`: run workloads alone and together, and say who waited for whom."""

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
    kind: Annotated[str, typer.Argument(metavar="preempt", help="The experiment; `preempt` is the one there is.")],
    high: Annotated[str, typer.Option(metavar="CMD", help="Workload of high priority; it prints stamps.")],
    low: Annotated[str, typer.Option(metavar="CMD", help="Workload of low priority; it prints stamps.")],
    rounds: Annotated[int, typer.Option(metavar="N", help="Uninstrumented rounds, which give the figures.")] = 5,
    no_capture: Annotated[
        bool, typer.Option("--no-capture", help="Leave out the captured rounds (needs no root).")
    ] = False,
    container: Annotated[
        str | None, typer.Option(metavar="NAME", help="Run the workloads in this running container.")
    ] = None,
    log_level: Annotated[int, typer.Option(metavar="N", help="AMD_LOG_LEVEL of the captured rounds.")] = 5,
    kept: Annotated[float, typer.Option(metavar="TIMES", help="P95 together may be so many times that alone.")] = 1.2,
    output: Annotated[Path | None, typer.Option("--output", "-o", metavar="FOLDER", help="Folder to make.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    check: Annotated[
        bool, typer.Option("--check", help="Exit with 4 when the verdict is FAIL, 5 when UNKNOWN.")
    ] = False,
) -> None:
    """Run a workload of high and one of low priority alone, one after the other, and together; then captured.

    A workload prints one line `tracecorr-stamp START RETURN COMPLETE` per launch (CLOCK_MONOTONIC, ns).
    """
    if kind != "preempt":
        raise InputError(f"there is no experiment {kind!r}", "the experiment is called preempt")
    _check_options(high, low, rounds, kept)
    folder = output or Path(time.strftime("preempt-%Y%m%d-%H%M%S.experiment"))
    if folder.exists():
        raise InputError(f"{folder} exists", "choose another folder with -o")

    from tracecorr.analyze.report.markdown import render_experiment
    from tracecorr.experiment.preempt import PreemptOptions, owned_by_caller, run_preempt
    from tracecorr.experiment.report import summarize_experiment
    from tracecorr.store.raw import write_atomically

    options = PreemptOptions(high, low, folder.resolve(), rounds, not no_capture, container, log_level)
    with owned_by_caller(options.folder):
        try:
            runs = run_preempt(options, say)
        except KeyboardInterrupt:
            say(f"interrupted: {folder} holds what the workloads printed until then, but no report")
            raise
        report = summarize_experiment(runs, kept)
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
            raise InputError(f"{option} names no command", "write the command of the workload, in quotes")
    if not 0 < kept < math.inf:
        raise InputError(f"--kept {kept} is no limit", "write how many times longer P95 may be, such as 1.2")
    if rounds < 1:
        raise InputError(f"--rounds {rounds} runs nothing", "use 1 or more")
