"""The Python API: a capture as lazy frames, its answers as frames, its charts as Plotly figures."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from functools import cached_property, partial
from html import escape
from operator import index
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import polars as pl

from tracecorr.model.errors import InputError
from tracecorr.store import Capture as StoredCapture
from tracecorr.store import named_folder
from tracecorr.store.recording import describe_missing_tables

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from tracecorr.analyze.compare import Comparison
    from tracecorr.analyze.report.answers import Report
    from tracecorr.analyze.values import Tables
    from tracecorr.analyze.verdicts import Thresholds, Verdict

_EVENTS = "events are rows of `cap.events`, column `event`"


def open_capture(path: str | Path) -> Capture:
    """Open a capture folder whose tables were built.

    Args:
        path: the folder, with or without its suffix: `gemm` is `gemm.tracecorr`, too.

    Raises:
        CaptureError: there is no such capture, or it has no tables yet.
        InputError: `path` is not a path.

    >>> cap = open_capture(sample)
    >>> cap.name
    't1-streams'
    >>> cap.launches.filter(pl.col("kind") == "dispatch").collect().height
    33
    """
    if not isinstance(path, str | Path):
        raise InputError(f"{path!r} is not a path", "give the folder: open_capture('gemm.tracecorr')")
    stored = StoredCapture.open(named_folder(Path(path)))
    if not stored.has_tables():
        raise describe_missing_tables(stored, Path(path))
    if stored.is_outdated():
        from tracecorr.pipeline import rebuild_outdated

        stored = rebuild_outdated(stored, warnings.warn)
    return Capture(stored)


def _number_of(event: int) -> int:
    """Return the number of an event, of whatever integer type it is.

    Raises:
        InputError: it is no number that an event can have.
    """
    try:
        number = index(event)
    except TypeError:
        raise InputError(f"an event must be given by its number, not by {event!r}", _EVENTS) from None
    if not 0 <= number < 1 << 63:
        raise InputError(f"there is no event {number}", _EVENTS)
    return number


def _checked(thresholds: Thresholds | None) -> Thresholds | None:
    from tracecorr.analyze.verdicts import Thresholds

    if thresholds is None or isinstance(thresholds, Thresholds):
        return thresholds
    raise InputError(
        f"{thresholds!r} is not of type Thresholds",
        "write Thresholds(clock_error_ns=50_000), from tracecorr.analyze.verdicts",
    )


def open_sample() -> Capture:
    """Open a copy of the bundled sample, building its tables at the first time.

    Raises:
        CaptureError: this installation has no sample.
        MachineError: the cache folder cannot be written.
    """
    from tracecorr.bundled import cache_folder, copy_sample, find_sample
    from tracecorr.pipeline import correlate

    path = copy_sample(find_sample(), cache_folder())
    if not StoredCapture.open(path).has_tables():
        correlate(path)
    return open_capture(path)


class Capture:
    """Read one capture; make it with `open_capture`.

    Tables are lazy polars frames (`cap.events`, `cap.launches`, ...): filter and group them, then `.collect()`.
    Times are Int64 ns of the host's CLOCK_MONOTONIC; addresses are UInt64. All columns: `cap.columns("events")`.
    """

    def __init__(self, stored: StoredCapture) -> None:
        self._stored = stored

    def __repr__(self) -> str:
        return "\n".join((f"<tracecorr capture {self.name}>", *(f"  {line}" for line in self._facts)))

    def _repr_html_(self) -> str:
        """Return what a notebook shows: the name, what the capture holds, and what to ask it."""
        rows = "".join(f"<tr><td>{escape(line)}</td></tr>" for line in self._facts)
        return f"<table><tr><th>{escape(self.name)}</th></tr>{rows}</table>"

    @cached_property
    def _facts(self) -> tuple[str, ...]:
        from tracecorr.analyze.evidence import Evidence
        from tracecorr.analyze.report.brief import describe_contents

        evidence = Evidence(self._stored.table, info=self.info, nodes=self._stored.tables_of_nodes())
        asked = "ask: .report() .verdicts() .hangs() .failures() .breakdown() .query(sql) .chain(event) .tables"
        return (*describe_contents(evidence), asked)

    @property
    def name(self) -> str:
        """Return the name of the capture."""
        return self._stored.name

    @property
    def path(self) -> Path:
        """Return the capture folder."""
        return self._stored.path

    @property
    def info(self) -> dict[str, Any]:
        """Return the contents of capture.json."""
        return self._stored.info

    @property
    def tables(self) -> pl.DataFrame:
        """Return what tables there are: table, rows, meaning.

        >>> open_capture(sample).tables.filter(pl.col("table") == "launches")["rows"].item() > 0
        True
        """
        from tracecorr.model import schema

        counts = [self.table(name).select(pl.len()).collect().item() for name in schema.TABLES]
        # Each is a property, whose docstring says what it is.
        meanings = [str(getattr(Capture, name).__doc__).removeprefix("Return ").rstrip(".") for name in schema.TABLES]
        return pl.DataFrame({"table": list(schema.TABLES), "rows": counts, "meaning": meanings})

    def table(self, name: str) -> pl.LazyFrame:
        """Return a table by its name; all tables of a dataset of many nodes have a further column `node`.

        Raises:
            CaptureError: there is no such table.
        """
        return self._stored.table_by_node(name)

    def columns(self, table: str) -> pl.DataFrame:
        """Return the columns of a table: column, type, unit, meaning.

        >>> open_capture(sample).columns("queues").filter(pl.col("column") == "size")["unit"].item()
        'packets'

        Raises:
            InputError: there is no such table.
        """
        from tracecorr.model import schema

        if table not in schema.TABLES:
            raise InputError(f"there is no table {table!r}", f"tables are: {', '.join(schema.TABLES)}")
        columns = schema.TABLES[table].columns
        return pl.DataFrame({
            "column": [c.name for c in columns], "type": [str(c.dtype) for c in columns],
            "unit": [c.unit for c in columns], "meaning": [c.meaning for c in columns],
        })  # fmt: skip

    @property
    def events(self) -> pl.LazyFrame:
        """Return everything that happened, in time order."""
        return self.table("events")

    @property
    def launches(self) -> pl.LazyFrame:
        """Return packets and copies with the time of each stage."""
        return self.table("launches")

    @property
    def queues(self) -> pl.LazyFrame:
        """Return the queues known from any source."""
        return self.table("queues")

    @property
    def streams(self) -> pl.LazyFrame:
        """Return the HIP streams."""
        return self.table("streams")

    @property
    def stream_queues(self) -> pl.LazyFrame:
        """Return which stream submitted to which queue, and when."""
        return self.table("stream_queues")

    @property
    def kernels(self) -> pl.LazyFrame:
        """Return the kernel names."""
        return self.table("kernels")

    @property
    def processes(self) -> pl.LazyFrame:
        """Return the processes."""
        return self.table("processes")

    @property
    def threads(self) -> pl.LazyFrame:
        """Return the threads."""
        return self.table("threads")

    @property
    def gpus(self) -> pl.LazyFrame:
        """Return the GPUs."""
        return self.table("gpus")

    @property
    def links(self) -> pl.LazyFrame:
        """Return the edges from cause to effect."""
        return self.table("links")

    @property
    def args(self) -> pl.LazyFrame:
        """Return the fields of events that have no column of their own."""
        return self.table("args")

    @property
    def drm_jobs(self) -> pl.LazyFrame:
        """Return the jobs of the kernel's gpu_scheduler."""
        return self.table("drm_jobs")

    @property
    def hqd(self) -> pl.LazyFrame:
        """Return the hardware queue slots of debugfs dumps."""
        return self.table("hqd")

    @property
    def samples(self) -> pl.LazyFrame:
        """Return polled values."""
        return self.table("samples")

    @property
    def clock_map(self) -> pl.LazyFrame:
        """Return how each source's clock maps to CLOCK_MONOTONIC, with bounds."""
        return self.table("clock_map")

    @property
    def files(self) -> pl.LazyFrame:
        """Return the raw files."""
        return self.table("files")

    @property
    def ledger(self) -> pl.LazyFrame:
        """Return what became of every byte of every file."""
        return self.table("ledger")

    @property
    def losses(self) -> pl.LazyFrame:
        """Return the spans in which a source lost records."""
        return self.table("losses")

    def chain(self, event: int) -> pl.DataFrame:
        """Return the chain of an event in time order: its call, ioctls, packet, doorbell, and what they are linked by.

        >>> cap = open_capture(sample)
        >>> dispatch = cap.launches.filter(pl.col("kind") == "dispatch").select("event").first().collect().item()
        >>> cap.chain(dispatch)["layer"].unique().sort().to_list()
        ['aql', 'command', 'doorbell', 'hip']

        Raises:
            InputError: there is no such event.
        """
        from tracecorr.analyze.chain import list_chain

        found = list_chain(self._stored.table, _number_of(event))
        if found.is_empty():
            raise InputError(f"there is no event {event}", _EVENTS)
        return found

    def raw(self, event: int) -> bytes:
        """Return the raw bytes behind an event: its (enter) record, and its exit record on the next line.

        >>> cap = open_capture(sample)
        >>> call = cap.events.filter(pl.col("layer") == "hip").first().collect()["event"].item()
        >>> b"hipGetDeviceProperties" in cap.raw(call)
        True

        Raises:
            InputError: there is no such event.
            CaptureError: its raw file is missing.
        """
        return b"\n".join(data for _, data in self._records(event))

    def raw_text(self, event: int) -> str:
        """Return what `raw` does as text, without colours; of a binary record its event and fields, then its bytes."""
        from tracecorr.model.printable import show_record

        shown = (show_record(data, partial(self._stored.record_text, file)) for file, data in self._records(event))
        return "\n".join(shown)

    def _records(self, event: int) -> list[tuple[int, bytes]]:
        """Return the records behind an event, each with the key of its file."""
        where = ("file", "offset", "length", "end_offset", "end_length")
        rows = self.events.filter(pl.col("event") == _number_of(event)).select(where).collect()
        if rows.is_empty():
            raise InputError(f"there is no event {event}", _EVENTS)
        file, offset, length, end_offset, end_length = rows.row(0)
        if file is None:
            return []
        places = [(offset, length), *([] if end_offset is None else [(end_offset, end_length)])]
        return [(file, self._stored.raw(file, at, size)) for at, size in places]

    def query(self, sql: str) -> pl.DataFrame:
        """Return the rows of an SQL query; addresses as `0x...` text. Tables of a dataset have a column `node`.

        >>> open_capture(sample).query("SELECT COUNT(*) AS n FROM queues WHERE dispatches > 0")["n"].item()
        3

        Raises:
            InputError: the query is wrong.
        """
        from tracecorr.analyze.sql import run_sql

        if not isinstance(sql, str):
            raise InputError(
                f"a query must be text, not {type(sql).__name__}", "write cap.query('SELECT * FROM queues')"
            )
        return run_sql(self._stored.table_by_node, sql)

    def report(self, thresholds: Thresholds | None = None) -> Report:
        """Return all answers, verdicts and tables of `tracecorr report`.

        Raises:
            InputError: `thresholds` is not of type Thresholds.
        """
        from tracecorr.analyze.report import summarize_capture

        return summarize_capture(
            self.name, self._stored.table, self.info, _checked(thresholds), nodes=self._stored.tables_of_nodes()
        )

    def verdicts(self, thresholds: Thresholds | None = None) -> list[Verdict]:
        """Return the verdict on every claim.

        >>> [v.outcome.value for v in open_capture(sample).verdicts() if v.name == "packet_sequence_complete"]
        ['PASS']

        Raises:
            InputError: `thresholds` is not of type Thresholds.
        """
        from tracecorr.analyze.verdicts import judge_capture

        return judge_capture(self._stored.table, _checked(thresholds), self.info, nodes=self._stored.tables_of_nodes())

    def hangs(self) -> list[str]:
        """Return what was still open at the end and what it waits for, one fact a line; nothing if nothing was open.

        >>> open_capture(sample).hangs()
        []
        """
        from tracecorr.analyze.still_open import describe_still_open, find_still_open

        found = find_still_open(self._stored.table)
        return list(describe_still_open(found)) if found.calls.height else []

    def failures(self) -> pl.DataFrame:
        """Return HIP calls and ioctls that failed: layer, name, result, times, first_event, first_ns.

        >>> open_capture(sample).failures()["layer"].unique().to_list()
        ['ioctl']
        """
        from tracecorr.analyze.failures import summarize_failures

        return summarize_failures(self.events)

    def breakdown(self, event: int | None = None) -> pl.DataFrame:
        """Return what the time of a HIP call was spent on: parts in ns, and `summary`, the same in words.

        >>> open_capture(sample).breakdown().columns[:4]
        ['call_event', 'summary', 'name', 'thread']

        Args:
            event: a call, or any event of its chain; the slowest calls if None.

        Raises:
            InputError: `event` belongs to no HIP call with a known end.
        """
        from tracecorr.analyze.slow_calls import summarize_slow_calls

        if event is None:
            return summarize_slow_calls(self._stored.table)
        chain = self.events.filter(pl.col("event") == _number_of(event)).select("chain").collect()["chain"].drop_nulls()
        found = summarize_slow_calls(self._stored.table, int(chain[0]) if chain.len() else -1)
        if found.is_empty():
            raise InputError(f"event {event} belongs to no HIP call with a known end", _EVENTS)
        return found

    def queues_report(self) -> pl.DataFrame:
        """Return one row per queue: what it is, its priorities, how it was made, how full it got.

        >>> open_capture(sample).queues_report().filter(pl.col("dispatches") > 0)["priority_log"].to_list()
        [2, 0, 1]
        """
        from tracecorr.analyze.owners import add_nodes
        from tracecorr.analyze.queue_creation import summarize_queue_creation
        from tracecorr.analyze.queues import summarize_backlog, summarize_queues

        table = self._stored.table
        queues = summarize_queues(table("queues"), table("stream_queues"))
        made = summarize_queue_creation(table).drop("process", "gpu")
        depth = summarize_backlog(table).drop("size")
        for more in (made, depth):
            queues = queues.join(more, on="queue", how="left", maintain_order="left")
        return add_nodes(queues, "queue", self.info.get("nodes") or [], "queues")

    def compare(self, other: Capture, confidence: float = 0.95) -> Comparison:
        """Return how `other` (B) differs from this capture (A).

        Args:
            other: another open capture.
            confidence: probability that all intervals of a table contain the true difference, from 0.5 to below 1.

        Raises:
            InputError: `other` is not an open capture, or `confidence` out of range.
        """
        from tracecorr.analyze.compare import Side, compare_captures

        if not isinstance(other, Capture):
            raise InputError(
                f"{other!r} is not an open capture", "write a.compare(tracecorr.open_capture('b.tracecorr'))"
            )
        if not isinstance(confidence, int | float) or not 0.5 <= confidence < 1:
            raise InputError(f"confidence {confidence!r} is out of range", "use a share from 0.5 to below 1")

        sides = [Side(c.name, c._stored.table, c.info, c._stored.tables_of_nodes()) for c in (self, other)]
        return compare_captures(sides[0], sides[1], confidence)

    def export_perfetto(self, path: str | Path) -> None:
        """Write the whole capture as a Perfetto trace; a file that is there is replaced when all of it is written.

        Raises:
            InputError: the file cannot be written.
        """
        from tracecorr.export.perfetto import write_perfetto
        from tracecorr.export.selection import Selection
        from tracecorr.export.table_files import open_fresh

        with open_fresh(Path(path)) as stream:
            write_perfetto(self._stored.table_by_node, stream, Selection())

    @cached_property
    def figure(self) -> Figures:
        """Return the charts of the capture."""
        return Figures(self._stored.table)


