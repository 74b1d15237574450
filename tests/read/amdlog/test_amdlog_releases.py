"""The reader on lines of all releases: their prefixes, and words that changed from one to the other."""

from __future__ import annotations

import pytest
from amdlog_cases import log, read

from tracecorr.read.amdlog.reader import looks_like_amd_log

SITE = f":3:{'hip_memory.cpp':<25}:{777:<4}: "


PREFIXES = {
    "4.5 call": (SITE + "266505887444 us: 120148: [7fb360ad23c0] ", 120148, 0x7FB360AD23C0),
    "4.5 packet": (SITE + "266505887444 us: [7fb360ad23c0] ", None, 0x7FB360AD23C0),
    "4.5 wait": (SITE + "266505887444 us: [7fb360ad23c0]!\t ", None, 0x7FB360AD23C0),
    "4.5 bare": (SITE + "266505887444 us: ", None, None),
    "5.0": (SITE + "0305305394 us: 8088 : [tid:0x7f674bedd880] ", 8088, 0x7F674BEDD880),
    "6.0": (SITE + "14629861941 us: [pid:16    tid:0x7fa5a37fe700] ", 16, 0x7FA5A37FE700),
    "6.3 level 4": (SITE + "1917470247183d us:  ", None, None),
    "6.3 level 5": (SITE + "1917470247183d us: [pid:9 tid: 7f316f4006c0] ", 9, 0x7F316F4006C0),
    "6.4 level 3": (SITE + "159550074485 us:  ", None, None),
    "6.4": (SITE + "159550074485 us: [pid:740193 tid: 0x778c75a53740] ", 740193, 0x778C75A53740),
    "windows": (SITE + "159550074485 us: [pid:7 tid: 0x 6840] ", 7, 0x6840),
    "no location": (f":3:{'':<25}:0   : 159550074485 us: [pid:7 tid: 0x6840] ", 7, 0x6840),
    "2026 hash": (SITE + "159550074485 us: [pid:740193 tid: 0x0a2b3] ", 740193, 0xA2B3),
    "up for 55 days": (SITE + "4815821498568 us: [pid:2429112 tid:0x70536bbc5640] ", 2429112, 0x70536BBC5640),
    "no location, level 3": (f":3:{'':<25}:0   : 159550074485 us:  ", None, None),
    "level 0": (f":0:{'rocdevice.cpp':<25}:3321: 159550074485 us: [pid:7 tid: 0x68] ", 7, 0x68),
    "long site": (f":3:{'a_very_long_file_name_of_a_source.cpp'}:12345: 59550074485 us: [pid:7 tid: 0x68] ", 7, 0x68),
    "path": (":1:C:\\src\\rocclr\\x.cpp:12  : 59550074485 us: [pid:7 tid: 0x68] ", 7, 0x68),
    "indented": ("    " + SITE + "102993795582 us: 17154: [tid:0x7f0824e798c0] ", 17154, 0x7F0824E798C0),
}


@pytest.mark.parametrize("name", PREFIXES)
def test_prefixes_of_all_releases(name: str) -> None:
    prefix, pid, tid = PREFIXES[name]
    found = read(prefix + "Free hsa memory 0x1400\n")
    row = found.one(name="free")
    assert (row["pid"], row["tid"], row["arg"], row["clock"]) == (pid, tid, 0x1400, "mono")
    time = prefix.partition(" us:")[0].rstrip("d").rpartition(" ")[2]
    assert row["stamp_ns"] == int(time) * 1000
    assert row["layer"] == "memory"
    assert looks_like_amd_log(prefix.encode() + b"init\n")


def test_packets_of_all_releases() -> None:
    found = read(
        log(
            "HWq=0x7fb360aa6000, Dispatch Header = 0x502 (type=2, barrier=1, acquire=2, release=0), setup=1, "
            "grid=[256, 1, 1], workgroup=[256, 1, 1], private_seg_size=0, group_seg_size=0, kernel_obj=0x7f, "
            "kernarg_address=0x7e, completion_signal=0x7d",
            "SWq=0x2, HWq=0x3, id=1, BarrierAND Header = 0x103 (type=3, barrier=1, acquire=0, release=0), "
            "dep_signal=[0x7ff180, 0x0, 0x10, 0x0, 0x0], completion_signal=0x4, rptr=0, wptr=0",
            "SWq=0x2, HWq=0x3, id=1, BarrierValue Header = 0x1500 AmdFormat = 0x2 (type=0, barrier=1, acquire=2, "
            "release=2), signal=0x9, value = 0x0 mask = 0x0 cond: EQ, completion_signal=0x7ff080, rptr=3, wptr=3",
            "SWq=0x2, HWq=0x3, id=1, Barrier-OR Header = 0x105 (type=5, barrier=1, acquire=0, release=0), "
            "dep_signal=[0x0, 0x0, 0x0, 0x0, 0x0], completion_signal=0x4, rptr=0, wptr=4",
        )
    )
    names = [r["name"] for r in found.rows(layer="aql")]
    assert names == ["dispatch", "barrier_and", "barrier_value", "barrier_or"]
    assert [r["packet_index"] for r in found.rows(layer="aql")] == [None, 0, 3, 4]
    assert found.packets["dep_signals"].to_list() == [None, [0x7FF180, 0x10], [9], []]
    assert found.one(name="dispatch")["signal"] == 0x7D


