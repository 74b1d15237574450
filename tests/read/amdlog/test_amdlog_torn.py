"""Records cut apart by other output, glued to it or to each other: both halves are found, nothing is guessed."""

from __future__ import annotations

from io import BytesIO

import polars as pl
import pytest
from amdlog_cases import DISPATCH, Read, enter, leave, line, read

from tracecorr.model.kinds import Flag
from tracecorr.read.amdlog.reader import read_amd_log

OUTPUT = "step 7 done"
COMMAND = "Command (KernelExecution) enqueued: 0x55c431b09020 to queue: 0x55c431a2b210"
COPY = (
    "HSA Copy copy_engine=0x1, dst=0x580000, src=0x1401e00000, size=262144, forceSDMA=0, engineType=1, "
    "wait_event=0x7fe680, completion_signal=0x7fe600"
)


def _cut(message: str, place: int, output: str = OUTPUT + "\n") -> str:
    """Return a record that a text cuts `place` bytes into its message."""
    whole = line(message)
    place += whole.index(message)
    return whole[:place] + output + whole[place:]


def _check_ledger(log: Read, text: str, used: int, output: int) -> None:
    counts = log.counts()
    assert sum(size for _, size in counts.values()) == len(text.encode())
    assert counts["used"][0] == used
    assert counts["program_output"][0] == output


@pytest.mark.parametrize("key", ["Dispatch Head", "grid=[", "private_s", "kernel_obj=", "ptr=5", "wptr="])
def test_a_packet_cut_apart_has_all_its_fields(key: str) -> None:
    text = _cut(DISPATCH, DISPATCH.index(key) + len(key))
    log = read(text + line("No HW event"))
    row, whole = log.one(name="dispatch"), read(line(DISPATCH)).one(name="dispatch")
    for column in ("ring", "packet_index", "signal", "stamp_ns"):
        assert row[column] == whole[column]
    expected = read(line(DISPATCH)).packets.drop("offset").to_dicts()
    assert log.packets.drop("offset").to_dicts() == expected
    assert (row["flags"], row["offset"], row["length"]) == (Flag.TORN, 0, len(text) - 1)
    _check_ledger(log, text + line("No HW event"), used=2, output=1)


def test_a_number_that_may_go_on_in_the_text_is_not_read() -> None:
    for key, known in (("wptr=", {"rptr": 5, "wptr": None}), ("rptr=", {"rptr": None, "wptr": 6})):
        log = read(_cut(DISPATCH, DISPATCH.index(key) + len(key), "3 items done\n"))
        row = log.one(name="dispatch")
        assert (row["packet_index"], row["flags"]) == (known["wptr"], Flag.TORN)
        assert log.packet(row)["rptr"] == known["rptr"]
        assert log.packet(row)["kernarg"] == 0x1401400100


@pytest.mark.parametrize("message", [COMMAND, COPY])
def test_commands_and_copies_cut_apart(message: str) -> None:
    whole = read(line(message)).events.drop("length", "flags").to_dicts()
    log = read(_cut(message, message.index("0x")))
    assert log.events.drop("length", "flags").to_dicts() == whole
    assert log.events["flags"].to_list() == [Flag.TORN]


@pytest.mark.parametrize("output", ["", "step 42", "0.1"])
def test_a_command_cut_in_its_kind_keeps_it(output: str) -> None:
    for kind in ("KernelExecution", "InternalMarker"):
        log = read(_cut(COMMAND.replace("KernelExecution", kind), len("Command (InternalMarke"), output + "\n"))
        row = log.one(layer="command")
        assert (row["name"], row["command"], row["flags"]) == (kind, 0x55C431B09020, Flag.TORN), output


def test_a_call_cut_apart_is_one_call() -> None:
    text = line(enter("hipMalloc", "0x7f, 64"), 1)
    place = text.index("64")
    text = text[:place] + OUTPUT + "\nmore of it\n" + text[place:] + line(leave("hipMalloc"), 9)
    log = read(text)
    row = log.one(layer="hip")
    assert (row["name"], row["result"], row["flags"]) == ("hipMalloc", "hipSuccess", Flag.TORN)
    assert row["end_stamp_ns"] == 9000
    _check_ledger(log, text, used=2, output=1)


