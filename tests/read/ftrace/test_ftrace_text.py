"""Forms of kernel trace text, one by one, and what must hold for any bytes."""

from __future__ import annotations

import re

import polars as pl
import pytest
from ftrace_cases import read_text, whole
from hypothesis import given
from hypothesis import strategies as st

from tracecorr.model.kinds import Flag
from tracecorr.read.ftrace.lines import looks_like_ftrace_text
from tracecorr.read.ftrace.text import read_ftrace_text

HEAD = b"# tracer: nop\n#\n# entries-in-buffer/entries-written: 5/9   #P:2\n"
PREFIX = b"  a-b c(d) [1] x-136   (    99) [001] .....    24.000%03d: "
BODIES = [
    b"sys_ioctl(fd: 3, cmd: 0xc0604b02, arg: 0x7ffdade5bc40)",
    b"ioctl: (kfd_ioctl+0x4/0x570 [amdgpu]) cmd=0xc0604b02 arg=0x7ffe",
    b'cq: (create_queue_cpsch+0x4/0x90 [amdgpu]) qid=5 comm="a b"',
    b"im: (init_mqd_v9_4_3+0x4/0x90 [amdgpu])",
    b"ioctl_ret: (__x64_sys_ioctl+0x8d/0xd0 <- kfd_ioctl) ret=-22",
    b"sys_ioctl -> 0xffffffffffffffea",
    b"doorbell_2: (0x7f7bd24c11c0) sig=0x7ffb80 val=-1 kind=-1 ring=0x20a000",
    b"launch: (0x7f7bd24c11c0) func=0x5",
    b'sys_openat(dfd: 4294967196, filename: 4689924 "/dev/k, fd", flags: O_RDWR|O_CLOEXEC)',
    b"sys_openat -> 0x4",
    b"tracing_mark_write: two\nlines",
    b"tracing_mark_write: TRACECORR_SYNC mono=77 raw=5 seq=1",
    b"CREATE_QUEUE: pid=4 [KFD-TRACE] text",
    b"sys_mmap(addr: 0, len: 0x2000, prot: 3, flags: 0x22, fd: 0xffffffff, off: 0)",
    b"sys_mmap -> 0x7fe305ef2000",
    b"drm_sched_job_queue: dev=0000:c1:00.0, fence=3:1, ring=gfx_0.0.0, job count:0, hw job count:0, client_id:4660",
    b"drm_sched_job_done: fence=3:1 signaled",
    b"init_mqd <-allocate_mqd",
    b"kfd_ioctl+0x0/0x540 [amdgpu] <-__x64_sys_ioctl+0x8d/0xd0",
    b"sys_exit_group(error_code: 0)",
]
TRACE = HEAD + b"".join(PREFIX % i + body + b"\n" for i, body in enumerate(BODIES)) + b"CPU:1 [LOST 7 EVENTS]\n"


def _row(name: str, **also: object) -> dict[str, object]:
    rows = read_text(TRACE).events.filter(pl.col("name") == name)
    for key, value in also.items():
        rows = rows.filter(pl.col(key) == value)
    assert rows.height == 1, rows
    return rows.row(0, named=True)


@pytest.mark.parametrize("cut", [1, 2, 20])
def test_a_line_that_a_trace_ends_in_is_no_record(cut: int) -> None:
    # The last number of such a line may lack digits.
    first = PREFIX % 0 + BODIES[0] + b"\n"
    last = PREFIX % 1 + b"doorbell_2: (0x7f7bd24c11c0) sig=0x7ffb80 val=1234\n"
    found = read_text(first + last[:-cut])
    assert found.events["name"].to_list() == ["AMDKFD_IOC_CREATE_QUEUE"]
    torn = found.ledger.filter(pl.col("reason") == "torn_line")
    assert torn.select("outcome", "records", "bytes").rows() == [("skipped", 1, len(last) - cut)]
    assert found.ledger["bytes"].sum() == len(first + last) - cut


