"""The rocpd database of rocprofv3 (ROCm 6.4 and later; its default since 7.0).

Layout: `rocpd_tables.sql` of rocprofiler-sdk, schema version 3. Each process has its own tables `rocpd_NAME_GUID`
(GUID with underscores); a database that was merged has several sets. Times stand in the row (`start`, `end`) or, in
one release of the schema, in `rocpd_timestamp` (`start_id`, `end_id`) with the thread and queue in `rocpd_track`:
what is there decides.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass

from tracecorr.model.errors import InputError
from tracecorr.model.parts import Block
from tracecorr.read.rocprof.profile import RepeatedRecords, make_block, number_records

_MAGIC = b"SQLite format 3\0"
_REQUIRED = ("rocpd_string", "rocpd_event")
# SQLite's own messages and names can hold damaged bytes, too.
_DAMAGES = (sqlite3.DatabaseError, UnicodeDecodeError)
_COLUMNS = (
    "Kind", "Process_Id", "Thread_Id", "Correlation_Id", "Stream_Id", "Queue_Id", "Agent_Id", "Dispatch_Id",
    "Kernel_Name", "Name", "Size", "Start_Timestamp", "End_Timestamp",
    "VGPR_Count", "SGPR_Count", "LDS_Block_Size", "Scratch_Size", "Kernarg_Size", "Counter_Name", "Counter_Value",
)  # fmt: skip
_KINDS = ("region", "sample", "kernel_dispatch", "memory_copy", "memory_allocate")


def looks_like_sqlite(head: bytes) -> bool:
    """Tell whether a file is an SQLite database."""
    return head.startswith(_MAGIC)


def check_rocpd(connection: sqlite3.Connection, head: bytes, size: int, name: str) -> None:
    """Make sure that a database is whole and holds tables of rocpd.

    Args:
        connection: the open database.
        head: first bytes of its file.
        size: of its file, in bytes.
        name: of the file, for the message.

    Raises:
        InputError: it is damaged, or of another program.
    """
    # Size of a page and number of pages (sqlite.org/fileformat2.html, 1.3); a size of 1 means 65536.
    page, pages = (int.from_bytes(head[at : at + width], "big") for at, width in ((16, 2), (28, 4)))
    told = (page if page != 1 else 1 << 16) * pages
    if size < told:
        raise InputError(f"{name} is cut short: {size} of {told} bytes", "copy it again, or run rocprofv3 again")
    try:
        sets = _list_sets(connection)
    except _DAMAGES as error:
        raise InputError(f"{name} is a damaged database: {error}", "copy it again, or run rocprofv3 again") from error
    if not sets:
        raise InputError(
            f"{name} is an SQLite database without the tables of rocpd (rocpd_string, rocpd_event)",
            "name the *_results.db of rocprofv3 --output-format rocpd",
        )


def read_rocpd(
    connection: sqlite3.Connection, size: int, file: int, repeated: RepeatedRecords | None = None
) -> Iterator[Block]:
    """Yield the rows of a rocpd database: kernels, copies, memory, HIP and HSA calls, marks.

    Args:
        connection: the database, open for reading only.
        size: of its file, in bytes.
        file: key of `files`.
        repeated: what the other files of the capture hold, None if there is no other.

    Yields:
        A block; its records are numbered table by table: `offset` is that number.
    """
    rows: list[dict[str, str | None]] = []
    reason = "tables, indexes and names of the database"
    try:
        for tables in _list_sets(connection):
            for kind in _KINDS:
                rows.extend(_read_table(connection, tables, kind))
            if tables.has("pmc_event", "pmc_id") and tables.has("info_pmc", "name"):
                rows.extend(_read_table(connection, tables, "kernel_dispatch", counters=True))
    except _DAMAGES:
        reason = "damaged database: nothing behind the damage is read"
    yield make_block(number_records(rows, _COLUMNS), [(reason, 1, 0)], file, repeated, size=size)


@dataclass(frozen=True)
class _Tables:
    """Name the tables of one process: `name` -> columns."""

    suffix: str
    columns: dict[str, set[str]]

    def has(self, name: str, column: str = "id") -> bool:
        return column in self.columns.get(name, set())

    def of(self, name: str) -> str:
        """Return the table's name, quoted for SQL."""
        return '"' + f"rocpd_{name}{self.suffix}".replace('"', '""') + '"'


