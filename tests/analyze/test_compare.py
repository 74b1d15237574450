"""Two captures side by side: recorded ones with known differences, and SYNTHETIC series with known chances."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from analyze_tables import Rows, tables_of
from synthetic_run import make_run

from tracecorr.analyze.compare import Comparison, Side, compare_captures
from tracecorr.analyze.compare.latency import compare_latency, is_significant
from tracecorr.analyze.compare.quantiles import QUANTILES, Sample, count_independent, resample
from tracecorr.analyze.compare.rates import measure_rate, summarize_rate
from tracecorr.analyze.compare.sides import compare_kernels
from tracecorr.analyze.frames import Tables
from tracecorr.analyze.markdown import render_comparison
from tracecorr.pipeline import correlate, import_files


@pytest.fixture(scope="module")
def comparison(data_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Comparison:
    """Return the comparison of the RECORDED runs with one and with four streams."""
    sides = []
    for name in ("caseA-1stream", "caseB-4streams"):
        folder = data_folder / "captures" / name
        out = tmp_path_factory.mktemp("compare") / f"{name}.tracecorr"
        capture = import_files(out, [folder / "amd.log"], [folder / "ftrace.txt"], clock_samples=folder / "clock.json")
        correlate(capture.path)
        sides.append(Side(capture.name, capture.table, capture.info))
    return compare_captures(*sides)


def test_one_stream_against_four(comparison: Comparison) -> None:
    queues = {r["what"]: (r["a"], r["b"]) for r in comparison.frame("queues").to_dicts()}
    assert queues["queues with dispatches"] == (1, 4)
    assert queues["queues made by HIP (Created lines)"] == (2, 5)
    assert queues["streams that submitted"] == (1, 4)
    kernels = comparison.frame("kernels")
    assert kernels["only"].to_list() == ["both"] * 3
    assert kernels.select("name", "a_dispatches", "b_dispatches").rows()[:2] == [
        ("gemm16", 300, 300),
        ("vadd", 300, 300),
    ]
    assert "queues with dispatches: 1 in A, 4 in B" in comparison.findings
    assert "kernels: 3 in both, 0 only in A, 0 only in B" in comparison.findings
    assert comparison.frame("topology_b").height == 4


def test_comparison_is_printed_and_says_how_latencies_were_taken(comparison: Comparison) -> None:
    text = render_comparison(comparison)
    assert "AMD_LOG_LEVEL" in text
    assert "overhead" in text
    assert json.loads(json.dumps(comparison.as_dict()))["a"] == "caseA-1stream"


def test_a_capture_does_not_differ_from_itself() -> None:
    tables = tables_of(make_run())
    same = compare_captures(Side("x", tables), Side("x", tables))
    assert same.frame("queues")["difference"].to_list() == [0] * same.frame("queues").height
    assert set(same.frame("kernels")["only"]) == {"both"}
    assert not same.frame("verdicts")["differs"].any()
    assert not any(line.startswith("SIGNIFICANT") for line in same.findings)


def test_empty_captures_can_be_compared() -> None:
    empty = Side("nothing", tables_of({}))
    text = render_comparison(compare_captures(empty, empty))
    assert "no kernel on either side" in text


def test_streams_that_the_log_does_not_name_are_unknown() -> None:
    """Up to ROCm 6.4 no command says its stream: that is not a run without streams."""
    run = make_run()
    run["stream_queues"] = []
    run["launches"] = [{**row, "stream": None} for row in run["launches"]]
    found = compare_captures(Side("old", tables_of(run)), Side("new", tables_of(make_run())))
    queues = {r["what"]: (r["a"], r["b"], r["difference"]) for r in found.frame("queues").to_dicts()}
    assert queues["streams that submitted"] == (None, 1, None)
    assert "queues shared by streams: unknown in A, 0 in B" in found.findings
    text = render_comparison(found)
    assert "the log does not say which stream" in text and "no stream submitted" not in text


def test_what_no_packet_tells_is_no_sameness() -> None:
    """A kernel trace alone shows queues, but not what was submitted to them."""
    run = make_run() | {"stream_queues": [], "launches": []}
    found = compare_captures(Side("trace", tables_of(run)), Side("both", tables_of(make_run())))
    assert "queues shared by streams: unknown in A, 0 in B" in found.findings
    assert "queues with dispatches: unknown in A" in "\n".join(found.findings)
    assert "no stream submitted" not in render_comparison(found)


def series(rng: np.random.Generator, count: int, shift: int = 0) -> pl.DataFrame:
    """Return launches whose way from call to packet takes a random time, in steps of the log."""
    ns = (rng.gamma(4, 5, count).astype(np.int64) + shift) * 1000
    moments = ("return_ns", "doorbell_ns", "gpu_start_ns", "gpu_end_ns", "complete_ns")
    tellers = ("call_event", "event", "doorbell_event", "gpu_event")
    errors = (f"error_{end}_{teller}" for end in ("lo", "hi") for teller in tellers)
    empty = {c: pl.Series([None] * count, dtype=pl.Int64) for c in (*moments, *errors, "priority")}
    return pl.DataFrame({"kind": ["dispatch"] * count, "call_ns": np.zeros(count, np.int64), "packet_ns": ns} | empty)


def test_equal_runs_are_hardly_ever_called_different() -> None:
    rng = np.random.default_rng(5)
    wrong = [compare_latency(series(rng, 400), series(rng, 400), 0.95, 4000)["significant"].any() for _ in range(40)]
    assert sum(wrong) <= 6  # 5 % are expected; more than 6 of 40 has a chance below 1 %


@pytest.mark.parametrize(("few", "many"), [(34, 1113), (100, 1000)])
def test_a_few_of_equal_launches_are_hardly_ever_called_different_from_many(few: int, many: int) -> None:
    """SYNTHETIC launches of which 3 of 100 are slow: a few hold hardly a slow one, and show no P99."""
    rng = np.random.default_rng(1)

    def draw(count: int) -> pl.DataFrame:
        slow = rng.exponential(200_000, count) * (rng.random(count) < 0.03)
        return series(rng, count).with_columns(
            packet_ns=pl.Series((rng.normal(20_000, 1000, count) + slow).astype(int))
        )

    wrong = [compare_latency(draw(few), draw(many), 0.95, 4000)["significant"].any() for _ in range(40)]
    assert sum(wrong) <= 6


@pytest.mark.parametrize("count", [20, 24, 200, 2000])
def test_every_interval_holds_the_difference_that_was_measured(count: int) -> None:
    """Also of launches that come in a ramp: they are worth one, and their P99 then falls on their P50."""
    ramp = series(np.random.default_rng(1), count).with_columns(packet_ns=pl.int_range(count) * 20_000 + 100_000)
    even = series(np.random.default_rng(2), count)
    for first, second in ((even, ramp), (ramp, even), (ramp, ramp)):
        for row in compare_latency(first, second, 0.5, 2000).to_dicts():
            assert row["low_ns"] <= row["difference_ns"] <= row["high_ns"]
    jitter = compare_latency(even, ramp, 0.95, 2000).row(3, named=True)
    assert jitter["statistic"] == "jitter" and not jitter["significant"]  # one value tells no spread


def test_a_jitter_between_few_independent_values_is_not_significant() -> None:
    """Without bounds the ramp's jitter resamples to 0, and would be called smaller than any other."""
    rng = np.random.default_rng(3)
    ramp = series(rng, 100).with_columns(packet_ns=pl.int_range(100) * 400 + 10_000)
    wide = series(rng, 2000)
    row = compare_latency(wide, ramp, 0.95, 2000).row(3, named=True)
    assert row["statistic"] == "jitter" and row["difference_ns"] < -5_000
    assert not row["significant"] and row["low_ns"] < row["difference_ns"] < 0 < row["high_ns"]
    widest = int(wide["packet_ns"].max() - wide["packet_ns"].min())  # type: ignore[operator]
    assert (row["low_ns"], row["high_ns"]) == (-widest, 99 * 400)


