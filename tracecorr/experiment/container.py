"""Run a phase of an experiment inside a container: its outputs come out through the one stdout that there is."""

from __future__ import annotations

import os
import re
import secrets
import subprocess
from collections.abc import Mapping

from tracecorr.capture.workload.engines import find_engine
from tracecorr.capture.workload.invoker import find_invoker
from tracecorr.experiment.interrupts import hold_interrupts

_MARK = "tracecorr-output"
_PART = re.compile(rb"^tracecorr-output (\w+)\n", re.MULTILINE)
_END_SECONDS = 10


def name_folder() -> str:
    """Return a path inside a container that nothing else uses: a phase keeps its outputs there."""
    return f"/tmp/tracecorr-experiment-{secrets.token_hex(8)}"


def join_script(line: str, folder: str, roles: Mapping[str, str]) -> str:
    """Return a shell script that runs a phase and prints the output of each workload behind its name.

    Args:
        line: runs the workloads; their outputs go to `roles[role]`.
        folder: made for the phase, removed at its end.
        roles: role -> file inside of `folder`.
    """
    shown = " ".join(f'echo; echo "{_MARK} {role}"; cat "{path}";' for role, path in roles.items())
    start = f"mkdir {folder} && echo $$ > {folder}/pid || exit 125"
    return f'{start}; {line}; s=$?; {shown} rm -r {folder}; exit "$s"'


def output_paths(folder: str, roles: tuple[str, ...]) -> dict[str, str]:
    """Return the file of each workload's output inside the container."""
    return {role: f"{folder}/{role}" for role in roles}


def split_outputs(stdout: bytes) -> dict[str, bytes]:
    """Return the output of each workload from what `join_script` printed.

    >>> split_outputs(b"tracecorr-output high\\na\\n\\ntracecorr-output low\\nb\\n")
    {'high': b'a\\n\\n', 'low': b'b\\n'}
    """
    parts = _PART.split(stdout)[1:]
    return {role.decode(): text for role, text in zip(parts[::2], parts[1::2], strict=True)}


def run_in_container(container: str, script: str, folder: str) -> subprocess.CompletedProcess[bytes]:
    """Run the script of a phase in a running container, without HIP log.

    Args:
        container: name or id.
        script: what `join_script` gave.
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
    """Return a script that gives Ctrl-C to all processes of a phase, and ends those that do not heed it."""
    lives = "kill -0 -- -$p 2> /dev/null"
    return (
        f"p=$(cat {folder}/pid) || exit 0; kill -INT -- -$p; n=0; "
        f"while {lives} && [ $n -lt {_END_SECONDS} ]; do sleep 1; n=$((n + 1)); done; {lives} && kill -KILL -- -$p; "
        f"rm -rf {folder}"
    )
