"""Text from logs, traces, file and process names, made safe for terminals and pipes; raw records as text."""

from __future__ import annotations

import re
from collections.abc import Callable

from tracecorr.model.errors import TracecorrError

# C0 and C1 controls (ECMA-48), the bidirectional controls of Unicode (UAX 9), line and paragraph separators, and
# surrogates: they stand for the bytes of a file name that are not UTF-8 (PEP 383), and no stream can encode them.
_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def printable(text: object, keep: str = "") -> str:
    r"""Return a text in which every control character is an escape sequence such as `\x1b` or `\u202e`.

    Everything that tracecorr writes as text goes through here: a kernel, file or process may be named so that
    a raw name would set the title of the terminal, write its clipboard or turn the order of a line.

    Args:
        text: what is printed; anything else than a text is converted.
        keep: control characters that stay, such as the newlines of a text of several lines.

    >>> printable("k\x1b[31m"), printable("a\nb"), printable("a\nb", keep="\n")
    ('k\\x1b[31m', 'a\\nb', 'a\nb')
    >>> printable("\u202e"), printable("hip\udcff_1")
    ('\\u202e', 'hip\\xff_1')
    """
    return _UNSAFE.sub(lambda found: found[0] if found[0] in keep else _escape(found[0]), str(text))


def _escape(sign: str) -> str:
    if "\udc80" <= sign <= "\udcff":
        return f"\\x{ord(sign) - 0xDC00:02x}"
    return sign.encode("unicode_escape").decode()


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