def test_intervals_are_as_wide_as_all_rows_of_the_table_together_need() -> None:
    """Two stages are twice as many rows: each of their intervals is that of one stage at half the risk."""
    rng = np.random.default_rng(9)
    first, second = series(rng, 300), series(rng, 300)
    both = [side.with_columns(return_ns="packet_ns") for side in (first, second)]
    together = compare_latency(both[0], both[1], 0.95, 2000).filter(stage="call to packet")
    assert together.equals(compare_latency(first, second, 0.975, 2000))


@pytest.mark.parametrize(
    ("difference", "low", "high", "significant"),
    [
        (2_000, 1, 3_000, True), (2_000, 0, 3_000, False), (-2_000, -3_000, -1, True), (-2_000, -3_000, 0, False),
        (1_000, 1, 3_000, True), (999, 1, 3_000, False), (-1_000, -3_000, -1, True), (-999, -3_000, -1, False),
    ],
)  # fmt: skip
def test_a_significant_difference_is_beyond_chance_and_the_step_of_the_stamps(
    difference: int, low: int, high: int, significant: bool
) -> None:
    assert is_significant(difference, low, high) == significant


def test_a_side_without_a_source_is_named() -> None:
    log = tables_of({"files": [{"file": 0, "source": "amd_log"}]})
    both = tables_of({"files": [{"file": 0, "source": "amd_log"}, {"file": 1, "source": "ftrace"}]})
    found = compare_captures(Side("a", log), Side("b", both)).findings
    assert found[0].startswith("A has no kernel trace: its ioctls")
    assert not any("HIP log" in line for line in found)
    assert any("no latency is compared" in line for line in found)
    neither = compare_captures(Side("a", tables_of({})), Side("b", tables_of({}))).findings
    assert neither[0].startswith("A and B have no HIP log")


