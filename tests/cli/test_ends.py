"""How the command line ends when it is interrupted, or nobody reads on."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import tomllib
import urllib.request
from http.cookiejar import CookieJar
from pathlib import Path

import pytest

from tracecorr.app.ids import META

# Sends Ctrl-C to itself while the module of the last verb is loaded.
_INTERRUPTED_START = """
import os, signal, sys
from importlib.abc import MetaPathFinder

class Interrupt(MetaPathFinder):
    def find_spec(self, name, *_):
        if name == "tracecorr.cli.serve":
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupt())
from tracecorr.__main__ import main
sys.exit(main())
"""


def test_ctrl_c_while_modules_are_loaded_shows_no_traceback(repo: Path) -> None:
    done = subprocess.run([sys.executable, "-c", _INTERRUPTED_START], capture_output=True, cwd=repo, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, b"", b"")
    project = tomllib.loads((repo / "pyproject.toml").read_text())["project"]
    assert project["scripts"] == {"tracecorr": "tracecorr.__main__:main"}


@pytest.mark.parametrize("words", [["--help"], ["capture", "--help"], ["query", "--schema"], ["query", "--examples"]])
def test_a_reader_that_went_away_ends_it_as_the_signal_would(repo: Path, words: list[str]) -> None:
    out, end = os.pipe()
    os.close(out)
    command = [sys.executable, "-m", "tracecorr", *words]
    done = subprocess.run(command, stdout=end, stderr=subprocess.PIPE, cwd=repo, check=False)
    os.close(end)
    assert (done.returncode, done.stderr) == (128 + signal.SIGPIPE, b"")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_server_takes_away_its_copy_of_a_running_recording(
    repo: Path, tmp_path: Path, number: signal.Signals
) -> None:
    sample = repo / "samples" / "t1-streams.tracecorr"
    path, scratch = tmp_path / "running.tracecorr", tmp_path / "scratch"
    (path / "raw" / "amd_log").mkdir(parents=True)
    scratch.mkdir()
    log = next((sample / "raw" / "amd_log").iterdir())
    (path / "raw" / "amd_log" / "0-amd.log").write_bytes(log.read_bytes()[:200_000])
    started = int(Path(f"/proc/{os.getpid()}/stat").read_text().rpartition(")")[2].split()[19])
    info = json.loads((sample / "capture.json").read_text())
    info |= {"state": "recording", "recorder": {"pid": os.getpid(), "started": started}, "files": []}
    (path / "capture.json").write_text(json.dumps(info))
    command = [sys.executable, "-m", "tracecorr", "serve", str(path), "--port", "0", "--no-browser"]
    with subprocess.Popen(
        command, cwd=repo, env={**os.environ, "TMPDIR": str(scratch)}, stdout=subprocess.PIPE, text=True,
        stderr=subprocess.DEVNULL,
    ) as server:  # fmt: skip
        assert server.stdout is not None
        url = server.stdout.readline().strip()
        reader = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(CookieJar()))
        reader.open(url).close()
        reader.open(f"{url.partition('/?')[0]}{META}?capture=running").close()
        until = time.monotonic() + 300  # only what hangs takes that long
        while not list(scratch.glob("tracecorr-live-*/*/running.tracecorr/tables")):
            assert time.monotonic() < until
            time.sleep(0.05)
        server.send_signal(number)
    assert (server.returncode, list(scratch.iterdir())) == (0 if number == signal.SIGINT else 128 + number, [])


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_an_interrupted_correlate_leaves_no_unfinished_tables(
    repo: Path, tmp_path: Path, number: signal.Signals
) -> None:
    """As `timeout` and service managers end it: the signal comes to the process, then to its group."""
    path = tmp_path / "x.tracecorr"
    shutil.copytree(repo / "samples" / "t1-streams.tracecorr", path)
    command = [sys.executable, "-m", "tracecorr", "correlate", str(path)]
    with subprocess.Popen(command, cwd=repo, stderr=subprocess.PIPE, process_group=0, text=True) as verb:
        until = time.monotonic() + 300  # only what hangs takes that long
        while not list(path.glob(".tables.*")):
            assert time.monotonic() < until and verb.poll() is None
            time.sleep(0.01)
        verb.send_signal(number)
        os.killpg(verb.pid, number)
        assert verb.stderr is not None
        told = verb.stderr.read()
    assert verb.returncode in (-number, 128 + number)
    # What polars prints of an exception in what it calls stands in one line.
    assert not any(line.startswith("Traceback") for line in told.splitlines()), told
    assert not list(path.glob(".tables.*"))


# Sends the signal while the Rust code of polars waits for Python code that it called.
_INTERRUPTED_POLARS = """
import os, sys
import polars

NUMBER = int(sys.argv.pop())

def interrupt(*_):
    polars.Int64.__init__ = object.__init__
    os.kill(os.getpid(), NUMBER)

def fail(*_, **__):
    polars.Int64.__init__ = interrupt
    polars.DataFrame({"a": [1]}).schema

import tracecorr.pipeline
tracecorr.pipeline.correlate = fail
from tracecorr.__main__ import main
sys.exit(main())
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_inside_polars_ends_it_as_elsewhere(repo: Path, tmp_path: Path, number: signal.Signals) -> None:
    shutil.copytree(repo / "samples" / "t1-streams.tracecorr", tmp_path / "x.tracecorr")
    command = [sys.executable, "-c", _INTERRUPTED_POLARS, "correlate", str(tmp_path / "x.tracecorr"), str(number.value)]
    done = subprocess.run(command, cwd=repo, capture_output=True, text=True, check=False)
    assert "PanicException" not in done.stderr, done.stderr
    assert done.returncode == (-number if number == signal.SIGINT else 128 + number), done.stderr