def test_an_ioctl_is_one_row_with_its_enter_and_exit() -> None:
    row = _row("AMDKFD_IOC_CREATE_QUEUE")
    assert (row["layer"], row["fd"], row["cmd"], row["arg"], row["result"]) == (
        "ioctl",
        3,
        0xC0604B02,
        0x7FFDADE5BC40,
        "EINVAL",
    )
    assert (row["stamp_ns"], row["end_stamp_ns"]) == (24_000_000_000, 24_000_005_000)
    assert (row["pid"], row["tid"], row["comm"], row["cpu"]) == (99, 136, "a-b c(d) [1] x", 1)
    start, end = int(str(row["offset"])), int(str(row["end_offset"]))
    assert TRACE[start : start + int(str(row["length"]))] == PREFIX % 0 + BODIES[0]
    assert TRACE[end : end + int(str(row["end_length"]))] == PREFIX % 5 + BODIES[5]


def test_kernel_functions_nest_in_their_call() -> None:
    outer = _row("AMDKFD_IOC_CREATE_QUEUE")["offset"]
    call, create = _row("kfd_ioctl", result="EINVAL"), _row("create_queue_cpsch")
    assert (call["layer"], call["depth"], call["parent_offset"]) == ("kfd", 1, outer)
    assert (create["layer"], create["depth"], create["parent_offset"], create["flags"]) == ("kfd", 2, outer, 0)
    assert _row("init_mqd_v9_4_3")["layer"] == "mqd"
    assert _row("init_mqd")["depth"] == 0


def test_each_kind_of_record_has_its_row() -> None:
    bell = _row("doorbell")
    assert (bell["layer"], bell["arg"], bell["packet_index"], bell["ring"]) == ("doorbell", 0x7FFB80, -1, 0x20A000)
    opened = _row("openat")
    assert (opened["arg"], opened["result"]) == (4689924, "4")
    mapped = _row("mmap")
    assert (mapped["fd"], mapped["size_bytes"], mapped["result"]) == (-1, 0x2000, "0x7fe305ef2000")
    assert _row("launch")["flags"] == 0, "no return probe: an instant"
    assert _row("exit_group")["flags"] == Flag.ENTER_ONLY
    trace = read_text(TRACE)
    assert trace.arg("path") == ["/dev/k, fd"] and trace.arg("text") == ["two\nlines"]
    assert trace.arg("mono") == [77] and trace.arg("body") == ["pid=4 [KFD-TRACE] text"]
    assert trace.arg("fence") == ["3:1", "3:1"] and trace.arg("client_id") == [4660]
    assert trace.arg("comm") == ["a b"] and trace.arg("kind") == [(1 << 64) - 1]


def test_notes_of_lost_events_are_losses_and_every_byte_is_booked() -> None:
    trace = read_text(TRACE)
    assert trace.losses["count"].to_list() == [7, 4]
    sums = trace.ledger.group_by("outcome").agg(pl.col("records", "bytes").sum())
    ledger = {r["outcome"]: r for r in sums.to_dicts()}
    assert ledger["used"]["bytes"] == len(TRACE) and ledger["lost"]["records"] == 11


def test_bare_hex_before_0x_came() -> None:
    old = PREFIX % 1 + b"sys_ioctl(fd: ff, cmd: c0604b02, arg: 10)\n" + PREFIX % 2 + b"sys_ioctl -> 0x0\n"
    (row,) = read_text(old).events.to_dicts()
    assert (row["fd"], row["arg"], row["name"], row["result"]) == (255, 16, "AMDKFD_IOC_CREATE_QUEUE", "0")


def test_console_ioctl_is_no_kfd_ioctl() -> None:
    (row,) = read_text(PREFIX % 1 + b"sys_ioctl(fd: 3, cmd: 0x4b33, arg: 0x10)\n").events.to_dicts()
    assert (row["layer"], row["name"], row["flags"]) == ("syscall", "ioctl", Flag.ENTER_ONLY)


