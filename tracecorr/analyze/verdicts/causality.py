"""Does an effect ever come before its cause by more than the error of both times?"""

from __future__ import annotations

import polars as pl

from tracecorr.analyze.frames import collect
from tracecorr.analyze.verdicts.evidence import Evidence
from tracecorr.analyze.verdicts.model import Claim, Finding, failed, has_several_clocks, passed, unknown


def judge(evidence: Evidence) -> Finding:
    """Look for links whose gap is negative beyond its error.

    A barrier's line is printed after its store, so that its packet may even have run and be complete; the command of a
    graph launch is printed after its packets. A queue that is running takes a packet from the ring when it is written,
    which may be before its line: what rocprof timed is not judged.
    """
    barriers = evidence.packets.filter(pl.col("kind") != "dispatch").select(from_event="event", barrier=pl.lit(True))
    links = evidence.tables("links").select("from_event", "to_event", "rule", "gap_ns", "gap_err_ns")
    tasks = evidence.tables("events").filter(pl.col("name") == "Task")
    tasks = tasks.select(from_event="event", task=pl.lit(True))
    of_barrier = ["doorbell_of_packet", "gpu_time_of_signal", "completion_of_packet"]
    late_lines = pl.col("rule").is_in(of_barrier) & pl.col("barrier").fill_null(False)
    late_lines |= (pl.col("rule") == "packet_of_command") & pl.col("task").fill_null(False)
    late_lines |= pl.col("rule") == "rocprof_of_packet"
    judged = links.join(barriers, on="from_event", how="left").join(tasks, on="from_event", how="left")
    judged = judged.with_columns(late=late_lines)
    bounded = pl.col("gap_err_ns").is_not_null() & ~pl.col("late")
    broken = bounded & (pl.col("gap_ns") + pl.col("gap_err_ns") < 0)
    rows = collect(
        judged.select(
            links=pl.len(), checked=bounded.sum(), not_judged=pl.col("late").sum(), broken=broken.sum(),
            worst_ns=pl.col("gap_ns").filter(broken).min(), events=pl.col("to_event").filter(broken).head(20).implode(),
        )
    ).row(0, named=True)  # fmt: skip
    counts = {name: int(rows[name] or 0) for name in ("links", "checked", "not_judged", "broken")}
    if counts["broken"]:
        said = f"{counts['broken']} of {counts['checked']} effects come before their cause"
        said += f", by up to {-rows['worst_ns']} ns"
        return failed(said, counts, pl.Series(rows["events"], dtype=pl.Int64))
    if not counts["checked"]:
        return unknown("no link has two times of known error", "record log and kernel trace of one run", counts)
    return passed(f"none of {counts['checked']} effects comes before its cause beyond the error", counts)


CLAIM = Claim(
    "causality", "no effect comes before its cause by more than the error of both times", (), judge, has_several_clocks
)
