"""What capture.json says of a run: what was asked for and armed, from the start or late, and what is absent."""

from __future__ import annotations

import json
import os
import platform
import re
import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tracecorr.capture.folder import RecordingFolder
from tracecorr.capture.options import CaptureOptions
from tracecorr.capture.plan.plan import Absent, Plan
from tracecorr.capture.tracefs.control import PROBE_FILES
from tracecorr.capture.tracefs.journal import this_process
from tracecorr.capture.workload.invoker import Invoker
from tracecorr.model.hip_environment import PREFIXES
from tracecorr.store.recording import FAILED


def save_formats(folder: RecordingFolder, name: str, instance: Path, group: str) -> None:
    """Store the formats of all enabled events of an instance, and the definitions of the own probes.

    Args:
        folder: the capture folder.
        name: name of the instance there.
        instance: its tracefs folder.
        group: own probe group; probes of others are not stored.
    """
    root = instance.parents[1]
    target = f"raw/ftrace/{name}"
    enabled = [line.replace(":", "/", 1) for line in _lines(instance / "set_event")]
    built_in = [f"ftrace/{path.parent.name}" for path in (root / "events/ftrace").glob("*/format")]
    for event in sorted({*enabled, *built_in}):
        text = _text(root / "events" / event / "format", strip=False)
        if text:
            folder.write_once(f"{target}/events/{event}/format", text)
    for header in ("header_page", "header_event"):
        folder.write_once(f"{target}/{header}", _text(root / "events" / header, strip=False))
    for file in PROBE_FILES:
        own = [line for line in _lines(root / file) if f":{group}/" in line]
        if own:
            folder.write_text(f"{target}/{file}", "".join(f"{line}\n" for line in own))


def save_symbols(folder: RecordingFolder, name: str, symbols: str) -> None:
    """Store the addresses of the traced functions of an instance: its records hold nothing else of them."""
    if symbols:
        folder.write_text(f"raw/ftrace/{name}/kallsyms", symbols)


def save_names(folder: RecordingFolder, name: str, instance: Path) -> None:
    """Store which thread had which name and process; the kernel forgets them, so this is called again and again."""
    root = instance.parents[1]
    for file in ("saved_cmdlines", "saved_tgids"):
        folder.write_text(f"raw/ftrace/{name}/{file}", _text(root / file, strip=False))


def save_stats(folder: RecordingFolder, name: str, stats: dict[str, dict[str, str]]) -> None:
    """Store the counters of every CPU of an instance."""
    folder.write_text(f"raw/ftrace/{name}/stats.json", json.dumps(stats, indent=1))


def _lines(path: Path) -> list[str]:
    return _text(path, strip=False).splitlines()


_TOPOLOGY = Path("/sys/class/kfd/kfd/topology")
_DRIVER = Path("/sys/module/amdgpu")
_ROCM_VERSION = Path("/opt/rocm/.info/version")
_CARDS = Path("/sys/bus/pci/drivers/amdgpu")
# libdrm's table of names: device, revision (both hexadecimal), name.
_CARD_NAMES = Path("/usr/share/libdrm/amdgpu.ids")
_CLOCKS = {"monotonic": time.CLOCK_MONOTONIC, "monotonic_raw": time.CLOCK_MONOTONIC_RAW,
           "boottime": time.CLOCK_BOOTTIME, "realtime": time.CLOCK_REALTIME}  # fmt: skip


def _read_host() -> dict[str, Any]:
    """Return name, kernel, machine, CPUs, driver version, and names of the GPUs by their PCI address."""
    system = platform.uname()
    return {
        "name": system.node, "kernel": system.release, "machine": system.machine, "cpus": os.cpu_count(),
        "parameters": {path.name: _text(path) for path in sorted((_DRIVER / "parameters").glob("*")) if path.is_file()},
        "driver": _text(_DRIVER / "version") or _text(_DRIVER / "srcversion"), "rocm": _text(_ROCM_VERSION),
        "gpus": name_cards(_CARDS, _CARD_NAMES),
    }  # fmt: skip


