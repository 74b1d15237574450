"""The registers of a hardware queue that a dump of debugfs shows, bank by bank."""

from __future__ import annotations

from typing import Any

import polars as pl

from tracecorr.analyze.values import IDENTIFIERS
from tracecorr.app import ids
from tracecorr.app.source import CaptureLike
from tracecorr.model.kernel_tables import HQD

_COLUMNS = {c.name: c for c in HQD.columns}
# What the name of a bank, or the event itself, tells already.
_TOLD = frozenset({"dump", "read_start_ns", "read_end_ns", "xcc", "type", "pipe", "slot", "logical", "file", "offset"})
_HEX = frozenset({"quantum", "doorbell"})


def list_registers(capture: CaptureLike, event: int) -> list[dict[str, str]]:
    """Return name, value, meaning and group of each register of a queue at the dump that an event is; else nothing.

    Args:
        event: any event; only those of layer `hqd` have registers.
    """
    sight = capture.table("events").filter(pl.col("event") == event, pl.col("layer").cast(pl.String) == "hqd")
    place = sight.select("file", "offset").drop_nulls()
    dumps = capture.table("hqd")
    own = dumps.join(place, on=["file", "offset"], how="semi").select("file", "logical").drop_nulls().unique()
    banks = dumps.join(own, on=["file", "logical"], how="semi").sort("xcc", "offset").head(ids.MAX_BANKS).collect()
    out = []
    for row in banks.iter_rows(named=True):
        group = _name_bank(row)
        for name, value in row.items():
            if value is not None and name not in _TOLD:
                out.append({
                    "name": name, "value": _text(name, value), "meaning": _COLUMNS[name].meaning, "group": group,
                })  # fmt: skip
    return out


def _name_bank(row: dict[str, Any]) -> str:
    parts = [f"{word} {row[word]}" for word in ("xcc", "pipe", "slot") if row[word] is not None]
    return " ".join([f"registers: {row['type']}" if row["type"] else "registers", *parts])


def _text(name: str, value: Any) -> str:
    if name in _HEX or _COLUMNS[name].dtype == pl.UInt64:
        return f"{value:#x}"
    if isinstance(value, bool) or not isinstance(value, int) or name in IDENTIFIERS:
        return str(value).lower() if isinstance(value, bool) else str(value)
    return f"{value:,}" + (f" {_COLUMNS[name].unit}" if _COLUMNS[name].unit else "")
