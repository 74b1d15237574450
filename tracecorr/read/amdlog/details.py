"""Records to rows: what each message is and what it holds, read by compiled code (`native/messages.c`) and, where it
is rare or depends on what was read before, here."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tracecorr.model.columns import STREAM_MAKERS
from tracecorr.model.kinds import LOG_INDENT, LOG_LEVEL, LOG_MESSAGE, UNKNOWN_FORM
from tracecorr.native import KERNEL, Ints, Scratch, Struct, Words
from tracecorr.read.amdlog import messages
from tracecorr.read.amdlog.calls import Rows
from tracecorr.read.amdlog.messages import Kind
from tracecorr.read.amdlog.records import Records
from tracecorr.read.amdlog.tokens import LISTS, PACKET_FIELDS, QUEUES, SIGNED, WORDS, Vocabulary
from tracecorr.read.byte_text import Text

_DONE, _NEW_TEXT = 0, 1
# With the separators of a locale (`0x7fb,bb5,801`) or a doubled `0x`, as the runtime prints some pointers.
_HANDLE = re.compile(rb"(?:stream:)?0x(?:0x)?([0-9a-fA-F]+(?:,[0-9a-fA-F]{3})*)(?![0-9a-fA-F])")
_GROUPED = re.compile(rb"0x(?:0x)?([0-9a-f]{1,3}(?:,[0-9a-f]{3})+)(?:, | \))")
# Printed in hexadecimal, in some releases without `0x`.
_BARE = ("status", "free_mask")
_BROKEN = re.compile(r"\r?\n([ \t]*)")
_MOST_INDENT = 16
# Args and addresses of queues that a record has at most.
_MOST_VALUES = 40
_ROW_TYPES = {
    "offset": np.int64, "length": np.int64, "row_stamp": np.int64, "row_thread": np.int32, "row_name": np.int32,
    "result": np.int32, "kernel": np.int32, "told_us": np.int32, "row_kind": np.int8, "row_layer": np.int8,
    "row_flags": np.uint16, "is_rocr": np.bool_,
}  # fmt: skip


# Row, start and end of its message.
_Told = tuple[int, int, int]


@dataclass
class Args:
    """Collect rows of `PART_ARGS`: numbers of fields, and texts."""

    fields: list[str]
    numbers: list[tuple[Ints, Ints, Words]] = field(default_factory=list)
    texts: list[tuple[int, str, str]] = field(default_factory=list)

    def add(self, key: str, offsets: Ints, values: Words) -> None:
        """Add one number per offset."""
        if len(offsets):
            self.fields.append(key)
            self.numbers.append((np.full(len(offsets), len(self.fields) - 1), offsets, values))

    def add_one(self, key: str, offset: int, value: int) -> None:
        """Add one number."""
        self.add(key, np.array([offset], np.int64), np.array([value], np.uint64))

    def add_text(self, key: str, offset: int, text: str) -> None:
        """Add one text."""
        self.texts.append((offset, key, text))


@dataclass
class Details:
    """Hold the rows of a block, and what belongs to some of them.

    Args:
        rows: one per record that becomes a row, or belongs to one.
        packets: rows that are packets or copies.
        packet_fields: name -> value of each of them, and whether it has one.
        waits: places in `packets`, and signals or events that they wait for.
        unknown_forms: rows of messages with a known begin and an unknown rest.
    """

    rows: Rows
    packets: Ints
    packet_fields: dict[str, tuple[Words, Any]]
    waits: tuple[Ints, Words]
    args: Args
    unknown_forms: Ints

    @classmethod
    def none(cls, room: int) -> Details:
        """Return those of no rows."""
        none = np.zeros(0, np.int64)
        return cls(Rows(0, room=room), none, {}, (none, none.astype(np.uint64)), Args([]), none)


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
        """Return what it is: `ring`, `swq`, or `queue` if that cannot be told."""
        if self.as_ring or (not self.as_queue and self.prints_ring):
            return "ring"
        return "swq" if self.as_queue or self.prints_ring is False else "queue"


class DetailReader:
    """Read the messages of records; remembers names, kernels and addresses of queues."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        self.rings: set[int] = set()
        self.queues: set[int] = set()
        self.asked: set[Question] = set()
        self._scratch = Scratch()

    def read(self, text: Text, records: Records, base: int, room: int = 0) -> Details:
        """Return the rows of a block whose first byte has offset `base` in the file, with `room` for others before."""
        text, at, until = _with_messages(text, records)
        reading = self._read(text, records, base, at, until, room)
        count = reading["row"] - room
        rows = Rows(count, _columns_of(reading, room + count), room)
        lists = {name: _list_of(reading, i, room) for i, name in enumerate(LISTS)}
        args = Args(list(self._vocabulary.fields))
        packets, unknown = lists["packets"].rows, lists["unknown_forms"].rows
        details = Details(rows, packets, _packet_fields(reading), _waits_of(reading), args, unknown)
        _spread_clusters(details)
        addresses = self._take_values(reading, rows, args, room)
        told = {name: some.places(at, until) for name, some in lists.items() if name != "packets"}
        unread = self._read_texts(rows, text, told["texts"], args, addresses)
        told["unknown_forms"] += [place for place in unread if place[0] not in unknown]
        details.unknown_forms = np.array([row for row, _, _ in told["unknown_forms"]], np.int64)
        self._read_queues(rows, args, addresses)
        self._read_streams(rows, text, told["streams"], args)
        for row, start, stop in told["grouped"]:
            found = _GROUPED.match(text.slice(start, stop).partition(b" stream:")[2])
            if found:
                rows["stream"][row] = _address(found[1])
        for row, start, stop in told["unknown_forms"]:
            args.add_text(UNKNOWN_FORM, int(rows["offset"][row]), text.read(start, stop).strip())
        _read_complaints(rows, text, told["complaints"], lists["complaints"].levels(text, records), args)
        return details

    def _read(self, text: Text, records: Records, base: int, at: Ints, until: Ints, room: int) -> Struct:
        """Let compiled code read all messages; texts that are new to it get codes."""
        vocabulary, count = self._vocabulary, len(at)
        reading = Struct(
            "Reading", about=vocabulary.described, raw=text.bytes, base=base - text.start, count=count, at=at,
            until=until, start=records.start, end=records.end, stamp=records.stamp, thread=records.thread,
            message=records.message, own_end=records.own_end, flags=records.flags, answer=-1, row=room,
            tables=vocabulary.describe_texts(), names_full=vocabulary.is_full, stride=room + count,
        )  # fmt: skip
        take, columns = self._scratch.take, len(PACKET_FIELDS)
        reading.set(**{name: take(name, room + count, kind) for name, kind in _ROW_TYPES.items()})
        reading.set(
            words=take("words", (len(WORDS) + len(SIGNED)) * (room + count), np.uint64),
            lists=take("lists", 2 * len(LISTS) * count, np.int64),
            list_sizes=np.zeros(len(LISTS), np.int64),
            packet_values=take("packet_values", columns * count, np.uint64),
            packet_has=take("packet_has", columns * count, np.bool_),
        )
        _make_room(reading, count + _MOST_VALUES)
        while (status := KERNEL.read_messages(reading.address)) != _DONE:
            if status == _NEW_TEXT:
                told = text.slice(reading["text"], reading["text_end"])
                reading.set(answer=vocabulary.learn(reading["table"], told, reading["key"]))
                reading.set(tables=vocabulary.describe_texts(), names_full=vocabulary.is_full)
            else:
                _make_room(reading, 2 * reading["values_room"])
        return reading

    def _take_values(self, reading: Struct, rows: Rows, args: Args, room: int) -> list[tuple[int, str, int]]:
        """Add the args that compiled code read; return rows, fields and addresses of queues."""
        count = reading["values"]
        fields, of_row, values = (reading[name][:count] for name in ("value_field", "value_row", "value"))
        names = self._vocabulary.fields
        is_word = np.isin(fields, self._vocabulary.word_fields)
        for field_of, row, code in zip(*(a[is_word].tolist() for a in (fields, of_row, values)), strict=True):
            args.add_text(names[field_of], int(rows["offset"][row - room]), self._vocabulary.results.values[code])
        is_arg = (fields >= 0) & ~is_word
        if is_arg.any():
            args.numbers.append((fields[is_arg], rows["offset"][of_row[is_arg] - room], values[is_arg]))
        queues = np.flatnonzero(fields < 0)
        found = zip(of_row[queues].tolist(), fields[queues].tolist(), values[queues].tolist(), strict=True)
        return [(row - room, names[-1 - number], value) for row, number, value in found]

    def _read_texts(
        self, rows: Rows, text: Text, some: list[_Told], args: Args, queues: list[tuple[int, str, int]]
    ) -> list[_Told]:
        """Read messages that hold text; add the queues that they name (row, `any_queue`, address) to `queues`.

        Returns: those that are whole and in another form than is known here.
        """
        names, unread = self._vocabulary.names.values, []
        for row, start, stop in some:
            found = messages.TEXTS[names[rows["name"][row]]].match(text.read(start, stop).strip())
            if found is None and not rows["flags"][row]:
                unread.append((row, start, stop))
            for key, value in found.groupdict().items() if found else ():
                if value is None:
                    continue
                number = _number(key, value)
                if key in QUEUES and number is not None:
                    queues.append((row, key, number))
                elif key in WORDS and number is not None:
                    rows[key][row] = number
                elif number is not None:
                    args.add_one(key, int(rows["offset"][row]), number)
                else:
                    args.add_text(key, int(rows["offset"][row]), value)
        return unread

    def _read_queues(self, rows: Rows, args: Args, addresses: list[tuple[int, str, int]]) -> None:
        """Tell what addresses of queues are, in the order of the file: a line says nothing about those before it."""
        threads = self._vocabulary.threads.values
        for row, name, value in sorted(addresses):
            if name in ("ring", "swq"):
                (self.rings if name == "ring" else self.queues).add(value)
                continue
            prints_ring = threads[int(rows["thread"][row])].prints_ring if name == "queue" else None
            question = Question(value, value in self.rings, value in self.queues, prints_ring)
            self.asked.add(question)
            if question.answer() == "ring":
                rows["ring"][row] = value
            else:
                args.add_one(question.answer(), int(rows["offset"][row]), value)

    def _read_streams(self, rows: Rows, text: Text, some: list[_Told], args: Args) -> None:
        """Read the calls that make and destroy streams: the stream, its flags and its priority."""
        names = self._vocabulary.names.values
        for row, start, stop in some:
            name, offset, line = names[rows["name"][row]], int(rows["offset"][row]), text.slice(start, stop)
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


