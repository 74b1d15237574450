"""The compiled functions and structures of the C files beside this module, and arrays as these take them: by address.

The library knows nothing of Python, so one build serves every version of it. Pointers are passed as addresses.
"""

from __future__ import annotations

import ctypes
import re
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Ints = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]
Bytes = npt.NDArray[np.uint8]

# `scripts/build_native.py` writes it where the package is installed from.
LIBRARY = Path(__file__).with_name("kernel.so")
_NEXT_STEP = "install tracecorr again: scripts/run in a checkout, else pip install --force-reinstall of its wheel"
_TYPES: dict[str, Any] = {
    "i64": ctypes.c_int64, "u64": ctypes.c_uint64, "i32": ctypes.c_int32, "uint32_t": ctypes.c_uint32,
    "uint16_t": ctypes.c_uint16, "int8_t": ctypes.c_int8, "u8": ctypes.c_uint8, "int": ctypes.c_int,
    "double": ctypes.c_double, "void": None,
}  # fmt: skip
_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
_STRUCT = re.compile(r"^typedef struct \{(.*?)^\} (\w+);", re.DOTALL | re.MULTILINE)
_FUNCTION = re.compile(r"^(void|i64) (\w+)\(([^)]*)\)", re.MULTILINE)
_DECLARED = re.compile(r"(?:const )?(\w+) (.*)", re.DOTALL)


def address(array: Any) -> int:
    """Return where the first element of a contiguous array lies.

    Arrow tells it much sooner than numpy's own `ctypes.data`, and each block asks hundreds of times.
    """
    place: int = pa.py_buffer(array).address
    return place


def as_ints(array: npt.NDArray[Any]) -> Ints:
    """Return an array of any numbers as contiguous 64-bit ones."""
    return np.ascontiguousarray(array, np.int64)


def places_of(column: pa.Array) -> tuple[int, int | None, int]:
    """Return where numbers lie, and the bits that tell which there are, from which bit on."""
    valid, values = column.buffers()
    return values.address + column.type.bit_width // 8 * column.offset, valid.address if valid else None, column.offset


class Scratch:
    """Keep arrays for the next turn: fresh memory costs more than to write to it."""

    def __init__(self) -> None:
        self._held: dict[str, npt.NDArray[Any]] = {}

    def take(self, name: str, size: int, dtype: Any) -> npt.NDArray[Any]:
        """Return an array whose content is left from before; zeros at first."""
        if name not in self._held or len(self._held[name]) < size:
            self._held[name] = np.zeros(size + size // 8, dtype)
        return self._held[name][:size]


def _type_of(declared: str, structs: dict[str, Any]) -> list[tuple[str, Any]]:
    """Return name and type of each variable in a declaration such as `const i64 *at, count`."""
    found = _DECLARED.match(declared.strip())
    assert found, declared
    plain = structs.get(found[1], _TYPES.get(found[1]))
    names = (name.strip() for name in found[2].split(","))
    return [(name.strip("* "), ctypes.c_void_p if "*" in name else plain) for name in names]


def _structs_of(source: str) -> dict[str, Any]:
    structs: dict[str, Any] = {}
    for body, name in _STRUCT.findall(source):
        fields = [field for line in body.split(";") if line.strip() for field in _type_of(line, structs)]
        structs[name] = type(name, (ctypes.Structure,), {"_fields_": fields})
    return structs


def checksum(folder: Path) -> str:
    """Return the checksum of the C files of a folder."""
    return sha256(b"".join(path.read_bytes() for path in sorted(folder.glob("*.[ch]")))).hexdigest()


def load(path: Path = LIBRARY) -> ctypes.CDLL:
    """Return the compiled functions with the types of their arguments.

    Raises:
        ImportError: they were not built, or of other sources than those beside them.
    """
    try:
        library = ctypes.CDLL(str(path))
        told = ctypes.string_at(library.source_checksum).decode()
    except (OSError, AttributeError) as error:
        raise ImportError(f"{path} cannot be loaded ({error}); {_NEXT_STEP}") from error
    if told != checksum(path.parent):
        raise ImportError(f"{path} was built of other sources; {_NEXT_STEP}")
    for result, name, arguments in _FUNCTION.findall(_SOURCE):
        function = getattr(library, name)
        function.argtypes = [kind for one in arguments.split(",") for _, kind in _type_of(one, STRUCTS)]
        function.restype = _TYPES[result]
    return library


_SOURCE = _COMMENT.sub("", "".join(path.read_text() for path in sorted(LIBRARY.parent.glob("*.[ch]"))))
STRUCTS = _structs_of(_SOURCE)
KERNEL = load()


class Struct:
    """Hold a structure of the C files, and the arrays that it points to.

    Args:
        name: of its type.
        values: fields: numbers, arrays, or other structures.
    """

    def __init__(self, name: str, **values: Any) -> None:
        self.held: dict[str, Any] = {}
        self.of = STRUCTS[name]()
        self.set(**values)

    def set(self, **values: Any) -> None:
        """Set some fields; arrays are kept for as long as the structure."""
        for name, value in values.items():
            if isinstance(value, np.ndarray | Struct):
                self.held[name] = value
            setattr(self.of, name, _plain(value))

    def __getitem__(self, name: str) -> Any:
        """Return a field that is a number, or the array that was set."""
        return self.held.get(name, getattr(self.of, name))

    @property
    def address(self) -> int:
        """Return where it is."""
        return ctypes.addressof(self.of)


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return address(value)
    return value.address if isinstance(value, Struct) else value
