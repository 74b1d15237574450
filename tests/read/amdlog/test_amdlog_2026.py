"""What ROCm 7.3 to 10 print of packets, arguments and hangs; `messages.jsonl` tells each message (synthetic logs)."""

from __future__ import annotations

import pytest
from amdlog_cases import log, read

_FRONT = "SWq=0x22, HWq=0x50, id=1, priority=3, "
_KERNEL = "private_seg_size=0, group_seg_size=2048, kernel_obj=0x58a, kernarg_address=0x400"
_DISPATCH = (
    f"{_FRONT}virtual_pipe_id=2, Dispatch Header = 0xb02 (type=2, barrier=1, acquire=1, release=1), setup=2, "
    f"grid=[512, 64, 1], workgroup=[16, 16, 1], {_KERNEL}, completion_signal=0x0, rptr=3, wptr=4"
)
_BARRIER = (
    f"{_FRONT}virtual_pipe_id=1, Barrier-AND Header = 0x1503 (type=3, barrier=1, acquire=2, release=2), "
    "dep_signal=[0x70, 0x0, 0x0, 0x0, 0x0], completion_signal=0x7f, rptr=0, wptr=2"
)


def test_the_size_of_arguments_is_that_of_the_packet_behind_it() -> None:
    found = read(log("argSize = 28, KernargSegmentByteSize = 284, KernargSegmentAlignment = 8", _DISPATCH))
    assert found.packet(found.one(name="dispatch"))["kernarg_bytes"] == 284
    assert len(found.events) == 1


def test_arguments_of_a_kernel_are_used_and_no_rows() -> None:
    args = ("ptr:0x7f00 ", "ptr:0x7f00 obj:[0x7f00-0x8000]", "val:0x5 (size:0x4)", "0x01 02 03 ... (size:0x80)")
    whole = log(*(f"Arg{i}: T a{i} = {text}" for i, text in enumerate(args)), _DISPATCH)
    found = read(whole)
    assert [row["name"] for row in found.events.to_dicts()] == ["dispatch"]
    assert found.counts() == {"used": (5, len(whole))}


@pytest.mark.parametrize(
    ("read_index", "printed", "index", "slot"),
    [
        (16380, 16383, 16383, None), (16380, 3, None, 3), (16384, 16383, None, 16383), (7, 7, 7, None),
        (2**32 + 5, 9, None, 9), (2**32 - 1, 0, 0, None), (2**32 - 1, 2**32 - 1, 2**32 - 1, None),
    ],
)  # fmt: skip
def test_a_slot_of_the_ring_is_no_index(read_index: int, printed: int, index: int | None, slot: int | None) -> None:
    """Behind the read index lies what is no index, but for numbers of 32 bits that begin anew."""
    dispatch = _DISPATCH.replace("rptr=3, wptr=4", f"rptr={read_index}, wptr={printed}")
    found = read(log("Graph ShaderName : k(int*), device id : 0", dispatch))
    row = found.one(name="dispatch")
    assert (row["packet_index"], row["kernel"], found.arg(row).get("slot")) == (index, "k(int*)", slot)
    assert found.packet(row)["rptr"] == read_index


def test_what_is_no_kernel_in_a_graph_gives_no_name() -> None:
    marker = "Graph ShaderName : [Graph completion barrier], device id : 0"
    found = read(log(marker, _BARRIER, marker, _DISPATCH))
    assert [row["kernel"] for row in found.events.to_dicts()] == [None] * 4
    assert found.events["flags"].to_list() == [0] * 4


_STANDS = (
    "SWq=0x22, HWq=0x50, id=1, priority=1, Dispatch Header = 0xb02 (type=2, barrier=1, acquire=1, release=1), setup=2, "
    f"grid=[512, 64, 1], workgroup=[16, 16, 1], {_KERNEL}, completion_signal=0x7f, rptr=3, wptr=5"
)
# Lines of a runtime that found a hang, beside the log: name, ring of the row, args.
_HUNG: dict[str, tuple[str, int | None, dict[str, int]]] = {
    f"VGPU(0x6) hang analysis:\n{_STANDS}\nSWq=0x22, HWq=0x50, id=1, Metadata Packet [wptr=3]: header=[0x2]": (
        "hung_packet", 0x50,
        {"virtual_gpu": 6, "swq": 0x22, "ring": 0x50, "header": 0xB02, "grid_x": 512, "grid_y": 64, "grid_z": 1,
         "workgroup_x": 16, "workgroup_y": 16, "workgroup_z": 1, "private_bytes": 0, "group_bytes": 2048,
         "kernel_object": 0x58A, "kernarg": 0x400, "rptr": 3, "wptr": 5},
    ),
    "VGPU(0x6) Queue(0x22) is idle": ("idle_queue", None, {"virtual_gpu": 6, "swq": 0x22}),
    "VGPU(0x6) Queue(0x22). Couldn't find the hang AQL packet!": ("hung_queue", None, {"virtual_gpu": 6, "swq": 0x22}),
    "VGPU(0x6) Queue(0x22). Couldn't find kernel": ("hung_queue", None, {"virtual_gpu": 6, "swq": 0x22}),
    "VGPU(0x6) Queue(0x22) rptr=3, wptr=5. Vendor packet (amd_format=2)": (
        "hung_queue", None, {"virtual_gpu": 6, "swq": 0x22, "rptr": 3, "wptr": 5, "amd_format": 2},
    ),
    "VGPU(0x6) Queue(0x22) rptr=3, wptr=5. A barrier packet in the queue!": (
        "hung_queue", None, {"virtual_gpu": 6, "swq": 0x22, "rptr": 3, "wptr": 5},
    ),
}  # fmt: skip


@pytest.mark.parametrize("text", _HUNG)
def test_what_the_runtime_prints_of_a_hang_beside_the_log_is_read(text: str) -> None:
    name, ring, args = _HUNG[text]
    whole = log("No HW event") + text + "\n" + log("No HW event")
    found = read(whole)
    row = found.one(name=name)
    told = found.arg(row)
    assert (row["ring"], told.pop("message")) == (ring, " ".join(text.split("\n")))
    assert told == args
    assert found.counts() == {"used": (3, len(whole))}