def _list_sets(connection: sqlite3.Connection) -> list[_Tables]:
    names = [n for (n,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    suffixes = sorted(n.removeprefix("rocpd_string") for n in names if n.startswith("rocpd_string"))
    sets = []
    for suffix in suffixes:
        columns = {}
        for name in names:
            if name.startswith("rocpd_") and name.endswith(suffix):
                rows = connection.execute("SELECT name FROM pragma_table_info(?)", (name,))
                columns[name.removeprefix("rocpd_").removesuffix(suffix)] = {c for (c,) in rows}
        sets.append(_Tables(suffix, columns))
    return [s for s in sets if all(s.has(name.removeprefix("rocpd_")) for name in _REQUIRED)]


def _read_table(
    connection: sqlite3.Connection, tables: _Tables, kind: str, *, counters: bool = False
) -> Iterator[dict[str, str | None]]:
    if not tables.has(kind):
        return
    for values in connection.execute(_select(tables, kind, counters=counters)):
        yield dict(zip(_COLUMNS, map(_plain, values), strict=True))


def _plain(value: object) -> str | None:
    return str(value) if isinstance(value, str | int) else None


def _select(tables: _Tables, kind: str, *, counters: bool = False) -> str:
    """Return the query of a table's rows with the columns that the CSV tables have.

    Args:
        tables: of one process.
        kind: of which.
        counters: one row for each hardware counter that was read during it: the sum over the instances of its block.
    """
    track = tables.has(kind, "track_id") and tables.has("track")
    owner = "T" if track else "R"
    joins = [f"LEFT JOIN {tables.of('event')} E ON E.id = R.event_id"]
    joins += [f"LEFT JOIN {tables.of('track')} T ON T.id = R.track_id"] if track else []
    times, time_joins = _times(tables, kind)
    joins += time_joins
    if counters:
        joins.append(f"JOIN {tables.of('pmc_event')} P ON P.event_id = R.event_id")
        joins.append(f"JOIN {tables.of('info_pmc')} C ON C.id = P.pmc_id")

    def number(column: str, source: str = owner) -> str:
        table = "track" if source == "T" else kind
        return f"{source}.{column}" if tables.has(table, column) else "NULL"

    def told(table: str, column: str, key: str, fallback: str) -> str:
        """Return the value behind a foreign key, or the key itself."""
        if not tables.has(table, column) or key == "NULL":
            return fallback
        return f"COALESCE((SELECT {column} FROM {tables.of(table)} X WHERE X.id = {key}), {fallback})"

    def of_kernel(column: str) -> str:
        return told("info_kernel_symbol", column, number("kernel_id", "R"), "NULL")

    name = told("string", "string", number("name_id", "R"), "NULL")
    if kind == "sample" and not tables.has("sample", "name_id"):
        name = told("string", "string", number("name_id", "T"), "NULL")
    if kind == "memory_allocate" and tables.has(kind, "level"):
        name = "R.level || '_' || R.type"
    has_text = tables.has("event", "extdata")
    message = "CASE WHEN JSON_VALID(E.extdata) THEN JSON_EXTRACT(E.extdata, '$.message') END" if has_text else "NULL"
    selected = {
        "Kind": told("string", "string", "E.category_id", "'MEMORY'" if kind == "memory_allocate" else "''"),
        "Process_Id": told("info_process", "pid", number("pid"), number("pid")),
        "Thread_Id": told("info_thread", "tid", number("tid"), number("tid")),
        "Correlation_Id": "E.stack_id" if tables.has("event", "stack_id") else "NULL",
        "Stream_Id": number("stream_id"),
        "Queue_Id": number("queue_id"),
        "Agent_Id": told("info_agent", "absolute_index", number("agent_id"), "NULL"),
        "Dispatch_Id": number("dispatch_id", "R"),
        "Kernel_Name": told("info_kernel_symbol", "display_name", number("kernel_id", "R"), "NULL"),
        "Name": f"COALESCE({message}, {name})" if kind in ("region", "sample") else name,
        "Size": number("size", "R"),
        "Start_Timestamp": times[0],
        "End_Timestamp": times[1],
        "VGPR_Count": of_kernel("arch_vgpr_count"),
        "SGPR_Count": of_kernel("sgpr_count"),
        "LDS_Block_Size": f"COALESCE({number('group_segment_size', 'R')}, {of_kernel('group_segment_size')})",
        "Scratch_Size": f"COALESCE({number('private_segment_size', 'R')}, {of_kernel('private_segment_size')})",
        "Kernarg_Size": of_kernel("kernarg_segment_size"),
        "Counter_Name": "C.name" if counters else "NULL",
        "Counter_Value": "CAST(SUM(P.value) AS TEXT)" if counters else "NULL",
    }
    columns = ", ".join(selected[name] for name in _COLUMNS)
    each = "GROUP BY R.id, C.name" if counters else ""
    return f"SELECT {columns} FROM {tables.of(kind)} R {' '.join(joins)} {each} ORDER BY R.id"


def _times(tables: _Tables, kind: str) -> tuple[tuple[str, str], list[str]]:
    """Return the expressions of start and end, and the joins that they need."""
    if kind == "sample":
        if tables.has(kind, "timestamp"):
            return ("R.timestamp", "R.timestamp"), []
        return ("S.value", "S.value"), [f"LEFT JOIN {tables.of('timestamp')} S ON S.id = R.timestamp_id"]
    if tables.has(kind, "start"):
        return ("R.start", 'R."end"'), []
    stamps = tables.of("timestamp")
    return ("S.value", "F.value"), [
        f"LEFT JOIN {stamps} S ON S.id = R.start_id",
        f"LEFT JOIN {stamps} F ON F.id = R.end_id",
    ]
