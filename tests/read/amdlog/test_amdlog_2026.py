"""Packets as the development branch of 2026 prints them: other keys, and slots for indexes (synthetic logs)."""

from __future__ import annotations

import pytest
from amdlog_cases import log, read

_END = "rptr={}, wptr={}"
_DISPATCH = (
    "SWq=0x22, HWq=0x50, id=1, priority=1, Dispatch Header = 0x1502 (type=2, barrier=1, acquire=2, release=2), "
    "setup=1, grid=[64, 1, 1], workgroup=[64, 1, 1], private_seg_size=0, group_seg_size=0, kernel_obj=0x1, "
    "kernarg_address=0x2, completion_signal=0x0, " + _END
)
_BARRIER = (
    "SWq=0x22, HWq=0x50, id=1, priority=1, virtual_pipe_id=3, Barrier-{} Header = 0x1503 (type=3, barrier=1, "
    "acquire=2, release=2), dep_signal=[0x70, 0x0, 0x0, 0x0, 0x0], completion_signal=0x80, " + _END
)
_CLUSTERS = (
    "SWq=0x22, HWq=0x50, id=1, priority=1, Dispatch Header = 0x1500 (type=0, barrier=1, acquire=2, release=2), "
    "setup=1, cluster_count=[4, 1, 1], cluster_size=[2, 1, 1], workgroup=[64, 1, 1], private_seg_size=0, "
    "group_seg_size=0, kernel_obj=0x1, kernarg_address=0x2, dep_signal=0x70, completion_signal=0x0, " + _END
)
_METADATA = (
    "SWq=0x22, HWq=0x50, id=1, Metadata Packet [wptr=4]: header=[0x1, 0x2, 0x3, 0x4], event_id=0x0, "
    "kernel_code_entry_byte_offset=0x100, compute_pgm_rsrc1=0x5, kernarg_preload=[length=0, offset=0], "
    "launch_descriptor=[0x00000001 0x00000002]"
)


def test_packets_have_their_fields_behind_new_keys() -> None:
    found = read(log(_DISPATCH.format(0, 1), _BARRIER.format("AND", 1, 2), _BARRIER.format("OR", 1, 3)))
    rows = found.events.to_dicts()
    assert [(row["name"], row["ring"], row["packet_index"]) for row in rows] == [
        ("dispatch", 0x50, 1), ("barrier_and", 0x50, 2), ("barrier_or", 0x50, 3),
    ]  # fmt: skip
    assert [found.packet(row)["dep_signals"] for row in rows] == [None, [0x70], [0x70]]
    assert (found.packet(rows[0])["grid_x"], found.packet(rows[0])["workgroup_x"]) == (64, 64)


def test_a_dispatch_of_clusters_has_no_grid_and_waits_for_its_signal() -> None:
    found = read(log(_CLUSTERS.format(0, 4), _METADATA))
    row, other = found.events.to_dicts()
    assert (row["name"], row["packet_index"]) == ("dispatch", 4)
    assert (found.packet(row)["grid_x"], found.packet(row)["dep_signals"]) == (None, [0x70])
    assert (other["layer"], other["packet_index"], other["ring"]) == ("other", None, None)


@pytest.mark.parametrize(
    ("read_index", "printed", "index", "slot"),
    [
        (16380, 16383, 16383, None), (16380, 3, None, 3), (16384, 16383, None, 16383), (7, 7, 7, None),
        (2**32 + 5, 9, None, 9), (2**32 - 1, 0, 0, None), (2**32 - 1, 2**32 - 1, 2**32 - 1, None),
    ],
)  # fmt: skip
def test_a_slot_of_the_ring_is_no_index(read_index: int, printed: int, index: int | None, slot: int | None) -> None:
    """Behind the read index lies what is no index, but for numbers of 32 bits that begin anew."""
    found = read(log("Graph ShaderName : k(int*), device id : 0", _DISPATCH.format(read_index, printed)))
    row = found.one(name="dispatch")
    assert (row["packet_index"], row["kernel"], found.arg(row).get("slot")) == (index, "k(int*)", slot)
    assert found.packet(row)["rptr"] == read_index


def test_what_is_no_kernel_in_a_graph_gives_no_name() -> None:
    barrier = "Graph ShaderName : [Graph completion barrier], device id : 0"
    found = read(log(barrier, _BARRIER.format("AND", 0, 0), barrier, _DISPATCH.format(0, 1)))
    assert [row["kernel"] for row in found.events.to_dicts()] == [None] * 4
    assert found.events["flags"].to_list() == [0] * 4
