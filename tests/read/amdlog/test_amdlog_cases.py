"""The reader on small logs: broken lines, pairing, folding, fields of each kind of line."""

from __future__ import annotations

import pytest
from amdlog_cases import DISPATCH, THREAD, enter, leave, line, log, read

from tracecorr.model.kinds import Flag


def test_a_call_is_one_row_with_both_records() -> None:
    text = log(enter("hipMalloc", "0x7f, 64"), leave("hipMalloc", value="0x14: duration: 1 us"))
    row = read(text).one(layer="hip")
    first = text.index("\n")
    assert (row["name"], row["result"], row["depth"]) == ("hipMalloc", "hipSuccess", 0)
    assert row["flags"] == Flag.SPAN_TOLD
    assert (row["stamp_ns"], row["end_stamp_ns"]) == (5000000000_000, 5000000001_000)
    assert (row["offset"], row["length"], row["end_offset"]) == (0, first, first + 1)
    assert row["end_length"] == len(text) - first - 2


@pytest.mark.parametrize(
    ("value", "flag"),
    [
        ("0x14: duration: 1 us", Flag.SPAN_TOLD), (": duration: 4 us", Flag.SPAN_TOLD),
        (": duration: 5 us", Flag.SPAN_DIFFERS), ("0x14", Flag(0)),
        (": duration: 1d us", Flag.SPAN_TOLD), (": duration: 5d us", Flag.SPAN_DIFFERS), (": duration: d us", Flag(0)),
        (": duration: 1dd us", Flag(0)), (": duration:  us", Flag(0)), (": duration: 123456789012 us", Flag(0)),
        (": duration: 0x1 us", Flag(0)), (": duration: 1 us ", Flag(0)),
    ],
)  # fmt: skip
def test_an_exit_tells_how_long_its_call_took(value: str, flag: Flag) -> None:
    row = read(log(enter("hipMalloc", "0x7f, 64"), leave("hipMalloc", value=value))).one(layer="hip")
    assert row["flags"] == flag


def test_colours_as_caret_text_arrow_or_blank() -> None:
    for before, behind in (("^[[32m ", " ^[[0m"), ("\u2190[32m ", " \u2190[0m"), (" ", " "), ("", "")):
        found = read(log(f"{before}hipFree ( 0x1 ){behind}", leave("hipFree")))
        assert found.one(layer="hip")["name"] == "hipFree"


def test_an_exit_without_enter_stands_alone() -> None:
    found = read(log(leave("hipInit"), enter("hipA"), leave("hipA")))
    row = found.one(name="hipInit")
    assert (row["flags"], row["offset"], row["end_offset"], row["end_stamp_ns"]) == (Flag.EXIT_ONLY, 0, 0, None)
    assert row["stamp_ns"] == 5000000000_000
    assert found.one(name="hipA")["flags"] == 0


def test_kernel_and_arguments_fold_into_the_dispatch() -> None:
    found = read(
        log(
            enter("hipLaunchKernel", "0x1, {1,1,1}"),
            "Command (KernelExecution) enqueued: 0x55 to queue: 0x66",
            "Arg0:   = ptr:0x1400e00000 obj:[0x1400e00000-0x1400e40000]",
            "ShaderName : gemm16(float const*, int)",
            "KernargSegmentByteSize = 288 KernargSegmentAlignment = 128",
            DISPATCH,
            leave("hipLaunchKernel"),
        )
    )
    row = found.one(name="dispatch")
    assert (row["kernel"], row["ring"], row["packet_index"]) == ("gemm16(float const*, int)", 0x3C00000, 6)
    assert (row["command"], row["signal"], row["depth"]) == (0x55, None, 1)
    packet = found.packet(row)
    assert (packet["grid_x"], packet["grid_y"], packet["workgroup_x"], packet["kernarg_bytes"]) == (16384, 2, 256, 288)
    assert (packet["private_bytes"], packet["group_bytes"], packet["rptr"], packet["swq"]) == (8, 64, 5, 0x220000)
    assert (packet["kernel_object"], packet["kernarg"], packet["header"]) == (0x100018A580, 0x1401400100, 0x1502)
    command = found.one(name="KernelExecution")
    assert packet["command_offset"] == command["offset"]
    assert (command["command"], command["stream"], command["layer"]) == (0x55, 0x66, "command")
    assert len(found.events) == 3
    assert found.counts()["used"][0] == 7


