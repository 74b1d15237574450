"""Where the recorded traces are, and how a whole file is read."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tracecorr.model.parts import Block
from tracecorr.read.ftrace.formats import PageTrace
from tracecorr.read.ftrace.text import read_ftrace_text

DATA = Path(os.environ.get("TRACECORR_DATA", Path(__file__).parents[4] / "shared" / "data"))
CAPTURES = sorted(p.parent for p in DATA.glob("captures/*/ftrace.txt"))
NO_DATA = f"no recorded traces in {DATA} (set TRACECORR_DATA)"


@dataclass
class Whole:
    events: pl.DataFrame
    args: pl.DataFrame
    ledger: pl.DataFrame
    losses: pl.DataFrame

    def names(self, layer: str) -> Counter[str]:
        return Counter(self.events.filter(pl.col("layer") == layer)["name"].cast(pl.String).to_list())

    def arg(self, key: str) -> list[Any]:
        rows = self.args.filter(pl.col("key") == key).sort("offset")
        return [u if u is not None else t for u, t in zip(rows["u64"], rows["text"], strict=True)]


def whole(blocks: Iterable[Block]) -> Whole:
    taken = list(blocks)
    return Whole(*(pl.concat([getattr(b, n) for b in taken]) for n in ("events", "args", "ledger", "losses")))


def read_text(data: bytes, **options: Any) -> Whole:
    return whole(read_ftrace_text([data], 3, "mono", **options))


def page_folder(raw: Path) -> PageTrace:
    """Return the recording in a folder of pages with `events/SYSTEM/EVENT/format`."""
    stats = raw / "stats.json"
    return PageTrace(
        pages={int(p.stem[3:]): p.read_bytes() for p in raw.glob("cpu*.bin")},
        formats={f"{p.parent.parent.name}/{p.parent.name}": p.read_text() for p in raw.glob("events/*/*/format")},
        header_page=(raw / "header_page").read_text(),
        cmdlines=(raw / "saved_cmdlines").read_text(),
        tgids=(raw / "saved_tgids").read_text(),
        stats=json.loads(stats.read_text()) if stats.is_file() else {},
    )


def meta(folder: Path) -> dict[str, Any]:
    result: dict[str, Any] = json.loads((folder / "meta.json").read_text())
    return result


def need_data(items: list[Path]) -> list[Any]:
    """Return the parameters of a test, one skipped one when there are none."""
    return [pytest.param(p, id=f"{p.parent.name}-{p.name}") for p in items] or [
        pytest.param(Path(), marks=pytest.mark.skip(reason=NO_DATA))
    ]
