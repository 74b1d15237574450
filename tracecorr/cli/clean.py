"""The verb `clean`: undo what a killed capture left on the machine."""

from __future__ import annotations

import os

import typer

from tracecorr.cli.console import say, show


def clean_verb() -> None:
    """Remove what killed captures left on this machine: tracing instances, probes, changed settings.

    It does not touch running captures and other users of tracefs. A new capture also cleans when it starts.
    Exit status: 0 nothing is left, 1 something cannot be removed yet, 3 not called as root.
    """
    from tracecorr.capture.tracefs.undo import list_running, restore_leftovers
    from tracecorr.capture.workload.invoker import call_as_root
    from tracecorr.model.errors import MachineError

    if os.geteuid() != 0:
        raise MachineError("only root can see and remove what captures left", call_as_root("clean"))
    done, left = restore_leftovers()
    for text in done:
        show(f"undone: {text}")
    for text in left:
        say(f"left: {text}")
    if not done and not left:
        show("nothing was left behind")
    for pid in list_running():
        show(f"not touched: the capture of process {pid} is still running")
    if left:
        say("next step: stop what uses it (a reader of trace_pipe, another tracer), then: tracecorr clean")
        raise typer.Exit(1)