def test_a_record_of_another_process_cuts_one_apart() -> None:
    other = "[pid:8 tid: 0x7f00000000b0] "
    whole, place = line(DISPATCH), len(line("")) + 150
    text = whole[:place] + line("Free hsa memory 0x14", thread=other) + whole[place:]
    log = read(text)
    assert log.one(name="dispatch")["packet_index"] == 6
    assert log.one(name="free")["arg"] == 0x14
    assert log.counts() == {"used": (2, len(text))}


def test_half_a_number_at_a_tear_is_dropped() -> None:
    whole = line(DISPATCH)
    place = whole.index("kernarg_address=0x14014") + len("kernarg_address=0x14014")
    row = read(whole[:place] + line("No HW event")).one(name="dispatch")
    assert row["flags"] == Flag.TORN
    log = read(whole[:place] + line("No HW event"))
    packet = log.packet(log.one(name="dispatch"))
    assert (packet["kernarg"], packet["kernel_object"]) == (None, 0x100018A580)


def test_text_of_the_program_alone_cuts_nothing() -> None:
    text = line(DISPATCH) + "loss=0x12\n" + line(enter("hipA")) + "\x1b[1mbold ( 5 ) \x1b[0m\n" + line(leave("hipA"))
    log = read(text)
    assert set(log.events["flags"]) == {0}
    assert log.counts()["program_output"][0] == 2


def test_what_is_left_of_a_name_names_nothing() -> None:
    text = line(enter("hipMalloc", "0x7f, 64"))
    place = text.index("lloc")
    log = read(text[:place] + OUTPUT + "\n" + text[place:])
    assert log.events["name"].to_list() == ["(torn)"]
    assert log.events["flags"].to_list() == [Flag.TORN]


KERNEL = "ShaderName : void (anonymous namespace)::gemm16<float>(float const*, int)"


@pytest.mark.parametrize("key", ["gem", "anonymous", "namespace)", "float>(flo", ", int"])
def test_a_torn_kernel_is_flagged_and_names_nothing(key: str) -> None:
    place = KERNEL.index(key) + len(key)
    text = line(enter("hipA")) + line("ShaderName : other(int)") + _cut(KERNEL, place) + line(DISPATCH)
    log = read(text)
    assert log.one(name="dispatch")["kernel"] is None
    kernels = [(row["kernel"], row["flags"]) for row in log.rows(name="shader_name")]
    assert kernels == [("other(int)", 0), (None, Flag.TORN)]
    assert log.ledger["bytes"].sum() == len(text)


def test_a_kernel_torn_by_another_record_has_its_whole_name() -> None:
    other = line("Free hsa memory 0x14", thread="[pid:8 tid: 0x7f00000000b0] ")
    text = line(enter("hipA")) + _cut(KERNEL, KERNEL.index("gemm") + 3, other) + line(DISPATCH)
    log = read(text)
    assert log.one(name="dispatch")["kernel"] == KERNEL.removeprefix("ShaderName : ")
    assert log.counts() == {"used": (4, len(text))}


def test_a_kernel_cut_at_the_limit_keeps_its_beginning() -> None:
    name = "void at::native::kernel<" + "std::array<char*, 2>, " * 200
    row = read(line("ShaderName : " + name[: 4095 - len("ShaderName : ")])).one(name="shader_name")
    assert (row["flags"], row["kernel"][:23]) == (Flag.CUT, "void at::native::kernel")


@pytest.mark.parametrize(
    "message",
    ["Set Handler: handle(0x7fd080), timestamp(0x7f51740bb610)", "Blob (0x7fd080) of 4", "NullStream 0x7fd080, wait 0"],
)
def test_any_torn_message_is_flagged_where_it_shows(message: str) -> None:
    text = _cut(message, message.index("0x7fd080") + 4, "step 7\n") + line("init")
    log = read(text)
    (row,) = log.rows(offset=0)
    assert (row["flags"], row["signal"]) == (Flag.TORN, None)
    assert row["name"] == ("set_handler" if "Handler" in message else "(torn)")
    assert log.arg(row) == {}


