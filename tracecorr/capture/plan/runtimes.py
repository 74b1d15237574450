"""The user-space libraries that a process loads, known by what they export and not by their name."""

from __future__ import annotations

import os
import re
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from elftools.common.exceptions import ELFError
from elftools.elf.dynamic import DynamicSegment
from elftools.elf.elffile import ELFFile
from elftools.elf.hash import GNUHashSection
from elftools.elf.segments import NoteSegment

from tracecorr.capture.plan.plan import Runtime
from tracecorr.capture.workload.paths import BoundedFile, find_inside, glob_inside, resolve_inside

# Distributions, ROCm, wheels of PyTorch and TheRock, also without any process that uses them.
_PLACES = (
    "opt/rocm*/lib", "usr/lib/x86_64-linux-gnu", "usr/lib64", "usr/local/lib", "opt/rocm*/lib64",
    "usr/lib/python3*/*-packages/torch/lib", "usr/local/lib/python3*/*-packages/torch/lib",
    "usr/local/lib/python3*/*-packages/_rocm_sdk_core/lib", "opt/*/lib/python3*/site-packages/torch/lib",
    "opt/*/lib/python3*/site-packages/_rocm_sdk_core/lib",
)  # fmt: skip
# Wheels bundle their libraries in PACKAGE/lib, or (auditwheel) in PACKAGE.libs.
_IN_PACKAGES = ("*/lib", "*.libs")
_OF_PYTHON = "lib*/python3*/*-packages/"
_RUN_PATHS = {"DT_RUNPATH": "runpath", "DT_RPATH": "rpath"}
_LOADER_CACHE, _CACHED = "/etc/ld.so.cache", re.compile(rb"(/[^\0]+)\0")
_MOST_CACHE_BYTES, _SHEBANG_BYTES = 16 << 20, 512


def _list_folders(root: Path, environment: Mapping[str, str], program: str) -> Iterator[str]:
    """Yield folders in which libraries of a workload may lie, as it names them; some may not exist.

    Args:
        root: `/`, or `/proc/PID/root` of a container.
        environment: of the workload.
        program: path of its executable or script, as it names it; the libraries beside its Python are found by that.
    """
    yield from _named(environment)
    interpreter = find_interpreter(root, program, environment) if program else ""
    prefixes = [environment.get("VIRTUAL_ENV", ""), environment.get("CONDA_PREFIX", "")]
    prefixes += [str(Path(path).parent.parent) for path in (program, interpreter) if path.startswith("/")]
    prefixes += [f"{environment['HOME']}/.local"] if environment.get("HOME", "").startswith("/") else []
    for prefix in dict.fromkeys(p for p in prefixes if p and p != "/"):
        yield f"{prefix}/lib"
        yield from (folder for pattern in _IN_PACKAGES for folder in glob_inside(root, prefix, _OF_PYTHON + pattern))
    for path in environment.get("PYTHONPATH", "").split(":"):
        if path.startswith("/"):
            yield from (folder for pattern in _IN_PACKAGES for folder in glob_inside(root, path, pattern))
    for path in dict.fromkeys((program, interpreter)):
        if path.startswith("/"):
            yield from _run_paths(root, path)
    yield from (folder for place in _PLACES for folder in glob_inside(root, "/", place))


def _list_cached(root: Path) -> Iterator[str]:
    """Yield the libraries that the dynamic loader of `root` knows (`ldconfig`)."""
    try:
        with BoundedFile(resolve_inside(root, _LOADER_CACHE)) as stream:
            content = stream.read(min(os.fstat(stream.fileno()).st_size, _MOST_CACHE_BYTES))
    except (OSError, ELFError):
        return
    yield from map(os.fsdecode, _CACHED.findall(content))


