"""SYNTHETIC runs whose truth is known: what tracecorr links and how sure it is of its times."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest
from benchmarks.truth import Score, compare, score_scene
from simulated_scenes import BASE, CLOCKS, LOCAL, STRUCTURES, UNKNOWN_THREADS, totals
from simulator import ClockModel, simulate

from tracecorr.analyze.verdicts import Outcome, judge_capture
from tracecorr.pipeline import correlate, import_files
from tracecorr.store import Capture
from tracecorr.store.capture import write_info


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


# `scripts/bench truth` runs all clocks with samples, too, and each structure and release on several clocks.
@pytest.mark.parametrize(
    ("name", "samples_s"), [*((name, 0.0) for name in CLOCKS), ("local", 0.1), ("x86-tsc", 0.1), ("slew", 0.1)]
)
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
    assert score.identities["threads"][0] == options.get("processes", 1) * options.get("threads", 2)  # type: ignore[operator]


def test_a_link_by_time_is_no_surer_than_its_thread(tmp_path: Path) -> None:
    score_scene("container", replace(BASE, **STRUCTURES["container"]), tmp_path)  # type: ignore[arg-type]
    capture = Capture.open(tmp_path / "run.tracecorr")
    joined = capture.table("threads").filter(pl.col("tid").is_not_null() & pl.col("log_tid").is_not_null()).collect()
    assert set(joined["evidence"].cast(str)) == {"recorded"}
    links = capture.table("links").filter(pl.col("rule").is_in(["syscall_in_call", "ioctl_creates_queue"])).collect()
    found = set(links.select(pl.col("rule", "evidence").cast(pl.String)).iter_rows())
    assert found >= {("syscall_in_call", "derived")}
    assert {evidence for _, evidence in found} <= {"derived", "recorded", "inferred"}


@pytest.mark.parametrize("name", UNKNOWN_THREADS)
def test_threads_that_no_address_shows_stay_unknown(name: str, tmp_path: Path) -> None:
    """Links that need the thread are missing, none is wrong; links within the log and by a recorded ring stay."""
    score = score_scene(name, replace(BASE, **UNKNOWN_THREADS[name]), tmp_path)  # type: ignore[arg-type]
    assert score.identities["threads"][:2] == (0, 0)
    found, right, _, _ = totals(score)
    assert found == right
    need_thread = {"syscall_in_call", "ioctl_creates_queue"}
    if name != "rich doorbell":
        need_thread.add("doorbell_of_packet")
    for rule, (found, _, true, _) in score.links.items():
        assert found == (0 if rule in need_thread else true), rule
    assert score.unknown == 0 and score.covered[0] == score.covered[1]
    warnings = Capture.open(tmp_path / "run.tracecorr").info["warnings"]
    assert any(warning.startswith("no thread of the log was found in the trace") for warning in warnings)


@pytest.mark.parametrize(
    ("era", "direct_dispatch"),
    [("5.7", True), ("6.2", False), ("6.4", True), ("6.4", False), ("7.0", False), ("7.2", True)],
)
def test_the_truth_and_the_streams_are_found_in_every_release(era: str, direct_dispatch: bool, tmp_path: Path) -> None:
    """Each stream of a scene keeps its queue, so a dispatch of a wrong stream would give that one two queues."""
    scene = replace(BASE, era=era, threads=4, queues=4, streams=3, direct_dispatch=direct_dispatch)
    score = score_scene(era, scene, tmp_path)
    assert_complete(score)
    assert score.identities["threads"][0] == (4 if direct_dispatch else 8)
    capture = Capture.open(tmp_path / "run.tracecorr")
    assert_causal(capture)
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
    assert_complete(score)
    assert score.identities["queue GPUs"] == (32, 32, 32)
    assert score.links["doorbell_mapping"] == (8, 8, 8, 0)


def test_containers_that_are_alike_in_all_are_not_told_apart_by_guessing(tmp_path: Path) -> None:
    scene = replace(BASE, container=True, processes=3, same_layout=True, doorbell="rich")
    found, right, _, _ = totals(score_scene("alike", scene, tmp_path))
    assert found == right


def test_cycles_are_scaled_whatever_the_threads_do(tmp_path: Path) -> None:
    scene = replace(BASE, clock=CLOCKS["x86-tsc"], direct_dispatch=False)
    assert_complete(score_scene("cycles", scene, tmp_path))


@pytest.mark.parametrize("options", [UNKNOWN_THREADS["no doorbell"], STRUCTURES["stack reused"]], ids=str)
def test_a_local_clock_without_known_threads_is_unaligned(options: dict[str, object], tmp_path: Path) -> None:
    """No pair joins the sides; an address that two threads had needs the clock to tell them apart."""
    score = score_scene("local", replace(BASE, clock=LOCAL, **options), tmp_path)  # type: ignore[arg-type]
    found, right, _, _ = totals(score)
    assert (score.method, found) == ("unaligned", right)
    assert score.covered[0] == score.covered[1]
    (warning,) = [w for w in Capture.open(tmp_path / "run.tracecorr").info["warnings"] if w.startswith("ftrace:local")]
    assert "no clock samples, and no doorbell or queue creation that log and trace both show" in warning


def test_a_clock_of_jiffies_is_unaligned_and_links_nothing_wrong(tmp_path: Path) -> None:
    """Stamps of `uptime` are hundredths of a second: 25 of them in this run tell neither offset nor rate."""
    score = score_scene("uptime", replace(BASE, clock=ClockModel("uptime", 3 * 10**11)), tmp_path)
    found, right, _, _ = totals(score)
    assert (score.method, found) == ("unaligned", right)
    assert score.covered[0] == score.covered[1]
    (warning,) = [w for w in Capture.open(tmp_path / "run.tracecorr").info["warnings"] if w.startswith("ftrace:ticks")]
    assert "pairs are too close together to show the rate of ticks" in warning


@pytest.mark.parametrize("level", [3, 4])
def test_a_lower_level_links_less_and_nothing_wrong(level: int, tmp_path: Path) -> None:
    score = score_scene("level", replace(BASE, level=level), tmp_path)
    found, right, _, _ = totals(score)
    assert found == right
    assert score.identities["packets"] == (0, 0, 0)


@pytest.mark.parametrize("clock", ["local", "x86-tsc"])
def test_a_log_that_names_no_thread_is_not_aligned_and_the_reason_says_what_helps(clock: str, tmp_path: Path) -> None:
    """Level 3 prints neither pid nor tid: nothing tells whether the trace is of the same run."""
    score = score_scene("level", replace(BASE, level=3, clock=CLOCKS[clock]), tmp_path)
    assert score.method == "unaligned"
    (warning,) = [w for w in Capture.open(tmp_path / "run.tracecorr").info["warnings"] if w.startswith("ftrace")]
    assert "name neither process nor thread" in warning
    assert "AMD_LOG_LEVEL=4" in warning


@pytest.mark.parametrize(("clock", "samples_s", "options"), [
    ("mono", 0.0, {}), ("mono", 0.1, {"doorbell": "rich"}), ("mono", 0.0, {"doorbell": "none", "queue_probe": True}),
    ("mono", 0.0, {"doorbell": "none", "thread_events": ()}), ("mono", 0.0, {"thread_events": ()}),
    ("local", 0.0, {"doorbell": "rich"}), ("local", 0.1, {"doorbell": "none", "queue_probe": True}),
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


def test_completions_in_the_next_file_of_a_log_are_linked(tmp_path: Path) -> None:
    """The log of each process is written to two files, as after a rotation; the next process has the same pid."""
    made = simulate(replace(BASE, span_s=0.1, processes=2, reuse_pid=True, thread_events=()), tmp_path)
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


@pytest.mark.parametrize("era", ["5.7", "6.4"])
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
    assert "pairs are too close together to show the rate of x86-tsc" in warning
