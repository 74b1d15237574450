"""How the folders of captures are called; without heavy modules, for the command line."""

from __future__ import annotations

from pathlib import Path

SUFFIX = ".tracecorr"


def with_suffix(path: Path) -> Path:
    """Return the path of a capture folder with its suffix, which a user may leave out.

    >>> with_suffix(Path("runs/gemm")).name, with_suffix(Path("gemm.tracecorr")).name
    ('gemm.tracecorr', 'gemm.tracecorr')
    """
    return path if path.name.endswith(SUFFIX) else path.with_name(f"{path.name}{SUFFIX}")
