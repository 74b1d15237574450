"""Lanes, chains, details and search, over a synthetic capture and the bundled ones."""

from __future__ import annotations

import gc
import shutil
import weakref
from pathlib import Path

import polars as pl
from synthetic import SyntheticCapture, make_capture

from tracecorr.analyze.chain import STEPS
from tracecorr.app import chain, detail, index
from tracecorr.app.detail import describe_briefly
from tracecorr.app.filters import Filters, count_range
from tracecorr.app.find import Finder
from tracecorr.app.index import CaptureIndex
from tracecorr.app.library import Opened, Tints
from tracecorr.app.subject_pages import Reports
from tracecorr.pipeline import correlate
from tracecorr.store import Capture
from tracecorr.timeline.drawn import INFERRED_DOORBELL


def _packet(capture: SyntheticCapture, evidence: str, n: int = 10) -> int:
    launches = capture.tables["launches"].filter(pl.col("doorbell_evidence") == evidence)
    return int(launches["event"][n])


def test_every_event_has_a_place(synthetic_index: CaptureIndex, synthetic_capture: SyntheticCapture) -> None:
    views = synthetic_index.views
    finest = views.pyramid.finest
    assert finest.event[views.place].tolist() == list(range(views.events))
    events = synthetic_capture.tables["events"]
    assert (finest.start[views.place] + views.t0_ns == events["ts_ns"].to_numpy()).all()
    assert sum(lane.count for lane in views.lanes) == len(finest)
    assert sum(views.minimap["all"]) == views.events


def test_lanes_follow_the_path(synthetic_index: CaptureIndex) -> None:
    lanes = synthetic_index.views.lanes
    layers = [lane.layer for lane in lanes if lane.group == "p0.t0"]
    assert layers == ["marker", "hip", "command", "syscall", "ioctl", "kfd", "mqd"]
    assert [n.layer for n in lanes if n.group == "p0.q0"] == ["aql", "doorbell", "depth", "gpu"]
    assert lanes[1].rows == 2  # nested calls


def test_chain_of_a_packet_reaches_its_call(synthetic_index: CaptureIndex, synthetic_capture: SyntheticCapture) -> None:
    found = chain.find_chain(synthetic_index, _packet(synthetic_capture, "recorded"))
    assert found is not None
    assert [s["layer"] for s in found.stages] == ["hip", "command", "aql", "doorbell", "gpu"]
    assert [s["since_call"] for s in found.stages] == [0, 3_000, 5_000, 6_500, 9_000]
    assert {(e["from"], e["to"]) for e in found.edges} == {(0, 1), (1, 2), (2, 3), (3, 4)}


def test_stages_have_the_stream_and_queue_of_their_launch(sample: Capture) -> None:
    """So that a selected launch keeps its colour, where streams or queues are told apart by colour."""
    launches = sample.table("launches").filter(pl.col("kind").cast(pl.String) == "dispatch").collect()
    assert launches["stream"].n_unique() > 1
    built = index.build(sample)
    for launch in launches.iter_rows(named=True):
        found = chain.find_chain(built, launch["event"])
        assert found is not None
        steps = {launch[step] for step in STEPS}
        for stage in (s for s in found.stages if s["event"] in steps):
            assert (stage["stream"], stage["queue"]) == (launch["stream"], launch["queue"]), stage["name"]
        brief = describe_briefly(built, launch["call_event"])
        assert brief["stream"] == launch["stream"]


def test_an_edge_without_a_link_claims_no_evidence(sample: Capture) -> None:
    links = sample.table("links").select("from_event", "to_event", pl.col("rule", "evidence").cast(pl.String)).collect()
    known = {(a, b, rule): evidence for a, b, rule, evidence in links.iter_rows()}
    built, seen = index.build(sample), 0
    for event in sample.table("launches").select("event").collect()["event"][:40]:
        found = chain.find_chain(built, event)
        assert found is not None
        for edge in found.edges:
            ends = (found.stages[edge["from"]]["event"], found.stages[edge["to"]]["event"], edge["rule"])
            assert edge["evidence"] == known.get(ends, "inferred" if None in ends else None)
            seen += ends in known
    assert seen > 40


def test_inferred_doorbell_is_a_stage_of_its_own(
    synthetic_index: CaptureIndex, synthetic_capture: SyntheticCapture
) -> None:
    found = chain.find_chain(synthetic_index, _packet(synthetic_capture, "inferred"))
    assert found is not None
    bell = next(s for s in found.stages if s["name"] == INFERRED_DOORBELL)
    assert (bell["event"], bell["evidence"], bell["dur"]) == (None, "inferred", 2_500)
    assert synthetic_index.views.lanes[bell["lane"]].layer == "doorbell"


