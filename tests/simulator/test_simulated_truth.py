"""SYNTHETIC runs whose truth is known: what tracecorr links and how sure it is of its times."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest
from benchmarks.truth import Score, compare, score_scene
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from simulator import ClockModel, Scene, simulate

from tracecorr.analyze.verdicts import Outcome, judge_capture
from tracecorr.pipeline import correlate, import_files
from tracecorr.store import Capture
from tracecorr.store.capture import write_info

BASE = Scene(span_s=0.25, threads=2)
LOCAL = ClockModel("local", 25_750_000, 12.0)
CLOCKS = {
    "mono": ClockModel(), "local": LOCAL, "fast": replace(LOCAL, ppm=500.0), "boot": ClockModel("boot", -7 * 10**9),
    "suspend": ClockModel("boot", 0, step_ns=-9 * 10**9, step_at_ns=12 * 10**7), "mono_raw": BASE.raw,
    "tai": ClockModel("tai", -17 * 10**17), "x86-tsc": ClockModel("x86-tsc", 10**12, ticks_per_ns=2.4),
    "slew": replace(LOCAL, slew_ppm=200.0, slew_at_ns=10**8),
}  # fmt: skip
STRUCTURES = {
    "eight threads on two queues": {"threads": 8, "queues": 2}, "container": {"container": True, "processes": 2},
    "rich doorbell names the threads": {"doorbell": "rich", "thread_events": ()},
    "order of doorbells names the threads": {"thread_events": ()},
    "ioctls name the threads": {"doorbell": "none", "thread_events": (), "span_s": 0.6},
    "wrap at 2^32": {"first_index": 2**32 - 60}, "queues made again": {"recreate": True, "threads": 1},
    "pid reused": {"processes": 2, "reuse_pid": True}, "stack reused": {"successive": True},
    "eight processes with equal rings": {"processes": 8, "threads": 1, "span_s": 0.15},
    "calls in calls": {"kinds": (*BASE.kinds, ("nested", 2))}, "copies behind copies": {"staged_copies": True},
    "Direct Dispatch off": {"direct_dispatch": False},
    "HIP 7.0": {"era": "7.0"}, "HIP 6.4": {"era": "6.4"}, "HIP 6.2": {"era": "6.2"}, "HIP 5.7": {"era": "5.7"},
    "32 streams on 4 queues": {"streams": 32, "threads": 1, "queue_probe": True},
    "8 GPUs": {"gpus": 8, "streams": 8, "queue_probe": True},
    "graphs of 200": {"graph_packets": 200, "kinds": (("launch", 4), ("graph", 0.5), ("event", 1)), "span_s": 0.1},
    "pages": {"pages": True, "queue_probe": True}, "pages, copies": {"pages": True, "staged_copies": True},
    "suspended before": {"suspended_ns": 36 * 10**11, "samples_s": 0.1},
}  # fmt: skip


def totals(score: Score) -> tuple[int, int, int, int]:
    """Return found, right, true, and wrong recorded links of all rules."""
    found, right, true, wrong = (sum(counts[i] for counts in score.links.values()) for i in range(4))
    return found, right, true, wrong


def assert_causal(capture: Capture) -> None:
    """Assert that no effect comes before its cause."""
    (verdict,) = judge_capture(capture.table, names={"causality"})
    assert verdict.outcome == Outcome.PASS, verdict


def assert_complete(score: Score) -> None:
    """Assert what is demanded on complete data."""
    found, right, true, _ = totals(score)
    covered, bounded = score.covered
    assert (score.unknown, found) == (0, right)
    assert right >= 0.999 * true
    assert covered >= 0.999 * bounded
    for name, (right, found, _) in score.identities.items():
        assert right == found, name


@pytest.mark.parametrize("samples_s", [0.0, 0.1])
@pytest.mark.parametrize("name", CLOCKS)
def test_the_truth_is_found_on_every_clock(name: str, samples_s: float, tmp_path: Path) -> None:
    score = score_scene(name, replace(BASE, clock=CLOCKS[name], samples_s=samples_s), tmp_path)
    assert_complete(score)
    assert_causal(Capture.open(tmp_path / "run.tracecorr"))
    assert score.method == {"mono": "same_clock"}.get(name, "samples" if samples_s else "causal_pairs")
    assert score.width_ns[1] <= 1_000 if name == "mono" else score.width_ns[1] < 20_000


@pytest.mark.parametrize("name", STRUCTURES)
def test_the_truth_is_found_in_every_structure(name: str, tmp_path: Path) -> None:
    options = STRUCTURES[name]
    score = score_scene(name, replace(BASE, **options), tmp_path)  # type: ignore[arg-type]
    assert_complete(score)
    right, _, true = score.identities["packets"]
    assert right == true
    assert_causal(Capture.open(tmp_path / "run.tracecorr"))
    # The event thread of ROCr does nothing that the trace shows.
    threads = options.get("processes", 1) * (options.get("threads", 2))  # type: ignore[operator]
    assert score.identities["threads"][0] == threads * (2 if "direct_dispatch" in options else 1)


@pytest.mark.parametrize(
    ("name", "thread", "call"),
    [
        ("container", "recorded", "derived"), ("rich doorbell names the threads", "derived", "derived"),
        ("order of doorbells names the threads", "inferred", "inferred"),
        ("ioctls name the threads", "inferred", "inferred"),
    ],
)  # fmt: skip
def test_a_link_by_time_is_no_surer_than_its_thread(name: str, thread: str, call: str, tmp_path: Path) -> None:
    score_scene(name, replace(BASE, **STRUCTURES[name]), tmp_path)  # type: ignore[arg-type]
    capture = Capture.open(tmp_path / "run.tracecorr")
    joined = capture.table("threads").filter(pl.col("tid").is_not_null() & pl.col("log_tid").is_not_null()).collect()
    assert set(joined["evidence"].cast(str)) == {thread}
    links = capture.table("links").filter(pl.col("rule").is_in(["syscall_in_call", "ioctl_creates_queue"])).collect()
    found = set(links.select(pl.col("rule", "evidence").cast(pl.String)).iter_rows())
    assert found >= {("syscall_in_call", call)}
    assert {evidence for _, evidence in found} <= {call, "recorded", "inferred"}


@pytest.mark.parametrize("era", ["5.7", "6.2", "6.4", "7.0", "7.2"])
@pytest.mark.parametrize("direct_dispatch", [True, False])
def test_dispatches_have_their_streams_in_every_release(era: str, direct_dispatch: bool, tmp_path: Path) -> None:
    """Each stream of a scene keeps its queue, so a dispatch of a wrong stream would give that one two queues."""
    scene = replace(BASE, era=era, threads=4, queues=4, streams=3, direct_dispatch=direct_dispatch)
    score_scene(era, scene, tmp_path)
    capture = Capture.open(tmp_path / "run.tracecorr")
    launches = capture.table("launches").filter(pl.col("kind").cast(pl.String) == "dispatch").collect()
    assert launches["stream"].null_count() == 0 and launches["stream"].n_unique() == 12
    edges = capture.table("stream_queues").collect()
    assert edges["stream"].is_unique().all() and edges.height == 12
    assert set(edges["evidence"].cast(str)) == {"recorded" if era >= "7" else "derived"}


def test_pages_tell_what_the_text_tells(tmp_path: Path) -> None:
    """The same scene as pages of the ring buffer: the same links, and times without the rounding of the text."""
    scores = []
    for pages in (False, True):
        folder = tmp_path / str(pages)
        folder.mkdir()
        scene = replace(BASE, pages=pages, clock=LOCAL, samples_s=0.1, doorbell="rich")
        scores.append(score_scene("pages", scene, folder))
    text, binary = scores
    assert_complete(binary)
    assert binary.links == text.links
    assert binary.width_ns[0] < text.width_ns[0]


def test_queues_of_eight_gpus_are_known_by_their_ids(tmp_path: Path) -> None:
    scene = replace(BASE, gpus=8, streams=16, queue_probe=True)
    score = score_scene("gpus", scene, tmp_path)
    assert score.identities["queue GPUs"] == (32, 32, 32)
    assert score.links["doorbell_mapping"] == (8, 8, 8, 0)


def test_containers_that_are_alike_in_all_are_not_told_apart_by_guessing(tmp_path: Path) -> None:
    scene = replace(BASE, container=True, processes=3, same_layout=True, doorbell="rich")
    found, right, _, _ = totals(score_scene("alike", scene, tmp_path))
    assert found == right


def test_cycles_are_scaled_whatever_the_threads_do(tmp_path: Path) -> None:
    scene = replace(BASE, clock=CLOCKS["x86-tsc"], direct_dispatch=False)
    assert_complete(score_scene("cycles", scene, tmp_path))


@pytest.mark.parametrize("name", ["ioctls name the threads", "stack reused"])
def test_creations_align_a_local_clock_when_no_thread_is_known(name: str, tmp_path: Path) -> None:
    """Neither doorbells nor addresses join the sides before their clocks are known."""
    score = score_scene(name, replace(BASE, clock=LOCAL, **STRUCTURES[name]), tmp_path)  # type: ignore[arg-type]
    assert score.method == "causal_pairs"
    assert_complete(score)
    assert score.width_ns[1] < 20_000


def test_a_coarse_clock_is_known_to_some_jiffies(tmp_path: Path) -> None:
    score = score_scene("uptime", replace(BASE, clock=ClockModel("uptime", 3 * 10**11)), tmp_path)
    found, right, _, _ = totals(score)
    assert found == right
    assert score.covered[0] == score.covered[1]
    # Hundredths of a second, counted up to one late.
    assert 10_000_000 <= score.width_ns[0] <= 40_000_000


@pytest.mark.parametrize("level", [3, 4])
def test_a_lower_level_links_less_and_nothing_wrong(level: int, tmp_path: Path) -> None:
    score = score_scene("level", replace(BASE, level=level), tmp_path)
    found, right, _, _ = totals(score)
    assert found == right
    assert score.identities["packets"] == (0, 0, 0)


@pytest.mark.parametrize("share", [0.1, 0.3])
@pytest.mark.parametrize(
    "name", [
        "eight threads on two queues", "calls in calls", "copies behind copies", "Direct Dispatch off",
        "queues made again", "HIP 6.4", "HIP 6.2",
    ],
)  # fmt: skip
def test_lost_lines_make_links_missing_but_not_wrong(name: str, share: float, tmp_path: Path) -> None:
    options = STRUCTURES[name]
    scene = replace(BASE, seed=3, lost_log=share, lost_trace=share, **options)  # type: ignore[arg-type]
    score = score_scene(name, scene, tmp_path)
    found, right, true, _ = totals(score)
    assert found == right
    launches = Capture.open(tmp_path / "run.tracecorr").table("launches").collect()
    reasons = launches.filter(pl.col("command_event").is_null())["unlinked_reason"].cast(pl.String)
    assert len(reasons) and reasons.str.starts_with("the log lost lines").all()
    # Releases that print fewer indexes prove less.
    assert right >= (0.35 if options.get("era") else 0.7 if share < 0.2 else 0.45) * true
    for what, (right, found, _) in score.identities.items():
        assert right == found, what


@pytest.mark.parametrize("share", [0.1, 0.3])
def test_a_creation_whose_call_lost_lines_has_the_ioctl_that_made_its_ring(share: float, tmp_path: Path) -> None:
    scene = replace(BASE, seed=2, queue_probe=True, recreate=True, lost_log=share, lost_trace=share)
    found, right, true, wrong = score_scene("rings", scene, tmp_path).links["ioctl_creates_queue"]
    assert (found, wrong) == (right, 0)
    assert right >= 0.5 * true > 0


@pytest.mark.parametrize(
    ("share", "seed", "options"),
    [(0.1, 12, {}), (0.3, 11, {}), (0.3, 13, {"threads": 2}), (0.1, 11, {"queue_probe": True})],
)
def test_lost_lines_of_queues_made_again_are_no_other_clock(
    share: float, seed: int, options: dict[str, object], tmp_path: Path
) -> None:
    """Halves of what is there twice look alike, and ioctls are missing: but what there is fits CLOCK_MONOTONIC."""
    lossy = replace(BASE, span_s=1.0, threads=1, recreate=True, lost_log=share, lost_trace=share, seed=seed)
    score = score_scene("again", replace(lossy, **options), tmp_path)  # type: ignore[arg-type]
    assert (score.method, score.width_ns) == ("same_clock", (1000, 1000))


def test_lost_lines_do_not_hide_that_a_clock_is_another_one(tmp_path: Path) -> None:
    """It is said to be mono, but 0.3 ms beside it."""
    clock = ClockModel("mono", 300_000, 12.0)
    score = score_scene("beside", replace(BASE, recreate=True, lost_log=0.3, lost_trace=0.3, clock=clock), tmp_path)
    assert score.method == "causal_pairs"
    assert score.covered[0] == score.covered[1]


@pytest.mark.parametrize(("offset_ns", "method"), [(0, "same_clock"), (300_000, "unaligned"), (-300_000, "unaligned")])
def test_where_no_pair_is_left_system_calls_tell_that_a_clock_is_another_one(
    offset_ns: int, method: str, tmp_path: Path
) -> None:
    """It is said to be mono, half of the log is lost, and no probe saw a doorbell."""
    clock = ClockModel("mono", offset_ns, 0.0)
    scene = replace(BASE, seed=2, doorbell="none", lost_log=0.5, clock=clock)
    score = score_scene("silences", scene, tmp_path)
    assert score.method == method
    assert score.covered[0] == score.covered[1]


@pytest.mark.parametrize("clock", ["local", "x86-tsc"])
def test_a_log_that_names_no_thread_is_not_aligned_and_the_reason_says_what_helps(clock: str, tmp_path: Path) -> None:
    """Level 3 prints neither pid nor tid: nothing tells whether the trace is of the same run."""
    score = score_scene("level", replace(BASE, level=3, clock=CLOCKS[clock]), tmp_path)
    assert score.method == "unaligned"
    (warning,) = [w for w in Capture.open(tmp_path / "run.tracecorr").info["warnings"] if w.startswith("ftrace")]
    assert "name neither process nor thread" in warning
    assert "AMD_LOG_LEVEL=4" in warning


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    seed=st.integers(1, 10**6),
    lost_log=st.sampled_from([0.0, 0.02, 0.3]), lost_trace=st.sampled_from([0.0, 0.02, 0.3]),
    shuffled_log=st.sampled_from([0, 3, 50]), shuffled_trace=st.sampled_from([0, 3, 50]),
    doorbell=st.sampled_from(["plain", "rich"]), queue_probe=st.booleans(), clock=st.sampled_from(["mono", "local"]),
)  # fmt: skip
@example(
    seed=2092, lost_log=0.02, lost_trace=0.02, shuffled_log=50, shuffled_trace=50, doorbell="plain", queue_probe=True,
    clock="mono",
)  # fmt: skip
def test_damage_never_makes_a_wrong_recorded_link(
    tmp_path_factory: pytest.TempPathFactory, seed: int, clock: str, **damage: object
) -> None:
    """Lines removed or moved on either side: links may be missing, but none is wrong that is called recorded."""
    scene = replace(BASE, seed=seed, span_s=0.06, clock=CLOCKS[clock], recreate=seed % 3 == 0, **damage)  # type: ignore[arg-type]
    score = score_scene("damaged", scene, tmp_path_factory.mktemp("damaged"))
    assert totals(score)[3] == 0, score.links


@pytest.mark.parametrize("clock", ["mono", "local"])
@pytest.mark.parametrize("samples_s", [0.0, 0.1])
@pytest.mark.parametrize("options", [
    {}, {"doorbell": "rich"}, {"doorbell": "none", "queue_probe": True}, {"doorbell": "none", "thread_events": ()},
    {"thread_events": ()},
], ids=str)  # fmt: skip
def test_sides_of_different_runs_share_no_link(
    clock: str, samples_s: float, options: dict[str, object], tmp_path: Path
) -> None:
    """The same program ran twice: pids and rings are equal, and so is its pace, but it is another run."""
    made = {}
    for name, seed in (("one", 1), ("two", 2)):
        (tmp_path / name).mkdir()
        scene = replace(BASE, seed=seed, clock=CLOCKS[clock], samples_s=samples_s, **options)  # type: ignore[arg-type]
        made[name] = simulate(scene, tmp_path / name)
    out = tmp_path / "mixed.tracecorr"
    samples = made["two"].samples
    import_files(out, made["one"].logs, [made["two"].trace], clock=clock, clock_samples=samples)
    assert correlate(out)
    capture = Capture.open(out)
    source = capture.table("events").select("event", pl.col("source").cast(pl.String))
    links = capture.table("links").join(source, left_on="from_event", right_on="event")
    crossing = links.join(source, left_on="to_event", right_on="event", suffix="_to").filter(
        pl.col("source") != pl.col("source_to")
    )
    assert crossing.collect().is_empty()


def test_one_side_alone_still_gives_its_tables(tmp_path: Path) -> None:
    made = simulate(BASE, tmp_path)
    for name, logs, trace in (("log", made.logs, []), ("trace", [], [made.trace])):
        out = tmp_path / f"{name}.tracecorr"
        import_files(out, logs, trace, clock="mono")
        correlate(out)
        capture = Capture.open(out)
        assert capture.table("events").collect().height > 100
        score = compare(name, made, capture)
        found, right, _, _ = totals(score)
        assert found == right


NAMESPACE = replace(BASE, namespace_ns=100 * 10**9 + 12_345_678)


def test_a_time_namespace_that_the_capture_knows(tmp_path: Path) -> None:
    made = simulate(NAMESPACE, tmp_path)
    out = tmp_path / "run.tracecorr"
    import_files(out, made.logs, [made.trace], clock="mono")
    info = Capture.open(out).info
    offsets = {"monotonic": NAMESPACE.namespace_ns, "boottime": NAMESPACE.namespace_ns}
    write_info(out, {**info, "timens_offsets": offsets})
    correlate(out)
    assert_complete(compare("known", made, Capture.open(out)))


def test_a_time_namespace_that_nobody_knows_is_found_from_the_pairs(tmp_path: Path) -> None:
    """Then the log's clock is the common one: both sides fit together, 100 s beside the host's clock."""
    made = simulate(NAMESPACE, tmp_path)
    out = tmp_path / "run.tracecorr"
    import_files(out, made.logs, [made.trace], clock="mono")
    correlate(out)
    score = compare("unknown", made, Capture.open(out))
    found, right, true, _ = totals(score)
    assert (score.method, found, right) == ("causal_pairs", right, found)
    assert right >= 0.99 * true


def test_queues_that_come_late_in_a_long_run_are_known(tmp_path: Path) -> None:
    """More stores lie before the second life of the queues than are compared at a time."""
    scene = replace(BASE, threads=1, span_s=0.8, launch_gap_us=150.0, recreate=True)
    score = score_scene("late", scene, tmp_path)
    assert score.identities["packets"][2] > 2_500
    assert_complete(score)


@pytest.mark.parametrize("doorbell", ["none", "plain"])
def test_packets_of_a_ring_that_was_made_again_are_not_counted_on(doorbell: str, tmp_path: Path) -> None:
    """ROCm 5.7 prints neither an index nor which ring a queue got: behind a later creation any ring may begin anew."""
    score = score_scene("again", replace(BASE, era="5.7", recreate=True, threads=1, doorbell=doorbell), tmp_path)
    right, found, true = score.identities["packets"]
    assert right == found
    assert 0.3 * true < found < 0.7 * true


@pytest.mark.parametrize("options", [{}, {"processes": 2, "reuse_pid": True, "thread_events": ()}])
def test_completions_in_the_next_file_of_a_log_are_linked(options: dict[str, object], tmp_path: Path) -> None:
    """The log of each process is written to two files, as after a rotation; the next process has the same pid."""
    made = simulate(replace(BASE, span_s=0.1, **options), tmp_path)  # type: ignore[arg-type]
    parts = [part for path in made.logs for part in _halve(path)]
    counts = []
    for name, logs in (("whole", made.logs), ("split", parts)):
        import_files(tmp_path / name, logs, [made.trace], clock="mono")
        correlate(tmp_path / name)
        links = Capture.open(tmp_path / name).table("links").filter(pl.col("rule") == "completion_of_packet")
        counts.append(links.collect().height)
    assert counts[0] == counts[1] == len(made.truth["completions"])


def _halve(path: Path) -> list[Path]:
    lines = path.read_bytes().splitlines(keepends=True)
    parts = [path.with_suffix(f".{n}.log") for n in range(2)]
    for n, part in enumerate(parts):
        part.write_bytes(b"".join(lines[n * len(lines) // 2 : (n + 1) * len(lines) // 2]))
    return parts


@pytest.mark.parametrize("era", ["5.7", "6.2", "6.4"])
@pytest.mark.parametrize("doorbell", ["none", "plain"])
def test_threads_that_share_a_queue_are_counted_only_where_their_order_is_known(
    era: str, doorbell: str, tmp_path: Path
) -> None:
    """They print their packets in another order than they took the indexes; stores tell which one that was."""
    scene = replace(BASE, era=era, doorbell=doorbell, threads=4, queues=2, streams=3)
    right, found, true = score_scene(era, scene, tmp_path).identities["packets"]
    assert right == found
    assert found == true if doorbell == "plain" else 0.8 * true < found < true


def test_cycles_that_pairs_tell_at_one_moment_alone_are_not_aligned(tmp_path: Path) -> None:
    """Four milliseconds of queue creations do not tell how fast the cycles of the other 300 ms were counted."""
    scene = replace(
        BASE, seed=21, span_s=0.3, clock=CLOCKS["x86-tsc"], launch_gap_us=8000.0, threads=4, doorbell="none",
        queue_probe=True,
    )  # fmt: skip
    score = score_scene("cycles", scene, tmp_path)
    assert score.method == "unaligned"
    (warning,) = [w for w in Capture.open(tmp_path / "run.tracecorr").info["warnings"] if w.startswith("ftrace")]
    assert "pairs are too near to tell the rate of x86-tsc" in warning