def test_a_kernel_name_without_dispatch_is_a_row() -> None:
    found = read(
        log("ShaderName : first", "ShaderName : second", DISPATCH, "ShaderName : third", enter("hipA"), DISPATCH)
    )
    assert [r["kernel"] for r in found.rows(name="shader_name")] == ["first", "third"]
    assert [r["kernel"] for r in found.rows(name="dispatch")] == ["second", None]
    found = read(log("Graph ShaderName : fill(int), device id : 0", DISPATCH))
    assert found.one(name="dispatch")["kernel"] == "fill(int)"


@pytest.mark.parametrize(
    ("submitted", "named", "dispatched", "expected"), [
        (10, 11, 12, "k"), (10, 10, 10, "k"),
        pytest.param(10, 9, 12, None, id="of a command before"),
        pytest.param(10, 13, 12, None, id="of a command behind"),
    ],
)  # fmt: skip
def test_a_kernel_name_that_was_moved_is_not_that_of_the_dispatch_behind_it(
    submitted: int, named: int, dispatched: int, expected: str | None
) -> None:
    text = line("Command (KernelExecution) submitted: 0x55", submitted) + line("ShaderName : k", named)
    for size in (4 << 20, 100):
        found = read(text + line(DISPATCH, dispatched), size)
        assert found.one(name="dispatch")["kernel"] == expected
        assert [row["kernel"] for row in found.rows(name="shader_name")] == ([] if expected else ["k"])
    # Lines that name no thread are of several, which print at any time.
    shared = read(text.replace(THREAD, "") + line(DISPATCH, dispatched, ""))
    assert shared.one(name="dispatch")["kernel"] == "k"


def test_packets_of_rocr_are_on_another_clock() -> None:
    message = (
        "[***rocr***] HWq=0x3, id=0, Barrier Header = 0x103 (type=3, barrier=1, acquire=0, release=0), "
        "dep_signal=[0x1 0x0 0x2 0x0 0x0], completion_signal=0x4 rptr=1, wptr=2"
    )
    for prefix in (":", ":7:"):
        text = f"{prefix}{'amd_blit_kernel.cpp':<25}:{99:<4}: 5000000000 us: [pid:7     tid:0x7f00000000a0] {message}\n"
        row = read(text).one(name="barrier_and")
        found = read(text)
        assert (row["clock"], row["packet_index"], row["ring"], row["signal"]) == ("mono_raw", 2, 3, 4)
        assert found.packet(row)["dep_signals"] == [1, 2]
        assert found.arg(row) == {"rocr": 1}


def test_copies_commands_and_signals() -> None:
    found = read(
        log(
            "HSA Copy copy_engine=0x1, dst=0x10, src=0x20, size=4096, forceSDMA=0, engineType=2, wait_event=0x30, "
            "completion_signal=0x40",
            "HSA Async Copy staged H2D, Async=0",
            "HSA Async Copy dst=0x10, src=0x20, size=5, wait_event=0x0, completion_signal=0x40",
            "Command 0x55 complete (Wall: 2496500052, CPU: 0, GPU: 2 us)",
            "Command 0x56 complete",
            "Signal = (0x7f), Translated start/end = 2496512033326 / 2496512033356, Elapsed = 30 ns, ticks",
            "Host active wait for Signal = (0x7f) for -1 ns",
            "Set Handler: handle(0x7f), timestamp(0x5), blocking CB=0",
        )
    )
    first, second = found.rows(name="copy")
    assert (first["size_bytes"], first["signal"], second["size_bytes"]) == (4096, 0x40, 5)
    packet = found.packet(first)
    assert (packet["engine"], packet["dst"], packet["src"], packet["dep_signals"]) == (1, 0x10, 0x20, [0x30])
    assert found.one(name="staged_h2d")["layer"] == "copy"
    done = found.rows(name="complete")
    assert [r["command"] for r in done] == [0x55, 0x56]
    assert found.arg(done[0]) == {"wall_us": 2496500052, "gpu_us": 2}
    assert found.arg(found.one(name="gpu_time")) == {"start_ns": 2496512033326, "end_ns": 2496512033356}
    assert found.arg(found.one(name="host_active_wait")) == {"timeout_ns": 2**64 - 1}
    assert found.one(name="set_handler")["signal"] == 0x7F