def test_call_shows_everything_it_caused(synthetic_index: CaptureIndex, synthetic_capture: SyntheticCapture) -> None:
    events = synthetic_capture.tables["events"]
    call = int(events.filter(pl.col("name") == "hipStreamCreate")["event"][0])
    found = chain.find_chain(synthetic_index, call)
    assert found is not None
    assert [s["layer"] for s in found.stages] == ["hip", "ioctl", "kfd", "mqd"]


def test_raw_records_name_file_and_line(synthetic_index: CaptureIndex, synthetic_capture: SyntheticCapture) -> None:
    event = _packet(synthetic_capture, "recorded")
    found = chain.find_chain(synthetic_index, event)
    assert found is not None
    lines = detail.raw_lines(synthetic_index, found)
    assert len(lines) == len(found.stages)
    for line in lines:
        whole = synthetic_capture.files[0 if "amd_log" in line["file"] else 1].decode().splitlines()
        assert whole[line["line"] - 1] == line["text"]
    assert {c["name"] for c in detail.describe(synthetic_index, event)} >= {"ts_ns", "queue", "kernel", "grid_x"}


def test_search_steps_through_all_hits(synthetic_index: CaptureIndex) -> None:
    finder = Finder(synthetic_index)
    first = finder.find("CREATESTREAM", -1, True)
    assert first["count"] == 0
    first = finder.find("hipstreamcreate", -1, True)
    second = finder.find("hipstreamcreate", first["event"], True)
    back = finder.find("hipstreamcreate", second["event"], False)
    assert (first["count"], first["position"], second["position"], back["event"]) == (4, 1, 2, first["event"])
    assert finder.find("#5", -1, True)["event"] == 5
    assert finder.find("0x7fa944000000", -1, True)["count"] > 1000
    assert finder.find("0xzz", -1, True)["count"] == 0


def test_search_finds_what_is_not_drawn(sample: Capture) -> None:
    """A dispatch is drawn under the name of its kernel, a result not at all; a stream is found by its number."""
    finder, events = Finder(index.build(sample)), sample.table("events")
    kinds = events.filter(pl.col("name").cast(pl.String) == "dispatch").select(pl.len()).collect().item()
    assert finder.find("dispatch", -1, True)["count"] == kinds > 0
    refused = events.filter(pl.col("result").cast(pl.String) == "ENOTTY").select("event").collect()["event"]
    assert finder.find("enotty", -1, True)["count"] == len(refused) > 0
    assert finder.find("ENOTTY", -1, True)["event"] == refused.min()
    mapped = events.filter(pl.col("name").cast(pl.String) == "mmap").select(pl.col("result").cast(pl.String)).collect()
    address = mapped["result"].drop_nulls().to_list()[0]
    assert address.startswith("0x") and finder.find(address.removeprefix("0x"), -1, True)["count"] == 0
    own = events.filter(pl.col("stream") == 1).select(pl.len()).collect().item()
    assert finder.find("stream 1", -1, True)["count"] == own > 0
    assert finder.find("no such thing", -1, True)["count"] == 0


def test_lanes_beside_the_path(synthetic_index: CaptureIndex) -> None:
    """Copies per engine, rings, hardware queues and polled values have lanes; the runtime's thread its own root."""
    lanes, groups = synthetic_index.views.lanes, {g.id: g for g in synthetic_index.views.groups}
    copies = [n.label for n in lanes if n.layer == "copy" and n.process == 0]
    assert copies == ["copies", "copies engine 1", "copies engine 2"]
    assert groups[next(n.group for n in lanes if n.thread == 4)].parent == "p0.r"
    by_group = {g: [n.label for n in lanes if n.group == g] for g in groups}
    assert by_group["g0"] == [
        "HQD cp xcc 0 pipe 0 slot 1", "HQD cp xcc 0 pipe 1 slot 1", "gpu_busy_percent", "vram_used_bytes",
    ]  # fmt: skip
    rings = [f"0000:03:00.0 {ring} {what}" for ring in ("sdma0", "sdma1") for what in ("running", "waiting")]
    assert sorted(by_group[f"g{1 << 40}"]) == sorted(["hardware scheduler", *rings])
    assert {r["kind"] for r in synthetic_index.views.ranges} == {"loss", "clock"}


def test_a_hardware_queue_is_hollow_between_two_dumps(synthetic_index: CaptureIndex) -> None:
    views = synthetic_index.views
    lane = next(n for n in views.lanes if n.layer == "hqd")
    records = views.pyramid.query(0, views.length_ns, 8000, [lane.id])
    styles = (records.style & 1).tolist()
    assert styles == [0, 1] * 7 + [0]  # eight dumps, seven spans between them


