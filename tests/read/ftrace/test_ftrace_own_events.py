"""The kernel's own binary events (SYNTHETIC records of the recorded formats), and texts of instrumented drivers."""

from __future__ import annotations

import struct

import polars as pl
import pytest
from ftrace_cases import Whole, read_text, whole

from tracecorr.model.kinds import Flag
from tracecorr.read.ftrace.formats import PageTrace, Symbols, probed_functions
from tracecorr.read.ftrace.pages import read_ftrace_pages

_HEAD = "name: {}\nID: {}\nformat:\n"


def _format(name: str, number: int, *fields: tuple[str, int, int]) -> str:
    lines = (f"\tfield:{d};\toffset:{at};\tsize:{size};\tsigned:0;\n" for d, at, size in fields)
    return _HEAD.format(name, number) + "".join(lines)


# Linux 6.18; 6.1 has the same fields, the depth of funcgraph_entry is an int there.
FORMATS = {
    "ftrace/function": _format("function", 1, ("unsigned long ip", 8, 8), ("unsigned long parent_ip", 16, 8)),
    "ftrace/print": _format("print", 5, ("unsigned long ip", 8, 8), ("char buf[]", 16, 0)),
    "ftrace/funcgraph_exit": _format(
        "funcgraph_exit", 10, ("unsigned long func", 8, 8), ("unsigned int depth", 16, 4),
        ("unsigned int overrun", 20, 4), ("unsigned long long calltime", 24, 8), ("unsigned long long rettime", 32, 8),
    ),
    "ftrace/funcgraph_entry": _format(
        "funcgraph_entry", 11, ("unsigned long func", 8, 8), ("unsigned int depth", 16, 4),
        ("unsigned long args[]", 24, 0),
    ),
}  # fmt: skip
IOCTL, CREATE, MARK = 0xFFFFFFFFC0A00010, 0xFFFFFFFFC0A01000, 0xFFFFFFFF81200000
KALLSYMS = (
    "ffffffff81200000 t tracing_mark_write\nffffffffc0a00010 t kfd_ioctl\t[amdgpu]\n"
    "ffffffffc0a01000 T pqm_create_queue\t[amdgpu]\nffffffffc0a01004 d some_data\t[amdgpu]\n"
)


def _page(*records: tuple[int, bytes], tid: int = 7, start_ns: int = 5000) -> bytes:
    """Return a page with records of (event id, fields), 100 ns apart, of one thread."""
    body = b""
    for number, fields in records:
        payload = struct.pack("<HBBi", number, 0, 0, tid) + fields
        payload += bytes(-len(payload) % 4)
        words = len(payload) // 4
        head = struct.pack("<I", 100 << 5 | words) if words <= 28 else struct.pack("<II", 100 << 5, len(payload) + 4)
        body += head + payload
    return (struct.pack("<QQ", start_ns, len(body)) + body).ljust(4096, b"\0")


def _trace(
    *records: tuple[int, bytes], kallsyms: str = KALLSYMS, formats: dict[str, str] = FORMATS, tid: int = 7
) -> Whole:
    """Read one page with records of (event id, fields), 100 ns apart, of one thread."""
    trace = PageTrace({0: _page(*records, tid=tid)}, formats, cmdlines="7 k\n", kallsyms=kallsyms)
    return whole(read_ftrace_pages(trace, {0: 1}, "mono"))


def test_what_a_return_on_another_cpu_shows_belongs_to_its_call() -> None:
    """Each CPU has a file of its own, in which offsets begin anew."""
    formats = {
        "kfd/ioctl": _format("ioctl", 20, ("unsigned long __probe_ip", 8, 8), ("u32 cmd", 16, 4)),
        "kfd/ioctl_ret": _format(
            "ioctl_ret", 21, ("unsigned long __probe_func", 8, 8), ("unsigned long __probe_ret_ip", 16, 8),
            ("u64 ret", 24, 8), ("u64 queue", 32, 8),
        ),
    }  # fmt: skip
    enter, other = (20, struct.pack("<QI", IOCTL, 1)), (20, struct.pack("<QI", IOCTL, 2))
    leave = (21, struct.pack("<QQQQ", IOCTL, MARK, 0, 88))
    pages = {0: _page(other, enter, start_ns=5000), 1: _page(leave, start_ns=6000)}
    trace = whole(read_ftrace_pages(PageTrace(pages, formats, kallsyms=KALLSYMS), {0: 4, 1: 9}, "mono"))
    call = trace.events.filter(pl.col("end_stamp_ns").is_not_null())
    assert call.select("stamp_ns", "end_stamp_ns", "file", "end_offset").rows() == [(5200, 6100, 4, None)]
    (told,) = trace.args.filter(pl.col("key") == "queue").select("file", "offset", "u64").rows()
    assert told == (4, call["offset"][0], 88)


