"""Names of kernels of a running process: from ROCr's list of loaded code objects (`_amdgpu_r_debug`), as debuggers do.

A code object is read where its URI says: in the process's memory, or in a file as the process sees it.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

from tracecorr.live.process_memory import Memory
from tracecorr.model.kernel_names import demangle_name

_SYMBOL, _LIBRARY = "_amdgpu_r_debug", "libhsa-runtime64.so"
_MOST_OBJECTS, _MOST_BYTES, _MOST_URI = 10_000, 256 << 20, 4096
# `memory://PID#offset=0x563047c49880&size=32392`, `file:///path#offset=20480&size=7160`
_URI = re.compile(r"(?P<scheme>memory|file)://(?P<path>[^#]*)(?:#offset=(?P<offset>\w+)&size=(?P<size>\w+))?")
_DESCRIPTOR = ".kd"


def name_kernels(memory: Memory, kernel_objects: Iterable[int]) -> dict[int, str]:
    """Return the names of kernels by the addresses of their descriptors; those that cannot be found are left out."""
    wanted = sorted(set(kernel_objects))
    found: dict[int, str] = {}
    loaded = sorted(_list_objects(memory)) if wanted else []
    for base, uri in loaded:
        later = min((other for other, _ in loaded if other > base), default=1 << 64)
        mine = [address for address in wanted if base <= address < later]
        if mine:
            names = _read_descriptors(memory, uri)
            found |= {address: names[address - base] for address in mine if address - base in names}
    return found


def _list_objects(memory: Memory) -> Iterator[tuple[int, str]]:
    """Yield load address and URI of each code object that is loaded."""
    address = _find_list(memory)
    head = memory.words(address + 8, "<Q") if address else None
    at, count = head[0] if head else 0, 0
    while at and count < _MOST_OBJECTS:
        link = memory.words(at, "<QQQQ")
        if link is None:
            return
        base, name, _, at = link
        count += 1
        uri = _read_text(memory, name)
        if uri:
            yield base, uri


def _find_list(memory: Memory) -> int:
    """Return the address of r_debug in the process's ROCr; 0 = not found."""
    for mapping in memory.mappings:
        if _LIBRARY in mapping.path and mapping.offset == 0:
            # The first name is right in every mount namespace, and needs CAP_SYS_ADMIN.
            names = (f"map_files/{mapping.start:x}-{mapping.end:x}", f"root/{mapping.path.lstrip('/')}")
            for path in (Path(f"/proc/{memory.pid}") / name for name in names):
                if value := _find_symbol(path):
                    return mapping.start + value
    return 0


def _find_symbol(library: Path) -> int:
    try:
        with library.open("rb") as file:
            table = ELFFile(file).get_section_by_name(".dynsym")
            symbols = table.get_symbol_by_name(_SYMBOL) if isinstance(table, SymbolTableSection) else None
            return int(symbols[0]["st_value"]) if symbols else 0
    except (OSError, ELFError):
        return 0


def _read_text(memory: Memory, address: int) -> str:
    for size in (_MOST_URI, 512, 64):
        data = memory.read(address, size)
        if b"\0" in data:
            return data.partition(b"\0")[0].decode(errors="replace")
    return ""


def _read_descriptors(memory: Memory, uri: str) -> dict[int, str]:
    """Return the names of the kernels of a code object by the offset of their descriptor."""
    found = _URI.fullmatch(uri)
    if not found:
        return {}
    offset, size = (int(found[name] or "0", 0) for name in ("offset", "size"))
    if size > _MOST_BYTES:
        return {}
    try:
        if found["scheme"] == "memory":
            data = memory.read(offset, size)
        else:
            path = Path(f"/proc/{memory.pid}/root") / found["path"].lstrip("/")
            with path.open("rb") as file:
                file.seek(offset)
                data = file.read(size or _MOST_BYTES)
        tables = [s for s in ELFFile(io.BytesIO(data)).iter_sections() if isinstance(s, SymbolTableSection)]
        return {
            int(symbol["st_value"]): demangle_name(symbol.name.removesuffix(_DESCRIPTOR))
            for table in tables for symbol in table.iter_symbols() if symbol.name.endswith(_DESCRIPTOR)
        }  # fmt: skip
    except (OSError, ELFError, ValueError, OverflowError):
        return {}
