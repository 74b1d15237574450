"""The verb `experiment`: run workloads alone and together, under policies and settings, and judge the results."""

from __future__ import annotations

import json
import math
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tracecorr.cli.console import FAILED, UNKNOWN, HtmlOption, refuse_page, say, show, write_page
from tracecorr.cli.parser import Verb, Verbs
from tracecorr.model.errors import InputError
from tracecorr.threads import begin_polars

if TYPE_CHECKING:
    import polars as pl


_ContainerOption = Annotated[
    str | None, typer.Option(metavar="NAME", help="Run the workloads in this running container.")
]
_LevelOption = Annotated[int, typer.Option(metavar="N", help="AMD_LOG_LEVEL of the captured runs.")]
_FolderOption = Annotated[Path | None, typer.Option("--output", "-o", metavar="FOLDER", help="Folder to write.")]
_JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def _preempt_verb(
    high: Annotated[str, typer.Option(metavar="CMD", help="High-priority workload; it prints the stamp lines.")],
    low: Annotated[str, typer.Option(metavar="CMD", help="Low-priority workload; it prints the stamp lines.")],
    rounds: Annotated[
        int, typer.Option(metavar="N", help="Number of rounds without a capture; the results come from these.")
    ] = 5,
    no_capture: Annotated[
        bool, typer.Option("--no-capture", help="Skip the captured rounds; then no root is needed.")
    ] = False,
    container: _ContainerOption = None,
    log_level: _LevelOption = 5,
    kept: Annotated[
        float,
        typer.Option(metavar="TIMES", help="PASS if the P95 latency together is at most TIMES the P95 latency alone."),
    ] = 1.2,
    policy: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="none, priority, cumask, slice, event, stop, suspend or all; repeatable."),
    ] = None,
    policy_command: Annotated[
        str | None,
        typer.Option(
            metavar="CMD", help="Your own policy: a command that reads events and prints `hold low` or `release low`."
        ),
    ] = None,
    share: Annotated[
        float,
        typer.Option(
            metavar="PERCENT", help="Share of the time (slice) or of the CUs (cumask) for the low-priority workload."
        ),
    ] = 20,
    period_ms: Annotated[float, typer.Option(metavar="MS", help="Period of the policy `slice`.")] = 10,
    target_ms: Annotated[
        float, typer.Option(metavar="MS", help="Time within which the high-priority workload should get the GPU.")
    ] = 5,
    stop_by: Annotated[
        str,
        typer.Option(
            metavar="HOW", help="How the policy `stop` stops a workload: signal (SIGSTOP) or freezer (cgroup v2)."
        ),
    ] = "signal",
    force: Annotated[
        bool,
        typer.Option(
            "--force",
            help="Hold the low-priority workload even if it belongs to a distributed job; its peers may stall.",
        ),
    ] = False,
    allow_gpu_reset: Annotated[
        bool,
        typer.Option(
            "--allow-gpu-reset",
            help="Allow the policy `suspend`; it may end in a GPU reset, which kills every process on that GPU.",
        ),
    ] = False,
    output: _FolderOption = None,
    as_json: _JsonOption = False,
    html: HtmlOption = None,
    check: Annotated[
        bool, typer.Option("--check", help="Exit with 4 if the verdict is FAIL, 5 if it is UNKNOWN.")
    ] = False,
) -> None:
    """Run a high-priority and a low-priority workload alone and together, then again while capturing.

    For each launch a workload prints a line `tracecorr-stamp START RETURN COMPLETE` (CLOCK_MONOTONIC, ns):
    the times before the call, after the call, and when the program noticed the completion.
    """
    _check_options(high, low, rounds, kept)
    _check_policy(share, period_ms, target_ms, stop_by)
    refuse_page(html, as_json=as_json, force=False)
    folder = _choose_folder(output, "preempt")
    begin_polars()

    from tracecorr.analyze.report.markdown import render_experiment
    from tracecorr.experiment.experiment_report import summarize_experiment
    from tracecorr.experiment.policies import PolicyOptions, choose_policies
    from tracecorr.experiment.preempt import PreemptOptions, run_preempt
    from tracecorr.experiment.running import owned_by_caller
    from tracecorr.store.raw import write_atomically

    acts = PolicyOptions(share / 100, round(period_ms * 1e6), policy_command or "", force, stop_by, allow_gpu_reset)
    policies = tuple(choose_policies(policy or [], acts.command))
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
    if html is not None:
        from tracecorr.analyze.report.html import render_experiment_html

        page = render_experiment_html(folder.name, found, report.sections, report.notices, runs.stamps)
        write_page(html, page)
    elif as_json:
        typer.echo(told)
    else:
        show(render_experiment(folder.name, found, report.sections, report.notices), keep="\n")
    if check and found.outcome != "PASS":
        raise typer.Exit(FAILED if found.outcome == "FAIL" else UNKNOWN)


def _choose_folder(output: Path | None, kind: str) -> Path:
    """Return the folder of an experiment.

    Raises:
        InputError: it is there already.
    """
    folder = output or Path(time.strftime(f"{kind}-%Y%m%d-%H%M%S.experiment"))
    if folder.exists():
        raise InputError(f"{folder} exists", "choose another folder with -o")
    return folder


