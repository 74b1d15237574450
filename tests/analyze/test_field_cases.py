"""Small inputs from the field, of which the right numbers are known."""

from __future__ import annotations

import functools
import shutil
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from tracecorr.analyze.report import Report, summarize_capture
from tracecorr.analyze.report.brief import render_brief
from tracecorr.pipeline import correlate, import_files
from tracecorr.store import Capture

Opener = Callable[..., Capture]
_TRACES = ("fg.txt", "garb2.txt")


@pytest.fixture(scope="module")
def opened(data_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Opener:
    """Return what imports cases by the names of their files, each combination once: no test may change the capture."""

    @functools.cache
    def make(*names: str) -> Capture:
        paths = [data_folder / "cases" / "field" / name for name in names]
        logs, traces = ([p for p in paths if p.suffix == ".txt" and (p.name in _TRACES) == is_trace]
                        for is_trace in (False, True))  # fmt: skip
        out = tmp_path_factory.mktemp("case") / "x.tracecorr"
        made = import_files(out, logs, traces, rocprof=[p for p in paths if p.suffix == ".csv"])
        correlate(made.path)
        return Capture.open(made.path)

    return make


@functools.cache
def _report(capture: Capture) -> Report:
    return summarize_capture(capture.name, capture.table, capture.info)


def _section(capture: Capture, key: str) -> pl.DataFrame:
    return next(section.frame for section in _report(capture).sections if section.key == key)


def test_a_failed_allocation_holds_no_bytes(opened: Opener) -> None:
    (row,) = _section(opened("failalloc.txt"), "memory").to_dicts()
    counts = ("allocations", "bytes", "peak_bytes", "failed", "failed_bytes")
    assert [row[name] for name in counts] == [1, 4096, 4096, 1, 153_344]


@pytest.mark.parametrize("name", ["triton.txt", "omp.csv"])
def test_kernel_names_that_differ_at_the_end_stay_two(opened: Opener, name: str) -> None:
    kernels = opened(name).table("kernels").collect()
    assert kernels["display"].n_unique() == kernels["name"].n_unique() == 2
    assert kernels["display"].str.len_chars().max() == 64


@pytest.mark.parametrize("names", [("cc.csv",), ("cc.csv", "kt.csv"), ("kt.csv", "cc.csv")])
def test_counters_are_values_of_their_dispatch(opened: Opener, names: tuple[str, ...]) -> None:
    report = _report(opened(*names))
    frames = {section.key: section.frame for section in report.sections}
    timed = frames["rocprof"].select("domain", "name", "calls", "total_ns").rows()
    assert timed == [("KERNEL_DISPATCH", "k1(float*)", 1, 2000), ("KERNEL_DISPATCH", "k2(float*)", 1, 1000)]
    assert frames["counters"].select("kernel", "counter", "dispatches", "total").rows() == [
        ("k1", "GRBM_GUI_ACTIVE", 1, 4000), ("k1", "SQ_WAVES", 1, 96),
        ("k2", "GRBM_GUI_ACTIVE", 1, 2000), ("k2", "SQ_WAVES", 1, 96),
    ]  # fmt: skip
    assert report.summary["profiled"] == (1, int("kt.csv" in names))


def test_a_folder_of_rocprofv3_is_taken_whole(data_folder: Path, tmp_path: Path) -> None:
    """Its traces and counters are read, sums and other formats are left out."""
    out = tmp_path / "out" / "host"
    out.mkdir(parents=True)
    for name, to in (("cc.csv", "7_counter_collection.csv"), ("kt.csv", "7_kernel_trace.csv")):
        shutil.copy(data_folder / "cases" / "field" / name, out / to)
    (out / "7_kernel_stats.csv").write_text('"Name","Calls","TotalDurationNs"\n"k1(float*)",1,2000\n')
    (out / "7_results.pftrace").write_bytes(bytes(16))
    made = import_files(tmp_path / "x.tracecorr", [], [], rocprof=[tmp_path / "out"])
    correlate(made.path)
    assert [entry["path"] for entry in made.info["files"]] == [
        "raw/rocprof/0-7_kernel_trace.csv", "raw/rocprof/1-7_counter_collection.csv",
    ]  # fmt: skip
    assert [tuple(row.values())[1:3] for row in _section(made, "rocprof").to_dicts()] == [
        ("k1(float*)", 1), ("k2(float*)", 1),
    ]  # fmt: skip


_GIVEN = ("vgpr", "sgpr", "lds", "scratch", "kernarg_bytes")


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("omp.csv", [(20, 64, 0, 0, None), (24, 64, 512, 16, None)]),
        ("triton.txt", [(None, None, 65_536, 128, None)] * 2),
        ("cc.csv", [(8, 128, 0, 0, None)] * 2),
    ],
)
def test_kernels_tell_what_the_compiler_gave_them(
    opened: Opener, name: str, given: list[tuple[int | None, ...]]
) -> None:
    assert opened(name).table("kernels").select(_GIVEN).collect().rows() == given


