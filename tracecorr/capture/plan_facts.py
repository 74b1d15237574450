"""What capture.json says of a run: what was asked for and armed, from the start or late, and what is absent."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tracecorr.capture.host_facts import read_host
from tracecorr.capture.options import CaptureOptions
from tracecorr.capture.owner import this_process
from tracecorr.capture.plan import Absent, Plan
from tracecorr.store.recording import FAILED

# How the absence of a kind of runtime begins that may appear late after all.
_ABSENT_OF = {"hsa": "doorbells", "roctx": "roctx ranges", "hip": "HIP entry points", "other": "--uprobes"}
_STORED_PREFIXES = ("AMD_", "HIP_", "HSA_", "ROCR_", "GPU_", "HCC_")


def first_facts(options: CaptureOptions, plan: Plan, program: str, user: str) -> dict[str, Any]:
    """Return what capture.json says before anything ran.

    Args:
        options: what was asked for.
        plan: what is to be armed.
        program: path of the workload's executable on the host.
        user: as whom it runs.
    """
    return {
        "state": "recording", "recorder": asdict(this_process()), "command": list(options.command), "program": program,
        "user": user, "cwd": str(Path.cwd()), "host": read_host(), "wanted": asdict(options.wanted),
        "plan": facts_of_plan(plan, plan.absent), "ftrace_clock": "auto", "files": [],
    }  # fmt: skip


def choose_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of a workload that its runtimes read."""
    return {key: value for key, value in sorted(environment.items()) if key.startswith(_STORED_PREFIXES)}


def describe_end(failure: Exception | None) -> dict[str, Any]:
    """Return what capture.json says of a capture that has ended: `state`, and why it failed, where it did."""
    if failure is None:
        return {"state": "complete"}
    why = failure.strerror if isinstance(failure, OSError) and failure.strerror else str(failure)
    return {"state": FAILED, "failure": why}


def facts_of_plan(plan: Plan, absent: Iterable[Absent]) -> dict[str, Any]:
    """Return what was armed and what is absent, for capture.json."""
    return {
        "instances": [asdict(instance) for instance in plan.instances],
        "probes": [asdict(probe) for probe in plan.probes],
        "absent": [asdict(absence) for absence in absent],
        "perf_cpus": plan.perf_cpus,
        "watch_mappings": plan.watch_mappings,
        "copy_top_buffer": plan.copy_top_buffer,
        "smi_gpus": plan.smi_gpus,
    }


def facts_after_late(plan: Plan, late: list[dict[str, Any]], late_absent: Iterable[Absent]) -> dict[str, Any]:
    """Return the plan with what was armed late; what is armed is absent no more.

    Args:
        plan: what was armed, and what is absent.
        late: libraries that appeared during the recording, as `LateProbes.armed` has them.
        late_absent: what is absent of these.
    """
    kinds = {entry["kind"] for entry in late if entry["probes"]}
    absent = [a for a in plan.absent if not any(a.what.startswith(_ABSENT_OF[kind]) for kind in kinds)]
    return {**facts_of_plan(plan, (*absent, *late_absent)), "late": late}
