"""Chrome's JSON trace format (`X` slices, `s`/`f` arrows, `C` counters), times in us with ns as decimals."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import IO

import polars as pl

from tracecorr.analyze.values import Tables, collect, hex_text
from tracecorr.export.selection import Selection
from tracecorr.export.trace import Trace, build_trace
from tracecorr.export.tracks import Track

_CHUNK = 200_000
_NUMBERS = ("event", "packet_index", "size_bytes", "stream", "error_ns")
_TEXTS = ("evidence", "source", "result", "kernel_name", "seen")


def write_chrome(tables: Tables, stream: IO[bytes], selection: Selection) -> Trace:
    """Write a capture as Chrome JSON, chunk by chunk, and return what was written.

    An arrow of this format binds to the innermost slice that is open at its time. So only links between two
    spans become arrows, of which no other slice of their track begins at the same time; all others are left out
    of `flows`, rather than drawn at a wrong slice. Perfetto's own format has no such limit.
    """
    trace = build_trace(tables, selection)
    homes = _homes(trace.tracks)
    flows = _arrows(trace)
    stream.write(b'{"displayTimeUnit":"ns","traceEvents":[\n')
    _write(stream, pl.Series(_descriptions(trace.tracks)), first=True)
    for start in range(0, trace.slices.height, _CHUNK):
        part = trace.slices.slice(start, _CHUNK)
        _write(stream, _slices(part, homes, _own_arguments(tables, trace.arguments, part)))
    _write(stream, _flow_lines(flows, trace.slices, homes))
    _write(stream, _counts(trace))
    stream.write(b"\n]}\n")
    return replace(trace, flows=flows)


def _write(stream: IO[bytes], lines: pl.Series, *, first: bool = False) -> None:
    if lines.len():
        text = ",\n".join(lines.to_list())
        stream.write((text if first else f",\n{text}").encode())


def _homes(tracks: list[Track]) -> pl.DataFrame:
    """Return track and the pid of the process above it (0 if there is none)."""
    pids: dict[int, int] = {}
    for track in tracks:
        pids[track.uuid] = track.pid if track.pid is not None else pids.get(track.parent, 0)
    return pl.DataFrame({"track": list(pids), "pid": list(pids.values())}, schema={"track": pl.Int64, "pid": pl.Int64})


def _descriptions(tracks: list[Track]) -> list[str]:
    """Return the names of processes and tracks; a track is a thread in this format."""
    homes = dict(_homes(tracks).iter_rows())
    names = {t.uuid: t.name for t in tracks}
    lines = [json.dumps({"ph": "M", "name": "process_name", "pid": 0, "tid": 0, "args": {"name": "tracecorr"}})]
    for track in tracks:
        what = "process_name" if track.pid is not None and track.tid is None else "thread_name"
        above = names.get(track.parent)
        name = f"{above}: {track.name}" if above and what == "thread_name" else track.name
        told = {"ph": "M", "name": what, "pid": homes[track.uuid], "tid": track.uuid, "args": {"name": name}}
        lines.append(json.dumps(told))
    return lines


def _quote(texts: pl.Expr) -> pl.Expr:
    """Return texts as JSON strings."""

    def convert(series: pl.Series) -> pl.Series:
        known = {text: json.dumps(text) for text in series.unique().drop_nulls()}
        return series.replace_strict(known, default=None, return_dtype=pl.String) if known else series

    return texts.map_batches(convert, return_dtype=pl.String)


def _microseconds(column: str) -> pl.Expr:
    return pl.format("{}.{}", pl.col(column) // 1000, (pl.col(column) % 1000).cast(pl.String).str.zfill(3))


def _own_arguments(tables: Tables, further: pl.DataFrame, slices: pl.DataFrame) -> pl.DataFrame:
    rows = collect(
        tables("args").join(slices.lazy().select("event"), on="event", how="semi")
        .select("event", pl.col("key").cast(pl.String), "u64", "text")
    )  # fmt: skip
    address, number = pl.format('"{}"', hex_text(pl.col("u64"))), pl.col("number").cast(pl.String)
    more = further.join(slices.select("event"), on="event", how="semi")
    pair = pl.format("{}:{}", _quote(pl.col("key")), pl.coalesce(_quote(pl.col("text")), address, number))
    pairs = pl.concat([rows, more], how="diagonal").select("event", pair=pair)
    return pairs.group_by("event", maintain_order=True).agg(own=pl.col("pair").drop_nulls().str.join(","))


def _slices(slices: pl.DataFrame, homes: pl.DataFrame, own: pl.DataFrame) -> pl.Series:
    joined = slices.join(homes, on="track", how="left", maintain_order="left").join(
        own, on="event", how="left", maintain_order="left"
    )
    joined = joined.with_columns(event=pl.when(pl.col("event") >= 0).then("event"))  # below 0 it is none
    pairs = [pl.format('"{}":{}', pl.lit(name), pl.col(name)) for name in _NUMBERS]
    pairs += [pl.format('"{}":{}', pl.lit(name), _quote(pl.col(name))) for name in _TEXTS]
    arguments = pl.concat_str(*pairs, pl.col("own"), separator=",", ignore_nulls=True)
    line = pl.concat_str(
        pl.lit('{"ph":"X","name":'), _quote(pl.col("name")), pl.lit(',"cat":'), _quote(pl.col("layer")),
        pl.lit(',"ts":'), _microseconds("ts_ns"), pl.lit(',"dur":'), _microseconds("dur_ns"), pl.lit(',"pid":'), "pid",
        pl.lit(',"tid":'), "track", pl.lit(',"args":{'), arguments, pl.lit("}}"),
    )  # fmt: skip
    return joined.select(line.alias("line"))["line"]


def _arrows(trace: Trace) -> pl.DataFrame:
    alone = pl.len().over("track", "ts_ns") == 1
    clear = trace.slices.filter(alone & (pl.col("dur_ns") > 0)).select("event")
    ends = trace.flows.join(clear, left_on="from_event", right_on="event", how="semi")
    return ends.join(clear, left_on="to_event", right_on="event", how="semi").sort("flow")


def _flow_lines(flows: pl.DataFrame, slices: pl.DataFrame, homes: pl.DataFrame) -> pl.Series:
    places = slices.select("event", "track", "ts_ns").join(homes, on="track", how="left")
    parts = []
    for column, start in (("from_event", '{"ph":"s"'), ("to_event", '{"ph":"f","bp":"e"')):
        placed = flows.join(places, left_on=column, right_on="event", maintain_order="left")
        parts.append(placed.select(line=pl.concat_str(
            pl.lit(start + ',"cat":"link","name":'), _quote(pl.col("rule")), pl.lit(',"id":'), "flow", pl.lit(',"ts":'),
            _microseconds("ts_ns"), pl.lit(',"pid":'), "pid", pl.lit(',"tid":'), "track", pl.lit("}"),
        )))  # fmt: skip
    return pl.concat(parts)["line"]


def _counts(trace: Trace) -> pl.Series:
    names = {t.uuid: t.name for t in trace.counters}
    if not names:
        return pl.Series([], dtype=pl.String)
    name = pl.col("track").replace_strict(names, return_dtype=pl.String)
    return trace.counts.select(line=pl.concat_str(
        pl.lit('{"ph":"C","pid":0,"name":'), _quote(name), pl.lit(',"ts":'), _microseconds("ts_ns"),
        pl.lit(',"args":{"value":'), pl.col("value"), pl.lit("}}"),
    ))["line"]  # fmt: skip
