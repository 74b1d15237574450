"""Read the dumps of debugfs `kfd/hqds`, `kfd/mqds` and `kfd/rls` into rows of table `hqd`, and events of a capture.

Registers are told by their place in the block, never by address: the block starts elsewhere on every XCC and
generation, but its order is one from gfx9.0 to gfx12.1 (asic_reg headers of Linux 6.1, 6.12 and 7.2).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
import polars as pl

from tracecorr.model import schema
from tracecorr.model.parts import Block

_Words = npt.NDArray[np.uint32]

# hqd_dump_*: CP_MQD_BASE_ADDR .. CP_HQD_PQ_WPTR_HI. The MQDs of v9 to v12 hold the same registers from
# cp_mqd_base_addr_lo on.
_CP_REGISTERS = 56
_MQD_BASE, _ACTIVE, _VMID, _PIPE_PRIORITY, _QUEUE_PRIORITY, _QUANTUM = 0, 2, 3, 5, 6, 7
_PQ_BASE, _PQ_RPTR, _DOORBELL, _PQ_CONTROL, _PQ_WPTR = 8, 10, 15, 17, 54
_RPTR_ADDRESS, _WPTR_ADDRESS, _DEQUEUE, _ERROR = 11, 13, 24, 51
_PQ_EMPTY = 1 << 15
# hqd_sdma_dump_*: distance from RB_CNTL in words; gfx12 prints one run without a gap.
_RB_BASE, _RB_RPTR, _RB_WPTR, _SDMA_REGISTERS = 1, 3, 5, 7
_SDMA_STRIDE = 0x160 // 4  # from one RLC to the next
_SDMA_DOORBELL = {"gapped": (0x12, 0x2B), "gfx12": (0x0F, 0x11)}
# SDMA MQDs have layouts of their own: (doorbell, doorbell_offset, dummy_reg) in words, v9 and v10, v11, v12. What the
# driver writes into the last of them tells which it is: the doorbell is enabled by who maps the queue.
_SDMA_MQD_DOORBELL = (
    (0x48 // 4, 0x58 // 4, 0x6C // 4),
    (0x44 // 4, 0x4C // 4, 0x64 // 4),
    (0x3C // 4, 0x44 // 4, 0x5C // 4),
)
_SDMA_DUMMY = 0xF  # SDMA_RLC_DUMMY_DEFAULT of kfd_mqd_manager_v9.c to _v12_1.c
# Registers of GC and SDMA lie far above; below are offsets in an MQD, whose lines look alike.
_LEAST_ADDRESS = 0x800
_DOORBELL_ENABLE, _DOORBELL_CAPTURED = 1 << 28, 1 << 30


def _decode_cp(words: _Words, *, of_mqd: bool = False) -> pl.DataFrame:
    """Return one row per CP or HIQ block.

    Args:
        words: array of shape (blocks, 56).
        of_mqd: the words are those of MQDs, where the ACTIVE bit says nothing about being mapped.
    """
    doorbell = words[:, _DOORBELL]
    frame = pl.DataFrame(
        {
            "active": (words[:, _ACTIVE] & 1) == 1, "rptr": words[:, _PQ_RPTR].astype(np.int64),
            "wptr": _pair(words, _PQ_WPTR).astype(np.int64), "quantum": words[:, _QUANTUM],
            "pq_base": _pair(words, _PQ_BASE) << np.uint64(8),
            "ring_bytes": np.int64(4) << ((words[:, _PQ_CONTROL] & 0x3F).astype(np.int64) + 1).clip(0, 58),
            "doorbell": doorbell >> 2 & 0x3FFFFFF, "doorbell_enabled": (doorbell >> 30 & 1) == 1,
            "pipe_priority": words[:, _PIPE_PRIORITY] & 3, "queue_priority": words[:, _QUEUE_PRIORITY] & 15,
            "vmid": words[:, _VMID] & 15, "mqd_base": _pair(words, _MQD_BASE),
            "read_address": _pair(words, _RPTR_ADDRESS), "write_address": _pair(words, _WPTR_ADDRESS),
            "dequeue_request": words[:, _DEQUEUE], "error": words[:, _ERROR],
            "pq_empty": (words[:, _PQ_CONTROL] & _PQ_EMPTY) != 0,
        }
    )  # fmt: skip
    return _with_state(frame, of_mqd)


def _decode_sdma(blocks: list[tuple[_Words, _Words]]) -> pl.DataFrame:
    """Return one row per SDMA RLC block, given as addresses (bytes) and values of its registers."""
    words = np.array([values[:_SDMA_REGISTERS] for _, values in blocks], dtype=np.uint32).reshape(-1, _SDMA_REGISTERS)
    doorbells = [_sdma_doorbell(addresses, values) for addresses, values in blocks]
    return _with_state(_sdma_frame(words, doorbells), of_mqd=False)


def _decode_sdma_mqd(blocks: list[_Words]) -> pl.DataFrame:
    """Return one row per SDMA MQD."""
    words = np.array([b[:_SDMA_REGISTERS] for b in blocks], dtype=np.uint32).reshape(-1, _SDMA_REGISTERS)
    return _with_state(_sdma_frame(words, [_sdma_mqd_doorbell(b) for b in blocks]), of_mqd=True)


def _find_ring(words: _Words) -> int:
    """Return the ring base address in one block of the 56 registers: MQDs of one queue have the same."""
    return int(_pair(words.reshape(1, -1), _PQ_BASE)[0]) << 8


def _cp_is_whole(addresses: _Words) -> bool:
    """Tell whether a CP or HIQ block holds its 56 registers, without a gap."""
    gapless = bool((np.diff(addresses.astype(np.int64)) == 4).all())
    return len(addresses) == _CP_REGISTERS and gapless and int(addresses[0]) >= _LEAST_ADDRESS


def _sdma_is_whole(addresses: _Words) -> bool:
    """Tell whether an RLC block holds ring, pointers and doorbell."""
    places = set(((addresses.astype(np.int64) - int(addresses[0])) // 4).tolist())
    near = int(addresses[0]) >= _LEAST_ADDRESS and max(places) < _SDMA_STRIDE
    return near and places >= {*range(_SDMA_REGISTERS), *_doorbell_places(addresses)}


def _has_answered(values: _Words) -> bool:
    """Tell whether the registers of a block were read.

    Some never hold 0 in all bits, others never 1: all zeros or all ones come from a device that is off, hangs or is
    not for this host to read.
    """
    return bool(values.any()) and not bool((values == 0xFFFFFFFF).all())


def _pair(words: _Words, low: int) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    return words[:, low].astype(np.uint64) | words[:, low + 1].astype(np.uint64) << np.uint64(32)


def _with_state(frame: pl.DataFrame, of_mqd: bool) -> pl.DataFrame:
    """Tell live slots from those that keep the values of a queue that is gone."""
    used = pl.col("pq_base") != 0
    ring = pl.when(used).then("ring_bytes").alias("ring_bytes")
    if of_mqd:
        return frame.with_columns(ring, pl.lit(None, pl.Boolean).alias("active"), pl.lit("described").alias("state"))
    state = pl.when("active").then(pl.lit("active")).when(used).then(pl.lit("stale")).otherwise(pl.lit("unused"))
    return frame.with_columns(ring, state.alias("state"))


def _sdma_frame(words: _Words, doorbells: list[tuple[int | None, bool | None]]) -> pl.DataFrame:
    control = words[:, 0]
    enabled = np.array([bool(e) for _, e in doorbells], dtype=np.bool_)
    return pl.DataFrame(
        {
            # RB_ENABLE bit 0, RB_SIZE bits 5:1 (power of two, words), RB_VMID bits 27:24. An RLC that the firmware
            # unmapped keeps RB_ENABLE and loses its doorbell (idle MI308X, ROCm 7.0).
            "active": ((control & 1) == 1) & enabled, "rptr": _pair(words, _RB_RPTR).astype(np.int64),
            "wptr": _pair(words, _RB_WPTR).astype(np.int64),
            "pq_base": _pair(words, _RB_BASE) << np.uint64(8),
            "ring_bytes": np.int64(4) << (control >> 1 & 0x1F).astype(np.int64), "vmid": control >> 24 & 15,
            "doorbell": pl.Series([d for d, _ in doorbells], dtype=pl.UInt32),
            "doorbell_enabled": pl.Series([e for _, e in doorbells], dtype=pl.Boolean),
        }
    )  # fmt: skip


def _doorbell_places(addresses: _Words) -> tuple[int, int]:
    # The first run of gfx9 and gfx10 has 19 words: a block that was cut after it must not pass for gfx12.
    gapless = len(addresses) > 19 and int(addresses[-1]) - int(addresses[0]) == 4 * (len(addresses) - 1)
    return _SDMA_DOORBELL["gfx12" if gapless else "gapped"]


def _sdma_doorbell(addresses: _Words, values: _Words) -> tuple[int | None, bool | None]:
    by_place: Mapping[int, int] = dict(zip(((addresses - addresses[0]) // 4).tolist(), values.tolist(), strict=True))
    enable_at, offset_at = _doorbell_places(addresses)
    return by_place[offset_at] >> 2 & 0x3FFFFFF, bool(by_place[enable_at] & _DOORBELL_ENABLE)


def _sdma_mqd_doorbell(words: _Words) -> tuple[int | None, bool | None]:
    """Return the doorbell by the one layout that the MQD can have; otherwise it stays unknown."""
    fits = [
        (int(words[offset_at]) >> 2 & 0x3FFFFFF, bool(words[enable_at] & _DOORBELL_ENABLE))
        for enable_at, offset_at, dummy_at in _SDMA_MQD_DOORBELL
        if len(words) > dummy_at
        and int(words[dummy_at]) == _SDMA_DUMMY
        and not int(words[enable_at]) & ~(_DOORBELL_CAPTURED | _DOORBELL_ENABLE)
    ]
    return fits[0] if len(fits) == 1 else (None, None)


# PM4 type 3 (kfd_pm4_opcodes.h) and pm4_mes_map_queues (kfd_pm4_headers_ai.h, Linux 6.1 to 7.2)
_MAP_QUEUES, _MAP_QUEUES_WORDS = 0xA2, 7
_COMPUTE_ENGINE, _LEGACY_SELECT = 0, 0


@dataclass(frozen=True)
class _RunlistQueue:
    """A queue as the runlist names it.

    Args:
        type: `cp` or `sdma`.
        doorbell: offset in dwords.
        mqd_base: address of its MQD.
        engine: SDMA engine; None for compute.
        word: place of the packet in the runlist.
    """

    type: str
    doorbell: int
    mqd_base: int
    engine: int | None
    word: int


def _list_runlist_queues(words: _Words) -> Iterator[_RunlistQueue]:
    """Yield the queues of a runlist; stops at the first word that starts no PM4 type 3 packet."""
    at = 0
    while at < len(words):
        header = int(words[at])
        size = (header >> 16 & 0x3FFF) + 2
        if header >> 30 != 3 or at + size > len(words):
            return
        if header >> 8 & 0xFF == _MAP_QUEUES and size >= _MAP_QUEUES_WORDS:
            yield _map_queues([int(w) for w in words[at : at + _MAP_QUEUES_WORDS]], at)
        at += size


def _map_queues(packet: list[int], at: int) -> _RunlistQueue:
    engine, extended = packet[1] >> 26 & 7, packet[1] >> 2 & 3
    compute = engine == _COMPUTE_ENGINE and extended == _LEGACY_SELECT
    # Legacy numbers start at 2 (sdma0); the extended ranges count 0 to 7 and 8 to 15.
    number = engine - 2 if extended == _LEGACY_SELECT else engine + 8 * (extended - 1)
    mqd_base = packet[3] | packet[4] << 32
    return _RunlistQueue(
        "cp" if compute else "sdma", packet[2] >> 2 & 0x3FFFFFF, mqd_base, None if compute else number, at
    )


# Headings as Linux 5.10 to 7.2 and the DKMS trees print them (dqm_debugfs_hqds, pqm_debugfs_mqds,
# pm_debugfs_runlist); `Inst` came with multi-XCC support in 6.5. seq_hex_dump and seq_reg_dump print
# `ADDRESS: ` and up to 8 words.
_WORD_LINE = rb" +[0-9a-f]{8}:(?: [0-9a-f]{8}){1,8}[ \t]*\r?"
_SECTION = re.compile(
    rb"^(?:"
    rb"Node (?P<node>\d+), gpu_id (?P<node_gpu>[0-9a-f]+):"
    rb"| *(?:Inst (?P<hiq_xcc>\d+), *)?HIQ on MEC \d+ Pipe (?P<hiq_pipe>\d+) Queue (?P<hiq_slot>\d+)"
    rb"| *(?:Inst (?P<cp_xcc>\d+), *)?CP Pipe (?P<cp_pipe>\d+), Queue (?P<cp_slot>\d+)"
    rb"| *SDMA Engine (?P<sdma_engine>\d+), RLC (?P<sdma_slot>\d+)"
    rb"|Process (?P<pid>\d+) PASID (?:0x)?[0-9a-f]+:"
    rb"| *(?P<mqd_type>Compute queue|SDMA queue|DIQ) on device (?P<mqd_gpu>[0-9a-f]+)"
    rb"| *(?P<odd>(?:Bad (?:user|kernel) queue|Queue node with bad|Qeueu node with bad|Weird: Queue node).*)"
    rb"| *(?P<stopped>Device is stopped)"
    rb"| *(?P<note>No active runlist)"
    rb"|(?P<words>" + _WORD_LINE + rb"(?:\n" + _WORD_LINE + rb")*)"
    rb"|(?P<blank>[ \t]*)"
    rb"|(?P<other>[^\n]*)"
    rb")\r?$\n?",
    re.MULTILINE,
)
_SECTION_FIELDS = {
    "node": ("node", "node_gpu"), "hiq_pipe": ("hiq_xcc", "hiq_pipe", "hiq_slot"),
    "cp_pipe": ("cp_xcc", "cp_pipe", "cp_slot"), "sdma_engine": ("sdma_engine", "sdma_slot"), "pid": ("pid",),
    "mqd_type": ("mqd_type", "mqd_gpu"), "odd": (), "stopped": (), "note": (), "words": ("words",), "blank": (),
    "other": (),
}  # fmt: skip


@dataclass(frozen=True)
class _Section:
    """One heading, one run of hex lines, or one line that is neither.

    Args:
        kind: `node`, `hiq`, `cp`, `sdma`, `process`, `mqd`, `odd`, `stopped`, `note`, `words`, `blank` or `other`.
        fields: what the heading names, as printed; None if it leaves a part out.
        offset, size: its bytes in the dump.
    """

    kind: str
    fields: tuple[bytes | None, ...]
    offset: int
    size: int


# What a dump of either sort is about: nodes (hqds, rls) or processes (mqds).
_TELLS = {**dict.fromkeys(("node", "hiq", "cp", "sdma"), "nodes"), **dict.fromkeys(("process", "mqd"), "processes")}
_SECTION_KINDS = {"hiq_pipe": "hiq", "cp_pipe": "cp", "sdma_engine": "sdma", "pid": "process", "mqd_type": "mqd"}


def _cut_sections(data: bytes) -> Iterator[_Section]:
    """Yield the sections of a dump in order; their sizes add up to that of `data`."""
    for match in _SECTION.finditer(data):
        if match.end() == match.start():
            continue
        kind = next(kind for kind in _SECTION_FIELDS if match[kind] is not None)
        fields = tuple(match[name] for name in _SECTION_FIELDS[kind])
        yield _Section(_SECTION_KINDS.get(kind, kind), fields, match.start(), match.end() - match.start())


def _split_dumps(sections: Iterable[_Section]) -> Iterator[list[_Section]]:
    """Yield the sections of each dump of a file that holds several: of `cat hqds mqds`, or read again and again.

    The driver names nodes in rising order, and each process once.
    """
    dump: list[_Section] = []
    told, last_node, pids = "", -1, set[bytes | None]()
    for section in sections:
        tells = _TELLS.get(section.kind, told)
        node = int(section.fields[0] or b"0") if section.kind == "node" else None
        pid = section.fields[0] if section.kind == "process" else None
        again = (node is not None and node <= last_node) or pid in pids
        if dump and (again or (told and tells != told)):
            yield dump
            dump, last_node, pids = [], -1, set()
        told, last_node = tells, last_node if node is None else node
        pids |= {pid} - {None}
        dump.append(section)
    yield dump


def _read_words(run: bytes) -> tuple[_Words, _Words]:
    """Return the addresses (bytes) and values of the words of a run of hex lines."""
    # All lines at once: an hour of dumps has millions of them.
    lines = [line.partition(b":") for line in run.splitlines()]
    starts, values = (_read_hex(b" ".join(line[part] for line in lines)) for part in (0, 2))
    counts = np.array([len(words.split()) for _, _, words in lines])
    place = np.arange(len(values)) - np.repeat(np.cumsum(counts) - counts, counts)
    return (np.repeat(starts, counts) + 4 * place).astype(np.uint32), values


def _read_hex(words: bytes) -> _Words:
    return np.frombuffer(bytes.fromhex(words.decode()), ">u4").astype(np.uint32)


# MQDs of compute queues start with this header (kfd_mqd_manager_v9.c to _v12.c) and are 0x800 bytes long;
# their copy of the CP registers starts at byte 0x200.
_MQD_HEADER, _MQD_WORDS, _MQD_REGISTERS = 0xC0310800, 0x800 // 4, 0x200 // 4
_KINDS = {"hiq": "hqds", "cp": "hqds", "sdma": "hqds", "stopped": "hqds", "process": "mqds", "mqd": "mqds"}
_FIRST_LINE = re.compile(rb"^ +0{8}:", re.MULTILINE)
_MQD_TYPES = {b"Compute queue": "cp", b"SDMA queue": "sdma", b"DIQ": "diq"}


@dataclass(frozen=True)
class Dump:
    """Hold what one dump says.

    Args:
        kind: `hqds`, `mqds` or `rls`; None when nothing in it tells.
        rows: rows of `schema.HQD`, without the columns that a capture adds.
        ledger: rows of `schema.LEDGER`; their bytes add up to the size of the dump.
    """

    kind: str | None
    rows: pl.DataFrame
    ledger: pl.DataFrame


def looks_like_dump(head: bytes) -> bool:
    """Tell whether the first bytes of a file are a dump of the KFD's queues."""
    return any(s.kind not in ("words", "blank", "other") for s in _cut_sections(head))


