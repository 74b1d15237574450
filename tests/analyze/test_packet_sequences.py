"""SYNTHETIC packets without a printed index: what doorbell stores, and the printed ones, tell of their sequence."""

from __future__ import annotations

from typing import Any

from analyze_tables import Rows
from judging import judge
from synthetic_run import make_run


def _run(*packets: dict[str, Any]) -> Rows:
    """Return the run with these packets on its queue, which was made before index 0; those named so print their own."""
    rows = make_run()
    like = rows["launches"][0]
    rows["launches"] = [
        {**like, "event": 100 + n, "doorbell_event": None, "doorbell_evidence": "inferred", "wptr": None, **packet}
        for n, packet in enumerate(packets)
    ]
    return rows


def _printed(index: int) -> dict[str, Any]:
    return {"packet_index": index, "wptr": index}


def _stored(index: int) -> dict[str, Any]:
    return {"packet_index": index, "doorbell_event": 21, "doorbell_evidence": "recorded"}


def _counted(index: int | None) -> dict[str, Any]:
    return {"packet_index": index}


def _judge(*packets: dict[str, Any]) -> tuple[str, str, str]:
    return judge(_run(*packets), "packet_sequence_complete")


def test_a_doorbell_store_shows_the_index_that_no_line_prints() -> None:
    said = "3 packets on 1 queue, no index missing; 1 of the indexes come from the doorbell store"
    assert _judge(_printed(0), _printed(1), _stored(2))[:2] == ("PASS", said)


def test_a_count_alone_and_the_store_of_another_packet_show_no_index() -> None:
    batched = {"packet_index": 1, "doorbell_event": 21, "doorbell_evidence": "derived"}
    for bare in (_counted(1), _counted(None), batched):
        outcome, reason, remedy = _judge(_printed(0), bare, _stored(2))
        assert outcome == "UNKNOWN" and reason.startswith("1 of 3 packets were printed without an index")
        assert "doorbell" in remedy


def test_indexes_are_missing_where_they_are_more_than_the_packets_without_one() -> None:
    """Index 1 may be that of the barrier, 2 and 3 are then nobody's."""
    outcome, reason, _ = _judge(_printed(0), _counted(None), _printed(4))
    assert outcome == "FAIL" and reason.startswith("2 indexes are missing and 0 occur twice, on 1 queue:")
    assert _judge(_printed(0), _counted(None), _printed(2))[0] == "UNKNOWN"


def test_a_store_that_shows_a_printed_index_again_is_a_repetition() -> None:
    outcome, reason, _ = _judge(_printed(0), _printed(1), _stored(1))
    assert outcome == "FAIL" and reason.startswith("0 indexes are missing and 1 occur twice, on 1 queue:")


def test_what_helps_against_losses_is_said_of_the_source_that_has_them() -> None:
    rows = make_run()
    lost = {"cpu": None, "from_ns": 5_500, "to_ns": 5_600, "count": 1}
    rows["losses"] = [{**lost, "source": "amd_log"}]
    outcome, _, remedy = judge(rows, "doorbell_per_packet")
    assert outcome == "UNKNOWN" and "HIP log" in remedy and "buffers" not in remedy
    rows["losses"] = [{**lost, "source": "ftrace"}]
    assert judge(rows, "doorbell_per_packet")[2] == "record again with larger buffers, and with room on the disk"
