"""GPUs, their targets and schedulers are read out of the KFD nodes of sysfs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tracecorr.read.kfd.topology import NodeFiles, list_nodes, name_gfx_target, name_scheduler, parse_properties


def test_recorded_nodes_are_gpus_with_their_properties(data_folder: Path) -> None:
    paths = [data_folder / "real" / f"kfd-topology-{name}-node-properties.txt" for name in ("mi300x", "mi100")]
    if not all(path.is_file() for path in paths):
        pytest.skip(f"no recorded topology {paths}")
    table = list_nodes([NodeFiles(2 + i, f"{100 + i}\n", path.read_text()) for i, path in enumerate(paths)])
    columns = ["gpu", "gpu_id", "kfd_node", "pci", "render_minor", "gfx_target", "xcc_count", "partition", "scheduler"]
    columns += ["cp_slots", "sdma_slots"]
    assert table.select(columns).rows() == [
        (0, 100, 2, "0000:47:00.0", 128, "gfx942", 8, "SPX", "HWS", 24, 128),
        (1, 101, 3, "0000:23:00.0", 128, "gfx908", 1, None, "HWS", 24, 64),
    ]


def test_cpus_and_torn_files_are_no_gpus() -> None:
    assert list_nodes([NodeFiles(0, "0\n", "simd_count 0\n"), NodeFiles(1, "", ""), NodeFiles(2, "x", "")]).is_empty()
    assert parse_properties("a 1\nb\nc x\nd 2 3\n\n") == {"a": 1}


@pytest.mark.parametrize("shift", [0, 28])
@pytest.mark.parametrize(("nodes", "xccs", "mode"), [(2, 4, "DPX"), (4, 2, "QPX"), (8, 1, "CPX"), (1, 8, "SPX")])
def test_partitions_of_one_device(nodes: int, xccs: int, mode: str, shift: int) -> None:
    """The driver numbers them in the bits of the PCI function, some builds in the highest bits (synthetic)."""
    text = "gfx_target_version 90402\nnum_xcc {}\ndomain 1\nlocation_id {}\n"
    files = [NodeFiles(2 + i, str(500 + i), text.format(xccs, 0x4700 | i << shift)) for i in range(nodes)]
    table = list_nodes(reversed(files))
    assert table["partition"].cast(str).to_list() == [mode] * nodes
    assert set(table["pci"]) == {"0001:47:00.0"}
    assert table["gpu_id"].to_list() == [500 + i for i in range(nodes)]


@pytest.mark.parametrize("shift", [0, 28])
@pytest.mark.parametrize(("xccs", "mode"), [(1, "CPX"), (4, None)])
def test_a_later_partition_that_is_seen_alone(xccs: int, mode: str | None, shift: int) -> None:
    """SYNTHETIC: a container that may use one partition of eight, or of two, sees no file of the others."""
    text = f"gfx_target_version 90402\nnum_xcc {xccs}\nlocation_id {0x4700 | 1 << shift}\n"
    table = list_nodes([NodeFiles(3, "501\n", text)])
    assert table.select("pci", "partition").rows() == [("0000:47:00.0", mode)]


def test_a_device_that_is_not_partitioned_keeps_its_function_and_lies_in_domain_0() -> None:
    table = list_nodes([NodeFiles(1, "7\n", "gfx_target_version 110000\nnum_xcc 1\nlocation_id 769\n")])
    assert table.select("pci", "gfx_target", "partition").rows() == [("0000:03:00.1", "gfx1100", None)]


def test_a_node_without_a_target_has_no_scheduler_that_is_known() -> None:
    table = list_nodes([NodeFiles(1, "7\n", "num_xcc 1\nlocation_id 768\n")], sched_policy=2)
    assert table.select("pci", "gfx_target", "scheduler").rows() == [("0000:03:00.0", None, None)]


@pytest.mark.parametrize(
    ("version", "policy", "target", "scheduler"),
    [
        (90402, 0, "gfx942", "HWS"), (90010, 0, "gfx90a", "HWS"), (90500, 2, "gfx950", "none"),
        (100300, 0, "gfx1030", "HWS"), (110000, 0, "gfx1100", "MES"), (110001, 2, "gfx1101", "MES"),
        (120001, 0, "gfx1201", "MES"),
    ],
)  # fmt: skip
def test_a_target_version_names_its_target_and_scheduler(
    version: int, policy: int, target: str, scheduler: str
) -> None:
    assert (name_gfx_target(version), name_scheduler(version, policy)) == (target, scheduler)
