"""Names of messages that have no template: their text with numbers and addresses as `#`."""

from __future__ import annotations

import re

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from tracecorr.model.arrow import take_column
from tracecorr.read.digits import Ints
from tracecorr.read.text import Codes, Text

_VARIABLE = r"\(nil\)|0x[0-9a-fA-F]+h?|\b[0-9a-f]{6,16}\b|\d+"
_VARIABLES = re.compile(_VARIABLE)
_MOST_BYTES, _MOST_CHARACTERS = 400, 48
# Fewer are named one by one.
_FEW = 200
# A log has some hundred messages; texts of a program in them must not become names without end.
MOST_NAMES, MORE_NAMES = 4096, "(more)"


def general_name(message: bytes) -> str:
    """Return the message with its numbers and addresses as `#`, cut to 48 characters."""
    return _finish(_VARIABLES.sub("#", message[:_MOST_BYTES].decode("utf-8", "replace")))


def _finish(text: str) -> str:
    # Blanks before the first character do not count.
    text = text.strip()[:_MOST_CHARACTERS]
    if not text.isprintable():
        text = "".join(c if c.isprintable() else "?" for c in text)
    return text.strip() or "(empty)"


class GeneralNames:
    """Give messages without a template codes of names: at most `MOST_NAMES` different ones, then `MORE_NAMES`.

    Args:
        names: what the codes stand for.
    """

    def __init__(self, names: Codes) -> None:
        self._names = names
        # Texts without their numbers -> code.
        self._known: dict[str, int] = {}
        self._own: set[str] = set()

    def encode(self, text: Text, at: Ints, end: Ints) -> Ints:
        """Return the code of the name of each message."""
        size = np.minimum(end - at, _MOST_BYTES)
        if len(at) <= _FEW:
            spans = zip(at.tolist(), (at + size).tolist(), strict=True)
            texts = [_VARIABLES.sub("#", text.read(i, j)) for i, j in spans]
            return np.array([self._code_of(one) for one in texts], np.int64)
        ends = np.cumsum(size)
        data = text.bytes[np.repeat(at - (ends - size), size) + np.arange(int(ends[-1]))]
        beyond = np.concatenate((np.zeros(1, np.int64), np.cumsum(data >= 0x80)))
        is_plain = beyond[ends] == beyond[ends - size]
        codes = np.empty(len(at), np.int64)
        plain = data if is_plain.all() else data[np.repeat(is_plain, size)]
        codes[is_plain] = self._encode_plain(plain, size[is_plain])
        # What is beyond ASCII may be no UTF-8 at all.
        for row in np.flatnonzero(~is_plain).tolist():
            one = text.read(int(at[row]), int(at[row] + size[row]))
            codes[row] = self._code_of(_VARIABLES.sub("#", one))
        return codes

    def _encode_plain(self, data: npt.NDArray[np.uint8], size: Ints) -> Ints:
        """Return the codes of ASCII messages, one behind the other in `data`."""
        starts = pa.py_buffer(np.concatenate((np.zeros(1, np.int64), np.cumsum(size))))
        texts = pa.LargeStringArray.from_buffers(len(size), starts, pa.py_buffer(data))
        reduced = take_column(texts).str.replace_all(_VARIABLE, "#")
        rows = pl.DataFrame({"text": reduced, "row": np.arange(len(size))})
        found = rows.group_by("text", maintain_order=True).agg("row")
        codes = np.empty(len(size), np.int64)
        each = np.array([self._code_of(one) for one in found["text"]], np.int64)
        codes[found["row"].explode().to_numpy()] = np.repeat(each, found["row"].list.len().to_numpy())
        return codes

    def _code_of(self, text: str) -> int:
        code = self._known.get(text)
        if code is None:
            name = _finish(text)
            if name not in self._own and len(self._own) >= MOST_NAMES:
                name = MORE_NAMES
            self._own.add(name)
            code = self._names.code_of(name)
            if len(self._known) < 4 * MOST_NAMES:
                self._known[text] = code
        return code
