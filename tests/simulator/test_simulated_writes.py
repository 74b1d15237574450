"""SYNTHETIC runs whose trace shows the writes of the log: each record is joined to its own, or to none."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest
from benchmarks.truth import score_scene
from simulated_scenes import BASE, LOCAL

from tracecorr.store import Capture

_RULE = "write_of_record"
# Nothing but the writes tells threads and clock.
_WRITTEN = replace(BASE, span_s=0.1, doorbell="none", thread_events=(), clock=LOCAL)
_WHOLE = {
    "threads of one process": {"writes": "file", "threads": 3},
    "stderr": {"writes": "stderr", "threads": 2},
    "two processes on one stderr": {"writes": "stderr", "processes": 2, "one_log": True, "container": False},
    "two processes of a C library that writes a record at once": {
        "writes": "file", "processes": 2, "one_log": True, "container": False,
    },
    "records of 4,095 bytes": {"writes": "stderr", "threads": 2, "long_names": True},
    "short writes, restarts and a full disk": {"writes": "odd", "threads": 2},
    "pages": {"writes": "file", "pages": True, "migrate": True},
}  # fmt: skip
_DAMAGED = {
    "an overrun": {"trace_damage": "overrun"},
    "no begin": {"log_damage": "head lost"},
    "no end": {"log_damage": "tail lost"},
    "a hole": {"log_damage": "a hole"},
}


@pytest.mark.parametrize("name", _WHOLE)
def test_each_record_has_its_write_its_thread_and_its_time(name: str, tmp_path: Path) -> None:
    score = score_scene(name, replace(_WRITTEN, **_WHOLE[name]), tmp_path)  # type: ignore[arg-type]
    found, right, _, wrong = score.links[_RULE]
    events = Capture.open(tmp_path / "run.tracecorr").table("events").collect()
    lines = events.filter((pl.col("source").cast(pl.String) == "amd_log") & (pl.col("layer").cast(pl.String) != "gpu"))
    assert (found, wrong) == (lines.height, 0)
    # Of two processes that write at once nothing may tell whose bytes come first: that is said, too.
    assert right == found if "one_log" not in _WHOLE[name] else right > 0.9 * found
    # Bytes of a record that another writer cut, and whose writer nothing tells, are nobody's.
    nobodys = lines.filter(pl.col("thread").is_null())["name"].cast(pl.String).unique().to_list()
    assert nobodys == (["(torn)"] if "one_log" in _WHOLE[name] and _WHOLE[name]["writes"] == "stderr" else [])
    assert score.identities["threads"][0] == score.identities["threads"][1] > 0
    covered, bounded = score.covered
    assert covered == bounded
    assert score.width_ns[0] <= 10_000


@pytest.mark.parametrize("container", [False, True])
def test_no_join_of_four_processes_at_once_is_called_recorded(container: bool, tmp_path: Path) -> None:
    """In containers all of them have one number."""
    scene = replace(_WRITTEN, writes="stderr", processes=4, one_log=True, container=container)
    found, right, _, wrong = score_scene("four", scene, tmp_path).links[_RULE]
    assert wrong == 0
    assert right > 0.9 * found


@pytest.mark.parametrize("name", _DAMAGED)
def test_over_damage_no_record_has_another_write(name: str, tmp_path: Path) -> None:
    score = score_scene(name, replace(_WRITTEN, writes="file", **_DAMAGED[name]), tmp_path)  # type: ignore[arg-type]
    found, right, true, _ = score.links[_RULE]
    assert found == right > 0.4 * true
