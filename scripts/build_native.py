"""Build hook: compile the C files of `tracecorr/native/` at install.

The C compiler of the machine is taken; where there is none, the one that the package `ziglang` brings from the index.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from hashlib import sha256
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

_FLAGS = ("-std=c11", "-O3", "-fPIC", "-shared", "-Wall", "-Wextra")
# Without a target it would use all that the CPU of this machine can, and others may not.
_ZIG = (sys.executable, "-m", "ziglang", "cc", "-mcpu=baseline")
_PROBE = "#include <string.h>\nint probe(const char *text) { return (int)strlen(text); }\n"
_KERNEL = "tracecorr/native/kernel.so"


def find_compiler() -> list[str] | None:
    """Return the command of the machine's C compiler, `$CC` where it is set; None = none of them compiles."""
    given = shlex.split(os.environ.get("CC", ""))
    return given or next(([name] for name in ("cc", "gcc", "clang") if shutil.which(name) and _compiles(name)), None)


def _compiles(compiler: str) -> bool:
    """Tell whether a compiler has the headers of the C library; Debian's comes without them."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "probe.c"
        source.write_text(_PROBE)
        command = [compiler, *_FLAGS, "-o", str(Path(folder) / "probe.so"), str(source)]
        return subprocess.run(command, capture_output=True, check=False).returncode == 0


def compile_kernel(folder: Path, target: Path) -> None:
    """Compile the C files of a folder, so that whoever loads them sees the old or the new ones.

    They tell the checksum of their sources (`native/binding.py`), so that they are never used with others.

    Raises:
        SystemExit: the compiler failed; the text says what it printed.
    """
    sources = sorted(folder.glob("*.[ch]"))
    checksum = sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()
    files = [str(source) for source in sources if source.suffix == ".c"]
    # Containers that share a checkout have processes of the same number.
    handle, temporary = tempfile.mkstemp(suffix=".so", dir=target.parent)
    os.close(handle)
    told = f'-DSOURCE_CHECKSUM="{checksum}"'
    command = [*(find_compiler() or _ZIG), *_FLAGS, told, "-o", temporary, *files]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"{shlex.join(command)} failed:\n{done.stdout}{done.stderr}")
        Path(temporary).chmod(0o755)
        Path(temporary).replace(target)
    except OSError as error:
        raise SystemExit(f"{shlex.join(command)} cannot be run: {error}") from error
    finally:
        Path(temporary).unlink(missing_ok=True)


class NativeBuildHook(BuildHookInterface[Any]):
    """Put the compiled kernel into wheels; for an install in place it is put beside its source."""

    _folder: str | None = None

    def dependencies(self) -> list[str]:
        """Return what else is needed to build."""
        return [] if find_compiler() else ["ziglang>=0.14,<1"]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile before the files of the wheel are collected."""
        target = Path(self.root, _KERNEL)
        folder = target.parent
        if version != "editable":
            # The checkout may be one that others use, or must not be written to.
            self._folder = tempfile.mkdtemp()
            target = Path(self._folder, target.name)
            build_data["force_include"][str(target)] = _KERNEL
        compile_kernel(folder, target)
        # No part of Python is called: one wheel for all versions of it.
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{sysconfig.get_platform().replace('-', '_').replace('.', '_')}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:  # noqa: ARG002
        """Remove what was compiled for a wheel."""
        if self._folder:
            shutil.rmtree(self._folder, ignore_errors=True)
