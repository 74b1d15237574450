"""A capture folder on disk: `capture.json`, `raw/`, `tables/`."""

from __future__ import annotations

import json
import os
import shutil
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from tracecorr.model import schema
from tracecorr.model.errors import CaptureError, InputError, explain_denied, quote_path
from tracecorr.store.folder_names import SUFFIX, describe_absent, list_captures
from tracecorr.store.ownership import replace_folder
from tracecorr.store.parquet import FrameWriter
from tracecorr.store.raw import read_at, read_chunks, read_file, write_atomically

if TYPE_CHECKING:
    from tracecorr.read.ftrace.formats import Format
from collections.abc import Iterator

# Tables of older formats are built again from the raw files (`pipeline.rebuild_outdated`).
FORMAT_VERSION = 2
_READ_VERSIONS = (1, 2)
# Bytes of a name on Linux (NAME_MAX in limits.h).
LONGEST_NAME = 255
_PARQUET_END = b"PAR1"
# Tables are brought into their form and written by so many rows, so that no second copy of them is in memory.
_SLICE_ROWS = 1 << 18


class Capture:
    """Read one capture folder; times in its tables are ns of the host's CLOCK_MONOTONIC.

    Example:
        >>> capture = Capture.open(Path("gemm.tracecorr"))  # doctest: +SKIP
        >>> capture.table("queues").collect()  # doctest: +SKIP
    """

    def __init__(self, path: Path, info: dict[str, Any]) -> None:
        self.path = path
        self.info = info
        self._formats: dict[int, Mapping[int, Format]] = {}

    @classmethod
    def open(cls, path: Path) -> Capture:
        """Open a capture folder.

        Raises:
            CaptureError: the folder is missing or may not be read, is no capture of a version that this tool
                reads, or its description is damaged.
        """
        try:
            info = json.loads(read_file(path / "capture.json"))
            version = info["format"]
        except PermissionError as error:
            raise CaptureError(
                f"no right to read {path / 'capture.json'}: {error.strerror}", explain_denied(error)
            ) from error
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            raise describe_absent(path, list_captures(path if path.is_dir() else path.parent)) from error
        if version not in _READ_VERSIONS:
            raise CaptureError(
                f"{path} has capture format {version}, this tracecorr reads {' and '.join(map(str, _READ_VERSIONS))}",
                "open it with the tracecorr that wrote it, or import its raw files again",
            )
        if damage := _describe_damage(info):
            raise CaptureError(
                f"{path / 'capture.json'} is damaged: {damage}", "copy the capture again, or import its raw files again"
            )
        return cls(path, info)

    @property
    def name(self) -> str:
        """Return the folder's name without its suffix."""
        return self.path.resolve().name.removesuffix(SUFFIX)

    def is_outdated(self) -> bool:
        """Tell whether its tables were built in an older format, so that they have to be built again."""
        return int(self.info["format"]) < FORMAT_VERSION and self.has_tables()

    def has_tables(self) -> bool:
        """Tell whether all tables were built."""
        if self.nodes:
            return all(self._node_path(name, node).is_file() for name in schema.TABLES for node in self.nodes)
        return all(self._table_path(name).is_file() for name in schema.TABLES)

    def table(self, name: str) -> pl.LazyFrame:
        """Return a table of `schema.TABLES` as a lazy frame.

        Raises:
            CaptureError: there is no such table, or it was not built, or its file is damaged.
        """
        if name not in schema.TABLES:
            raise CaptureError(f"there is no table {name!r}", f"tables are: {', '.join(schema.TABLES)}")
        if self.nodes:
            return self.table_by_node(name).drop("node")
        path = self._table_path(name)
        if not path.is_file():
            raise CaptureError(
                f"{self.path} has no table {name}", f"build it: tracecorr correlate {quote_path(self.path)}"
            )
        return self._scan(path, name)

    def table_by_node(self, name: str) -> pl.LazyFrame:
        """Return a table of a dataset of many nodes with its column `node`; of a capture, as `table` does.

        Raises:
            CaptureError: there is no such table, or it was not built.
        """
        if not self.nodes:
            return self.table(name)
        if name not in schema.TABLES:
            raise CaptureError(f"there is no table {name!r}", f"tables are: {', '.join(schema.TABLES)}")
        parts = [self._node_path(name, node) for node in self.nodes]
        missing = [p for p in parts if not p.is_file()]
        if missing:
            raise CaptureError(f"{self.path} has no {missing[0].relative_to(self.path)}", "make the dataset again")
        frames = [self._scan(p, name).with_columns(node=pl.lit(n)) for p, n in zip(parts, self.nodes, strict=True)]
        return pl.concat(frames, how="vertical")

    def tables_of_nodes(self) -> dict[str, Callable[[str], pl.LazyFrame]]:
        """Return, by node of a dataset, what gives the node's rows of a table; nothing for a capture."""
        return {node: partial(self._node_table, node) for node in self.nodes}

    def _node_table(self, node: str, name: str) -> pl.LazyFrame:
        return self._scan(self._node_path(name, node), name)

    @property
    def nodes(self) -> list[str]:
        """Return the nodes of a dataset of many nodes, in its order; none for a capture."""
        return [str(node["node"]) for node in self.info.get("nodes") or []]

    def raw(self, file: int, offset: int, length: int) -> bytes:
        """Return the exact raw bytes behind a row, as (file, offset, length) of the row name them.

        Raises:
            CaptureError: the raw file is missing.
            InputError: it cannot be read, or is damaged there.
        """
        path = self._raw_path(file)
        if not path.exists():
            next_step = "restore it: the tables do not contain its bytes"
            raise CaptureError(f"the raw file {self.file_path(file)} is missing", next_step)
        return read_at(path, offset, length)

    def record_text(self, file: int, record: bytes) -> str:
        """Return a binary record of a trace with the names of its event and fields; "" where no format tells them.

        Raises:
            OSError, InputError: the formats cannot be read.
        """
        from tracecorr.read.ftrace.formats import render_record
        from tracecorr.read.ftrace.perf_records import render_sample

        if file not in self._formats:
            self._formats[file] = self._read_formats(file)
        is_perf = next(e["form"] for e in self.info["files"] if int(e["file"]) == file) == "perf"
        return (render_sample if is_perf else render_record)(record, self._formats[file])

    def _read_formats(self, file: int) -> Mapping[int, Format]:
        """Return the formats of the events of a file of binary records; none of other files."""
        from tracecorr.store.trace_folders import read_formats

        entry = next(e for e in self.info["files"] if int(e["file"]) == file)
        folder, home = Path(entry["path"]).parent, entry.get("capture")
        others = (e for e in self.info["files"] if e["form"] == "description" and e.get("capture") == home)
        beside = [self._raw_path(int(e["file"])) for e in others if Path(e["path"]).is_relative_to(folder)]
        return read_formats(self._raw_path(file), beside) if entry["form"] in ("pages", "perf", "trace_dat") else {}

    def file_path(self, file: int) -> str:
        """Return the path of a raw file inside the folder; of a dataset of many nodes, behind its capture's folder."""
        entry = next(e for e in self.info["files"] if int(e["file"]) == file)
        path = printable(entry["path"])
        return f"{entry['capture']}: {path}" if "capture" in entry else path

    def line_number(self, file: int, offset: int) -> int | None:
        """Return the line number (from 1) of a byte of a text file, None for binary pages."""
        path = self._raw_path(file)
        if path.suffix == ".bin":
            return None
        return _count_lines(path, offset) + 1

    def _raw_path(self, file: int) -> Path:
        return self.raw_path({int(entry["file"]): entry for entry in self.info["files"]}[file])

    def raw_path(self, entry: Mapping[str, Any]) -> Path:
        """Return where a raw file is.

        Args:
            entry: one of `files` of capture.json.

        Raises:
            CaptureError: it is not inside the raw folder, or that is a link.
        """
        home = Path(entry.get("capture", self.path)).resolve()
        path = (home / str(entry["path"])).resolve()
        if not path.is_relative_to(home / "raw"):  # `raw` itself is no link either
            raise CaptureError(
                f"file {entry['file']} of {self.path} lies outside its raw folder", "import the files again"
            )
        return path

    def _scan(self, path: Path, name: str) -> pl.LazyFrame:
        """Return a table file as a lazy frame; one that was cut, or that another version built, is named."""
        with path.open("rb") as stream:
            stream.seek(max(0, path.stat().st_size - len(_PARQUET_END)))
            whole = stream.read() == _PARQUET_END
        again = (
            "make the dataset again" if self.nodes else f"build it again: tracecorr correlate {quote_path(self.path)}"
        )
        if not whole:
            raise CaptureError(f"{path} is damaged: the end of the file is missing", again)
        table = pl.scan_parquet(path)
        differing = set(table.collect_schema().items()) ^ set(schema.TABLES[name].schema.items())
        if differing:
            columns = ", ".join(sorted({column for column, _ in differing}))
            what = f"{path} was built by another version of tracecorr: its columns differ ({columns})"
            raise CaptureError(what, again)
        return table

    def _table_path(self, name: str) -> Path:
        return self.path / "tables" / f"{name}.parquet"

    def _node_path(self, name: str, node: str) -> Path:
        return self.path / "tables" / name / f"node={node}" / "0.parquet"


