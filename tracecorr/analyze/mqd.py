"""Which MQD operations did the driver do, and what caused each of them?"""

from __future__ import annotations

import polars as pl

from tracecorr.analyze.ancestors import find_enclosing

_OPERATION = r"(allocate|init|update|load|destroy|free|restore|checkpoint)_(?:\w+_)?mqd"
_CAUSES = {
    "AMDKFD_IOC_CREATE_QUEUE": "create",
    "AMDKFD_IOC_UPDATE_QUEUE": "update",
    "AMDKFD_IOC_SET_CU_MASK": "cu_mask",
    "AMDKFD_IOC_DESTROY_QUEUE": "destroy",
}
# On parts with several XCCs the wrapper calls the plain function once per XCC (amdkfd v9_4_3, kernels from 6.12 on).
_WRAPPER = r"_v9_4_3$"


def summarize_mqd_operations(kernel_events: pl.DataFrame) -> pl.DataFrame:
    """Return one row per MQD operation on a user queue; the calls that a wrapper makes per XCC count once.

    Args:
        kernel_events: rows of the layers ioctl, kfd and mqd: event, ts_ns, name, layer, parent (texts as strings).

    Returns: event, ts_ns, name, operation, cause (`create`, `update`, `cu_mask`, `destroy`, `restore`, `other`),
        ioctl (the enclosing ioctl, null for a worker's).
    """
    inside = find_enclosing(kernel_events, "ioctl").rename({"enclosing": "ioctl"})
    names = kernel_events.select(ioctl="event", ioctl_name="name")
    rows = (
        kernel_events.filter((pl.col("layer") == "mqd") & ~pl.col("name").str.contains("hiq|diq"))
        .with_columns(operation=pl.col("name").str.extract(_OPERATION))
        .drop_nulls("operation")
        .join(inside, on="event", how="left", maintain_order="left")
        .join(names, on="ioctl", how="left", maintain_order="left")
    )
    cause = pl.col("ioctl_name").replace_strict(_CAUSES, default=None, return_dtype=pl.String)
    restored = pl.when(pl.col("operation") == "restore").then(pl.lit("restore"))
    shaped = rows.with_columns(cause=pl.coalesce(cause, restored, pl.lit("other")))
    return _drop_inner(shaped).select("event", "ts_ns", "name", "operation", "cause", "ioctl")


def _drop_inner(rows: pl.DataFrame) -> pl.DataFrame:
    """Leave out the plain functions where their wrapper was traced in the same ioctl, and rows nested in their like."""
    wrapper = pl.col("name").str.contains(_WRAPPER)
    wrapped = wrapper.any().over("ioctl", "operation") & pl.col("ioctl").is_not_null()
    kept = rows.filter(wrapper | ~wrapped)
    above = kept.select(parent="event", operation_above="operation")
    nested = kept.join(above, on="parent", how="left", maintain_order="left")
    return nested.filter((pl.col("operation") != pl.col("operation_above")).fill_null(True))