def test_a_ring_whose_size_is_not_known_tells_how_full_it_got(opened: Opener) -> None:
    verdicts = {verdict.name: verdict for verdict in _report(opened("triton.txt")).verdicts}
    assert verdicts["queue_backlog"].finding.reason.endswith("the fullest ring held at most 1 packet (queue 0)")


@pytest.mark.parametrize(("name", "kinds"), [("newclr.txt", (3, 1, 1, 0)), ("vpipe.txt", (2, 0, 0, 1))])
def test_forms_of_newer_runtimes_are_read(opened: Opener, name: str, kinds: tuple[int, ...]) -> None:
    made = opened(name)
    found = made.table("launches").collect()["kind"].cast(pl.String).to_list()
    names = ("dispatch", "barrier_and", "barrier_value", "barrier_or")
    assert tuple(found.count(kind) for kind in names) == kinds
    assert made.table("ledger").collect()["reason"].cast(pl.String).to_list() == [""]


_WRONG = {
    "hangdump.txt": [
        "the queue aborted at kernel k_gemm_fp16, grid 4608 x 1 x 1, workgroup 384 x 1 x 1, LDS 65,536 bytes, queue "
        "0x74b60c100000, rptr 1111, wptr 1112",
        "then: the runtime's log has this fatal error, once: Callback: Queue 0x74b60c100000 aborting with error : "
        "HSA_STATUS_ERROR_INVALID_ISA: The instruction set architecture is invalid. code: 0x100f",
        "then: printed beside the log, once: Aborted (core dumped)",
    ],
    "cut.txt": [
        "the runtime's log has this error, once: HW Exception Error",
        "then, 1.00 us later: the runtime's log has this error, once: Something bad happened here, continuation of the "
        "text",
        "then, 5.00 us later: the runtime's log has this fatal error, once: Memory Fault Error [GPU index: 0, faulting "
        "addr: 0x7f8773509000, kernel: k1]",
    ],
    "assert.txt": ["printed beside the log, 3 times: :0: : Device-side assertion `i < n' failed."],
    "nobin.txt": [
        "the runtime's log has this error, once: hipErrorNoBinaryForGpu: Unable to find code object for all current "
        "devices! No code object for gfx1036; found for gfx1100",
    ],
    "failalloc.txt": [
        "the runtime's log has this error, once: Fail allocation local memory",
        "then, 6.00 us later: hipMalloc returned hipErrorOutOfMemory once",
        "allocate_device: 1 allocation failed (153,344 bytes), 1 succeeded; at most 4,096 bytes were held at once "
        "(section Memory)",
    ],
    "opencall.txt": [
        "printed beside the log, once: bash: line 1: 7001 Segmentation fault      (core dumped) ./app",
    ],
}


