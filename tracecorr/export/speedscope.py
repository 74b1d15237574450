"""speedscope's JSON: one evented profile per thread, of its HIP calls and what it did inside of them.

Format: https://www.speedscope.app/file-format-schema.json
"""

from __future__ import annotations

import json
from typing import IO

import polars as pl

from tracecorr.analyze.values import Tables, collect
from tracecorr.export.selection import Selection, first_ns
from tracecorr.export.trace import split_overlaps
from tracecorr.export.tracks import add_node, name_on_node
from tracecorr.model.columns import is_counted

_LAYERS = ("marker", "hip", "hsa", "syscall", "ioctl", "kfd", "mqd")
_SCHEMA = "https://www.speedscope.app/file-format-schema.json"
_HEAD = '{{"$schema":"{}","name":{},"exporter":"tracecorr","activeProfileIndex":0,"shared":{{"frames":[{}]}},'


def write_speedscope(tables: Tables, stream: IO[bytes], selection: Selection, name: str) -> int:
    """Write the calls of a capture for speedscope, and return how many there are.

    Calls of rocprof, rows without a thread or an end, and second sights of a call are left out, and calls that took no
    step of their clock (see `count_brief`): a profile shows nothing without a width. If two calls of a
    thread overlap without one being inside the other, as the errors of two clocks can show them, the second is in a
    profile of its own.

    Args:
        tables: gives a table by its name.
        stream: where to write.
        selection: what to write.
        name: of the capture.
    """
    spans = _list_spans(tables, selection)
    frames = spans.select("name").unique(maintain_order=True).with_row_index("frame")
    spans = spans.join(frames, on="name", maintain_order="left")
    texts = ",".join(f'{{"name":{json.dumps(text)}}}' for text in frames["name"])
    head = _HEAD.format(_SCHEMA, json.dumps(name), texts)
    stream.write(head.encode())
    stream.write(b'"profiles":[')
    titles = _titles(tables)
    for number, ((thread, row), part) in enumerate(spans.partition_by("track", "row", as_dict=True).items()):
        title = titles.get(int(thread), f"thread {thread}") + (f" (overlapping {row})" if row else "")
        stream.write(b",\n" if number else b"\n")
        _write_profile(stream, title, part)
    stream.write(b"\n]}\n")
    return spans.height


def count_brief(tables: Tables, selection: Selection) -> int:
    """Return how many calls have no duration but 0 ns, as the whole us of a text trace make of the short ones."""
    brief = _filter_calls(tables, selection).filter(pl.col("dur_ns") == 0)
    return int(collect(brief.select(pl.len())).item())


def _filter_calls(tables: Tables, selection: Selection) -> pl.LazyFrame:
    called = pl.col("layer").cast(pl.String).is_in(_LAYERS) & pl.col("thread").is_not_null() & is_counted()
    return selection.filter_events(tables).filter(called & (pl.col("source").cast(pl.String) != "rocprof"))


def _list_spans(tables: Tables, selection: Selection) -> pl.DataFrame:
    """Return event, track (thread), row, ts_ns (after the first event), dur_ns, name."""
    spans = collect(
        _filter_calls(tables, selection).filter(pl.col("dur_ns") > 0)
        .select("event", "ts_ns", "dur_ns", track=pl.col("thread").cast(pl.Int64), name=pl.col("name").cast(pl.String))
    ).with_columns(pl.col("ts_ns") - first_ns(tables), pl.col("name").fill_null("?"))  # fmt: skip
    rows = split_overlaps(spans.select("event", "track", "ts_ns", "dur_ns"))
    joined = spans.join(rows, on="event", how="left", maintain_order="left")
    return joined.with_columns(pl.col("row").fill_null(0)).sort("track", "row", "ts_ns")


def _titles(tables: Tables) -> dict[int, str]:
    processes = tables("processes").select("process", "pid", "log_pid")
    comm = pl.col("comm").cast(pl.String)
    threads = add_node(tables("threads")).select("thread", "process", "tid", "log_tid", "node", comm=comm)
    rows = collect(threads.join(processes, on="process", how="left"))
    named = {}
    for row in rows.iter_rows(named=True):
        pid = row["pid"] if row["pid"] is not None else row["log_pid"]
        tid = row["tid"] if row["tid"] is not None else hex(row["log_tid"] or 0)
        named[int(row["thread"])] = name_on_node(f"{row['comm'] or 'process'} {pid}, thread {tid}", row["node"])
    return named


def _write_profile(stream: IO[bytes], title: str, spans: pl.DataFrame) -> None:
    end = pl.col("ts_ns") + pl.col("dur_ns")
    opens = spans.select("frame", at="ts_ns", kind=pl.lit(1), outer=-end, order="event")
    closes = spans.select("frame", at=end, kind=pl.lit(0), outer=-pl.col("ts_ns"), order=-pl.col("event"))
    # At one moment ends come first, the innermost before the others; then starts, the outermost first.
    marks = pl.concat([opens, closes]).sort("at", "kind", "outer", "order")
    what = pl.when(pl.col("kind") == 1).then(pl.lit("O")).otherwise(pl.lit("C"))
    lines = marks.select(
        line=pl.concat_str(
            pl.lit('{"type":"'), what, pl.lit('","frame":'), "frame", pl.lit(',"at":'), "at", pl.lit("}")
        )
    )["line"]
    first, *_, last = marks["at"].to_list()
    told = f'{{"type":"evented","name":{json.dumps(title)},"unit":"nanoseconds",'
    told += f'"startValue":{first},"endValue":{last},"events":[\n'
    stream.write(told.encode())
    stream.write(",\n".join(lines.to_list()).encode())
    stream.write(b"]}")