def test_what_a_trace_without_ioctls_does_not_tell_is_no_number() -> None:
    """It holds forks and ends of processes only, say."""
    silent = {"files": [{"file": 1, "source": "ftrace"}], "events": [{"event": 0, "layer": "sched"}]}
    found = compare_captures(Side("a", tables_of(make_run())), Side("b", tables_of(silent)))
    assert any(line.startswith("ioctls: ") and line.endswith(" unknown in B") for line in found.findings)
    [queues] = [section for section in found.sections if section.key == "queues"]
    assert queues.evidence.endswith("; not recorded in B")
    assert queues.frame["b"].null_count() == queues.frame.height


def test_dispatches_are_compared_and_an_unknown_kernel_is_none_of_its_own() -> None:
    one, other = make_run(), make_run()
    one["launches"] = one["launches"][:1]
    other["launches"][1]["kernel"] = None
    found = compare_captures(Side("a", tables_of(one)), Side("b", tables_of(other))).findings
    assert "dispatches: 1 in A, 2 in B (1000000.0 per second)" in found
    assert "kernels: 1 in both, 0 only in A, 0 only in B" in found
    assert not any("has no packet" in line for line in found)


def test_a_log_without_packets_is_named() -> None:
    calls = make_run()
    calls["launches"] = []
    found = compare_captures(Side("a", tables_of(make_run())), Side("b", tables_of(calls))).findings
    assert found[0].startswith("the HIP log of B has no packet")
    assert any(line.startswith("dispatches: 2 in A") and line.endswith(", unknown in B") for line in found)
    assert "kernels: 1 in A, unknown in B" in found


