"""Which MQD operations did the driver do, and what caused each of them?"""

from __future__ import annotations

import polars as pl

from tracecorr.analyze.ancestors import find_enclosing_ioctls
from tracecorr.link.queues.queue_creation import list_mqd_operations
from tracecorr.read.kfd.ioctls import CREATE_QUEUE, DESTROY_QUEUE, SET_CU_MASK, UPDATE_QUEUE

_CAUSES = {
    CREATE_QUEUE: "create",
    UPDATE_QUEUE: "update",
    SET_CU_MASK: "cu_mask",
    DESTROY_QUEUE: "destroy",
}


def summarize_mqd_operations(kernel_events: pl.DataFrame) -> pl.DataFrame:
    """Return one row per MQD operation on a user queue, with what caused it; calls per XCC count once.

    Args:
        kernel_events: rows of the layers ioctl, kfd and mqd: event, ts_ns, name, layer, parent, flags (texts
            as strings).

    Returns: event, ts_ns, name, operation, cause (`create`, `update`, `cu_mask`, `destroy`, `restore`, `other`),
        ioctl (the enclosing ioctl, null for a worker's).
    """
    inside = find_enclosing_ioctls(kernel_events).rename({"ioctl": "enclosing_call"})
    nested = kernel_events.join(inside, on="event", how="left", maintain_order="left")
    operations = list_mqd_operations(nested).filter(~pl.col("target").is_in(["hiq", "diq"]))
    names = kernel_events.select(ioctl="event", ioctl_name="name")
    rows = (
        operations.rename({"enclosing_call": "ioctl"})
        .join(kernel_events.select("event", "ts_ns", "name"), on="event", maintain_order="left")
        .join(names, on="ioctl", how="left", maintain_order="left")
    )
    cause = pl.col("ioctl_name").replace_strict(_CAUSES, default=None, return_dtype=pl.String)
    restored = pl.when(pl.col("operation") == "restore").then(pl.lit("restore"))
    shaped = rows.with_columns(cause=pl.coalesce(cause, restored, pl.lit("other")))
    return shaped.select("event", "ts_ns", "name", "operation", "cause", "ioctl")
