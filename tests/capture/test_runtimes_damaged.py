"""Libraries that the workload maps may be damaged or forged: none ends the recording."""

from __future__ import annotations

import ctypes.util
import os
import random
import struct
import zlib
from pathlib import Path

import pytest

from tracecorr.capture.plan.runtimes import list_mappings, read_library
from tracecorr.capture.probes.libraries import LibraryWatch

# Elf64_Ehdr: offset of the section headers, and size, number of these.
_SECTIONS_AT, _ENTRY_SIZE_AT, _NUMBER_AT = 0x28, 0x3A, 0x3C


@pytest.fixture(scope="module")
def library() -> bytes:
    paths = [Path(m.path) for m in list_mappings(os.getpid()) if "/libm.so" in m.path or "/libm-" in m.path]
    if not paths:
        ctypes.CDLL(ctypes.util.find_library("m"))
        paths = [Path(m.path) for m in list_mappings(os.getpid()) if "/libm." in m.path]
    if not paths or (data := paths[0].read_bytes())[18] != 62:
        pytest.skip("no x86-64 libm to damage")
    return data


def _sections(data: bytes) -> list[int]:
    start, (size, number) = struct.unpack_from("<Q", data, _SECTIONS_AT)[0], struct.unpack_from("<HH", data, 0x3A)
    return [start + index * size for index in range(number)]


def _read(path: Path, data: bytes) -> bool:
    path.write_bytes(data)
    return read_library(path, ["cbrt"]) is not None


def test_the_whole_library_is_read(tmp_path: Path, library: bytes) -> None:
    assert _read(tmp_path / "libm.so", library)


def test_damaged_headers_are_refused_or_read(tmp_path: Path, library: bytes) -> None:
    rolls = random.Random(zlib.crc32(library))
    places = [*range(64), *(at + byte for at in _sections(library) for byte in range(64))]
    outcomes = []
    for _ in range(200):
        damaged = bytearray(library)
        for place in rolls.sample(places, 3):
            damaged[place] = rolls.randrange(256)
        outcomes.append(_read(tmp_path / "libm.so", bytes(damaged)))
    assert set(outcomes) == {True, False}


@pytest.mark.parametrize("length", [4, 16, 63, 64, 1000, 100_000])
def test_a_short_library_is_refused(tmp_path: Path, library: bytes, length: int) -> None:
    assert not _read(tmp_path / "libm.so", library[:length])


def test_sizes_beyond_the_file_take_no_memory(tmp_path: Path, library: bytes) -> None:
    damaged = bytearray(library)
    for at in _sections(library):
        struct.pack_into("<Q", damaged, at + 0x20, 1 << 62)
    assert not _read(tmp_path / "libm.so", bytes(damaged))


def test_a_refused_mapping_is_named_with_its_reason(tmp_path: Path, library: bytes) -> None:
    if os.geteuid() != 0:
        pytest.skip("the mappings of a process are read as root")
    forged = tmp_path / "libamdhip64.so"
    damaged = bytearray(library)
    for at in _sections(library):
        struct.pack_into("<Q", damaged, at + 0x20, 1 << 62)
        struct.pack_into("<Q", damaged, at + 0x18, 1 << 62)
    forged.write_bytes(bytes(damaged))
    ctypes.CDLL(str(forged))  # the loader reads segments and not sections
    watch = LibraryWatch()
    watch.look([os.getpid()])
    found = []
    while watch.has_more:
        mapped = watch.read_next()
        found += [mapped.runtime.path] if mapped else []
    assert str(forged) not in found
    assert "its ELF tables cannot be read" in watch.refused[str(forged)]