@pytest.mark.parametrize(
    ("first_ns", "told"),
    [(400, "400 ns in A, 5.40 us in B, +1250.0 % "), (0, "0 ns in A, 5.00 us in B ")],
)  # fmt: skip
def test_what_differs_is_said_in_words_and_the_rest_is_counted(first_ns: int, told: str) -> None:
    def side(late_ns: int) -> Rows:
        run, moments = make_run(), range(0, 2_000_000, 100_000)
        known = {**run["launches"][0], "doorbell_ns": None, "doorbell_event": None}
        run["launches"] = [
            {**known, "event": 100 + n, "call_ns": ns, "packet_ns": ns + first_ns + late_ns, "return_ns": ns + 9_000}
            for n, ns in enumerate(moments)
        ]
        return run

    a, b = side(0), side(5_000)
    b["hqd"][1]["quantum"] = 0x110
    found = compare_captures(Side("a", tables_of(a)), Side("b", tables_of(b)))
    ends = "(difference between 5.00 us and 5.00 us, each time a whole us)"
    assert found.findings == (
        "queues with dispatches: 1 in A, 1 in B (no difference)",
        "queues made by HIP (Created lines): 1 in A, 1 in B (no difference)",
        "queues shared by streams: 0 in A, 0 in B (no difference)",
        "dispatches: 20 in A (10000.0 per second), 20 in B (10000.0 per second)",
        "kernels: 1 in both, 0 only in A, 0 only in B",
        "HIP functions: 3 in both, 0 only in A, 0 only in B",
        "ioctls: 2 in both, 0 only in A, 0 only in B",
        *(f"SIGNIFICANT call to packet of dispatch, {which}: {told}{ends}" for which in ("p50", "p95", "p99")),
        "5 of 8 latency figures do not differ significantly",
        "verdict hqd_quantum: PASS in A, FAIL in B",
    )
    verdicts = found.frame("verdicts")
    assert verdicts.select("verdict", "a", "b").row(0) == ("hqd_quantum", "PASS", "FAIL")
    assert verdicts["differs"].to_list() == [True] + [False] * (verdicts.height - 1)


_LEVEL_5 = {"environment": {"AMD_LOG_LEVEL": "5"}}


@pytest.mark.parametrize(
    ("layers", "info", "level", "trace", "probe"),
    [
        (("hip", "ioctl", "doorbell"), _LEVEL_5, "5", "yes", "yes"),
        (("hip", "syscall"), {}, "3 or more (no packet is printed)", "yes", "no"),
        (("hip", "command"), {"environment": ["AMD_LOG_LEVEL"]}, "4 or more (no packet is printed)", "no", "no"),
        (("kfd",), {"environment": {}}, "no log", "yes", "no"),
        ((), {}, "no log", "no", "no"),
    ],
)
def test_the_conditions_of_a_capture_are_told(
    layers: tuple[str, ...], info: dict[str, Any], level: str, trace: str, probe: str
) -> None:
    events = [{"event": n, "ts_ns": n, "layer": layer} for n, layer in enumerate(layers)]
    side = Side("a", tables_of({"events": events}), info)
    told = {row["condition"]: row["a"] for row in compare_captures(side, side).frame("conditions").to_dicts()}
    assert (told["AMD_LOG_LEVEL"], told["kernel trace"], told["doorbell probe"]) == (level, trace, probe)
    assert told["cost of an event"].startswith("not measured")


def test_a_level_that_prints_copies_and_no_packets_is_told() -> None:
    copies = make_run()
    copies["launches"] = [row for row in copies["launches"] if row["kind"] == "copy"]
    found = compare_captures(Side("a", tables_of(make_run())), Side("b", tables_of(copies)))
    assert found.findings[0].startswith("the HIP log of B has no packet")
    assert "queues with dispatches: 1 in A, unknown in B" in found.findings
    levels = {r["condition"]: (r["a"], r["b"]) for r in found.frame("conditions").to_dicts()}["AMD_LOG_LEVEL"]
    assert levels[0].startswith("4 or more (packets and commands") and levels[1] == "4 or more (no packet is printed)"
    calls = make_run() | {"launches": []}
    told = compare_captures(Side("a", tables_of(calls)), Side("b", tables_of(calls))).frame("conditions")
    assert told["a"][0] == "3 or more (no packet is printed)"


