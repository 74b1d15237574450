"""What is printed while a capture runs, and what it is called."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from tracecorr.capture.options import choose_folder, log_environment, program_name
from tracecorr.capture.run import describe_alignment
from tracecorr.capture.status import Progress, render_progress


def test_the_line_names_losses_only_when_there_are_some() -> None:
    assert render_progress(Progress(61.5, 1234, 0, 2_500_000)) == (
        "tracecorr: recording 1:01, 1,234 events, log 2.5 MB"
    )
    assert "7 LOST" in render_progress(Progress(1, 2, 7, 0))


@pytest.mark.parametrize(
    ("command", "name"),
    [
        (("./gemm",), "gemm"),
        (("python", "gemm.py", "64"), "gemm"),
        (("/usr/bin/python3.11", "-u", "train.py"), "train"),
        (("bash", "run.sh"), "run"),
        (("python3", "-m", "vllm"), "python3"),
        (("env", "x.py"), "env"),
        (("./caf\udce9 a\nb",), "caf_ a_b"),
    ],
)
def test_a_capture_is_called_after_the_program(command: tuple[str, ...], name: str) -> None:
    assert program_name(command) == name
    assert choose_folder(None, command, Path("/here")).name.startswith(f"{name}-2")


def test_the_suffix_is_added_once() -> None:
    long = choose_folder(None, ("\N{GREEK SMALL LETTER ALPHA}" * 120,), Path("/here")).name
    assert len(long.encode()) <= 255 and long.endswith(".tracecorr") and long.startswith("\N{GREEK SMALL LETTER ALPHA}")
    assert choose_folder(Path("x"), ("a",), Path("/here")) == Path("/here/x.tracecorr")
    assert choose_folder(Path("x.tracecorr"), ("a",), Path("/here")) == Path("/here/x.tracecorr")


def test_the_log_is_asked_for_in_decimal() -> None:
    variables = log_environment(5, Path("/x/hip"))
    assert variables["AMD_LOG_LEVEL"] == "5"
    assert variables["AMD_LOG_MASK"].isdecimal()
    assert log_environment(0, Path("/x/hip")) == {}


def test_a_start_that_is_not_known_is_not_said_to_be() -> None:
    """SYNTHETIC rows of four sources: exact, within bounds, of some unknown, of all unknown."""
    rows = [("a", 0), ("a", 0), ("b", 500), ("b", 0), ("c", 500), ("c", None), ("d", None)]
    events = pl.LazyFrame(
        {
            "source": [source for source, _ in rows],
            "err_lo_ns": pl.Series([error for _, error in rows], dtype=pl.UInt32),
            "err_hi_ns": pl.Series([error for _, error in rows], dtype=pl.UInt32),
        }
    )
    assert list(describe_alignment(events)) == [
        "a: 2 rows, start known to the nanosecond",
        "b: 2 rows, start known to 1.00 us or better",
        "c: 2 rows, start known to 1.00 us or better (that of 1 is unknown)",
        "d: 1 rows, start unknown",
    ]