def test_queues_of_old_releases_are_no_rings() -> None:
    old = "[pid:16    tid:0x7f54f7603280] "
    created = "created hardware queue 0x50 with size 16384 with priority 1, cooperative: 0"
    found = read(log(created, "acquireQueue refCount: 0x50 (1)", thread=old))
    assert [r["ring"] for r in found.rows(layer="aql")] == [None, None]
    assert found.arg(found.one(name="queue_acquired")) == {"swq": 0x50, "refcount": 1}
    created = "Created SWq=0x22 to map on HWq=0x50 with size 16384 with priority 2, cooperative: 0"
    found = read(log(created, "acquireQueue refCount: 0x50 (1)", "releaseQueue refCount:0x50 (0)", thread=old))
    assert {r["ring"] for r in found.rows(layer="aql")} == {0x50}
    row = found.one(name="queue_created")
    assert found.arg(row) == {"swq": 0x22, "hwq": 0x50, "size": 16384, "priority": 2, "cooperative": 0}


def test_wordings_of_other_releases_give_the_same_fields() -> None:
    found = read(
        log(
            "Signal = (0x7f), start = 11, end = 12 time taken= 1 ns",
            "Locking to pool 0x5, size 0x10, HostPtr = 0x6, DevPtr = 0x7",
            "Locking to pool 0x5, size 0x20, hostMem = 0x8, deviceMemory = (nil), memSegment = 1",
            "Allocate hsa host memory 0x1012000, size 0x28",
            "Number of allocated hardware queues with low priority: 1, with normal priority: 2, "
            "with high priority: 3, maximum per priority is: 4",
        )
    )
    assert found.arg(found.one(name="gpu_time")) == {"start_ns": 11, "end_ns": 12}
    locks = found.rows(name="lock")
    assert [(r["arg"], r["size_bytes"]) for r in locks] == [(6, 16), (8, 32)]
    assert [found.arg(r) for r in locks] == [{"device_address": 7}, {"device_address": 0}]
    assert found.one(name="allocate_host")["size_bytes"] == 0x28
    counted = found.arg(found.one(name="queue_allocated_count"))
    assert counted == {"low": 1, "normal": 2, "high": 3, "maximum": 4}


def test_a_copy_of_rocm_5_4_tells_only_its_addresses() -> None:
    # Its printf has an argument too few: `wait_event` is its own signal, `completion_signal` was on the stack.
    copy = "HSA Asycn Copy dst=0x10, src=0x20, size=905725696, wait_event=0x7f0835fc4680, completion_signal=0x7ffd49f8"
    found = read(log(copy, copy, "HSA Asycn Copy wait_event=0x30, completion_signal=0x40"))
    rows = found.rows(name="copy")
    assert [(row["size_bytes"], row["signal"]) for row in rows] == [(None, None), (None, None), (None, 0x40)]
    packets = [found.packet(row) for row in rows]
    assert [(p["dst"], p["src"], p["dep_signals"]) for p in packets] == [
        (0x10, 0x20, None), (0x10, 0x20, None), (None, None, [0x30])
    ]  # fmt: skip


def test_rocm_3_5_prints_no_unit() -> None:
    text = (
        ":3:rocdevice.cpp             :453 : 23647210092: Initializing HSA stack.\n"
        ":3:hip_device_runtime.cpp   :502 : 23647698990: 5617 : [7fad295dd840] hipSetDevice ( 0 )\n"
        ":3:hip_device_runtime.cpp   :507 : 23647699042: 5617 : [7fad295dd840] hipSetDevice: Returned hipSuccess\n"
        "device#                           0\n"
    )
    found = read(text)
    row = found.one(layer="hip")
    assert (row["name"], row["pid"], row["tid"], row["result"]) == ("hipSetDevice", 5617, 0x7FAD295DD840, "hipSuccess")
    assert (row["stamp_ns"], row["end_stamp_ns"]) == (23647698990_000, 23647699042_000)
    assert found.counts() == {"program_output": (1, 36), "used": (3, len(text) - 36)}