def _count_lines(path: Path, offset: int) -> int:
    """Return the newlines before a byte of a text file; what was counted for one byte serves all others."""
    starts, lines = _index_lines(path, path.stat().st_mtime_ns)
    number = bisect_right(starts, offset) - 1
    return lines[number] + read_at(path, starts[number], offset - starts[number]).count(b"\n")


@lru_cache(maxsize=16)
def _index_lines(path: Path, _changed_ns: int) -> tuple[list[int], list[int]]:
    """Return where the chunks of a file begin, and the newlines before each."""
    starts, lines = [0], [0]
    for chunk in read_chunks(path):
        starts.append(starts[-1] + len(chunk))
        lines.append(lines[-1] + chunk.count(b"\n"))
    return starts, lines


def is_replaceable(path: Path) -> bool:
    """Tell whether `path` is a capture, or what is left of one that ended before it recorded anything."""
    return path.is_dir() and ((path / "capture.json").is_file() or _is_half_made(path))


def _is_half_made(path: Path) -> bool:
    """Tell whether a folder holds nothing but what a recording makes before its capture.json."""
    raw = path / "raw"
    if not path.name.endswith(SUFFIX) or not raw.is_dir() or raw.is_symlink():
        return False
    made = {entry.name for entry in path.iterdir()} <= {"raw", ".capture.json.new"}
    made = made and {entry.name for entry in raw.iterdir()} <= {"amd_log", "ftrace", "topology"}
    return made and not any(entry for name in ("amd_log", "ftrace") for entry in (raw / name).glob("*"))


