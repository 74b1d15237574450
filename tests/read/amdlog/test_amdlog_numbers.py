"""SYNTHETIC logs with numbers that no field can hold: such a number is missing, never another one."""

from __future__ import annotations

import pytest
from amdlog_cases import DISPATCH, Read, enter, line, log, read

MOST = (1 << 64) - 1
NUMBERS = {
    "5": 5, "1" * 16: int("1" * 16), "9" * 19: int("9" * 19), str(MOST): MOST, str(MOST - 1615): MOST - 1615,
    str(MOST + 1): None, "18446744073709560000": None, "9" * 20: None, "1" + "0" * 20: None, "4" * 30: None,
    "0x" + "f" * 16: MOST, "0x1" + "0" * 16: None, "0x" + "f" * 17: None, "-1": MOST, "": None, "0x": None,
}  # fmt: skip


@pytest.mark.parametrize(("text", "number"), NUMBERS.items())
def test_a_number_of_more_than_64_bits_is_none(text: str, number: int | None) -> None:
    found = read(log(f"Free hsa memory {text} "))
    assert found.one(name="free")["arg"] == number


@pytest.mark.parametrize(
    ("number", "size"), [("4096", 4096), (str(2**63 - 1), 2**63 - 1), (str(2**63), None), (str(MOST), None),
                         (str(MOST + 4097), None), ("9" * 40, None)],
)  # fmt: skip
def test_a_size_that_its_column_does_not_hold_is_missing(number: str, size: int | None) -> None:
    found = read(log(f"Allocate hsa host memory 0x1428400000, size {number}, numa_node = 0, mem_seg = 0"))
    assert found.events["size_bytes"].to_list() == [size]


@pytest.mark.parametrize("field", ["grid=[16384", "workgroup=[256", "private_seg_size=8", "rptr=5", "wptr=6", "id=1"])
def test_a_field_of_a_packet_is_itself_or_missing(field: str) -> None:
    key, usual = field.replace("[", "").split("=")
    columns = {"grid": "grid_x", "workgroup": "workgroup_x", "private_seg_size": "private_bytes", "id": "log_id"}

    def value(found: Read) -> object:
        (row,) = found.events.to_dicts()
        return row["packet_index"] if key == "wptr" else found.packet(row)[columns.get(key, key)]

    assert value(read(log(DISPATCH))) == int(usual)
    for number in (1 << 64, (1 << 64) + int(usual), 10**30 + int(usual), (1 << 63) + int(usual)):
        assert value(read(log(DISPATCH.replace(field, field.replace(usual, str(number)))))) is None


@pytest.mark.parametrize(
    ("thread", "pid", "tid"),
    [("[pid:4294967295 tid: 0x7f00000000a0] ", 2**32 - 1, 0x7F00000000A0),
     ("[pid:4294967303 tid: 0x7f00000000a0] ", None, 0x7F00000000A0),
     ("[pid:7 tid: 0x100007f00000000a0] ", 7, None),
     ("[pid:4294967303 tid: 0x100007f00000000a0] ", None, None),
     (f"[pid:{'9' * 27} tid: 0x7f00000000a0] ", None, None)],
)  # fmt: skip
def test_a_thread_is_not_one_whose_number_ends_alike(thread: str, pid: int | None, tid: int | None) -> None:
    found = read(log("HMM support: 0, XNACK: 0, Direct host access: 0", thread=thread))
    assert found.events.select("pid", "tid").rows() == [(pid, tid)]


def test_a_handle_that_is_too_long_is_no_stream() -> None:
    asked = enter("hipStreamDestroy", "stream:0x1000000000000abcd")
    assert read(line(asked)).events["stream"].to_list() == [None]
    given = enter("hipStreamSynchronize", "stream:0x1,000,000,000,000,abc,d00,")
    assert read(line(given.replace("d00, ", "d00 "))).events["stream"].to_list() == [None]
