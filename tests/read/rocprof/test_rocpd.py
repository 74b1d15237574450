"""Databases and JSON of rocprofv3 (SYNTHETIC, in the layout of rocprofiler-sdk) give the same rows.

Any cut or damage is booked, never a crash, and never a changed row.
"""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import polars as pl
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.read.rocprof.rocpd_cases import SMALL, Profile, sdk_json, write_rocpd
from tracecorr.model.errors import InputError
from tracecorr.model.parts import Block
from tracecorr.pipeline import import_files
from tracecorr.read.rocprof.rocpd import read_rocpd
from tracecorr.read.rocprof.text_files import looks_like_rocprof, read_rocprof
from tracecorr.store.raw import open_database

# stamp, end, layer, name, kernel, pid, size, tid, queue_id, dispatch_id, correlation_id
EXPECTED = [
    (1000, 1100, "hip", "hipMalloc", None, 31, None, 32, None, None, 1),
    (1010, 1050, "memory", "REAL_ALLOC", None, 31, 8192, 32, None, None, 1),
    (1200, 1300, "hip", "hipLaunchKernel", None, 31, None, 32, None, None, 2),
    (1250, 1260, "hsa", "hsa_signal_store_screlease", None, 31, None, 32, None, None, 3),
    (1400, 1400, "marker", "phase one", None, 31, None, 32, None, None, 4),
    (2000, 2500, "gpu", "dispatch", "vadd(float*, int)", 31, None, 32, 2, 7, 2),
    (3000, 3300, "gpu", "MEMORY_COPY_HOST_TO_DEVICE", None, 31, 4096, 32, None, None, 5),
]


def rows_of(blocks: list[Block]) -> list[tuple[object, ...]]:
    """Return what blocks say, in order of start."""
    events, args = pl.concat([b.events for b in blocks]), pl.concat([b.args for b in blocks])
    wide = args.with_columns(pl.col("key").cast(pl.String)).pivot("key", index="offset", values="u64")
    keys = [c for c in ("tid", "queue_id", "dispatch_id", "correlation_id") if c in wide.columns]
    texts = [pl.col(c).cast(pl.String) for c in ("layer", "name", "kernel")]
    joined = events.drop("tid").join(wide, on="offset", how="left").sort("stamp_ns").with_columns(texts)
    return joined.select("stamp_ns", "end_stamp_ns", "layer", "name", "kernel", "pid", "size_bytes", *keys).rows()


def read_database(path: Path) -> list[Block]:
    """Return the blocks of a database."""
    with open_database(path) as connection:
        return list(read_rocpd(connection, path.stat().st_size, 3))


@pytest.mark.parametrize("timestamps", [False, True])
def test_a_database_gives_the_rows_that_were_written(tmp_path: Path, timestamps: bool) -> None:
    path = write_rocpd(tmp_path / "x.db", timestamps=timestamps)
    blocks = read_database(path)
    expected = [list(row) for row in EXPECTED]
    if timestamps:  # in that layout a mark keeps the name of its function only where it has no message
        expected[4][3] = "phase one"
    assert rows_of(blocks) == [tuple(row) for row in expected]


@pytest.mark.parametrize(("timestamps", "name"), [(False, "THREAD_COUNTER"), (True, "sampled")])
def test_a_sample_without_a_message_is_called_as_its_track_or_itself(
    tmp_path: Path, timestamps: bool, name: str
) -> None:
    sample = Profile(calls=[("THREAD_COUNTER", 32, 1, 1000, 1000, "sampled")])
    (row,) = rows_of(read_database(write_rocpd(tmp_path / "x.db", sample, timestamps=timestamps)))
    assert row[:6] == (1000, 1000, "other", name, None, 31)


def test_json_says_the_same() -> None:
    blocks = list(read_rocprof([json.dumps(sdk_json(), indent=0).encode()], 3))
    expected = [list(row) for row in EXPECTED]
    expected[1][3] = "MEMORY_ALLOCATION_ALLOCATE"
    assert rows_of(blocks) == [tuple(row) for row in expected]


@pytest.mark.parametrize("form", ["json", "json of counters alone", "database"])
def test_counters_are_values_of_their_dispatch(form: str, tmp_path: Path) -> None:
    """Instances of a block are summed, as in the table of counters."""
    said = sdk_json()
    if form == "json of counters alone":
        del said["rocprofiler-sdk-tool"][0]["buffer_records"]["kernel_dispatch"]
    is_file = form == "database"
    blocks = (
        read_database(write_rocpd(tmp_path / "x.db")) if is_file else [*read_rocprof([json.dumps(said).encode()], 3)]
    )
    (dispatch,) = pl.concat([block.events for block in blocks]).filter(pl.col("kernel").is_not_null()).to_dicts()
    args = pl.concat([block.args for block in blocks]).filter(offset=dispatch["offset"])
    told = {key: u64 if text is None else text for key, u64, text in args.select("key", "u64", "text").iter_rows()}
    assert (dispatch["stamp_ns"], dispatch["end_stamp_ns"], told["dispatch_id"]) == (2000, 2500, 7)
    assert (told["SQ_WAVES"], told["MeanOccupancy"]) == (96, "0.5")
    assert pl.concat([block.args for block in blocks])["key"].to_list().count("SQ_WAVES") == 1