def refuse_odd_name(name: str, *, longer: int = 0) -> None:
    """Refuse bytes that no text has in a path: tables cannot be written there, and cannot name it; and too long names.

    Args:
        name: the path.
        longer: by how many bytes a name may be longer that stands in its place for a while.

    Raises:
        InputError: `name` has some, or its last part is longer than file systems allow.
    """
    try:
        size = len(Path(name).name.encode())
        name.encode()
    except UnicodeEncodeError as error:
        raise InputError(f"{name!r} is no path in UTF-8", "rename it, or choose another with -o") from error
    if size + longer > LONGEST_NAME:
        most = LONGEST_NAME - longer
        raise InputError(
            f"the name {Path(name).name} has {size} bytes, of at most {most}", "choose a shorter one with -o"
        )


def printable(path: str) -> str:
    r"""Return a path as text that tables and terminals take: the workload may have named a log as it liked.

    >>> printable("raw/amd_log/hip\udcff_1")
    'raw/amd_log/hip\\xff_1'
    """
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def write_info(path: Path, info: dict[str, Any]) -> None:
    """Write `capture.json` of a capture folder."""
    write_atomically(path / "capture.json", json.dumps({"format": FORMAT_VERSION, **info}, indent=1).encode())


def make_parts_folder(path: Path) -> Path:
    """Return an empty folder for the parts of a capture; `write_tables` puts it in its place."""
    fresh = path / f".tables.{os.getpid()}"
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir()  # no link: root works in folders of users, too
    (fresh / "parts").mkdir()
    return fresh / "parts"


def drop_abandoned(path: Path) -> None:
    """Remove the parts that killed processes left.

    Args:
        path: the capture folder, locked: no other process may be at work in it.
    """
    for folder in path.glob(".tables.*"):
        shutil.rmtree(folder, ignore_errors=True)


def drop_unfinished(path: Path) -> None:
    """Remove parts that no `write_tables` put in their place, because the work on them failed."""
    shutil.rmtree(path / f".tables.{os.getpid()}", ignore_errors=True)


def write_tables(path: Path, tables: dict[str, pl.DataFrame]) -> None:
    """Replace the tables of a capture folder by `tables`; readers never see a mixture of old and new.

    Args:
        path: the capture folder; parts written since `make_parts_folder` go with the tables.
        tables: frames by name; each is conformed to its schema.
    """
    fresh = path / f".tables.{os.getpid()}"
    fresh.mkdir(exist_ok=True)
    for name, table in schema.TABLES.items():
        whole = tables.get(name, table.empty())
        with FrameWriter(fresh / f"{name}.parquet") as out:
            out.write(table.empty())
            for rows in whole.iter_slices(_SLICE_ROWS):
                out.write(table.conform(rows))
    replace_folder(fresh, path / "tables", path)


def hold_tables(tables: dict[str, pl.DataFrame], wanted: Mapping[str, Sequence[str]]) -> Callable[[str], pl.LazyFrame]:
    """Return what gives the tables that `write_tables` writes by their names, as `Capture.table` does, from memory.

    Args:
        tables: frames by name; they are taken out, so that what is not wanted can be freed.
        wanted: the columns that are kept of a large table, by its name.
    """
    held = {}
    for name, table in schema.TABLES.items():
        # A lazy frame would come back in many pieces.
        held[name] = table.conform(tables.pop(name, table.empty())).select(wanted.get(name, table.schema.names()))
    return lambda name: held[name].lazy()