def read_dumps(data: bytes, file: int = 0) -> list[Dump]:
    """Read the dumps of a file: one, or several behind each other.

    Args:
        data: its bytes.
        file: key of the file.

    Returns: at least one dump; the numbers of their logical queues differ.
    """
    dumps: list[Dump] = []
    logical = 0
    for sections in _split_dumps(_cut_sections(data)):
        dump = _read_dump(data, sections, file)
        rows = dump.rows.with_columns(pl.col("logical") + pl.lit(logical, pl.UInt32))
        dumps.append(replace(dump, rows=rows))
        logical += rows["logical"].n_unique()
    return dumps


def _read_dump(data: bytes, sections: list[_Section], file: int) -> Dump:
    kind = next((_KINDS[s.kind] for s in sections if s.kind in _KINDS), None)
    if kind is None and any(s.kind == "node" for s in sections):
        kind = "rls" if any(s.kind in ("words", "note") for s in sections) else "hqds"
    reader = _Reader(data)
    for section in sections:
        reader.take(section)
    reader.drop_head()
    rows = schema.HQD.conform(
        reader.rows().with_columns(pl.lit(kind).alias("dump"), pl.lit(file, pl.UInt16).alias("file"))
    )
    return Dump(kind, _number_logical_queues(rows), reader.ledger(file))


