"""Cut a debugfs dump of the KFD (`hqds`, `mqds`, `rls`) into its headings and blocks of hex words."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Words = npt.NDArray[np.uint32]

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
_KINDS = {
    "node": ("node", "node_gpu"), "hiq_pipe": ("hiq_xcc", "hiq_pipe", "hiq_slot"),
    "cp_pipe": ("cp_xcc", "cp_pipe", "cp_slot"), "sdma_engine": ("sdma_engine", "sdma_slot"), "pid": ("pid",),
    "mqd_type": ("mqd_type", "mqd_gpu"), "odd": (), "stopped": (), "note": (), "words": ("words",), "blank": (),
    "other": (),
}  # fmt: skip


@dataclass(frozen=True)
class Section:
    """One heading, one run of hex lines, or one line that is neither.

    Args:
        kind: `node`, `hiq`, `cp`, `sdma`, `process`, `mqd`, `odd`, `stopped`, `note`, `words`, `blank` or `other`.
        fields: what the heading names, as printed; None where it leaves a part out.
        offset, size: its bytes in the dump.
    """

    kind: str
    fields: tuple[bytes | None, ...]
    offset: int
    size: int


# What a dump of either sort is about: nodes (hqds, rls) or processes (mqds).
_TELLS = {**dict.fromkeys(("node", "hiq", "cp", "sdma"), "nodes"), **dict.fromkeys(("process", "mqd"), "processes")}
_NAMES = {"hiq_pipe": "hiq", "cp_pipe": "cp", "sdma_engine": "sdma", "pid": "process", "mqd_type": "mqd"}


def cut_sections(data: bytes) -> Iterator[Section]:
    """Yield the sections of a dump in order; their sizes add up to that of `data`."""
    for match in _SECTION.finditer(data):
        if match.end() == match.start():
            continue
        kind = next(kind for kind in _KINDS if match[kind] is not None)
        fields = tuple(match[name] for name in _KINDS[kind])
        yield Section(_NAMES.get(kind, kind), fields, match.start(), match.end() - match.start())


def split_dumps(sections: Iterable[Section]) -> Iterator[list[Section]]:
    """Yield the sections of each dump of a file that holds several: of `cat hqds mqds`, or read again and again.

    The driver names nodes in rising order, and each process once.
    """
    dump: list[Section] = []
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


def read_words(run: bytes) -> tuple[Words, Words]:
    """Return the addresses (bytes) and values of the words of a run of hex lines."""
    # All lines at once: an hour of dumps has millions of them.
    lines = [line.partition(b":") for line in run.splitlines()]
    starts, values = (_read_hex(b" ".join(line[part] for line in lines)) for part in (0, 2))
    counts = np.array([len(words.split()) for _, _, words in lines])
    place = np.arange(len(values)) - np.repeat(np.cumsum(counts) - counts, counts)
    return (np.repeat(starts, counts) + 4 * place).astype(np.uint32), values


def _read_hex(words: bytes) -> Words:
    return np.frombuffer(bytes.fromhex(words.decode()), ">u4").astype(np.uint32)