def name_cards(cards: Path, names: Path) -> dict[str, str]:
    """Return the marketing name of each GPU that tells it itself (`product_name`), or that libdrm's table has.

    Args:
        cards: folder of the driver, with one for each PCI address.
        names: the table.
    """
    lines = (line.split(",", 2) for line in _text(names).splitlines() if not line.startswith("#"))
    known = {tuple(int(cell, 16) for cell in cells[:2]): cells[2].strip() for cells in lines if len(cells) == 3}
    found: dict[str, str] = {}
    for card in sorted(cards.glob("*:*:*.*")):
        ids = (_text(card / "device"), _text(card / "revision"))
        name = _text(card / "product_name") or (known.get(tuple(int(text, 16) for text in ids)) if all(ids) else None)
        found |= {card.name: name} if name else {}
    return found


def read_all_clocks() -> dict[str, int]:
    """Return all clocks of the kernel at this moment, in ns."""
    return {name: time.clock_gettime_ns(clock) for name, clock in _CLOCKS.items()}


def copy_topology(folder: RecordingFolder) -> None:
    """Copy the KFD's topology into `raw/topology`."""
    nodes = sorted((_TOPOLOGY / "nodes").glob("[0-9]*"))
    for path in (*_TOPOLOGY.glob("*"), *(file for node in nodes for file in node.rglob("*"))):
        if path.is_file():
            folder.write_text(f"raw/topology/{path.relative_to(_TOPOLOGY)}", _text(path, strip=False))


def _text(path: Path, *, strip: bool = True) -> str:
    try:
        text = path.read_text(errors="replace")
    except OSError:
        return ""
    return text.strip() if strip else text


# How the absence of a kind of runtime begins that may appear late after all.
_ABSENT_OF = {"hsa": "doorbells", "roctx": "roctx ranges", "hip": "HIP entry points", "other": "--uprobes"}
_MASK = "***"
# A name whose last part is of this kind (HF_TOKEN, --api-key), but no plural: --max-tokens is a number.
_SECRET_NAME = r"[\w.-]*(?:token|passw(?:or)?d|passphrase|secret|key|credentials?)"
_ASSIGNED_SECRET = re.compile(rf"(?i)((?<![\w.-]){_SECRET_NAME}\s*[=:]\s*|(?<!\S)--?{_SECRET_NAME}\s+)[^\s'\"&;]+")
_SECRET_OPTION = re.compile(rf"(?i)--?{_SECRET_NAME}")


def first_facts(options: CaptureOptions, plan: Plan, program: str, invoker: Invoker) -> dict[str, Any]:
    """Return what capture.json says before anything ran.

    Args:
        options: what was asked for.
        plan: what is to be armed.
        program: path of the workload's executable on the host.
        invoker: as whom it runs, and whose the capture is.
    """
    return {
        "state": "recording", "recorder": asdict(this_process()), "command": mask_secrets(options.command),
        "program": program, "user": invoker.name,
        "caller": {"uid": invoker.uid, "gid": invoker.gid, "share": options.share}, "cwd": str(Path.cwd()),
        "host": _read_host(), "wanted": asdict(options.wanted), "plan": _facts_of_plan(plan, plan.absent),
        "ftrace_clock": "auto", "files": [],
    }  # fmt: skip


def mask_secrets(words: Iterable[str]) -> list[str]:
    """Return the words of a command with `***` for the values after names like token, password, key and secret."""
    masked: list[str] = []
    follows = False
    for word in words:
        masked.append(_MASK if follows else _ASSIGNED_SECRET.sub(rf"\1{_MASK}", word))
        follows = not follows and _SECRET_OPTION.fullmatch(word) is not None
    return masked


def choose_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of a workload that its runtimes read."""
    chosen = sorted(key for key in environment if key.startswith(PREFIXES))
    return {key: mask_secrets([f"{key}={environment[key]}"])[0].partition("=")[2] for key in chosen}


def describe_end(failure: Exception | None) -> dict[str, Any]:
    """Return what capture.json says of a capture that has ended: `state`, and why it failed, where it did."""
    if failure is None:
        return {"state": "complete"}
    why = failure.strerror if isinstance(failure, OSError) and failure.strerror else str(failure)
    return {"state": FAILED, "failure": why}


def _facts_of_plan(plan: Plan, absent: Iterable[Absent]) -> dict[str, Any]:
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
    return {**_facts_of_plan(plan, (*absent, *late_absent)), "late": late}
