"""A capture records the writes to its HIP logs, of them alone, and never what is written; it joins each record."""

from __future__ import annotations

import sys
from pathlib import Path

import polars as pl
import pytest
from own_captures import Capture, unchanged

from tracecorr.capture.plan.plan import LOG_WRITES, EventPlan
from tracecorr.capture.tracefs.arm import Armed
from tracecorr.capture.tracefs.control import Tracefs
from tracecorr.capture.tracefs.journal import Journal

pytestmark = pytest.mark.usefixtures("capturing")

# SYNTHETIC: prints as the runtime does, one write per record.
_PROGRAM = """
import os, sys, threading, time
log = open(f"{os.environ['AMD_LOG_LEVEL_FILE']}_{os.getpid()}", "wb", buffering=0)
other = open("other", "wb", buffering=0)
def show(text):
    us = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
    line = f":3:hip_memory.cpp           :600 : {us:011d} us: [pid:{os.getpid()} tid: 0x{threading.get_ident():x}]  "
    log.write((line + text + "\\n").encode())
time.sleep(1.5)
for n in range(50):
    show("\\x1b[32m hipMalloc ( 0x7ffd6e80a0c0, " + str(64 << n % 9) + " ) \\x1b[0m")
    other.write(b"SECRETMARK" * 3)
    show("hipMalloc: Returned hipSuccess : 0x7f5ed1e00000: duration: 4 us")
assert os.environ["AMD_LOG_ASYNC"] == "0"
"""


def test_each_record_has_its_write_and_no_contents_are_recorded(tmp_path: Path, tracefs: Tracefs) -> None:
    with unchanged(tracefs):
        capture = Capture(tmp_path, "--", sys.executable, "-c", _PROGRAM)
        status, _, err = capture.end()
    assert status == 0, err
    for raw in (capture.shown / "raw" / "ftrace").rglob("*.bin"):
        assert b"SECRETMARK" not in raw.read_bytes()
        assert b"hipMalloc (" not in raw.read_bytes()
    tables = capture.shown / "tables"
    events, links = (pl.read_parquet(tables / f"{name}.parquet") for name in ("events", "links"))
    writes = events.filter(pl.col("name").cast(pl.String) == "write")
    joined = links.filter(pl.col("rule").cast(pl.String) == "write_of_record")
    assert (writes.height, joined.height) == (100, 50)
    assert joined["evidence"].cast(pl.String).unique().to_list() == ["recorded"]
    assert writes["fd"].n_unique() == 1


@pytest.mark.parametrize("has_file", [True, False])
def test_where_events_would_hold_what_is_written_it_is_left_out(tmp_path: Path, has_file: bool) -> None:
    """A made-up folder stands for Linux 6.19: with the file the size is set to 0, without it nothing is recorded."""
    instance = tmp_path / "instances" / "tracecorr_t_workload"
    event = instance / "events" / LOG_WRITES
    event.mkdir(parents=True)
    (event / "format").write_text("\tfield:__data_loc u8[] __buf_val;\toffset:40;\tsize:4;\tsigned:0;\n")
    for path in (event / "enable", event / "filter", *([instance / "syscall_user_buf_size"] if has_file else [])):
        path.write_text("63\n")
    armed = Armed(Tracefs(tmp_path), Journal(tmp_path / "journal"), "t")
    assert armed._enable_event(Tracefs(instance), EventPlan(*LOG_WRITES.split("/"), "fd == 3")) is has_file
    assert (event / "enable").read_text() == ("1\n" if has_file else "63\n")
    if has_file:
        assert (instance / "syscall_user_buf_size").read_text() == "0\n"
    else:
        assert "it would contain what is written" in armed.absent[0].why