def _number_logical_queues(rows: pl.DataFrame) -> pl.DataFrame:
    """Return `rows` of one dump with `logical`: the slots of all XCCs that serve one queue share a number.

    A running queue is (gpu_id, vmid, pq_base); an MQD and a runlist entry are told by their own place. Stale
    and unused slots and the kernel's HIQ are no queues of a process.
    """
    keys = ["gpu_id", "type", "vmid", "pq_base", "pid", "mqd"]
    state = pl.col("state").cast(pl.String)
    # What does not tell queues apart in its kind of dump is left out of the key.
    running = state == "active"
    keyed = rows.select(
        "type", "gpu_id",
        *(pl.when(running).then(name).alias(name) for name in ("vmid", "pq_base")),
        *(pl.when(~running).then(name).alias(name) for name in ("pid", "mqd")),
        wanted=state.is_in(["active", "described", "listed"]) & (pl.col("type").cast(pl.String) != "hiq"),
    )  # fmt: skip
    numbers = keyed.filter("wanted").select(keys).unique(maintain_order=True).with_row_index("number")
    found = keyed.join(numbers, on=keys, how="left", nulls_equal=True, maintain_order="left")
    return rows.with_columns(found.select(pl.when("wanted").then("number").alias("logical"))["logical"])


@dataclass
class _Head:
    """The last heading: which block the next hex lines are."""

    kind: str
    columns: dict[str, object]
    section: _Section
    parts: list[tuple[_Words, _Words]] = field(default_factory=list)


