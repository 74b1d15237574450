"""What is known of single kernel events: their layer, how their text is read, what their binary fields are called.

Print formats of include/trace/events: amdgpu, gpu_scheduler, dma_fence (Linux 5.10 to 7.2), amdkfd (DKMS 2026-01),
sched.h and task.h (Linux 4.11 to 7.2; 6.14 to 7.0 rename without a pid). A new event is added here alone: nothing at
all if it prints `key=value`. Text is split by one pattern per form of an event, made from its first record.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import polars as pl

# Events whose fields are read. The bodies of others are kept as text: what follows an unknown name may be
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


_QUOTED = re.compile(r'"[^"]*"')
# What separates a key from its value, and what a value with blanks may contain.
_KEYS = {
    "syscall": re.compile(r"(?:^ *|, )(?:[\w *]+ \**)?(\w+)(: ?|=)"),
    "equals": re.compile(r"(?:^|[\s,])([A-Za-z_]\w*)(=)"),
    "sched": re.compile(r"(?:^|[\s,])((?:hw )?job count|client_id|dependencies|[A-Za-z_]\w*(?==))([:=])"),
}
# Any of these keys, as the regular expressions of polars write it.
_ANY_KEY = {style: key.pattern.replace("(?==))([:=])", "=)") for style, key in _KEYS.items()}
_VALUES = {
    "syscall": r'((?:[^",]|"[^"]*")*)',
    "equals": r'((?:[^"=]|"[^"]*")*?)',
    "sched": r"(.*?)",
}
# A value without blanks. With values of this kind alone a pattern takes one pass.
_PLAIN, _IS_PLAIN = r'("[^"]*"|[^\s,"]*)', re.compile(r'"[^"]*"|[^\s,"]*')
# Forms of one event tried in a block before the rest is kept as text.
_MAX_FORMS = 12
# Pointers that the kernel prints as 16 hexadecimal digits.
_HASHED = ("entity", "fence", "depends_fence", "bo", "list", "bo_list", "prev", "next")


def split_fields(frame: pl.DataFrame, style: str, text: str = "rest") -> Iterator[tuple[list[str], pl.DataFrame]]:
    """Yield (keys, rows) per form found in column `text`; rows carry one String column `f_KEY` per key.

    Rows that fit no form come with an empty list of keys.
    """
    for _ in range(_MAX_FORMS):
        if frame.is_empty():
            return
        keys, pattern = _form(frame[text][0], style)
        if not keys:
            # The records after it may have some: only those without any go with it.
            keyed = frame[text].str.replace_all(_QUOTED.pattern, '""').str.contains(_ANY_KEY[style])
            keyed = keyed.fill_null(value=False)
            yield [], pl.concat([frame.head(1), frame.tail(-1).filter(~keyed.tail(-1))])
            frame = frame.tail(-1).filter(keyed.tail(-1))
            continue
        fields = frame[text].str.extract_groups(pattern).struct.rename_fields(keys).struct.unnest()
        if not fields[keys[0]].null_count():
            yield [k[2:] for k in keys], pl.concat([frame, fields], how="horizontal")
            return
        fits = fields[keys[0]].is_not_null()
        if not fits.any():
            yield [], frame.head(1)
            frame = frame.tail(-1)
            continue
        yield [k[2:] for k in keys], pl.concat([frame, fields], how="horizontal").filter(fits)
        frame = frame.filter(~fits)
    if frame.height:
        yield [], frame


def _form(sample: str, style: str) -> tuple[list[str], str]:
    """Return the keys of `sample` (made unlike any column name) and the pattern of its form."""
    bare = _QUOTED.sub(lambda m: '"' + "_" * (len(m[0]) - 2) + '"', sample)
    found = list(_KEYS[style].finditer(bare))
    keys: list[str] = []
    pattern, done = "(?s)^", 0
    for i, match in enumerate(found):
        name = "f_" + match[1].replace(" ", "_")
        keys.append(name if name not in keys else f"{name}_{i}")
        start = found[i + 1].start() if i + 1 < len(found) else len(sample)
        value = sample[match.end() : start].rstrip().removesuffix(",")
        if i == 0 and match.start() > 0:
            pattern += r"(?:.*?[\s,])??"
            done = match.start(1)
        pattern += re.escape(sample[done : match.end()])
        pattern += _PLAIN if _IS_PLAIN.fullmatch(value) else _VALUES[style]
        done = match.end() + len(value)
    return keys, pattern + r"\s*$"


def to_numbers(texts: pl.Series, *, base: int = 10) -> pl.Series:
    """Return texts as u64 (two's complement): `0x..`, and bare digits of the base; null for all others."""
    name, frame = texts.name, texts.to_frame()
    return frame.select(_number(name, base, frame.select(pl.col(name).str.starts_with("0x").all()).item()))[name]


def _number(name: str, base: int, is_marked: bool, *, hashed: bool = False) -> pl.Expr:
    """Return the numbers in column `name`; if `is_marked`, all begin with 0x."""
    text = pl.col(name)
    marked = text.str.strip_prefix("0x").str.to_integer(base=16, dtype=pl.UInt64, strict=False)
    if is_marked or base == 16:
        return marked
    is_hex = text.str.contains("^0x|^[0-9a-f]{16}$") if hashed else text.str.starts_with("0x")
    bare = text.str.to_integer(dtype=pl.UInt64, strict=False)
    negative = text.str.to_integer(dtype=pl.Int64, strict=False).reinterpret(signed=False)
    return pl.when(is_hex).then(marked).otherwise(pl.coalesce(bare, negative))


def typed_fields(rows: pl.DataFrame, keys: list[str], *, base: int = 10, hexadecimal: tuple[str, ...] = ()
                 ) -> pl.DataFrame:  # fmt: skip
    """Return the rows with `u_KEY` (u64) for each key, and `t_KEY` for those that print text in some record.

    Args:
        rows: with `f_KEY` (`split_fields`).
        keys: the fields.
        base: of numbers without 0x.
        hexadecimal: fields that print hexadecimal digits without 0x.
    """
    if not keys:
        return rows
    marked = rows.select(pl.col(f"f_{key}").str.starts_with("0x").all() for key in keys).row(0)
    rows = rows.with_columns(
        _number(f"f_{key}", 16 if key in hexadecimal else base, is_marked, hashed=key in _HASHED).alias(f"u_{key}")
        for key, is_marked in zip(keys, marked, strict=True)
    )
    return rows.with_columns(
        pl.when(pl.col(f"u_{key}").is_null())
        .then(pl.col(f"f_{key}").str.strip_suffix('"').str.strip_prefix('"'))
        .alias(f"t_{key}")
        for key in keys
        if rows[f"u_{key}"].null_count()
    )
