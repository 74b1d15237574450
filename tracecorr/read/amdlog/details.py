"""What the messages of a batch of blocks hold: commands, kernels, fields, packets, streams."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import numpy as np

from tracecorr import native
from tracecorr.model.hip_names import STREAM_MAKERS
from tracecorr.model.kinds import COMPLETE, LAYERS, NULL_STREAM, Flag
from tracecorr.read.amdlog import messages
from tracecorr.read.amdlog.classify import Classifier
from tracecorr.read.amdlog.commands import CommandReader
from tracecorr.read.amdlog.fields import FieldReader
from tracecorr.read.amdlog.frames import Args
from tracecorr.read.amdlog.messages import MESSAGES, Kind
from tracecorr.read.amdlog.packets import PacketReader, Packets, without_slots
from tracecorr.read.amdlog.records import Lines
from tracecorr.read.amdlog.rows import NULLS, Rows
from tracecorr.read.amdlog.shapes import Fields
from tracecorr.read.amdlog.split import Thread
from tracecorr.read.amdlog.wholeness import is_whole_kernel
from tracecorr.read.digits import Ints, Words
from tracecorr.read.text import Codes, Text

# With the separators of a locale (`0x7fb,bb5,801`) or a doubled `0x`, as the runtime prints some pointers.
_HANDLE = re.compile(rb"(?:stream:)?0x(?:0x)?([0-9a-fA-F]+(?:,[0-9a-fA-F]{3})*)(?![0-9a-fA-F])")
_GROUPED = re.compile(rb"0x(?:0x)?([0-9a-f]{1,3}(?:,[0-9a-f]{3})+)(?=, | \))")
# How far behind its beginning a message is looked for the stream; longer ones are read as if they were given none.
_CALL_BYTES = 240
# A queue whose ring or address a message prints: which one, `queue` tells by the release, `any_queue` does not tell.
_QUEUES = ("ring", "swq", "queue", "any_queue")
# Printed in hexadecimal, in some releases without `0x`.
_BARE = ("status", "free_mask")
_SHIFTED_COPY = [m.template for m in MESSAGES].index(messages.SHIFTED_COPY)
_SHIFTED = ("signal", "size_bytes", "wait_event")
# Bytes before the rest of each message.
_PREFIX = np.array([len(m.prefix) for m in MESSAGES] + [0], np.int64)
_DEVICE = re.compile(r", device id : \d+$")


@dataclass
class Details:
    """Hold the packets and args of a batch; the other details are in its rows.

    Args:
        packets: rows that are packets or copies.
        packet_fields: name -> value of each of them, and whether it has one.
        waits: places in `packets`, and signals or events that they wait for.
    """

    packets: Ints
    packet_fields: Fields
    waits: list[tuple[Ints, Words]] = field(default_factory=list)
    args: Args = field(default_factory=Args)

    @classmethod
    def none(cls) -> Details:
        """Return those of no rows."""
        return cls(np.zeros(0, np.int64), {})


@dataclass(frozen=True)
class Question:
    """Hold an address whose meaning depends on what was seen before it: ROCm <= 6.1 prints the SWq without saying so.

    Args:
        address: as the line prints it.
        as_ring, as_queue: whether it was seen as a ring (HWq), as a queue (SWq).
        prints_ring: what lines of this release print; None = not known.
    """

    address: int
    as_ring: bool
    as_queue: bool
    prints_ring: bool | None

    def answer(self) -> str:
        """Return what it is: `ring`, `swq`, or `queue` where that cannot be told."""
        if self.as_ring or (not self.as_queue and self.prints_ring):
            return "ring"
        return "swq" if self.as_queue or self.prints_ring is False else "queue"


class DetailReader:
    """Read the messages of rows; remembers kernels and queue addresses."""

    def __init__(self, classifier: Classifier) -> None:
        self.kernels = Codes(lambda text: _DEVICE.sub("", text.decode("utf-8", "replace").strip()))
        self._is_whole: list[bool] = []
        self._classifier = classifier
        self._commands, self._fields = CommandReader(classifier), FieldReader()
        self._packets = PacketReader()
        self.rings: set[int] = set()
        self.queues: set[int] = set()
        self.asked: set[Question] = set()

    def read(self, lines: Lines, threads: list[Thread]) -> Details:
        """Complete the rows of a block, and return the rest that their messages tell."""
        details = Details.none()
        text, rows, at, end, about = lines.text, lines.rows, lines.at, lines.end, lines.subjects
        self._commands.read(text, rows, about["commands"], at, end)
        self._read_kernels(lines)
        self._read_fields(lines, details.args, threads)
        self._read_packets(lines, details)
        self._read_streams(lines, details.args)
        self._read_given_streams(lines)
        self._read_others(text, rows, at, end)
        return details

    def _read_kernels(self, lines: Lines) -> None:
        text, rows, shaders = lines.text, lines.rows, lines.subjects["kernels"]
        start, stop = lines.at[shaders] + _PREFIX[lines.messages_of(shaders)], lines.end[shaders]
        codes = self.kernels.encode(text, start, stop)
        self._is_whole += [is_whole_kernel(name.encode()) for name in self.kernels.values[len(self._is_whole) :]]
        # Of a name that was cut apart nothing is sure; one that reached the runtime's limit is its beginning.
        torn = ~np.array(self._is_whole, np.bool_)[codes] & (rows["flags"][shaders] & int(Flag.CUT) == 0)
        rows["kernel"][shaders] = np.where(torn, -1, codes)
        if torn.any():
            rows["flags"][shaders[torn]] |= int(Flag.TORN)

    def _read_fields(self, lines: Lines, args: Args, threads: list[Thread]) -> None:
        rows, some = lines.rows, lines.subjects["fields"]
        addresses = self._read_texts(lines, args)
        for item in self._fields.read(lines.text, some, lines.messages_of(some), lines.at[some], lines.end[some]):
            if item.name in _QUEUES:
                pairs = zip(item.rows.tolist(), item.values.tolist(), strict=True)
                addresses += [(row, item.name, value) for row, value in pairs]
            if item.name == "kernarg_bytes":
                rows["kernarg_bytes"][item.rows] = _signed(item.values)
            elif item.name == "size_bytes":
                rows["size_bytes"][item.rows] = _signed(item.values)
            elif item.name in messages.COLUMNS:
                rows[item.name][item.rows] = item.values
            elif item.name not in ("queue", "any_queue"):
                args.add(item.name, rows["offset"][item.rows], item.values)
            if item.name == "ring":
                args.add("hwq", rows["offset"][item.rows], item.values)
        # In the order of the file: a line says nothing about those before it.
        for row, name, value in sorted(addresses):
            if name == "queue":
                self._read_queue(rows, args, row, value, threads[int(rows["thread"][row])].prints_ring)
            elif name == "any_queue":
                self._read_queue(rows, args, row, value, None)
            else:
                (self.rings if name == "ring" else self.queues).add(value)

    def _read_texts(self, lines: Lines, args: Args) -> list[tuple[int, str, int]]:
        """Read messages that hold text; return the queues that they name: row, `any_queue`, address."""
        names, rows, queues = self._classifier.names.values, lines.rows, []
        for row in lines.subjects["texts"].tolist():
            told = lines.text.read(int(lines.at[row]), int(lines.end[row])).strip()
            found = messages.TEXTS[names[rows["name"][row]]].match(told)
            for key, value in found.groupdict().items() if found else ():
                if value is None:
                    continue
                number = _number(key, value)
                if key == "any_queue" and number is not None:
                    queues.append((row, key, number))
                elif key in messages.COLUMNS and number is not None:
                    rows[key][row] = number
                elif number is not None:
                    args.add_one(key, int(rows["offset"][row]), number)
                else:
                    args.add_text(key, int(rows["offset"][row]), value)
        return queues

    def _read_queue(self, rows: Rows, args: Args, row: int, value: int, prints_ring: bool | None) -> None:
        question = Question(value, value in self.rings, value in self.queues, prints_ring)
        self.asked.add(question)
        key = question.answer()
        if key == "ring":
            rows["ring"][row] = value
        else:
            args.add_one(key, int(rows["offset"][row]), value)

    def _read_packets(self, lines: Lines, details: Details) -> None:
        rows, packets = lines.rows, lines.subjects["packets"]
        found = self._packets.read(lines.text, lines.at[packets], lines.end[packets])
        is_packet = rows["kind"][packets] == Kind.PACKET
        # A line that was cut before its header is no packet that could be counted.
        broken = is_packet & (found.kind < 0)
        if broken.any():
            rows["kind"][packets[broken]] = Kind.OTHER
            rows["layer"][packets[broken]] = LAYERS.index("other")
            found, packets, is_packet = found.take(~broken), packets[~broken], is_packet[~broken]
        if is_packet.any():
            codes = np.array([self._classifier.names.code_of(name) for name in found.names], np.int64)
            rows["name"][packets[is_packet]] = codes[found.kind[is_packet]]
        rocr = packets[is_packet & rows["is_rocr"][packets]]
        details.args.add("rocr", rows["offset"][rocr], np.ones(len(rocr), np.uint64))
        details.packets = packets
        found.forget(_SHIFTED, lines.messages_of(packets) == _SHIFTED_COPY)
        _keep_fields(rows, details, found)

    def _read_streams(self, lines: Lines, args: Args) -> None:
        names, rows = self._classifier.names.values, lines.rows
        for row in lines.subjects["streams"].tolist():
            name, offset = names[rows["name"][row]], int(rows["offset"][row])
            line = lines.text.slice(int(lines.at[row]), int(lines.end[row]))
            if rows["kind"][row] == Kind.EXIT:
                handle = _HANDLE.search(line.partition(b": Returned hipSuccess : ")[2])
                if handle and name.startswith(STREAM_MAKERS):
                    rows["stream"][row] = _address(handle[1])
                continue
            given = [a.strip() for a in line.partition(b" ( ")[2].rpartition(b")")[0].split(b", ")]
            if name.startswith("hipStreamDestroy"):
                handle = _HANDLE.match(given[0])
                rows["stream"][row] = _address(handle[1]) if handle else 0
            for key, value in zip(("flags", "priority"), given[1:], strict=False):
                if re.fullmatch(rb"-?\d{1,18}", value) and name.startswith(STREAM_MAKERS[0]):
                    args.add_one(key, offset, int(value) & 0xFFFFFFFFFFFFFFFF)

    def _read_given_streams(self, lines: Lines) -> None:
        """Read the stream that a call is given, where the release says what is one (`stream:0x..`, up to 7.1).

        The null stream (`stream:<null>`) gets the handle that HIP has for it, hipStreamLegacy; functions compiled for a
        default stream per thread (`_spt`) mean another one by it.
        """
        text, rows, asked = lines.text, lines.rows, lines.subjects["given_streams"]
        end = lines.end[asked]
        # Of what calls are given nothing else ends so.
        place = native.find_pairs(text.bytes, lines.at[asked], end, _CALL_BYTES, b"m:") + 1
        named = np.flatnonzero(place > 0)
        named = named[text.starts_with(place[named] - len(" stream"), b" stream:")]
        asked, place, end = asked[named], place[named], end[named]
        value, stop, good = text.number(place + 1)
        # Of a handle that is cut, or has the separators of a locale, only the first digits would be read.
        good &= text.starts_with(stop, b", ") | text.starts_with(stop, b" )")
        for row in np.flatnonzero(~good & text.starts_with(stop, b",")).tolist():
            grouped = _GROUPED.match(text.slice(int(place[row]) + 1, int(end[row])))
            if grouped:
                value[row] = _address(grouped[1])
                good[row] = value[row] > 0
        spt = np.array([name.endswith("_spt") for name in self._classifier.names.values], np.bool_)
        null = np.where(spt[rows["name"][asked]], np.uint64(0), np.uint64(NULL_STREAM))
        rows["stream"][asked[good]] = np.where(value == 0, null, value)[good]

    def _read_others(self, text: Text, rows: Rows, at: Ints, end: Ints) -> None:
        # Other messages that begin like it (`Command creation ..`) name no command.
        complete = (rows["name"] == self._classifier.names.code_of(COMPLETE)) & (rows["kind"] == Kind.ROW)
        rows["kind"][complete & (rows["command"] == NULLS["command"])] = Kind.OTHER
        others = np.flatnonzero(rows["kind"] == Kind.OTHER)
        rows["name"][others] = self._classifier.general(text, at[others], end[others])
        rows["layer"][others] = LAYERS.index("other")
        rows["kind"][others] = Kind.ROW


def _keep_fields(rows: Rows, details: Details, found: Packets) -> None:
    packets = details.packets
    details.waits = [(at, values) for _, at, values in found.waits]
    for name, (values, present) in without_slots(found.fields, rows["is_rocr"][packets]).items():
        if name == "slot":
            details.args.add(name, rows["offset"][packets[present]], values[present])
            continue
        if name in ("ring", "signal"):
            rows[name][packets] = values
        elif name in ("packet_index", "size_bytes"):
            rows[name][packets] = np.where(present, _signed(values), -1)
        details.packet_fields[name] = values, present


def _number(key: str, value: str) -> int | None:
    is_number = re.fullmatch(r"[0-9a-f]{1,16}" if key in _BARE else r"0x[0-9a-fA-F]{1,16}", value)
    return int(value, 16) if is_number else None


def _address(digits: bytes) -> int:
    """Return an address, perhaps with the separators of a locale; 0 where it has more than 64 bits."""
    number = int(digits.replace(b",", b""), 16)
    return number if number < 1 << 64 else 0


def _signed(values: Words) -> Ints:
    # A number that cannot be a size or an index (garbage of 5.4) becomes null.
    return np.maximum(values.astype(np.int64), -1)