class _Reader:
    """Collect the blocks of each kind, then decode each kind at once."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._node: dict[str, object] = {}
        self._slots: set[tuple[object, ...]] = set()
        self._pid: int | None = None
        self._queues: Counter[object] = Counter()
        self._head: _Head | None = None
        self._cp: list[tuple[dict[str, object], _Words]] = []
        self._sdma: list[tuple[dict[str, object], tuple[_Words, _Words]]] = []
        self._cp_mqds: list[tuple[dict[str, object], _Words]] = []
        self._sdma_mqds: list[tuple[dict[str, object], _Words]] = []
        self._listed: list[dict[str, object]] = []
        self._account: dict[tuple[str, str], list[int]] = {}

    def take(self, section: _Section) -> None:
        """Add one section."""
        if section.kind == "words":
            self._take_words(section)
            return
        self.drop_head()
        if section.kind in ("odd", "other"):
            self._count("queue_of_unknown_type" if section.kind == "odd" else "no_line_of_a_dump", section)
            return
        self._count("", section)
        start: Callable[[_Section], None] | None = getattr(self, f"_start_{section.kind}", None)
        if start:
            start(section)

    def drop_head(self) -> None:
        """Count a heading that no hex lines followed: the dump was cut there."""
        if self._head is not None and self._head.kind != "rls":
            self._move("", "heading_without_registers", self._head.section)
        self._head = None

    def _start_node(self, section: _Section) -> None:
        node, gpu = section.fields
        self._node, self._slots = {"kfd_node": int(node or b"0"), "gpu_id": int(gpu or b"0", 16)}, set()
        self._head = _Head("rls", dict(self._node), section)

    def _start_hiq(self, section: _Section) -> None:
        self._start_bank("hiq", section)

    def _start_cp(self, section: _Section) -> None:
        self._start_bank("cp", section)

    def _start_bank(self, kind: str, section: _Section) -> None:
        # Kernels before 6.5 name no instance: they know devices of one XCC only.
        xcc, pipe, slot = (int(f or b"0") for f in section.fields)
        self._leave_node(kind, xcc, pipe, slot)
        self._head = _Head(kind, {**self._node, "type": kind, "xcc": xcc, "pipe": pipe, "slot": slot}, section)

    def _start_sdma(self, section: _Section) -> None:
        engine, slot = (int(f or b"0") for f in section.fields)
        self._leave_node("sdma", engine, slot)
        self._head = _Head("sdma", {**self._node, "type": "sdma", "pipe": engine, "slot": slot}, section)

    def _leave_node(self, *slot: object) -> None:
        """Forget the node where one of its slots comes again: the line that names the next one is missing."""
        if slot in self._slots:
            self._node, self._slots = {}, set()
        self._slots.add(slot)

    def _start_process(self, section: _Section) -> None:
        self._pid = int(section.fields[0] or b"0")

    def _start_mqd(self, section: _Section) -> None:
        name, gpu = section.fields
        number = self._queues[self._pid]
        self._queues[self._pid] += 1
        columns = {"gpu_id": int(gpu or b"0", 16), "type": _MQD_TYPES[name or b""], "pid": self._pid, "mqd": number}
        self._head = _Head("mqd", columns, section)

    def _take_words(self, section: _Section) -> None:
        head, self._head = self._head, None
        if head is not None and head.kind == "mqd" and head.columns["type"] == "sdma":
            section = self._drop_strange_mqds(section)
        addresses, values = _read_words(self._data[section.offset : section.offset + section.size])
        reason = "registers_without_heading"
        if head is not None:
            place = {**head.columns, "offset": head.section.offset}
            reason = self._keep(head.kind, place, addresses, values)
        self._count(reason, section)

    def _drop_strange_mqds(self, section: _Section) -> _Section:
        """Return the lines of the first MQD: behind a compute queue of several XCCs the driver shows an SDMA queue's
        and as many of its neighbours in memory, of any owner (pqm_debugfs_mqds, Linux 6.5 to 7.2)."""
        lines = self._data[section.offset : section.offset + section.size]
        starts = [line.start() for line in _FIRST_LINE.finditer(lines)]
        if len(starts) < 2:
            return section
        own = starts[1]
        self._count("mqds_of_other_queues", replace(section, offset=section.offset + own, size=section.size - own))
        return replace(section, size=own)

    def _keep(self, kind: str, place: dict[str, object], addresses: _Words, values: _Words) -> str:
        """Put a block where its kind is decoded; return why it cannot be, or nothing."""
        if kind in ("cp", "hiq"):
            if not _cp_is_whole(addresses):
                return "not_the_56_registers_of_gfx9_to_gfx12"
            answered = _has_answered(values)
            if answered:
                self._cp.append((place, values))
            return "" if answered else "registers_did_not_answer"
        if kind == "sdma":
            if not _sdma_is_whole(addresses):
                return "sdma_block_cut_short"
            answered = _has_answered(values)
            if answered:
                self._sdma.append((place, (addresses, values)))
            return "" if answered else "registers_did_not_answer"
        if kind == "rls":
            self._listed += [
                {**place, "type": q.type, "mqd": i, "doorbell": q.doorbell, "mqd_base": q.mqd_base, "pipe": q.engine,
                 "state": "listed"}
                for i, q in enumerate(_list_runlist_queues(values))
            ]  # fmt: skip
            return ""
        return self._keep_mqd(place, addresses, values)

    def _keep_mqd(self, place: dict[str, object], addresses: _Words, values: _Words) -> str:
        starts = np.flatnonzero(addresses == 0)
        blocks = np.split(values, starts[1:])
        gapless = bool((np.diff(addresses.astype(np.int64)) == 4).sum() == len(addresses) - len(starts))
        if place["type"] == "sdma":
            if not gapless or len(values) < _SDMA_REGISTERS:
                return "mqd_cut_short"
            self._sdma_mqds.append((place, values))
            return ""
        if not gapless or any(len(b) != _MQD_WORDS for b in blocks):
            return "mqd_cut_short"
        if any(int(b[0]) != _MQD_HEADER for b in blocks):
            return "no_compute_mqd_of_gfx9_to_gfx12"
        first, last = _MQD_REGISTERS, _MQD_REGISTERS + _CP_REGISTERS
        banks = [b[first:last] for b in blocks]
        if len({_find_ring(bank) for bank in banks}) > 1:
            return "mqd_cut_short"  # the line that names the next queue is missing
        self._cp_mqds += [({**place, "xcc": xcc}, bank) for xcc, bank in enumerate(banks)]
        return ""

    def rows(self) -> pl.DataFrame:
        """Return the decoded blocks in the order of the dump."""
        cp = np.array([w for _, w in self._cp], dtype=np.uint32).reshape(-1, _CP_REGISTERS)
        mqd = np.array([w for _, w in self._cp_mqds], dtype=np.uint32).reshape(-1, _CP_REGISTERS)
        frames = [
            _beside([p for p, _ in self._cp], _decode_cp(cp)),
            _beside([p for p, _ in self._sdma], _decode_sdma([w for _, w in self._sdma])),
            _beside([p for p, _ in self._cp_mqds], _decode_cp(mqd, of_mqd=True)),
            _beside([p for p, _ in self._sdma_mqds], _decode_sdma_mqd([w for _, w in self._sdma_mqds])),
            _beside(self._listed, pl.DataFrame()),
        ]
        every = pl.concat([schema.HQD.empty(), *(schema.HQD.conform(f) for f in frames)])
        return every.sort("offset", "mqd", "xcc", maintain_order=True)

    def ledger(self, file: int) -> pl.DataFrame:
        """Return the account of all bytes."""
        rows = [(*key, *counts) for key, counts in self._account.items() if counts[1]]
        names = ["outcome", "reason", "records", "bytes"]
        frame = pl.DataFrame(rows, schema=names, orient="row") if rows else pl.DataFrame(schema=names)
        return schema.LEDGER.conform(frame.with_columns(pl.lit(file).alias("file"), pl.lit("hqd").alias("source")))

    def _count(self, reason: str, section: _Section, sign: int = 1) -> None:
        counts = self._account.setdefault(("skipped" if reason else "used", reason), [0, 0])
        counts[0] += sign
        counts[1] += sign * section.size

    def _move(self, old: str, new: str, section: _Section) -> None:
        self._count(old, section, -1)
        self._count(new, section)


def _beside(places: list[dict[str, object]], decoded: pl.DataFrame) -> pl.DataFrame:
    if not places:
        return schema.HQD.empty()
    own = pl.DataFrame(places, infer_schema_length=None)
    return pl.concat([own, decoded], how="horizontal") if decoded.width else own


_NAMES = {"hqds": "hqd_active", "mqds": "mqd_described", "rls": "runlist_entry"}


def read_snapshots(
    chunks: Iterable[bytes],
    file: int,
    numbers: Iterator[int],
    read_start_ns: int | None = None,
    read_end_ns: int | None = None,
) -> Iterator[Block]:
    """Yield a block for each dump of a file.

    Args:
        chunks: its decompressed bytes.
        file: key of the file.
        numbers: numbers of the dumps in the capture; as many are taken as the file holds.
        read_start_ns, read_end_ns: CLOCK_MONOTONIC before and after it was read; None = not recorded: then its dumps
            have rows, but no events.
    """
    for dump in read_dumps(b"".join(chunks), file):
        rows = dump.rows.with_columns(
            pl.lit(next(numbers), pl.UInt32).alias("snapshot"),
            pl.lit(read_start_ns, pl.Int64).alias("read_start_ns"),
            pl.lit(read_end_ns, pl.Int64).alias("read_end_ns"),
        )
        yield Block(events=_events(rows), hqd=rows, ledger=dump.ledger)


def _events(rows: pl.DataFrame) -> pl.DataFrame:
    """Return one event per logical queue; the registers were read somewhere in its span."""
    queues = rows.drop_nulls(["logical", "read_start_ns"]).unique("logical", keep="first", maintain_order=True)
    # Runlist entries of one node share their heading: one event cannot have the bytes of another.
    queues = queues.unique("offset", keep="first", maintain_order=True)
    return schema.PART_EVENTS.conform(
        queues.select(
            "file", "offset", stamp_ns="read_start_ns", end_stamp_ns="read_end_ns", clock=pl.lit("mono"),
            layer=pl.lit("hqd"), name=pl.col("dump").cast(pl.String).replace_strict(_NAMES, return_dtype=pl.String),
            pid="pid", ring="pq_base", flags=pl.lit(0),
        )
    )  # fmt: skip
