"""The bodies of the events that tell of tasks: a name may hold blanks, signs, digits alone, even `=` and quotes.

Print formats of include/trace/events/sched.h and task.h (Linux 4.11 to 7.2; 6.14 to 7.0 rename without a pid).
"""

from __future__ import annotations

import polars as pl

from tracecorr.read.ftrace.fields import bare_hex, number

_BODIES = {
    "sched_process_fork": r"^comm=(?<comm>.*) pid=(?<pid>\d+) child_comm=(?<child_comm>.*) child_pid=(?<child_pid>\d+)",
    "sched_process_exec": r"^filename=(?<filename>.*) pid=(?<pid>\d+) old_pid=(?<old_pid>\d+)",
    "sched_process_exit": r"^comm=(?<comm>.*) pid=(?<pid>\d+) prio=(?<prio>-?\d+)(?: group_dead=(?<group_dead>\w+))?",
    "task_newtask": r"^pid=(?<pid>\d+) comm=(?<comm>.*) clone_flags=(?<clone_flags>[0-9a-f]+) "
    r"oom_score_adj=(?<oom_score_adj>-?\d+)",
    "task_rename": r"^(?:pid=(?<pid>\d+) )?oldcomm=(?<oldcomm>.*) newcomm=(?<newcomm>.*) "
    r"oom_score_adj=(?<oom_score_adj>-?\d+)",
}
_TEXTS = ("comm", "child_comm", "oldcomm", "newcomm", "filename", "group_dead")


def read_task_bodies(event: str, frame: pl.DataFrame) -> tuple[list[str], pl.DataFrame, pl.DataFrame]:
    """Return the keys of a task's event, the rows that have its form with `u_KEY` and `t_KEY`, and the other rows.

    Args:
        event: its name; of another one no row has the form.
        frame: records with their body in `rest`.
    """
    if event not in _BODIES:
        return [], frame.clear(), frame
    fields = frame["rest"].str.extract_groups(rf"(?s){_BODIES[event]}\s*$")
    keys = fields.struct.fields
    told = fields.struct.unnest()
    fits = pl.any_horizontal(pl.col(keys).is_not_null())
    values = [
        pl.col(key).alias(f"t_{key}")
        if key in _TEXTS
        else (bare_hex(pl.col(key)) if key == "clone_flags" else number(pl.col(key))).alias(f"u_{key}")
        for key in keys
    ]
    is_own = told.select(fits).to_series()
    rows = pl.concat([frame, told.select(values)], how="horizontal")
    return keys, rows.filter(is_own), frame.filter(~is_own)
