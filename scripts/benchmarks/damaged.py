"""Compare what tracecorr finds in a damaged SYNTHETIC run with what it finds in the whole one, and with the truth.

Lines are named by their numbers in the run, so that a line is the same one wherever the damage put it. What is missing
in the damaged run is no fault; what it shows and the whole run does not is one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import polars as pl
from simulator import Scene, Simulation, simulate

from benchmarks.truth import RULES, compare
from tracecorr.model.errors import TracecorrError
from tracecorr.pipeline import correlate, import_files
from tracecorr.store import Capture

# Links to what encloses: also true from a row around the one meant, where that one is lost.
_ENCLOSING = ("call_nesting", "command_in_call", "packet_in_call", "syscall_in_call")
# Links from an ioctl: also true from the function of the driver in it, which stands for it where it is lost.
_OF_IOCTL = ("ioctl_creates_queue",)
_EVIDENCE = {"inferred": 0, "derived": 1, "recorded": 2}
# Columns of launches that are the same in every run that shows them.
_VALUES = (
    "kind", "packet_index", "packet_ns", "enqueue_ns", "complete_ns", "signal", "kernarg", "kernel_object",
    "size_bytes", "grid_x", "ring", "swq", "log_id", "kfd_queue_id", "kernel_name", "stream_handle",
)  # fmt: skip
# Layers of rows that only the log shows.
_OF_LOG = ("hip", "command", "aql", "copy", "signal", "memory", "other")
_EVENTS = ("command", "doorbell", "gpu")
# A line shows its time in whole microseconds.
_STEP_NS = 1_000


@dataclass
class Found:
    """Hold what was found in a run, in terms of its lines.

    `at` names a row: twice the number of its line, and one more for the GPU time that the line tells. The exit of a
    call is named as its enter.

    Args:
        rows: event, at, end_at (of spans), parent_at, layer.
        links: rule, evidence, from_at, to_at.
        launches: at, call_at, command_at, doorbell_at, gpu_at, the values, doorbell_lo_ns, doorbell_hi_ns.
        threads: log_tid, tid of threads that both sides show; of a whole run, of all.
    """

    rows: pl.DataFrame
    links: pl.DataFrame
    launches: pl.DataFrame
    threads: pl.DataFrame


@dataclass
class Reference:
    """Hold a whole run: what is found in it and what is true of it.

    Args:
        scene: without damage.
        found: in the whole run.
        starts: exit_at, at of whole calls, and of spans of the trace.
        links: rule, from_at, to_at, certainty, found or true.
        inside: at, outer_at: what encloses each row, directly or not.
        stores: at, true_ns of the doorbell store of each packet.
    """

    scene: Scene
    found: Found
    starts: pl.DataFrame
    links: pl.DataFrame
    inside: pl.DataFrame
    stores: pl.DataFrame


def make_reference(scene: Scene, folder: Path) -> Reference:
    """Run a scene without damage.

    Raises:
        AssertionError: a link, a parent, a call or a packet index of the whole run is not true.
    """
    scene = replace(scene, log_damage="", trace_damage="")
    made, capture = _import(scene, folder)
    score = compare("whole", made, capture)
    for rule, (count, right, _, _) in score.links.items():
        assert count == right, f"the whole run has {count - right} wrong links of {rule}"
    right, count, _ = score.identities["packets"]
    assert count == right, f"the whole run has {count - right} wrong packet indexes"
    rows = _list_rows(made, capture)
    starts = _list_starts(made, rows)
    found = _find(made, capture, starts)
    parents = found.rows.drop_nulls("parent_at").select("at", "layer", outer_at="parent_at")
    enclosing = _truth(made, "enclosing", starts).select(at="from_at", outer_at="to_at")
    false = parents.filter(pl.col("layer").is_in(_OF_LOG)).join(enclosing, on=["at", "outer_at"], how="anti")
    assert false.is_empty(), f"the whole run has {len(false)} wrong parents"
    parents = parents.drop("layer")
    told = [_truth(made, name, starts) for name in ("calls", "inside", "syscalls", "around", "enclosing")]
    parents = pl.concat([parents, *(pairs.select(at="from_at", outer_at="to_at") for pairs in told)]).unique()
    certainty = pl.col("evidence").replace_strict(_EVIDENCE, return_dtype=pl.Int8)
    links = found.links.select("rule", "from_at", "to_at", certainty=certainty).unique()
    links = pl.concat([links, _list_true(made, starts).join(links, on=["rule", "from_at", "to_at"], how="anti")])
    stores = _truth(made, "doorbells", starts).join(
        made.moments.select(to_at=2 * pl.col("line"), true_ns="true_ns"), on="to_at"
    )
    found.threads = made.truth["threads"].select("log_tid", pl.col("tid").cast(found.threads.schema["tid"]))
    found.launches = _fill_truth(found.launches, made)
    inside = _climb(parents.filter(pl.col("at") != pl.col("outer_at")))
    return Reference(scene, found, starts, links, inside, stores.select("true_ns", at="from_at"))


def list_faults(reference: Reference, damaged: Scene, folder: Path) -> list[str]:
    """Damage the run of a reference and return what is found in it that is not so; one text each."""
    try:
        made, capture = _import(damaged, folder)
    except TracecorrError as error:
        # Nothing is left of a side: that is said, and nothing is shown.
        return [] if not _is_whole(folder) else [f"import: {error.what}"]
    found = _find(made, capture, reference.starts)
    faults = {
        "link": _list_false_links(reference, found), "parent": _list_false_parents(reference, found),
        "span": found.rows.filter(pl.col("end_at").is_not_null() & (pl.col("end_at") != pl.col("at"))),
        "launch": found.launches.join(reference.found.launches, on="at", how="anti"),
        "thread": found.threads.join(reference.found.threads, on=["log_tid", "tid"], how="anti"),
        "bounds": _list_false_bounds(reference, found.launches), "time": _list_false_times(made, capture),
        **_list_false_columns(reference, found.launches),
    }  # fmt: skip
    return [f"{kind}: {len(rows)}, as {rows.row(0, named=True)}" for kind, rows in faults.items() if len(rows)]


def _is_whole(folder: Path) -> bool:
    """Tell whether both sides still have lines."""
    trace = [path for path in (folder / "ftrace.txt", *(folder / "raw").glob("cpu*")) if path.exists()]
    shown = [sum(not line.startswith(b"#") for line in path.read_bytes().splitlines()) for path in trace]
    return any(path.stat().st_size for path in folder.glob("*.log")) and any(shown)


def _import(scene: Scene, folder: Path) -> tuple[Simulation, Capture]:
    folder.mkdir(parents=True)
    made = simulate(scene, folder)
    out = folder / "run.tracecorr"
    import_files(out, made.logs, [made.trace], clock=scene.clock.name, clock_samples=made.samples)
    correlate(out)
    return made, Capture.open(out)


def _list_rows(made: Simulation, capture: Capture) -> pl.DataFrame:
    """Return event, at, end_at, parent, layer of all rows that lines of the run show."""
    events = capture.table("events").select(
        "event", "file", "offset", "end_offset", "dur_ns", "parent", pl.col("layer", "source").cast(pl.String)
    ).collect()  # fmt: skip
    lines = made.moments.select("file", "offset", "line")
    ends = lines.rename({"offset": "end_offset", "line": "end"})
    placed = events.join(lines, on=["file", "offset"], how="left", maintain_order="left")
    placed = placed.join(ends, on=["file", "end_offset"], how="left", maintain_order="left")
    is_gpu = (pl.col("layer") == "gpu").cast(pl.Int64)
    end = pl.when((is_gpu == 0) & pl.col("dur_ns").is_not_null() & (pl.col("end") != pl.col("line"))).then("end")
    return placed.select("event", "parent", "layer", at=2 * pl.col("line") + is_gpu, end_at=2 * end)


def _list_starts(made: Simulation, rows: pl.DataFrame) -> pl.DataFrame:
    """Return exit_at, at of all calls, system calls, and spans of functions of the trace in a whole run."""
    ended = rows.drop_nulls("end_at").filter(pl.col("at") % 2 == 0).select("layer", exit_at="end_at", at="at")
    is_call = pl.col("layer").is_in(["hip", "ioctl", "syscall"])
    exits = _truth(made, "exits").select(exit_at="from_at", at="to_at")
    false = ended.filter(is_call).join(exits, on=["exit_at", "at"], how="anti")
    assert false.is_empty(), f"the whole run has {len(false)} calls of two"
    return pl.concat([exits, ended.filter(~is_call).drop("layer")])


def _find(made: Simulation, capture: Capture, starts: pl.DataFrame) -> Found:
    rows = _list_rows(made, capture).with_columns(_named("at", starts), _named("end_at", starts))
    at = rows["at"]
    rows = rows.with_columns(parent_at=at.gather(rows["parent"]))
    links = capture.table("links").with_columns(pl.col("rule", "evidence").cast(pl.String)).collect()
    links = links.select("rule", "evidence", from_at=at.gather(links["from_event"]), to_at=at.gather(links["to_event"]))
    threads = capture.table("threads").select("log_tid", "tid").collect().drop_nulls()
    return Found(rows, links, _list_launches(capture, at), threads)


def _named(column: str, starts: pl.DataFrame) -> pl.Expr:
    """Return a column of `at` in which the exits of calls are named as their enters."""
    return pl.col(column).replace(starts["exit_at"], starts["at"])


def _fill_truth(launches: pl.DataFrame, made: Simulation) -> pl.DataFrame:
    """Return launches with the true index, kernel, queue, and time of the command's line where these were not found."""
    moments = made.moments.select("file", "offset", "line", enqueue_ns=pl.col("true_ns") // 1000 * 1000)
    packets, kernels = (made.truth[name].join(moments, on=["file", "offset"]) for name in ("packets", "kernels"))
    at = 2 * pl.col("line")
    commands = _truth(made, "commands").join(moments.select(from_at=at, enqueue_ns="enqueue_ns"), on="from_at")
    joined = launches
    for told in (
        packets.select(at=at, packet_index="index"), kernels.select(at=at, kernel_name="kernel"),
        *(packets.select(name, at=at).select("at", name) for name in ("ring", "swq", "log_id")),
        commands.select(at="to_at", enqueue_ns=pl.col("enqueue_ns").cast(pl.Int64)),
    ):  # fmt: skip
        name = told.columns[1]
        joined = joined.join(told, on="at", how="left", maintain_order="left", suffix="_told")
        joined = joined.with_columns(pl.coalesce(name, pl.col(f"{name}_told").cast(joined.schema[name])))
        joined = joined.drop(f"{name}_told")
    return joined


def _list_launches(capture: Capture, at: pl.Series) -> pl.DataFrame:
    queues = capture.table("queues").select(
        "queue", "swq", "log_id", "kfd_queue_id", ring=pl.coalesce("hwq", "ring_base")
    )
    kernels = capture.table("kernels").select("kernel", kernel_name="name")
    streams = capture.table("streams").select("stream", stream_handle="handle")
    launches = capture.table("launches").with_columns(pl.col("kind").cast(pl.String))
    for more, key in ((queues, "queue"), (kernels, "kernel"), (streams, "stream")):
        launches = launches.join(more, on=key, how="left")
    table = launches.sort("event").collect()
    named = {f"{name}_at": at.gather(table[f"{name}_event"]) for name in (*_EVENTS, "call")}
    return table.select(
        *_VALUES, "return_ns", "doorbell_lo_ns", "doorbell_hi_ns", at=at.gather(table["event"]), **named
    )


def _climb(parents: pl.DataFrame) -> pl.DataFrame:
    """Return at, outer_at of all rows around each row, from those directly around it."""
    found = [parents]
    while len(found[-1]):
        higher = found[-1].join(parents, left_on="outer_at", right_on="at", suffix="_next")
        found.append(higher.select("at", outer_at="outer_at_next"))
    return pl.concat(found).unique()


def _truth(made: Simulation, name: str, starts: pl.DataFrame | None = None) -> pl.DataFrame:
    """Return from_at, to_at of the pairs of the truth; with `starts`, exits of calls are named as their enters."""
    lines = made.moments.select("file", "offset", "line")
    pairs = made.truth[name]
    for side in ("from", "to"):
        place = lines.rename({"file": f"{side}_file", "offset": f"{side}_offset", "line": f"{side}_line"})
        pairs = pairs.join(place, on=[f"{side}_file", f"{side}_offset"])
    pairs = pairs.select(from_at=2 * pl.col("from_line"), to_at=2 * pl.col("to_line") + int(name == "gpu_times"))
    return pairs if starts is None else pairs.with_columns(_named("from_at", starts), _named("to_at", starts))


def _list_true(made: Simulation, starts: pl.DataFrame) -> pl.DataFrame:
    """Return rule, from_at, to_at, certainty of the truth."""
    found = []
    for rule, name in RULES.items():
        pairs = _truth(made, name, starts)
        if name in ("syscalls", "calls", "inside"):
            pairs = pairs.rename({"from_at": "to_at", "to_at": "from_at"})
        certainty = pl.lit(_EVIDENCE["recorded"], pl.Int8)
        found.append(pairs.select("from_at", "to_at", rule=pl.lit(rule), certainty=certainty))
    return pl.concat([pairs.select("rule", "from_at", "to_at", "certainty") for pairs in found])


def _list_false_links(reference: Reference, found: Found) -> pl.DataFrame:
    ends = ["rule", "from_at", "to_at"]
    links = found.links.join(pl.concat([reference.links, _list_standing(reference)]), on=ends, how="left")
    calls = reference.found.launches.drop_nulls("call_at").select(to_at="at", call_at="call_at")
    around = calls.join(reference.inside, left_on="call_at", right_on="at").select("to_at", from_at="outer_at")
    around = pl.concat([around, calls.select("to_at", from_at="call_at")])
    outer = pl.concat([around, reference.inside.select(to_at="at", from_at="outer_at")]).unique()
    outer = outer.with_columns(is_around=pl.lit(value=True))
    links = links.join(outer, on=["from_at", "to_at"], how="left")
    excused = pl.col("rule").is_in(_ENCLOSING) & pl.col("is_around").is_not_null()
    told = pl.col("evidence").replace_strict(_EVIDENCE, return_dtype=pl.Int8)
    known = (told <= pl.col("certainty")).fill_null(value=False)
    return links.filter(~known & ~excused).select(*ends, "evidence")


def _list_standing(reference: Reference) -> pl.DataFrame:
    """Return the links of ioctls as they are where what runs in the ioctl stands for it."""
    links = reference.links.filter(pl.col("rule").is_in(_OF_IOCTL))
    inner = reference.inside.select(inner_at="at", from_at="outer_at")
    standing = links.join(inner, on="from_at").with_columns(from_at="inner_at")
    return standing.select(reference.links.columns)


def _list_false_parents(reference: Reference, found: Found) -> pl.DataFrame:
    parents = found.rows.drop_nulls("parent_at").filter(pl.col("parent_at") != pl.col("at"))
    # A packet's store and GPU time have it as their parent; their links are compared.
    parents = parents.filter(~pl.col("layer").is_in(["gpu", "doorbell"]))
    # A line that stands for itself, because the one that it belongs to was lost, is no row of the whole run.
    parents = parents.join(reference.found.rows, on="at", how="semi")
    return parents.join(reference.inside, left_on=["at", "parent_at"], right_on=["at", "outer_at"], how="anti")


def _list_false_columns(reference: Reference, launches: pl.DataFrame) -> dict[str, pl.DataFrame]:
    """Return the launches whose column differs, by column."""
    both = launches.join(reference.found.launches, on="at", suffix="_true")
    values = {name: pl.col(name).ne_missing(pl.col(f"{name}_true")) for name in _VALUES}
    # A log that begins behind a wrap does not show that there was one.
    values["packet_index"] = (pl.col("packet_index") - pl.col("packet_index_true")).fill_null(1) % 2**32 != 0
    # What the whole run does not link is compared with the truth of the links.
    values |= {f"{name}_at": pl.col(f"{name}_at") != pl.col(f"{name}_at_true") for name in _EVENTS}
    return {
        name: both.filter(pl.col(name).is_not_null() & differs).select("at", name, f"{name}_true")
        for name, differs in values.items()
    }


def _list_false_bounds(reference: Reference, launches: pl.DataFrame) -> pl.DataFrame:
    """Return the packets whose store lies outside of the interval that the log leaves for it."""
    both = launches.join(reference.stores, on="at")
    early = pl.col("true_ns") < pl.col("doorbell_lo_ns") - _STEP_NS
    late = pl.col("true_ns") > pl.col("doorbell_hi_ns") + _STEP_NS
    return both.filter(early | late).select("at", "kind", "doorbell_lo_ns", "doorbell_hi_ns", "true_ns")


def _list_false_times(made: Simulation, capture: Capture) -> pl.DataFrame:
    """Return the rows whose true time lies outside of its bounds."""
    columns = ("event", "file", "offset", "ts_ns", "err_lo_ns", "err_hi_ns", pl.col("layer").cast(pl.String))
    rows = capture.table("events").select(columns).collect().filter(pl.col("layer") != "gpu").drop_nulls("err_lo_ns")
    rows = rows.join(made.moments, on=["file", "offset"])
    low, high = pl.col("ts_ns") - pl.col("err_lo_ns"), pl.col("ts_ns") + pl.col("err_hi_ns")
    return rows.filter((pl.col("true_ns") < low - 1) | (pl.col("true_ns") > high + 1))
