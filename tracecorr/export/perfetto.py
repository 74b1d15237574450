"""Perfetto's protobuf format: TrackDescriptor and TrackEvent packets, times in ns, flows, counters, arguments."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import groupby
from typing import IO, Any

import numpy as np
import polars as pl

from tracecorr.analyze.values import Tables, collect
from tracecorr.export.selection import Selection
from tracecorr.export.trace import Trace, build_trace
from tracecorr.export.tracks import Track

_SEQUENCE = 1
_CHUNK = 50_000
_NUMBERS = ("event", "packet_index", "size_bytes", "signal", "stream", "error_ns")
_TEXTS = ("evidence", "source", "result", "kernel_name", "seen")
_STAGES = "gpu_specifications"
_TABLES = ("event_names", "event_categories", "debug_annotation_names", "debug_annotation_string_values", _STAGES)
_Argument = tuple[str, int | None, str | None]  # key, number, text


def write_perfetto(tables: Tables, stream: IO[bytes], selection: Selection) -> Trace:
    """Write a capture as a Perfetto trace, chunk by chunk, and return what was written.

    Every exported event is a slice or an instant with its id as argument `event`; every link between two of them is a
    flow; a flow runs from the earlier to the later event, which for barriers is from the store to the line. A call that
    nothing shows the end of is a slice without an end; any other one of which an end is lost is an instant, and `seen`
    says which end is known. Jobs of the kernel's GPU scheduler are slices of their rings besides their events. What ran
    on the GPU is also written as Perfetto's own GPU events, from which viewers make lanes of GPUs and hardware queues;
    those cannot have flows.
    """
    writer = _Writer(stream)
    trace = build_trace(tables, selection)
    writer.write_tracks(trace.tracks, trace.counters)
    for start in range(0, trace.slices.height, _CHUNK):
        part = trace.slices.slice(start, _CHUNK)
        writer.write_slices(part, trace.flows, _arguments(tables, trace.arguments, part))
    writer.write_counts(trace.counts)
    writer.write_gpu_stages(trace.slices.filter((pl.col("layer") == "gpu") & (pl.col("dur_ns") > 0)))
    return trace


def _arguments(tables: Tables, further: pl.DataFrame, slices: pl.DataFrame) -> pl.DataFrame:
    """Return the arguments of the slices: place (row), key, number or text, in the order of the rows."""
    places = slices.select("event").with_row_index("place")
    place = pl.int_range(pl.len(), dtype=pl.UInt32).alias("place")
    # A doorbell may be told to have stored less than zero; what is no event has a number below it.
    numbers = [
        slices.select(place, key=pl.lit(c), number=pl.col(c).cast(pl.UInt64, strict=False)).with_columns(
            text=pl.lit(None, pl.String)
        )
        for c in _NUMBERS
    ]
    texts = [slices.select(place, key=pl.lit(c), number=pl.lit(None, pl.UInt64), text=pl.col(c)) for c in _TEXTS]
    own = tables("args").join(places.lazy(), on="event").select(
        "place", pl.col("key").cast(pl.String), number=pl.when(pl.col("text").is_null()).then("u64"), text="text"
    )  # fmt: skip
    more = further.join(places, on="event").select(
        "place", "key", number=pl.col("number").cast(pl.UInt64, strict=False), text="text"
    )
    both = pl.concat([*numbers, *texts, collect(own), more])
    known = both.filter(pl.col("number").is_not_null() | pl.col("text").is_not_null())
    return known.sort("place", maintain_order=True)


class _Writer:
    """Write packets of one sequence with Perfetto's builder; a text is written once and named by number after that."""

    def __init__(self, stream: IO[bytes]) -> None:
        # Its modules take a moment, and other exports do not need them.
        from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as protos
        from perfetto.trace_builder.proto_builder import StreamingTraceProtoBuilder

        self._event, self._flags = protos.TrackEvent, protos.TracePacket
        self._unit = protos.CounterDescriptor.Unit.UNIT_COUNT
        self._builder = StreamingTraceProtoBuilder(stream)
        self._known: dict[str, dict[str, int]] = {}

    def write_tracks(self, tracks: list[Track], counters: list[Track]) -> None:
        """Write the descriptors of all tracks."""
        for track in (*tracks, *counters):
            packet = self._builder.create_packet()
            found = packet.track_descriptor
            found.uuid, found.name = track.uuid, track.name
            if track.parent:
                found.parent_uuid = track.parent
            if track.tid is not None and track.pid is not None:
                found.thread.pid, found.thread.tid, found.thread.thread_name = track.pid, track.tid, track.name
            elif track.pid is not None:
                found.process.pid, found.process.process_name = track.pid, track.name
            if track in counters:
                found.counter.unit = self._unit
            self._builder.write_packet(packet)

    def write_slices(self, slices: pl.DataFrame, flows: pl.DataFrame, arguments: pl.DataFrame) -> None:
        """Write the begins, ends and instants of a chunk in time order; at one moment ends come before begins."""
        notes = {place: [row[1:] for row in rows] for place, rows in groupby(arguments.iter_rows(), lambda row: row[0])}
        starts, stops = _by_event(slices, flows, "from_event"), _by_event(slices, flows, "to_event")
        rows, begin = slices.rows(named=True), slices["ts_ns"].to_numpy()
        spans = np.flatnonzero(slices["dur_ns"].to_numpy() > 0)
        times = np.concatenate([begin, (begin + slices["dur_ns"].to_numpy())[spans]])
        places = np.concatenate([np.arange(len(begin)), spans])
        is_begin = np.arange(len(places)) < len(begin)
        for number in np.lexsort((np.arange(len(times)), is_begin, times)):
            place = int(places[number])
            packet = self._start(int(times[number]), rows[place]["track"])
            if is_begin[number]:
                event = rows[place]["event"]
                self._fill(packet, rows[place], notes.get(place, []))
                packet.track_event.flow_ids.extend(starts.get(event, []))
                packet.track_event.terminating_flow_ids.extend(stops.get(event, []))
            else:
                packet.track_event.type = self._event.TYPE_SLICE_END
            self._builder.write_packet(packet)

    def write_counts(self, counts: pl.DataFrame) -> None:
        """Write the values of all counters."""
        for track, time, value in counts.select("track", "ts_ns", "value").iter_rows():
            packet = self._start(time, track)
            packet.track_event.type, packet.track_event.double_counter_value = self._event.TYPE_COUNTER, value
            self._builder.write_packet(packet)

    def write_gpu_stages(self, spans: pl.DataFrame) -> None:
        """Write the spans of the layer `gpu` as GPU events of their GPU and queue."""
        columns = ("event", "ts_ns", "dur_ns", "gpu", "queue", "name")
        for event, time, duration, gpu, queue, name in spans.select(columns).iter_rows():
            packet = self._make_packet(time)
            stage = packet.gpu_render_stage_event
            stage.event_id, stage.duration, stage.gpu_id = event, duration, gpu or 0
            stage.hw_queue_iid = self._intern(packet, _STAGES, "unknown queue" if queue is None else f"queue {queue}")
            stage.stage_iid = self._intern(packet, _STAGES, name or "unknown")
            self._builder.write_packet(packet)

    def _start(self, time_ns: int, track: int) -> Any:
        """Return a packet of an event of a track."""
        packet = self._make_packet(time_ns)
        packet.track_event.track_uuid = track
        return packet

    def _make_packet(self, time_ns: int) -> Any:
        """Return a packet of the sequence; the first one says that no text was named before."""
        packet = self._builder.create_packet()
        packet.timestamp, packet.trusted_packet_sequence_id = time_ns, _SEQUENCE
        packet.sequence_flags = self._flags.SEQ_NEEDS_INCREMENTAL_STATE
        if not self._known:
            packet.sequence_flags |= self._flags.SEQ_INCREMENTAL_STATE_CLEARED
            self._known = {table: {} for table in _TABLES}
        return packet

    def _fill(self, packet: Any, row: Mapping[str, Any], notes: list[_Argument]) -> None:
        """Write what a slice or an instant is called, and its arguments."""
        event = packet.track_event
        # What has no end is drawn to the end of the trace.
        begins = row["dur_ns"] > 0 or row["is_open"]
        event.type = self._event.TYPE_SLICE_BEGIN if begins else self._event.TYPE_INSTANT
        if row["name"] is not None:
            event.name_iid = self._intern(packet, "event_names", row["name"])
        if row["layer"] is not None:
            event.category_iids.append(self._intern(packet, "event_categories", row["layer"]))
        for key, number, text in notes:
            note = event.debug_annotations.add()
            note.name_iid = self._intern(packet, "debug_annotation_names", key)
            if text is None:
                note.uint_value = number
            else:
                note.string_value_iid = self._intern(packet, "debug_annotation_string_values", text)

    def _intern(self, packet: Any, table: str, text: str) -> int:
        """Return the number of a text; a new text is written in this packet."""
        known = self._known[table]
        number = known.get(text)
        if number is None:
            number = known[text] = len(known) + 1
            entry = getattr(packet.interned_data, table).add()
            entry.iid = number
            if table == "debug_annotation_string_values":
                entry.str = text.encode("utf-8", "replace")
            else:
                entry.name = text
        return number


def _by_event(slices: pl.DataFrame, flows: pl.DataFrame, end: str) -> dict[int, list[int]]:
    """Return the flows that begin or end (`end`) at each event of a chunk."""
    here = flows.join(slices, left_on=end, right_on="event", how="semi").sort("flow")
    return dict(here.group_by(end, maintain_order=True).agg("flow").iter_rows())
