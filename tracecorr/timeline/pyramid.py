"""The folder `views/pyramid` of a capture: an index and plain arrays that are mapped, not read."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import numpy as np

from tracecorr.store.ownership import make_folder, replace_folder
from tracecorr.timeline import levels
from tracecorr.timeline.build import Views
from tracecorr.timeline.lanes import Group, Lane

_VERSION = 7  # raise it when the same tables are drawn in another way
_FOLDER = Path("views") / "pyramid"
_SMALL = 4096  # bytes
_SINGLE = ("start", "end", "event", "name", "style", "begin", "counter")


def write_views(path: Path, views: Views) -> None:
    """Replace the stored views of a capture folder; readers never see a mixture of old and new.

    Raises:
        OSError: the folder cannot be written; nothing of the new ones is left in it.
    """
    make_folder(path / "views")
    fresh = path / "views" / f".pyramid.{os.getpid()}"
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir()
    try:
        _write(path, fresh, views)
        replace_folder(fresh, path / _FOLDER, path)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def _write(path: Path, fresh: Path, views: Views) -> None:
    pyramid = views.pyramid
    for name in _SINGLE:
        np.save(fresh / f"0.{name}.npy", getattr(pyramid.finest, name))
    for number, level in enumerate(pyramid.levels[1:], 1):
        for column in fields(levels.Records):
            if column.name != "track":  # follows from `begin`
                np.save(fresh / f"{number}.{column.name}.npy", getattr(level.records, column.name))
        np.save(fresh / f"{number}.begin.npy", level.begin)
    for name in ("values", "place"):
        np.save(fresh / f"{name}.npy", getattr(views, name))
    np.save(fresh / "first_track.npy", pyramid.first_track)
    (fresh / "index.json").write_text(json.dumps(_index(path, views)))


def read_views(path: Path) -> Views | None:
    """Return the stored views of a capture folder; None when there are none, or not those of its tables."""
    folder = path / _FOLDER
    try:
        index = json.loads((folder / "index.json").read_text())
        if index["version"] != _VERSION or index["tables"] != _stamp(path):
            return None
        return _load(folder, index)
    except (OSError, ValueError, KeyError, TypeError):
        return None


def drop_views(path: Path) -> None:
    """Remove the stored views of a capture folder: its tables are about to change."""
    shutil.rmtree(path / _FOLDER, ignore_errors=True)


def _index(path: Path, views: Views) -> dict[str, Any]:
    return {
        "version": _VERSION,
        "tables": _stamp(path),
        "t0_ns": views.t0_ns,
        "length_ns": views.length_ns,
        "events": views.events,
        "lanes": [asdict(n) for n in views.lanes],
        "groups": [asdict(g) for g in views.groups],
        "names": views.names,
        "minimap": views.minimap,
        "ranges": views.ranges,
        "levels": [{"bin_ns": lv.bin_ns, "tangled": sorted(lv.tangled)} for lv in views.pyramid.levels],
    }


def _stamp(path: Path) -> dict[str, int]:
    """Return the sizes of the tables, by which most tables of another build are known (see `drop_views`)."""
    folder = path / "tables"
    files = sorted([*folder.glob("*.parquet"), *folder.glob("*/node=*/*.parquet")])
    return {str(file.relative_to(folder)): file.stat().st_size for file in files}


def _load(folder: Path, index: dict[str, Any]) -> Views:
    def array(name: str) -> Any:
        file = folder / f"{name}.npy"
        # An empty array cannot be mapped. A plain view, because numpy's memmap class makes every slice slow.
        return np.load(file, mmap_mode="r" if file.stat().st_size > _SMALL else None).view(np.ndarray)

    single = levels.Single(*(array(f"0.{name}") for name in _SINGLE))
    stored = []
    for number, entry in enumerate(index["levels"]):
        begin = single.begin if number == 0 else array(f"{number}.begin")
        records: Any = single
        if number:
            counts = np.diff(begin)
            track = np.repeat(np.arange(len(counts), dtype=np.int32), counts)
            rest = [array(f"{number}.{c.name}") for c in fields(levels.Records) if c.name != "track"]
            records = levels.Records(track, *rest)
        stored.append(levels.Level(entry["bin_ns"], records, begin, frozenset(entry["tangled"])))
    return Views(
        index["t0_ns"], index["length_ns"], index["events"], [Lane(**n) for n in index["lanes"]],
        [Group(**g) for g in index["groups"]], index["names"], array("values"),
        levels.Pyramid(stored, array("first_track")), array("place"), index["minimap"], index["ranges"],
    )  # fmt: skip
