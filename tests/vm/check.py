"""Check what scripts/test_vm brought back: probes of KFD functions lie inside their ioctls, with their arguments."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import polars as pl

from tracecorr import open_capture
from tracecorr.pipeline import correlate

_OLD_JOBS = {"drm_sched_job", "drm_run_job", "drm_sched_process_job"}
_NEW_JOBS = {"drm_sched_job_queue", "drm_sched_job_run", "drm_sched_job_done"}
# Whether arguments are known at returns, and fields by name: what `doctor` found on these kernels. A kernel that is
# not here is not judged.
_ARGUMENTS = {
    "5.10.": (False, False), "5.15.": (False, False), "6.1.": (False, False),
    "6.8.": (True, True), "6.12.": (True, True), "7.3.": (True, True),
}  # fmt: skip
# The driver's function behind an update of a queue, by its name of Linux 5.10 and 5.15, and of 6.1 and later.
_UPDATES = {"pqm_update_queue", "pqm_update_queue_properties"}
# What kfd_poke.py asks for: ring of its n-th queue, size, priority, GPU, type.
_RING, _RING_STEP, _SIZE, _GPU = 0x7F1100000000, 1 << 20, 0x10000, 0xDEAD


def main(folder: Path) -> None:
    """Print what was seen; exit 1 where it is not what the kernel must show."""
    capture = folder / "poke.tracecorr"
    problems = [f"changed by the capture and not put back: {name}" for name in _lines(folder / "state.txt")]
    info = json.loads((capture / "capture.json").read_text())
    events, functions, probes = _armed(info)
    print(f"armed: {len(events)} events, {len(functions)} functions, {len(probes)} probes")
    for absent in info["plan"]["absent"]:
        print(f"absent: {absent['what']}: {absent['why']}")
    for names in (_OLD_JOBS, _NEW_JOBS):
        if names & events:
            print(f"gpu_scheduler events armed: {' '.join(sorted(names & events))}")
    if not (events >= _OLD_JOBS or events >= _NEW_JOBS):
        problems.append("no complete set of gpu_scheduler events is armed")
    # The request for SMI events reaches its function in the driver, which knows no such GPU (another says ENOTTY).
    asked = (folder / "smi.txt").read_text()
    problems += [] if asked == "EINVAL" else [f"a request for SMI events gave {asked}"]
    kept = _lines(folder / "kept.txt")[-1]
    print(f"probes that children keep: {kept}")
    problems += [] if "passed" in kept and "failed" not in kept else ["children lost their probes: kept.txt"]
    problems += [] if "kfd_ioctl_create_queue" in probes else ["not armed: kfd_ioctl_create_queue"]
    problems += [] if len(_UPDATES & probes) == 1 else ["updates of queues are not probed once"]
    problems += _check_suspending(info["host"]["kernel"], _lines(folder / "suspending.txt"))
    problems += _check_arguments(json.loads((folder / "machine.json").read_text()))
    for warning in correlate(capture):
        print(f"warning: {warning}")
    problems += _check_calls(capture, _calls(folder))
    for problem in problems:
        print(f"FAILED: {problem}")
    sys.exit(bool(problems))


def _check_suspending(kernel: str, told: list[str]) -> list[str]:
    """Queues are refused or suspended as on this kernel without a GPU; Linux 6.1 knows no debuggers."""
    for line in told:
        print(f"suspend: {line}")
    if kernel.startswith("6.12."):
        problems = [line for line in told if line.startswith("FAILED")]
        problems += [] if "done" in told else ["steps of suspend did not end"]
        return problems + ([] if "allows no debugger" in told[-1] else ["sched_policy=2 is not refused in words"])
    # Linux 7 lets nobody open /dev/kfd without a GPU.
    refused = any("allows no debugger" in line for line in told[:1])
    return [] if refused or not kernel.startswith(("5.", "6.1.", "7.")) else ["suspend is not refused in words"]


def _check_arguments(machine: dict[str, Any]) -> list[str]:
    """Compare what was found out about arguments with what is known of this kernel."""
    found = machine["return_arguments"], machine["btf_arguments"]
    known = next((facts for kernel, facts in _ARGUMENTS.items() if machine["kernel"].startswith(kernel)), found)
    return [] if found == known else [f"arguments at returns and by name: {found}, known of this kernel: {known}"]


def _armed(info: dict[str, Any]) -> tuple[set[str], set[str], set[str]]:
    instances = info["plan"]["instances"]
    events = {e["name"] for i in instances for e in i["events"]}
    functions = {f for i in instances for f in i["functions"]}
    return events, functions, {p["name"] for p in info["plan"]["probes"]}


def _calls(folder: Path) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in _lines(folder / "poke.jsonl")]
    return [line for line in lines if "name" in line]


def _check_calls(path: Path, calls: list[dict[str, Any]]) -> list[str]:
    """Compare the probes with what the program did; without calls the kernel let nobody open /dev/kfd."""
    if not calls:
        print("the program could not open /dev/kfd: nothing to compare")
        return []
    capture = open_capture(path)
    events, args = capture.table("events").collect(), capture.table("args").collect()
    name, layer = pl.col("name").cast(pl.String), pl.col("layer").cast(pl.String)
    ioctls = events.filter(layer == "ioctl")
    problems = []
    print(f"calls {len(calls)}, ioctl rows {ioctls.height}")
    if len(calls) != ioctls.height:
        problems.append("calls and ioctls differ in number")
    traced = events.filter(name == "kfd_ioctl_get_version")
    print(f"kfd_ioctl_get_version through the function tracer: {traced.height}")
    if traced.height != sum(call["name"] == "GET_VERSION" for call in calls):
        problems.append("the function tracer did not show kfd_ioctl_get_version under its name")
    made = events.filter(name == "kfd_ioctl_create_queue").sort("ts_ns")
    parents = made.join(ioctls.select("event", outer="name"), left_on="parent", right_on="event", how="left")
    print(f"kfd_ioctl_create_queue rows: {made.height}, inside {parents['outer'].cast(pl.String).to_list()}")
    creations = sum(call["name"] == "CREATE_QUEUE" for call in calls)
    if parents["outer"].cast(pl.String).to_list() != ["AMDKFD_IOC_CREATE_QUEUE"] * creations:
        problems.append("a probe of CREATE_QUEUE does not lie inside its ioctl")
    for number, event in enumerate(made["event"].to_list()):
        seen = dict(args.filter(pl.col("event") == event).select(pl.col("key").cast(pl.String), "u64").iter_rows())
        print(f"  queue {number}: {seen}")
        asked = {"ring": _RING + number * _RING_STEP, "size": _SIZE, "gpu": _GPU, "prio": 7 + number}
        if {key: seen.get(key) for key in asked} != asked:
            problems.append(f"queue {number}: asked for {asked}, recorded {seen}")
    if made["result"].cast(pl.String).to_list() != ["EINVAL"] * creations:
        problems.append("the results of CREATE_QUEUE are not those of a machine without a GPU")
    return problems


def _lines(path: Path) -> list[str]:
    return [line for line in path.read_text().splitlines() if line]


main(Path(sys.argv[1]))
