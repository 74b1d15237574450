"""Synthetic dumps in the layouts of the drivers, for generations of which no recorded dump is at hand."""

from __future__ import annotations

# Words of a CP block by place: (place, value); the rest is zero.
RUNNING = {
    0: 0x017BA000, 2: 1, 3: 0x303, 5: 2, 6: 11, 7: 0x111, 8: 0x49108000, 9: 0x7F, 10: 0x40, 15: 0x40004022,
    17: 0x1401C511, 54: 0x20, 55: 1,
}  # fmt: skip
STALE = {**RUNNING, 2: 0}
# Runs of an SDMA block as (words, distance of the first word from RB_CNTL), by the driver's hqd_sdma_dump.
SDMA_RUNS = {
    "gfx9": ((19, 0), (6, 0x28), (7, 0x2F), (10, 0x40)),
    "gfx942": ((19, 0), (6, 0x28), (7, 0x2F), (12, 0x40)),
    "gfx11": ((7, 0), (11, 8), (1, 0x29), (12, 0x2B), (12, 0x40)),
    "gfx12": ((0x2E, 0),),
}


def hex_lines(start: int, words: list[int], indent: str = "    ") -> str:
    """Return the lines of one run of words from address `start`."""
    lines = []
    for i in range(0, len(words), 8):
        lines.append(f"{indent}{start + 4 * i:08x}: " + " ".join(f"{w:08x}" for w in words[i : i + 8]) + "\n")
    return "".join(lines)


def cp_block(values: dict[int, int], start: int = 0xC914, size: int = 56) -> str:
    """Return the hex lines of a CP or HIQ block."""
    return hex_lines(start, [values.get(i, 0) for i in range(size)])


def sdma_block(generation: str, values: dict[int, int], start: int = 0x4E40) -> str:
    """Return the hex lines of an SDMA block; `values` by distance from RB_CNTL."""
    return "".join(
        hex_lines(start + 4 * first, [values.get(first + i, 0) for i in range(count)])
        for count, first in SDMA_RUNS[generation]
    )


def sdma_values(generation: str, *, mapped: bool = True) -> dict[int, int]:
    """Return the registers of an RLC with a 1 MiB ring at 0x7f57558c2000, VMID 3, doorbell 0x1f0."""
    enable, offset = (0x0F, 0x11) if generation == "gfx12" else (0x12, 0x2B)
    ring = {0: 0x03060025, 1: 0x57558C20, 2: 0x7F, 3: 0x80, 5: 0x100}
    return {**ring, enable: 1 << 28, offset: 0x1F0 << 2} if mapped else ring


def compute_mqd(values: dict[int, int], header: int = 0xC0310800) -> str:
    """Return the hex lines of one 0x800 byte MQD of v9 to v12."""
    words = [0] * 512
    words[0] = header
    for place, value in values.items():
        words[128 + place] = value
    return hex_lines(0, words)


def sdma_mqd(enable: int, offset: int, dummy: int, *, mapped: bool = False) -> str:
    """Return the hex lines of one SDMA MQD whose doorbell words lie at the bytes `enable` and `offset`.

    The driver writes 0xf to the byte `dummy`; who maps the queue enables the doorbell.
    """
    words = [0] * 128
    words[:7] = [0x25, 0x57558C20, 0x7F, 0x80, 0, 0x100, 0]
    words[enable // 4], words[offset // 4], words[dummy // 4] = int(mapped) << 28, 0x1F0 << 2, 0xF
    return hex_lines(0, words)


def runlist() -> list[int]:
    """Return a runlist of one process with a compute queue and queues on SDMA engines 1 (legacy), 1 and 10."""

    def packet(opcode: int, words: list[int]) -> list[int]:
        return [3 << 30 | (len(words) - 1) << 16 | opcode << 8, *words]

    def queue(select: int, doorbell: int, mqd: int) -> list[int]:
        return packet(0xA2, [1 << 4 | select | 1 << 29, doorbell << 2, mqd & 0xFFFFFFFF, mqd >> 32, 0, 0])

    return [
        *packet(0xA1, [0x8001, *[0] * 15]), *queue(0, 0x1002, 0x17BA000), *queue(3 << 26, 0x1F0, 0x11000),
        *queue(1 << 26 | 1 << 2, 0x1F2, 0x12000), *queue(2 << 26 | 2 << 2, 0x1F4, 0x200013000), 0, 0,
    ]  # fmt: skip
