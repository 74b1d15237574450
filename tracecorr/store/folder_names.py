"""How the folders of captures are called and found; without heavy modules, for the command line."""

from __future__ import annotations

import os
from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path

from tracecorr.model.errors import CaptureError, quote_path

SUFFIX = ".tracecorr"
_MAKE = "make one with `tracecorr import`"
_MOST_NAMED = 5


def with_suffix(path: Path) -> Path:
    """Return the path of a capture folder with its suffix, which a user may leave out.

    >>> with_suffix(Path("runs/gemm")).name, with_suffix(Path("gemm.tracecorr")).name
    ('gemm.tracecorr', 'gemm.tracecorr')
    """
    return path if path.name.endswith(SUFFIX) else path.with_name(f"{path.name}{SUFFIX}")


def named_folder(name: Path) -> Path:
    """Return the capture folder that is meant by a name, with or without its suffix; whether it exists is not asked.

    The program, or the folder with what it wrote, often has the name of its capture without the suffix.
    """
    # A folder that may not be read is one that is not meant, or what is to be complained of.
    if not name.name or os.path.exists(name / "capture.json"):  # noqa: PTH110
        return name
    return folder if (folder := with_suffix(name)).is_dir() else name


def newest_capture(folder: Path) -> Path:
    """Return the capture folder in `folder` that was written last.

    Raises:
        CaptureError: there is none.
    """
    found = list_captures(folder)
    if not found:
        raise CaptureError(f"there is no *{SUFFIX} folder in {folder}", "name one, or make one with `tracecorr import`")
    return max(found, key=lambda path: (path / "capture.json").stat().st_mtime_ns)


def list_captures(folder: Path) -> list[Path]:
    """Return the capture folders in `folder`, sorted by name."""
    found: Iterable[Path] = folder.glob(f"*{SUFFIX}")
    return sorted(path for path in found if (path / "capture.json").is_file())


def describe_absent(path: Path, captures: list[Path]) -> CaptureError:
    """Return the error for a path that is no capture folder.

    Args:
        path: what was named.
        captures: the capture folders in it, or beside it where it does not exist.

    Raises:
        InputError: `path` is a file that cannot be read.
    """
    if path.is_file():
        # It knows all readers, and importing them takes longer than to open a capture.
        from tracecorr.read.importing import find_option
        from tracecorr.store import raw

        option = find_option(raw, path)
        hint = f"make one of it: tracecorr import {option} {quote_path(path)}" if option else _MAKE
        return CaptureError(f"{path} is a file and no capture folder", hint)
    if (path / "capture.json").exists():
        return CaptureError(f"{path / 'capture.json'} is damaged: its description is incomplete", _import_again(path))
    if path.is_dir():
        return CaptureError(f"{path} is no capture folder: it has no capture.json", _name_captures(captures))
    by_name = {name: capture for capture in captures for name in (capture.name, capture.stem)}
    alike = get_close_matches(path.name, by_name, n=1)
    hint = f"did you mean {by_name[alike[0]]}?" if alike else _name_captures(captures)
    return CaptureError(f"there is no capture folder {path}", hint)


def _import_again(path: Path) -> str:
    """Return how a capture folder whose description is lost becomes one again: its raw files are whole."""
    raw = path / "raw"
    sources = (
        ("--amd-log", "amd_log"),
        ("--ftrace", "ftrace"),
        ("--hqd", "hqd"),
        ("--rocprof", "rocprof"),
        ("--kernel-log", "kernel_log"),
    )
    words = [f"{option} {quote_path(raw / name)}/*" for option, name in sources if any((raw / name).glob("*"))]
    if not words:
        return _MAKE
    clock = raw / "clock.json"
    words += [f"--clock-samples {quote_path(clock)}"] if clock.is_file() else []
    return f"import its raw files again: tracecorr import {' '.join(words)} -o NEW"


def _name_captures(captures: list[Path]) -> str:
    if not captures:
        return _MAKE
    named = ", ".join(str(path) for path in captures[:_MOST_NAMED])
    return f"captures there: {named}{', ...' if len(captures) > _MOST_NAMED else ''}"
