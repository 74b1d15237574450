"""A raw record as somebody reads it: lines without colours, binary records with their fields and bytes."""

from __future__ import annotations

import re
from collections.abc import Callable

from tracecorr.model.errors import TracecorrError

_ESCAPES = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_MOST_BYTES = 512


def show_record(data: bytes, describe: Callable[[bytes], str]) -> str:
    """Return the text of a record; of a binary one its event and fields, then its bytes in hexadecimal.

    Args:
        data: the bytes of the record.
        describe: names event and fields of a binary record, "" where it cannot (`Capture.record_text`).

    >>> show_record(b"\\x1b[32m hipMalloc \\x1b[0m\\n", lambda record: "")
    ' hipMalloc '
    >>> show_record(b"\\x00\\x01", lambda record: "doorbell: val=0x1")
    'doorbell: val=0x1\\n0001'
    """
    if b"\0" in data:
        return "\n".join(filter(None, [_describe(data, describe), data[:_MOST_BYTES].hex(" ", 4)]))
    return _ESCAPES.sub("", data.decode("utf-8", "replace")).rstrip("\r\n")


def _describe(data: bytes, describe: Callable[[bytes], str]) -> str:
    try:
        return describe(data)
    except (OSError, ValueError, KeyError, TracecorrError):
        # Without what describes them the bytes are shown alone.
        return ""
