"""Where a workload's libraries may lie: its own search paths, its Python, the loader's cache, and the usual folders."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from elftools.common.exceptions import ELFError
from elftools.elf.dynamic import DynamicSegment
from elftools.elf.elffile import ELFFile

from tracecorr.capture.bounded_file import BoundedFile
from tracecorr.capture.inside import find_inside, glob_inside, resolve_inside

# Distributions, ROCm, wheels of PyTorch and TheRock, also without any process that uses them.
_PLACES = (
    "opt/rocm*/lib", "usr/lib/x86_64-linux-gnu", "usr/lib64", "usr/local/lib", "opt/rocm*/lib64",
    "usr/lib/python3*/*-packages/torch/lib", "usr/local/lib/python3*/*-packages/torch/lib",
    "usr/local/lib/python3*/*-packages/_rocm_sdk_core/lib", "opt/*/lib/python3*/site-packages/torch/lib",
    "opt/*/lib/python3*/site-packages/_rocm_sdk_core/lib",
)  # fmt: skip
# Wheels bundle their libraries in PACKAGE/lib, or (auditwheel) in PACKAGE.libs.
_IN_PACKAGES = ("*/lib", "*.libs")
_OF_PYTHON = "lib*/python3*/*-packages/"
_RUN_PATHS = {"DT_RUNPATH": "runpath", "DT_RPATH": "rpath"}
_LOADER_CACHE, _CACHED = "/etc/ld.so.cache", re.compile(rb"(/[^\0]+)\0")
_MOST_CACHE_BYTES, _SHEBANG_BYTES = 16 << 20, 512


def list_folders(root: Path, environment: Mapping[str, str], program: str) -> Iterator[str]:
    """Yield folders in which libraries of a workload may lie, as it names them; some may not exist.

    Args:
        root: `/`, or `/proc/PID/root` of a container.
        environment: of the workload.
        program: path of its executable or script, as it names it; the libraries beside its Python are found by that.
    """
    yield from _named(environment)
    interpreter = find_interpreter(root, program, environment) if program else ""
    prefixes = [environment.get("VIRTUAL_ENV", ""), environment.get("CONDA_PREFIX", "")]
    prefixes += [str(Path(path).parent.parent) for path in (program, interpreter) if path.startswith("/")]
    prefixes += [f"{environment['HOME']}/.local"] if environment.get("HOME", "").startswith("/") else []
    for prefix in dict.fromkeys(p for p in prefixes if p and p != "/"):
        yield f"{prefix}/lib"
        yield from (folder for pattern in _IN_PACKAGES for folder in glob_inside(root, prefix, _OF_PYTHON + pattern))
    for path in environment.get("PYTHONPATH", "").split(":"):
        if path.startswith("/"):
            yield from (folder for pattern in _IN_PACKAGES for folder in glob_inside(root, path, pattern))
    for path in dict.fromkeys((program, interpreter)):
        if path.startswith("/"):
            yield from _run_paths(root, path)
    yield from (folder for place in _PLACES for folder in glob_inside(root, "/", place))


def list_cached(root: Path) -> Iterator[str]:
    """Yield the libraries that the dynamic loader of `root` knows (`ldconfig`)."""
    try:
        with BoundedFile(resolve_inside(root, _LOADER_CACHE)) as stream:
            content = stream.read(min(os.fstat(stream.fileno()).st_size, _MOST_CACHE_BYTES))
    except (OSError, ELFError):
        return
    yield from map(os.fsdecode, _CACHED.findall(content))


def find_interpreter(root: Path, program: str, environment: Mapping[str, str]) -> str:
    """Return the path of the interpreter that a script names in its first line, "" where it names none."""
    try:
        with BoundedFile(resolve_inside(root, program)) as stream:
            first = stream.readline(_SHEBANG_BYTES).decode(errors="replace")
    except OSError:
        return ""
    words = first[2:].split() if first.startswith("#!") else []
    if not words:
        return ""
    if Path(words[0]).name != "env":
        return words[0]
    names = [word for word in words[1:] if not word.startswith("-") and "=" not in word]
    found = (f"{folder}/{names[0]}" for folder in environment.get("PATH", os.defpath).split(":") if names and folder)
    return next((path for path in found if find_inside(root, path) is not None), "")


def _named(environment: Mapping[str, str]) -> list[str]:
    """Return the folders that the environment names, as the workload sees them."""
    folders = environment.get("LD_LIBRARY_PATH", "").split(":")
    folders += [str(Path(path).parent) for path in re.split("[: ]", environment.get("LD_PRELOAD", "")) if "/" in path]
    folders += [f"{environment[name]}/lib" for name in ("ROCM_PATH", "ROCM_HOME", "HIP_PATH") if name in environment]
    return [folder for folder in folders if folder.startswith("/")]


def _run_paths(root: Path, program: str) -> list[str]:
    """Return the folders that an executable tells its loader (DT_RPATH, DT_RUNPATH); none where it cannot be read."""
    try:
        with BoundedFile(resolve_inside(root, program)) as stream:
            if stream.peek(4)[:4] != b"\x7fELF":
                return []
            elf = ELFFile(stream)
            dynamic = next((s for s in elf.iter_segments() if isinstance(s, DynamicSegment)), None)
            tags = list(dynamic.iter_tags()) if dynamic else []
            # DT_RUNPATH has its text in `runpath`, DT_RPATH in `rpath`.
            paths = [str(getattr(tag, _RUN_PATHS[tag.entry.d_tag])) for tag in tags if tag.entry.d_tag in _RUN_PATHS]
    # The parser raises anything at a damaged file, and the workload chooses its program.
    except Exception:
        return []
    origin = str(Path(program).parent)
    folders = [f.replace("${ORIGIN}", origin).replace("$ORIGIN", origin) for path in paths for f in path.split(":")]
    return [os.path.normpath(folder) for folder in folders if folder.startswith("/")]
