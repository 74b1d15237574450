"""Of the ranges of roctx only those that were asked for are kept, the rest is counted (SYNTHETIC texts)."""

from __future__ import annotations

import polars as pl
from ftrace_cases import Whole, whole

from tracecorr.read.ftrace.events import keep_ranges
from tracecorr.read.ftrace.text import read_ftrace_text
from tracecorr.store.recording import chosen_ranges

_LINES = [
    'roctx_push: (0x7f01) text="epoch"',
    'roctx_push: (0x7f01) text="step"',
    'roctx_mark: (0x7f02) text="here"',
    "roctx_pop: (0x7f03)",
    'roctx_push: (0x7f01) text="save"',
    "roctx_pop: (0x7f03)",
    "roctx_pop: (0x7f03)",
    "roctx_pop: (0x7f03)",
    "sys_close(fd: 3)",
    "sys_close -> 0x0",
    'roctx_push: (0x7f01) text="step"',
]
_TEXT = "".join(
    f"          python-7     [000] .....   100.0000{n:02}: {line}\n" for n, line in enumerate(_LINES)
).encode()


def _read(names: list[str], piece: int = 1 << 20) -> Whole:
    pieces = [_TEXT[at : at + piece] for at in range(0, len(_TEXT), piece)]
    return whole(keep_ranges(read_ftrace_text(pieces, 3, "mono", block_bytes=piece), names))


def _texts(trace: Whole) -> list[tuple[str, str | None]]:
    told = trace.args.filter(pl.col("key") == "text").select("file", "offset", "text")
    rows = trace.events.join(told, on=["file", "offset"], how="left", maintain_order="left").sort("offset")
    return rows.select(pl.col("name").cast(pl.String), "text").rows()


def test_only_the_ranges_that_were_asked_for_are_kept_with_their_own_ends() -> None:
    everything = whole(read_ftrace_text([_TEXT], 3, "mono"))
    kept = _read(["step"])
    assert _texts(kept) == [("roctx_range", "step"), ("close", None), ("roctx_range", "step")]
    assert _texts(_read(["epoch", "here"])) == [("roctx_range", "epoch"), ("roctx_mark", "here"), ("close", None)]
    same = everything.events.join(kept.events.select("file", "offset"), on=["file", "offset"], how="semi")
    assert kept.events.sort("offset").equals(same.sort("offset"))


def test_what_is_left_out_is_counted_as_skipped() -> None:
    kept = _read(["step"])
    counted = kept.ledger.group_by("outcome", "reason").agg(pl.col("records", "bytes").sum()).sort("outcome")
    left_out = [line for line, text in zip(_TEXT.splitlines(keepends=True), _LINES, strict=True) if "roctx" in text]
    assert len(left_out) == 9
    skipped = counted.row(by_predicate=pl.col("reason") == "range_not_chosen", named=True)
    # epoch and save with their ends, the mark, the pop of nothing; not the two steps and the end of one
    assert skipped["records"] == 6
    assert counted["records"].sum() == len(_LINES) and counted["bytes"].sum() == len(_TEXT)


def test_capture_json_names_the_ranges_by_their_kind() -> None:
    assert chosen_ranges({"wanted": {"ranges": ["roctx:step", "roctx:roctx:x"]}}) == ["step", "roctx:x"]
    assert chosen_ranges({"wanted": None}) == chosen_ranges({}) == []
