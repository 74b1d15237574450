"""Exports of recorded runs hold what the tables hold, as Perfetto's own trace_processor counts it."""

from __future__ import annotations

import json
from collections.abc import Callable
from io import BytesIO
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from perfetto_check import ask

from tracecorr.export.chrome import write_chrome
from tracecorr.export.perfetto import write_perfetto
from tracecorr.export.selection import Selection, parse_time
from tracecorr.export.table_files import write_tables
from tracecorr.export.trace import _tell_open, build_trace, split_overlaps
from tracecorr.model import schema
from tracecorr.model.errors import InputError
from tracecorr.store import Capture

# What Perfetto shows on lanes of GPUs are slices of ours, written once more.
_OURS = "slice where id not in (select id from gpu_slice)"
_COUNTS = (
    f"select count(*) as n from {_OURS}",
    "select count(*) as n from flow",
    "select count(*) as n from counter",
    "select name, value from stats where severity in ('error', 'data_loss') and value > 0",
)


def rows_of(capture: Capture, table: str) -> int:
    """Return how many rows a table has."""
    return int(capture.table(table).select(pl.len()).collect().item())


def test_perfetto_counts_equal_the_tables(capture: Capture, tmp_path: Path) -> None:
    path = tmp_path / "x.pftrace"
    with path.open("wb") as stream:
        trace = write_perfetto(capture.table, stream, Selection())
    slices, flows, counts, errors, names, unfinished, arguments = ask(
        path, tmp_path, *_COUNTS,
        f"select category as layer, name, count(*) as n, sum(dur) as total from {_OURS} group by 1, 2 order by 1, 2",
        "select name from slice where dur < 0",
        "select s.ts, s.dur, a.int_value as event from slice s join args a using (arg_set_id) "
        "where a.key = 'debug.event'",
    )  # fmt: skip
    packets = capture.table("launches").drop_nulls(["queue", "wptr", "rptr"]).select(pl.len()).collect().item()
    assert (slices, flows, counts) == (
        [(rows_of(capture, "events"),)], [(rows_of(capture, "links"),)], [(packets,)],
    )  # fmt: skip
    assert errors == []
    assert unfinished == [("exit_group",)]  # a program does not come back from it
    begun = trace.slices.filter("is_open")["event"]
    length = pl.when(pl.col("event").is_in(begun.implode())).then(-1).otherwise(pl.col("dur_ns").fill_null(0))
    label = pl.when(pl.col("name") == "dispatch").then("display").otherwise(pl.col("name").cast(pl.String))
    ours = (
        capture.table("events").join(capture.table("kernels").select("kernel", "display"), on="kernel", how="left")
        .group_by(layer=pl.col("layer").cast(pl.String), name=label)
        .agg(n=pl.len(), total=length.sum()).sort("layer", "name").collect()
    )  # fmt: skip
    assert names == ours.rows()
    times = capture.table("events").select("ts_ns", length.alias("dur_ns"), "event").collect()
    assert sorted(arguments, key=lambda row: row[2]) == times.rows()


def test_what_ran_on_the_gpu_is_on_lanes_of_its_queues(recorded: Callable[..., Capture], tmp_path: Path) -> None:
    capture, path = recorded("captures/caseB-4streams"), tmp_path / "x.pftrace"
    with path.open("wb") as stream:
        write_perfetto(capture.table, stream, Selection())
    spans, errors = ask(
        path, tmp_path,
        "select t.name as lane, s.name as what, count(*) as n, sum(s.dur) as ns "
        "from gpu_slice s join track t on s.track_id = t.id group by 1, 2 order by 1, 2", _COUNTS[3],
    )  # fmt: skip
    ran = capture.table("events").filter((pl.col("layer") == "gpu") & (pl.col("dur_ns") > 0))
    names = {"lane": pl.format("queue {}", "queue"), "what": pl.col("name").cast(pl.String)}
    ours = ran.group_by(**names).agg(pl.len(), pl.sum("dur_ns")).sort("lane", "what").collect()
    assert spans == ours.rows() and len(spans) == 4
    assert not errors


