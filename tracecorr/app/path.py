"""How a launch went: by which doorbell, with which ioctls in its call, and when it passed which point."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import polars as pl

from tracecorr.app.index import CaptureIndex

Row = dict[str, Any]

_MOMENTS = (
    ("call", "call_ns"), ("command", "enqueue_ns"), ("packet", "packet_ns"), ("doorbell", "doorbell_ns"),
    ("GPU start", "gpu_start_ns"), ("GPU end", "gpu_end_ns"), ("return", "return_ns"), ("seen complete", "complete_ns"),
)  # fmt: skip


def describe_path(index: CaptureIndex, launches: Sequence[Row]) -> dict[str, Any] | None:
    """Return how the launches of a chain were announced to the GPU; None when there are none.

    Args:
        index: the capture.
        launches: rows of `launches`, of one HIP call or one packet.

    Returns: copies; packets by the evidence of their doorbell (`unknown` where it has none); ioctls in the call by
        name, null where no trace shows what the call did; and of a single packet its doorbell's event, the width of
        the interval of an inferred one (ns), the reason of what is missing, and the known moments (name, ns since the
        capture start) in order of time.
    """
    if not launches:
        return None
    packets = [launch for launch in launches if launch["kind"] != "copy"]
    own = packets[0] if len(packets) == len(launches) == 1 else None
    return {
        "copies": len(launches) - len(packets),
        "packets": Counter(launch["doorbell_evidence"] or "unknown" for launch in packets),
        "ioctls": _ioctls_in_call(index, launches[0]),
    } | ({} if own is None else _describe_one(index, own))


def _describe_one(index: CaptureIndex, launch: Row) -> Row:
    lo, hi = launch["doorbell_lo_ns"], launch["doorbell_hi_ns"]
    known = [(name, launch[column] - index.t0_ns) for name, column in _MOMENTS if launch[column] is not None]
    return {
        "doorbell": launch["doorbell_event"],
        "width": None if lo is None or hi is None else hi - lo,
        "reason": launch["unlinked_reason"],
        "moments": sorted(known, key=lambda moment: moment[1]),
    }


def _ioctls_in_call(index: CaptureIndex, launch: Row) -> dict[str, int] | None:
    """Return how often which ioctl was made in the call of a launch; None where the trace cannot tell."""
    call, events = launch["call_event"], index.capture.table("events")
    if call is None:
        return None
    traced = events.filter(
        pl.col("layer").cast(pl.String).is_in(["syscall", "ioctl"]), pl.col("chain").is_not_null(),
        pl.col("thread") == launch["thread"],
    )  # fmt: skip
    rows = traced.select("chain", pl.col("layer", "name").cast(pl.String)).collect()
    if rows.is_empty():
        return None
    inside = rows.filter(pl.col("chain") == call, pl.col("layer") == "ioctl")
    return dict(Counter(inside["name"]).most_common())