def test_whole_messages_before_text_of_the_program_are_not_torn() -> None:
    messages = (
        "Allocate hsa device memory 0x14, size 0x20, hsa_mem_flags 0x4h", "ShaderName : _Z4vaddPKfS0_Pfi", "Blob 1",
        "ShaderName : Cijk_Ailk_Bljk_SB_MT64x64x32", "ShaderName : void a<b>::operator()(int) const [clone .kd]",
        "ShaderName : foo(int) [clone .kd] (.kd)", "Graph ShaderName : fill(int), device id : 0",
        "ShaderName : a::b({lambda(int)#1}, c<(d)1>)", "hipFree: Returned hipSuccess : ", enter("hipFree", "0x1"),
    )  # fmt: skip
    log = read("".join(line(m) + "loss (0.5]\n" for m in messages))
    assert {flags & Flag.TORN for flags in log.events["flags"]} == {0}
    assert log.counts()["program_output"][0] == len(messages)


def test_an_exit_torn_by_another_record_ends_its_call() -> None:
    exit_text = leave("hipMemcpy", value=": duration: 6 us")
    other = line("Free hsa memory 0x14", thread="[pid:8 tid: 0x7f00000000b0] ")
    log = read(line(enter("hipMemcpy"), 1) + _cut(exit_text, 6, other))
    row = log.one(name="hipMemcpy")
    assert (row["result"], row["end_stamp_ns"]) == ("hipSuccess", 5000000000_000)
    assert row["flags"] == Flag.TORN | Flag.SPAN_DIFFERS
    log = read(line(enter("hipMemcpy"), 1) + _cut(exit_text, 6, "done\n") + line("init"))
    assert [(row["name"], row["flags"]) for row in log.events.to_dicts()] == [
        ("hipMemcpy", Flag.ENTER_ONLY), ("(torn)", Flag.TORN), ("init", 0),
    ]  # fmt: skip


@pytest.mark.parametrize("unit", [" us", "d us"])
def test_an_exit_torn_behind_its_result_tells_its_duration(unit: str) -> None:
    exit_text = leave("hipMemcpy", value=f": duration: 1{unit}")
    other = line("Free hsa memory 0x14", thread="[pid:8 tid: 0x7f00000000b0] ")
    log = read(line(enter("hipMemcpy"), 4999999999) + _cut(exit_text, len("hipMemcpy: Returned hipSuccess"), other))
    assert log.one(name="hipMemcpy")["flags"] == Flag.TORN | Flag.SPAN_TOLD


LASTS = {
    "packet": DISPATCH, "command": COMMAND, "copy": COPY, "kernel": "ShaderName : Cijk_Ailk_Bljk_SB_MT64x64x32",
    "queue": "Created SWq=0x22 to map on HWq=0x3c00 with size 16384 with priority 1, cooperative: 0",
}  # fmt: skip


@pytest.mark.parametrize("message", LASTS.values(), ids=LASTS)
def test_what_a_log_that_ends_in_a_record_shows_of_it_is_in_the_whole_record(message: str) -> None:
    whole = read(line(message))
    rows = whole.rows() + whole.packets.to_dicts()
    true = {key: value for row in rows for key, value in row.items() if key not in ("length", "name", "layer", "flags")}
    for end in range(1, len(message), 7):
        log = read(line(message)[: end - len(message) - 1])
        for row in log.rows() + log.packets.to_dicts():
            wrong = {key: value for key, value in row.items() if value is not None and value != true.get(key, value)}
            assert not wrong, message[:end]
        assert set(log.arg(true).items()) <= set(whole.arg(true).items()), message[:end]


