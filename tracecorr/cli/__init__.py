"""The command line: one module per verb.

Heavy modules (polars, dash) are imported once a verb has checked its words, so that help and errors come at once.
"""

from __future__ import annotations

import errno
import os
import signal
import sys
import traceback
from typing import Annotated

import typer
from typer.exceptions import TyperException

from tracecorr import __version__
from tracecorr.cli import (
    capture,
    clean,
    compare,
    console,
    correlate,
    demo,
    doctor,
    experiment,
    export,
    hang,
    help_page,
    hqd,
    import_files,
    info,
    parser,
    query,
    report,
    serve,
)
from tracecorr.cli.console import VARIABLE
from tracecorr.cli.parser import Verb, Verbs
from tracecorr.model.errors import TracecorrError, explain_damage, explain_denied, explain_unwritten, is_panic

app = typer.Typer(
    cls=Verbs,
    name="tracecorr",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
_RECORD, _LOOK, _SHARE, _KEEP = "Record", "Look", "Compare and share", "Help and upkeep"
app.command("doctor", cls=Verb, rich_help_panel=_RECORD)(doctor.doctor_verb)
app.command("capture", cls=Verb, context_settings=capture.CONTEXT, rich_help_panel=_RECORD)(capture.capture_verb)
app.command("import", cls=Verb, context_settings=import_files.CONTEXT, rich_help_panel=_RECORD)(
    import_files.import_verb
)
app.command("hang", cls=Verb, rich_help_panel=_LOOK)(hang.hang_verb)
app.command("report", cls=Verb, rich_help_panel=_LOOK)(report.report_verb)
app.command("serve", cls=Verb, rich_help_panel=_LOOK)(serve.serve_verb)
app.command("query", cls=Verb, rich_help_panel=_LOOK)(query.query_verb)
app.command("info", cls=Verb, rich_help_panel=_LOOK)(info.info_verb)
app.command("hqd", cls=Verb, rich_help_panel=_LOOK)(hqd.hqd_verb)
app.command("compare", cls=Verb, rich_help_panel=_SHARE)(compare.compare_verb)
app.add_typer(experiment.app, name="experiment", rich_help_panel=_SHARE)
app.command("export", cls=Verb, rich_help_panel=_SHARE)(export.export_verb)
app.command("demo", cls=Verb, rich_help_panel=_KEEP)(demo.demo_verb)
app.command("help", cls=Verb, rich_help_panel=_KEEP)(help_page.help_verb)
app.command("correlate", cls=Verb, rich_help_panel=_KEEP)(correlate.correlate_verb)
app.command("clean", cls=Verb, rich_help_panel=_KEEP)(clean.clean_verb)
# Names of the same verbs in other tracers.
_OTHER_NAMES = {
    "record": "capture", "profile": "capture", "launch": "capture", "run": "capture", "stat": "report",
    "stats": "report", "analyze": "report", "diff": "compare", "convert": "export", "view": "serve", "open": "serve",
    "ui": "serve", "sql": "query", "reset": "clean",
}  # fmt: skip
_VERBS = [*(command.name for command in app.registered_commands), "experiment"]


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"tracecorr {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
    traceback: Annotated[bool, typer.Option("--traceback", help="Show the Python traceback of a failure.")] = False,
) -> None:
    """Show what happened between a HIP call and the GPU: kernel trace and HIP log on one clock.

    Begin with `tracecorr demo`; `tracecorr help` lists the documents.
    Verbs that read a capture use the newest *.tracecorr in the current folder if you name none.
    Results go to stdout, progress and messages to stderr.
    Exit status: 0 done, 1 tracecorr failed, 2 wrong usage or bad input, 3 this machine cannot do it.
    """
    del version, traceback  # Both had their effect before.


def main(argv: list[str] | None = None) -> int:
    """Run the command line and return its exit status."""
    console.open_closed_streams()
    words, wants_traceback = parser.take_flag(sys.argv[1:] if argv is None else argv, "--traceback")
    if not words and VARIABLE not in os.environ:
        main(["--help"])
        return 2
    try:
        # Without the parser's own messages, which have no next step and break paths to the width of the terminal.
        status = app(args=parser.expand_greedy(words), prog_name="tracecorr", standalone_mode=False)
    except SystemExit as end:
        if _lost_reader(end):
            return 128 + signal.SIGPIPE
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except TyperException as error:
        console.say_error(*_describe_usage(error, words))
        return 2
    except TracecorrError as error:
        _show_traceback(wants_traceback)
        console.say_error(error.what, error.next_step)
        return error.exit_code
    except BaseException as error:
        if not isinstance(error, Exception) and not is_panic(error):
            raise
        if "<class 'KeyboardInterrupt'>" in str(error):  # Ctrl-C came in Python code that polars called
            raise KeyboardInterrupt from None
        _show_traceback(wants_traceback)
        what, next_step, status = _describe_failure(error, wants_traceback)
        console.say_error(what, next_step)
        return status
    return status if isinstance(status, int) else 0


def _show_traceback(wanted: bool) -> None:
    if wanted:
        console.say(traceback.format_exc().rstrip(), keep="\n")


def _lost_reader(end: SystemExit) -> bool:
    """Tell whether the reader of stdout went away (`| head`): the parser, and what prints its help, then end with 1."""
    return isinstance(end.__context__, BrokenPipeError)


def _describe_usage(error: TyperException, words: list[str]) -> tuple[str, str]:
    """Return what the parser refused of `words`, and where to read what is right."""
    if (ours := _OTHER_NAMES.get(words[0])) is not None:
        return (
            f"no such command {words[0]!r}: here it is called {ours}",
            f"tracecorr {ours} --help shows its arguments",
        )
    text = " ".join(error.format_message().split()).rstrip(".").replace("Value error, ", "")
    # The option parser does not say which verb has an option without its value.
    verb = next((f"tracecorr {word}" for word in words if word in _VERBS), "tracecorr")
    asked = getattr(getattr(error, "ctx", None), "command_path", verb)
    return text[:1].lower() + text[1:], f"{asked} --help shows its arguments"


def _describe_failure(error: BaseException, wants_traceback: bool) -> tuple[str, str, int]:
    """Return what happened, the next step and the exit status of a failure that no verb expected."""
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        full = explain_unwritten(error.filename or "the output", error)
        return full.what, full.next_step, full.exit_code
    if isinstance(error, OSError) and error.errno in (errno.EACCES, errno.EPERM, errno.EROFS) and error.filename:
        return f"no right to use {error.filename}: {error.strerror}", explain_denied(error), 2
    if damage := explain_damage(error):
        return damage.what, damage.next_step, damage.exit_code
    text = f"tracecorr failed: {type(error).__name__}: {_first_line(error)}"
    return text, "" if wants_traceback else "run the same command with --traceback to see where", 1


def _first_line(error: BaseException) -> str:
    return next(iter(str(error).splitlines()), "")
