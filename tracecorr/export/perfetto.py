"""Perfetto's protobuf format: TrackDescriptor and TrackEvent packets, times in ns, flows, counters, arguments."""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO, Any

import numpy as np
import numpy.typing as npt
import polars as pl

from tracecorr.analyze.frames import Tables, collect
from tracecorr.export import protobuf as pb
from tracecorr.export.selection import Selection
from tracecorr.export.trace import Trace, build_trace
from tracecorr.export.tracks import Track
from tracecorr.model.errors import MachineError

_SEQUENCE = 1
_CHUNK = 200_000
_NUMBERS = ("event", "packet_index", "size_bytes", "signal", "stream", "error_ns")
_TEXTS = ("evidence", "source", "result", "kernel_name", "seen")
_TABLES = ("event_names", "event_categories", "debug_annotation_names", "debug_annotation_string_values")


def write_perfetto(tables: Tables, stream: IO[bytes], selection: Selection) -> Trace:
    """Write a capture as a Perfetto trace, chunk by chunk, and return what was written.

    Every exported event is a slice or an instant with its id as argument `event`; every link between two of them is a
    flow; a flow runs from the earlier to the later event, which for barriers is from the store to the line. A call that
    nothing shows the end of is a slice without an end; any other one of which an end is lost is an instant, and `seen`
    says which end is known. Jobs of the kernel's GPU scheduler are slices of their rings besides their events.

    Raises:
        MachineError: the package `perfetto` is not installed.
    """
    writer = _Writer(stream)
    trace = build_trace(tables, selection)
    writer.write_tracks(trace.tracks, trace.counters)
    for start in range(0, trace.slices.height, _CHUNK):
        part = trace.slices.slice(start, _CHUNK)
        writer.write_slices(part, trace.flows, _arguments(tables, trace.arguments, part))
    writer.write_counts(trace.counts)
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
    """Write packets of one sequence; texts are written once and named by number."""

    def __init__(self, stream: IO[bytes]) -> None:
        try:
            from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as protos
            from perfetto.trace_builder.proto_builder import StreamingTraceProtoBuilder
        except ImportError as error:
            raise MachineError(
                "the package perfetto is not installed", "install it: pip install 'tracecorr[export]'"
            ) from error
        self._stream, self._protos = stream, protos
        self._builder = StreamingTraceProtoBuilder(stream)
        self._known: dict[str, dict[str, int]] = {table: {} for table in _TABLES}
        self._started = False

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
                found.counter.unit = self._protos.CounterDescriptor.Unit.UNIT_COUNT
            self._builder.write_packet(packet)

    def write_slices(self, slices: pl.DataFrame, flows: pl.DataFrame, arguments: pl.DataFrame) -> None:
        """Write the begins, ends and instants of a chunk."""
        names = self._intern("event_names", slices["name"])
        layers = self._intern("event_categories", slices["layer"])
        keys = self._intern("debug_annotation_names", arguments["key"])
        texts = self._intern("debug_annotation_string_values", arguments["text"])
        self._flush_interned()
        heads = self._heads(slices, names, layers)
        notes = arguments["place"].to_numpy(), self._annotations(arguments, keys, texts)
        pieces = [notes, *self._flow_pieces(slices, flows)]
        ends = self._ends(slices)
        self._stream.write(_assemble(self._protos, slices, heads, ends, pieces).tobytes())

    def write_counts(self, counts: pl.DataFrame) -> None:
        """Write the values of all counters."""
        event, packet = self._protos.TrackEvent, self._protos.TracePacket
        count = counts.height
        body = pb.join_columns(
            count,
            pb.encode_tag(event, "type", pb.VARINT), pb.encode_varints(np.array([event.TYPE_COUNTER]), 1),
            pb.encode_tag(event, "track_uuid", pb.VARINT), pb.encode_varints(counts["track"].to_numpy(), 5),
            pb.encode_tag(event, "double_counter_value", pb.FIXED64), pb.encode_fixed64(counts["value"].to_numpy()),
        )  # fmt: skip
        head = self._packet_head(counts["ts_ns"].to_numpy())
        tag = pb.encode_tag(packet, "track_event", pb.LENGTH)
        inner = pb.join_columns(count, head, tag, pb.encode_varints(np.array([body.shape[1]]), 2), body)
        outer = pb.encode_tag(self._protos.Trace, "packet", pb.LENGTH)
        lengths = pb.encode_varints(np.array([inner.shape[1]]), 2)
        self._stream.write(pb.join_columns(count, outer, lengths, inner).tobytes())

    def _intern(self, table: str, texts: pl.Series) -> npt.NDArray[np.int64]:
        """Return the number of each text, 0 for null; new texts are written by the next `_flush_interned`."""
        known = self._known[table]
        for text in texts.drop_nulls().unique(maintain_order=True):
            known.setdefault(text, len(known) + 1)
        if not known:
            return np.zeros(len(texts), np.int64)
        return texts.replace_strict(known, default=0, return_dtype=pl.Int64).to_numpy()

    def _flush_interned(self) -> None:
        packet = self._builder.create_packet()
        packet.trusted_packet_sequence_id = _SEQUENCE
        flags = self._protos.TracePacket
        packet.sequence_flags = flags.SEQ_NEEDS_INCREMENTAL_STATE
        if not self._started:
            packet.sequence_flags = flags.SEQ_INCREMENTAL_STATE_CLEARED | flags.SEQ_NEEDS_INCREMENTAL_STATE
            self._written = dict.fromkeys(_TABLES, 0)
        self._started = True
        for table in _TABLES:
            for text, number in list(self._known[table].items())[self._written[table] :]:
                entry = getattr(packet.interned_data, table).add()
                entry.iid = number
                if table == "debug_annotation_string_values":
                    entry.str = text.encode("utf-8", "replace")
                else:
                    entry.name = text
            self._written[table] = len(self._known[table])
        self._builder.write_packet(packet)

    def _packet_head(self, times: npt.NDArray[np.int64]) -> pb.Bytes:
        packet = self._protos.TracePacket
        return pb.join_columns(
            len(times),
            pb.encode_tag(packet, "timestamp", pb.VARINT), pb.encode_varints(times, 10),
            pb.encode_tag(packet, "trusted_packet_sequence_id", pb.VARINT), pb.encode_varints(np.array([_SEQUENCE]), 1),
            pb.encode_tag(packet, "sequence_flags", pb.VARINT),
            pb.encode_varints(np.array([packet.SEQ_NEEDS_INCREMENTAL_STATE]), 1),
        )  # fmt: skip

    def _heads(
        self, slices: pl.DataFrame, names: npt.NDArray[Any], layers: npt.NDArray[Any]
    ) -> tuple[pb.Bytes, pb.Bytes]:
        event = self._protos.TrackEvent
        # What has no end is drawn to the end of the trace.
        begins = (slices["dur_ns"] > 0) | slices["is_open"]
        kinds = np.where(begins.to_numpy(), event.TYPE_SLICE_BEGIN, event.TYPE_INSTANT)
        body = pb.join_columns(
            slices.height,
            pb.encode_tag(event, "type", pb.VARINT), pb.encode_varints(kinds, 1),
            pb.encode_tag(event, "track_uuid", pb.VARINT), pb.encode_varints(slices["track"].to_numpy(), 5),
            pb.encode_tag(event, "name_iid", pb.VARINT), pb.encode_varints(names, 5),
            pb.encode_tag(event, "category_iids", pb.VARINT), pb.encode_varints(layers, 2),
        )  # fmt: skip
        return self._packet_head(slices["ts_ns"].to_numpy()), body

    def _ends(self, slices: pl.DataFrame) -> tuple[npt.NDArray[np.int64], pb.Bytes, pb.Bytes]:
        event = self._protos.TrackEvent
        spans = slices.filter(pl.col("dur_ns") > 0)
        times = (spans["ts_ns"] + spans["dur_ns"]).to_numpy()
        body = pb.join_columns(
            len(times),
            pb.encode_tag(event, "type", pb.VARINT), pb.encode_varints(np.array([event.TYPE_SLICE_END]), 1),
            pb.encode_tag(event, "track_uuid", pb.VARINT), pb.encode_varints(spans["track"].to_numpy(), 5),
        )  # fmt: skip
        return times, self._packet_head(times), body

    def _annotations(self, arguments: pl.DataFrame, keys: npt.NDArray[Any], texts: npt.NDArray[Any]) -> pb.Bytes:
        """Return one record of one width per argument, numbers and texts alike."""
        note = self._protos.DebugAnnotation
        count = arguments.height
        number = pb.join_columns(
            count, pb.encode_tag(note, "uint_value", pb.VARINT),
            pb.encode_varints(arguments["number"].fill_null(0).to_numpy(), 10),
        )  # fmt: skip
        tag = pb.encode_tag(note, "string_value_iid", pb.VARINT)
        text = pb.join_columns(count, tag, pb.encode_varints(texts, number.shape[1] - tag.shape[1]))
        value = np.where((texts > 0)[:, None], text, number)
        body = pb.join_columns(count, pb.encode_tag(note, "name_iid", pb.VARINT), pb.encode_varints(keys, 4), value)
        length = pb.encode_varints(np.array([body.shape[1]]), 1)
        return pb.join_columns(
            count, pb.encode_tag(self._protos.TrackEvent, "debug_annotations", pb.LENGTH), length, body
        )

    def _flow_pieces(self, slices: pl.DataFrame, flows: pl.DataFrame) -> Iterator[tuple[npt.NDArray[Any], pb.Bytes]]:
        places = slices.select("event").with_row_index("place")
        for end, field in (("from_event", "flow_ids"), ("to_event", "terminating_flow_ids")):
            here = flows.select("flow", event=end).join(places, on="event").sort("place", "flow")
            tag = pb.encode_tag(self._protos.TrackEvent, field, pb.FIXED64)
            yield (
                here["place"].to_numpy(),
                pb.join_columns(here.height, tag, pb.encode_fixed64(here["flow"].to_numpy())),
            )


