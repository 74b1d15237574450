"""The facts of capture.json in words: the workload, the machine, what was recorded and what was not."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import polars as pl

from tracecorr.analyze.values import Tables, collect, count_of
from tracecorr.model.hip_environment import describe_effects
from tracecorr.store.recording import describe_event_cost, describe_exit, describe_gaps, name_state


def describe_run(info: Mapping[str, Any], state: str | None = None, read: int | None = None) -> Iterator[str]:
    """Yield in a few lines what ran, where, what was recorded of it and what not.

    Args:
        info: contents of capture.json.
        state: state of the capture on this machine, if the caller asked; else that of capture.json.
        read: number of kernel records in its files, if they were read.
    """
    if info.get("about"):
        yield f"about: {info['about']}"
    yield from _describe_workload({**info, "state": name_state(info) if state is None else state})
    yield from _describe_nodes(info.get("nodes") or [])
    yield from _describe_plan(info.get("plan") or {})
    yield from _describe_processes(info.get("processes") or [])
    yield from _describe_files(info.get("files") or [])
    if "lost_events" in info:
        yield f"kernel events: {_describe_events(info, read)}"
    for kind in ("problems", "warnings"):
        yield from (f"{kind[:-1]}: {text}" for text in info.get(kind) or [])


def _describe_events(info: Mapping[str, Any], read: int | None) -> str:
    """Return how many events were counted, stored and lost."""
    events, lost = int(info.get("events") or 0), int(info["lost_events"] or 0)
    if not any(loss.get("source") == "ftrace" and loss.get("bytes") for loss in info.get("losses") or []):
        return f"{events} recorded, {lost} lost"
    if read is None:
        return f"{events} counted, not all of which could be written, {lost} more lost"
    return f"{events} counted: {read} recorded, {max(events - read, 0)} that could not be written, {lost} more lost"


# Name the library of a model of a GPU to ROCr (libhsakmt), and the file with its memory.
MODEL_VARIABLE, MODEL_MEMORY = "HSA_MODEL_LIB", "HSA_MODEL_MEMFILE"
# What a model of a GPU that is loaded in place of one does, by a part of these names.
_MODELS = {"nullgpu": "time slices, no CUs, free switch"}


def describe_model(info: Mapping[str, Any]) -> str:
    """Return what stood for the GPU where ROCr was given a model of one (HSA_MODEL_LIB, libhsakmt); empty for a GPU.

    Args:
        info: contents of capture.json.
    """
    environment = info.get("environment") or {}
    name = str(environment.get(MODEL_VARIABLE) or environment.get(MODEL_MEMORY) or "").rpartition("/")[2]
    known = next((text for part, text in _MODELS.items() if part in name), f"{name} stands for a GPU")
    return f"model: {known}" if name else ""


def describe_overhead(info: Mapping[str, Any]) -> str:
    """Return how many times slower a launch was than without instrumentation; empty if it was not measured.

    Args:
        info: contents of capture.json, into which `tracecorr experiment` writes it.
    """
    ratio = info.get("overhead_ratio")
    if not isinstance(ratio, int | float):
        return ""
    each = info.get("overhead_ratios") or {}
    of = f" ({', '.join(f'{role} {value:.2f}' for role, value in each.items())})" if len(each) > 1 else ""
    return f"{ratio:.2f} times the uninstrumented run{of}"


def _describe_workload(info: Mapping[str, Any]) -> Iterator[str]:
    host = info.get("host") or {}
    known = {
        "state": info.get("state"),
        "command": shlex.join(info.get("command") or []),
        "exit status": describe_exit(info) or None,
        "recording began because": info.get("start_reason"),
        "ended because": info.get("end_reason"),
        "user": info.get("user"),
        "folder": info.get("cwd"),
        "where": info.get("where"),
        "host": " ".join(str(host[k]) for k in ("name", "kernel", "machine") if host.get(k)),
        "CPUs": host.get("cpus"),
        "driver": host.get("driver"),
        "ROCm": host.get("rocm"),
        "clock of the trace": _describe_clock(info),
        "cost of the recording": describe_overhead(info),
        "cost of an event": describe_event_cost(info),
        "environment": " ".join(f"{k}={v}" for k, v in (info.get("environment") or {}).items()),
    }
    yield from (f"{name}: {value}" for name, value in known.items() if value not in (None, ""))
    # The log of a capture has no limit.
    told = {name: value for name, value in (info.get("environment") or {}).items() if name != "AMD_LOG_LEVEL_SIZE"}
    yield from describe_effects(told)


def _describe_clock(info: Mapping[str, Any]) -> str:
    """Return the clock that the user named for the trace; empty without a trace, or if the plan has it."""
    traced = any(file.get("source") == "ftrace" for file in info.get("files") or [])
    if not traced or (info.get("plan") or {}).get("instances"):
        return ""
    clock = str(info.get("ftrace_clock") or "auto")
    return "not named, so worked out: see the report's section Clocks" if clock == "auto" else f"said to be {clock}"


_PLACES = {"wall_clock": "by the wall clocks (NTP)", "start": "so that it begins with the first node"}


def _describe_nodes(nodes: list[Mapping[str, Any]]) -> Iterator[str]:
    for node in nodes:
        how = _PLACES.get(str(node["placed_by"]))
        moved = f", times moved by {node['shift_ns']:,} ns {how}" if how else ""
        yield f"node {node['node']}: {node['capture']}{moved}"


def _describe_plan(plan: Mapping[str, Any]) -> Iterator[str]:
    probes = Counter(probe["instance"] for probe in plan.get("probes") or [])
    for instance in plan.get("instances") or []:
        scope = "the workload" if instance["follows_workload"] else "the whole machine"
        kinds = count_of(len(instance["events"]), "kinds of events", "kind of event")
        yield (
            f"recorded of {scope} ({instance['name']}): {kinds}, "
            f"{count_of(len(instance['functions']), 'function')}, {count_of(probes[instance['name']], 'probe')}, "
            f"clock {instance['clock']}"
        )
    yield from describe_gaps(plan)


def _describe_processes(processes: list[Mapping[str, Any]]) -> Iterator[str]:
    shown = [p for p in processes if p.get("how") != "child"]
    for process in shown:
        inside = process.get("namespace_pid")
        where = "" if inside in (None, process["pid"]) else f" ({inside} in its container)"
        program = process.get("exe") or process.get("comm") or "-"
        yield f"process {process['pid']}{where}: {program}, {process.get('how', 'seen')}"
    if len(processes) > len(shown):
        # Processes that lived between two looks at /proc are only in the table.
        children = count_of(len(processes) - len(shown), "children", "child")
        yield f"and {children} of these, seen in /proc; the table processes has all that the sources show"


def _describe_files(files: list[Mapping[str, Any]]) -> Iterator[str]:
    kinds: dict[tuple[str, str], list[int]] = {}
    for file in files:
        kind = str(file.get("source", "-")), str(file.get("form", "-"))
        kinds.setdefault(kind, []).append(int(file.get("size", 0)))
    for (source, form), sizes in kinds.items():
        yield f"files of {source}, {form}: {len(sizes)}, {sum(sizes):,} bytes"


# Messages of the log that name a version, the fields that do, and what it is of.
_OF_LOG = (("hip_version", "version", "HIP"), ("hip_library", "path", "HIP library"), ("code_object", "isa", "device"))


def list_machine(tables: Tables, info: Mapping[str, Any]) -> pl.DataFrame:
    """Return one row per fact of the machine and its software: what, value, known_from.

    Args:
        tables: gives the tables of a capture.
        info: contents of capture.json.
    """
    host = info.get("host") or {}
    rows = [(what, str(host[key]), "capture") for key, what in _OF_HOST.items() if host.get(key)]
    for gpu in collect(tables("gpus").with_columns(pl.col(pl.Categorical).cast(pl.String))).iter_rows(named=True):
        told = (f"{value} {unit}".strip() for key, unit in _OF_GPU.items() if (value := gpu[key]) is not None)
        rows.append((f"GPU {gpu['gpu']}", ", ".join(told), "topology, probes or dumps"))
    fields = tables("args").with_columns(pl.col("key").cast(pl.String)).drop_nulls("text")
    names = tables("events").select("event", name=pl.col("name").cast(pl.String))
    for name, key, what in _OF_LOG:
        found = fields.filter(pl.col("key") == key).join(names.filter(pl.col("name") == name), on="event")
        rows += [
            (what, text, "HIP log") for text in collect(found.select("text").unique().sort("text").head(8))["text"]
        ]
    for prefix, values in (
        ("GPU at ", host.get("gpus")), ("Python package ", info.get("packages")),
        ("environment ", info.get("environment")), ("amdgpu.", host.get("parameters")),
    ):  # fmt: skip
        named = values.items() if isinstance(values, Mapping) else ()
        rows += [(f"{prefix}{name}", str(value), "capture") for name, value in named]
    return pl.DataFrame(rows, schema={"what": pl.String, "value": pl.String, "known_from": pl.String}, orient="row")


_OF_HOST = {"name": "host", "kernel": "kernel", "machine": "architecture", "cpus": "CPUs", "driver": "amdgpu driver",
            "rocm": "ROCm"}  # fmt: skip
_OF_GPU = {"gfx_target": "", "cus": "CUs", "xcc_count": "XCCs", "partition": "", "scheduler": "", "pci": "",
           "firmware": ""}  # fmt: skip


def list_armed(info: Mapping[str, Any]) -> set[str]:
    """Return the names of all that a capture armed: `system/event`, functions and probes; empty for imports."""
    plan = info.get("plan") or {}
    instances = plan.get("instances") or []
    events = {f"{event['system']}/{event['name']}" for instance in instances for event in instance["events"]}
    functions = {str(name) for instance in instances for name in instance["functions"]}
    return events | functions | {str(probe["name"]) for probe in plan.get("probes") or []}