def test_the_lines_of_the_log_alone_are_counted_per_dispatch() -> None:
    rows = {
        "ledger": [
            {"source": "amd_log", "records": 60},
            {"source": "amd_log", "outcome": "skipped", "reason": "program_output", "records": 30},
            {"source": "amd_log", "outcome": "skipped", "reason": "blank_line", "records": 7},
            {"source": "ftrace", "records": 900},
        ],
        "launches": [*({"event": n, "kind": "dispatch"} for n in range(3)), {"event": 3, "kind": "barrier_and"}],
    }
    told = compare_captures(Side("a", tables_of(rows)), Side("b", tables_of({}))).frame("conditions").to_dicts()
    assert ("log lines per dispatch", "20.0", "-") in [tuple(row.values()) for row in told]
    # A page shows the cells of a table as they are.
    assert not [row for row in told if "`" in row["a"]]


def test_bytes_that_no_line_tells_are_not_0() -> None:
    """The log says nothing of how much a blit kernel copies."""
    blits = make_run()
    blits["kernels"] = [{"kernel": 0, "name": "__amd_rocclr_copyBuffer"}]
    side = Side("a", tables_of(blits))
    rows = {row["path"]: row for row in compare_captures(side, side).frame("copies").to_dicts()}
    assert (rows["copy engine (SDMA)"]["a_bytes"], rows["copy engine (SDMA)"]["b_bytes"]) == (4096, 4096)
    blit = rows["blit kernel __amd_rocclr_copyBuffer"]
    assert (blit["a_copies"], blit["a_bytes"], blit["b_bytes"]) == (2, None, None)


def test_a_shift_is_found_and_lies_in_its_interval() -> None:
    rng = np.random.default_rng(6)
    rows = {r["statistic"]: r for r in compare_latency(series(rng, 2000), series(rng, 2000, 5), 0.95, 4000).to_dicts()}
    assert rows["p50"]["significant"]
    assert rows["p50"]["low_ns"] <= 5000 <= rows["p50"]["high_ns"]
    assert not rows["jitter"]["significant"]


def test_another_mix_of_priorities_is_no_other_latency() -> None:
    """Packets of low priority take 5 us longer, on both sides; B has more of them."""
    rng = np.random.default_rng(9)

    def side(high: int, low: int) -> pl.DataFrame:
        parts = ((high, 2, 0), (low, 0, 5))
        return pl.concat([series(rng, n, shift).with_columns(priority=pl.lit(p)) for n, p, shift in parts if n])

    mixed = compare_latency(side(1500, 500), side(500, 1500), 0.95, 2000)
    assert not mixed["significant"].any()
    assert mixed["kind"].unique().sort().to_list() == ["dispatch, log priority 0", "dispatch, log priority 2"]
    # Runs that have one priority each are compared as they are: that may be what is asked.
    alone = compare_latency(side(1500, 0), side(0, 1500), 0.95, 2000)
    assert alone["kind"].unique().to_list() == ["dispatch"] and alone["significant"].any()


def test_the_median_of_each_kernel_is_compared_where_there_are_enough_launches() -> None:
    rng = np.random.default_rng(7)
    names = {"slower": 400, "same": 400, "rare": 5}

    def side(shift: int) -> tuple[Tables, pl.DataFrame]:
        launches = [{"kind": "dispatch", "kernel": k} for k, n in enumerate(names.values()) for _ in range(n)]
        kernels = [{"kernel": k, "name": name} for k, name in enumerate(names)]
        steady = [
            series(rng, count, shift if name == "slower" else 0).with_columns(kernel_name=pl.lit(name))
            for name, count in names.items()
        ]
        copies = steady[0].with_columns(pl.lit("copy").alias("kind"), pl.col("packet_ns") * 1_000)
        return tables_of({"launches": launches, "kernels": kernels}), pl.concat([*steady, copies])

    (first, a), (second, b) = side(0), side(5)
    rows = {row["name"]: row for row in compare_kernels(first, second, (a, b), 0.95, 4000).to_dicts()}
    assert rows["slower"]["significant"] and not rows["same"]["significant"]
    assert rows["slower"]["low_ns"] <= 5000 <= rows["slower"]["high_ns"]
    assert rows["slower"]["difference_ns"] == rows["slower"]["b_p50_ns"] - rows["slower"]["a_p50_ns"]
    assert (rows["rare"]["a_dispatches"], rows["rare"]["a_p50_ns"], rows["rare"]["significant"]) == (5, None, None)