# Keys of tables have 64 bits at most.
_MOST = 1 << 63
_COUNT, _SIGNED, _NUMBER = "whole number >= 0", "whole number", "number"
_TEXTS = [str]
_INSTANCE = {
    "name": str, "clock": str, "follows_workload": bool, "events": [{"system": str, "name": str}],
    "functions": _TEXTS,
}  # fmt: skip
_PLAN = {
    "instances?": [_INSTANCE], "probes?": [{"name": str, "instance": str}], "absent?": [{"what": str, "why": str}],
    "late?": [{"library": str, "pid": _COUNT, "probes": _TEXTS}],
}  # fmt: skip
_CLOCKS = {"monotonic?": _SIGNED, "realtime?": _SIGNED}
# The kinds of all that is read: of a key with `?` it may be missing, or null.
_DESCRIPTION: Mapping[str, Any] = {
    "files?": [{"file": _COUNT, "path": str, "source": str, "form": str, "size": _COUNT}],
    "processes?": [
        {"pid": _COUNT, "namespace_pid?": _COUNT, "seen_ns?": _COUNT, "comm?": str, "exe?": str, "how?": str}
    ],
    "threads?": [{"tid": _COUNT, "pid?": _COUNT, "comm?": str, "robust_list?": _COUNT}],
    "losses?": [
        {"source": str, "reason": str, "records?": _COUNT, "from_ns?": _COUNT, "to_ns?": _COUNT, "path?": str}
    ],
    "nodes?": [
        {"node": str, "used": {}, "capture": str, "shift_ns": _SIGNED, "placed_by": str, "plan?": _PLAN, "state?": str}
    ],
    "gpus?": [{}], "plan?": _PLAN, "wanted?": {"ranges?": _TEXTS}, "recorder?": {}, "host?": {}, "environment?": {},
    "start?": _CLOCKS, "stop?": _CLOCKS, "devices?": {},
    "timens_offsets?": {"monotonic?": _SIGNED, "boottime?": _SIGNED},
    "event_cost?": {"added_ns": _SIGNED, "alone_ns": _SIGNED, "recorded_ns": _SIGNED},
    "overhead_ratios?": {"*": _NUMBER}, "events?": _COUNT, "lost_events?": _COUNT, "unwritten_events?": _COUNT,
    "sched_policy?": _COUNT, "ftrace_clock?": str, "state?": str, "failure?": str, "end_reason?": str,
    "start_reason?": str, "about?": str, "user?": str, "cwd?": str, "where?": str, "warnings?": _TEXTS,
    "import_warnings?": _TEXTS, "problems?": _TEXTS, "command?": _TEXTS,
}  # fmt: skip


def _describe_damage(info: Mapping[str, Any]) -> str:
    """Return what in the contents of `capture.json` is not what every capture has there; empty if all is.

    >>> _describe_damage({"files": [{"file": 0, "path": "raw/a"}]})
    'files[0].source is missing'
    >>> _describe_damage({"files": [{"file": 0, "path": "a", "source": "ftrace", "form": "text", "size": 0}] * 2})
    'two of its files have one number'
    """
    if not isinstance(info, dict) or (info.get("files") is None and info.get("state") != "recording"):
        return "it names no files"
    damage = next(_compare(info, _DESCRIPTION, ""), "")
    numbers = [] if damage else [entry["file"] for entry in info.get("files") or []]
    return damage or ("two of its files have one number" if len(set(numbers)) < len(numbers) else "")


def _compare(value: Any, kind: Any, where: str) -> Iterator[str]:
    """Yield what in a value is of another kind; who asks for more than the first may meet an error by it."""
    if isinstance(kind, list):
        if not isinstance(value, list):
            yield f"{where} is no list"
        for number, entry in enumerate(value):
            yield from _compare(entry, kind[0], f"{where}[{number}]")
    elif isinstance(kind, Mapping):
        if not isinstance(value, dict):
            yield f"{where} is no object"
        yield from _compare_keys(value, kind, where)
    elif not _is(value, kind):
        yield f"{where} is no {'text' if kind is str else 'truth value' if kind is bool else kind}"


def _compare_keys(value: dict[str, Any], kind: Mapping[str, Any], where: str) -> Iterator[str]:
    for name, wanted in kind.items():
        for key in value if name == "*" else [name.removesuffix("?")]:
            place = f"{where}.{key}" if where else key
            if value.get(key) is not None:
                yield from _compare(value[key], wanted, place)
            elif not name.endswith("?"):
                yield f"{place} is missing"


def _is(value: object, kind: object) -> bool:
    if isinstance(kind, type):
        return isinstance(value, kind)
    if kind == _NUMBER:
        return type(value) in (int, float)
    return type(value) is int and (0 if kind == _COUNT else -_MOST) <= value < _MOST
