"""Links of RECORDED logs after real kinds of damage: how many are left, and which of them the whole log contradicts.

The damage is a hole, a lost head, a lost tail, or several processes that write pieces of their lines into one file.
What is found in the whole log stands for the truth.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

import polars as pl

from benchmarks.measure import markdown
from tracecorr.pipeline import correlate, import_files
from tracecorr.store import Capture

CAPTURES = ("caseB-4streams", "mt-threads", "gemm-rocblas-300")
# A part of a recorded log: its number among the logs, first byte, end.
Piece = tuple[int, int, int]


@dataclass(frozen=True)
class Found:
    """Hold what is found in a log, in terms of the places of the whole logs.

    Args:
        links: rule, evidence, cause, effect.
        calls: name, is_open of HIP calls.
        lengths: name, dur_ns of the calls that have an end.
    """

    links: pl.DataFrame
    calls: pl.DataFrame


def cut_log(data: bytes, kind: str, share: float) -> list[Piece]:
    """Return what is left of a log: all but its `head`, its `tail`, or a `hole` of lines in its middle.

    Args:
        data: the whole log.
        kind: what is lost.
        share: of the bytes, those that are lost.
    """
    lost = int(len(data) * share)
    first = {"head": 0, "tail": len(data) - lost, "hole": (len(data) - lost) // 2}[kind]
    begin, end = (data.rfind(b"\n", 0, place) + 1 for place in (first, first + lost))
    end = len(data) if kind == "tail" else end
    return [piece for piece in ((0, 0, begin), (0, end, len(data))) if piece[1] < piece[2]]


def interleave(logs: Sequence[bytes], size: int, switches: float, seed: int) -> Iterator[Piece]:
    """Yield the pieces of logs of several processes in the order in which they reach one file.

    Args:
        logs: the log of each process.
        size: bytes of a piece.
        switches: how likely another process writes the next piece.
        seed: of the random choices.
    """
    random, places = Random(seed), [0] * len(logs)
    writer = 0
    while left := [n for n, log in enumerate(logs) if places[n] < len(log)]:
        if writer not in left or random.random() < switches:
            writer = random.choice(left)
        end = min(places[writer] + size, len(logs[writer]))
        yield writer, places[writer], end
        places[writer] = end


def import_pieces(logs: Sequence[bytes], pieces: Sequence[Piece], work: Path, trace: Path | None = None) -> Found:
    """Import a log that is made of pieces of recorded ones, and return what is found in it.

    Args:
        logs: the whole logs.
        pieces: parts of them, in the order of the file.
        work: an empty folder.
        trace: kernel trace that belongs to the logs.
    """
    (work / "amd.log").write_bytes(b"".join(logs[n][begin:end] for n, begin, end in pieces))
    import_files(work / "x.tracecorr", [work / "amd.log"], [trace] if trace else [], clock="mono" if trace else None)
    correlate(work / "x.tracecorr")
    capture = Capture.open(work / "x.tracecorr")
    places = pl.DataFrame(pieces, schema=["log", "was", "end"], orient="row")
    places = places.with_columns(offset=(pl.col("end") - pl.col("was")).cum_sum() - (pl.col("end") - pl.col("was")))
    kinds = pl.col("source", "layer").cast(pl.String)
    events = capture.table("events").select("event", "offset", "dur_ns", kinds).collect()
    moved = events.sort("offset").join_asof(places.rename({"offset": "at"}), left_on="offset", right_on="at")
    is_log = pl.col("source") == "amd_log"
    place = pl.when(is_log).then(pl.col("offset") - pl.col("at") + pl.col("was")).otherwise("offset")
    log = pl.when(is_log).then("log").otherwise(-1)
    names = moved.select("event", "layer", "dur_ns", name=pl.concat_str(log, "layer", place, separator=" ")).sort(
        "event"
    )
    links = (
        capture.table("links").select("from_event", "to_event", pl.col("rule", "evidence").cast(pl.String)).collect()
    )
    named = links.with_columns(
        cause=names["name"].gather(links["from_event"]), effect=names["name"].gather(links["to_event"])
    )
    calls = names.filter(pl.col("layer") == "hip").select("name", "dur_ns")
    return Found(named.select("rule", "evidence", "cause", "effect"), calls)


def find_wrong(lossy: Found, whole: Found) -> pl.DataFrame:
    """Return the links that the whole log does not have, between records that it has."""
    added = lossy.links.join(whole.links, on=["rule", "cause", "effect"], how="anti")
    known = pl.concat([whole.links["cause"], whole.links["effect"]]).unique()
    return added.filter(pl.all_horizontal(pl.col("cause", "effect").is_in(known.implode())))


def select_left(whole: Found, pieces: Sequence[Piece]) -> pl.DataFrame:
    """Return the links of the whole log whose two records lie in pieces of it."""

    def lies_inside(side: str) -> pl.Expr:
        place = pl.col(side).str.split(" ").list.last().cast(pl.Int64)
        return pl.any_horizontal((place >= begin) & (place < end) for _, begin, end in pieces)

    return whole.links.filter(lies_inside("cause") & lies_inside("effect"))


def compare_calls(lossy: Found, whole: Found) -> tuple[int, int, int]:
    """Return how many calls have their end, have lost it, and have another one's."""
    both = lossy.calls.join(whole.calls.drop_nulls(), on="name", suffix="_whole")
    is_open, is_right = pl.col("dur_ns").is_null(), pl.col("dur_ns") == pl.col("dur_ns_whole")
    return tuple(both.select(is_right.sum(), opened=is_open.sum(), wrong=(~is_right).sum()).row(0))  # type: ignore[return-value]


def main(arguments: list[str]) -> None:
    """Print which share of the links is left after each kind of damage, and how many of them are wrong."""
    parser = argparse.ArgumentParser(prog="scripts/bench lost_lines", description=__doc__)
    parser.parse_args(arguments)
    data = Path(os.environ.get("TRACECORR_DATA", "../shared/data")) / "captures"
    rows: list[list[object]] = []
    for name in CAPTURES:
        log = (data / name / "amd.log").read_bytes()
        whole = _measure(log, [(0, 0, len(log))])
        for kind, share in (("hole", 0.07), ("head", 0.6), ("tail", 0.6)):
            found = _measure(log, cut_log(log, kind, share))
            wrong = find_wrong(found, whole)
            right, opened, false = compare_calls(found, whole)
            inferred = (wrong["evidence"] == "inferred").sum()
            rows.append([name, f"{kind} {share:.0%}", right, opened, false, found.links.height, wrong.height, inferred])
    titles = ("log", "lost", "calls", "opened", "of two", "links", "wrong", "of these inferred")
    print(markdown(titles, rows))


def _measure(log: bytes, pieces: Sequence[Piece]) -> Found:
    with tempfile.TemporaryDirectory() as work:
        return import_pieces([log], pieces, Path(work))