def find_interpreter(root: Path, program: str, environment: Mapping[str, str]) -> str:
    """Return the path of the interpreter that a script names in its first line, "" where it names none."""
    try:
        with BoundedFile(resolve_inside(root, program)) as stream:
            first = stream.readline(_SHEBANG_BYTES).decode(errors="replace")
    except OSError:
        return ""
    words = first[2:].split() if first.startswith("#!") else []
    if not words:
        return ""
    if Path(words[0]).name != "env":
        return words[0]
    names = [word for word in words[1:] if not word.startswith("-") and "=" not in word]
    found = (f"{folder}/{names[0]}" for folder in environment.get("PATH", os.defpath).split(":") if names and folder)
    return next((path for path in found if find_inside(root, path) is not None), "")


def _named(environment: Mapping[str, str]) -> list[str]:
    """Return the folders that the environment names, as the workload sees them."""
    folders = environment.get("LD_LIBRARY_PATH", "").split(":")
    folders += [str(Path(path).parent) for path in re.split("[: ]", environment.get("LD_PRELOAD", "")) if "/" in path]
    folders += [f"{environment[name]}/lib" for name in ("ROCM_PATH", "ROCM_HOME", "HIP_PATH") if name in environment]
    return [folder for folder in folders if folder.startswith("/")]


def _run_paths(root: Path, program: str) -> list[str]:
    """Return the folders that an executable tells its loader (DT_RPATH, DT_RUNPATH); none where it cannot be read."""
    try:
        with BoundedFile(resolve_inside(root, program)) as stream:
            if stream.peek(4)[:4] != b"\x7fELF":
                return []
            elf = ELFFile(stream)
            dynamic = next((s for s in elf.iter_segments() if isinstance(s, DynamicSegment)), None)
            tags = list(dynamic.iter_tags()) if dynamic else []
            # DT_RUNPATH has its text in `runpath`, DT_RPATH in `rpath`.
            paths = [str(getattr(tag, _RUN_PATHS[tag.entry.d_tag])) for tag in tags if tag.entry.d_tag in _RUN_PATHS]
    # The parser raises anything at a damaged file, and the workload chooses its program.
    except Exception:
        return []
    origin = str(Path(program).parent)
    folders = [f.replace("${ORIGIN}", origin).replace("$ORIGIN", origin) for path in paths for f in path.split(":")]
    return [os.path.normpath(folder) for folder in folders if folder.startswith("/")]


# What a library must export to be of a kind (ROCm 4.5 to 7.2; roctx64 and rocprofiler-sdk-roctx).
_KINDS = {
    "hsa": ("hsa_queue_create", "hsa_signal_store_relaxed"),
    "hip": ("hipLaunchKernel",),
    "roctx": ("roctxRangePushA", "roctxRangePop"),
}
_WANTED = re.compile(r"hsa_|hip[A-Z]|roctx")
# Names that such libraries usually have: a file of another name is looked at only when it is mapped.
_USUAL = re.compile(r"lib(hsa-runtime64|amdhip64|roctx64|rocprofiler-sdk-roctx)\.so")
# Elf64_Sym: name, info, other, section, value, size; the low half of info is the type.
_SYMBOL = struct.Struct("<IBBHQQ")
_FUNCTION = 2
_MACHINE = "EM_X86_64"  # the probes read x86-64 registers
_LONGEST_NAME = 1 << 14
_MAPPING = re.compile(r"^(\S+) r\S?x\S \S+ \S+ (\d+) +(/.*)$", re.MULTILINE)


# Told the reason why an ELF file could not be read.
_Refuse = Callable[[str], object]


def _ignore(_reason: str) -> None:
    """Take no note of a refused file."""


@dataclass(frozen=True)
class MappedFile:
    """One executable mapping of a file."""

    span: str
    inode: int
    path: str


def read_runtime(path: Path, seen_as: str = "", refuse: _Refuse = _ignore) -> Runtime | None:
    """Return what a library exports, or None if it is no runtime (or no library of this kind of machine).

    Args:
        path: how this process reaches the file.
        seen_as: how the workload names it, where that differs.
        refuse: called if an ELF file is damaged or too costly to read; the workload decides what it maps.
    """
    any_of = [name for names in _KINDS.values() for name in names[:1]]
    return _read(path, seen_as or str(path), _WANTED, any_of, refuse=refuse)


