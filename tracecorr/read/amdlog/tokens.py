"""The tables by which compiled code reads records and their messages, made of `messages.py` when a reader starts.

`records.c` finds the records of a block, `messages.c` turns their messages into rows. Both stop at a text that has no
code yet (a thread, the name of a call or kernel, a result); it gets one here, and they go on.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tracecorr import native
from tracecorr.model.columns import STREAM_MAKERS
from tracecorr.model.kinds import COMPLETE, LAYERS, NULL_STREAM
from tracecorr.native import Ints, Struct
from tracecorr.read.amdlog import messages
from tracecorr.read.amdlog.messages import (
    COMMAND_FORMS,
    MESSAGES,
    MORE_NAMES,
    MOST_NAMES,
    PACKET_KEYS,
    PACKET_KINDS,
    WORD_FIELDS,
    general_name,
)
from tracecorr.read.amdlog.torn import THREAD, is_whole_kernel

# Columns of all rows: the first ones hold addresses (0 = none), the last ones numbers (-1 = none).
WORDS = ("ring", "signal", "command", "stream", "arg")
SIGNED = ("size_bytes", "packet_index", "kernarg_bytes")
_TO_ARGS, _NOWHERE, _TO_WAITS, _TO_WORDS, _PACKET_COLUMNS = 8, 9, 10, 11, 12
# Columns of packets only.
PACKET_FIELDS = (
    "swq", "log_id", "header", "grid_x", "grid_y", "grid_z", "workgroup_x", "workgroup_y", "workgroup_z",
    "private_bytes", "group_bytes", "kernel_object", "kernarg", "rptr", "engine", "dst", "src", "stream_priority",
    "virtual_pipe", "cluster_x", "cluster_y", "cluster_z",
)  # fmt: skip
# Queues that a message names: by their ring or address, `queue` tells by the release, `any_queue` does not tell.
QUEUES = ("ring", "swq", "queue", "any_queue")
LISTS = ("texts", "streams", "grouped", "complaints", "unknown_forms", "packets")
_NAMES, _KERNELS, _RESULTS, _GENERAL = range(4)
_DONE, _NEW_TEXT, _NO_ROOM = range(3)
IS_TORN, IS_ROCR, IS_COMPLAINT, IS_INCOMPLETE = 1, 2, 4, 8
_BUCKETS, _FACTOR = 256, 0x9E3779B1
# Of what is left of a message that other output cut apart no name can be told.
_TORN_NAME = "(torn)"
_MOST_NAMES = 1 << 16
# Calls that do work on a stream that they are given.
_GIVEN_STREAMS = (
    "hipLaunch", "hipExtLaunch", "hipModuleLaunch", "hipExtModuleLaunch", "hipHccModuleLaunch", "hipMemcpy",
    "hipMemset", "hipMemPrefetch", "hipGraphLaunch", "hipEventRecord", "hipMallocAsync", "hipFreeAsync",
    "hipStreamSynchronize", "hipStreamQuery", "hipStreamWait", "hipStreamWrite", "hipStreamAddCallback",
    "hipStreamBatchMemOp", "hipStreamAttachMemAsync", "hipMallocFromPoolAsync", "hipDrvLaunch", "hipDrvMemcpy",
)  # fmt: skip
# Calls whose first argument is the event that they record or wait for; whose second one is an event, or an address.
_NAME_FIRST = ("hipEventRecord", "hipEventSynchronize", "hipEventQuery")
_NAME_SECOND = ("hipStreamWaitEvent", "hipStreamWaitValue", "hipStreamWriteValue")
_RESULT = re.compile(r"hipSuccess|hipError\w+|HIPRTC_\w+")
_DEVICE = re.compile(r", device id : \d+$")


@dataclass(frozen=True)
class Thread:
    """Name a process and thread as a prefix prints them.

    Args:
        pid: process; None if the prefix has none.
        tid: thread; None if the prefix has none.
        lane: keeps threads apart.
        length: bytes of the prefix.
        prints_ring: whether releases with this prefix print queues as HWq; None = some do.
    """

    pid: int | None = None
    tid: int | None = None
    lane: tuple[object, ...] = ()
    length: int = 0
    prints_ring: bool | None = None


def thread_of(text: bytes) -> Thread:
    """Return the thread that a prefix names; `text` is what stands before its last bracket."""
    found = THREAD.match(text + b"]")
    if not found:
        return Thread()
    pid, tid = found[1] or found[3], found[2] or found[5] or found[6]
    number = int(tid, 16)
    # ROCm <= 4.5 prints the pid with HIP calls only: there the tid alone names the thread.
    bare = found[6] or (found[3] and not found[4])
    lane = ("tid", number) if bare else ("pid", int(pid), number)
    # `tid: ` came with 6.3, queues are printed as HWq since 6.2; `N : [` went with 5.6.
    prints_ring = True if b"tid: " in text else (None if found[1] else False)
    printed = int(pid) if pid else None
    return Thread(
        printed if printed is None or printed < 1 << 32 else None, number if number < 1 << 64 else None, lane,
        len(text) + 1, prints_ring,
    )  # fmt: skip


class _Codes:
    """Give texts codes: equal values have one.

    Args:
        decode: turns the bytes of a text into its value.
        mark_of: tells a few bits of a value.
    """

    def __init__(self, decode: Callable[[bytes], Any], mark_of: Callable[[Any], int] = lambda _: 0) -> None:
        self.values: list[Any] = []
        self.table = native.HashTable()
        self.marks: npt.NDArray[np.int64] = np.zeros(64, np.int64)
        self._decode, self._mark_of = decode, mark_of
        self._by_value: dict[Any, int] = {}

    def code_of(self, value: Any) -> int:
        """Return the code of a value."""
        code = self._by_value.setdefault(value, len(self.values))
        if code == len(self.values):
            self.values.append(value)
            if code == len(self.marks):
                self.marks = np.append(self.marks, np.zeros(code, np.int64))
            self.marks[code] = self._mark_of(value)
        return code

    def learn(self, text: bytes, key: int) -> int:
        """Give a text a code; `key` is its hash."""
        code = self.code_of(self._decode(text))
        self.table.add_one(key, code)
        return code


def _decode(text: bytes) -> str:
    return text.decode("utf-8", "replace")


class _GeneralNames:
    """Give messages without a template names: at most `MOST_NAMES` different ones, then `MORE_NAMES`.

    Args:
        names: gives the names their codes.
    """

    def __init__(self, names: _Codes) -> None:
        self.table = native.HashTable()
        self._names, self._own, self._count = names, set[str](), 0

    def learn(self, message: bytes, key: int) -> int:
        """Return the code of a message's name; `key` is the hash of what such messages have in common."""
        name = general_name(message)
        if name not in self._own and len(self._own) >= MOST_NAMES:
            name = MORE_NAMES
        self._own.add(name)
        code = self._names.code_of(name)
        if self._count < 4 * MOST_NAMES:
            self._count += 1
            self.table.add_one(key, code)
        return code


