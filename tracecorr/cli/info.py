"""The verb `info`: what a capture holds and where it is from."""

from __future__ import annotations

import json
import shlex
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tracecorr.cli.console import NameArgument, open_capture

if TYPE_CHECKING:
    from tracecorr.store import Capture


def info_verb(
    name: NameArgument = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Say what a capture holds and where it is from; --json prints all that capture.json knows."""
    capture = open_capture(name, tables=False)
    rows = _count_rows(capture)
    if as_json:
        found = {"name": capture.name, "path": str(capture.path), "info": capture.info, "rows": rows}
        typer.echo(json.dumps(found, indent=2, default=str))
        return
    typer.echo(f"{capture.name} ({capture.path})")
    for line in _outline(capture.info):
        typer.echo(line)
    if not rows:
        typer.echo(f"tables: none yet; build them: tracecorr correlate {capture.path}")
    for table, count in rows.items():
        typer.echo(f"table {table}: {count} rows")


def _count_rows(capture: Capture) -> dict[str, int]:
    from polars import len as row_count

    from tracecorr.model import schema

    if not capture.has_tables():
        return {}
    return {table: int(capture.table(table).select(row_count()).collect().item()) for table in schema.TABLES}


def _outline(info: dict[str, Any]) -> Iterator[str]:
    """Yield what capture.json knows in a few lines; `--json` prints all of it."""
    yield from _describe_run(info)
    yield from _describe_plan(info.get("plan") or {})
    yield from _describe_processes(info.get("processes") or [])
    yield from _describe_files(info.get("files") or [])
    if "lost_events" in info:
        yield f"kernel events: {info.get('events', 0)} recorded, {info['lost_events']} lost"
    for kind in ("problems", "warnings"):
        yield from (f"{kind[:-1]}: {text}" for text in info.get(kind) or [])


def _describe_run(info: dict[str, Any]) -> Iterator[str]:
    host = info.get("host") or {}
    known = {
        "state": info.get("state"),
        "command": shlex.join(info.get("command") or []),
        "exit status": info.get("exit_status"),
        "ended because": info.get("end_reason"),
        "user": info.get("user"),
        "folder": info.get("cwd"),
        "where": info.get("where"),
        "host": " ".join(str(host[k]) for k in ("name", "kernel", "machine") if host.get(k)),
        "CPUs": host.get("cpus"),
        "driver": host.get("driver"),
        "ROCm": host.get("rocm"),
        "clock of the trace": info.get("ftrace_clock"),
        "environment": " ".join(f"{k}={v}" for k, v in (info.get("environment") or {}).items()),
    }
    yield from (f"{name}: {value}" for name, value in known.items() if value not in (None, ""))


def _describe_plan(plan: dict[str, Any]) -> Iterator[str]:
    probes = Counter(probe["instance"] for probe in plan.get("probes", []))
    for instance in plan.get("instances", []):
        whose = "the workload" if instance["follows_workload"] else "the whole machine"
        yield (
            f"recorded of {whose} ({instance['name']}): {len(instance['events'])} events, "
            f"{len(instance['functions'])} functions, {probes[instance['name']]} probes, clock {instance['clock']}"
        )
    yield from (f"not recorded: {absent['what']}: {absent['why']}" for absent in plan.get("absent", []))


def _describe_processes(processes: list[dict[str, Any]]) -> Iterator[str]:
    shown = [p for p in processes if p.get("how") != "child"]
    for process in shown:
        inside = process.get("namespace_pid")
        where = "" if inside in (None, process["pid"]) else f" ({inside} in its container)"
        program = process.get("exe") or process.get("comm") or "-"
        yield f"process {process['pid']}{where}: {program}, {process.get('how', 'seen')}"
    if len(processes) > len(shown):
        yield f"and {len(processes) - len(shown)} children of these"


def _describe_files(files: list[dict[str, Any]]) -> Iterator[str]:
    kinds: dict[tuple[str, str], list[int]] = {}
    for file in files:
        kind = str(file.get("source", "-")), str(file.get("form", "-"))
        kinds.setdefault(kind, []).append(int(file.get("size", 0)))
    for (source, form), sizes in kinds.items():
        yield f"files of {source}, {form}: {len(sizes)}, {sum(sizes):,} bytes"