def _charts() -> ModuleType:
    """Return the module that draws; it imports Plotly, which takes its time."""
    from tracecorr.analyze import figures

    return figures


class Figures:
    """Draw charts of a capture as Plotly figures.

    Args:
        tables: gives the table of a capture by its name.
    """

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    def timeline(
        self, t0_ns: int | None = None, t1_ns: int | None = None, layers: Iterable[str] | None = None
    ) -> go.Figure:
        """Return the events between two times (ns after the first event) as bars, one lane per thread and queue.

        >>> len(open_capture(sample).figure.timeline(layers=("hip",)).data)
        1

        Args:
            t0_ns, t1_ns: ns after the first event; open where None.
            layers: layers wanted; all when None or empty.

        Raises:
            InputError: more events lie in that span than a figure can hold, or there is no such layer or span.
        """
        if isinstance(layers, str) or not isinstance(layers, Iterable | None):
            raise InputError(f"layers must be a list of names, not {layers!r}", "write layers=('hip', 'aql')")
        from tracecorr.export.selection import Selection

        # The same checks as those of an export.
        wanted = Selection(t0_ns, t1_ns, tuple(layers or ()))
        return _charts().draw_timeline(self._tables, wanted.start_ns, wanted.end_ns, wanted.layers)

    def latency(self) -> go.Figure:
        """Return the distribution of each stage of steady dispatches."""
        return _charts().draw_latency(self._tables)

    def rate(self) -> go.Figure:
        """Return dispatches per second over time."""
        return _charts().draw_rate(self._tables)

    def queue_depth(self) -> go.Figure:
        """Return the packets in each ring over time."""
        return _charts().draw_queue_depth(self._tables)

    def hip_calls(self) -> go.Figure:
        """Return the HIP functions with the longest total time."""
        return _charts().draw_hip_calls(self._tables)

    def paths(self) -> go.Figure:
        """Return the mean time by layer on the way of a dispatch."""
        return _charts().draw_paths(self._tables)

    def clocks(self) -> go.Figure:
        """Return the bounds of the clock maps."""
        return _charts().draw_clocks(self._tables)