def test_what_is_only_inferred_is_no_event(synthetic_index: CaptureIndex, synthetic_capture: SyntheticCapture) -> None:
    """Hollow intervals and second pictures of an event are drawn, but a count of events leaves them out."""
    views = synthetic_index.views
    events, launches = synthetic_capture.tables["events"], synthetic_capture.tables["launches"]
    lanes = [lane.id for lane in views.lanes]
    counted = count_range(synthetic_index, views.pyramid, -1, views.length_ns + 1, lanes)
    assert counted["total"] == events.height
    hollow = {n["layer"]: n["count"] for n in counted["layers"] if n["inferred"]}
    assert hollow["doorbell"] == launches["doorbell_lo_ns"].drop_nulls().len() > 0
    assert counted["inferred"] == sum(hollow.values())
    recorded = {n["layer"]: n["count"] for n in counted["layers"] if not n["inferred"]}
    assert recorded["doorbell"] == (events["layer"] == "doorbell").sum()


def test_a_stage_tells_that_it_failed(synthetic_index: CaptureIndex, synthetic_capture: SyntheticCapture) -> None:
    refused = synthetic_capture.tables["events"].filter(pl.col("result").cast(pl.String).str.starts_with("E"))
    found = chain.find_chain(synthetic_index, int(refused["event"][0]))
    assert found is not None
    assert {s["event"]: s["failed"] for s in found.stages}[found.event]
    well = chain.find_chain(synthetic_index, _packet(synthetic_capture, "inferred"))
    assert well is not None and not any(s["failed"] for s in well.stages)


def test_what_belongs_to_a_launch_is_coloured_by_its_stream() -> None:
    """The log names the stream with the command only; a call with launches on two streams is of neither."""
    capture = make_capture(60)
    launches = capture.tables["launches"].filter(pl.col("doorbell_event").is_not_null())
    one, other = launches.head(2).iter_rows(named=True)
    changed = pl.when(pl.col("event") == other["event"])
    capture.tables["launches"] = capture.tables["launches"].with_columns(
        stream=changed.then(one["stream"] + 1).otherwise("stream").cast(pl.UInt32),
        call_event=changed.then(one["call_event"]).otherwise("call_event").cast(pl.Int64),
    )
    tint = Tints(capture).get("stream")
    assert tint is not None
    assert [tint[one[step]] for step in ("event", "command_event", "doorbell_event")] == [one["stream"] + 1] * 3
    assert tint[other["event"]] == one["stream"] + 2
    assert tint[one["call_event"]] == 0


def test_answers_about_a_reading_end_with_it(
    synthetic_index: CaptureIndex, synthetic_capture: SyntheticCapture
) -> None:
    """A recording that runs is opened anew, maybe in the memory of the last reading: its answers are other ones."""
    parts = Finder(synthetic_index), Filters(synthetic_index), Tints(synthetic_capture)
    reports, first = Reports(), Opened("live", synthetic_index, *parts)
    told = weakref.ref(reports.get(first))
    assert reports.get(first) is told()
    del first
    gc.collect()
    assert told() is None


def test_a_kernel_is_found_by_its_whole_name() -> None:
    """As a profiler prints it, where the short name is drawn; variants with other arguments are told apart."""
    capture = make_capture(60)
    whole = {"kernel": [1, 2], "name": ["add(float*, int)", "add(double*, int)"], "display": ["add", "add"]}
    changed = pl.DataFrame(whole, schema_overrides={"kernel": pl.UInt32})
    capture.tables["kernels"] = capture.tables["kernels"].update(changed, on="kernel")
    finder, events = Finder(index.build(capture)), capture.tables["events"]
    found = finder.find("ADD(float*", -1, forward=True)
    assert found["count"] == (events["kernel"] == 1).sum() > 0
    both = finder.find("add(", -1, forward=True)
    assert both["count"] == events["kernel"].is_in([1, 2]).sum() > found["count"]
    assert both["names"] == found["names"] == finder.find("add", -1, forward=True)["names"]


def test_every_link_between_two_stages_is_a_way(repo: Path, tmp_path: Path) -> None:
    path = tmp_path / "streams-graph.tracecorr"
    shutil.copytree(repo / "samples" / path.name, path)
    correlate(path)
    built = index.build(Capture.open(path))
    links = built.capture.table("links").select("from_event", "to_event").collect().rows()
    for event in built.capture.table("launches").collect()["event"].to_list():
        for asked in {event, *(b for a, b in links if a == event)}:
            found = chain.find_chain(built, asked)
            assert found is not None
            at = {s["event"]: i for i, s in enumerate(found.stages) if s["event"] is not None}
            shown = [(at[a], at[b]) for a, b in links if a in at and b in at]
            assert shown and all(b in _reached(found, a) for a, b in shown), asked


def _reached(found: chain.Chain, stage: int) -> set[int]:
    reached, todo = set[int](), [stage]
    while todo:
        here = todo.pop()
        more = {e["to"] for e in found.edges if e["from"] == here} - reached
        reached |= more
        todo += more
    return reached
