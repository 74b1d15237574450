"""Kernel logs: each message of the catalogue by its text, and each form in which such a log is handed on."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from tracecorr.model.parts import Block
from tracecorr.read.kernel_log.catalogue import MESSAGES
from tracecorr.read.kernel_log.printk import looks_like_kernel_log, name_messages, read_kernel_log

_CASES = [
    [part.strip(" ") for part in line.split("|", 2)]
    for line in (Path(__file__).parent / "messages.txt").read_text().splitlines()
]
_SDMA = "amdgpu: No more SDMA queue to allocate"
_FAILED = "amdgpu: Pasid 0x8011 DQM create queue type 1 failed. ret -12"
_USB = "usb 1-1: new high-speed USB device"


def _read(text: str | bytes) -> Block:
    data = text.encode() if isinstance(text, str) else text
    (block,) = read_kernel_log([data], 3)
    # Whatever it holds, the ledger accounts for every byte.
    assert block.ledger["bytes"].sum() == len(data)
    return block


def _summarize(block: Block) -> list[tuple[str, int | None, str]]:
    return [(str(n), s, str(c)) for n, s, c in block.events.select("name", "stamp_ns", "clock").iter_rows()]


def test_every_message_of_the_catalogue_is_read_with_what_it_names() -> None:
    named = name_messages(pl.DataFrame({"text": [text for _, _, text in _CASES]}))
    for (name, told, text), row in zip(_CASES, named.iter_rows(named=True), strict=True):
        assert row["name"] == name, text
        # A value may hold blanks; a key does not.
        words = dict(zip(*[iter(_split(told))] * 2, strict=True)) if told else {}
        for key, value in words.items():
            assert str(row[key]) == value, (text, key)


def _split(told: str) -> list[str]:
    """Return key, value, key, value, ... of `key=value key=value` where values may hold blanks."""
    out: list[str] = []
    for word in told.split(" "):
        key, is_pair, value = word.partition("=")
        if is_pair:
            out += [key, value]
        else:
            out[-1] += f" {word}"
    return out


def test_the_cases_are_of_all_messages() -> None:
    assert {name for name, _, _ in _CASES} == {message.name for message in MESSAGES} | {"driver_message"}


@pytest.mark.parametrize(
    ("text", "clock", "stamp"),
    [
        (f"[2582911.790196] {_SDMA}\n[    1.000000] {_USB}\n", "printk", 2582911790196000),
        (f"kern  :err   : [    1.000001] {_SDMA}\nkern  :info  : [    2.000000] {_USB}\n", "printk", 1000001000),
        (f"[   12.000001][ T123] {_SDMA}\n", "printk", 12000001000),
        (f"[   12.000001] my-server kernel: {_SDMA}\n", "printk", 12000001000),
        (f"Aug 05 10:28:24 my-server kernel: [   12.000001] {_SDMA}\n", "printk", 12000001000),
        (f"Aug 05 10:28:24.812377 my-server kernel: {_SDMA}\n", "realtime", None),
        (f"[Tue Sep  9 02:30:28 2025] {_SDMA}\n", "realtime", 1757385028000000000),
        (f"2025-09-09T02:30:28,123456+00:00 {_SDMA}\n", "realtime", 1757385028123456000),
        (f"2025-09-09T04:30:28+0200 my-server kernel: {_SDMA}\n", "realtime", 1757385028000000000),
        (f"3,907,12000001,-;{_SDMA}\n SUBSYSTEM=pci\n DEVICE=+pci:0000:c5:00.0\n", "printk", 12000001000),
        (
            json.dumps({"dmesg": [{"pri": 3, "time": 12.000001, "msg": _SDMA}, {"pri": 6, "time": 13.0, "msg": _USB}]},
                       indent=3),
            "printk", 12000001000,
        ),
        (
            json.dumps({"__CURSOR": "s=1", "MESSAGE": _SDMA, "PRIORITY": "3", "_TRANSPORT": "kernel",
                        "_SOURCE_MONOTONIC_TIMESTAMP": "12000001", "__MONOTONIC_TIMESTAMP": "12045001"}) + "\n",
            "printk", 12000001000,
        ),
        (
            "__CURSOR=s=1\n__MONOTONIC_TIMESTAMP=12045001\n_TRANSPORT=kernel\nPRIORITY=3\n"
            f"_SOURCE_MONOTONIC_TIMESTAMP=12000001\nMESSAGE={_SDMA}\n\n",
            "printk", 12000001000,
        ),
    ],
)  # fmt: skip
def test_each_form_gives_the_same_message_on_its_clock(text: str, clock: str, stamp: int | None) -> None:
    assert looks_like_kernel_log(text.encode())
    block = _read(text)
    assert _summarize(block) == [("no_sdma_queue", stamp, clock)]
    offset, length = block.events.select("offset", "length").row(0)
    assert _SDMA in text.encode()[offset : offset + length].decode()


def test_a_record_of_kmsg_names_its_device_and_counts_its_further_lines() -> None:
    block = _read(f"3,907,12000001,-;{_SDMA}\n SUBSYSTEM=pci\n DEVICE=+pci:0000:c5:00.0\n12,908,13,-;{_FAILED}\n")
    told = dict(block.args.select("key", pl.coalesce("text", pl.col("u64").cast(pl.String))).iter_rows())
    assert told["pci"] == "0000:c5:00.0"
    assert told["printk_level"] == "3"
    # Of facility 1: a program wrote it.
    skipped = block.ledger.filter(pl.col("outcome") == "skipped").select("reason", "records").rows()
    assert skipped == [("not_of_the_kernel", 1)]


def test_records_that_the_kernel_overwrote_are_a_loss_between_their_neighbours() -> None:
    block = _read(f"3,907,12000001,-;{_SDMA}\n6,911,12000900,-;other\n6,912,12000950,-;other\n")
    assert block.losses.select("source", "from_ns", "to_ns", "count").rows() == [
        ("kernel_log", 12_000_001_000, 12_000_900_000, 3)
    ]


def test_export_holds_text_with_line_ends_behind_its_size() -> None:
    message = f"{_SDMA}\nand more".encode()
    entry = b"__CURSOR=s=1\nMESSAGE\n" + len(message).to_bytes(8, "little") + message + b"\n_TRANSPORT=kernel\n\n"
    assert _summarize(_read(entry + entry))[0][0] == "no_sdma_queue"


def test_lines_of_an_earlier_boot_are_on_a_clock_of_their_own() -> None:
    entries = [
        {"__CURSOR": "1", "MESSAGE": _SDMA, "_BOOT_ID": boot, "_SOURCE_MONOTONIC_TIMESTAMP": "5000000"}
        for boot in ("a" * 32, "b" * 32)
    ]
    block = _read("".join(json.dumps(entry) + "\n" for entry in entries))
    assert [clock for _, _, clock in _summarize(block)] == ["earlier_boot", "printk"]
    text = f"[    5.000000] host kernel: {_SDMA}\n-- Boot {'b' * 32} --\n[    5.000000] host kernel: {_SDMA}\n"
    assert [clock for _, _, clock in _summarize(_read(text))] == ["earlier_boot", "printk"]


def test_lines_of_two_gpus_keep_their_gpu() -> None:
    block = _read(
        "".join(f"[    1.00000{n}] amdgpu 0000:{pci}:00.0: amdgpu: MODE1 reset\n" for n, pci in enumerate(("a6", "c5")))
    )
    assert block.args.filter(pl.col("key") == "pci")["text"].to_list() == ["0000:a6:00.0", "0000:c5:00.0"]


@pytest.mark.parametrize("data", [
    b"", b"\0\xff\xfe\n", b"[    1.000000] \xff\xfe\n", b'{"dmesg": [{"pri": 3, "time"', b'{"MESSAGE": 5}\n' * 3,
    b"__CURSOR=x\nMESSAGE\n\xff\xff\xff\xff\xff\xff\xff\x7fabc", b'{"MESSAGE":' + b"[" * 100_000,
    f"[99999999999999999.123456] {_SDMA}\n".encode(), _SDMA.encode(),
])  # fmt: skip
def test_damaged_input_is_accounted_for(data: bytes) -> None:
    _read(data)


def test_a_copied_line_without_a_stamp_is_read_where_it_is_known() -> None:
    text = f"[    1.000000] {_USB}\n{_FAILED}\nwhat did amdgpu do there?\n"
    assert _summarize(_read(text)) == [("create_queue_failed", None, "realtime")]
