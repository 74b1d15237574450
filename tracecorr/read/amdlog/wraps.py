"""Records that a terminal or a mail wrapped over several lines, put together where only one way fits.

A terminal breaks a line where its width ends, a mail at a blank. A record whose prefix is cut goes
on for sure, and shows the width; so does one that fills several lines. A mail's lines are put together
where nothing but a whole message fits. Once a width is known, whatever fills a line of it goes on.
"""

from __future__ import annotations

import re

from tracecorr.read.amdlog import wholeness

_CUT_NUMBER = re.compile(rb"[\w.]*$")
_DIGITS = re.compile(rb"^[0-9a-fA-Fx]+")


def _width(line: bytes) -> int:
    return len(wholeness.ANSI.sub(b"", line).decode("utf-8", "replace"))


class Wraps:
    """Put wrapped records together; remembers at which width the lines before were wrapped.

    Args:
        width: where that is known before the first line; 0 = it is not.
    """

    def __init__(self, width: int = 0) -> None:
        self._width = width

    @property
    def width(self) -> int:
        """Return the width at which the lines before were wrapped; 0 = they were not."""
        return self._width

    def unwrap(self, line: bytes, head: bytes, pieces: list[bytes]) -> tuple[int, bytes | None] | None:
        """Return how many of `pieces` belong to a record, and its message (None = not sure); None = none do.

        Args:
            line: the record's own line.
            head: the message on it.
            pieces: the lines behind it.
        """
        if not pieces:
            return None
        if b"]" not in head and wholeness.THREAD.match(head + pieces[0]):
            return self._by_width(_width(line), head, pieces)
        if not _may_go_on(head):
            return None
        if _width(line) == self._width:
            return self._by_width(self._width, head, pieces)
        return None if _is_whole(head) else self._by_form(_width(line), head, pieces)

    def _by_width(self, width: int, head: bytes, pieces: list[bytes]) -> tuple[int, bytes]:
        self._width = width
        full = 0
        while full < len(pieces) - 1 and _width(pieces[full]) == width:
            full += 1
        return full + 1, _append(head, b"".join(pieces[: full + 1]))

    def _by_form(self, width: int, head: bytes, pieces: list[bytes]) -> tuple[int, bytes | None] | None:
        whole, soft, is_even = head, head.rstrip(b" "), True
        for count, piece in enumerate(pieces, 1):
            at_blank, whole = _may_break_at_blank(soft), _append(whole, piece)
            hard = whole.rstrip(b" ")
            soft = soft + b" " + piece.strip(b" ") if at_blank else b""
            if is_even and _is_whole(hard) and (count > 1 or not head or _is_sure(head, hard[len(head) :])):
                # Several full lines of one width are no accident; on a line without a message stands no other text.
                self._width = width
                return count, hard
            if soft and not _is_whole(hard) and _is_whole(soft):
                return count, soft
            if count == 1 and _is_whole(hard) and not wholeness.has_known_end(head) and not wholeness.is_cut_name(head):
                # Its end, but text of a program may stand between.
                return count, None
            is_even = is_even and _width(piece) == width
            if not is_even and not soft:
                return None
        return None


def _append(message: bytes, piece: bytes) -> bytes:
    """Return a message with what goes on behind it; blanks in front of it all are those behind the prefix."""
    return message + piece if message else piece.lstrip(b" ")


def _is_sure(head: bytes, line: bytes) -> bool:
    """Tell whether a line can only go on behind all of `head`: no text of a program stands at its end."""
    found = join_known_end(head, line, range(1, len(head) + 1))
    return found is not None and found[0] == head + line


def _may_break_at_blank(text: bytes) -> bool:
    """Tell whether a blank may have stood behind a text: anywhere in a packet, between the arguments of a call."""
    return wholeness.has_known_end(text) or (wholeness.is_call(text) and text.endswith(b","))


def _may_go_on(head: bytes) -> bool:
    """Tell whether a message is not there to its last byte, as far as its form tells."""
    return not _is_whole(head) or not _has_form(head)


def _has_form(message: bytes) -> bool:
    """Tell whether the form of such messages tells where they end."""
    if wholeness.has_known_end(message) or wholeness.is_call(message):
        return True
    kernel = wholeness.shader_of(message)
    return kernel is not None and not wholeness.is_one_word(kernel)


def _is_whole(message: bytes) -> bool:
    """Tell whether a message of a kind of which the end is known is whole."""
    kernel = wholeness.shader_of(message)
    if kernel is not None:
        return wholeness.is_whole_kernel(kernel)
    return (
        wholeness.is_with_known_end(message)
        or (wholeness.is_whole_call(message) and wholeness.open_brackets(message) == 0)
        or wholeness.is_exit(message)
    )


def join_known_end(head: bytes, line: bytes, cuts: list[int] | range) -> tuple[bytes, int] | None:
    """Return the message that a first half, cut at one of `cuts`, and a line make, and the bytes of output."""
    whole = [cut for cut in cuts if wholeness.is_with_known_end(head[:cut] + line)]
    if not whole:
        return None
    cut = whole[-1]
    if any(_DIGITS.fullmatch(head[other:cut]) for other in whole[:-1]):
        # Cut inside of a number, which may or may not go on in the text: all but that number is known.
        return without_cut_number(head[:cut]) + _DIGITS.sub(b"", line, count=1), 0
    return head[:cut] + line, len(head) - cut


def without_cut_number(message: bytes) -> bytes:
    """Return what a torn message holds for sure: all but the number or word at its end."""
    return _CUT_NUMBER.sub(b"", message)
