"""What is said of a kernel trace that covers less than the HIP log."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tracecorr.analyze.values import render_ns
from tracecorr.store.coverage import Coverage

if TYPE_CHECKING:
    from tracecorr.analyze.verdicts.evidence import Evidence


def describe_coverage(coverage: Coverage | None) -> str:
    """Return how much of the log the trace covers, from when to when and why; empty where that is all, or unknown.

    Where the capture does not know why, only the records tell: a trace may have recorded on and seen nothing.
    """
    if coverage is None or coverage.is_whole:
        return ""
    told = []
    if coverage.late_ns:
        begins = "it begins" if coverage.began else "its first record lies"
        told.append(f"{begins} {render_ns(coverage.late_ns)} after the begin of the log{because(coverage.began)}")
    if coverage.early_ns:
        ends = "it ends" if coverage.ended else "its last record lies"
        told.append(f"{ends} {render_ns(coverage.early_ns)} before the end of the log{because(coverage.ended)}")
    return f"the records of the kernel trace span {tell_share(coverage)}: {', and '.join(told)}"


def tell_share(coverage: Coverage) -> str:
    """Return how much of the time of the log the trace covers."""
    return f"{render_ns(coverage.covered_ns)} of the {render_ns(coverage.log_ns)} of the HIP log"


def list_partial(evidence: Evidence) -> Iterator[str]:
    """Yield what is said of the trace of a capture, or of each node of a dataset, that covers less than its log."""
    if not evidence.parts:
        told = describe_coverage(evidence.coverage)
        yield from [told] if told else []
    for node, part in evidence.parts:
        told = describe_coverage(part.coverage)
        yield from [f"{node}: {told}"] if told else []


def name_partial(evidence: Evidence) -> str:
    """Return in a few words that what the trace counted is of a part of the log; empty where it is of all of it."""
    if evidence.parts:
        some = sum(1 for _ in list_partial(evidence))
        return f"the traces of {some} of {len(evidence.parts)} nodes cover a part of their logs" if some else ""
    coverage = evidence.coverage
    return f"for {tell_share(coverage)}" if coverage is not None and not coverage.is_whole else ""


def because(why: str) -> str:
    """Return a reason in brackets; nothing where it is not known."""
    return f" ({why})" if why else ""
