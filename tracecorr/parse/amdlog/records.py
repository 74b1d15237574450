"""Records to rows: every record of a block with its class and name, and the text of those that hold more."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from tracecorr.model.kinds import LAYERS, Flag
from tracecorr.parse.amdlog.classify import RETURNED, SUCCESS, Classifier
from tracecorr.parse.amdlog.lanes import Lanes
from tracecorr.parse.amdlog.messages import MESSAGES, Kind
from tracecorr.parse.amdlog.records_found import Split
from tracecorr.parse.amdlog.rows import Rows
from tracecorr.parse.amdlog.severity import Complaints, find_complaints
from tracecorr.parse.amdlog.split import Splitter, Thread
from tracecorr.parse.digits import Ints, count_decimal
from tracecorr.parse.text import Codes, Text, decimal

_LAYER = np.array([LAYERS.index(m.layer or "other") for m in MESSAGES] + [LAYERS.index("other")], np.int8)
_DURATION, _UNIT = b": duration: ", b" us"
# The colon of the result may be the one before the duration.
_SHORTEST_TOLD = len(RETURNED + SUCCESS) - 1 + len(_DURATION) + 1 + len(_UNIT)
_RESULT = re.compile(r"hipSuccess|hipError\w+|HIPRTC_\w+")
# The runtime cuts messages at 4095 bytes; the colour in front of a call is part of them.
_CUT_LENGTH = 4095 - len("\x1b[32m ")
# Of what is left of a message that other output cut apart no name can be told.
TORN_NAME = "(torn)"


@dataclass
class Lines:
    """Hold the rows of one block, and their messages.

    Args:
        text: holds their messages.
        found: index in `MESSAGES` of each row.
        at, end: where the message of each row lies in the text.
        complaints: rows of errors and warnings.
    """

    rows: Rows
    text: Text
    found: Ints
    at: Ints
    end: Ints
    complaints: Complaints


class RecordReader:
    """Turn the records of blocks into rows; remembers names and threads."""

    def __init__(self) -> None:
        self.classifier = Classifier()
        self.splitter = Splitter(self.classifier)
        self.results = Codes(lambda text: text.decode("utf-8", "replace"))
        self._lanes = Lanes()

    @property
    def names(self) -> list[str]:
        """Return the names behind the name codes."""
        return self.classifier.names.values

    @property
    def threads(self) -> list[Thread]:
        """Return the threads behind the thread codes."""
        return self.splitter.threads.values

    def code_of(self, names: tuple[str, ...]) -> Ints:
        """Return the codes of some names."""
        return np.array([self.classifier.names.code_of(n) for n in names], np.int64)

    def read(self, text: Text, split: Split, base: int) -> Lines:
        """Return the rows of a block whose first byte has offset `base` in the file."""
        shift, at, end = base - text.start, split.message, split.end
        if split.messages:
            text, at, end = _with_messages(text, split)
            joined = np.flatnonzero((at != split.message) & (end > at))
            split.what[joined] = self.classifier.look(text, at[joined], end[joined], split.is_rocr[joined])
        torn = np.array(sorted(set(np.flatnonzero(split.torn).tolist()) - split.whole), np.int64)
        known = self.classifier.found(split.what[torn])
        unknown = (known.message == len(MESSAGES)) & (known.kind == Kind.ROW)
        split.what[torn[unknown]] = self.classifier.code_of_name(TORN_NAME)
        if split.messages:
            kept = np.flatnonzero(self.classifier.kind_of[split.what] != Kind.FOLDED)
            split, at, end = split.take(kept), at[kept], end[kept]
        classes = self.classifier.found(split.what)
        rows = self._rows(split, shift)
        rows["kind"], rows["layer"], rows["name"] = classes.kind, _LAYER[classes.message], classes.name
        self._read_calls(text, rows, at + classes.length, end, classes.succeeds)
        return Lines(rows, text, classes.message, at, end, find_complaints(text, split.start))

    def _rows(self, split: Split, shift: int) -> Rows:
        rows = Rows(len(split.start))
        rows["offset"] = split.start + shift
        rows["length"] = split.end - split.start
        rows["stamp"], rows["thread"] = split.stamp_ns, split.thread
        if split.is_rocr.any():
            rows["is_rocr"] = split.is_rocr
        cut = split.end - split.message >= _CUT_LENGTH
        if cut.any() or split.torn.any():
            rows["flags"] = split.torn * int(Flag.TORN) + cut * int(Flag.CUT)
        rows["lane"] = self._lanes.of(self.threads, split.thread, split.stamp_ns, split.is_rocr)
        return rows

    def _read_calls(self, text: Text, rows: Rows, stop: Ints, end: Ints, succeeds: Ints) -> None:
        """Set layer and result of the rows of calls; `stop` is behind their names."""
        kind = rows["kind"]
        is_exit = kind == Kind.EXIT
        rows["layer"][(kind == Kind.ENTER) | is_exit] = LAYERS.index("hip")
        # Of a torn record less may be left than it was classified by.
        is_success = (succeeds > 0) & (stop + len(RETURNED + SUCCESS) <= end)
        result = np.where(is_success, self.results.code_of("hipSuccess"), -1)
        rest = np.flatnonzero(is_exit & ~is_success)
        if len(rest):
            result[rest] = self._results(text, stop[rest] + len(RETURNED), end[rest])
        rows["result"] = result
        leave = np.flatnonzero(is_exit & ~(is_success & (end - stop < _SHORTEST_TOLD)))
        rows["told_us"][leave] = _read_durations(text, stop[leave], end[leave])

    def _results(self, text: Text, start: Ints, end: Ints) -> Ints:
        """Return the codes of results that begin at `start`; -1 = not whole."""
        behind, code = text.token(start, b" :", 64)
        found = self.results.encode(text, start, np.minimum(behind, end), code)
        # Some old releases print nothing behind the result: there a part of one must not pass for it.
        known = np.array([bool(_RESULT.fullmatch(value)) for value in self.results.values], np.bool_)
        is_whole = (text.starts_with(behind, b" :") & (behind < end)) | known[found]
        return np.where(is_whole, found, -1)


def _read_durations(text: Text, start: Ints, end: Ints) -> Ints:
    """Return the duration that each exit line tells at its end (`: duration: 31 us`), -1 where it tells none.

    It is the difference of the stamps of the call's two lines, to the microsecond (HIP 5.7 to 7.2). HIP 6.3 prints a
    `d` behind the number (`: duration: 31d us`), as it does behind its stamps.
    """
    told = np.full(len(end), -1, np.int64)
    rows = np.flatnonzero(text.starts_with(end - len(_UNIT), _UNIT))
    last = end[rows] - len(_UNIT)
    last -= text.bytes[last - 1] == ord("d")
    # The digits from the last one on: none of the word's bytes behind the first other one counts.
    size = count_decimal(text.word(last - 8).byteswap())
    first = last - size
    before = first - len(_DURATION)
    fits = (size > 0) & (size < 8) & (before >= start[rows]) & text.starts_with(before, _DURATION)
    told[rows[fits]] = decimal(text, last[fits], size[fits])[0]
    return told


def _with_messages(text: Text, split: Split) -> tuple[Text, Ints, Ints]:
    """Return a text that holds the messages of torn records put together, and where the messages of all records lie."""
    torn = sorted(split.messages)
    messages = [split.messages[i] for i in torn]
    text, begin = text.with_texts(messages)
    at, end = split.message.copy(), split.end.copy()
    at[torn], end[torn] = begin, begin + np.array([len(message) for message in messages], np.int64)
    return text, at, end