def test_a_call_without_an_end_goes_on_only_where_nothing_shows_that_it_ended() -> None:
    rows = [
        (0, 1, 10, 100, 0, True, None), (1, 1, 50, 0, 1, True, "begin only"),  # the call around it came back
        (2, 1, 200, 0, 0, True, "begin only"), (3, 1, 210, 5, 1, True, None),  # what it called is no later call
        (4, 2, 300, 0, 0, True, "begin only"), (5, 2, 400, 5, 0, True, None),  # its thread went on
        (6, 3, 300, 0, None, True, "begin only"), (7, 3, 400, 5, None, True, None),  # maybe nested, maybe not
        (8, 4, 300, 0, 0, True, "begin only"), (9, 4, 310, 0, 1, True, "begin only"), (10, 4, 320, 0, 0, False, None),
        (11, 5, 300, 0, 0, True, "end only"),
    ]  # fmt: skip
    columns = ("event", "track", "ts_ns", "dur_ns", "depth", "is_call", "seen")
    slices = pl.DataFrame(rows, schema=columns, orient="row").sort("ts_ns", "event")
    assert slices.filter(_tell_open(slices))["event"].sort().to_list() == [2, 8, 9]


def test_chrome_json_counts_equal_the_tables(capture: Capture, tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    with path.open("wb") as stream:
        trace = write_chrome(capture.table, stream, Selection())
    slices, flows, counts, errors, longest = ask(path, tmp_path, *_COUNTS, "select sum(dur) as n from slice")
    assert slices == [(rows_of(capture, "events"),)]
    assert flows == [(trace.flows.height,)]
    assert counts == [(trace.counts.height,)]
    assert errors == []
    assert longest == [(capture.table("events").select(pl.col("dur_ns").sum()).collect().item(),)]
    assert json.loads(path.read_text())["traceEvents"]


def test_a_part_of_a_capture(capture: Capture, tmp_path: Path) -> None:
    some = Selection(start_ns=parse_time("10ms"), end_ns=parse_time("150ms"), layers=("hip", "aql"))
    path = tmp_path / "x.pftrace"
    with path.open("wb") as stream:
        trace = write_perfetto(capture.table, stream, some)
    first = capture.table("events").select(pl.col("ts_ns").min()).collect().item()
    wanted = capture.table("events").filter(
        (pl.col("ts_ns") >= first + 10_000_000) & (pl.col("ts_ns") < first + 150_000_000)
        & pl.col("layer").cast(pl.String).is_in(["hip", "aql"])
    ).collect()  # fmt: skip
    slices, flows, _, errors = ask(path, tmp_path, *_COUNTS)
    assert slices == [(wanted.height,)]
    assert flows == [(trace.flows.height,)]
    assert errors == []


def test_tables_come_back_equal(capture: Capture, tmp_path: Path) -> None:
    for form, read in (("parquet", pl.read_parquet), ("arrow", pl.read_ipc)):
        write_tables(capture.table, tmp_path, form, Selection())
        for name in schema.TABLES:
            assert read(tmp_path / f"{name}.{form}").equals(capture.table(name).collect()), name
    (path,) = write_tables(capture.table, tmp_path, "csv", Selection(layers=("hip",)), ["events"])
    assert set(pl.read_csv(path)["layer"]) == {"hip"}
    (path,) = write_tables(capture.table, tmp_path, "csv", Selection(), ["queues"])
    assert pl.read_csv(path)["hwq"][0] == "0x3c00000"


def test_empty_capture_gives_empty_files(tmp_path: Path) -> None:
    def tables(name: str) -> pl.LazyFrame:
        return schema.TABLES[name].empty().lazy()

    path = tmp_path / "x.pftrace"
    with path.open("wb") as stream:
        write_perfetto(tables, stream, Selection())
    assert ask(path, tmp_path, *_COUNTS)[0] == [(0,)]
    chrome = BytesIO()
    write_chrome(tables, chrome, Selection())
    assert [e["ph"] for e in json.loads(chrome.getvalue())["traceEvents"]] == ["M"]


@pytest.mark.parametrize("text", ["", "soon", "1h", "-3s", "1.s"])
def test_wrong_times_are_refused(text: str) -> None:
    with pytest.raises(InputError):
        parse_time(text)


@pytest.mark.parametrize(
    ("text", "ns"),
    [("1.5s", 1_500_000_000), ("0.25ms", 250_000), ("3", 3_000_000_000), ("20us", 20_000), ("7ns", 7),
     ("0.5", 500_000_000), ("9007199254.740993s", 9_007_199_254_740_993_000)],
)  # fmt: skip
def test_times_are_exact_ns(text: str, ns: int) -> None:
    assert parse_time(text) == ns


def test_wrong_selections_are_refused() -> None:
    with pytest.raises(InputError, match="no layer"):
        Selection(layers=("nothing",))
    with pytest.raises(InputError, match="before the start"):
        Selection(start_ns=5, end_ns=5)


def test_a_pid_in_place_of_a_row_is_told_which_row_it_is(capture: Capture) -> None:
    """Who knows other tools writes pids."""
    processes = capture.table("processes").select("process", "pid", "comm").collect()
    row, pid, comm = processes.drop_nulls().row(0)
    with pytest.raises(InputError, match="not a pid") as error:
        build_trace(capture.table, Selection(processes=(pid,)))
    assert error.value.next_step == f"that pid is of: {row} ({comm} {pid})"
    with pytest.raises(InputError, match="there is no process 4000000000") as error:
        build_trace(capture.table, Selection(processes=(4_000_000_000,)))
    assert error.value.next_step.startswith("processes are: 0 (") and f"{row} ({comm} {pid})" in error.value.next_step


spans = st.lists(st.tuples(st.integers(0, 30), st.integers(1, 10)), max_size=40)


@given(spans)
def test_spans_of_a_row_nest(pairs: list[tuple[int, int]]) -> None:
    frame = pl.DataFrame(
        [(i, 1, start, length) for i, (start, length) in enumerate(pairs)],
        schema=dict.fromkeys(("event", "track", "ts_ns", "dur_ns"), pl.Int64), orient="row",
    )  # fmt: skip
    rows = frame.join(split_overlaps(frame), on="event", how="left").with_columns(pl.col("row").fill_null(0))
    for (_,), row in rows.group_by("row"):
        placed = [(s, s + d) for s, d in row.select("ts_ns", "dur_ns").iter_rows()]
        for a, b in placed:
            assert not any(a < c < b < d for c, d in placed)


def test_a_span_goes_to_the_first_row_on_which_it_nests() -> None:
    spans = [(0, 10, 0), (5, 10, 1), (6, 2, 0), (12, 10, 0), (13, 1, 0), (14, 20, 2), (40, 5, 0)]
    frame = pl.DataFrame(
        [(i, 1, start, length) for i, (start, length, _) in enumerate(spans)],
        schema=dict.fromkeys(("event", "track", "ts_ns", "dur_ns"), pl.Int64), orient="row",
    )  # fmt: skip
    assert split_overlaps(frame).sort("event").rows() == [(i, row) for i, (_, _, row) in enumerate(spans)]
    beside = frame.filter(pl.col("event").is_in([0, 2, 3, 4, 6])).with_columns(pl.lit(2, pl.Int64).alias("track"))
    assert split_overlaps(beside).is_empty()
    assert split_overlaps(pl.concat([frame, beside])).height == frame.height


@pytest.fixture
def folder(capture: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """Return a function that runs the verb in an empty folder."""
    from tracecorr.cli import main

    monkeypatch.chdir(tmp_path)
    return lambda *words: main(["export", str(capture.path), *words])


def test_the_verb_writes_what_is_asked_for_and_replaces_nothing_unasked(
    folder: Callable[..., int], tmp_path: Path
) -> None:
    assert folder() == 0
    (trace,) = tmp_path.glob("*.pftrace")
    assert trace.stat().st_size > 10_000
    assert folder() == 2  # it is there
    assert folder("--force", "--only", "hip,aql", "--end", "20ms") == 0
    assert folder("--to", "chrome", "--table", "events") == 2
    assert folder("--to", "csv", "--table", "queues,streams", "-o", "here") == 0
    assert sorted(p.name for p in (tmp_path / "here").iterdir()) == ["queues.csv", "streams.csv"]
    assert folder("--only", "nonsense", "-o", "y") == 2


def test_a_link_stays_a_link_to_the_new_file(folder: Callable[..., int], tmp_path: Path) -> None:
    (tmp_path / "target.json").write_text("older")
    (tmp_path / "link.json").symlink_to("target.json")
    assert folder("--to", "chrome", "-o", "link.json") == 2
    assert (tmp_path / "target.json").read_text() == "older"
    assert folder("--to", "chrome", "-o", "link.json", "--force") == 0
    assert (tmp_path / "link.json").is_symlink() and "traceEvents" in (tmp_path / "target.json").read_text()


def test_a_doorbell_that_stored_less_than_zero_is_exported() -> None:
    frames = {name: table.empty() for name, table in schema.TABLES.items()}
    stores = [{"event": n, "ts_ns": n, "layer": "doorbell", "name": "doorbell", "packet_index": n - 1} for n in (0, 1)]
    frames["events"] = schema.EVENTS.conform(pl.DataFrame(stores))
    stream = BytesIO()
    write_perfetto(lambda name: frames[name].lazy(), stream, Selection())
    assert stream.getvalue()
