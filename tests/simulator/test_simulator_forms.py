"""The simulator's lines have the forms of recorded ones."""

from __future__ import annotations

import re
from pathlib import Path

from simulator import Scene, simulate

RECORDED = ("mt-threads", "streams-priority", "kfd-6.12-t1", "gemm-rocblas-300")
_NUMBER = re.compile(r"\(nil\)|0x[0-9a-f]+|\d+")


def form(line: str) -> str:
    """Return a line with `#` for every number, without colours and the width of columns."""
    plain = re.sub(r"\x1b\[\d*m", "", line)
    plain = re.sub(r"ShaderName : .*", "ShaderName : X", plain)
    return re.sub(r" +", " ", _NUMBER.sub("#", plain))


def trace_forms(path: Path) -> set[str]:
    """Return the forms of what follows the stamps of a trace."""
    lines = path.read_text().splitlines()
    return {form(line.split(": ", 1)[1]) for line in lines if ": " in line and not line.startswith("#")}


def test_forms_equal_recorded_ones(data_folder: Path, tmp_path: Path) -> None:
    real: set[str] = set()
    for name in RECORDED:
        folder = data_folder / "captures" / name
        real |= {form(line) for line in (folder / "amd.log").read_text(errors="replace").splitlines()}
        real |= trace_forms(folder / "ftrace.txt")
    made = simulate(Scene(span_s=0.2, threads=2, queue_probe=True, samples_s=0.05), tmp_path)
    assert {form(line) for line in made.logs[0].read_text().splitlines()} - real == set()
    assert trace_forms(made.trace) - real == set()


def test_a_scene_gives_the_same_bytes_each_time(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        simulate(Scene(span_s=0.1, threads=3, seed=7), tmp_path / name)
    for file in ("amd-0.log", "ftrace.txt"):
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "two" / file).read_bytes()


def test_synthetic_files_say_so(tmp_path: Path) -> None:
    made = simulate(Scene(span_s=0.05, samples_s=0.05), tmp_path)
    assert "SYNTHETIC" in made.trace.read_text()[:300]
    assert made.samples is not None
    assert '"synthetic": true' in made.samples.read_text()
