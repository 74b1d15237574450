"""Build hook: compile `tracecorr/parse/native/kernel.c`, the loops over the lines of a log, at install.

The C compiler of the machine is taken; where there is none, the one that the package `ziglang` brings from the index.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

_FLAGS = ("-std=c11", "-O3", "-fPIC", "-shared", "-Wall", "-Wextra", "-Werror=implicit-function-declaration")


def find_compiler() -> list[str] | None:
    """Return the command of the machine's C compiler; `$CC` goes first."""
    given = shlex.split(os.environ.get("CC", ""))
    if given:
        return given
    return next(([name] for name in ("cc", "gcc", "clang") if shutil.which(name)), None)


def compile_kernel(source: Path, target: Path, flags: tuple[str, ...] = _FLAGS) -> None:
    """Compile the kernel, so that whoever loads it sees the old or the new one.

    Raises:
        SystemExit: the compiler failed; the text says what it printed.
    """
    compiler = find_compiler() or [sys.executable, "-m", "ziglang", "cc"]
    temporary = target.with_name(f".{target.name}.{os.getpid()}")
    command = [*compiler, *flags, "-o", str(temporary), str(source)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{shlex.join(command)} failed:\n{done.stdout}{done.stderr}")
    temporary.replace(target)


class NativeBuildHook(BuildHookInterface[Any]):
    """Put the compiled kernel into wheels, and beside its source for installs in place."""

    def dependencies(self) -> list[str]:
        """Return what else is needed to build."""
        return [] if find_compiler() else ["ziglang>=0.14,<1"]

    def initialize(self, _version: str, build_data: dict[str, Any]) -> None:
        """Compile before the files of the wheel are collected."""
        folder = Path(self.root) / "tracecorr" / "parse" / "native"
        compile_kernel(folder / "kernel.c", folder / "kernel.so")
        build_data["artifacts"].append("tracecorr/parse/native/kernel.so")
        # No part of Python is called: one wheel for all versions of it.
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{sysconfig.get_platform().replace('-', '_').replace('.', '_')}"
