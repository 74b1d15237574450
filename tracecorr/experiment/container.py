"""Run a phase of an experiment inside a container: its outputs come out through the one stdout that there is."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping

from tracecorr.capture.containers import find_engine
from tracecorr.capture.invoker import find_invoker

_MARK = "tracecorr-output"
_PART = re.compile(rb"^tracecorr-output (\w+)\n", re.MULTILINE)
_FOLDER = "/tmp/tracecorr-experiment-$$"


def join_script(line: str, roles: Mapping[str, str]) -> str:
    """Return a shell script that runs a phase and prints the output of each workload behind its name.

    Args:
        line: runs the workloads; their outputs go to `roles[role]`.
        roles: role -> file inside of `folder`.
    """
    shown = " ".join(f'echo; echo "{_MARK} {role}"; cat "{path}";' for role, path in roles.items())
    return f'mkdir {_FOLDER} || exit 125; {line}; s=$?; {shown} rm -r {_FOLDER}; exit "$s"'


def output_paths(roles: tuple[str, ...]) -> dict[str, str]:
    """Return the file of each workload's output inside the container."""
    return {role: f"{_FOLDER}/{role}" for role in roles}


def split_outputs(stdout: bytes) -> dict[str, bytes]:
    """Return the output of each workload from what `join_script` printed.

    >>> split_outputs(b"tracecorr-output high\\na\\n\\ntracecorr-output low\\nb\\n")
    {'high': b'a\\n\\n', 'low': b'b\\n'}
    """
    parts = _PART.split(stdout)[1:]
    return {role.decode(): text for role, text in zip(parts[::2], parts[1::2], strict=True)}


def run_in_container(container: str, script: str) -> subprocess.CompletedProcess[bytes]:
    """Run a shell script in a running container, without HIP log.

    Raises:
        MachineError: no engine has the container.
    """
    root, invoker = find_invoker(os.environ, as_root=True), find_invoker(os.environ)
    engine, _ = find_engine("container", container, root, invoker)
    return engine.run("exec", container, "sh", "-c", script)