@dataclass(frozen=True)
class _List:
    """Hold some rows, and their records."""

    rows: Ints
    records: Ints

    def places(self, at: Ints, until: Ints) -> list[_Told]:
        """Return the rows with start and end of their messages, given those of all records."""
        return list(zip(*(a.tolist() for a in (self.rows, at[self.records], until[self.records])), strict=True))

    def levels(self, text: Text, records: Records) -> Words:
        """Return the level that each was printed with."""
        return (text.bytes[records.start[self.records] + 1] - np.uint8(ord("0"))).astype(np.uint64)


def _read_complaints(rows: Rows, text: Text, some: list[_Told], levels: Words, args: Args) -> None:
    """Add level and whole message of errors and warnings to `args`: a row's name is short, without numbers."""
    offsets = rows["offset"]
    args.add(LOG_LEVEL, np.array([offsets[row] for row, _, _ in some], np.int64), levels)
    for row, start, stop in some:
        args.add_text(LOG_MESSAGE, int(offsets[row]), _BROKEN.sub(_join_lines, text.read(start, stop).strip()))
        blanks = start - len(text.slice(start - _MOST_INDENT, start).rstrip(b" ")) - (start - _MOST_INDENT)
        if blanks > 1:
            args.add_one(LOG_INDENT, int(offsets[row]), blanks - 1)


