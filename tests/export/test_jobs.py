"""Jobs of the kernel's GPU scheduler are spans of their rings; what is not known of them is not drawn."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from perfetto_check import ask

from tracecorr.analyze.values import Tables
from tracecorr.cli import main
from tracecorr.export.perfetto import write_perfetto
from tracecorr.export.selection import Selection
from tracecorr.export.trace import build_trace
from tracecorr.model import schema
from tracecorr.pipeline import correlate, import_files
from tracecorr.store import Capture
from tracecorr.timeline import lanes
from tracecorr.timeline.drawn import drm_jobs

_SPANS = (
    "select s.name, s.ts, s.dur, t.name as ring, p.name as device, s.depth from slice s join track t on s.track_id = "
    "t.id join track p on t.parent_id = p.id where p.name like 'GPU scheduler%' order by s.ts"
)
_ERRORS = "select name, value from stats where severity in ('error', 'data_loss') and value > 0"


@pytest.fixture(scope="module")
def recorded(repo: Path, tmp_path_factory: pytest.TempPathFactory) -> Capture:
    """Return a RECORDED run of the kernel's scheduler with a mock of a device, Linux 7.3."""
    trace = repo / "tests" / "link" / "mocksched-7.3" / "trace.txt"
    made = import_files(tmp_path_factory.mktemp("jobs") / "x.tracecorr", [], [trace])
    correlate(made.path)
    return made


def _drawn(capture: Capture) -> list[tuple[Any, ...]]:
    """Return label, start and duration of the jobs that run on the page's lanes, in order of their start."""
    running = drm_jobs(capture.table).filter(pl.col("layer") == lanes.DRM_RUN).sort("start")
    return running.select(pl.col("label").cast(pl.String), "start", pl.col("end") - pl.col("start")).rows()


def test_perfetto_has_the_jobs_that_the_page_draws(recorded: Capture, tmp_path: Path) -> None:
    path = tmp_path / "x.pftrace"
    with path.open("wb") as stream:
        write_perfetto(recorded.table, stream, Selection())
    spans, errors, count, arrows = ask(
        path, tmp_path, _SPANS, _ERRORS, "select count(*) as n from slice",
        "select a.name as cause, b.name as effect, count(*) as n from flow f join slice a on f.slice_out = a.id "
        "join slice b on f.slice_in = b.id where b.name like 'sdma0 job%' or a.name like 'sdma0 job%' group by 1, 2",
    )  # fmt: skip
    jobs = recorded.table("drm_jobs").collect()
    events = recorded.table("events").select(pl.len()).collect().item()
    assert jobs.height == len(spans) == 18 and errors == [] and count == [(events + 18,)]
    assert [(name.partition(" ")[2], ts, dur) for name, ts, dur, *_ in spans] == _drawn(recorded)
    assert {ring.partition(" ")[0] for *_, ring, _, _ in spans} == {"gfx_0.0.0", "comp_1.0.0", "sdma0"}
    assert all(name.startswith(ring.partition(" ")[0]) for name, _, _, ring, _, _ in spans)
    assert {(device, depth) for *_, device, depth in spans} == {("GPU scheduler mocksched", 0)}
    # From its submission to its span, and from there to its end.
    assert len(arrows) == 12 and all(n == 1 for *_, n in arrows)
    assert {row[0] for row in arrows if " job " not in row[0]} == {"drm_sched_job_queue"}
    assert {row[1] for row in arrows if " job " not in row[1]} == {"drm_sched_job_done"}


