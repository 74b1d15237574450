"""SYNTHETIC logs that name no thread: which lines surely are in a call, and which ends surely are its own."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lost_lines import with_parents

from tracecorr.link.losses.threadless import list_unsure_names, part_threadless
from tracecorr.model.kinds import Flag
from tracecorr.model.schema import CAT
from tracecorr.pipeline import correlate, import_files
from tracecorr.read.amdlog.reader import read_amd_log
from tracecorr.store import Capture

_ROW, _HANDLER, _DONE = "ShaderName : k{}", "Handler: value(0), timestamp(0x1), handle(0x7f)", "Command 0x5 complete"
_DISPATCH = (
    "SWq=0x220000, HWq=0x3c00000, id=1, Dispatch Header = 0x1502 (type=2, barrier=1, acquire=2, release=2), setup=1, "
    "grid=[16384, 2, 1], workgroup=[256, 1, 1], private_seg_size=8, group_seg_size=64, kernel_obj=0x100018a580, "
    "kernarg_address=0x1401400100, completion_signal=0x0, correlation_id=0, rptr=5, wptr=6"
)
_INIT = "Initializing runtime stack, Enumerated GPU agents = 1"


def _message(word: str) -> str:
    """Return the message of a word: `+A` enters hipA, `-A` leaves it, `-A5` tells that it took 5 us; or as it is."""
    if word[0] == "+":
        return f"\x1b[32m hip{word[1]} ( {word[2:]} ) \x1b[0m"
    if word[0] == "-":
        return f"hip{word[1]}: Returned hipSuccess : " + (f": duration: {word[2:]} us" if word[2:] else "")
    return word


def linked(words: list[str], times: list[int] | None = None) -> pl.DataFrame:
    """Return the rows of a log of words, one a microsecond, with `word`: what each row begins with."""
    at = times or list(range(len(words)))
    front = ":3:hip_x.cpp                :1   : "
    texts = [f"{front}{5000000000 + t} us:  {_message(w)}\n" for t, w in zip(at, words, strict=True)]
    rows = pl.concat([block.events for block in read_amd_log(BytesIO("".join(texts).encode()), 0)])
    starts = [sum(map(len, texts[:n])) for n in range(len(texts))]
    ends = pl.col("end_stamp_ns") - pl.col("stamp_ns")
    events = rows.sort("stamp_ns", "offset").with_columns(
        ts_ns="stamp_ns", dur_ns=ends, thread=pl.lit(None, pl.UInt32), process=pl.lit(None, pl.UInt32),
        source=pl.lit("amd_log", CAT), event=pl.int_range(pl.len()),
    )  # fmt: skip
    found = with_parents(events)
    named = found["offset"].replace_strict(starts, words, return_dtype=pl.String)
    return found.with_columns(word=named)


def parents(words: list[str], times: list[int] | None = None) -> dict[str, str | None]:
    """Return the word of each row's parent, by the row's own."""
    found = linked(words, times)
    rows = found.filter(pl.col("layer") != "hip")
    above = found["word"].gather(rows["parent"])
    return dict(zip(rows["word"], above, strict=True))


def ended(words: list[str], times: list[int] | None = None) -> list[str]:
    """Return the words of the calls that have an end."""
    return linked(words, times).filter(pl.col("dur_ns").is_not_null())["word"].to_list()


def test_a_line_is_in_the_only_open_call() -> None:
    row = _ROW.format(1)
    assert parents(["+A", row, "-A", "+B", "-B"]) == {row: "+A"}
    # It may be of either of two that are open.
    assert parents(["+A", "+B", row, "-B", "-A"]) == {row: None}
    assert parents(["+A1", "+A2", row, "-A", "-A"]) == {row: None}


@pytest.mark.parametrize("word", [_HANDLER, _DONE, _INIT])
def test_lines_of_threads_that_make_no_calls_are_in_none(word: str) -> None:
    assert set(parents(["+A", word, "-A"]).values()) == {None}


def test_what_is_also_printed_outside_of_calls_may_be_of_another_thread() -> None:
    inside, outside = _ROW.format(1), _ROW.format(2)
    assert parents(["+A", inside, "-A", outside]) == {inside: None, outside: None}
    # A kernel's name is printed by the thread that prints its dispatch.
    assert parents(["+A", inside, "-A", _DISPATCH]) == {inside: None, _DISPATCH: None}
    assert parents(["+A", inside, "-A"]) == {inside: "+A"}


def test_what_another_thread_prints_outside_of_calls_is_only_what_it_prints() -> None:
    row = _ROW.format(1)
    created = "Created SWq=0x220000 to map on HWq=0x3c00000 with size 16384 with priority 1, cooperative: 0"
    assert parents(["+A", row, "-A", created]) == {row: "+A", created: None}


def test_a_function_that_prints_no_exit_is_not_open_for_ever() -> None:
    row = _ROW.format(1)
    assert parents(["+D", "+A", row, "-A"]) == {row: "+A"}


def test_only_threadless_rows_and_each_log_by_itself_are_parted() -> None:
    """Of file 0 a call and its line; of file 1 those of a thread; of file 2 a line outside of calls; and a trace."""
    shared = {"source": "amd_log", "clock": "mono", "thread": None, "parent": None, "flags": int(Flag.CUT),
              "dur_ns": None, "end_offset": None}  # fmt: skip
    call = {"layer": "hip", "name": "hipA", "offset": 0, "end_offset": 40, "ts_ns": 0}
    line = {"layer": "aql", "name": "dispatch", "offset": 10, "ts_ns": 1}
    rows = [
        {**call, "file": 0, "dur_ns": 4}, {**line, "file": 0, "parent": 0},
        {**call, "file": 1, "dur_ns": 5, "thread": 1}, {**line, "file": 1, "parent": 2, "thread": 1},
        {"file": 3, "offset": 0, "layer": "syscall", "name": "read", "ts_ns": 0, "dur_ns": 7, "source": "ftrace"},
        {"file": 3, "offset": 10, "layer": "kfd", "name": "f", "ts_ns": 1, "parent": 4, "source": "ftrace"},
        {**line, "file": 2, "offset": 5}, {**call, "file": 2, "offset": 7, "end_offset": None, "ts_ns": 2},
        # Lines with another clock are not out of order by it.
        {"file": 0, "offset": 5, "layer": "signal", "name": "handler", "ts_ns": 9, "clock": "mono_raw"},
    ]  # fmt: skip
    types = {"source": CAT, "layer": CAT, "name": CAT, "clock": CAT, "file": pl.UInt16, "flags": pl.UInt16}
    made = [{"event": n, **shared, **row} for n, row in enumerate(rows)]
    events = pl.DataFrame(made, schema_overrides={**types, "thread": pl.UInt32, "parent": pl.Int64})
    whole = pl.DataFrame(schema={"file": pl.UInt16, "lost": pl.Float64})
    assert part_threadless(events, whole).equals(events)
    lost = pl.DataFrame({"file": [0, 1], "lost": [0.1, 0.1]}, schema_overrides={"file": pl.UInt16})
    after = part_threadless(events, lost)
    assert after["parent"].to_list() == [None, None, None, 2, None, 4, None, None, None]
    assert after["dur_ns"].to_list() == [None, None, 5, None, 7, None, None, None, None]
    assert after["flags"].to_list() == [Flag.CUT | Flag.ENTER_ONLY, *events["flags"][1:]]


def test_a_dispatch_that_no_call_and_no_thread_holds_may_have_another_ones_name() -> None:
    rows = [
        (1, "dispatch", None, None), (2, "dispatch", None, 5), (3, "dispatch", 0, None), (4, "barrier_and", None, None),
    ]  # fmt: skip
    launches = pl.DataFrame(rows, schema=["event", "name", "thread", "parent"], orient="row")
    assert list_unsure_names(launches).to_list() == [1]


def test_where_lines_lack_no_line_is_surely_in_a_call_and_only_told_ends_are_sure() -> None:
    row, whole = _ROW.format(1), ["+A", "-A", *["+B", "-B1"] * 4] * 40
    assert (parents(["+C", row, "-C", *whole]), len(ended(["+C", row, "-C", *whole]))) == ({row: "+C"}, 201)
    for lost in (["-D"], ["+A"]):
        words = ["+C", row, "-C", *lost, *whole, *whole]
        assert parents(words) == {row: None}
        assert set(ended(words)) == {"+B"}
    # The log ends in this call.
    assert parents(["+C", row, "-C", *whole, "+A"]) == {row: "+C"}
    (half,) = linked(["+C", row, "-C", "-D", *whole]).filter(word="+C")["flags"]
    assert half & Flag.ENTER_ONLY


def test_where_many_lines_lack_a_told_end_may_be_told_by_chance() -> None:
    assert ended(["-D", *["+B", "-B1"] * 3]) == []
    # So it may where the exits of many calls tell another duration.
    assert ended(["+B", "-B1"] * 300 + ["+B", "-B9"]) == ["+B"] * 300
    assert ended(["+B", "-B1"] * 300 + ["+B", "-B9"] * 3) == []


def test_lines_out_of_order_are_in_no_call_and_end_none() -> None:
    row, other = _ROW.format(1), _ROW.format(2)
    words = ["+A", row, "-A", "+A", other, "-A"]
    assert parents(words, [0, 1, 2, 3, 4, 5]) == {row: "+A", other: "+A"}
    assert parents(words, [0, 2, 1, 3, 4, 5]) == {row: None, other: "+A"}
    # The exit of one call and the enter of the next may have changed places.
    assert ended(["+A", "-A", "+A", "-A"], [0, 2, 1, 3]) == []
    # Lines of other functions cannot make it one of two.
    assert ended(["+A", "+B", "-B1", "+C", "-C", "-A"], [0, 1, 2, 4, 3, 5]) == ["+A", "+B"]


_CALLS = st.sampled_from([
    ["+A", "row", "-A"], ["+B", "-B"], ["+A", "row", "+B", "-B", "row", "-A"], ["+C", "row", "-C"],
])  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_lines_of_two_threads_are_never_given_to_a_call_of_the_other_one(data: st.DataObject) -> None:
    """Both are complete; the argument of an enter, and the name of a kernel, tell the thread."""
    queues = [[w for part in data.draw(st.lists(_CALLS, max_size=4)) for w in part] for _ in range(2)]
    words: list[str] = []
    while any(queues):
        thread = data.draw(st.sampled_from([k for k in (0, 1) if queues[k]]))
        word = queues[thread].pop(0)
        number = f"{len(words)}of{thread}"
        words.append(_ROW.format(number) if word == "row" else word + number if word[0] == "+" else word)
    if words:
        for row, call in parents(words).items():
            assert call is None or call[-1] == row[-1]


def _queues(folder: Path, logs: list[str]) -> list[tuple[int | None, int, int | None, int, int]]:
    paths = [folder / f"{number}.log" for number in range(len(logs))]
    for path, text in zip(paths, logs, strict=True):
        path.write_text(text)
    out = folder / "nameless.tracecorr"
    import_files(out, paths, [])
    correlate(out)
    found = Capture.open(out).table("queues").select("process", "hwq", "swq", "dispatches", "barriers")
    return found.sort("hwq").collect().rows()


def test_packets_of_a_log_that_names_no_process_are_on_the_queues_of_their_rings(tmp_path: Path) -> None:
    created = "Created SWq={} to map on HWq={} with size 16384 with priority 1, cooperative: 0"
    other = _DISPATCH.replace("0x3c00000", "0x7800000").replace("0x220000", "0x229000")
    words = [created.format("0x220000", "0x3c00000"), created.format("0x229000", "0x7800000"), _DISPATCH, other, other]
    log = "".join(f":3:rocdevice.cpp           :1   : {5000000000 + n} us:  {word}\n" for n, word in enumerate(words))
    assert _queues(tmp_path, [log]) == [(None, 0x3C00000, 0x220000, 1, 0), (None, 0x7800000, 0x229000, 2, 0)]


def test_rings_of_several_logs_that_name_no_process_are_not_taken_for_one(tmp_path: Path) -> None:
    log = f":3:rocvirtual.cpp          :1   : 5000000000 us:  {_DISPATCH}\n"
    assert [row[3] for row in _queues(tmp_path, [log, log.replace("5000000000", "6000000000")])] == [0]