@pytest.mark.parametrize("message", LASTS.values(), ids=LASTS)
def test_what_a_record_shows_in_front_of_a_hole_is_in_the_whole_record(message: str) -> None:
    """A crash left NULs in the place of bytes, and of lines: what is behind them is the end of another one."""
    whole = read(line(message))
    rows = whole.rows() + whole.packets.to_dicts()
    true = {key: value for row in rows for key, value in row.items() if key not in ("length", "name", "layer", "flags")}
    for end in range(1, len(message), 7):
        rest = "4, 1], workgroup=[64, 1, 1], completion_signal=0x7f77, rptr=4, wptr=44" if end % 2 else ""
        text = line(message)[: end - len(message) - 1] + "\0" * 600 + rest + "\n"
        log = read(text + line("init"))
        rows = [row for row in log.rows() if row["name"] != "init"]
        for row in rows + log.packets.to_dicts():
            wrong = {key: value for key, value in row.items() if value is not None and value != true.get(key, value)}
            assert not wrong, message[:end]
        assert {row["flags"] for row in rows} <= {Flag.TORN}
        assert sum(size for _, size in log.counts().values()) == len((text + line("init")).encode())


def test_of_several_holes_in_a_record_the_first_counts() -> None:
    torn = line(DISPATCH).rstrip("\n").replace("grid=[", "grid=[1\0\0\0") + "\0\0\0" + "2, 1]\n"
    row = read(torn).one(name="dispatch")
    assert (row["packet_index"], row["flags"], read(torn).packet(row)["grid_x"]) == (None, Flag.TORN, None)


def test_a_hole_and_what_stands_behind_it_are_no_part_of_a_record() -> None:
    whole, front = line("init"), line(DISPATCH)[:120]
    log = read(whole + front + "\0" * 3 + "rest of it\n" + whole + front + "\0" * 600 + "\n" + whole)
    assert log.counts() == {
        "used": (5, 3 * len(whole) + 2 * len(front)), "nul_bytes": (2, 604), "behind_nul_bytes": (1, 11),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "counts"), [
        ("\0" * 600 + "\n", {"nul_bytes": (1, 601)}), ("\0" * 600 + line("init"), {"nul_bytes": (1, 600)}),
        ("step 7\0\0\n", {"program_output": (1, 9)}),
        ("step" + "\0" * 64 + "7\n", {"nul_bytes": (1, 64), "program_output": (1, 6)}),
    ],
)  # fmt: skip
def test_a_hole_in_the_place_of_lines_is_told_from_what_a_program_prints(
    text: str, counts: dict[str, tuple[int, int]]
) -> None:
    found = read(line("init") + text + line("init")).counts()
    assert {reason: count for reason, count in found.items() if reason != "used"} == counts


def test_a_hole_lies_between_the_records_beside_it() -> None:
    """ROCr's lines show another clock, a few NULs stand for no line, and beyond a file's ends is no record."""
    hole, rocr = "\0" * 600 + "\n", line("[***rocr***] HWq=0x3", us=90)
    parts = [hole, line("init", us=5), line(OUTPUT, us=6)[:70], hole, rocr, line("init", us=700), line("init", us=7)]
    text = "".join([*parts, "step\0\0\0\n", line("init", us=800), hole])
    blocks = list(read_amd_log(BytesIO(text.encode()), 0, 1 << 20))
    assert pl.concat([block.losses for block in blocks]).rows() == [("amd_log", None, 6_000, 700_000, None)]


def test_the_record_that_a_log_ends_in_is_lost_wherever_it_is_cut() -> None:
    """One piece of it is used as far as it goes, or is too little to be used; nothing of it is the program's."""
    whole = line("init")
    for message in (DISPATCH, "Arg3:   = val:0x100 (size:0x8)", enter("hipFree", "0x1")):
        last = line(message)
        for end in [end for end in range(1, len(last), 9) if not last[:end].endswith("\x1b[0m")]:
            found = read(whole + last[:end]).counts()
            torn = found.pop("torn_record", (0, 0)), found.pop("broken_record", (0, 0))
            assert sum(count for count, _ in torn) == 1 and found.keys() == {"used"}, last[:end]
            assert found["used"][1] + torn[0][1] + torn[1][1] == len(whole) + end
        assert read(whole + last).counts().keys() == {"used"}
    assert "torn_record" not in read(whole + line(leave("hipFree", value=": duration: 6 us")).rstrip("\n")).counts()
    assert read(whole + "step: 7").counts()["program_output"] == (1, 7)
    assert read(f"{whole}:3:\n{whole}").counts()["program_output"] == (1, 4)


