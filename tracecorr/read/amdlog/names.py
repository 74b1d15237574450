"""Names of messages that have no template: their text with numbers and addresses as `#`."""

from __future__ import annotations

import re

_VARIABLES = re.compile(r"\(nil\)|0x[0-9a-fA-F]+h?|\b[0-9a-f]{6,16}\b|\d+")
_MOST_BYTES, _MOST_CHARACTERS = 400, 48
# A log has some hundred messages; texts of a program in them must not become names without end.
MOST_NAMES, MORE_NAMES = 4096, "(more)"


def general_name(message: bytes) -> str:
    """Return the message with its numbers and addresses as `#`, cut to 48 characters."""
    text = _VARIABLES.sub("#", message[:_MOST_BYTES].decode("utf-8", "replace"))
    # Blanks before the first character do not count.
    text = text.strip()[:_MOST_CHARACTERS]
    if not text.isprintable():
        text = "".join(c if c.isprintable() else "?" for c in text)
    return text.strip() or "(empty)"
