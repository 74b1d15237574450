"""What all verbs share: messages on stderr, which capture is meant, what a shell completes behind TAB."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TextIO

import typer

from tracecorr.model.printable import printable
from tracecorr.progress import LiveLine, tell
from tracecorr.store.folder_names import (
    SUFFIX,
    describe_absent,
    list_captures,
    named_folder,
    newest_capture,
    with_suffix,
)
from tracecorr.threads import begin_polars

if TYPE_CHECKING:
    from tracecorr.store import Capture


# The shell's script asks by it what fits (`_PROGRAM_COMPLETE` of the parser), without any word behind the program.
VARIABLE = "_TRACECORR_COMPLETE"


def complete_captures(incomplete: str) -> list[str]:
    """Return the captures in the folder that is typed, or in the current one, whose names begin as it was typed.

    If there are none, the shell completes files, which may lead to another folder.
    """
    folder = incomplete.rpartition("/")[0] + "/" if "/" in incomplete else ""
    try:
        names = sorted(entry.name for entry in os.scandir(Path(folder or ".").expanduser()) if entry.is_dir())
    except OSError:
        return []
    return begin_with(incomplete, (folder + name for name in names if name.endswith(SUFFIX)))


def begin_with(incomplete: str, words: Iterable[str]) -> list[str]:
    """Return the words that begin as it was typed."""
    return [word for word in words if word.startswith(incomplete)]


# Exit status of `--check` by the outcome of a verdict.
FAILED, UNKNOWN = 4, 5

NameArgument = Annotated[
    Path | None,
    typer.Argument(
        metavar="NAME", help="Capture folder; default: the newest in the current folder.",
        autocompletion=complete_captures,
    ),
]  # fmt: skip


@lru_cache(maxsize=1)
def _live_line(stream: TextIO) -> LiveLine:
    return LiveLine(stream)


ForceOption = Annotated[bool, typer.Option("--force", help="Replace the capture folder if it exists.")]
HtmlOption = Annotated[Path | None, typer.Option(metavar="FILE", help="Write one self-contained HTML file with plots.")]
ForcePageOption = Annotated[bool, typer.Option("--force", help="With --html: replace the file if it exists.")]
JobsOption = Annotated[
    int | None,
    typer.Option(
        "--jobs", "-j", min=1, metavar="N", show_default=False,
        help="Number of processes that read long logs; default: one per two CPUs, at most 8.",
    ),
]  # fmt: skip


def count_jobs(asked: int | None) -> int:
    """Return how many processes may read logs."""
    begin_polars()
    from tracecorr.store.log_ranges import count_processes

    return asked or count_processes()


def open_closed_streams() -> None:
    """Give stdin, stdout and stderr a place where the caller closed them: other files would take their numbers."""
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        if getattr(sys, name) is None:
            opened = os.open(os.devnull, os.O_RDWR)
            os.dup2(opened, number)
            if opened != number:
                os.close(opened)
            setattr(sys, name, os.fdopen(number, mode))


@contextmanager
def ended_in_order() -> Iterator[None]:
    """Let SIGTERM and SIGHUP end a verb as Ctrl-C does, so that what it made for a while is taken away."""
    ended: list[int] = []

    def end(number: int, _: object) -> None:
        # It may come twice, to the process and to its group: the second one must not stop the clearing up.
        if not ended:
            ended.append(128 + number)
            raise SystemExit(ended[0])

    # Others are ignored, as under `nohup`.
    obeyed = [n for n in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(n) == signal.SIG_DFL]
    for number in obeyed:
        signal.signal(number, end)
    try:
        yield
    except BaseException:
        # What it interrupts may make another exception of it, as polars does.
        if not ended:
            raise
    finally:
        for number in obeyed:
            signal.signal(number, signal.SIG_DFL)
    if ended:  # A server takes it for the wish to end, which it is.
        raise typer.Exit(ended[0])


def show(text: object, keep: str = "") -> None:
    """Print one line of a result to stdout, control characters escaped; exact data (JSON, CSV) is not for this.

    Args:
        text: the line.
        keep: control characters that stay: a newline in a text of several lines.
    """
    typer.echo(printable(text, keep))


def show_markdown(text: str) -> None:
    """Print Markdown to stdout, control characters escaped: as tables on a terminal, as it is into a pipe."""
    if not sys.stdout.isatty():
        show(text, keep="\n")
        return
    from rich.console import Console
    from rich.markdown import Markdown

    Console().print(Markdown(printable(text, "\n")))


def say(message: str, keep: str = "") -> None:
    """Print a message or a line of progress to stderr, control characters escaped.

    Args:
        message: the message.
        keep: control characters that stay: a newline in a message of several lines.
    """
    _live_line(sys.stderr).clear()
    tell(sys.stderr, f"{printable(message, keep)}\n")


def say_live(text: str) -> None:
    """Show what is being done now, where stderr is a terminal, until the next message."""
    _live_line(sys.stderr).show(text)


def say_error(what: str, next_step: str) -> None:
    """Print what went wrong, and what to do about it, to stderr."""
    say(f"error: {what}")
    if next_step:
        say(f"next step: {next_step}")


def find_capture(name: Path | None) -> Path:
    """Return the folder that the user means: `name`, with or without its suffix, or the newest one.

    Raises:
        CaptureError: there is none.
    """
    if name is None:
        newest = newest_capture(Path.cwd())
        say(f"using the newest capture here: {newest.name}")
        return newest
    folder = named_folder(name)
    with suppress(PermissionError):  # who opens it says more
        if not os.path.lexists(folder):
            raise describe_absent(folder, list_captures(folder.parent))
    return folder


def add_suffix(path: Path) -> Path:
    """Return the path of a capture folder to make, with its suffix.

    Raises:
        InputError: the path names no file.
    """
    from tracecorr.model.errors import InputError

    if not path.name:
        raise InputError(f"-o {str(path)!r} is not a folder name", "write a name, such as -o gemm.tracecorr")
    return with_suffix(path)


def open_capture(name: Path | None, *, tables: bool = True) -> Capture:
    """Return the capture that the user means.

    Raises:
        CaptureError: there is none, or `tables` are wanted and it has none.
    """
    path = find_capture(name)
    begin_polars()
    from tracecorr.store import Capture
    from tracecorr.store.recording import describe_missing_tables

    capture = Capture.open(path)
    if tables and not capture.has_tables():
        raise describe_missing_tables(capture, path)
    if tables and capture.is_outdated():
        from tracecorr.pipeline import rebuild_outdated

        return rebuild_outdated(capture, say)
    return capture


def say_warnings(warnings: list[str]) -> None:
    """Print the warnings of a verb that went well all the same."""
    for warning in warnings:
        say(f"warning: {warning}")


def refuse_idle(option: str, partner: str, *, given: bool, there: bool) -> None:
    """Refuse an option that changes nothing without another one, rather than leave it out silently.

    Raises:
        InputError: it was given, and what it needs is not there.
    """
    from tracecorr.model.errors import InputError

    if given and not there:
        raise InputError(f"{option} has no effect without {partner}", f"add {partner}, or leave out {option}")


def refuse_page(path: Path | None, *, as_json: bool, force: bool) -> None:
    """Refuse, before any work, a page that has no place or that is one of two forms.

    Raises:
        InputError: it is.
    """
    from tracecorr.model.errors import InputError

    refuse_idle("--force", "--html", given=force, there=path is not None)
    if path is None:
        return
    if as_json:
        raise InputError("--html and --json cannot be combined", "call it once for each")
    begin_polars()
    from tracecorr.export.table_files import refuse_taken

    refuse_taken(path, force=force)


def write_page(path: Path, text: str) -> None:
    """Write a page and print its path.

    Raises:
        InputError: the file cannot be written.
    """
    from tracecorr.export.table_files import open_fresh

    with open_fresh(path) as stream:
        stream.write(text.encode())
    show(path)