def test_a_span_tells_what_is_known_of_its_job(recorded: Capture, tmp_path: Path) -> None:
    assert main(["export", str(recorded.path), "--to", "perfetto", "-o", str(tmp_path / "p")]) == 0
    assert main(["export", str(recorded.path), "--to", "chrome", "-o", str(tmp_path / "c")]) == 0
    name = "gfx_0.0.0 job 3:1"
    (rows,) = ask(
        tmp_path / "p", tmp_path, "select substr(key, 7) as key, coalesce(int_value, string_value) as value from "
        f"slice join args using (arg_set_id) where name = '{name}'",
    )  # fmt: skip
    job = recorded.table("drm_jobs").filter(pl.col("fence") == "3:1").collect().row(0, named=True)
    told = {
        "dev": "mocksched", "ring": "gfx_0.0.0", "fence": "3:1", "client_id": 4660, "submitter_pid": 129,
        "submitter_tid": 129, "queued_ns": job["queued_ns"], "waited_ns": job["run_ns"] - job["queued_ns"],
        "source": "ftrace", "evidence": "recorded",
        **{key: job[key] for key in ("job", "queue_event", "run_event", "done_event")},
    }  # fmt: skip
    assert {key: value for key, value in rows if key != "error_ns"} == told
    events = json.loads((tmp_path / "c").read_text())["traceEvents"]
    (span,) = (e for e in events if e["name"] == name)
    span["args"].pop("error_ns", None)
    assert span["args"] == told and span["ph"] == "X" and span["cat"] == "drm_sched"
    assert (round(span["ts"] * 1000), round(span["dur"] * 1000)) == (job["run_ns"], job["done_ns"] - job["run_ns"])


def _tables(*jobs: dict[str, Any]) -> Tables:
    """Return SYNTHETIC tables: each time of a job has its event; even jobs are of process 0, odd ones of 1."""
    events: list[dict[str, Any]] = []
    rows = []
    for number, job in enumerate(jobs):
        row = {"job": number, "ring": "gfx", "fence": f"5:{number}", "process": number % 2, **job}
        for step in ("queue", "run", "done"):
            time = job.get("queued_ns" if step == "queue" else f"{step}_ns")
            if time is not None:
                row[f"{step}_event"] = len(events)
                told = {"name": f"drm_{step}", "process": number % 2 if step == "queue" else None}
                events.append({"event": len(events), "ts_ns": time, "layer": "drm_sched", **told})
        rows.append(row)
    links = [
        {"from_event": row[a], "to_event": row[b], "rule": "drm_job"}
        for row in rows for a, b in (("queue_event", "run_event"), ("run_event", "done_event")) if {a, b} <= row.keys()
    ]  # fmt: skip
    processes = [{"process": n, "pid": 10 + n, "comm": "prog"} for n in range(2)]
    found = {"drm_jobs": rows, "events": events, "links": links, "processes": processes}
    return lambda name: _frame(name, found.get(name, []))


def _frame(name: str, rows: Sequence[dict[str, Any]]) -> pl.LazyFrame:
    known = schema.TABLES[name].schema
    frame = pl.DataFrame(rows, schema={key: known[key] for row in rows for key in row if key in known} or known)
    extra = [pl.Series("node", [row["node"] for row in rows])] if rows and "node" in rows[0] else []
    return schema.TABLES[name].conform(frame).with_columns(extra).lazy()


def _spans(tables: Tables, selection: Selection | None = None) -> list[tuple[str, str, int, int]]:
    trace = build_trace(tables, selection or Selection())
    names = {track.uuid: track.name for track in trace.tracks}
    spans = trace.slices.filter(pl.col("event") < 0).select("name", "track", "ts_ns", "dur_ns")
    return [(name, names[track], start, took) for name, track, start, took in spans.iter_rows()]


def test_jobs_that_run_at_once_are_parts_of_each_other_on_no_track() -> None:
    spans = [(0, 100), (10, 50), (20, 120), (50, 60), (100, 130)]
    tables = _tables(*({"run_ns": start, "done_ns": end} for start, end in spans))
    tracks = [track for _, track, *_ in _spans(tables)]
    assert tracks == ["gfx", "gfx (2)", "gfx (3)", "gfx (2)", "gfx"]


@pytest.mark.parametrize(
    ("selection", "jobs"),
    [
        (Selection(layers=("drm_sched",)), [0, 1, 2]), (Selection(layers=("hip",)), []),
        (Selection(processes=(1,)), [1]), (Selection(start_ns=10, end_ns=20), [1]),
    ],
)  # fmt: skip
def test_a_job_is_selected_by_its_run_and_its_submitter(selection: Selection, jobs: list[int]) -> None:
    tables = _tables(*({"queued_ns": 10 * n, "run_ns": 10 * n + 1, "done_ns": 10 * n + 5} for n in range(3)))
    assert [name for name, *_ in _spans(tables, selection)] == [f"gfx job 5:{n}" for n in jobs]