def _assemble(
    protos: Any, slices: pl.DataFrame, heads: tuple[pb.Bytes, pb.Bytes],
    ends: tuple[npt.NDArray[np.int64], pb.Bytes, pb.Bytes], pieces: list[tuple[npt.NDArray[Any], pb.Bytes]],
) -> pb.Bytes:  # fmt: skip
    """Return the bytes of all packets of a chunk, in time order; at one moment ends come before begins."""
    end_times, end_head, end_body = ends
    count, end_count = slices.height, len(end_times)
    sizes = np.full(count, heads[1].shape[1], dtype=np.int64)
    starts = []
    for place, records in pieces:
        inside = np.bincount(place, minlength=count) * records.shape[1]
        starts.append(sizes.copy())
        sizes += inside
    bodies = np.concatenate([sizes, np.full(end_count, end_body.shape[1], dtype=np.int64)])
    times = np.concatenate([slices["ts_ns"].to_numpy(), end_times])
    kinds = np.concatenate([np.ones(count, np.int8), np.zeros(end_count, np.int8)])
    order = np.lexsort((np.arange(len(times)), kinds, times))
    prefix = _prefixes(protos, np.vstack([heads[0], end_head]), bodies)
    offsets = np.empty(len(times), dtype=np.int64)
    totals = prefix.shape[1] + bodies
    offsets[order] = np.concatenate([[0], np.cumsum(totals[order])[:-1]]) if len(times) else []
    out = np.empty(int(totals.sum()), dtype=np.uint8)
    pb.scatter(out, offsets, prefix)
    body_at = offsets + prefix.shape[1]
    pb.scatter(out, body_at[:count], heads[1])
    pb.scatter(out, body_at[count:], end_body)
    for (place, records), start in zip(pieces, starts, strict=True):
        if len(place):
            nth = np.arange(len(place)) - np.searchsorted(place, place)
            pb.scatter(out, body_at[place] + start[place] + nth * records.shape[1], records)
    return out


def _prefixes(protos: Any, heads: pb.Bytes, bodies: npt.NDArray[np.int64]) -> pb.Bytes:
    """Return what comes before each TrackEvent: the packet's tag and length, its head, the event's tag and length."""
    tag = pb.encode_tag(protos.TracePacket, "track_event", pb.LENGTH)
    inner = heads.shape[1] + tag.shape[1] + 4 + bodies
    outer = pb.encode_tag(protos.Trace, "packet", pb.LENGTH)
    return pb.join_columns(len(bodies), outer, pb.encode_varints(inner, 4), heads, tag, pb.encode_varints(bodies, 4))