@pytest.mark.parametrize("name", ["a b", "a=b", 'q"t', "1234", "0x1f", "pid=7 comm=x", "", "tail  "])
@pytest.mark.parametrize(
    "body",
    [
        "sched_process_fork: comm={} pid=5 child_comm={} child_pid=6",
        "sched_process_exit: comm={} pid=5 prio=120 group_dead=false",
        "task_newtask: pid=5 comm={} clone_flags=3d0f00 oom_score_adj=-1",
        "task_rename: pid=5 oldcomm=x newcomm={} oom_score_adj=0",
        "task_rename: oldcomm=x newcomm={} oom_score_adj=0",
    ],
)
def test_the_name_of_a_task_may_hold_anything(body: str, name: str) -> None:
    read = read_text(HEAD + PREFIX % 1 + body.format(name, name).encode() + b"\n")
    texts = re.findall(r"(\w+)={}", body)
    assert [read.arg(key) for key in texts] == [[name]] * len(texts)
    assert read.arg("pid") == ([5] if "pid=5" in body else [])
    assert read.arg("clone_flags") == ([0x3D0F00] if "clone_flags" in body else [])


def test_an_exit_without_its_enter_is_half_seen() -> None:
    (row,) = read_text(PREFIX % 1 + b"sys_clone3 -> 0x0\n").events.to_dicts()
    assert (row["name"], row["flags"], row["stamp_ns"], row["end_stamp_ns"]) == (
        "clone3",
        Flag.EXIT_ONLY,
        24_000_001_000,
        None,
    )


@pytest.mark.parametrize(
    ("head", "expected"),
    [(TRACE, True), (HEAD, True), (b"", False), (b"\x7fELF\0", False), (b":3:hip.cpp :123 : 55 us: text\n", False),
     (PREFIX % 1 + b"sys_ioctl -> 0x0\n", True)],
)  # fmt: skip
def test_a_trace_is_told_by_its_first_bytes(head: bytes, expected: bool) -> None:
    assert looks_like_ftrace_text(head) is expected


@pytest.mark.parametrize("length", [1, 61, 800])
def test_where_the_bytes_are_cut_for_reading_changes_no_row(length: int) -> None:
    chunks = [TRACE[at : at + length] for at in range(0, len(TRACE), length)]
    one, many = read_text(TRACE), whole(read_ftrace_text(chunks, 3, "mono"))
    assert one.events.equals(many.events) and one.args.equals(many.args) and one.ledger.equals(many.ledger)


@pytest.mark.parametrize("size", [200, 333, 700, 2000])
def test_block_size_changes_no_event(size: int) -> None:
    one, many = read_text(TRACE), read_text(TRACE, block_bytes=size)
    columns = ["offset", "name", "stamp_ns", "end_stamp_ns", "parent_offset", "result", "flags"]
    assert one.events.select(columns).sort("offset").equals(many.events.select(columns).sort("offset"))
    assert many.ledger["bytes"].sum() == len(TRACE)


@given(
    pieces=st.lists(
        st.one_of(
            st.binary(max_size=60), st.sampled_from(BODIES), st.sampled_from([b"\n", PREFIX % 1, b"\r\n", b" 1)  | "])
        )
    ),
    size=st.integers(1, 300),
)
def test_any_bytes_are_read_and_accounted_for(pieces: list[bytes], size: int) -> None:
    data = b"".join(pieces)
    assert read_text(data, block_bytes=size).ledger["bytes"].sum() == len(data)


def test_function_graph_with_and_without_stamps() -> None:
    body = (b"  kfd_ioctl [amdgpu]() {", b"    kfd_ioctl_get_version [amdgpu]();", b"  } /* kfd_ioctl [amdgpu] */")
    durations = (b"              ", b"+ 38.677 us   ", b"! 386.576 us  ")
    full = b"".join(
        b"   32.%06d |   1)     k-146      | %s|%s\n" % (i, d, t)
        for i, (d, t) in enumerate(zip(durations, body, strict=True))
    )
    inner, outer = sorted(read_text(full).events.to_dicts(), key=lambda r: str(r["name"]), reverse=False)[::-1]
    assert (outer["name"], outer["stamp_ns"], outer["end_stamp_ns"], outer["depth"]) == (
        "kfd_ioctl",
        32_000_000_000,
        32_000_002_000,
        0,
    )
    assert (inner["name"], inner["end_stamp_ns"], inner["depth"], inner["tid"]) == (
        "kfd_ioctl_get_version",
        32_000_001_000 + 38_677,
        1,
        146,
    )
    short = b" 1)   a-12     =>  b-34  \n" + b"".join(
        b" 1) %s|%s\n" % (d, t) for d, t in zip(durations, body, strict=True)
    )
    trace = read_text(short)
    assert set(trace.events["flags"]) == {Flag.NO_TIME | Flag.TRACED} and trace.events.height == 2
    assert trace.ledger["outcome"].to_list() == ["used"]