def _join_lines(broken: re.Match[str]) -> str:
    """Return what stands between two lines of a message: a blank, unless a word was broken."""
    return " " if broken[1] else ""


def _with_messages(text: Text, records: Records) -> tuple[Text, Ints, Ints]:
    """Return a text that holds the messages of torn records put together, and where the messages of all records lie."""
    at, until = records.message, records.end
    if records.messages:
        torn = sorted(records.messages)
        put_together = [records.messages[i] for i in torn]
        text, begin = text.with_texts(put_together)
        at, until = at.copy(), until.copy()
        at[torn], until[torn] = begin, begin + np.array([len(message) for message in put_together], np.int64)
    return text, at, until


def _make_room(reading: Struct, room: int) -> None:
    """Make room for so many args and addresses, and as many waits of packets."""
    kinds = {
        "value_field": np.int64, "value_row": np.int64, "value": np.uint64, "wait_packet": np.int64,
        "wait_value": np.uint64,
    }  # fmt: skip
    for name, kind in kinds.items():
        grown = np.empty(room, kind)
        if name in reading.held:
            grown[: len(reading[name])] = reading[name]
        reading.set(**{name: grown})
    reading.set(values_room=room)


def _columns_of(reading: Struct, size: int) -> dict[str, Any]:
    """Return the columns of rows that have a value, with the room before them."""
    columns = {name.removeprefix("row_"): reading[name][:size] for name in _ROW_TYPES}
    words, present = reading["words"].reshape(len(WORDS) + len(SIGNED), reading["stride"]), reading["present"]
    for i, name in enumerate((*WORDS, *SIGNED)):
        if present >> i & 1:
            columns[name] = words[i, :size] if name in WORDS else words[i, :size].view(np.int64)
    if not present >> len((*WORDS, *SIGNED)) & 1:
        del columns["told_us"]
    return columns


