"""A fleet: captures of many nodes as one partitioned dataset, which reads like a capture.

`tables/TABLE/node=NODE/0.parquet` holds the rows of one node with keys that no other node has; `capture.json` says
where the captures are, whose raw files stay where they are. Times are those of the first node: those of another are
moved by the difference of the wall clocks (as exact as NTP), or, where a capture does not know it, so that both begin
together; `nodes` in `capture.json` says which.
"""

from __future__ import annotations

import re
import shutil
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import polars as pl

from tracecorr.model import schema
from tracecorr.model.errors import CaptureError
from tracecorr.store.capture import Capture, write_info
from tracecorr.store.folder_names import SUFFIX
from tracecorr.store.new_folder import check_place, name_stage, put_in_place
from tracecorr.store.parquet import write_frame

# Key -> the table whose rows have it as their number.
KEYS = {
    "process": "processes", "thread": "threads", "queue": "queues", "kernel": "kernels", "stream": "streams",
    "gpu": "gpus", "file": "files",
}  # fmt: skip
# Further columns that hold such a key, and a number that several rows share.
_NUMBERED_BY = {**KEYS, "creator": "threads", "snapshot": "hqd", "job": "drm_jobs"}
# Table -> the column by which its rows are counted.
_COUNTED = {"events": "event", **{table: key for key, table in KEYS.items()}, "hqd": "snapshot",
            "drm_jobs": "job"}  # fmt: skip
COUNTED_TABLES = tuple(_COUNTED)
_EVENT_KEYS = frozenset({"event", "parent", "chain"})
# Points on the common clock; times on a source's own clock (stamps, pieces of clock maps) and durations stay.
_POINTS = frozenset({
    "ts_ns", "call_ns", "enqueue_ns", "packet_ns", "doorbell_ns", "gpu_start_ns", "gpu_end_ns", "complete_ns",
    "return_ns", "doorbell_lo_ns", "doorbell_hi_ns", "created_ns", "destroyed_ns", "from_ns", "to_ns",
    "read_start_ns", "read_end_ns", "queued_ns", "run_ns", "done_ns",
})  # fmt: skip
_ON_SOURCE_CLOCK = frozenset({"clock_map"})
# From a source's clock to the common one.
_OFFSET = "offset_ns"

# Gives the table of a capture by its name (any of `schema.TABLES`).
Tables = Callable[[str], pl.LazyFrame]


def count_keys(tables: Tables) -> dict[str, int]:
    """Return by table the first key that its rows do not use.

    Args:
        tables: returns a table by its name.
    """
    out = {}
    for table, key in _COUNTED.items():
        last = tables(table).select(pl.col(key).max()).collect().item()
        out[table] = 0 if last is None else int(last) + 1
    return out


def move_table(rows: pl.LazyFrame, table: str, used: Mapping[str, int], shift_ns: int) -> pl.LazyFrame:
    """Return the rows of a table with their keys behind those that are used, and their times moved.

    Args:
        rows: rows of `table`.
        table: one of `schema.TABLES`.
        used: by table the first free key.
        shift_ns: added to points on the common clock.
    """
    columns = rows.collect_schema()
    return rows.select(_move(c, table, used, shift_ns).cast(dtype).alias(c) for c, dtype in columns.items())


def _move(column: str, table: str, used: Mapping[str, int], shift_ns: int) -> pl.Expr:
    if column in _NUMBERED_BY and column in schema.TABLES[table].schema:
        return pl.col(column).cast(pl.Int64) + used[_NUMBERED_BY[column]]
    if column in _EVENT_KEYS or column.endswith("_event"):
        return pl.col(column) + used["events"]
    if column == _OFFSET or (column in _POINTS and table not in _ON_SOURCE_CLOCK):
        return pl.col(column) + shift_ns
    return pl.col(column)


_ODD = re.compile(r"[^\w.-]+")
_MOST_FILES = 1 << 16
_KEPT = ("state", "plan")


@dataclass(frozen=True)
class Member:
    """Describe one node of a fleet.

    Args:
        node: its name in the dataset.
        capture: its capture folder.
        used: by table the first key that is free for it.
        shift_ns: added to its times.
        placed_by: `wall_clock`, `start` or `own_clock`.
    """

    node: str
    capture: str
    used: dict[str, int]
    shift_ns: int
    placed_by: str


