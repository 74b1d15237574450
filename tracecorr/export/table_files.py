"""Tables as files (CSV, Parquet, Arrow IPC), and where an export writes: what it must leave alone there."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

import polars as pl

from tracecorr.analyze.values import Tables, plain_columns
from tracecorr.export.selection import Selection, first_ns
from tracecorr.model import schema
from tracecorr.model.errors import InputError, explain_unwritten

_FORMS = {"csv": "csv", "parquet": "parquet", "arrow": "arrow"}
# Tables that have a row per event, and the column that names it.
_BY_EVENT = {"events": "event", "launches": "event", "args": "event", "links": "from_event"}
_TIMES = {"samples": "ts_ns"}


def write_tables(
    tables: Tables, folder: Path, form: str, selection: Selection, names: Sequence[str] = ()
) -> list[Path]:
    """Write tables into a folder, one file each, and return the files.

    Tables of events hold the selected events only; tables of things (queues, kernels, ...) are always whole. In CSV,
    addresses are `0x...` text; Parquet and Arrow keep them as 64 bit numbers.

    Args:
        form: a key of `_FORMS`.
        names: tables wanted; all when empty.

    Raises:
        InputError: there is no such table.
    """
    wrong = [name for name in names if name not in schema.TABLES]
    if wrong:
        raise InputError(f"there is no table {wrong[0]!r}", f"tables are: {', '.join(schema.TABLES)}")
    written = []
    for name in names or schema.TABLES:
        path = folder / f"{name}.{_FORMS[form]}"
        _sink(_select_rows(tables, name, selection), path, form)
        written.append(path)
    return written


def _select_rows(tables: Tables, name: str, selection: Selection) -> pl.LazyFrame:
    """Return a table with the rows that belong to a selection."""
    rows = tables(name)
    if selection.everything:
        return rows
    if name == "events":
        return selection.filter_events(tables)
    if name in _BY_EVENT:
        wanted = selection.filter_events(tables).select(pl.col("event").alias(_BY_EVENT[name]))
        return rows.join(wanted, on=_BY_EVENT[name], how="semi")
    if name in _TIMES:
        first = first_ns(tables)
        for limit, keep in ((selection.start_ns, pl.Expr.ge), (selection.end_ns, pl.Expr.lt)):
            if limit is not None:
                rows = rows.filter(keep(pl.col(_TIMES[name]), first + limit))
    return rows


def _sink(rows: pl.LazyFrame, path: Path, form: str) -> None:
    if form == "csv":
        columns = rows.collect_schema()
        plain = rows.with_columns(plain_columns(columns))
        lists = [
            pl.col(n).cast(pl.List(pl.String)).list.join(" ") for n, t in columns.items() if isinstance(t, pl.List)
        ]
        plain.with_columns(lists).sink_csv(path)
    elif form == "parquet":
        rows.sink_parquet(path, compression="zstd")
    else:
        rows.sink_ipc(path, compression="zstd")


_OTHER_NAME = "choose another name"


def refuse_taken(path: Path, *, force: bool) -> None:
    """Refuse to write a file or folder where something is that was not given up, or that no export made.

    Args:
        path: what is to be written.
        force: what is there may be replaced: a file, or a folder of exported tables; never a part of a capture.

    Raises:
        InputError: it must stay.
    """
    if not (path.exists() or path.is_symlink()):
        return
    if not force:
        raise InputError(f"{path} exists", f"{_OTHER_NAME}, or --force to replace it")
    target = path.resolve()
    captures = [folder for folder in (target, *target.parents) if (folder / "capture.json").is_file()]
    if captures:
        raise InputError(f"{path} belongs to the capture {captures[0]}: --force does not replace that", _OTHER_NAME)
    if target.is_dir() and (others := _list_foreign(target)):
        raise InputError(f"{path} holds {others[0]}, which no export wrote: --force does not replace that", _OTHER_NAME)


def _list_foreign(folder: Path) -> list[str]:
    """Return the names in a folder that are no files of exported tables."""
    own = {f"{name}.{suffix}" for name in schema.TABLES for suffix in _FORMS.values()}
    return sorted(entry.name for entry in folder.iterdir() if entry.name not in own or not entry.is_file())


@contextmanager
def open_fresh(path: Path) -> Iterator[IO[bytes]]:
    """Open a file that takes the place of `path` when all of it is written; until then the old one stays.

    Raises:
        InputError: the file cannot be written, or `path` is a device, pipe or folder.
        TracecorrError: the disk is full.
    """
    target = path.resolve()  # a link stays a link
    if target.exists() and not target.is_file():
        raise InputError(f"cannot write {path}: it is no regular file", _OTHER_NAME)
    fresh = _fresh(target)
    try:
        fresh.unlink(missing_ok=True)
        with fresh.open("xb") as stream:  # no link is followed
            yield stream
        fresh.replace(target)
    except OSError as error:
        raise explain_unwritten(path, error) from error
    finally:
        # What could not be made cannot be taken away: the error before this one tells why.
        with suppress(OSError):
            fresh.unlink(missing_ok=True)


def _fresh(target: Path) -> Path:
    """Return the name of what takes the place of `target`: two processes may export to one place."""
    return target.with_name(f".{target.name}.{os.getpid()}.new")


@contextmanager
def open_fresh_folder(path: Path) -> Iterator[Path]:
    """Make a folder that takes the place of `path`, with all that is in it, when it is filled.

    Raises:
        InputError: it cannot be written, or `path` is no folder.
        TracecorrError: the disk is full.
    """
    target = path.resolve()
    if target.exists() and not target.is_dir():
        raise InputError(f"cannot write {path}: it is no folder", _OTHER_NAME)
    fresh = _fresh(target)
    try:
        shutil.rmtree(fresh, ignore_errors=True)
        fresh.mkdir(parents=True)
        yield fresh
        if target.exists():
            shutil.rmtree(target)
        fresh.replace(target)
    except OSError as error:
        raise explain_unwritten(path, error) from error
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