def _mark_of_name(name: str) -> int:
    makes = name.startswith((*STREAM_MAKERS, "hipStreamDestroy"))
    streams = makes * 1 | name.startswith(_GIVEN_STREAMS) * 2 | name.endswith("_spt") * 4
    return streams | name.startswith(_NAME_FIRST) * 8 | name.startswith(_NAME_SECOND) * 16


class _Literals:
    """Put texts one behind the other."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._size = 0

    def place(self, text: str) -> int:
        self._parts.append(text.encode())
        self._size += len(self._parts[-1])
        return self._size - len(self._parts[-1])

    def bytes(self) -> npt.NDArray[np.uint8]:
        return np.frombuffer(b"".join(self._parts) + bytes(64), np.uint8)


def _ints(values: Any) -> Ints:
    return np.array(list(values), np.int64)


class Vocabulary:
    """Hold what `messages.py` says as numbers, and the codes of texts."""

    def __init__(self) -> None:
        self.threads = _Codes(thread_of, lambda thread: int(thread.length))
        self.threads.code_of(Thread())
        self.names = _Codes(_decode, _mark_of_name)
        self.kernels = _Codes(
            lambda text: _DEVICE.sub("", _decode(text).strip()), lambda name: int(is_whole_kernel(name.encode()))
        )
        self.results = _Codes(_decode, lambda value: int(bool(_RESULT.fullmatch(value))))
        self._general = _GeneralNames(self.names)
        self.fields: list[str] = []
        self._sinks: list[int] = []
        self._describe()

    def code_names(self, names: tuple[str, ...]) -> Ints:
        """Return the codes of some names."""
        return _ints(map(self.names.code_of, names))

    def _field(self, name: str, sink: int) -> int:
        """Return the number of a field whose values go to `sink`."""
        self.fields.append(name)
        self._sinks.append(sink)
        return len(self.fields) - 1

    def _describe(self) -> None:
        literals, of = _Literals(), Struct("Messages")
        self._describe_messages(of, literals)
        self._describe_packets(of, literals)
        forms = COMMAND_FORMS
        names = [-1 if name is None else self.names.code_of(name) for _, _, name, _ in forms]
        of.set(
            commands=len(forms),
            command=_ints(literals.place(before) for before, *_ in forms),
            command_size=_ints(len(before) for before, *_ in forms),
            behind=_ints(literals.place(behind) for _, behind, *_ in forms),
            behind_size=_ints(len(behind) for _, behind, *_ in forms),
            command_kind=_ints(kind for *_, kind in forms),
            command_name=_ints(names),
        )
        templates = [m.template for m in MESSAGES]
        hwq = self._field("hwq", _TO_ARGS)
        also = [hwq if name == "ring" and i < self._template_fields else -1 for i, name in enumerate(self.fields)]
        is_queue = [name in QUEUES and i < self._template_fields for i, name in enumerate(self.fields)]
        of.set(
            rocr=self._field("rocr", _TO_ARGS),
            slot=self._field("slot", _TO_ARGS),
            complete=next(i for i, m in enumerate(MESSAGES) if m.name == COMPLETE),
            shifted_copy=templates.index(messages.SHIFTED_COPY),
            other_layer=LAYERS.index("other"),
            torn_name=self.names.code_of(_TORN_NAME),
            success=self.results.code_of("hipSuccess"),
            null_stream=NULL_STREAM,
            packet_columns=len(PACKET_FIELDS),
            also=_ints([*also, -1, -1]),
            is_address=_ints([*is_queue, 0, 0]),
            sink=_ints(self._sinks),
            bytes=literals.bytes(),
        )
        self.described = of

    def _describe_messages(self, of: Struct, literals: _Literals) -> None:
        prefixes = [m.prefix for m in MESSAGES]
        first_of, following, wording = [-1] * _BUCKETS, [-1] * len(MESSAGES), [-1] * len(MESSAGES)
        # Shorter ones are put in before longer ones, so that the longest one comes first.
        for i in sorted(range(len(MESSAGES)), key=lambda i: (len(prefixes[i]), -i)):
            same = [j for j, prefix in enumerate(prefixes) if prefix == prefixes[i]]
            wording[i] = next((j for j in same if j > i), -1)
            if i == same[0]:
                bucket = (int.from_bytes(prefixes[i][:4], "little") * _FACTOR & 0xFFFFFFFF) >> 24
                following[i], first_of[bucket] = first_of[bucket], i
        step_to, fields, steps = [], [], []
        by_name: dict[str, int] = {}
        for message in MESSAGES:
            for name, literal in zip(message.steps[1::2], message.steps[2::2], strict=True):
                if name not in by_name:
                    by_name[name] = self._field(name, _sink_of(name))
                fields.append(by_name[name])
                steps.append(literal)
            step_to.append(len(steps))
        self._template_fields = len(self.fields)
        names = [self.names.code_of(m.name) for m in MESSAGES]
        of.set(
            first_of=_ints(first_of),
            following=_ints(following),
            wording=_ints(wording),
            prefix=_ints(literals.place(m.steps[0]) for m in MESSAGES),
            prefix_size=_ints(map(len, prefixes)),
            kind=_ints(m.kind for m in MESSAGES),
            has_text=_ints(m.has_text for m in MESSAGES),
            layer=_ints(LAYERS.index(m.layer or "other") for m in MESSAGES),
            name=_ints(names),
            step_from=_ints([0, *step_to[:-1]]),
            step_to=_ints(step_to),
            field=_ints(fields),
            literal=_ints(map(literals.place, steps)),
            literal_size=_ints(len(step.encode()) for step in steps),
        )

    def _describe_packets(self, of: Struct, literals: _Literals) -> None:
        keys, first = native.HashTable(), []
        for code, (key, names) in enumerate(PACKET_KEYS.items()):
            first.append(len(self.fields))
            for name in names:
                self._field(name, _packet_sink_of(name))
            keys.add_one(native.hash_text(key.encode()), code)
        self.word_fields = _ints(map(self._number_of, WORD_FIELDS))
        of.set(
            key_hashes=keys.keys,
            key_codes=keys.codes,
            key_mask=keys.mask,
            key_field=_ints(first),
            key_count=_ints(map(len, PACKET_KEYS.values())),
            # ROCm 5.6 to 6.0 print the mask of copy engines in hexadecimal without `0x`.
            key_base=_ints(16 if names == ("engine",) else 10 for names in PACKET_KEYS.values()),
            header=self._number_of("header"),
            rptr=self._number_of("rptr"),
            index=self._number_of("packet_index"),
            packets=len(PACKET_KINDS),
            packet=_ints(literals.place(text) for text, _ in PACKET_KINDS),
            packet_size=_ints(len(text) for text, _ in PACKET_KINDS),
            packet_name=_ints(self.names.code_of(name) for _, name in PACKET_KINDS),
            other_packet=self.names.code_of("packet"),
            metadata_packet=self.names.code_of("metadata_packet"),
        )

    def _number_of(self, packet_field: str) -> int:
        return self.fields.index(packet_field, self._template_fields)

    def learn(self, table: int, text: bytes, key: int) -> int:
        """Give a text of a message a code."""
        if table == _GENERAL:
            return self._general.learn(text, key)
        return (self.names, self.kernels, self.results)[table].learn(text, key)

    @property
    def is_full(self) -> bool:
        """Tell whether new names of calls are text of a program: no HIP has so many functions."""
        return len(self.names.values) >= _MOST_NAMES

    def describe_texts(self) -> Ints:
        """Return `Texts` of C, one row each: names, kernels, results, messages without template."""
        marked = (self.names, self.kernels, self.results)
        found = [(codes.table, codes.marks) for codes in marked] + [(self._general.table, self.names.marks)]
        return _ints([*table.pointers, native.address(marks)] for table, marks in found)


def _sink_of(name: str) -> int:
    if name in WORDS:
        return WORDS.index(name)
    if name in SIGNED:
        return len(WORDS) + SIGNED.index(name)
    # The kind of these queues follows from what was read before.
    return _NOWHERE if not name or name in ("queue", "any_queue") else _TO_ARGS


def _packet_sink_of(name: str) -> int:
    if name in PACKET_FIELDS:
        return _PACKET_COLUMNS + PACKET_FIELDS.index(name)
    if name in WORD_FIELDS:
        return _TO_WORDS
    return _TO_WAITS if name.startswith(("dep_", "wait_")) else _sink_of(name)
