"""Which layer a kernel function belongs to, and what a return value means."""

from __future__ import annotations

import errno

import polars as pl

# KFD functions have no common prefix: scheduler (`*_cpsch`), queue manager (`pqm_`), packet manager
# (`pm_`), kernel queues (`kq_`), shared memory (`svm_`), MES queue calls.
_MQD = r"mqd"
_KFD = (
    r"^kfd|_kfd|amdkfd|kgd2kfd|^pqm_|^pm_|^kq_|_(?:no)?cpsch|^svm_|doorbell|_queue_mes$|sdma_queue|^init_user_queue"
    r"|^(?:create|destroy|update|suspend|resume|map|unmap|evict|restore|execute)_queues?"
    r"|^(?:evict|restore)_process|^(?:set|get)_queue_|^allocate_(?:hqd|vmid)|^dqm_|_dqm|^(?:un)?register_process"
)
_AMDGPU = r"^amdgpu_|^gmc_|^gfx_|^sdma_|^mes_|^drm_sched|^ttm_"

# Values that the kernel uses inside and that a traced exit can show.
_INTERNAL = {
    512: "ERESTARTSYS",
    513: "ERESTARTNOINTR",
    514: "ERESTARTNOHAND",
    515: "ENOIOCTLCMD",
    516: "ERESTART_RESTARTBLOCK",
    524: "ENOTSUPP",
}
ERRNO_NAMES = {**errno.errorcode, **_INTERNAL}


def layer_of(function: pl.Expr, module: pl.Expr) -> pl.Expr:
    """Return the layer of kernel functions: `mqd`, `kfd`, `amdgpu`, or `other` outside the driver.

    Args:
        function: the name.
        module: `amdgpu`, or `kfd` where no more is known than that it is of the KFD; null = not known.
    """
    amdgpu = function.str.contains(_AMDGPU) | (module == "amdgpu").fill_null(value=False)
    return (
        pl.when(function.str.contains(_MQD))
        .then(pl.lit("mqd"))
        .when(function.str.contains(_KFD) | (module == "kfd").fill_null(value=False))
        .then(pl.lit("kfd"))
        .when(amdgpu)
        .then(pl.lit("amdgpu"))
        .otherwise(pl.lit("other"))
    )


def result_text(value: pl.Expr, as_hex: pl.Expr) -> pl.Expr:
    """Return the text of signed return values: `0`, an errno name, or the number (hex where `as_hex`)."""
    failed = (value < 0) & (value >= -4095)
    names = (-value).replace_strict(ERRNO_NAMES, default=None, return_dtype=pl.String)
    number = pl.when(as_hex & (value != 0)).then(hex_text(value)).otherwise(value.cast(pl.String))
    return pl.when(failed).then(names.fill_null(number)).otherwise(number)


def hex_text(value: pl.Expr) -> pl.Expr:
    """Return the 0x text of integers (two's complement)."""

    def convert(series: pl.Series) -> pl.Series:
        return pl.Series([None if v is None else hex(v & (1 << 64) - 1) for v in series.to_list()], dtype=pl.String)

    return value.map_batches(convert, return_dtype=pl.String)