def test_streams_have_handle_flags_and_priority() -> None:
    name = "hipStreamCreateWithPriority"
    found = read(log(enter(name, "0x7f, 1, -1"), leave(name, value="stream:0x1952020")))
    row = found.one(name=name)
    assert row["stream"] == 0x1952020
    assert found.arg(row) == {"flags": 1, "priority": 2**64 - 1}
    found = read(log(enter("hipStreamDestroy", "0x1952020"), leave("hipStreamDestroy")))
    assert found.one(name="hipStreamDestroy")["stream"] == 0x1952020


@pytest.mark.parametrize(
    ("name", "args", "stream"),
    [
        ("hipLaunchKernel", "0x55f9, {1,1,1}, {64,1,1}, 0x7f51, 0, stream:0x3aafaec0", 0x3AAFAEC0),
        ("hipModuleLaunchKernel", "0x0x3aa6, 256, 1, 1, 256, 1, 1, 0, stream:0x3aafb2b0, 0x7fb4, char array:<null>",
         0x3AAFB2B0),
        ("hipExtModuleLaunchKernel", "0x7f, 4, char array:<null>, stream:0x0x16fe080, event:0x5, 0", 0x16FE080),
        ("hipEventRecord", "event:0x7f51740430b0, stream:0x1952020", 0x1952020),
        ("hipStreamBatchMemOp", "stream:0x1952020, 2, 0x7ffd10, 0", 0x1952020),
        ("hipMallocFromPoolAsync", "0x7ffd10, 4096, 0x55f0, stream:0x1952020", 0x1952020),
        ("hipDrvMemcpy3DAsync", "0x7ffd10, stream:0x1952020", 0x1952020),
        ("hipStreamWaitEvent", "stream:0x1952020, event:0x7f51740430b0, 0", 0x1952020),
        # The null stream, which for a function compiled for one default stream per thread is another one.
        ("hipLaunchKernel", "0x55f9, {1,1,1}, {64,1,1}, 0x7f51, 0, stream:<null>", 1),
        ("hipLaunchKernel_spt", "0x55f9, {1,1,1}, {64,1,1}, 0x7f51, 0, stream:<null>", None),
        # From 7.2 on nothing tells which of the pointers is a stream; commands name it.
        ("hipLaunchKernel", "0x55f9, {1,1,1}, {64,1,1}, 0x7f51, 0, 0x3aafaec0", None),
        ("hipModuleLaunchKernel", "0x3aa6, 256, 1, 1, 256, 1, 1, 0, 0x3aafb2b0, 0x7fb4, char array:<null>", None),
        ("hipLaunchKernel", "0x55f9, {1,1,1}, {64,1,1}, 0x7f51, 0, stream:0x7fb,bb5,801,fe0", 0x7FBBB5801FE0),
        ("hipEventRecord", "event:0x7,f51, stream:0x0x16,fe0", 0x16FE0),
        # Not a part of a handle.
        ("hipLaunchKernel", "0x55f9, {1,1,1}, {64,1,1}, 0x7f51, 0, stream:0x7fb,bb5,8", None),
        ("hipMemcpyAsync", "0x7f, 0x80, 64, hipMemcpyHostToDevice, downstream:0x5", None),
        ("hipMemcpyAsync", "0x7f, 0x80, 64, hipMemcpyHostToDevice, stream:0x5epoch 3 done", None),
    ],
)  # fmt: skip
def test_a_call_names_the_stream_that_it_is_given(name: str, args: str, stream: int | None) -> None:
    found = read(log(enter(name, args), leave(name), "stream:0x77"))
    assert found.one(layer="hip")["stream"] == stream


