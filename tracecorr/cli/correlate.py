"""The verb `correlate`: build the tables of captures again, here or on a cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tracecorr.cli.console import (
    JobsOption,
    add_suffix,
    complete_captures,
    count_jobs,
    ended_in_order,
    find_capture,
    refuse_idle,
    say,
    say_live,
    say_warnings,
    show,
)
from tracecorr.model.errors import InputError, quote_path
from tracecorr.threads import begin_polars

_DATASET = Path("fleet.tracecorr")


def correlate_verb(
    names: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="NAME", help="Capture folders; default: the newest one here.", autocompletion=complete_captures
        ),
    ] = None,
    cluster: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="Use the workers of this Dask scheduler; `local`: one worker per CPU."),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="NAME.tracecorr",
            help=f"Dataset of several captures to write; default {_DATASET}.",
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the dataset if it exists.")] = False,
    jobs: JobsOption = None,
) -> None:
    """Rebuild the tables of a capture from its raw files; the raw files do not change.

    If you name several captures, they become one dataset; query, report, compare, export and serve can read it.
    """
    paths = [find_capture(name) for name in names] if names else [find_capture(None)]
    _refuse_twice(paths)
    out = _choose_output(output) if output is not None or len(paths) > 1 else None
    refuse_idle("--force", "-o", given=force, there=out is not None)
    if cluster is not None and jobs is not None:
        raise InputError(
            "--jobs sets the processes of this machine, and --cluster uses its own workers", "leave one of them out"
        )
    begin_polars()
    with ended_in_order():
        if cluster is not None:
            _correlate_on_cluster(cluster, paths, out, force)
        else:
            _correlate_here(paths, out, force, count_jobs(jobs))
    target = out or paths[0]
    say(f"next step: tracecorr report {quote_path(target)}")
    show(target)


def _refuse_twice(paths: list[Path]) -> None:
    seen: set[Path] = set()
    for path in paths:
        if path.resolve() in seen:
            raise InputError(f"{path} was given twice", "name each capture once")
        seen.add(path.resolve())


def _correlate_on_cluster(address: str, paths: list[Path], out: Path | None, force: bool) -> None:
    from tracecorr.cluster.correlate import correlate_on_cluster

    for path, warnings in correlate_on_cluster(address, paths, out, say, force=force).items():
        say_warnings([f"{path}: {text}" for text in warnings] if len(paths) > 1 else warnings)


def _correlate_here(paths: list[Path], out: Path | None, force: bool, jobs: int) -> None:
    from tracecorr.capture.folder import return_killed
    from tracecorr.pipeline import correlate, make_dataset
    from tracecorr.store.fleet import check_fleet_place

    if out is not None:
        check_fleet_place(paths, out, force=force)
    for path in paths:
        return_killed(path)
        say_warnings(correlate(path, progress=say, live=say_live, jobs=jobs))
    if out is not None:
        make_dataset(paths, out, force=force)


def _choose_output(output: Path | None) -> Path:
    return add_suffix(output or _DATASET)