@pytest.mark.parametrize("name", list(_WRONG))
def test_what_went_wrong_begins_with_the_first_failure(opened: Opener, name: str) -> None:
    made = opened(name)
    (answer,) = (answer for answer in _report(made).answers if answer.question == "What went wrong?")
    lines = [line.partition(" (first: ")[0].partition(" (event ")[0] for line in answer.lines]
    assert lines == _WRONG[name]
    ledger = made.table("ledger").collect()
    assert ledger["reason"].cast(pl.String).to_list() == [""] and not made.table("losses").collect().height


# What the first lines of each report must say: the answer to what its thread asked.
_SCREEN = {
    ("cc.csv", "kt.csv"): [
        "rocprof: 2 kernel dispatches", "| k1(float*) | 1 | 2.00 us |", "| k2(float*) | 1 | 1.00 us |",
        "| k1 | GRBM_GUI_ACTIVE | 1 | 4000.0 |", "| k2 | SQ_WAVES | 1 | 96.0 |",
    ],
    ("cc.csv",): ["| k1(float*) | 1 | 2.00 us |", "| k1 | SQ_WAVES | 1 | 96.0 |"],
    ("omp.csv",): ["boundary_conditions_l24 | 1 | 10.00 us |", "boundary_conditions_l28 | 1 | 30.00 us |"],
    ("triton.txt",): ["r_norm_pow_rsqrt_view_12 | 1 |", "r_norm_pow_rsqrt_view_31 | 2 |"],
    ("fg.txt",): ["| AMDKFD_IOC_CREATE_QUEUE | 1 | 21.66 us |", "| kfd_ioctl_create_queue | 1 | 1.10 us |"],
    ("garb2.txt",): ["2 DRM jobs", "FAIL `nothing_lost`: 1 record was lost", "Records lost: 1."],
    ("failalloc.txt",): ["1 allocation failed (153,344 bytes), 1 succeeded; at most 4,096 bytes"],
    ("hangdump.txt",): ["kernel k_gemm_fp16, grid 4608 x 1 x 1", "queue 0x74b60c100000, rptr 1111, wptr 1112"],
    ("cut.txt",): ["HW Exception Error", "faulting addr: 0x7f8773509000, kernel: k1]"],
    ("assert.txt",): ["3 times: :0: : Device-side assertion `i < n' failed.", "Records lost: 0."],
    ("nobin.txt",): ["No code object for gfx1036"],
    ("opencall.txt",): ["the log ends inside hipMemcpyWithStream", "open for at least 799.93 ms", "Segmentation fault"],
    ("newclr.txt",): ["3 dispatches of 1 kernel; 5 packets and copies", "| 0 | 0 | compute_aql | 3 | 2 |"],
    ("vpipe.txt",): ["2 dispatches of 2 kernels; 3 packets and copies", "| k_first | 1 |", "| k_second | 1 |"],
}  # fmt: skip


@pytest.mark.parametrize("names", _SCREEN)
def test_the_first_screen_answers_the_question_of_each_case(opened: Opener, names: tuple[str, ...]) -> None:
    told = "\n".join(render_brief(_report(opened(*names))).splitlines()[:40])
    assert [words for words in _SCREEN[names] if words not in told] == []


def test_lines_without_a_prefix_and_records_without_a_cpu_are_not_used(opened: Opener) -> None:
    ledger = opened("garb2.txt").table("ledger").with_columns(pl.col("outcome", "reason").cast(pl.String)).collect()
    assert ledger.select("outcome", "reason", "records").sort(pl.all()).rows() == [
        ("skipped", "broken_record", 1), ("skipped", "no_record_prefix", 1), ("used", "", 2),
    ]  # fmt: skip
    assert any("could not be read" in warning for warning in opened("garb2.txt").info["warnings"])


def test_printed_durations_of_functions_are_theirs(opened: Opener) -> None:
    calls = opened("fg.txt").table("events").select(pl.col("name").cast(pl.String), "dur_ns").collect()
    assert calls.rows() == [("AMDKFD_IOC_CREATE_QUEUE", 21_663), ("kfd_ioctl_create_queue", 1_104)]
