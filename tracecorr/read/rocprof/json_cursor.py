"""Walk through a JSON text member by member: where each value stands is known, and only one of them is in memory."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

_BLANK = re.compile(r"[\s,:]*")
_DECODER = json.JSONDecoder()


class CutError(ValueError):
    """The text ends or is damaged where something was expected."""


class Cursor:
    """Stand at one place of a JSON text.

    Whoever takes a member or an element moves the cursor behind its value before taking the next one.

    Args:
        text: the JSON.
        at: where to start.
    """

    def __init__(self, text: str, at: int = 0) -> None:
        self.text, self.at = text, at

    def peek(self) -> str:
        """Return the next character that says something, and stand there.

        Raises:
            CutError: there is none.
        """
        found = _BLANK.match(self.text, self.at)
        self.at = found.end() if found else self.at
        if self.at >= len(self.text):
            raise CutError
        return self.text[self.at]

    def decode(self) -> Any:
        """Return the value that begins here, and stand behind it.

        Raises:
            CutError: there is no whole value.
        """
        self.peek()
        try:
            value, self.at = _DECODER.raw_decode(self.text, self.at)
        except ValueError as error:
            raise CutError from error
        return value

    def members(self) -> Iterator[str]:
        """Yield the key of each member of the object that begins here, standing at its value."""
        for _ in self._inside("{", "}"):
            key = str(self.decode())
            self.peek()
            yield key

    def elements(self) -> Iterator[None]:
        """Yield once for each element of the list that begins here, standing at it."""
        yield from self._inside("[", "]")

    def _inside(self, first: str, last: str) -> Iterator[None]:
        if self.peek() != first:
            raise CutError
        self.at += 1
        while self.peek() != last:
            here = self.at
            yield
            if self.at == here:
                raise CutError
        self.at += 1
