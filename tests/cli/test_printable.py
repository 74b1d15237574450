"""Names that would drive a terminal: escaped in everything that is text, exact in data."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest
from cli_inputs import Result, write_log

from tracecorr import cli
from tracecorr.cli import console
from tracecorr.progress import LiveLine

EVIL = "k\x07\x9b2J\u202emen"
_CONTROLS = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


@pytest.fixture
def hostile(run: Callable[..., Result], tmp_path: Path) -> Result:
    """Import a log with a kernel and a name that would drive the terminal."""
    log = write_log(tmp_path / "new\nline\x1b[31m.log")
    log.write_text(log.read_text().replace("vadd(", f"{EVIL}("))
    return run("import", "--amd-log", log, "-o", "evil")


def test_no_control_character_reaches_a_text(run: Callable[..., Result], hostile: Result) -> None:
    assert hostile.status == 0 and "new\\nline\\x1b[31m.log" in hostile.err
    shown = [
        hostile,
        run("report", "--full"),
        run("info"),
        run("compare", "evil", "evil"),
        run("export", "--to", "csv"),
    ]
    shown += [run("query", "SELECT name FROM kernels"), run("query", "SELECT path FROM files")]
    words = ["report", f"no\x1b[2J{EVIL}"], ["query", f"SELECT {EVIL}"], [EVIL], ["--traceback", "info", EVIL]
    shown += [run(*wrong) for wrong in words]
    for result in shown:
        assert _CONTROLS.findall(result.out + result.err) == []
    assert all("k\\x07\\x9b2J\\u202emen" in result.out for result in (shown[1], shown[5]))


def test_data_stay_exact(run: Callable[..., Result], hostile: Result) -> None:
    assert hostile.status == 0
    sql = "SELECT name FROM kernels"
    name = json.loads(run("query", sql, "--format", "json").out)[0]["name"]
    assert name.startswith(EVIL)
    assert pl.read_csv(io.StringIO(run("query", sql, "--format", "csv").out))["name"].to_list() == [name]
    run("export", "--to", "parquet", "--table", "kernels", "-o", "tables")
    assert pl.read_parquet("tables/kernels.parquet")["name"].to_list() == [name]


def test_messages_and_progress_are_escaped(capsys: pytest.CaptureFixture[str]) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    console.say_error("no\x1b[2J", "rm\r\n\u202e")
    console.show("a\tb\x85")
    terminal = Terminal()
    LiveLine(terminal).show(f"reading {EVIL}")
    assert capsys.readouterr() == ("a\\tb\\x85\n", "error: no\\x1b[2J\nnext step: rm\\r\\n\\u202e\n")
    assert "\x07" not in terminal.getvalue() and "\u202e" not in terminal.getvalue()


@pytest.mark.parametrize(
    ("failure", "status", "said"),
    [
        (pl.exceptions.PanicException("index out of bounds"), 2, "a table of the capture is damaged"),
        (RecursionError("maximum recursion depth exceeded"), 2, "nested too deeply"),
        (KeyError("surprise"), 1, "tracecorr failed: KeyError"),
    ],
)
def test_failures_end_with_a_next_step(
    run: Callable[..., Result], monkeypatch: pytest.MonkeyPatch, failure: BaseException, status: int, said: str
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise failure

    monkeypatch.setattr(cli.console, "open_closed_streams", lambda: None)
    monkeypatch.setattr("tracecorr.cli.info.open_capture", fail)
    result = run("info")
    assert result.status == status and said in result.err and "next step: " in result.err


def test_a_panic_out_of_ctrl_c_stays_one(run: Callable[..., Result], monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise pl.exceptions.PanicException("Python function failed <class 'KeyboardInterrupt'>")

    monkeypatch.setattr("tracecorr.cli.info.open_capture", fail)
    with pytest.raises(KeyboardInterrupt):
        run("info")


@pytest.mark.usefixtures("hostile")
def test_wrong_types_in_capture_json_are_damage(run: Callable[..., Result]) -> None:
    info = json.loads(Path("evil.tracecorr/capture.json").read_text())
    for key, wrong in (("files", 3), ("warnings", {"a": 1}), ("nodes", "x"), ("events", "x"), ("lost_events", [1])):
        Path("evil.tracecorr/capture.json").write_text(json.dumps({**info, key: wrong}))
        for verb in ("info", "report"):
            result = run(verb, "evil")
            assert result.status == 2 and "capture.json is damaged" in result.err, (key, verb, result.err)
