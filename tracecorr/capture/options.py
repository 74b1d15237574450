"""What a capture is asked to do."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import chain, count
from pathlib import Path

from tracecorr.capture.plan.plan import Wanted
from tracecorr.store.capture import LONGEST_NAME
from tracecorr.store.folder_names import SUFFIX, with_suffix

# Decimal: the runtime reads both with atoi, and a hexadecimal mask would log nothing.
_ALL_MESSAGES = 2147483647
# MiB; past it the runtime empties the log and starts again (ROCm 6.4 and later).
_NO_SIZE_LIMIT = 1 << 20


def choose_folder(output: Path | None, command: tuple[str, ...], folder: Path) -> Path:
    """Return the absolute path of the capture folder: `output` with the suffix, or PROGRAM-DATE-TIME, which is new."""
    if output is not None:
        return folder / with_suffix(output)
    stamp = time.strftime("%Y%m%d-%H%M%S")
    name = f"{_shorten(program_name(command), LONGEST_NAME - len(f'-{stamp}-99{SUFFIX}'))}-{stamp}"
    names = chain([name], (f"{name}-{number}" for number in count(2)))
    return next(path for found in names if not os.path.lexists(path := folder / f"{found}{SUFFIX}"))


def program_name(command: tuple[str, ...]) -> str:
    """Return what a capture of `command` is called: the program, or the script that an interpreter runs.

    Tables cannot name what is no text in UTF-8, and a shell gets it hardly right: `_` stands for it.
    """
    first = Path(command[0]).name
    scripts = [word for word in command[1:] if not word.startswith("-") and Path(word).suffix in (".py", ".sh")]
    name = Path(scripts[0]).stem if scripts and first.rstrip("0123456789.") in ("python", "bash", "sh") else first
    return "".join(sign if sign.isprintable() else "_" for sign in name) or "capture"


def _shorten(name: str, most: int) -> str:
    """Return as much of a name as has at most so many bytes."""
    return name.encode()[:most].decode("utf-8", "ignore")


def log_environment(level: int, log_file: Path) -> dict[str, str]:
    """Return the variables that make the HIP runtime write its log; none for level 0."""
    if level == 0:
        return {}
    return {
        "AMD_LOG_LEVEL": str(level),
        "AMD_LOG_MASK": str(_ALL_MESSAGES),
        "AMD_LOG_LEVEL_FILE": str(log_file),
        "AMD_LOG_LEVEL_SIZE": str(_NO_SIZE_LIMIT),
        # Runtimes of 2026 else let one thread write what all print; older ones do not know it.
        "AMD_LOG_ASYNC": "0",
    }


def describe_replaced(environment: Mapping[str, str], variables: Mapping[str, str]) -> str:
    """Return what to say of variables of the caller's that the workload gets other values of, or ""."""
    replaced = [f"{key}={environment[key]}" for key, value in variables.items() if environment.get(key, value) != value]
    if not replaced:
        return ""
    return (
        f"your {', '.join(replaced)} {'is' if len(replaced) == 1 else 'are'} not used: the log of everything goes into "
        "the capture; --log-level sets its level"
    )


@dataclass(frozen=True)
class CaptureOptions:
    """All that the command line can say of one capture; times in seconds."""

    command: tuple[str, ...]
    output: Path | None = None
    force: bool = False
    wanted: Wanted = field(default_factory=Wanted)
    duration: float | None = None
    delay: float = 0.0
    start_on_signal: bool = False
    max_log_bytes: int | None = None
    min_free_bytes: int = 1 << 30
    kill: bool = False
    correlate: bool = True
    as_root: bool = False
    log_level: int = 5
    compress_log: bool = True
    container: str | None = None
    image: str | None = None
    run_options: tuple[str, ...] = ()
    pid: int | None = None
    hqd_interval: float | None = None
    stall: float | None = None
    stall_kill: bool = False
    quiet: bool = False
    share: bool = False