@pytest.mark.parametrize(
    ("probes", "kallsyms", "site", "named"),
    [
        ("", KALLSYMS, IOCTL + 4, ("kfd_ioctl", "kfd")), ("", "", IOCTL + 4, ("mine", "other")),
        ("", KALLSYMS, CREATE + 400, ("mine", "other")), ("p:g/mine pqm_x", KALLSYMS, IOCTL + 4, ("pqm_x", "kfd")),
        ("", KALLSYMS, 0x7F0000001000, ("mine", "hsa")),
    ],
)  # fmt: skip
def test_a_probe_without_its_definition_is_named_by_the_symbols(
    probes: str, kallsyms: str, site: int, named: tuple[str, str]
) -> None:
    """As in a trace.dat, which has symbols and no definitions. An address within a function is none of its calls."""
    formats = {"g/mine": _format("mine", 20, ("unsigned long __probe_ip", 8, 8), ("u32 x", 16, 4))}
    page = _page((20, struct.pack("<QI", site, 1)))
    trace = PageTrace({0: page}, formats, kallsyms=kallsyms, probes=probes)
    assert whole(read_ftrace_pages(trace, {0: 4}, "mono")).events.select("name", "layer").rows() == [named]


def test_functions_have_names_and_modules() -> None:
    trace = _trace((1, struct.pack("<QQ", IOCTL + 4, 0)), (1, struct.pack("<QQ", CREATE + 400, 0)))
    assert trace.events["name"].to_list() == ["kfd_ioctl", hex(CREATE + 400)]
    assert trace.events["layer"].to_list() == ["kfd", "other"]
    assert trace.events["flags"].to_list() == [Flag.TRACED] * 2


def test_function_graph_has_spans_and_depth() -> None:
    trace = _trace(
        (11, struct.pack("<QI", IOCTL, 0)), (11, struct.pack("<QI", CREATE, 1)),
        (10, struct.pack("<QIIQQ", CREATE, 1, 0, 1, 91)), (10, struct.pack("<QIIQQ", IOCTL, 0, 0, 1, 291)),
    )  # fmt: skip
    rows = trace.events.select("name", "stamp_ns", "end_stamp_ns", "depth", "flags").rows()
    assert rows == [("kfd_ioctl", 5100, 5400, 0, Flag.TRACED), ("pqm_create_queue", 5200, 5300, 1, Flag.TRACED)]
    assert trace.ledger["outcome"].to_list() == ["used"] and trace.ledger["records"].to_list() == [4]
    assert trace.arg("duration_ns") == [290, 90], "of the clock of the tracer: no end of a span, but told as in a text"


def test_a_call_of_function_graph_without_its_end_is_half_seen() -> None:
    """Its end was in no trace of this depth either."""
    trace = _trace((11, struct.pack("<QI", IOCTL, 0)))
    assert trace.events.select("name", "flags").rows() == [("kfd_ioctl", Flag.TRACED | Flag.ENTER_ONLY)]


