"""Every class of messages, in the wordings of all releases: `messages.jsonl` tells its fields (synthetic logs)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from amdlog_cases import log, read

MESSAGES = [json.loads(line) for line in Path(__file__).with_name("messages.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("told", MESSAGES, ids=lambda told: told["message"])
def test_a_message_gives_its_fields(told: dict[str, Any]) -> None:
    found = read(log(told["message"]))
    (event,) = found.events.to_dicts()
    row = event | (found.packet(event) if len(found.packets) else {})
    assert {key: row[key] for key in ("layer", "name")} == {key: told[key] for key in ("layer", "name")}
    assert {key: row.get(key) for key in told["columns"]} == told["columns"]
    assert {key: arg for key, arg in found.arg(event).items() if key != "hwq" or key in told["args"]} == told["args"]
    assert found.args["key"].is_unique().all()


@pytest.mark.parametrize(
    ("message", "is_unknown"),
    [
        ("SWq=0x22, HWq=0x50, id=1, Tensor Header = 0xb02 (type=2), rptr=1, wptr=1", True),
        ("SWq=0x22, HWq=0x50, id=1, Dispatch Header = 0xb02 (type=2), rptr=1, wptr=1", False),
        ("Created SWq=0x22 to map on HWq=0x50 of pipe 3", True),
        ("Created SWq=0x22 to map on HWq=0x50 with size 16384", False),
        ("Host wait on completion_signal=the first", True),
    ],
)
def test_a_known_begin_with_an_unknown_rest_is_counted_and_shown(message: str, is_unknown: bool) -> None:
    found = read(log(message))
    told = [row["text"] for row in found.args.to_dicts() if row["key"] == "unknown_form"]
    assert told == ([message] if is_unknown else [])
    assert {reason: records for reason, (records, _) in found.counts().items()} == {
        "unknown_form" if is_unknown else "used": 1
    }


def test_the_queue_of_a_fault_is_a_ring_where_it_is_known_as_one() -> None:
    created = "Created SWq=0x22 to map on HWq=0x50 with size 16384 with priority 2, cooperative: 0"
    abort = "Callback: Queue {} aborting with error : X code: 0x1"
    found = read(log(created, abort.format("0x50"), abort.format("0x22"), abort.format("0x33")))
    aborts = found.rows(name="queue_aborted")
    assert [row["ring"] for row in aborts] == [0x50, None, None]
    assert [{"swq", "queue"} & found.arg(row).keys() for row in aborts] == [set(), {"swq"}, {"queue"}]