def test_the_last_number_of_a_log_without_its_last_line_end_is_not_read() -> None:
    log = read(line(DISPATCH).rstrip("\n"))
    row = log.one(name="dispatch")
    assert (row["packet_index"], row["flags"], log.packet(row)["rptr"]) == (None, Flag.TORN, 5)
    for message in (enter("hipFree", "0x1"), leave("hipFree", value=": duration: 6 us")):
        (row,) = read(line(message).rstrip("\n")).rows(name="hipFree")
        assert row["flags"] & Flag.TORN == 0


def test_a_log_that_ends_in_the_exit_of_a_call_tells_no_other_result_of_it() -> None:
    text = line(enter("hipMalloc"), 4999999684) + line(leave("hipMalloc", "hipErrorOutOfMemory", ": duration: 316 us"))
    for cut in range(1, 60, 3):
        call = read(text[:-cut]).rows(name="hipMalloc")[0]
        assert call["result"] in (None, "hipErrorOutOfMemory"), text[:-cut]
        assert call["flags"] & Flag.SPAN_DIFFERS == 0, text[:-cut]


def test_many_torn_records_are_looked_at_once_each() -> None:
    # A search through all torn ones before would take minutes.
    text = (line("Blob ((((") + "x\n") * 20_000
    assert {row["flags"] for row in read(text).events.to_dicts()} == {Flag.TORN}


_FIRST, _SECOND = ("[pid:7 tid: 0x7f00000000a0] ", "[pid:8 tid: 0x7f00000000b0] ")


def _two_packets(second: str = _SECOND) -> tuple[list[str], list[str]]:
    """Return two dispatches as pieces of 128 bytes, of which the last of each ends its line."""
    records = [line(DISPATCH, thread=_FIRST), line(DISPATCH.replace("wptr=6", "wptr=9"), thread=second)]
    first, last = ([record[:128], record[128:]] for record in records)
    return first, last


@pytest.mark.parametrize("swapped", [False, True])
def test_of_two_processes_that_print_at_once_only_first_pieces_are_sure(swapped: bool) -> None:
    """Either rest may be behind either beginning: nothing tells whose it is."""
    one, other = _two_packets()
    rests = [one[1], other[1]] if swapped else [other[1], one[1]]
    log = read("".join([one[0], other[0], *rests]) + line("No HW event", thread=_FIRST))
    assert log.packets.is_empty()
    assert log.events.select("flags", "pid").rows() == [(Flag.TORN, 7), (Flag.TORN, 8), (0, 7)]
    # Which of the two a rest ends is the same to the ledger.
    assert log.counts()["used"][0] == 3


def test_a_rest_may_come_many_lines_later() -> None:
    one, other = _two_packets()
    third = _two_packets()[0]
    whole = line("Command (Task) enqueued: 0x55c4", thread=_FIRST)
    text = one[0] + other[0] + one[1] + whole + third[0] + other[1] + third[1]
    log = read(text)
    assert log.packets.is_empty()
    assert [row["name"] for row in log.events.to_dicts()].count("Task") == 1
    for block_bytes in (100, 200, 300, 400):
        assert read(text, block_bytes=block_bytes).events.equals(log.events)


def test_a_short_line_between_the_pieces_of_another_process_is_its_own() -> None:
    one, short = _two_packets()[0], line("No HW event", thread=_SECOND)
    log = read(one[0] + short + one[1])
    assert log.one(name="dispatch")["packet_index"] == read(line(DISPATCH)).one(name="dispatch")["packet_index"]


def test_lines_of_one_process_are_never_taken_for_those_of_another() -> None:
    one, other = _two_packets(second=_FIRST)
    indexes = [row["packet_index"] for row in read(one[0] + other[0] + other[1] + one[1]).rows(name="dispatch")]
    assert indexes == [6, 9]
