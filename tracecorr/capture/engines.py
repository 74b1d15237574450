"""The container engines that are known here, and which of them this machine has."""

from __future__ import annotations

import shutil

ENGINES = ("docker", "podman")


def available_engines() -> tuple[str, ...]:
    """Return the container engines whose command is here."""
    return tuple(name for name in ENGINES if shutil.which(name))