def test_only_doorbells_of_the_hardware_are_doorbells() -> None:
    kinds = {-1: "doorbell", -2: "doorbell", 0: "signal_store", 1: "signal_store"}
    body = "doorbell: (0x7f7bd24c11c0) sig=0x7ffb80 val=5 kind={} hw=0x7f10 swq=0x99 ring=0x20a000 qid=1"
    lines = [PREFIX % n + body.format(kind).encode() + b"\n" for n, kind in enumerate(kinds)]
    whole_text = read_text(HEAD + b"".join(lines))
    rows = whole_text.events.sort("offset")
    assert rows["name"].to_list() == list(kinds.values())
    assert rows["ring"].to_list() == [0x20A000, 0x20A000, None, None]
    assert rows["layer"].to_list() == ["doorbell", "doorbell", "signal", "signal"]
    stores = rows.filter(pl.col("name") == "signal_store").join(whole_text.args, on=["file", "offset"])
    assert set(stores["key"].to_list()) == {"val", "kind"}


def test_roctx_ranges_nest_and_carry_their_text() -> None:
    place = b"(0x7f7bd24c11c0)"
    bodies = [b'roctx_push: %s text="outer"', b'roctx_push: %s text="inner, x=1"', b'roctx_mark: %s text="here"',
              b"init_mqd: (init_mqd+0x4/0x90 [amdgpu])%.0s", b"roctx_pop: %s", b"roctx_pop: %s"]  # fmt: skip
    whole_text = read_text(HEAD + b"".join(PREFIX % n + b % place + b"\n" for n, b in enumerate(bodies)))
    rows = whole_text.events.sort("offset")
    assert rows["name"].to_list() == ["roctx_range", "roctx_range", "roctx_mark", "init_mqd"]
    lengths = (rows["end_stamp_ns"] - rows["stamp_ns"]).to_list()
    assert lengths == [5000, 3000, None, None]
    assert rows.filter(pl.col("name") == "init_mqd")["depth"].to_list() == [0]
    texts = rows.join(whole_text.args.filter(pl.col("key") == "text"), on=["file", "offset"]).sort("offset")
    assert texts["text"].to_list() == ["outer", "inner, x=1", "here"]


def test_a_lone_open_with_its_path_is_decimal_however_blocks_are_cut() -> None:
    """Kernel 7.2 prints the path behind its pointer; the pointer is decimal though this line shows no 0x."""
    prefix = b"            t1-100     [000] .....     1.0000%02d: "
    bodies = [
        b'sys_openat(dfd: 4294967196, filename: 4689924 "/dev/kfd", flags: O_RDWR|O_CREAT, mode: 0666)',
        b"sys_openat -> 0x3",
        b"sys_ioctl(fd: 3, cmd: 0xc0604b02, arg: 0x7ffd)",
    ]
    trace = b"".join(prefix % i + body + b"\n" for i, body in enumerate(bodies))
    whole_read, cut_read = (read_text(trace, block_bytes=size).events for size in (1 << 20, 150))
    opened = whole_read.filter(pl.col("name") == "openat")
    assert opened["arg"].to_list() == [4689924]
    assert cut_read.equals(whole_read)


