"""One capture as verdicts and reports see it: its tables, what is computed of them, each once, and what was lost."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, NamedTuple

import polars as pl

from tracecorr.analyze.calls import list_setup_calls
from tracecorr.analyze.failures import summarize_complaints
from tracecorr.analyze.gpu import GpuTimes, measure_gpu_times
from tracecorr.analyze.ioctls import summarize_devices
from tracecorr.analyze.kernels import count_profiled
from tracecorr.analyze.memory import summarize_memory
from tracecorr.analyze.priorities import summarize_priorities, summarize_service
from tracecorr.analyze.queue_creation import summarize_queue_creation
from tracecorr.analyze.queues import summarize_backlog
from tracecorr.analyze.run_facts import list_armed
from tracecorr.analyze.still_open import StillOpen, find_still_open
from tracecorr.analyze.values import Tables, as_text, collect, render_ns
from tracecorr.model.columns import is_counted
from tracecorr.model.errors import InputError
from tracecorr.store.coverage import Coverage, measure_coverage

_SCHEDULERS = ("HWS", "MES", "none")


@dataclass(frozen=True)
class Thresholds:
    """Hold the limits that verdicts judge by; each has the default that the report prints.

    Args:
        kfd_create_ns: longest CREATE_QUEUE ioctl.
        rocr_create_ns: longest time from "Number of allocated hardware queues" to "Created SWq".
        clock_error_ns: widest error of a clock map.
        backlog_share: fullest that a ring may get, as a share of its size.
        batched_doorbell_share: share of packets that may be announced by the store of another packet.
        scheduler: scheduler that must be in use: `HWS`, `MES` or `none`; empty = HWS or MES.
    """

    kfd_create_ns: int = 1_000_000
    rocr_create_ns: int = 10_000_000
    clock_error_ns: int = 100_000
    backlog_share: float = 0.9
    batched_doorbell_share: float = 0.0
    scheduler: str = ""

    @classmethod
    def from_words(cls, words: list[str]) -> Thresholds:
        """Return the defaults changed by words of the form `NAME=VALUE`.

        >>> Thresholds.from_words(["kfd_create_ns=500000"]).kfd_create_ns
        500000

        Raises:
            InputError: there is no such threshold, or it cannot have that value.
        """
        known = {f.name: type(getattr(cls, f.name)) for f in fields(cls)}
        changed: dict[str, Any] = {}
        for word in words:
            name, _, text = word.partition("=")
            if name not in known:
                raise InputError(f"there is no threshold {name!r}", f"thresholds are: {', '.join(known)}")
            try:
                changed[name] = known[name](text)
            except ValueError as error:
                kind = "whole number" if known[name] is int else "number"
                raise InputError(f"threshold {word!r} has no {kind}", "write NAME=NUMBER") from error
            if name == "scheduler" and text not in ("", *_SCHEDULERS):
                raise InputError(f"there is no scheduler {text!r}", f"schedulers are: {', '.join(_SCHEDULERS)}")
            if known[name] is not str and not 0 <= changed[name] < math.inf:
                raise InputError(f"threshold {word!r} is not a limit", "write a number of 0 or more")
        return cls(**changed)


class Excuse(NamedTuple):
    """Hold why a trace cannot show something, the remedy, and the processes or queues for which that holds."""

    reason: str
    remedy: str
    hidden: pl.DataFrame


def find_excuse(rows: pl.DataFrame, excuses: Sequence[Excuse]) -> tuple[Excuse | None, pl.DataFrame]:
    """Return the excuse after which all `rows` are excused (None if some are not), and the rows left."""
    for excuse in excuses:
        left = rows.join(excuse.hidden, on=excuse.hidden.columns, how="anti", nulls_equal=True)
        if left.is_empty():
            return excuse, left
        rows = left
    return None, rows


# Layers with few rows.
_KERNEL_LAYERS = ("ioctl", "kfd", "mqd", "drm_sched", "hqd")


class Evidence:
    """Give the tables of a capture and what is computed from them.

    Args:
        tables: gives the table of a capture by its name.
        thresholds: limits that verdicts judge by.
        info: contents of capture.json.
        nodes: of a dataset: node -> what gives its tables; empty for a capture.
    """

    def __init__(
        self,
        tables: Tables,
        thresholds: Thresholds | None = None,
        info: Mapping[str, Any] | None = None,
        nodes: Mapping[str, Tables] | None = None,
    ) -> None:
        self.tables = tables
        self.thresholds = thresholds or Thresholds()
        self.info = info or {}
        self._nodes = nodes or {}

    @cached_property
    def parts(self) -> list[tuple[str, Evidence]]:
        """Return the name and the evidence of each node of a dataset; nothing for a capture."""
        told = {str(node["node"]): node for node in self.info.get("nodes") or []}
        return [(node, Evidence(tables, self.thresholds, told.get(node))) for node, tables in self._nodes.items()]

    def by_node(self, answer: Callable[[Evidence], pl.DataFrame]) -> pl.DataFrame:
        """Return the answers of all nodes of a dataset, with a column `node`; else the answer of the capture.

        Args:
            answer: returns the answer of one capture.
        """
        if len(self.parts) < 2:
            return answer(self)
        answers = [answer(part).select(pl.lit(node).alias("node"), pl.all()) for node, part in self.parts]
        return pl.concat(answers, how="vertical_relaxed")

    @cached_property
    def layers(self) -> dict[str, int]:
        """Return how many rows each layer has."""
        counted = collect(self.tables("events").group_by("layer").agg(pl.len().alias("rows")))
        return {str(layer): int(rows) for layer, rows in counted.iter_rows() if layer is not None}

    @cached_property
    def sources(self) -> set[str]:
        """Return the sources whose files were read."""
        files = self.tables("files").select(pl.col("source").cast(pl.String)).collect()
        return set(files["source"].drop_nulls())

    @cached_property
    def coverage(self) -> Coverage | None:
        """Return which part of the HIP log the kernel trace covers; None without either, or with unknown clocks."""
        return measure_coverage(self.tables, self.info)

    @cached_property
    def kernel_events(self) -> pl.DataFrame:
        """Return the rows of ioctls, driver functions (each call once) and scheduler jobs, texts as strings."""
        wanted = self.tables("events").filter(pl.col("layer").is_in(_KERNEL_LAYERS) & is_counted())
        return collect(
            wanted.select(
                "event", "ts_ns", "dur_ns", "layer", "name", "process", "thread", "gpu", "result", "queue", "arg",
                "parent", "chain", "flags",
            ).with_columns(pl.col(pl.Categorical).cast(pl.String))
        )  # fmt: skip

    @cached_property
    def complaints(self) -> pl.DataFrame:
        """Return the errors and warnings of the runtime (`complaints.summarize_complaints`)."""
        return summarize_complaints(self.tables)

    @cached_property
    def devices(self) -> pl.DataFrame:
        """Return the GPU devices that processes opened or called (`ioctls.summarize_devices`)."""
        return summarize_devices(self.tables)

    @cached_property
    def memory(self) -> pl.DataFrame:
        """Return the allocations (`memory.summarize_memory`)."""
        return summarize_memory(self.tables("events"), self.tables("args"))

    @cached_property
    def profiled(self) -> tuple[int, int]:
        """Return how many queues and streams a profile names."""
        tables = self.tables
        return count_profiled(tables("events"), tables("args")) if "rocprof" in self.sources else (0, 0)

    @cached_property
    def queues(self) -> pl.DataFrame:
        """Return the table `queues`, texts as strings."""
        return self.tables("queues").with_columns(pl.col(pl.Categorical).cast(pl.String)).collect()

    @cached_property
    def queue_creation(self) -> pl.DataFrame:
        """Return how each queue was made (`queue_creation.summarize_queue_creation`)."""
        return summarize_queue_creation(self.tables)

    @cached_property
    def priorities(self) -> pl.DataFrame:
        """Return the priorities of each queue (`priorities.summarize_priorities`)."""
        return summarize_priorities(self.tables)

    @cached_property
    def service(self) -> pl.DataFrame:
        """Return how long the packets of each queue waited (`service.summarize_service`)."""
        return summarize_service(self.tables("launches"), self.tables("events"), self.priorities)

    @cached_property
    def gpu_times(self) -> GpuTimes:
        """Return how busy the GPUs were, and where they were idle (`gpu_busy.measure_gpu_times`)."""
        return measure_gpu_times(self.tables)

    @cached_property
    def setup_calls(self) -> pl.DataFrame:
        """Return the HIP calls that did set-up work (`steady.list_setup_calls`)."""
        return list_setup_calls(self.tables("events"))

    @cached_property
    def backlog(self) -> pl.DataFrame:
        """Return how full each ring got (`backlog.summarize_backlog`)."""
        return summarize_backlog(self.tables)

    @cached_property
    def still_open(self) -> StillOpen:
        """Return the calls, packets and copies that were open at the end."""
        return find_still_open(self.tables)

    @cached_property
    def log_processes(self) -> list[int]:
        """Return the processes that have a HIP log."""
        known = self.tables("processes").filter(pl.col("log_pid").is_not_null()).select("process").collect()
        return known["process"].to_list()

    @cached_property
    def only_logged(self) -> pl.DataFrame:
        """Return the processes (one column) that only a HIP log knows: their ioctls were not recorded."""
        logged = pl.col("log_pid").is_not_null() & pl.col("pid").is_null()
        return self.tables("processes").filter(logged).select("process").collect()

    @cached_property
    def nameless(self) -> pl.DataFrame:
        """Return the process (one column, null) of logs that name none."""
        return pl.DataFrame({"process": [None]}, schema={"process": self.queues.schema["process"]})

    @cached_property
    def early_queues(self) -> pl.DataFrame:
        """Return queue and process of the queues of the log that were made before the kernel trace or the log began."""
        mine = self.queues.filter(pl.col("create_ioctl_event").is_null() & pl.any_horizontal(
            pl.col("hwq", "swq", "created_line_event").is_not_null()
        ))  # fmt: skip
        before = pl.col("created_ns") < self.trace_began_ns if self.trace_began_ns is not None else pl.lit(value=False)
        early = pl.col("created_line_event").is_null() | before.fill_null(value=False)
        return mine.filter(early).select("queue", "process")

    @cached_property
    def trace_began_ns(self) -> int | None:
        """Return the time of the first row of the kernel trace; None without one, or where its clock is not known."""
        if not self.trace_aligned:
            return None
        rows = self.tables("events").filter(pl.col("source") == "ftrace")
        first = collect(rows.select(pl.col("ts_ns").min())).item()
        return None if first is None else int(first)

    @cached_property
    def packets(self) -> pl.LazyFrame:
        """Return the launches that are packets of a ring (copies left out)."""
        return self.tables("launches").filter(pl.col("kind") != "copy")

    @cached_property
    def armed(self) -> set[str]:
        """Return the names of the events and probes that the capture says were armed; empty for imports."""
        return list_armed(self.info)

    def saw(self, layer: str, *words: str) -> bool:
        """Tell whether a layer was recorded: it has rows, or a probe with one of `words` in its name was armed."""
        return self.layers.get(layer, 0) > 0 or any(word in name for word in words for name in self.armed)

    def of_layer(self, layer: str, *names: str) -> pl.DataFrame:
        """Return the rows of one of the kernel layers, all of them or those of the given names."""
        rows = self.kernel_events.filter(pl.col("layer") == layer)
        return rows.filter(pl.col("name").is_in(names)) if names else rows

    @cached_property
    def active_span(self) -> tuple[int, int] | None:
        """Return first and last time at which HIP submitted packets or made queues; None if it did not."""
        times = self.tables("launches").select(
            low=pl.min_horizontal(pl.col("call_ns").min(), pl.col("packet_ns").min()),
            high=pl.max_horizontal(pl.col("return_ns").max(), pl.col("packet_ns").max()),
        )
        low, high = collect(times).row(0)
        made = self.queues["created_ns"].drop_nulls()
        moments = [t for t in (low, high, made.min(), made.max()) if isinstance(t, int)]
        return (min(moments), max(moments)) if moments else None

    def losses_of(self, *sources: str) -> int:
        """Return how many spans of lost records these sources have while HIP was active.

        Lines missing before the first line of a log do not count: they do not affect what follows.
        """
        spans = self.tables("losses").filter(pl.col("source").cast(pl.String).is_in(sources) & ~HAS_NO_HEAD)
        if self.active_span is not None:
            low, high = self.active_span
            outside = (pl.col("to_ns") < low) | (pl.col("from_ns") > high)
            spans = spans.filter(~outside.fill_null(False))
        return int(spans.select(pl.len()).collect().item())

    @cached_property
    def trace_aligned(self) -> bool:
        """Tell whether the clock of the kernel trace is known."""
        methods = self.tables("clock_map").select(pl.col("source", "method").cast(pl.String)).collect()
        trace = methods.filter(pl.col("source").str.starts_with("ftrace"))
        return not trace.is_empty() and "unaligned" not in trace["method"].to_list()


def describe_coverage(coverage: Coverage | None) -> str:
    """Return how much of the log the trace covers, from when to when and why; empty if that is all, or unknown.

    Without a known reason only the first and last record are known: the trace may have lasted longer.
    """
    if coverage is None or coverage.is_whole:
        return ""
    told = []
    if coverage.late_ns:
        begins = "it begins" if coverage.began else "its first record lies"
        told.append(f"{begins} {render_ns(coverage.late_ns)} after the begin of the log{because(coverage.began)}")
    if coverage.early_ns:
        ends = "it ends" if coverage.ended else "its last record lies"
        told.append(f"{ends} {render_ns(coverage.early_ns)} before the end of the log{because(coverage.ended)}")
    return f"the records of the kernel trace span {_tell_share(coverage)}: {', and '.join(told)}"


def _tell_share(coverage: Coverage) -> str:
    """Return how much of the time of the log the trace covers."""
    return f"{render_ns(coverage.covered_ns)} of the {render_ns(coverage.log_ns)} of the HIP log"


def list_partial(evidence: Evidence) -> Iterator[str]:
    """Yield, for a capture or each node of a dataset, how much of the log its trace covers, if not all."""
    if not evidence.parts:
        told = describe_coverage(evidence.coverage)
        yield from [told] if told else []
    for node, part in evidence.parts:
        told = describe_coverage(part.coverage)
        yield from [f"{node}: {told}"] if told else []


def name_partial(evidence: Evidence) -> str:
    """Return in a few words which part of the log the trace covers; empty if it covers all of it."""
    if evidence.parts:
        some = sum(1 for _ in list_partial(evidence))
        return f"the traces of {some} of {len(evidence.parts)} nodes cover a part of their logs" if some else ""
    coverage = evidence.coverage
    return f"for {_tell_share(coverage)}" if coverage is not None and not coverage.is_whole else ""


def because(why: str) -> str:
    """Return a reason in brackets; empty if there is none."""
    return f" ({why})" if why else ""


# Rows of `losses` of a log that begins in the middle of the run: what is missing lies before its first line.
HAS_NO_HEAD = (
    (pl.col("source").cast(pl.String) == "amd_log") & pl.col("from_ns").is_null() & pl.col("to_ns").is_not_null()
)


def summarize_losses(losses: pl.LazyFrame) -> pl.DataFrame:
    """Return one row per source and CPU: spans with losses and the records lost in them.

    `untold` counts the spans with an unknown number of lost records.
    """
    return collect(
        losses.with_columns(as_text("source"))
        .group_by("source", "cpu")
        .agg(
            pl.len().cast(pl.Int64).alias("spans"),
            pl.col("count").sum().alias("lost"),
            pl.col("count").is_null().sum().cast(pl.Int64).alias("untold"),
            pl.col("from_ns").min().alias("first_ns"),
            pl.col("to_ns").max().alias("last_ns"),
        )
        .sort("source", "cpu")
    )


def count_at_least(losses: pl.DataFrame) -> int:
    """Return how many lost records are a lower bound: lost lines of the log are counted by the gaps that they leave.

    Args:
        losses: as `summarize_losses` returns them.
    """
    return int(losses.filter(pl.col("source") == "amd_log")["lost"].sum() or 0)


def summarize_ledger(ledger: pl.LazyFrame, files: pl.LazyFrame) -> pl.DataFrame:
    """Return one row per file, outcome and reason, with the bytes and their share of a file that is not empty."""
    sizes = files.select("file", "path", "size")
    return collect(
        ledger.with_columns(as_text("source", "outcome", "reason"))
        .group_by("file", "source", "outcome", "reason")
        .agg(pl.col("records").sum(), pl.col("bytes").sum())
        .join(sizes, on="file", how="left")
        .with_columns(percent=pl.when(pl.col("size") > 0).then(100 * pl.col("bytes") / pl.col("size")).round(2))
        .sort(["file", "outcome", "bytes"], descending=[False, True, True])
        .select("path", "source", "outcome", "reason", "records", "bytes", "percent")
    )


def summarize_unaccounted(ledger: pl.LazyFrame, files: pl.LazyFrame) -> pl.DataFrame:
    """Return the files whose ledger does not add up to their size: none, unless a reader is wrong."""
    booked = ledger.group_by("file").agg(pl.col("bytes").sum())
    return collect(
        files.select("file", "path", "size")
        .join(booked, on="file", how="inner")
        .filter(pl.col("bytes") != pl.col("size"))
        .select("path", "size", "bytes", (pl.col("size") - pl.col("bytes")).alias("missing"))
        .sort("path")
    )
