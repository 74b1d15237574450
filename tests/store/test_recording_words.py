"""What a capture says of itself: absent probes, late ones, how its workload ended (SYNTHETIC contents)."""

from __future__ import annotations

from typing import Any

import pytest

from tracecorr.store.recording import describe_exit, describe_gaps, list_late

_LIBRARY = "/proc/21309/root/usr/lib/libhsa-runtime64.so.1.18.0"


def _late(**changed: Any) -> dict[str, Any]:
    entry = {
        "library": "/usr/lib/libhsa-runtime64.so.1.18.0", "kind": "hsa", "pid": 21309, "before_start": False,
        "seen_ns": 1_000_000, "doorbells_ns": 672_008_400, "armed_ns": 700_000_000, "probes": ["doorbell"],
    }  # fmt: skip
    return entry | changed


def test_a_late_probe_tells_from_when_on_it_records() -> None:
    assert list(describe_gaps({"late": [_late()]})) == [
        "late: libhsa-runtime64.so.1.18.0 was found when process 21309 mapped it: its doorbells are recorded from "
        "671.0 ms after that was seen, earlier ones are inferred"
    ]
    other = list(describe_gaps({"late": [_late(probes=["roctx_range"])]}))
    assert "its functions are recorded from 699.0 ms" in other[0] and "inferred" not in other[0]


def test_what_was_probed_before_the_start_is_not_late() -> None:
    assert list(describe_gaps({"late": [_late(before_start=True), _late(probes=[])]})) == []


def test_probes_on_one_library_are_one_line() -> None:
    gone = "Failed to find the given file"
    absent = [
        {"what": f"probe hsa_queue_{name} ({_LIBRARY}:0xc0e10 ret=$retval:s32)", "why": gone}
        for name in ("create", "destroy")
    ]
    absent += [
        {"what": "probe doorbell (/opt/libhsa.so:0x10)", "why": "no room"},
        {"what": "events amdgpu/*", "why": "the driver is not loaded"},
    ]
    assert list(describe_gaps({"absent": absent})) == [
        f"not recorded: 2 probes on {_LIBRARY}: {gone} (process 21309 had ended)",
        "not recorded: probe doorbell (/opt/libhsa.so:0x10): no room",
        "not recorded: events amdgpu/*: the driver is not loaded",
    ]


def test_a_late_entry_without_times_is_left_out() -> None:
    bare = {"library": "/usr/lib/libhsa-runtime64.so", "kind": "hsa", "probes": ["doorbell"]}
    assert list_late({"late": [bare, _late(doorbells_ns=None)]}) == []
    assert list(describe_gaps({"late": [bare]})) == []


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (0, "0"), (7, "7"), (139, "139, as after SIGSEGV (Segmentation fault)"),
        (134, "134, as after SIGABRT (Aborted)"), (128, "128"), (255, "255"), (None, ""), ("damaged", ""),
    ],
)  # fmt: skip
def test_an_exit_status_names_the_signal_that_it_stands_for(status: Any, expected: str) -> None:
    assert describe_exit({"exit_status": status}) == expected