def test_names_behind_the_records_are_known_too() -> None:
    told = sdk_json()
    process = told["rocprofiler-sdk-tool"][0]
    turned = {"rocprofiler-sdk-tool": [dict(reversed(process.items()))]}
    assert rows_of(list(read_rocprof([json.dumps(turned).encode()], 3))) == rows_of(
        list(read_rocprof([json.dumps(told).encode()], 3))
    )


def test_records_of_all_tables_are_numbered(tmp_path: Path) -> None:
    events = pl.concat([b.events for b in read_database(write_rocpd(tmp_path / "x.db"))])
    assert events["offset"].to_list() == list(range(events.height)) and set(events["length"]) == {0}


def test_each_form_names_the_gpu_of_a_kernel_alike(tmp_path: Path) -> None:
    blocks = [read_database(write_rocpd(tmp_path / f"{way}.db", timestamps=way)) for way in (False, True)]
    blocks.append(list(read_rocprof([json.dumps(sdk_json()).encode()], 0)))
    for read in blocks:
        args = pl.concat([b.args for b in read]).filter(pl.col("key").cast(pl.String) == "agent")
        assert args["text"].to_list() == ["Agent 4"]


def test_two_processes_in_one_database(tmp_path: Path) -> None:
    path = write_rocpd(tmp_path / "x.db")
    other = Profile(pid=77, kernels=[(78, 1, 100, 200, 1, 1, "sub(int)")])
    write_rocpd(path, other, guid="1111ddb5-8903-7903-b269-cd8d3745bb8a")
    events = pl.concat([b.events for b in read_database(path)])
    assert dict(events.group_by("pid").len().rows()) == {31: len(EXPECTED), 77: 1}


@pytest.mark.parametrize("timestamps", [False, True])
def test_every_byte_is_booked(tmp_path: Path, timestamps: bool) -> None:
    path = write_rocpd(tmp_path / "x.db", timestamps=timestamps)
    assert sum(b.ledger["bytes"].sum() for b in read_database(path)) == path.stat().st_size
    data = json.dumps(sdk_json()).encode()
    assert looks_like_rocprof(data)
    assert sum(b.ledger["bytes"].sum() for b in read_rocprof([data], 0)) == len(data)


@given(st.integers(0, 4000), st.binary(max_size=3))
def test_of_json_that_is_cut_anywhere_every_byte_is_booked(cut: int, noise: bytes) -> None:
    data = json.dumps(sdk_json()).encode()
    part = data[: min(cut, len(data))] + noise
    blocks = list(read_rocprof([part], 0))
    assert sum(b.ledger["bytes"].sum() for b in blocks) == len(part)
    whole = rows_of(list(read_rocprof([data], 0)))
    stamps = [row[0] for row in whole]
    for block in blocks:
        assert set(block.events["stamp_ns"].to_list()) <= set(stamps)


@example([(143289, 128)])
@given(st.lists(st.tuples(st.integers(0, 200_000), st.integers(0, 255)), min_size=1, max_size=20))
def test_a_damaged_database_is_refused_or_read_without_a_failure(
    tmp_path_factory: pytest.TempPathFactory, hits: list[tuple[int, int]]
) -> None:
    path = write_rocpd(tmp_path_factory.mktemp("damaged") / "x.db")
    data = bytearray(path.read_bytes())
    for place, value in hits:
        data[place % len(data)] = value
    path.write_bytes(data)
    try:
        import_files(path.with_suffix(".tracecorr"), [], [], rocprof=[path])
    except InputError as error:
        assert error.next_step
        return
    read_database(path)


def test_what_is_no_rocpd_is_named(tmp_path: Path) -> None:
    other = tmp_path / "other.db"
    with sqlite3.connect(other) as db:
        db.execute("CREATE TABLE x (id INTEGER PRIMARY KEY)")
    cut = write_rocpd(tmp_path / "cut.db")
    cut.write_bytes(cut.read_bytes()[:-5000])
    for path, told in ((other, "without the tables of rocpd"), (cut, "cut short")):
        with pytest.raises(InputError, match=told):
            import_files(tmp_path / "out.tracecorr", [], [], rocprof=[path])
        assert not (tmp_path / "out.tracecorr").exists()


def test_kernel_without_a_name_is_kept_apart() -> None:
    told = sdk_json(Profile(kernels=[(1, 1, 5, 6, 1, 1, "a")]))
    told["rocprofiler-sdk-tool"][0]["kernel_symbols"] = []
    (row,) = rows_of(list(read_rocprof([json.dumps(told).encode()], 0)))
    assert row[2:5] == ("gpu", "?", None)
    assert SMALL.kernels
