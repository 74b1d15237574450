"""Requests, functions and results have their names: by number, by part of the driver, by errno."""

from __future__ import annotations

import polars as pl
import pytest

from tracecorr.read.kfd.ioctls import ioctl_name, ioctl_names, layer_of, list_handlers, result_text


@pytest.mark.parametrize(
    ("cmd", "name"),
    [
        (0xC0584B02, "AMDKFD_IOC_CREATE_QUEUE"),
        (0xC0604B02, "AMDKFD_IOC_CREATE_QUEUE"),
        (0xC0204B20, "AMDKFD_IOC_SVM"),
        (0xC0284B82, "AMDKFD_IOC_DBG_TRAP_DEPRECATED"),
        (0xC0304B87, "AMDKFD_IOC_AIS_OP"),
        (0xC0004BF0, "AMDKFD_IOC_0xf0"),
        (0x4B33, None),
        (0x5401, None),
        (0xC0186444, "DRM_IOCTL_AMDGPU_CS"),
        (0x641E, "DRM_IOCTL_SET_MASTER"),
    ],
)
def test_a_request_is_named_by_its_type_and_number(cmd: int, name: str | None) -> None:
    assert ioctl_name(cmd) == name
    assert ioctl_names(pl.Series([cmd, None], dtype=pl.UInt32)).rows() == [(cmd, name)]


@pytest.mark.parametrize(
    ("function", "module", "layer"),
    [
        ("kfd_ioctl", "amdgpu", "kfd"), ("pqm_create_queue", None, "kfd"), ("create_queue_cpsch", None, "kfd"),
        ("execute_queues_cpsch.constprop.0", None, "kfd"),
        ("destroy_queue_nocpsch", None, "kfd"), ("init_mqd", None, "mqd"),
        ("amdgpu_amdkfd_gpuvm_map_memory_to_gpu", None, "kfd"), ("amdgpu_vm_cpu_update", None, "amdgpu"),
        ("helper", "amdgpu", "amdgpu"), ("do_sys_openat2", None, "other"),
    ],
)  # fmt: skip
def test_a_function_has_the_layer_of_its_part_of_the_driver(function: str, module: str | None, layer: str) -> None:
    frame = pl.DataFrame({"f": [function], "m": pl.Series([module], dtype=pl.String)})
    assert frame.select(layer_of(pl.col("f"), pl.col("m"))).item() == layer


def test_a_result_is_zero_an_errno_or_a_number() -> None:
    frame = pl.DataFrame({"v": [0, -22, -25, -512, 4, 0x7FE305EF2000, -5000]})
    assert frame.select(result_text(pl.col("v"), pl.lit(value=False))).to_series().to_list() == [
        "0", "EINVAL", "ENOTTY", "ERESTARTSYS", "4", str(0x7FE305EF2000), "-5000",
    ]  # fmt: skip
    assert frame.select(result_text(pl.col("v"), pl.lit(value=True))).to_series().to_list()[4:6] == [
        "0x4",
        "0x7fe305ef2000",
    ]


def test_each_function_of_the_driver_does_one_request() -> None:
    handlers = dict(list_handlers().select("handler", "ioctl").iter_rows())
    assert len(handlers) == list_handlers().height
    assert handlers["kfd_ioctl_get_available_memory"] == "AMDKFD_IOC_AVAILABLE_MEMORY"
    assert handlers["kfd_ioctl_set_debug_trap"] == "AMDKFD_IOC_DBG_TRAP"
    assert handlers["kfd_ioctl_create_queue"] == "AMDKFD_IOC_CREATE_QUEUE"
