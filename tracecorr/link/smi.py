"""SMI events of the KFD: whose queues were stopped, whose pages moved."""

from __future__ import annotations

import polars as pl

from tracecorr.clock.rows import fill_columns
from tracecorr.link.threads.lives import number_lives
from tracecorr.link.threads.thread_map import Identities


def attach_processes(events: pl.DataFrame, identities: Identities) -> pl.DataFrame:
    """Return `events` with the process of each SMI event: they name the host pid, also of foreign processes.

    Args:
        events: placed rows of all sources.
        identities: processes of the capture; a pid that was given out again names one life at a time.
    """
    is_ours = pl.col("source") == "kfd_smi"
    if not events.select(is_ours.any()).item():
        return events
    # Captures of our own alone hold them: there the lives of the trace are on the common clock, too.
    rows = events.select("source", "pid", "tid", stamp_ns="ts_ns").with_row_index("_row")
    mine = rows.filter(is_ours & pl.col("pid").is_not_null()).drop("source")
    traced = identities.trace_threads.select("tgid_key", "process").drop_nulls().unique("tgid_key")
    seen = identities.processes.select(tgid_key=pl.col("pid").cast(pl.Int64), process="process").drop_nulls()
    alone = seen.join(traced, on="tgid_key", how="anti").filter(pl.len().over("tgid_key") == 1)
    found = number_lives(mine, identities.lives, identities.births).join(
        pl.concat([traced, alone]), on="tgid_key", how="left", maintain_order="left"
    )
    owners = found.select("_row", "process", host_pid=pl.col("pid").cast(events.schema["host_pid"]))
    return fill_columns(events, owners, "_row")
