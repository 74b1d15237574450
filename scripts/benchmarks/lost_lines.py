"""Links of RECORDED captures whose logs lose lines: how many are left, and which of them the whole capture contradicts.

The lines are taken out at random, one by one or in pieces; what is found without any loss stands for the truth.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from random import Random

import numpy as np
import polars as pl

from benchmarks.measure import markdown
from tracecorr.pipeline import correlate, import_files
from tracecorr.store import Capture

CAPTURES = ("caseA-1stream", "caseB-4streams", "mt-threads", "streams-priority")
SHARES = (0.001, 0.004, 0.01, 0.1)
_PIECE = (2, 60)  # lines


def list_links(recorded: Path, work: Path, share: float = 0.0, *, in_pieces: bool = False) -> pl.DataFrame:
    """Return the links of a recorded capture whose log lost a share of its lines: rule, evidence, cause, effect.

    Args:
        recorded: folder with `amd.log` and `ftrace.txt`.
        work: an empty folder.
        share: of the lines, those that are taken out.
        in_pieces: whether lines that stand together are taken out together.

    Returns: the events are named by the places of their records in the whole files.
    """
    lines = (recorded / "amd.log").read_bytes().splitlines(keepends=True)
    kept = ~np.fromiter(_choose(len(lines), share, Random(f"{recorded.name} {share}"), in_pieces), np.bool_, len(lines))
    (work / "amd.log").write_bytes(b"".join(line for line, is_kept in zip(lines, kept, strict=True) if is_kept))
    import_files(work / "x.tracecorr", [work / "amd.log"], [recorded / "ftrace.txt"], clock="mono")
    correlate(work / "x.tracecorr")
    capture = Capture.open(work / "x.tracecorr")
    sizes = np.array([len(line) for line in lines])
    before, after = (np.append(0, np.cumsum(part)[:-1]) for part in (sizes, sizes[kept]))
    places = pl.DataFrame({"offset": after, "was": before[kept]})
    events = capture.table("events").select("event", "source", "layer", "offset").collect()
    is_log = pl.col("source").cast(pl.String) == "amd_log"
    moved = events.filter(is_log).sort("offset").join_asof(places, on="offset", coalesce=False)
    moved = moved.with_columns(offset=pl.col("offset") - pl.col("offset_right") + pl.col("was"))
    named = pl.concat([moved.select(events.columns), events.filter(~is_log)])
    names = named.select(
        "event", name=pl.concat_str(pl.col("source", "layer").cast(pl.String), "offset", separator=" ")
    )
    links = (
        capture.table("links").select("from_event", "to_event", pl.col("rule", "evidence").cast(pl.String)).collect()
    )
    joined = links.join(names, left_on="from_event", right_on="event").rename({"name": "cause"})
    return joined.join(names, left_on="to_event", right_on="event").select("rule", "evidence", "cause", effect="name")


def _choose(count: int, share: float, random: Random, in_pieces: bool) -> Iterator[bool]:
    """Yield of each line whether it is taken out."""
    left = 0
    for _ in range(count):
        if in_pieces and not left and random.random() < 2 * share / sum(_PIECE):
            left = random.randrange(*_PIECE)
        yield left > 0 if in_pieces else random.random() < share
        left -= left > 0


def find_wrong(lossy: pl.DataFrame, whole: pl.DataFrame) -> pl.DataFrame:
    """Return the links of a capture that lost lines that the whole capture has not, between records that it has."""
    added = lossy.join(whole, on=["rule", "cause", "effect"], how="anti")
    known = pl.concat([whole["cause"], whole["effect"]]).unique()
    return added.filter(pl.all_horizontal(pl.col("cause", "effect").is_in(known.implode())))


def main(arguments: list[str]) -> None:
    """Print, of each rule, which share of its links is left, and how many of those are wrong."""
    parser = argparse.ArgumentParser(prog="scripts/bench lost_lines", description=__doc__)
    parser.parse_args(arguments)
    data = Path(os.environ.get("TRACECORR_DATA", "../shared/data")) / "captures"
    found: dict[tuple[float, bool], list[tuple[pl.DataFrame, pl.DataFrame]]] = {}
    for name in CAPTURES:
        whole = _measure(data / name, 0.0, in_pieces=False)
        for in_pieces in (False, True):
            for share in SHARES:
                links = _measure(data / name, share, in_pieces=in_pieces)
                found.setdefault((share, in_pieces), []).append((links, whole))
    for in_pieces in (False, True):
        print(f"\nlines taken out {'in pieces' if in_pieces else 'one by one'}\n")
        print(_render([(share, pairs) for (share, pieces), pairs in found.items() if pieces == in_pieces]))


def _measure(recorded: Path, share: float, *, in_pieces: bool) -> pl.DataFrame:
    with tempfile.TemporaryDirectory() as work:
        return list_links(recorded, Path(work), share, in_pieces=in_pieces)


def _render(columns: list[tuple[float, list[tuple[pl.DataFrame, pl.DataFrame]]]]) -> str:
    rules = sorted({rule for _, pairs in columns for _, whole in pairs for rule in whole["rule"].unique()})
    rows = []
    for rule in rules:
        cells: list[object] = [rule]
        for _, pairs in columns:
            of_rule = [[side.filter(pl.col("rule") == rule) for side in pair] for pair in pairs]
            wrong = pl.concat([find_wrong(*pair) for pair in of_rule])
            left, all_links = (sum(len(pair[n]) for pair in of_rule) for n in (0, 1))
            told = (
                "" if wrong.is_empty() else f", {len(wrong)} wrong ({(wrong['evidence'] == 'inferred').sum()} inferred)"
            )
            cells.append(f"{(left - len(wrong)) / all_links:.1%}{told}")
        rows.append(cells)
    return markdown(("rule", *(f"{share:.1%} lost" for share, _ in columns)), rows)
