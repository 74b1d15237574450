"""Texts of binary trace_printk records: a format and the values that `vbin_printf` stored (Linux lib/vsprintf.c)."""

from __future__ import annotations

import re

_SPEC = re.compile(
    r"%(?:(?P<percent>%)|(?P<flags>[-+ #0]*)(?P<width>\*|\d+)?(?:\.(?P<precision>\*|\d+))?"
    r"(?P<size>hh|h|ll|l|z|t|L|j)?(?P<kind>[diouxXcs]|p(?P<pointer>[A-Za-z][A-Za-z0-9]*)?))"
)
_SIZES = {"hh": 1, "h": 2, "l": 8, "ll": 8, "z": 8, "t": 8, "L": 8, "j": 8}
# Kinds of pointers whose value is stored; the text of all others is.
_STORED = set("SsFfxKe")


def format_binary(text: str, data: bytes) -> str:
    """Return the text of format `text` with the values in `data`; one that is cut off becomes `?`.

    Args:
        text: a printf format of the kernel.
        data: the words that follow the format's address in a `bprint` record of a 64-bit kernel.
    """
    values = _Values(data)

    def convert(found: re.Match[str]) -> str:
        try:
            return _convert(found, values)
        except _CutOffError:
            return "?"

    return _SPEC.sub(convert, text)


class _CutOffError(Exception):
    """Say that the record ends before the value."""


class _Values:
    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def number(self, size: int, *, signed: bool) -> int:
        align = min(size, 4)
        self._at = -(-self._at // align) * align
        stored = self._data[self._at : self._at + size]
        self._at += size
        if len(stored) < size:
            raise _CutOffError
        return int.from_bytes(stored, "little", signed=signed)

    def string(self) -> str:
        text = self._data[self._at :].partition(b"\0")[0]
        self._at += len(text) + 1
        return text.decode("utf-8", "replace")


def _convert(found: re.Match[str], values: _Values) -> str:
    if found["percent"]:
        return "%"
    width, precision = (
        str(values.number(4, signed=True)) if found[name] == "*" else found[name] for name in ("width", "precision")
    )
    layout = "%" + (found["flags"] or "") + (width or "") + (f".{precision}" if precision is not None else "")
    kind = found["kind"]
    if kind == "s" or (kind.startswith("p") and (found["pointer"] or "x")[0] not in _STORED):
        return (layout + "s") % values.string()
    if kind.startswith("p"):
        return f"{values.number(8, signed=False):016x}"
    if kind == "c":
        return (layout + "c") % chr(values.number(1, signed=False))
    number = values.number(_SIZES.get(found["size"] or "", 4), signed=kind in "di")
    return (layout + kind.replace("i", "d").replace("u", "d")) % number
