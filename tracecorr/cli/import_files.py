"""The verb `import`: make a capture folder of files that other tools recorded."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tracecorr.cli.console import (
    ForceOption,
    JobsOption,
    add_suffix,
    count_jobs,
    ended_in_order,
    refuse_idle,
    say,
    say_live,
    say_warnings,
    show,
)
from tracecorr.model.errors import CaptureError, InputError, quote_path
from tracecorr.store.folder_names import SUFFIX
from tracecorr.threads import begin_polars

if TYPE_CHECKING:
    from tracecorr.store import Capture

# Words that stand alone are taken, to say behind which option they belong.
CONTEXT = {"allow_extra_args": True}
_CLOCKS = ("auto", "mono", "mono_raw", "boot", "tai", "local", "global", "perf", "x86-tsc", "uptime", "counter")


_AmdLogOption = Annotated[
    list[Path] | None,
    typer.Option("--amd-log", metavar="FILE...", help="HIP logs (AMD_LOG_LEVEL=5), plain, .gz or .zst."),
]
_FtraceOption = Annotated[
    list[Path] | None,
    typer.Option(
        "--ftrace",
        metavar="FILE|DIR...",
        help="Kernel trace: text (.gz, .zst too), a trace.dat of trace-cmd, or a folder of trace_pipe_raw pages.",
    ),
]
_FtraceClockOption = Annotated[
    str,
    typer.Option(
        metavar="CLOCK",
        help=f"trace_clock of the trace; needed only if the trace does not name it: {', '.join(_CLOCKS)}.",
    ),
]
_ClockSamplesOption = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="clock.json: the clock samples that tracecorr took for this trace."),
]
_HqdOption = Annotated[
    list[Path] | None, typer.Option("--hqd", metavar="FILE...", help="Dumps of kfd/hqds, mqds or rls (debugfs).")
]
_RocprofOption = Annotated[
    list[Path] | None,
    typer.Option(
        "--rocprof",
        metavar="FILE|DIR...",
        help="Output of rocprofv3 (CSV, JSON, rocpd .db, or its whole folder) or rocprof v1 (CSV, JSON).",
    ),
]
_KernelLogOption = Annotated[
    list[Path] | None,
    typer.Option(
        "--kernel-log",
        metavar="FILE...",
        help="Kernel logs: dmesg (any time format, --json), /dev/kmsg, journalctl -k (short, short-monotonic, json, "
        "export).",
    ),
]
_OutputOption = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        metavar="NAME.tracecorr",
        help="Capture folder to write; default: named after the first file, in the current folder.",
    ),
]


def import_verb(
    context: typer.Context,
    amd_log: _AmdLogOption = None,
    ftrace: _FtraceOption = None,
    ftrace_clock: _FtraceClockOption = "auto",
    clock_samples: _ClockSamplesOption = None,
    hqd: _HqdOption = None,
    rocprof: _RocprofOption = None,
    kernel_log: _KernelLogOption = None,
    output: _OutputOption = None,
    force: ForceOption = False,
    jobs: JobsOption = None,
) -> None:
    """Make a capture folder from HIP logs, kernel traces or profiles, and build its tables.

    The files are copied; the originals are not needed afterwards.
    """
    if context.args:
        raise _name_options([Path(word) for word in context.args])
    logs, traces, dumps, profiles, kernel_logs = amd_log or [], ftrace or [], hqd or [], rocprof or [], kernel_log or []
    if not (logs or traces or profiles or kernel_logs):
        raise _name_missing(dumps)
    _check_clock(ftrace_clock, traces)
    begin_polars()
    target = _choose_output(output, (logs or traces or profiles or kernel_logs)[0])

    from tracecorr.pipeline import correlate, import_files

    with ended_in_order():
        capture = import_files(
            target,
            amd_logs=logs,
            ftrace=traces,
            clock=ftrace_clock,
            clock_samples=clock_samples,
            hqd=dumps,
            rocprof=profiles,
            kernel_logs=kernel_logs,
            force=force,
            progress=say,
            live=say_live,
        )
        with _explain_unbuilt(capture):
            warnings = correlate(capture.path, progress=say, live=say_live, jobs=count_jobs(jobs))
        _check_still_the_same(capture)
    say_warnings(warnings)
    say(f"next step: tracecorr report {quote_path(capture.path)}")
    show(capture.path)


def _name_missing(dumps: list[Path]) -> InputError:
    """Return the error of an import without a log, trace or profile."""
    what = "a dump of HQDs has no event times: import it together with a log or trace" if dumps else "nothing to import"
    alone = "; tracecorr hqd FILE shows a dump by itself" if dumps else ""
    step = f"name a HIP log with --amd-log, a kernel trace with --ftrace, or a profile with --rocprof{alone}"
    return InputError(what, step)


def _check_clock(clock: str, traces: list[Path]) -> None:
    """Refuse a clock that no trace has, or that is named without a trace.

    Raises:
        InputError: it is one.
    """
    if clock not in _CLOCKS:
        raise InputError(f"--ftrace-clock {clock} is not a trace clock", f"use one of: {', '.join(_CLOCKS)}")
    refuse_idle("--ftrace-clock", "--ftrace", given=clock != "auto", there=bool(traces))


def _name_options(files: list[Path]) -> InputError:
    """Return the error that says behind which options files that stand alone belong."""
    begin_polars()
    from tracecorr.read.importing import find_option
    from tracecorr.store import raw

    told = ", ".join(str(path) for path in files)
    what = f"{told}: each file needs the option of its kind before it"
    capture = next((path for path in files if (path / "capture.json").is_file()), None)
    if capture is not None:
        return InputError(f"{capture} is already a capture", f"tracecorr report {quote_path(capture)}")
    options = [(find_option(raw, path), path) for path in files]
    if not all(option for option, _ in options):
        return InputError(what, "--amd-log for a HIP log, --ftrace for a kernel trace, --rocprof for a profile")
    words = " ".join(f"{option} {quote_path(path)}" for option, path in options)
    return InputError(what, f"tracecorr import {words}")


@contextmanager
def _explain_unbuilt(capture: Capture) -> Iterator[None]:
    """Say, where building the tables failed or was interrupted, what is there and how to go on.

    Raises:
        CaptureError: files of the capture went away meanwhile.
    """
    try:
        yield
    except FileNotFoundError as error:
        raise _name_replaced(capture) from error
    except BaseException:
        if not capture.has_tables():
            path = capture.path
            say(f"{path} contains the files, but no tables yet: tracecorr correlate {quote_path(path)} builds them")
        raise


def _check_still_the_same(capture: Capture) -> None:
    """Make sure that no other import replaced the files while the tables of ours were built.

    Raises:
        CaptureError: one did, so that the tables may be those of other files.
    """
    from tracecorr.store import Capture as Opened

    if Opened.open(capture.path).info.get("files") != capture.info.get("files"):
        raise _name_replaced(capture)


def _name_replaced(capture: Capture) -> CaptureError:
    path = capture.path
    return CaptureError(
        f"{path} was replaced or removed while its tables were built",
        f"if another import is writing there, wait until it ends; then: tracecorr correlate {quote_path(path)}",
    )


def _choose_output(output: Path | None, first: Path) -> Path:
    if output is None:
        from tracecorr.read.importing import plain_name

        name = plain_name(first.resolve())
        return Path(f"{name.rsplit('.', 1)[0] or name}{SUFFIX}")
    return add_suffix(output)
