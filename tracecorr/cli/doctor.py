"""The verb `doctor`: what this machine can capture, and what each gap needs."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tracecorr.cli.console import show
from tracecorr.model.errors import InputError
from tracecorr.threads import begin_polars

if TYPE_CHECKING:
    from tracecorr.capture.plan.plan import Offer

# Without these there is no capture at all.
_NEEDED = ("rights", "process numbers", "tracefs", "instances")
_CANNOT = 3


def doctor_verb(
    container: Annotated[
        str | None,
        typer.Option("--container", metavar="NAME", help="Check the libraries inside this running container."),
    ] = None,
    pid: Annotated[
        int | None, typer.Option("--pid", metavar="PID", help="Check the libraries that this process loads.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show what this machine can capture: doctor tries each feature and then undoes it.

    Each line says yes, partly or no, and why. If a command closes the gap, the line names it.
    Exit status: 0 a capture is possible, 3 it is not.
    """
    if container is not None and pid is not None:
        raise InputError("--container and --pid cannot be combined", "give one of them")
    begin_polars()
    from tracecorr.capture.plan.machine import probe_machine
    from tracecorr.capture.workload.engines import container_pid
    from tracecorr.capture.workload.host import AttachedProcess
    from tracecorr.capture.workload.invoker import find_invoker

    if container is not None:
        pid = container_pid(container, os.environ)
    elif pid is not None:
        AttachedProcess(pid).close()
    # A workload on the host finds its runtime where the caller's environment says.
    offer = probe_machine(pid, environment=find_invoker(os.environ).environment if pid is None else None)
    if as_json:
        typer.echo(json.dumps(_as_json(offer), indent=2))
    else:
        _print(offer)
    if not _can_capture(offer):
        raise typer.Exit(_CANNOT)


def _can_capture(offer: Offer) -> bool:
    return "mono" in offer.clocks and not any(f.state == "no" and f.name in _NEEDED for f in offer.findings)


def _print(offer: Offer) -> None:
    show(f"kernel {offer.kernel}")
    width = max(len(f.name) for f in offer.findings)
    for finding in offer.findings:
        show(f"{finding.state:7}{finding.name:{width}}  {finding.why}".rstrip())
        if finding.remedy:
            show(f"{'':{7 + width}}  fix: {finding.remedy}")
    if _can_capture(offer):
        show("a capture is possible; tracecorr capture --dry-run prints what it would record")
    else:
        show("no capture is possible: fix what says no")


def _as_json(offer: Offer) -> dict[str, Any]:
    """Return findings, and what the plan is made from, without the long lists of names."""
    runtimes = [{**vars(r), "symbols": len(r.symbols)} for r in offer.runtimes]
    plain = {
        name: value for name, value in vars(offer).items() if isinstance(value, bool | int | str) or name == "clocks"
    }
    findings = [vars(f) for f in offer.findings]
    return {"can_capture": _can_capture(offer), "findings": findings, "machine": plain, "runtimes": runtimes}
