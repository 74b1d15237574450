"""The verb `demo`: everything on the bundled sample, without a GPU."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Annotated

import typer

from tracecorr.cli.console import say, say_warnings
from tracecorr.cli.serve import HostOption, NoBrowserOption, PortOption, run_server
from tracecorr.model.errors import CaptureError, MachineError

_SAMPLE = "t1-streams.tracecorr"


def demo_verb(
    no_serve: Annotated[bool, typer.Option("--no-serve", help="Print the summary and stop.")] = False,
    host: HostOption = "127.0.0.1",
    port: PortOption = None,
    no_browser: NoBrowserOption = False,
) -> None:
    """Build the tables of the bundled sample, print its summary, and show it in the browser."""
    path = copy_sample(find_sample(), _cache_folder())

    from tracecorr.analyze.markdown import render_summary
    from tracecorr.analyze.report import summarize_capture
    from tracecorr.pipeline import correlate
    from tracecorr.store import Capture

    say_warnings(correlate(path, progress=say))
    capture = Capture.open(path)
    typer.echo(render_summary(summarize_capture(capture.name, capture.table)))
    say(f"the sample is {path}; all of its report: tracecorr report {path}")
    if not no_serve:
        run_server([capture], host, port, no_browser)


def find_sample() -> Path:
    """Return the bundled sample: inside an installed package, else in the checkout.

    Raises:
        CaptureError: this installation has none.
    """
    package = Path(__file__).resolve().parents[1]
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


def _cache_folder() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tracecorr"


def _list_raw(folder: Path) -> list[tuple[str, int]]:
    """Return path and size of the files of a capture that never change once it is made."""
    raw = folder / "raw"
    return sorted((str(f.relative_to(raw)), f.stat().st_size) for f in raw.rglob("*") if f.is_file())
