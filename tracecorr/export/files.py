"""The file that an export writes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from tracecorr.model.errors import InputError


@contextmanager
def open_fresh(path: Path) -> Iterator[IO[bytes]]:
    """Open a file that takes the place of `path` when all of it is written; until then the old one stays.

    Raises:
        InputError: the file cannot be written.
    """
    fresh = path.with_name(f".{path.name}.new")
    try:
        with fresh.open("wb") as stream:
            yield stream
        fresh.replace(path)
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror}", "check space and permissions there") from error
    finally:
        # What could not be made cannot be taken away: the error before this one tells why.
        with suppress(OSError):
            fresh.unlink(missing_ok=True)
