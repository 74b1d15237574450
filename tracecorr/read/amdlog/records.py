"""Records to rows: every record of a block with its class and name, and the text of those that hold more."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tracecorr import native
from tracecorr.model.kinds import LAYERS, WORST_LEVELS, Flag
from tracecorr.read.amdlog.classify import RETURNED, Classifier
from tracecorr.read.amdlog.lanes import Lanes
from tracecorr.read.amdlog.messages import MESSAGES, Kind
from tracecorr.read.amdlog.records_found import Split
from tracecorr.read.amdlog.rows import Rows
from tracecorr.read.amdlog.severity import Complaints, complaints_of
from tracecorr.read.amdlog.split import Splitter, Thread
from tracecorr.read.amdlog.subjects import SUBJECTS, Subjects, subjects_of
from tracecorr.read.digits import Ints
from tracecorr.read.text import Codes, Text

_LAYER = np.array([LAYERS.index(m.layer or "other") for m in MESSAGES] + [LAYERS.index("other")], np.int8)
_RESULT = re.compile(r"hipSuccess|hipError\w+|HIPRTC_\w+")
# The runtime cuts messages at 4095 bytes; the colour in front of a call is part of them.
_CUT_LENGTH = 4095 - len("\x1b[32m ")
# The list of errors and warnings, behind those of the subjects.
_COMPLAINTS = len(SUBJECTS)
# Of what is left of a message that other output cut apart no name can be told.
TORN_NAME = "(torn)"


@dataclass
class Lines:
    """Hold the rows of one block, and their messages.

    Args:
        text: holds their messages.
        subjects: rows by what is read of them.
        message: index in `MESSAGES` of each code in `what`; their number = none.
        what: code of each row.
        at, end: where the message of each row lies in the text.
        complaints: rows of errors and warnings.
    """

    rows: Rows
    text: Text
    subjects: Subjects
    message: Ints
    what: Ints
    at: Ints
    end: Ints
    complaints: Complaints

    def messages_of(self, rows: Ints) -> Ints:
        """Return the index in `MESSAGES` of some rows."""
        return self.message[self.what[rows]]


class RecordReader:
    """Turn the records of blocks into rows; remembers names and threads."""

    def __init__(self) -> None:
        self.classifier = Classifier()
        self.splitter = Splitter(self.classifier)
        self.results = Codes(lambda text: text.decode("utf-8", "replace"))
        self._lanes = Lanes()
        self._described: npt.NDArray[np.int64] | None = None
        self._columns: list[Ints] = []

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

    def read(self, text: Text, split: Split, base: int, room: int = 0) -> Lines:
        """Return the rows of a block whose first byte has offset `base` in the file, with `room` for others before."""
        shift, at, end = base - text.start, split.message, split.end
        put_together = np.array(sorted(split.messages), np.int64)
        if split.messages:
            text, at, end = _with_messages(text, split)
            joined = put_together[end[put_together] > at[put_together]]
            split.what[joined] = self.classifier.look(text, at[joined], end[joined], split.is_rocr[joined])
        torn = np.array(sorted(set(np.flatnonzero(split.torn).tolist()) - split.whole), np.int64)
        known = self.classifier.found(split.what[torn])
        unknown = (known.message == len(MESSAGES)) & (known.kind == Kind.ROW)
        split.what[torn[unknown]] = self.classifier.code_of_name(TORN_NAME)
        # Of all others those were left out before.
        folded = put_together[self.classifier.kind_of[split.what[put_together]] == Kind.FOLDED]
        if len(folded):
            kept = np.delete(np.arange(len(at)), folded)
            split, at, end = split.take(kept), at[kept], end[kept]
        records, what = (split.start, split.message, split.end), np.ascontiguousarray(split.what)
        of = self._describe(shift, may_complain=split.may_complain)
        found, asks = native.describe_rows(of, text.bytes, records, (at, end), what, _COMPLAINTS + 1, room)
        if asks & native.ASK_RESULT:
            rest = np.flatnonzero(found.asks & native.ASK_RESULT)
            start = at[rest] + self._columns[2][what[rest]] + len(RETURNED)
            found.columns["result"][room + rest] = self._results(text, start, end[rest])
        rows = self._rows(split, found, asks, room)
        complaints = complaints_of(text, split.start, found.rows_of(_COMPLAINTS))
        subjects = {name: found.rows_of(number) for number, name in enumerate(SUBJECTS)}
        return Lines(rows, text, subjects, self.classifier.columns[0], what, at, end, complaints)

    def _describe(self, shift: int, *, may_complain: bool) -> native.ClassesOf:
        """Tell `describe_rows` what the codes of messages stand for, and how far the file's offsets are from places."""
        columns = self.classifier.columns
        if columns is not self._described:
            message, kind, name, length, succeeds = columns
            is_call = (kind == Kind.ENTER) | (kind == Kind.EXIT)
            layer = np.where(is_call, LAYERS.index("hip"), _LAYER[message]).astype(np.int64)
            self._described = columns
            subjects = subjects_of(message, kind, [self.names[code] for code in name.tolist()])
            self._columns = [np.ascontiguousarray(c) for c in (kind, name, length, succeeds, layer, subjects)]
        success = self.results.code_of("hipSuccess")
        level = max(WORST_LEVELS) if may_complain else -1
        return native.ClassesOf(*map(native.address, self._columns), success, _CUT_LENGTH, level, _COMPLAINTS, shift)

    def _rows(self, split: Split, found: native.Described, asks: int, room: int) -> Rows:
        columns = {
            **found.columns,
            "lane": self._lanes.of(self.threads, split.thread, split.stamp_ns, split.is_rocr, room),
        }
        if not asks & native.IS_TOLD:
            del columns["told_us"]
        rows = Rows(len(split.start), columns, room)
        rows["stamp"], rows["thread"] = split.stamp_ns, split.thread
        if split.is_rocr.any():
            rows["is_rocr"] = split.is_rocr
        if asks & native.IS_CUT or split.torn.any():
            is_cut = found.asks & native.IS_CUT > 0
            rows["flags"] = split.torn * int(Flag.TORN) + is_cut * int(Flag.CUT)
        return rows

    def _results(self, text: Text, start: Ints, end: Ints) -> Ints:
        """Return the codes of results that begin at `start`; -1 = not whole."""
        behind, code = text.token(start, b" :", 64)
        found = self.results.encode(text, start, np.minimum(behind, end), code)
        # Some old releases print nothing behind the result: there a part of one must not pass for it.
        known = np.array([bool(_RESULT.fullmatch(value)) for value in self.results.values], np.bool_)
        is_whole = (text.starts_with(behind, b" :") & (behind < end)) | known[found]
        return np.where(is_whole, found, -1)


def _with_messages(text: Text, split: Split) -> tuple[Text, Ints, Ints]:
    """Return a text that holds the messages of torn records put together, and where the messages of all records lie."""
    torn = sorted(split.messages)
    messages = [split.messages[i] for i in torn]
    text, begin = text.with_texts(messages)
    at, end = split.message.copy(), split.end.copy()
    at[torn], end[torn] = begin, begin + np.array([len(message) for message in messages], np.int64)
    return text, at, end
