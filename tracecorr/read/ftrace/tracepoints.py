"""What is known of single kernel events: their layer, how their text is read, what their binary fields are called.

Print formats of include/trace/events: amdgpu, gpu_scheduler, dma_fence (Linux 5.10 to 7.2), amdkfd (DKMS 2026-01),
sched.h and task.h (Linux 4.11 to 7.2; 6.14 to 7.0 rename without a pid). A new event is added here alone: nothing at
all if it prints `key=value`.
"""

from __future__ import annotations

import re

import polars as pl

from tracecorr.read.ftrace.fields import split_fields, to_numbers, typed_fields

# Events of which the fields are read. The bodies of others are kept as text: what follows an unknown name may be
# anything that a driver prints.
KNOWN = re.compile(
    r"drm_run_job$|drm_sched_|dma_fence_|sched_|amdgpu_|kfd_|task_(?:newtask|rename)$"
    r"|rocprof_(?:kernel_dispatch|hip_api|hsa_api)$"
)
_LAYERS = (("drm_run_job", "drm_sched"), ("drm_sched_", "drm_sched"), ("sched_", "sched"), ("amdgpu_", "amdgpu"),
           ("kfd_", "kfd"))  # fmt: skip
# Fields that print hexadecimal digits without 0x.
_HEX = {
    "amdgpu_vm_bo_map": ("start", "last", "offset", "flags"),
    "amdgpu_vm_bo_unmap": ("start", "last", "offset", "flags"),
    "amdgpu_vm_bo_update": ("soffs", "eoffs", "flags"),
    "amdgpu_vm_bo_mapping": ("soffs", "eoffs", "flags"),
    "amdgpu_vm_bo_cs": ("soffs", "eoffs", "flags"),
    "amdgpu_vm_set_ptes": ("pe", "addr", "flags"),
    "amdgpu_vm_copy_ptes": ("pe", "src"),
    "amdgpu_vm_flush": ("pd_addr",),
    "amdgpu_vm_grab_id": ("pd_addr",),
    "task_newtask": ("clone_flags",),
}
# These write `key:value`.
_COLONS = ("amdgpu_iv", "amdgpu_vm_update_ptes")
# The name of a task may hold blanks, signs, digits alone, even `=` and quotes.
_TASKS = {
    "sched_process_fork": r"^comm=(?<comm>.*) pid=(?<pid>\d+) child_comm=(?<child_comm>.*) child_pid=(?<child_pid>\d+)",
    "sched_process_exec": r"^filename=(?<filename>.*) pid=(?<pid>\d+) old_pid=(?<old_pid>\d+)",
    "sched_process_exit": r"^comm=(?<comm>.*) pid=(?<pid>\d+) prio=(?<prio>-?\d+)(?: group_dead=(?<group_dead>\w+))?",
    "task_newtask": r"^pid=(?<pid>\d+) comm=(?<comm>.*) clone_flags=(?<clone_flags>[0-9a-f]+) "
    r"oom_score_adj=(?<oom_score_adj>-?\d+)",
    "task_rename": r"^(?:pid=(?<pid>\d+) )?oldcomm=(?<oldcomm>.*) newcomm=(?<newcomm>.*) "
    r"oom_score_adj=(?<oom_score_adj>-?\d+)",
}
_TEXTS = ("comm", "child_comm", "oldcomm", "newcomm", "filename", "group_dead")
# User events of rocprofiler-sdk (generatePerfUserEvents.cpp), system `user_events`.
_API_FIELDS = {"correlation": "correlation_id", "thread_id": "tid"}
# Fields whose binary name differs from the name that the event prints.
PRINTED_NAMES = {
    "sched_process_fork": {"parent_comm": "comm", "parent_pid": "pid"},
    "drm_sched_job": {"name": "ring"},
    "drm_run_job": {"name": "ring"},
    "drm_sched_job_queue": {"name": "ring"},
    "drm_sched_job_run": {"name": "ring"},
    "drm_sched_job_wait_dep": {"name": "ring", "ctx": "context", "seqno": "seq"},
    "amdgpu_cs_ioctl": {"sched_job_id": "sched_job", "ring": "ring_name"},
    "amdgpu_sched_run_job": {"sched_job_id": "sched_job", "ring": "ring_name"},
    # Called as rocprofv3 calls them in its files.
    "rocprof_hip_api": _API_FIELDS,
    "rocprof_hsa_api": _API_FIELDS,
}
# The driver never sets this field (amdgpu_trace.h, Linux 4.12 to 7.2): `context` and `seqno` name the fence.
UNSET_FIELDS = {"amdgpu_cs_ioctl": "fence"}


def event_layer(event: str) -> str:
    """Return the layer of a tracepoint by its name."""
    return next((layer for start, layer in _LAYERS if event.startswith(start)), "other")


def read_body(event: str, frame: pl.DataFrame) -> list[tuple[list[str], pl.DataFrame]]:
    """Return (keys, rows) for each form of the bodies of a known event.

    Args:
        event: its name.
        frame: records with their body in `rest`.

    Returns:
        Rows with `u_KEY` (u64) and `t_KEY` (text); without keys what fits no form.
    """
    keys, tasks, frame = _read_tasks(event, frame)
    parts = [(keys, tasks)] if tasks.height else []
    frame = frame.with_columns(_plain(event, pl.col("rest")).alias("rest"))
    style = "sched" if event_layer(event) == "drm_sched" else "equals"
    for names, rows in split_fields(frame, style):
        parts.append((names, typed_fields(rows, names, hexadecimal=_HEX.get(event, ()))))
    return parts


def _read_tasks(event: str, frame: pl.DataFrame) -> tuple[list[str], pl.DataFrame, pl.DataFrame]:
    """Return the keys of a task's event, the rows that have its form, and the other rows."""
    if event not in _TASKS:
        return [], frame.clear(), frame
    told = frame["rest"].str.extract_groups(rf"(?s){_TASKS[event]}\s*$").struct.unnest()
    hexadecimal = _HEX.get(event, ())
    columns = [
        told[key].alias(f"t_{key}")
        if key in _TEXTS
        else to_numbers(told[key], base=16 if key in hexadecimal else 10).alias(f"u_{key}")
        for key in told.columns
    ]
    is_own = told.select(pl.any_horizontal(pl.all().is_not_null())).to_series()
    return told.columns, frame.with_columns(columns).filter(is_own), frame.filter(~is_own)


def _plain(event: str, body: pl.Expr) -> pl.Expr:
    """Return the bodies of an event as `key=value` fields, without the words between them."""
    if event in _COLONS:
        return body.str.replace_all(r"\b([a-z_]\w*):[ \n]?", "$1=")
    if event in PRINTED_NAMES and event.startswith("rocprof_"):
        return body.str.replace(r"\bcorrelation=", "correlation_id=").str.replace(r"\bthread_id=", "tid=")
    if event == "amdgpu_ib_pipe_sync":
        return body.str.replace(r"^job ring=", "ring=").str.replace(r",? need pipe sync to fence=", ", fence=")
    if event.startswith("kfd_"):
        return body.str.replace(r"^Process pid\s*=\s*", "pid=").str.replace_all(r"(\w)\s*=[ \t]*", "$1=")
    plain = body.str.replace(r" signaled\s*$", "").str.replace(r"^job ring=", "ring=")
    plain = plain.str.replace(r" depends on (?:unsignalled )?fence=", ", depends_fence=")
    return plain.str.replace(r"depends fence=", "depends_fence=")