def test_records_were_lost_between_the_last_and_the_next_one_of_their_cpu() -> None:
    def record(cpu: int, second: int) -> bytes:
        return b"          python-7     [%03d] .....   %d.000000: sys_close -> 0x0\n" % (cpu, second)

    lost = b"CPU:0 [LOST 12 EVENTS]\n"
    text = record(0, 100) + record(0, 101) + record(1, 102) + lost + record(1, 103) + record(0, 104) + record(0, 105)
    told = read_text(text).losses.select("cpu", "from_ns", "to_ns", "count")
    assert told.rows() == [(0, 101_000_000_000, 104_000_000_000, 12)]
    at_an_end = read_text(lost + record(0, 104) + record(0, 105)).losses.select("from_ns", "to_ns")
    assert at_an_end.rows() == [(None, 104_000_000_000)]


@pytest.mark.parametrize("note", ["CPU:0 [12 EVENTS DROPPED]", "gpu: CPU:0 [12 EVENTS DROPPED]"])
def test_what_trace_cmd_says_of_lost_records_is_a_loss(note: str) -> None:
    record = "          python-7     [000]   10%d.000000: sys_exit_close:       0x0\n"
    text = (record % 0 + record % 1 + note + "\n" + record % 2 + note.replace("12 ", "") + "\n" + record % 3).encode()
    trace = read_text(text)
    told = trace.losses.select("cpu", "from_ns", "to_ns", "count").rows()
    assert told == [(0, 101_000_000_000, 102_000_000_000, 12), (0, 102_000_000_000, 103_000_000_000, None)]
    assert trace.args.is_empty() and trace.ledger.filter(pl.col("outcome") == "used")["bytes"].to_list() == [len(text)]


@pytest.mark.parametrize("instance", ["gpu: ", "tracecorr_31337_8372406_1_4026531836_workload: "])
@pytest.mark.parametrize("stamp", [" 24.000001", "24000001000", "   24000001000"])
def test_the_name_of_an_instance_is_not_that_of_the_program(instance: str, stamp: str) -> None:
    """trace-cmd report prints both, and no blank before a long stamp that has no dot."""
    line = f"{instance}{'a: b-1 [2]':>16}-{136:<5} [001]{stamp}: sched_process_exit:   comm=x pid=136 prio=120\n"
    assert looks_like_ftrace_text(line.encode())
    trace = read_text(3 * line.encode())
    assert trace.events.select("tid", "cpu", pl.col("comm").cast(pl.String)).unique().rows() == [(136, 1, "a: b-1 [2]")]
    assert trace.ledger["records"].to_list() == [3]


@pytest.mark.parametrize(("clock", "told"), [("boot", "boot"), ("mono", "ticks"), ("x86-tsc", "x86-tsc")])
def test_a_stamp_without_a_dot_is_nanoseconds_where_trace_cmd_prints_them_so(clock: str, told: str) -> None:
    line = b"           sleep-136   [001]84534462845221: sys_exit_close:       0x0\n"
    (row,) = whole(read_ftrace_text([line], 3, clock)).events.to_dicts()
    assert (row["stamp_ns"], row["clock"]) == (84534462845221, told)


@pytest.mark.parametrize("flags", ["..... ", ""])
@pytest.mark.parametrize("stamp", ["24.000001", "3575227098"])
@pytest.mark.parametrize("comm", ["y-7 [003] 1.5: ", "x-12 [001] .", "a-b c(d) [1] x", "-5", " 1)  q  | "])
def test_the_last_number_before_the_cpu_is_the_thread(comm: str, stamp: str, flags: str) -> None:
    """A program may give itself a name that begins as a record does."""
    line = f"{comm:>16}-{136:<7} (    99) [001] {flags}{stamp}: sched_process_exit: comm=x pid=136 prio=120\n"
    rows = read_text(("# tracer: nop\n" + 3 * line).encode()).events
    assert rows["tid"].unique().to_list() == [136] and rows["pid"].unique().to_list() == [99]
    assert rows["cpu"].unique().to_list() == [1] and rows["stamp_ns"].n_unique() == 1
    assert rows["comm"].cast(pl.String).str.strip_chars().unique().to_list() == [comm.strip()]