def read_library(path: Path, symbols: Iterable[str], seen_as: str = "") -> Runtime | None:
    """Return any library that exports one of `symbols`, with their offsets; its kind is `other` if no runtime's."""
    names = tuple(symbols)
    wanted = re.compile("|".join(f"{re.escape(name)}$" for name in names))
    return _read(path, seen_as or str(path), wanted, names, kind="other") if names else None


def find_runtimes(pid: int | None = None, files: Mapping[str, Path] | None = None) -> tuple[Runtime, ...]:
    """Return the runtimes that process `pid` has mapped, and those among `files`; each file once.

    Args:
        pid: the process.
        files: how the workload names a file -> how this process reaches it.
    """
    found: dict[tuple[int, int], Runtime] = {}
    mapped = {m.inode: m for m in list_mappings(pid)}.values() if pid is not None else ()
    named = (files or {}).items()
    runtimes = [
        *(read_mapped_runtime(pid or 0, m) for m in mapped), *(read_runtime(path, name) for name, path in named),
    ]  # fmt: skip
    for runtime in runtimes:
        if runtime is not None:
            found.setdefault((runtime.device, runtime.inode), runtime)
    return tuple(found.values())


def list_mappings(pid: int) -> list[MappedFile]:
    """Return the executable mappings of files of a process; none when it is gone."""
    try:
        text = Path(f"/proc/{pid}/maps").read_text(errors="replace")
    except OSError:
        return []
    return [MappedFile(span, int(inode), path) for span, inode, path in _MAPPING.findall(text)]


def has_usual_name(path: str) -> bool:
    """Tell whether a file is called like a runtime: a hint what to read first, never a proof."""
    return _USUAL.match(Path(path).name) is not None


def read_mapped_runtime(pid: int, mapping: MappedFile, refuse: _Refuse = _ignore) -> Runtime | None:
    """Return what a mapped library exports, or None if it is no runtime; `refuse` as for `read_runtime`."""
    seen_as = mapping.path.removesuffix(" (deleted)")
    inside = Path(f"/proc/{pid}/root{seen_as}")
    # A deleted or replaced file is still reached through the mapping itself.
    exact = Path(f"/proc/{pid}/map_files/{mapping.span}")
    usable = [p for p in (Path(seen_as), inside, exact) if not re.search(r"\s", str(p)) and _same(p, exact)]
    return read_runtime(usable[0], seen_as, refuse) if usable else None


def installed_libraries(root: Path, environment: Mapping[str, str] | None = None, program: str = "") -> dict[str, Path]:
    """Find libraries with the usual names where a workload may find them; no file twice.

    Args:
        root: `/`, or `/proc/PID/root` of a container.
        environment: of the workload: its search paths are looked into, too.
        program: path of its executable or script, as it names it.

    Returns: how the workload names it, the shortest of several -> the file itself, as this process reaches it.
    """
    folders = dict.fromkeys(_list_folders(root, environment or {}, program))
    cached = (name for name in _list_cached(root) if _USUAL.match(Path(name).name))
    names = {*(name for folder in folders for name in _usual_files(root, folder)), *cached}
    found = ((name, find_inside(root, name)) for name in sorted(names, key=lambda name: (-len(name), name)))
    files = {path: name for name, path in found if path is not None}
    return {name: path for path, name in sorted(files.items())}


def other_users(runtime: Runtime, mine: Iterable[int] = ()) -> list[int]:
    """Return the processes that map the runtime's file, without `mine`: a probe through tracefs hits them too.

    Containers of one image share inodes behind different devices, so the inode's number alone is compared.
    """
    own = {os.getpid(), *mine}
    pids = (int(p.name) for p in Path("/proc").iterdir() if p.name.isdigit())
    return [pid for pid in pids if pid not in own and any(m.inode == runtime.inode for m in list_mappings(pid))]


