"""Commands of HIP: what their lines tell when they are enqueued, and when the worker thread takes them."""

from __future__ import annotations

import re

import numpy as np

from tracecorr.read.amdlog.classify import Classifier
from tracecorr.read.amdlog.messages import Kind
from tracecorr.read.amdlog.rows import Rows
from tracecorr.read.amdlog.shapes import Shapes, Span
from tracecorr.read.digits import Ints
from tracecorr.read.text import Text

# The worker thread takes a command, waits for the events before it, and submits it.
_BY_WORKER = (
    (b") submitted: ", b"", "submitted", Kind.COMMAND),
    (b") is submitted: ", b"", "submitted", Kind.COMMAND),
    (b") processing: ", b"", "processing", Kind.ROW),
    (b") ", b" awaiting event: ", "awaiting_event", Kind.ROW),
)
_ENQUEUED = re.compile(rb"Command \((\w{1,60})\) enqueued: (0x[0-9a-f]+) to queue: (0x[0-9a-f]+)[\r\n]")


class CommandReader:
    """Read the lines of commands; remembers the shapes of their texts."""

    def __init__(self, classifier: Classifier) -> None:
        self._names = classifier.names
        self._shapes = Shapes()

    def read(self, text: Text, rows: Rows, commands: Ints, at: Ints, end: Ints) -> None:
        """Complete the rows that are commands, and set the kind of those that are not enqueued."""
        size = end[commands] - at[commands]
        filling = self._shapes.fill(text, np.zeros(len(commands), np.int64), at[commands], size)
        for name, (values, _) in filling.fields.items():
            rows[name][commands] = values
        rest, known = filling.rest, filling.labels >= 0
        rows["name"][commands[known]] = filling.labels[known]
        if len(rest):
            self._read_any(text, rows, commands[rest], at, end)
            self._learn(
                text, rows, commands[rest[self._shapes.pick(np.zeros(len(rest), np.int64), size[rest])]], at, end
            )

    def _learn(self, text: Text, rows: Rows, commands: Ints, at: Ints, end: Ints) -> None:
        for row in commands.tolist():
            line = text.slice(int(at[row]), int(end[row]) + 1)
            found = _ENQUEUED.fullmatch(line)
            if found:
                spans = [Span(name, *found.span(i)) for i, name in ((2, "command"), (3, "stream"))]
                self._shapes.learn(0, line, spans, int(rows["name"][row]))

    def _read_any(self, text: Text, rows: Rows, commands: Ints, at: Ints, end: Ints) -> None:
        # `Command (`, up to ROCm 5.2 also `command (`; not `command is enqueued`.
        commands = commands[text.starts_with(at[commands] + 1, b"ommand (")]
        start = at[commands] + len("Command (")
        stop, code = text.token(start, b")", 64)
        is_enqueue = text.starts_with(stop, b") enqueued: ") & (stop < end[commands])
        self._read_by_worker(text, rows, commands[~is_enqueue], stop[~is_enqueue], end)
        commands, stop = commands[is_enqueue], stop[is_enqueue]
        name = self._names.encode(text, start[is_enqueue], stop, code[is_enqueue])
        rows["name"][commands] = name
        value, stop, good = text.number(stop + len(") enqueued: "))
        good &= stop <= end[commands]
        rows["command"][commands[good]] = value[good]
        commands, stop = commands[good], stop[good]
        more = text.starts_with(stop, b" to queue: ")
        value, stop, good = text.number(stop[more] + len(" to queue: "))
        good &= stop <= end[commands[more]]
        rows["stream"][commands[more][good]] = value[good]

    def _read_by_worker(self, text: Text, rows: Rows, lines: Ints, stop: Ints, end: Ints) -> None:
        """Read what the queue's worker thread prints of commands where Direct Dispatch is off.

        Args:
            lines: rows whose message begins with `Command (` or `command (`.
            stop: byte behind the command's kind in each of them.
        """
        rows["kind"][lines] = Kind.OTHER
        for before, behind, name, kind in _BY_WORKER:
            fits = text.starts_with(stop, before)
            value, last, good = text.number(stop[fits] + len(before))
            good &= (last <= end[lines[fits]]) & text.starts_with(last, behind)
            found = lines[fits][good]
            rows["kind"][found], rows["name"][found] = kind, self._names.code_of(name)
            rows["command"][found] = value[good]
