"""SYNTHETIC logs that a running process writes already: only those, and only what is its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tracecorr.capture.hiplog.elsewhere import OwnLogs

_ENOUGH = 1 << 20
# Opens files with flags, says so, and waits.
_HOLDER = """
import os, sys
for path, flags in zip(sys.argv[1::2], sys.argv[2::2]):
    os.open(path, int(flags))
print("go", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    for name in ("hip_1", "hip", "hip_2", "hop_1", "other/hip_1"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(f"{name}\n")
    (tmp_path / "to").mkdir()
    return tmp_path


@pytest.fixture
def holders() -> Iterator[list[subprocess.Popen[bytes]]]:
    started: list[subprocess.Popen[bytes]] = []
    yield started
    for holder in started:
        holder.communicate()


def hold(holders: list[subprocess.Popen[bytes]], named: Path, *files: tuple[Path, int]) -> int:
    words = [str(word) for pair in files for word in pair]
    holder = subprocess.Popen(
        [sys.executable, "-c", _HOLDER, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        env={**os.environ, "AMD_LOG_LEVEL_FILE": str(named)},
    )  # fmt: skip
    holders.append(holder)
    assert holder.stdout is not None and holder.stdout.readline() == b"go\n"
    return holder.pid


def copied(place: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in (place / "to").iterdir()}


def test_what_it_writes_under_the_name_of_its_log_is_copied(
    place: Path, holders: list[subprocess.Popen[bytes]]
) -> None:
    names = ("hip_1", "hip", "hop_1", "other/hip_1")
    logs = OwnLogs(hold(holders, place / "hip", *((place / name, os.O_WRONLY | os.O_APPEND) for name in names)))
    assert logs.copy_to(place / "to", _ENOUGH) == []
    logs.close()
    assert copied(place) == {"hip_1": "hip_1\n", "hip": "hip\n", "hip_1_2": "other/hip_1\n"}


@pytest.mark.parametrize("flags", [os.O_RDONLY, os.O_PATH])
def test_what_it_only_reads_or_names_is_not(place: Path, holders: list[subprocess.Popen[bytes]], flags: int) -> None:
    """Any user may name a file that he cannot read."""
    logs = OwnLogs(hold(holders, place / "hip", (place / "hip_1", flags)))
    assert logs.copy_to(place / "to", _ENOUGH) == []
    logs.close()
    assert copied(place) == {}


@pytest.mark.skipif(os.geteuid() != 0, reason="another user's file needs root")
def test_a_file_of_another_user_is_not(place: Path, holders: list[subprocess.Popen[bytes]]) -> None:
    os.chown(place / "hip_1", 65534, 65534)
    logs = OwnLogs(hold(holders, place / "hip", (place / "hip_1", os.O_WRONLY)))
    assert logs.copy_to(place / "to", _ENOUGH) == []
    logs.close()
    assert copied(place) == {}


def test_one_that_is_too_large_is_named(place: Path, holders: list[subprocess.Popen[bytes]]) -> None:
    files = [(place / name, os.O_WRONLY) for name in ("hip_1", "hip_2")]
    logs = OwnLogs(hold(holders, place / "hip", *files))
    assert logs.copy_to(place / "to", 9) == ["the log hip_2 of the process is not copied: it has 6 bytes"]
    logs.close()
    assert copied(place) == {"hip_1": "hip_1\n"}


def test_a_process_that_is_gone_has_none(place: Path) -> None:
    logs = OwnLogs(1 << 30)
    assert logs.copy_to(place / "to", _ENOUGH) == []