def _read(
    path: Path,
    seen_as: str,
    wanted: re.Pattern[str],
    any_of: Iterable[str],
    kind: str = "",
    refuse: _Refuse = _ignore,
) -> Runtime | None:
    try:
        with BoundedFile(path) as stream:
            if stream.peek(4)[:4] != b"\x7fELF":
                return None
            elf = ELFFile(stream)
            if elf["e_machine"] != _MACHINE or not _may_export(elf, any_of):
                return None
            symbols, build = _exported(elf, wanted), _build_id(elf)
        status = path.stat()
    except (FileNotFoundError, PermissionError, ProcessLookupError):
        return None
    # The parser raises anything at a forged file (also OSError from a seek), and the workload chooses the file.
    except Exception as error:
        refuse(f"its ELF tables cannot be read: {type(error).__name__} {error}".rstrip())
        return None
    kind = next((k for k, names in _KINDS.items() if all(n in symbols for n in names)), kind)
    if not kind or not symbols:
        return None
    name = Path(os.path.realpath(path)).name
    version = name.partition(".so.")[2] or (f"build {build[:12]}" if build else "")
    return Runtime(kind, seen_as, str(path), status.st_dev, status.st_ino, symbols, version)


def _may_export(elf: ELFFile, names: Iterable[str]) -> bool:
    """Tell by the hash table, without reading 100,000 symbols of a large library; True if it has no table."""
    tables = [s for s in elf.iter_sections() if isinstance(s, GNUHashSection)]
    return not tables or any(tables[0].get_symbol(name) is not None for name in names)


def _exported(elf: ELFFile, wanted: re.Pattern[str]) -> dict[str, int]:
    """Return exported functions -> offset in the file, which is what a probe wants, not the address."""
    loads = [s for s in elf.iter_segments() if s["p_type"] == "PT_LOAD"]
    symbols: dict[str, int] = {}
    for name, address in _functions(elf):
        if not wanted.match(name):
            continue
        home = next((s for s in loads if s["p_vaddr"] <= address < s["p_vaddr"] + s["p_filesz"]), None)
        if home is not None:
            symbols.setdefault(name, address - home["p_vaddr"] + home["p_offset"])
    return symbols


def _functions(elf: ELFFile) -> Iterator[tuple[str, int]]:
    """Yield name and address of each exported function; 10,000 symbols in some 10 ms, a workload will not wait."""
    table = elf.get_section_by_name(".dynsym")
    if table is None:
        dynamic = next((s for s in elf.iter_segments() if isinstance(s, DynamicSegment)), None)
        for symbol in dynamic.iter_symbols() if dynamic else ():
            if symbol["st_info"]["type"] == "STT_FUNC" and symbol["st_value"]:
                yield symbol.name, symbol["st_value"]
        return
    names = elf.get_section(table["sh_link"])
    if table.compressed or names.compressed:
        raise ELFError("its symbols are compressed, which no loader reads")
    strings = names.data()
    for at, info, _, _, address, _ in _SYMBOL.iter_unpack(table.data()):
        if info & 0xF == _FUNCTION and address:
            end = strings.index(b"\0", at, at + _LONGEST_NAME)
            yield strings[at:end].decode(errors="replace"), address


def _build_id(elf: ELFFile) -> str:
    notes = (s for s in elf.iter_segments() if isinstance(s, NoteSegment))
    ids = (n["n_desc"] for s in notes for n in s.iter_notes() if n["n_type"] == "NT_GNU_BUILD_ID")
    return str(next(ids, ""))


def _same(path: Path, exact: Path) -> bool:
    try:
        return path.samefile(exact)
    except OSError:
        return False


def _usual_files(root: Path, folder: str) -> list[str]:
    try:
        names = os.listdir(resolve_inside(root, folder))  # noqa: PTH208
    except OSError:
        return []
    return [f"{folder.rstrip('/')}/{name}" for name in names if _USUAL.match(name)]
