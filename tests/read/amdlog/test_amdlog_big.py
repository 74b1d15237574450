"""The synthetic log of `scripts/make_big_log` in small: the reader finds what the truth says."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from amdlog_cases import Read, read
from benchmarks.big_log import Truth, write_big_log


@pytest.fixture(scope="module")
def big(tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, Truth]:
    path = tmp_path_factory.mktemp("big") / "big.log"
    truth = write_big_log(path, size_bytes=3_000_000, torn_every=100_000)
    return path.read_bytes(), truth


def _names(log: Read) -> dict[str, int]:
    return dict(log.events["name"].value_counts().iter_rows())


def test_counts_are_those_of_the_truth(big: tuple[bytes, Truth]) -> None:
    data, truth = big
    log = read(data, 300_000)
    assert _names(log) == {**truth.rows, **truth.calls}
    assert log.counts()["used"][0] == truth.records
    kernels = log.events.filter(name="dispatch")["kernel"].value_counts()
    assert dict(kernels.iter_rows()) == truth.kernels
    per_ring = log.events.filter(name="dispatch").with_columns(pl.format("0x{}", "ring")).group_by("ring").len()
    assert sorted(per_ring["len"]) == sorted(truth.dispatches.values())
    assert log.ledger["bytes"].sum() == len(data)


def test_all_calls_are_paired(big: tuple[bytes, Truth]) -> None:
    log = read(big[0])
    half = log.events.filter((pl.col("flags") & 3) > 0)
    assert set(half["name"]) == {"hipGetLastError"}  # it never prints an exit
    dispatches = log.events.filter(name="dispatch")
    assert dispatches.select(pl.all_horizontal(pl.col("command", "parent_offset", "kernel").is_not_null()).all()).item()
    for _, ring in log.events.drop_nulls("packet_index").sort("offset").group_by("ring"):
        assert ring["packet_index"].to_list() == list(range(len(ring)))


def test_torn_records_are_found(tmp_path: Path) -> None:
    truth = write_big_log(tmp_path / "torn.log", size_bytes=3_000_000, torn_every=997)
    data = (tmp_path / "torn.log").read_bytes()
    log = read(data)
    glued = [int(t["offset"]) for t in truth.torn if t["kind"] == "glued"]
    starts = set(log.events["offset"]) | set(log.events["end_offset"].drop_nulls())
    folded = (b"Arg", b"ShaderName", b"KernargSegment")
    seen = [at for at in glued if not data[data.index(b"] ", at) + 2 :].startswith(folded)]
    assert len(seen) > 3
    assert set(seen) <= starts
    assert log.counts()["used"][0] == truth.records
    assert log.ledger["bytes"].sum() == len(data)