def test_a_text_of_a_driver_and_a_marker() -> None:
    text = b"[KFD-TRACE] CREATE_QUEUE_SUCCESS: pid=4711 queue_id=3 doorbell_offset=0x1008\n\0"
    trace = _trace(
        (5, struct.pack("<Q", CREATE + 40) + text),
        (5, struct.pack("<Q", MARK + 60) + b"clock_sync id=1 mono=77\n\0"),
        (5, struct.pack("<Q", IOCTL + 99) + b"KFD_MQD_DESTROY: qid=3\n\0"),
        (5, struct.pack("<Q", IOCTL) + b"some text\n\0"),
    )
    assert trace.events.select("layer", "name").rows() == [
        ("kfd", "CREATE_QUEUE_SUCCESS"), ("marker", "clock_sync"), ("mqd", "KFD_MQD_DESTROY"), ("other", "kfd_ioctl"),
    ]  # fmt: skip
    assert trace.arg("pid") == [4711] and trace.arg("queue_id") == [3] and trace.arg("doorbell_offset") == [0x1008]
    assert trace.arg("function") == ["pqm_create_queue", "kfd_ioctl"] and trace.arg("mono") == [77]
    assert trace.arg("qid") == [3] and trace.arg("body")[-1] == "some text"


@pytest.mark.parametrize(
    ("event", "field", "damaged", "names"),
    [
        ("print", "char buf[]", "char bvf[]", ["print"]),
        ("print", "char buf[]", "long buf", ["print"]),
        ("funcgraph_entry", "unsigned int depth", "unsigned int dept", ["funcgraph_entry"]),
        ("funcgraph_exit", "unsigned long long calltime", "unsigned long long x", ["kfd_ioctl"]),
        ("funcgraph_exit", "unsigned long long rettime;\toffset:32", "long args[];\toffset:4000", ["kfd_ioctl"]),
        ("funcgraph_exit", "unsigned long long rettime", "unsigned long long calltime", ["kfd_ioctl"]),
    ],
)
def test_a_damaged_format_hides_no_record(event: str, field: str, damaged: str, names: list[str]) -> None:
    path = f"ftrace/{event}"
    text = FORMATS[path].replace(field, damaged)
    assert text != FORMATS[path]
    data = {
        "print": struct.pack("<Q", MARK + 60) + b"hello\n\0",
        "funcgraph_entry": struct.pack("<QI", IOCTL, 0), "funcgraph_exit": struct.pack("<QIIQQ", IOCTL, 0, 0, 9, 1),
    }  # fmt: skip
    number = {"print": 5, "funcgraph_entry": 11, "funcgraph_exit": 10}[event]
    trace = _trace((number, data[event]), formats={**FORMATS, path: text})
    assert trace.events["name"].to_list() == names
    assert trace.ledger["outcome"].to_list() == ["used"] and trace.ledger["records"].to_list() == [1]


def test_without_symbols_a_text_is_a_marker() -> None:
    trace = _trace((5, struct.pack("<Q", MARK + 60) + b"hello\n\0"), kallsyms="")
    assert trace.events["name"].to_list() == ["marker"] and trace.arg("text") == ["hello"]


def test_an_address_near_the_start_of_a_function_has_its_name() -> None:
    names = Symbols(KALLSYMS).names(pl.Series([IOCTL, IOCTL + 15, IOCTL + 16, 5], dtype=pl.UInt64).to_numpy())
    assert names["function"].to_list() == ["kfd_ioctl", "kfd_ioctl", hex(IOCTL + 16), "0x5"]
    hidden = Symbols("0000000000000000 T kfd_ioctl\n")
    assert hidden.names(pl.Series([0x10], dtype=pl.UInt64).to_numpy())["function"].to_list() == ["0x10"]


def test_a_submission_of_amdgpu_has_the_fields_that_its_text_prints() -> None:
    """Its pointer to a fence is never set: the bytes there are left from other records."""
    text = (("__data_loc char[] timeline", 16, 4), ("unsigned int context", 20, 4), ("unsigned int seqno", 24, 4))
    ring = (("__data_loc char[] ring", 40, 4), ("u32 num_ibs", 44, 4))
    fields = (("uint64_t sched_job_id", 8, 8), *text, ("struct dma_fence * fence", 32, 8), *ring)
    formats = {"amdgpu/amdgpu_cs_ioctl": _format("amdgpu_cs_ioctl", 90, *fields)}
    stale = 0xDEADBEEF
    values = struct.pack("<QIIIxxxxQII", 77, 10 << 16 | 48, 5, 9, stale, 10 << 16 | 48, 1) + b"gfx_0.0.0\0"
    trace = _trace((90, values), formats=formats)
    printed = b" a-7 [000] ..... 0.000005: amdgpu_cs_ioctl: sched_job=77, timeline=gfx_0.0.0, context=5, seqno=9, "
    wanted = read_text(printed + b"ring_name=gfx_0.0.0, num_ibs=1\n").args
    assert set(trace.args.select("key", "u64", "text").rows()) == set(wanted.select("key", "u64", "text").rows())


