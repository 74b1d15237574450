"""Machines described in files: what `probe_machine` found there, less many functions, or what is known of them."""

from __future__ import annotations

import json
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from tracecorr.capture.plan.plan import Offer, Runtime

MACHINES = Path(__file__).with_name("machines")


def read_offer(path: Path) -> Offer:
    """Return the offer of a described machine."""
    content: dict[str, Any] = json.loads(path.read_text())
    content.pop("from", None)
    if "like" in content:
        content = json.loads((MACHINES / f"{content.pop('like')}.json").read_text()) | content
        content.pop("from", None)
    known = {field.name for field in fields(Offer)}
    assert content.keys() <= known, content.keys() - known
    for name in ("events", "instance_options", "shared_names"):
        content[name] = frozenset(content.get(name, ()))
    for name in ("clocks", "workload_cpus", "smi_gpus"):
        content[name] = tuple(content.get(name, ()))
    content["runtimes"] = tuple(Runtime(**runtime) for runtime in content.get("runtimes", ()))
    return Offer(**content)


def describe_offer(offer: Offer, origin: str) -> str:
    """Return an offer as the text of such a file, with the functions that a plan may choose and a few others."""
    content = asdict(offer)
    content.pop("findings")
    words = ("kfd", "mqd", "pqm_", "cpsch", "queue", "pm_send", "doorbell", "sdma", "_mes")
    content["functions"] = {n: c for n, c in sorted(offer.functions.items()) if any(w in n for w in words)}
    chosen = ("sched/sched_", "gpu_scheduler/", "amdgpu/", "amdkfd/", "dma_fence/", "printk/console")
    calls = tuple(f"_{c}" for c in ("ioctl", "openat", "mmap", "munmap", "close", "dup", "dup2", "dup3", "clone",
                                    "clone3", "set_robust_list", "execve", "exit_group",
                                    "enter_write"))  # fmt: skip
    content["events"] = sorted(
        e for e in offer.events if e.startswith(chosen) or (e.startswith("syscalls/sys_") and e.endswith(calls))
    )
    content["instance_options"] = sorted(offer.instance_options)
    content["shared_names"] = sorted(offer.shared_names & content["functions"].keys())
    return json.dumps({"from": origin, **content}, indent=1) + "\n"
