"""SMI events of the KFD: every line in the driver's formats, pairs, and lines that are none (all synthetic)."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracecorr.model.kinds import Flag
from tracecorr.model.parts import Block
from tracecorr.read.kfd.smi import read_smi_events

# The formats of kfd_smi_events.c: 6.1 (no error code, no character behind a restore), 6.12 (a NUL there), 7.2.
LINES = (
    b"9 1000000 -4321 f7bc 2\n",
    b"10 2000000 -4321 f7bc\n".replace(b"10", b"a"),
    b"9 3000000 -4321 f7bc 1\n",
    b"a 3500000 -4321 f7bc R\n",
    b"a 4000000 -4321 f7bc \0\n",
    b"7 5000000 -4321 @7f0011(f7bc) W\n",
    b"8 5100000 -4321 @7f0011(f7bc) M\n",
    b"5 6000000 -4321 @7f0000(200) 0->f7bc 0:f7bc 1\n",
    b"6 6400000 -4321 @7f0000(200) 0->f7bc 1 -16\n",
    b"5 6500000 -4321 @7f0200(10) f7bc->0 0:0 3\n",
    b"6 6600000 -4321 @7f0200(10) f7bc->0 3\n",
    b"b 7000000 -4321 @7f0000(200) f7bc 2\n",
    b"1 10e1:my task: x\n",
    b"2 40:1f\n",
    b"3 5 gfx ring timeout\n",
    b"4 5\n",
    b"c 10e1 python3\n",
    b"d 10e1 python3\n",
    b"e 8000000 -77 12\n",
)


def _read(*lines: bytes, gpu: bytes = b"f7bc", end: bytes = b"") -> Block:
    data = b"".join(b"%d %d %s %s" % (n * 1000, n * 1000 + 300, gpu, line) for n, line in enumerate(lines)) + end
    (block,) = read_smi_events([data[:7], data[7:]], 3)
    assert block.ledger["bytes"].sum() == len(data)
    return block


def _rows(block: Block) -> list[tuple[object, ...]]:
    events = block.events.with_columns(pl.col("name", "clock", "result").cast(pl.String))
    return events.select("name", "stamp_ns", "end_stamp_ns", "clock", "pid", "size_bytes", "result", "flags").rows()


def _args(block: Block, name: str) -> list[dict[str, object]]:
    found = []
    for offset in block.events.filter(pl.col("name").cast(pl.String) == name)["offset"]:
        mine = block.args.filter(pl.col("offset") == offset).select(
            pl.col("key").cast(pl.String), pl.coalesce(pl.col("u64").cast(pl.String), "text")
        )
        found.append(dict(mine.iter_rows()))
    return found


def test_every_event_of_the_driver() -> None:
    block = _read(*LINES)
    assert _rows(block) == [
        ("QUEUE_EVICTION", 1000000, 2000000, "boot", 4321, None, None, 0),
        ("QUEUE_EVICTION", 3000000, 4000000, "boot", 4321, None, None, 0),
        ("QUEUE_RESTORE_RESCHEDULED", 3500000, None, "boot", 4321, None, None, 0),
        ("PAGE_FAULT", 5000000, 5100000, "boot", 4321, None, None, 0),
        ("MIGRATE", 6000000, 6400000, "boot", 4321, 2 << 20, "EBUSY", 0),
        ("MIGRATE", 6500000, 6600000, "boot", 4321, 16 << 12, None, 0),
        ("UNMAP_FROM_GPU", 7000000, None, "boot", 4321, 2 << 20, None, 0),
        ("VMFAULT", 12300, None, "mono", 4321, None, None, 0),
        ("THERMAL_THROTTLE", 13300, None, "mono", None, None, None, 0),
        ("GPU_RESET", 14300, 15300, "mono", None, None, None, 0),
        ("PROCESS_START", 16300, None, "mono", 4321, None, None, 0),
        ("PROCESS_END", 17300, None, "mono", 4321, None, None, 0),
        ("DROPPED_EVENT", 8000000, None, "boot", None, None, None, 0),
    ]
    gpu = str(0xF7BC)
    assert [a["trigger"] for a in _args(block, "QUEUE_EVICTION")] == ["TTM", "USERPTR"]
    assert _args(block, "PAGE_FAULT") == [
        {"gpu_id": gpu, "address": str(0x7F0011 << 12), "access": "W", "recovered_by": "migration"}
    ]
    assert _args(block, "MIGRATE")[0] == {
        "gpu_id": gpu, "address": str(0x7F0000 << 12), "from": "0", "to": gpu, "prefetch": "0", "preferred": gpu,
        "trigger": "PAGEFAULT_GPU",
    }  # fmt: skip
    assert _args(block, "UNMAP_FROM_GPU")[0]["trigger"] == "UNMAP_FROM_CPU"
    assert _args(block, "VMFAULT")[0] == {"gpu_id": gpu, "task": "my task: x", "waited_ns": "300"}
    assert _args(block, "THERMAL_THROTTLE")[0]["bitmask"] == str(0x40)
    assert _args(block, "GPU_RESET")[0]["cause"] == "gfx ring timeout"
    assert block.losses.select("from_ns", "to_ns", "count").rows() == [(18000, 18300, 12)]
    assert block.ledger.select(pl.col("outcome").cast(pl.String), "records").rows() == [("used", len(LINES))]


def test_bytes_of_a_pair_are_those_of_both_lines() -> None:
    block = _read(*LINES[:2])
    row = block.events.row(0, named=True)
    assert (row["offset"], row["end_offset"]) == (0, len(b"0 300 f7bc ") + len(LINES[0]))
    assert row["length"] == row["end_offset"] - 1


def test_evictions_nest_and_halves_stay_halves() -> None:
    """Two reasons at once: the queues run again only after the second restore."""
    block = _read(
        b"a 1 -7 f7bc\n", b"9 2 -7 f7bc 2\n", b"9 3 -7 f7bc 0\n", b"9 4 -8 f7bc 0\n", b"a 5 -7 f7bc\n", b"a 6 -7 f7bc\n"
    )
    assert [(r[1], r[2], r[4], r[7]) for r in _rows(block)] == [
        (1, None, 7, Flag.EXIT_ONLY), (2, 6, 7, 0), (3, 5, 7, 0), (4, None, 8, Flag.ENTER_ONLY),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("line", "reason"),
    [(b"f 1 -2 3\n", "unknown_event"), (b"9 1 -2 zz 0\n", "unknown_fields"), (b"\n", "no_line_of_smi_events"),
     (b"9 99999999999999999999 -2 a 0\n", "unknown_fields"), (b"9 1000000 -4321 f7bc 2", "torn_line")],
)  # fmt: skip
def test_lines_that_are_none_are_skipped_with_a_reason(line: bytes, reason: str) -> None:
    block = _read(LINES[6], line)
    assert block.events.height == 1
    skipped = block.ledger.filter(pl.col("outcome").cast(pl.String) == "skipped")
    assert skipped.select(pl.col("reason").cast(pl.String), "records").rows() == [(reason, 1)]


@given(st.lists(st.one_of(st.sampled_from(LINES), st.binary(max_size=40))), st.binary(max_size=20))
def test_any_bytes_are_accounted_for(lines: list[bytes], end: bytes) -> None:
    _read(*lines, end=end)


@pytest.mark.parametrize("pages", [b"10000000000000", b"7fffffffffffffff", b"ffffffffffffffff"])
def test_more_pages_than_an_address_space_has_are_no_size(pages: bytes) -> None:
    (row,) = _rows(_read(LINES[9].replace(b"(10)", b"(%s)" % pages)))
    assert row[5] is None
    (args,) = _args(_read(LINES[5].replace(b"@7f0011", b"@" + pages)), "PAGE_FAULT")
    assert "address" not in args