# SYNTHETIC: the wording is that of a DKMS driver tree with trace_printk, the values are invented.
INSTRUMENTED = b"""\
      python-99      [001] .....    10.000001: kfd_ioctl_create_queue: [KFD-TRACE] CREATE_QUEUE_SUCCESS: queue_id=4
      python-99      [001] .....    10.000002: pqm_create_queue: KFD_MQD_CREATE: pid=99 gpu=63420 qid=4 type=0 active=1
      python-99      [001] .....    10.000003: pqm_destroy_queue: KFD_MQD_DESTROY: qid=4
      python-99      [001] .....    10.000004: update_mqd: [CU_MASK] qid=4 mask=0xff
      python-99      [001] .....    10.000005: some_function: free text: with=equals
      python-99      [001] .....    10.000006: <stack trace>
 => kfd_ioctl
 => __x64_sys_ioctl
"""


def test_texts_of_an_instrumented_driver() -> None:
    trace = read_text(INSTRUMENTED)
    assert trace.events.select("layer", "name").rows()[:5] == [
        ("kfd", "CREATE_QUEUE_SUCCESS"), ("mqd", "KFD_MQD_CREATE"), ("mqd", "KFD_MQD_DESTROY"), ("mqd", "CU_MASK"),
        ("other", "some_function"),
    ]  # fmt: skip
    assert trace.events["name"][-1] == "stack_trace"
    assert trace.arg("qid") == [4, 4, 4] and trace.arg("gpu") == [63420] and trace.arg("mask") == [0xFF]
    assert trace.arg("function") == ["kfd_ioctl_create_queue", "pqm_create_queue", "pqm_destroy_queue", "update_mqd"]
    assert "=> __x64_sys_ioctl" in trace.arg("body")[-1]
    assert trace.ledger["outcome"].to_list() == ["used"] and trace.events.height == 6


def test_durations_without_stamps_are_kept() -> None:
    text = (
        b" 1)   a-12     =>  b-34  \n 1)               |  kfd_ioctl [amdgpu]() {\n"
        b" 1) + 38.677 us   |    kfd_ioctl_get_version [amdgpu]();\n 1) ! 386.576 us  |  }\n"
    )
    trace = read_text(text)
    assert set(trace.events["flags"]) == {Flag.NO_TIME | Flag.TRACED}
    durations = trace.args.filter(pl.col("key") == "duration_ns").join(trace.events, on=["file", "offset"])
    assert sorted(durations.select("name", "u64").rows()) == [("kfd_ioctl", 386_576), ("kfd_ioctl_get_version", 38_677)]


@pytest.mark.parametrize(
    ("definition", "function"),
    [
        ("p:kfd/ioctl kfd_ioctl cmd=$arg2:x32", "kfd_ioctl"),
        ("r64:kfd/ioctl_ret amdgpu:kfd_ioctl ret=$retval:s64", "kfd_ioctl"),
        ("p:kfd/inside create_queue_cpsch.isra.0+0x4", "create_queue_cpsch.isra.0"),
        ("f:fprobes/kfd_open__entry kfd_open", "kfd_open"),
        ("f:fprobes/kfd_open__exit kfd_open%return ret=$retval:s32", "kfd_open"),
        ("p:hsa/doorbell /opt/rocm/lib/libhsa-runtime64.so.1:0x4af10 sig=%di:x64", None),
        ("e:kfd/eop syscalls.sys_enter_openat path=+0($filename):ustring", None),
    ],
)
def test_the_definition_of_a_probe_names_its_function(definition: str, function: str | None) -> None:
    assert probed_functions(definition) == ({definition.split()[0].partition("/")[2]: function} if function else {})