def plan_fleet(paths: Sequence[Path]) -> list[Member]:
    """Return the nodes of a fleet in the order of `paths`, which are captures with tables.

    Raises:
        CaptureError: there are more raw files than the dataset can number.
    """
    captures = [Capture.open(path) for path in paths]
    used = dict.fromkeys(COUNTED_TABLES, 0)
    members = []
    for capture, node in zip(captures, _name_nodes(paths), strict=True):
        shift_ns, placed_by = _place(captures[0], capture)
        members.append(Member(node, str(capture.path.resolve()), dict(used), shift_ns, placed_by))
        used = {table: used[table] + count for table, count in count_keys(capture.table).items()}
    if used["files"] > _MOST_FILES:
        raise CaptureError(
            f"these captures have {used['files']} raw files, a dataset can have {_MOST_FILES} at most",
            "make several datasets of fewer captures",
        )
    return members


def _name_nodes(paths: Sequence[Path]) -> list[str]:
    """Return a name for each capture: its folder's, where that is not enough with the folder above it or a number."""
    plain = [_ODD.sub("_", p.resolve().name.removesuffix(SUFFIX)) or "capture" for p in paths]
    above = [f"{_ODD.sub('_', p.resolve().parent.name)}-{n}" for p, n in zip(paths, plain, strict=True)]
    often = Counter(plain)
    names = [n if often[n] == 1 else a for n, a in zip(plain, above, strict=True)]
    seen: Counter[str] = Counter()
    out = []
    for name in names:
        seen[name] += 1
        out.append(name if seen[name] == 1 else f"{name}-{seen[name]}")
    return out


def _place(first: Capture, other: Capture) -> tuple[int, str]:
    if other is first:
        return 0, "own_clock"
    walls = [_wall_minus_monotonic(c) for c in (first, other)]
    if walls[0] is not None and walls[1] is not None:
        return walls[1] - walls[0], "wall_clock"
    starts = [c.table("events").select(pl.col("ts_ns").min()).collect().item() for c in (first, other)]
    return (int(starts[0]) - int(starts[1]) if None not in starts else 0), "start"


def _wall_minus_monotonic(capture: Capture) -> int | None:
    told = capture.info.get("start") or {}
    wall, monotonic = told.get("realtime"), told.get("monotonic")
    return wall - monotonic if isinstance(wall, int) and isinstance(monotonic, int) else None


def write_member(stage: Path, member: Member) -> None:
    """Write the tables of one node into a dataset that is being made.

    Args:
        stage: folder of the dataset.
        member: the node; its capture has tables.
    """
    capture = Capture.open(Path(member.capture))
    for name in schema.TABLES:
        folder = stage / "tables" / name / f"node={member.node}"
        folder.mkdir(parents=True)
        rows = move_table(capture.table(name), name, member.used, member.shift_ns).collect()
        write_frame(folder / "0.parquet", rows)


def check_fleet_place(paths: Sequence[Path], out: Path, *, force: bool) -> None:
    """Make sure that a dataset can be made at `out`, before long work on its captures.

    Args:
        paths: the captures that it is to be made of.
        out: the dataset.
        force: replace `out`.

    Raises:
        CaptureError: `out` is one of the captures, or there can be no capture folder.
    """
    if out.resolve() in {path.resolve() for path in paths}:
        raise CaptureError(f"{out} is one of the captures of the dataset", "choose another name for the dataset: -o")
    check_place(out, force=force)


def begin_fleet(paths: Sequence[Path], out: Path, *, force: bool) -> Path:
    """Return an empty folder beside `out` in which the dataset is made; as `check_fleet_place` allows it.

    Raises:
        CaptureError: there can be no dataset at `out`.
    """
    check_fleet_place(paths, out, force=force)
    stage = name_stage(out.resolve())
    shutil.rmtree(stage, ignore_errors=True)
    stage.mkdir()
    return stage


def finish_fleet(stage: Path, out: Path, members: list[Member]) -> Capture:
    """Put a dataset whose tables are written in its place, and return it."""
    files, warnings, nodes = [], [], []
    for member in members:
        info = Capture.open(Path(member.capture)).info
        # What verdicts ask of a node besides its tables.
        nodes.append({**asdict(member), **{key: info[key] for key in _KEPT if info.get(key)}})
        for entry in info.get("files") or []:
            moved = {"file": entry["file"] + member.used["files"], "capture": member.capture}
            files.append({**entry, **moved})
        warnings += [f"{member.node}: {text}" for text in info.get("warnings") or []]
    by_start = [m.node for m in members if m.placed_by == "start"]
    if by_start:
        warnings.append(
            f"clocks of {', '.join(by_start)}: their captures know no wall clock, so they are shown to begin together "
            f"with {members[0].node}; times of different nodes are not comparable"
        )
    write_info(stage, {"nodes": nodes, "files": files, "warnings": warnings, "ftrace_clock": "auto"})
    put_in_place(stage, out.resolve())
    return Capture.open(out)
