"""Parts and tables on disk come back as they were, in a byte or two per value."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pyarrow.parquet as pq
import pytest

from tracecorr import pipeline
from tracecorr.model import schema
from tracecorr.model.parts import Block
from tracecorr.store.parquet import FrameWriter, write_frame
from tracecorr.store.parts import Parts, SourcePart, write_part


def _events(first: int, rows: int) -> pl.DataFrame:
    number = pl.int_range(first, first + rows, eager=True)
    frame = pl.DataFrame(
        {
            "stamp_ns": number * 3000, "offset": number * 140, "length": (number % 7 + 100).cast(pl.UInt32),
            "name": ("call" + (number % 5).cast(pl.String)).cast(pl.Categorical),
            "tid": (number % 2).cast(pl.UInt64) + pl.Series([0xFFFF_8000_0000_0000], dtype=pl.UInt64),
            "packet_index": number.cast(pl.Int64).set(number % 3 == 0, None),
        }
    )  # fmt: skip
    return schema.PART_EVENTS.conform(frame)


def _texts(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.with_columns(pl.col(pl.Categorical).cast(pl.String))


def test_a_frame_comes_back_with_its_schema(tmp_path: Path) -> None:
    for name, table in schema.TABLES.items():
        write_frame(tmp_path / name, table.empty())
        assert pl.read_parquet(tmp_path / name).schema == table.schema
    frame = _events(0, 1000)
    write_frame(tmp_path / "some", frame)
    assert _texts(pl.read_parquet(tmp_path / "some")).equals(_texts(frame))


def test_blocks_become_one_file(tmp_path: Path) -> None:
    blocks = [Block(_events(0, 10)), Block(_events(10, 300_000)), Block(), Block(_events(300_010, 5))]
    part = write_part(tmp_path, "amd_log-0", iter(blocks))
    whole = pl.concat([block.events for block in blocks])
    assert part.paths["events"] == [tmp_path / "amd_log-0.parquet"]
    assert _texts(part.read("events")).equals(_texts(whole))
    assert len(part.read("packets")) == 0
    assert (tmp_path / "amd_log-0.parquet").stat().st_size < 8 * len(whole)


def test_columns_of_one_value_are_read_without_their_rows(tmp_path: Path) -> None:
    """Most of them are told by no row, or lack in the file."""
    frame = _events(0, 1000).with_columns(pid=pl.lit(7, pl.UInt32))
    part = write_part(tmp_path, "amd_log-0", iter([Block(frame.head(400)), Block(frame.tail(600))]))
    given = Parts([SourcePart("amd_log", (0, 1), part)]).read_events()
    assert _texts(given.select(frame.columns)).equals(_texts(frame))
    told = {"stamp_ns", "offset", "length", "name", "tid", "packet_index"}
    assert {name for name in given.columns if given.select(name).estimated_size() > 100} == told


def test_dictionaries_of_several_frames_are_one(tmp_path: Path) -> None:
    frames = [pl.DataFrame({"name": pl.Series(texts).cast(pl.Categorical)}) for texts in (["b", "a"], ["c", "b"], [])]
    with FrameWriter(tmp_path / "x") as out:
        for frame in frames:
            out.write(frame)
    assert pl.read_parquet(tmp_path / "x")["name"].cast(pl.String).to_list() == ["b", "a", "c", "b"]


def test_a_dictionary_does_not_depend_on_what_the_process_saw_before(tmp_path: Path) -> None:
    pl.Series(["zz-first", "aa-second"]).cast(pl.Categorical)
    texts = ["aa-second", None, "zz-first", "aa-second"]
    write_frame(tmp_path / "x", pl.DataFrame({"name": pl.Series(texts).cast(pl.Categorical)}))
    column = pq.read_table(tmp_path / "x", read_dictionary=["name"])["name"].combine_chunks()
    assert column.dictionary.to_pylist() == ["aa-second", "zz-first"]
    assert column.to_pylist() == texts


@pytest.mark.parametrize("first", [0, 1, 7, 8, 13])
def test_rows_from_anywhere_keep_their_nulls(tmp_path: Path, first: int) -> None:
    texts = [None if n % 3 == 1 else f"text{n % 4}" for n in range(40)]
    frame = pl.DataFrame({"name": pl.Series(texts).cast(pl.Categorical)})
    write_frame(tmp_path / "x", frame[first:])
    assert pl.read_parquet(tmp_path / "x")["name"].cast(pl.String).to_list() == texts[first:]


def test_a_disk_that_takes_nothing_is_told_by_the_next_write(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="missing"), FrameWriter(tmp_path / "missing" / "x") as out:
        out.write(_events(0, 300_000))
        out.write(_events(300_000, 300_000))


def test_a_failed_write_tells_its_own_error(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="mine"), FrameWriter(tmp_path / "x") as out:
        out.write(_events(0, 3))
        raise ValueError("mine")


def test_a_failed_correlate_leaves_no_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "amd.log"
    log.write_text(":3:rocdevice.cpp             :453 : 23647210092 us: [pid:7 tid: 0x7f5] Free hsa memory 0x1\n")
    capture = tmp_path / "one.tracecorr"
    pipeline.import_files(capture, [log], [])
    pipeline.correlate(capture)
    assert (capture / "tables" / "parts" / "amd_log-0.parquet").is_file()

    def fail(*_: object) -> None:
        raise ValueError("mine")

    monkeypatch.setattr(pipeline, "link_tables", fail)
    with pytest.raises(ValueError, match="mine"):
        pipeline.correlate(capture)
    assert not list(capture.glob(".tables*"))
    assert (capture / "tables" / "events.parquet").is_file()


def test_the_files_of_many_logs_are_read_together_and_in_their_order(tmp_path: Path) -> None:
    """A run of several hundred processes leaves as many logs; a source of other rounding stays apart."""
    kinds = [("amd_log", (0, 1000))] * 3 + [("ftrace", (500, 500))] + [("ftrace", (0, 0))] * 2
    frames = [_events(100 * number, 50 if number != 1 else 0) for number in range(len(kinds))]
    each = [
        SourcePart(*kind, write_part(tmp_path, f"part-{number}", iter([Block(frame)])))
        for number, (kind, frame) in enumerate(zip(kinds, frames, strict=True))
    ]
    rows = Parts(each).read_events()
    assert _texts(rows.select(frames[0].columns)).equals(_texts(pl.concat(frames)))
    steps = rows.select("source", "step_lo_ns", "step_hi_ns").unique(maintain_order=True)
    assert _texts(steps).rows() == [("amd_log", 0, 1000), ("ftrace", 500, 500), ("ftrace", 0, 0)]
