"""What comes with the package: the sample capture and a copy of it that can be written to, the documents."""

from __future__ import annotations

import os
import shutil
from importlib.resources import files
from pathlib import Path

from tracecorr.model.errors import CaptureError, InputError, MachineError

_SAMPLE = "eight-streams.tracecorr"
# Where a topic is not in `docs/`.
_ELSEWHERE = {"commands": "cli/COMMANDS.md", "tables": "model/TABLES.md"}


def list_topics() -> dict[str, str]:
    """Return the topics of the documents: name -> path of its page (Markdown) in the package."""
    pages = sorted(page.name for page in files("tracecorr").joinpath("docs").iterdir() if page.name.endswith(".md"))
    return {page.removesuffix(".md"): f"docs/{page}" for page in pages} | _ELSEWHERE


def list_titles() -> dict[str, str]:
    """Return the topics with the titles of their pages."""
    return {name: read_topic(name).partition("\n")[0].lstrip("# ") for name in list_topics()}


def read_topic(topic: str) -> str:
    """Return the page of a topic (Markdown).

    Raises:
        InputError: there is no such topic.
    """
    topics = list_topics()
    if topic not in topics:
        raise InputError(f"there is no topic {topic!r}", f"topics are: {', '.join(topics)}")
    return files("tracecorr").joinpath(topics[topic]).read_text()


def find_sample() -> Path:
    """Return the bundled sample: inside an installed package, else in the checkout.

    Raises:
        CaptureError: this installation has none.
    """
    package = Path(__file__).resolve().parent
    for folder in (package / "sample", package.parent / "samples" / _SAMPLE):
        if (folder / "capture.json").is_file():
            return folder
    raise CaptureError("this installation has no sample capture", "install tracecorr again, or run it from a checkout")


def copy_sample(sample: Path, cache: Path) -> Path:
    """Copy the sample into the cache folder unless the same one is there, and return the copy.

    Raises:
        MachineError: the cache folder cannot be written.
    """
    target = cache / _SAMPLE
    if _list_raw(target) == _list_raw(sample):
        return target
    fresh = cache / f".{_SAMPLE}.{os.getpid()}"
    try:
        cache.mkdir(parents=True, exist_ok=True)
        shutil.copytree(sample, fresh)
        shutil.rmtree(target, ignore_errors=True)
        fresh.replace(target)
    except OSError as error:
        shutil.rmtree(fresh, ignore_errors=True)
        raise MachineError(
            f"cannot copy the sample to {target}: {error.strerror}", "set XDG_CACHE_HOME to a folder that you can write"
        ) from error
    return target


def cache_folder() -> Path:
    """Return the folder for copies of the sample (XDG_CACHE_HOME, else ~/.cache)."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tracecorr"


def _list_raw(folder: Path) -> list[tuple[str, int]]:
    """Return path and size of the files of a capture that never change once it is made."""
    raw = folder / "raw"
    return sorted((str(f.relative_to(raw)), f.stat().st_size) for f in raw.rglob("*") if f.is_file())
