"""The parts of a report: sections, answers in words, verdicts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import polars as pl

from tracecorr.analyze.values import plain_rows
from tracecorr.analyze.verdicts.model import Verdict

WENT_WRONG = "What went wrong?"


@dataclass(frozen=True)
class Answer:
    """Hold one question and its answer.

    Args:
        question: the question.
        lines: the answer, one fact a line.
        events: rows in `events` that it rests on.
        is_first: whether it stands before all others, and before what the capture holds.
        finding: what of it belongs on the first screen, in one line; empty if nothing does.
    """

    question: str
    lines: tuple[str, ...]
    events: tuple[int, ...] = ()
    is_first: bool = False
    finding: str = ""

    def as_dict(self) -> dict[str, Any]:
        """Return the answer for JSON."""
        return {"question": self.question, "answer": list(self.lines), "events": list(self.events)}


@dataclass(frozen=True)
class Section:
    """Hold one answer.

    Args:
        key: its name in the JSON report.
        title: its heading.
        frame: the answer.
        evidence: how the rows are known: recorded, derived or inferred, and from what.
        missing: the source that the answer would need and how to get it; empty when it has all.
        nothing: what an answer without rows means.
        is_whole: whether its texts are shown to their end, however long they are.
        shown: the columns for people; all if empty. JSON has all.
    """

    key: str
    title: str
    frame: pl.DataFrame
    evidence: str = ""
    missing: str = ""
    nothing: str = "none"
    is_whole: bool = False
    shown: tuple[str, ...] = ()

    @property
    def table(self) -> pl.DataFrame:
        """Return the rows with the columns for people."""
        return self.frame.select(c for c in self.frame.columns if not self.shown or c in self.shown)


@dataclass(frozen=True)
class Report:
    """Hold the answers about one capture."""

    name: str
    summary: dict[str, Any]
    sections: tuple[Section, ...] = field(default_factory=tuple)
    verdicts: tuple[Verdict, ...] = field(default_factory=tuple)
    answers: tuple[Answer, ...] = field(default_factory=tuple)
    run: tuple[str, ...] = ()  # what capture.json knows, one fact a line

    def as_dict(self) -> dict[str, Any]:
        """Return the report for JSON: times as numbers of ns, addresses as `0x...` text."""
        return {
            "capture": self.name,
            "summary": self.summary,
            "run": list(self.run),
            "answers": [a.as_dict() for a in self.answers],
            "verdicts": [v.as_dict() for v in self.verdicts],
            "sections": {
                s.key: {
                    "title": s.title,
                    "evidence": s.evidence,
                    "missing": s.missing or None,
                    "rows": plain_rows(s.frame),
                }
                for s in self.sections
            },
        }
