"""What others put before each line of a log changes none of its rows but where they stand: recorded logs."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from amdlog_cases import Read, read

_PLACES = ("offset", "length", "end_offset", "end_length", "parent_offset", "command_offset")


@pytest.mark.parametrize(
    "prefix",
    [
        "2026-11-26T10:00:{s:02}.{n:09}Z ", "2026-11-26T10:00:{s:02}.{n:09}Z stderr F ",
        "Nov 26 10:00:{s:02} node7 python[{n}]: ", "vllm-1  | ", "[rank0]: ", "0: ", "\x1b[36m(Worker pid={n})\x1b[0m ",
    ],
    ids=["docker logs -t", "containerd", "journald", "docker compose", "torchrun", "srun -l", "ray"],
)  # fmt: skip
@pytest.mark.parametrize("capture", ["caseB-4streams", "hip-5.7.1"])
def test_a_prefix_of_each_line_changes_no_row(data_folder: Path, capture: str, prefix: str) -> None:
    lines = (data_folder / "captures" / capture / "amd.log").read_bytes().splitlines(keepends=True)
    there = [prefix.format(s=number % 60, n=number).encode() + line for number, line in enumerate(lines)]
    plain, prefixed = read(b"".join(lines)), read(b"".join(there))
    assert len(plain.events) > 200
    for name in ("events", "packets", "args"):
        assert _without_places(prefixed, name).equals(_without_places(plain, name)), name
    assert prefixed.ledger["bytes"].sum() == sum(map(len, there))


def _without_places(found: Read, name: str) -> pl.DataFrame:
    rows: pl.DataFrame = getattr(found, name)
    return rows.drop(_PLACES, strict=False)
