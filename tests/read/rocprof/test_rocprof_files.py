"""rocprof files: rows and ledger of each form; any bytes are read without a crash and accounted for."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracecorr.model.parts import Block
from tracecorr.read.rocprof.text_files import looks_like_rocprof, read_rocprof

COLUMNS = b'"Kind","Agent_Id","Queue_Id","Process_Id","Thread_Id","Dispatch_Id","Kernel_Id","Kernel_Name",'
KERNELS = COLUMNS + b'''"Start_Timestamp","End_Timestamp"
"KERNEL_DISPATCH","Agent 4",2,15,16,7,10,"void add<float>(float*, int)",1000,1500
"KERNEL_DISPATCH","Agent 4",2,15,16,8,10,"broken
"KERNEL_DISPATCH","Agent 4",2,15,16,9,10,"sub(int)",2000,1500
'''  # fmt: skip
V1 = b""""Index","KernelName","gpu-id","queue-id","queue-index","pid","tid","BeginNs","EndNs"
0,"vadd(int) [clone .kd]",9,0,5,31,32,4000,4100
"""
JSON = b"""{ "traceEvents":[{}
,{"args":{"name":"GPU0"},"ph":"M","pid":6,"name":"process_name"}
,{"ph":"X","name":"vadd(int) [clone .kd]","pid":15,"tid":3,"ts":"4","dur":"1",
  "args":{
    "KernelName":"vadd(int) [clone .kd]",
    "queue-id":"0",
    "pid":"31",
    "BeginNs":"4000",
    "EndNs":"4100"
  }
}
,{"ph":"X","name":"hsa_init","pid":3,"tid":3,"ts":"1","dur":"1",
  "args":{ "BeginNs":"1000", "EndNs":"1100", "pid":"31", "Name":"hsa_init" }
}
],
"otherData":{ "x": "y" }
}"""


def read(data: bytes) -> tuple[pl.DataFrame, Block]:
    """Return the rows and the last block of a file."""
    blocks = list(read_rocprof([data], 3))
    texts = [pl.col(c).cast(pl.String) for c in ("layer", "name", "kernel")]
    return pl.concat([b.events for b in blocks]).with_columns(texts), blocks[-1]


def test_a_kernel_table_of_rocprofv3_gives_a_row_for_each_line_with_times() -> None:
    rows, block = read(KERNELS)
    assert rows.select("stamp_ns", "end_stamp_ns", "layer", "name", "kernel", "pid").rows() == [
        (1000, 1500, "gpu", "dispatch", "void add<float>(float*, int)", 15)
    ]
    assert KERNELS[rows["offset"][0] :].startswith(b'"KERNEL_DISPATCH","Agent 4",2')
    args = block.args.filter(pl.col("file") == 3).select(pl.col("key").cast(pl.String), "u64", "text").rows()
    told = [("tid", 16, None), ("queue_id", 2, None), ("dispatch_id", 7, None), ("agent", None, "Agent 4")]
    assert args == told
    reasons = dict(block.ledger.select(pl.col("reason").cast(pl.String), "records").rows())
    assert reasons == {"": 1, "header": 1, "line of another table": 1, "no times": 1}


def test_a_table_and_a_trace_that_are_cut_in_their_last_record_say_so() -> None:
    _, block = read(KERNELS + KERNELS.splitlines()[1][:40])
    assert ("torn_line", 1, 40) in block.ledger.select(pl.col("reason").cast(pl.String), "records", "bytes").rows()
    # Of numbers only the last one of a file can lack digits.
    for cut in (1, 3, 4):
        rows, block = read(KERNELS.splitlines(keepends=True)[0] + KERNELS.splitlines()[1][:-cut])
        assert rows.is_empty() and "torn_line" in block.ledger["reason"].cast(pl.String).to_list(), cut
    assert read(b"\n".join(KERNELS.splitlines()[:2]))[0].height == 1
    assert "torn_line" not in read(KERNELS)[1].ledger["reason"].cast(pl.String).to_list()
    _, block = read(JSON[: JSON.rindex(b"EndNs")])
    assert block.ledger.filter(pl.col("reason").cast(pl.String) == "damaged object")["records"].to_list() == [1]
    assert "damaged object" not in read(JSON)[1].ledger["reason"].cast(pl.String).to_list()


@pytest.mark.parametrize(
    ("column", "written", "agent"),
    [
        ("Agent_Id", "Agent 4", "Agent 4"), ("Agent_Id", "4", "Agent 4"), ("Agent_Id", "GPU 0", "GPU 0"),
        ("gpu-id", "9", "gpu-id 9"), ("Agent_Id", "", None),
    ],
)  # fmt: skip
def test_a_kernel_keeps_the_name_of_its_gpu(column: str, written: str, agent: str | None) -> None:
    _, block = read(f"KernelName,{column},BeginNs,EndNs\nadd(int),{written},5,7\n".encode())
    told = block.args.filter(pl.col("key").cast(pl.String) == "agent")["text"].to_list()
    assert told == ([] if agent is None else [agent])


@pytest.mark.parametrize(
    ("written", "u64", "text"), [("16384", 16384, None), ("16384.000000", 16384, None), ("0.5", None, "0.5")]
)
def test_a_counter_of_a_kernel_keeps_its_value(written: str, u64: int | None, text: str | None) -> None:
    columns = "Kernel_Name,Counter_Name,Counter_Value,Start_Timestamp,End_Timestamp"
    rows, block = read(f"{columns}\nadd(int),SQ_WAVES,{written},5,7\n".encode())
    assert rows.select("name", "kernel").rows() == [("dispatch", "add(int)")]
    assert block.args.select(pl.col("key").cast(pl.String), "u64", "text").rows() == [("SQ_WAVES", u64, text)]


@pytest.mark.parametrize(
    ("kind", "layer", "name"),
    [
        ("KERNEL_DISPATCH", "gpu", "dispatch"), ("MEMORY_COPY", "gpu", "f"), ("HIP_RUNTIME_API_EXT", "hip", "f"),
        ("HSA_CORE_API", "hsa", "f"), ("MARKER_CORE_API", "marker", "f"), ("MEMORY_ALLOCATION", "memory", "f"),
        ("SCRATCH_MEMORY", "memory", "f"), ("RCCL_API", "other", "f"), ("KFD_PAGE_FAULT", "other", "f"),
    ],
)  # fmt: skip
def test_the_kind_of_a_record_is_its_layer(kind: str, layer: str, name: str) -> None:
    column = "Kernel_Name" if kind == "KERNEL_DISPATCH" else "Function"
    rows, block = read(f"Domain,{column},Process_Id,Start_Timestamp,End_Timestamp\n{kind},f,9,5,7\n".encode())
    assert rows.select("layer", "name", "stamp_ns", "end_stamp_ns", "pid", "file").rows() == [(layer, name, 5, 7, 9, 3)]
    assert set(block.args["file"].to_list()) <= {3}


@pytest.mark.parametrize("data", [V1, JSON])
def test_csv_and_json_of_rocprof_v1_give_the_same_kernel(data: bytes) -> None:
    rows, _ = read(data)
    assert rows.filter(pl.col("layer") == "gpu").select("stamp_ns", "end_stamp_ns", "kernel", "pid").rows() == [
        (4000, 4100, "vadd(int)", 31)
    ]
    assert rows.filter(pl.col("layer") == "hsa")["name"].to_list() == (["hsa_init"] if data is JSON else [])


def test_a_trace_of_hip_names_neither_kernels_nor_copies_but_where_it_shows_them() -> None:
    """SYNTHETIC, in the form of rocprof v1 with `--hip-trace` alone."""

    def told(kind: str, pid: int, name: str, args: dict[str, str]) -> bytes:
        return b',{"ph":"%s","name":"%s","pid":%d,"args":{%s}}\n' % (
            kind.encode(), name.encode(), pid, ",".join(f'"{k}":"{v}"' for k, v in args.items()).encode(),
        )  # fmt: skip

    times = {"BeginNs": "10", "EndNs": "30", "queue-id": "0", "pid": "517"}
    names = {1: "COPY", 2: "CPU HIP API", 8: "GPU2", 520: "GPU Barriers2"}
    data = b'{"traceEvents":[{}\n' + b"".join(told("M", pid, "process_name", {"name": n}) for pid, n in names.items())
    for pid, name in ((1, "CopyDeviceToHost"), (2, "hipMalloc"), (8, "vadd")):
        data += told("X", pid, name, times)
    rows, _ = read(data + b"]}")
    assert rows.select("layer", "name", "kernel", "pid").rows() == [
        ("gpu", "CopyDeviceToHost", None, 517), ("hip", "hipMalloc", None, 517), ("gpu", "dispatch", "vadd", 517),
    ]  # fmt: skip


@pytest.mark.parametrize("data", [KERNELS, V1, JSON])
def test_every_byte_is_booked(data: bytes) -> None:
    assert looks_like_rocprof(data)
    assert sum(b.ledger["bytes"].sum() for b in read_rocprof([data], 0)) == len(data)


@given(st.binary(), st.sampled_from([b"", KERNELS, JSON, b"{", b'"Start_Timestamp"\n']))
def test_every_byte_of_any_file_is_booked(noise: bytes, start: bytes) -> None:
    data = start + noise
    blocks = list(read_rocprof([data], 0))
    assert sum(b.ledger["bytes"].sum() for b in blocks) == len(data)
    looks_like_rocprof(data)


WRONG = [
    b'{"rocprofiler-sdk-tool": 5}',
    b'{"rocprofiler-sdk-tool": [7, {"buffer_records": {"x": [1, {"kind": "a"}]}}]}',
    b'{"rocprofiler-sdk-tool": [{"strings": 3, "metadata": [], "buffer_records": {"k": {"a": 1}}}]}',
    b'{ "traceEvents":[{}\n,{"ph":"X","args":7,"name":[1]}\n,{"ph":"M","name":"process_name","args":[2]}\n]}',
]


@pytest.mark.parametrize("data", [
    V1 + b'1,"' + b"x" * 2_000_000 + b'",9,0,5,31,32,4000,4100\n',
    b'{"rocprofiler-sdk-tool":' + b"[" * 100_000, b'{"traceEvents":[{}\n,{"a":' + b"[" * 100_000, *WRONG,
], ids=["2 MB field", "deep SDK JSON", "deep trace", *map(str, range(len(WRONG)))])  # fmt: skip
def test_large_fields_deep_nesting_and_wrong_types_are_booked(data: bytes) -> None:
    """They end in rows or in skipped bytes, never in a failure."""
    assert sum(b.ledger["bytes"].sum() for b in read_rocprof([data], 0)) == len(data)


def test_files_of_the_field(data_folder: Path) -> None:
    """REAL output of rocprof on MI308X, and the tables of the documentation."""
    expected = {
        "rocprofv1-mi308x-vectoradd-kernels.csv": {"gpu": 1},
        "rocprofv1-mi308x-vectoradd-trace.json": {"gpu": 4, "hip": 15, "hsa": 442},
        "rocprofv1-rocmblogs-HIP_trace-results.json": {"gpu": 7, "hip": 135},
        "rocprofv3-docs-kernel_trace.csv": {"gpu": 9},
        "rocprofv3-docs-memory_copy_trace.csv": {"gpu": 4},
        "rocprofv3-docs-hip_runtime_trace.csv": {"hip": 8},
        "rocprofv3-docs-hip_api_stats.csv": {},
    }
    for name, layers in expected.items():
        data = (data_folder / "real" / name).read_bytes()
        rows, _ = read(data)
        assert dict(sorted(rows.group_by("layer").len().rows())) == layers, name
        assert sum(b.ledger["bytes"].sum() for b in read_rocprof([data], 0)) == len(data)