def _list_of(reading: Struct, number: int, room: int) -> _List:
    of, size = reading["lists"].reshape(len(LISTS), 2, reading["count"])[number], reading["list_sizes"][number]
    return _List(of[0, :size] - room, of[1, :size].copy())


def _packet_fields(reading: Struct) -> dict[str, tuple[Words, Any]]:
    """Return the columns of packets; their memory is free for the next block."""
    columns, count = len(PACKET_FIELDS), int(reading["list_sizes"][LISTS.index("packets")])
    values, has = (
        reading[name].reshape(columns, reading["count"])[:, :count] for name in ("packet_values", "packet_has")
    )
    found = {name: (values[i].copy(), has[i].copy()) for i, name in enumerate(PACKET_FIELDS) if has[i].any()}
    has[:], values[:] = False, 0
    return found


def _spread_clusters(details: Details) -> None:
    """Turn the grids of dispatches that count clusters into work-items; what a cluster holds goes to `args`.

    Their lines print clusters, workgroups of a cluster and work-items of a workgroup (`logAqlDispatchPacketExtended` of
    rocvirtual.cpp).
    """
    fields = details.packet_fields
    for axis in "xyz":
        if f"cluster_{axis}" not in fields:
            continue
        size, has = fields.pop(f"cluster_{axis}")
        grid, is_told = fields.get(f"grid_{axis}", (np.zeros_like(size), np.zeros_like(has)))
        workgroup, is_known = fields.get(f"workgroup_{axis}", (grid, np.zeros_like(has)))
        fields[f"grid_{axis}"] = np.where(has, grid * size * workgroup, grid), is_told & (is_known | ~has)
        details.args.add(f"cluster_{axis}", details.rows["offset"][details.packets[has]], size[has])


def _waits_of(reading: Struct) -> tuple[Ints, Words]:
    return reading["wait_packet"][: reading["waits"]], reading["wait_value"][: reading["waits"]]


def _number(key: str, value: str) -> int | None:
    if re.fullmatch(r"[0-9a-f]{1,16}" if key in _BARE else r"0x[0-9a-fA-F]{1,16}", value):
        return int(value, 16)
    return int(value) if re.fullmatch(r"\d{1,19}", value) else None


def _address(digits: bytes) -> int:
    """Return an address, perhaps with the separators of a locale; 0 if it has more than 64 bits."""
    number = int(digits.replace(b",", b""), 16)
    return number if number < 1 << 64 else 0