def test_what_the_clocks_may_be_apart_is_not_called_significant() -> None:
    """Doorbells of a trace that is known to 9 us are 5 us later in B: that may be its clock alone."""
    rng = np.random.default_rng(6)
    first, second = (
        series(rng, 2000, shift).with_columns(
            doorbell_ns="packet_ns", packet_ns=pl.lit(0, pl.Int64), error_lo_event=0, error_hi_event=1_000
        )
        for shift in (0, 5)
    )
    exact = [side.with_columns(error_lo_doorbell_event=0, error_hi_doorbell_event=0) for side in (first, second)]
    wide = [side.with_columns(error_lo_doorbell_event=8_000, error_hi_doorbell_event=9_000) for side in (first, second)]

    def median(sides: list[pl.DataFrame]) -> dict[str, Any]:
        found = compare_latency(sides[0], sides[1], 0.95, 4000).filter(stage="packet to doorbell")
        return found.row(0, named=True)

    assert median(exact)["significant"] and median(exact)["clock_error_ns"] == 2_000
    assert not median(wide)["significant"] and median(wide)["clock_error_ns"] == 18_000
    assert median(wide)["high_ns"] - median(exact)["high_ns"] == 16_000
    assert not median([first, second])["significant"] and median([first, second])["clock_error_ns"] is None


def test_less_than_a_step_of_the_log_is_not_significant() -> None:
    first = series(np.random.default_rng(7), 5000)
    second = first.with_columns(pl.col("packet_ns") + 500)
    assert not compare_latency(first, second, 0.95, 1000)["significant"].any()


def test_resampling_agrees_with_drawing_samples() -> None:
    rng = np.random.default_rng(8)
    values = rng.exponential(1000, 300).astype(np.int64)
    drawn = np.sort(values[rng.integers(0, 300, (20_000, 300))], axis=1)[:, [149, 284, 296]]
    ours = resample(Sample(np.sort(values), 300.0), QUANTILES, 20_000, rng)
    assert np.abs(drawn.mean(0) / ours.mean(0) - 1).max() < 0.01
    assert np.abs(np.quantile(drawn, 0.9, axis=0) / np.quantile(ours, 0.9, axis=0) - 1).max() < 0.03
    assert (np.diff(ours, axis=1) >= 0).all()


def test_values_that_come_in_runs_count_less() -> None:
    alike = np.repeat(np.arange(10) % 2, 100).astype(np.int64)
    assert count_independent(alike) < 20
    assert count_independent(np.random.default_rng(1).integers(0, 9, 1000)) > 800
    assert count_independent(np.array([3, 3, 3, 3])) == 4
    # Neighbours agree 4 times and differ 3 times: r = 1 / 7.
    assert count_independent(np.array([1, 1, 9, 9, 1, 1, 9, 9])) == pytest.approx(6)


def test_a_sample_that_is_worth_one_value_may_be_any_of_its_values() -> None:
    found = resample(Sample(np.arange(10), 1.0), QUANTILES, 1000, np.random.default_rng(2))
    assert set(found[:, 0]) == set(range(10))
    assert (found == found[:, :1]).all()


def test_rate_counts_every_dispatch_once() -> None:
    launches = [{"event": i, "kind": "dispatch", "packet_ns": 7_055 + t} for i, t in enumerate((0, 1, 99, 999))]
    tables = tables_of({"launches": [*launches, {"event": 9, "kind": "copy", "packet_ns": 50_000}]})
    rates = measure_rate(tables, slices=10)
    assert rates["dispatches"].to_list() == [3, 0, 0, 0, 0, 0, 0, 0, 0, 1]
    assert rates["from_start_ns"].to_list() == list(range(0, 1000, 100))
    assert rates["per_second"][0] == 3e7
    told = summarize_rate(tables)
    assert (told["dispatches"], told["span_ns"], told["per_second"], told["idle_slices"]) == (4, 999, 3003003.0, 97)
    assert measure_rate(tables_of({})).is_empty()
