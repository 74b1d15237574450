"""The registers of a hardware queue: a slot of a dump leads to its event, which tells them (all SYNTHETIC)."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from browsing import needs_browser, state_of, wait_idle

from tracecorr.app.detail import list_registers
from tracecorr.model import schema
from tracecorr.timeline.drawn import hardware_queues

_BANK: dict[str, Any] = {
    "snapshot": 0, "dump": "hqds", "read_start_ns": 100, "read_end_ns": 180, "gpu": 0, "type": "cp", "pipe": 0,
    "slot": 2, "state": "active", "active": True, "quantum": 0x111, "pq_base": 0x7F0000001000, "wptr": 4096,
    "ring_bytes": 16384, "pipe_priority": 1, "file": 3,
}  # fmt: skip
_ROWS: dict[str, list[dict[str, Any]]] = {
    "events": [
        {"event": 7, "ts_ns": 100, "dur_ns": 80, "layer": "hqd", "name": "hqd_active", "file": 3, "offset": 50},
        {"event": 8, "ts_ns": 100, "layer": "hip", "name": "hipInit", "file": 4, "offset": 50},
    ],
    "hqd": [
        {**_BANK, "xcc": 0, "logical": 0, "offset": 50}, {**_BANK, "xcc": 1, "logical": 0, "offset": 90, "wptr": 0},
        {**_BANK, "xcc": 0, "slot": 3, "state": "stale", "active": False, "offset": 130},
    ],
}  # fmt: skip


class _Tables:
    def table(self, name: str) -> pl.LazyFrame:
        shape = schema.TABLES[name]
        frame = pl.DataFrame(_ROWS[name], schema={k: shape.schema[k] for row in _ROWS[name] for k in row})
        return shape.conform(frame).lazy()


def test_a_slot_has_the_event_of_its_queue_in_the_dump() -> None:
    drawn = hardware_queues(_Tables().table).select("sub", "event")
    assert drawn.with_columns(pl.col("sub").cast(pl.String)).rows() == [
        ("cp xcc 0 pipe 0 slot 2", 7), ("cp xcc 1 pipe 0 slot 2", 7), ("cp xcc 0 pipe 0 slot 3", None),
    ]  # fmt: skip


def test_the_event_of_a_dump_tells_every_bank_of_its_queue() -> None:
    told = list_registers(_Tables(), 7)  # type: ignore[arg-type]
    values = {(line["group"], line["name"]): line["value"] for line in told}
    first, second = "registers: cp xcc 0 pipe 0 slot 2", "registers: cp xcc 1 pipe 0 slot 2"
    assert {group for group, _ in values} == {first, second}
    assert [values[first, name] for name in ("state", "active", "quantum", "pq_base", "wptr", "ring_bytes")] == [
        "active", "true", "0x111", "0x7f0000001000", "4,096", "16,384 bytes",
    ]  # fmt: skip
    assert values[second, "wptr"] == "0"
    assert all(line["meaning"] for line in told)


def test_other_events_have_no_registers() -> None:
    assert list_registers(_Tables(), 8) == []  # type: ignore[arg-type]


@pytest.mark.browser
@needs_browser[1]
def test_a_slot_without_an_event_says_so_when_it_is_clicked(page: Any) -> None:
    """The dumps of this capture have slots only: the page asks for no event that does not exist."""
    lane = page.evaluate("__tl.view.meta.lanes.find((n) => n.layer === 'hqd').id")
    page.evaluate("lane => { __tl.view.reveal(lane); __tl.changed(); }", lane)
    wait_idle(page)
    spot = page.evaluate("__tl.locate('hqd')")
    box = page.locator("#tl-canvas-host canvas").bounding_box()
    page.mouse.click(box["x"] + spot["x"], box["y"] + spot["y"])
    wait_idle(page)
    assert state_of(page)["selected"] is None
    assert "no event belongs to this" in page.locator("#tl-status .tl-message").inner_text()
