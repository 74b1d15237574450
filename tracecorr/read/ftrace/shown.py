"""One binary trace record as text: its event and fields, as the event's format names them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from tracecorr.read.ftrace.formats import Field, Format

# A record of a ring buffer (Linux `kernel/trace/ring_buffer.c`): 5 bits of type or length, 27 of time; then, where the
# type is zero, a word with the length; then the event: its id, flags and preemption count, and the thread.
_HEADER, _WORD, _MOST_WORDS = 4, 4, 28
_COMMON = 8


def render_record(record: bytes, formats: Mapping[int, Format]) -> str:
    """Return event, thread and fields of a record; "" where the bytes are no whole record of a known event.

    Args:
        record: the bytes of one record of a ring buffer, its header included.
        formats: by event id (`formats.parse_formats`).

    >>> fields = (Field("fd", "unsigned long", 16, 8, False),)
    >>> known = {770: Format("syscalls", "sys_enter_close", fields)}
    >>> data = (770).to_bytes(2, "little") + bytes(2) + (41).to_bytes(4, "little") + bytes(8) + b"\\x03" + bytes(7)
    >>> render_record((6).to_bytes(4, "little") + data, known)
    'sys_enter_close: fd=0x3 (thread 41)'
    """
    return render_event(_payload(record), formats)


def render_event(data: bytes, formats: Mapping[int, Format]) -> str:
    """Return event, thread and fields of a record without the header of its buffer; "" as `render_record`."""
    event = formats.get(int.from_bytes(data[:2], "little")) if len(data) >= _COMMON else None
    if event is None or any(field.offset + field.size > len(data) for field in event.fields):
        return ""
    thread = int.from_bytes(data[4:8], "little", signed=True)
    fields = "".join(f" {field.name}={_value(field, data)}" for field in event.fields if field.name != "__syscall_nr")
    return f"{event.name}:{fields} (thread {thread})"


def _payload(record: bytes) -> bytes:
    """Return the event of a record; nothing where its header tells another length than it has."""
    kind = int.from_bytes(record[:_HEADER], "little") & 0x1F
    start, size = _HEADER, _HEADER + _WORD * kind
    if kind == 0:
        # The word with the length counts itself.
        start, size = 2 * _WORD, _WORD + int.from_bytes(record[_WORD : 2 * _WORD], "little")
    return record[start:] if kind <= _MOST_WORDS and size == len(record) else b""


def _value(field: Field, data: bytes) -> str:
    """Return a field as text: signed numbers in decimal, others in hexadecimal, characters in quotes."""
    raw = data[field.offset : field.offset + field.size]
    number = partial(int.from_bytes, byteorder="little")
    if field.is_dynamic:
        told = number(raw)
        start = (told & 0xFFFF) + (field.offset + field.size if "__rel_loc" in field.type else 0)
        raw = data[start : start + (told >> 16)]
    elif not field.size:
        raw = data[field.offset :]
    if field.is_text:
        return '"' + raw.split(b"\0", 1)[0].decode("utf-8", "replace").rstrip("\n") + '"'
    if len(raw) not in (1, 2, 4, 8) or field.is_dynamic:
        return raw.hex() or "-"
    return str(number(raw, signed=True)) if field.signed else hex(number(raw))