def _ab_verb(
    a: Annotated[str, typer.Option("--a", metavar="CMD", help="First workload, the reference.")],
    b: Annotated[str, typer.Option("--b", metavar="CMD", help="Second workload.")],
    seconds: Annotated[
        float | None, typer.Option(metavar="S", help="End each run after S seconds; default: wait until it ends.")
    ] = None,
    container: _ContainerOption = None,
    log_level: _LevelOption = 5,
    output: _FolderOption = None,
    as_json: _JsonOption = False,
) -> None:
    """Capture two workloads, each alone, and compare the captures."""
    for option, command in (("--a", a), ("--b", b)):
        if not command.strip():
            raise InputError(f"{option} is empty", "write the command of the workload, in quotes")
    if seconds is not None and not 0 < seconds < math.inf:
        raise InputError(f"--seconds {seconds:g} is not a positive number", "write seconds, such as 60")
    folder = _choose_folder(output, "ab")
    begin_polars()
    from tracecorr.analyze.compare import Side, compare_captures
    from tracecorr.analyze.report.markdown import render_comparison
    from tracecorr.analyze.run_facts import describe_model
    from tracecorr.experiment.captured import CaptureOptions, capture_in_turn
    from tracecorr.experiment.running import owned_by_caller

    options = CaptureOptions(folder.resolve(), log_level, container, seconds)
    with owned_by_caller(options.folder):
        runs = {name: (["sh", "-c", command], dict[str, str]()) for name, command in (("a", a), ("b", b))}
        captures = capture_in_turn(runs, options, say)
    first, second = (Side(name, c.table, c.info, c.tables_of_nodes()) for name, c in captures.items())
    comparison = compare_captures(first, second)
    models = {told: None for c in captures.values() if (told := describe_model(c.info))}
    comparison = replace(comparison, findings=(*models, *comparison.findings))
    if as_json:
        typer.echo(json.dumps(comparison.as_dict(), indent=1, allow_nan=False))
    else:
        show(render_comparison(comparison), keep="\n")


def _sweep_verb(
    command: Annotated[
        list[str], typer.Argument(metavar="-- CMD...", help="The workload; `{NAME}` is replaced by the value.")
    ],
    setting: Annotated[
        str,
        typer.Option("--set", metavar="NAME=V1,V2", help="Environment variable, or `{NAME}` in CMD, and its values."),
    ],
    container: _ContainerOption = None,
    log_level: _LevelOption = 5,
    output: _FolderOption = None,
    as_json: _JsonOption = False,
) -> None:
    """Capture a workload once for each value of a setting; compare latencies, queues and streams."""
    begin_polars()
    from tracecorr.experiment.captured import parse_setting

    parse_setting(setting)
    folder = _choose_folder(output, "sweep")
    from tracecorr.experiment.captured import CaptureOptions, run_sweep
    from tracecorr.experiment.running import owned_by_caller

    options = CaptureOptions(folder.resolve(), log_level, container)
    with owned_by_caller(options.folder):
        table = run_sweep(setting, command, options, say)
    _print_table(f"Values of {setting.partition('=')[0]}", table, as_json=as_json)


def _stage1_verb(
    command: Annotated[
        list[str], typer.Argument(metavar="-- CMD...", help="The workload, for example a program with one GEMM.")
    ],
    container: _ContainerOption = None,
    log_level: _LevelOption = 5,
    output: _FolderOption = None,
    as_json: _JsonOption = False,
) -> None:
    """Capture one run, and check each step of the path ROCr -> KFD -> GPU against its records."""
    folder = _choose_folder(output, "stage1")
    begin_polars()
    from tracecorr.analyze.evidence import Evidence
    from tracecorr.analyze.stage1 import list_steps
    from tracecorr.experiment.captured import CaptureOptions, capture_in_turn
    from tracecorr.experiment.running import owned_by_caller

    options = CaptureOptions(folder.resolve(), log_level, container)
    with owned_by_caller(options.folder):
        (capture,) = capture_in_turn({"run": (command, {})}, options, say).values()
    steps = list_steps(Evidence(capture.table, None, capture.info, capture.tables_of_nodes()))
    _print_table("From ROCr to the GPU", steps, as_json=as_json)


def _print_table(title: str, table: pl.DataFrame, *, as_json: bool) -> None:
    from tracecorr.analyze.report.markdown import render_table
    from tracecorr.analyze.values import plain_rows

    if as_json:
        typer.echo(json.dumps(plain_rows(table), indent=1, allow_nan=False))
    else:
        show(f"# {title}\n\n{render_table(table, max_text=None)}", keep="\n")


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


def _check_policy(share: float, period_ms: float, target_ms: float, stop_by: str) -> None:
    """Refuse shares, times and ways that no policy can have.

    Raises:
        InputError: one is so.
    """
    if not 0 < share < 100:
        raise InputError(f"--share {share:g} is not between 0 and 100", "write percent, such as 20")
    for option, value in (("--period-ms", period_ms), ("--target-ms", target_ms)):
        if not 0 < value < math.inf:
            raise InputError(f"{option} {value:g} is not a positive number", "write milliseconds, such as 5")
    if stop_by not in ("signal", "freezer"):
        raise InputError(f"--stop-by {stop_by} is no way to stop", "write signal or freezer")


# Words after the command's name are the command's.
_CONTEXT = {"allow_interspersed_args": False}
app = typer.Typer(cls=Verbs, no_args_is_help=True, help=__doc__.partition(": ")[2].strip().capitalize())
app.command("preempt", cls=Verb)(_preempt_verb)
app.command("ab", cls=Verb)(_ab_verb)
app.command("sweep", cls=Verb, context_settings=_CONTEXT)(_sweep_verb)
app.command("stage1", cls=Verb, context_settings=_CONTEXT)(_stage1_verb)