def test_records_glued_behind_other_output() -> None:
    text = "\r... 1 s...done" + line("init") + "plain text\n\n" + "x us: y\n" + line("Free hsa memory 0x1")
    found = read(text)
    assert found.one(name="init")["offset"] == len("\r... 1 s...done")
    assert found.counts()["program_output"] == (3, len("\r... 1 s...done") + len("plain text\n") + len("x us: y\n"))
    assert found.counts()["blank_line"] == (1, 1)
    assert found.ledger["bytes"].sum() == len(text)


def test_a_record_torn_by_another_one() -> None:
    text = line(enter("hipMalloc", "0x7f"))[:90] + line("init") + "rest of it )\n"
    found = read(text)
    assert found.one(name="init")["flags"] == 0
    assert found.events.filter(offset=0)["flags"].to_list() == [Flag.TORN]
    assert found.ledger["bytes"].sum() == len(text)


def test_strange_bytes_ends_and_lengths() -> None:
    long = line("ShaderName : " + "k" * 4082)
    data = long.encode() + b"\xff\xfe\0\0\n" + line("bad \xc3 text").encode("latin-1").replace(b"\n", b"\r\n")
    data += line("init").encode().rstrip(b"\n")
    found = read(data)
    assert found.one(name="shader_name")["flags"] == Flag.CUT
    assert found.rows(layer="other")[0]["name"] == "bad \ufffd text"
    assert found.one(name="(torn)")["length"] == len(line("init")) - 1
    assert found.ledger["bytes"].sum() == len(data)


def test_unknown_messages_are_counted_under_one_name() -> None:
    found = read(
        log("Blob 0x12ab of 7 in 00ff33aa11", "Blob 0x9 of 8 in 11ff33aa22", "HIP Version: 7.2.5, Direct Dispatch: 1")
    )
    assert [r["name"] for r in found.rows(layer="other")] == ["Blob # of # in #"] * 2 + ["hip_version"]
    assert found.arg(found.one(name="hip_version")) == {"version": "HIP Version: 7.2.5, Direct Dispatch: 1"}


def test_multi_line_messages_of_the_compiler() -> None:
    head = f":1:{'devprogram.cpp':<25}:{99:<4}: 5000000000 us: {THREAD}amd_comgr_do_action:\n"
    assert read(head + "  error: x\n").counts()["continuation"] == (1, 11)


def test_the_source_text_of_a_program_is_of_its_call() -> None:
    """hiprtcCreateProgram prints all of its argument (7.2.4); behind its exit the program may print itself."""
    made = line('hiprtcCreateProgram ( 0x7ffe, extern "C"') + "__global__ void k() {}\n , k.hip, 0, <null>, <null> )\n"
    made += line("hiprtcCreateProgram: Returned HIPRTC_SUCCESS") + "compiled\n"
    found = read(made)
    assert {reason: count for reason, (count, _) in found.counts().items()} == {
        "used": 2, "continuation": 2, "program_output": 1,
    }  # fmt: skip
    assert found.one(layer="hip")["name"] == "hiprtcCreateProgram"


def test_copy_engine_is_hexadecimal_with_and_without_sign() -> None:
    rest = "dst=0x1, src=0x2, size=3, wait_event=0x0, completion_signal=0x4"
    found = read(log(f"HSA Async Copy on copy_engine=10, {rest}", f"HSA Async Copy on copy_engine=0x10, {rest}"))
    assert found.packets["engine"].to_list() == [16, 16]


def test_one_number_without_its_sign_changes_no_other_one() -> None:
    # A torn line may leave a decimal number where all others are hexadecimal.
    text = "SWq={}, HWq=0x3, id=1, Dispatch Header = 0x2 (type=2)"
    found = read(log("Free hsa memory 0x1400", "Free hsa memory 12", text.format("0x220000"), text.format("7, x")))
    assert [row["arg"] for row in found.rows(name="free")] == [0x1400, 12]
    assert found.packets["swq"].to_list() == [0x220000, 7]