@pytest.mark.parametrize(
    "writer",
    ["tracing_mark_write", "tracing_mark_write+0x1ab/0x2b0", "tracing_mark_write <ffffffff8149ab1a>", "print",
     "tracing_mark_write+0x1ab/0x2b0 <ffffffff8149ab1a>", "0xffffffff8149ab1a", "print: 0xffffffff8149ab1a",
     "print: tracing_mark_write"],
)  # fmt: skip
def test_clock_marks_are_known_whatever_is_printed_of_their_writer(writer: str) -> None:
    """The options sym-offset and sym-addr print where the function is, a missing symbol table its address alone."""
    rows = read_text(f" hip-136   [001] .....    24.000001: {writer}: clock_sync id=7 mono=24000000500\n".encode())
    assert rows.events["name"].cast(pl.String).to_list() == ["clock_sync"]
    assert rows.arg("id") == [7] and rows.arg("mono") == [24000000500]


def test_text_of_a_driver_is_known_behind_the_place_of_its_function() -> None:
    text = "kfd_ioctl+0x12/0x34 [amdgpu]: [KFD-TRACE] CREATE_QUEUE_SUCCESS: pid=1 queue_id=3"
    rows = read_text(f" hip-136   [001] .....    24.000001: {text}\n".encode())
    assert rows.events["name"].cast(pl.String).to_list() == ["CREATE_QUEUE_SUCCESS"]
    assert rows.arg("function") == ["kfd_ioctl"] and rows.arg("queue_id") == [3]


def test_the_printed_duration_of_a_function_is_kept_beside_its_stamps() -> None:
    """It is finer than rounded stamps, and all that an exit without its entry tells of the time before it."""
    head = "   {} |   1)    hip-136    | {} |  "
    lines = [
        head.format("42.000100", "+ 58.016 us  ") + "} /* kfd_mmap [amdgpu] */",
        head.format("42.000200", "             ") + "kfd_open [amdgpu]() {",
        head.format("42.000201", "  1.250 us   ") + "  kfd_is_locked [amdgpu]();",
        head.format("42.000205", "  4.875 us   ") + "} /* kfd_open [amdgpu] */",
    ]
    rows = read_text(("# tracer: function_graph\n" + "\n".join(lines) + "\n").encode())
    told = rows.events.select("offset", "name", dur_ns=pl.col("end_stamp_ns") - pl.col("stamp_ns")).join(
        rows.args.filter(pl.col("key") == "duration_ns").select("offset", "u64"), on="offset", how="left"
    )
    assert sorted(told.select(pl.col("name").cast(pl.String), "dur_ns", "u64").rows()) == [
        ("kfd_is_locked", 1250, None), ("kfd_mmap", None, 58016), ("kfd_open", 4875, 4875),
    ]  # fmt: skip


NUMBERED = "  hip-136   (    99) [{cpu}] ..... {sec}.000001: {body}\n"
IOCTL = "sys_ioctl(fd: 3, cmd: 0x5401, arg: 0x7ff)"


@pytest.mark.parametrize("others", [0, 3])
@pytest.mark.parametrize(
    ("sec", "stamp_ns"),
    [("24", 24_000_001_000), ("4611686017", 4_611_686_017_000_001_000), ("4611686019", None), ("9223372037", None),
     ("18446744074", None), ("999999999999", None)],
)  # fmt: skip
def test_a_stamp_that_no_clock_shows_is_missing(sec: str, stamp_ns: int | None, others: int) -> None:
    lines = [NUMBERED.format(cpu="001", sec=second, body=IOCTL) for second in (*["24"] * others, sec)]
    assert read_text("".join(lines).encode()).events.sort("offset")["stamp_ns"].to_list()[-1] == stamp_ns


@pytest.mark.parametrize("note", ["CPU:1 [LOST {} EVENTS]\n", "# entries-in-buffer/entries-written: 1/{}   #P:2\n"])
def test_more_losses_than_can_be_are_a_loss_of_unknown_size(note: str) -> None:
    record = NUMBERED.format(cpu="001", sec="24", body=IOCTL)
    trace = read_text(("# tracer: nop\n" + note.format(2**64 - 3538) + record).encode())
    assert trace.losses["count"].to_list() == [None]
