"""The words by which a report says how it knows what it says."""

from __future__ import annotations

import polars as pl

GLOSSARY = {
    "recorded": "a source says it: a log line, a trace event, a value that a probe read",
    "derived": "follows by a rule that can be checked: nesting, order of a thread's lines",
    "inferred": "only bounds are known, the truth lies between them",
    "PASS, FAIL": "the records show that the claim holds, or that it does not",
    "UNKNOWN": "the records cannot tell; the verdict names what would",
    "UNALIGNED": "a clock that could not be mapped: nothing of it is linked by time",
    "error of a time": "the true time lies in an interval of this width",
    "p50, p95, p99": "so many percent of the values are not larger; one that occurred (nearest rank)",
    "not yet": "no error: not done yet (hipErrorNotReady), or a wait that ended early (EINTR)",
    "half seen": "only begin or end was seen: counted among the calls, in no time",
}


def list_words() -> pl.DataFrame:
    """Return one row per word: word, meaning."""
    return pl.DataFrame({"word": list(GLOSSARY), "meaning": list(GLOSSARY.values())})
