"""Jobs of the gpu_scheduler: recorded kernels 6.1 and 7.3 whose scheduler ran jobs of a module without hardware."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from tracecorr.link.drm_jobs import ring_kind
from tracecorr.pipeline import correlate, import_files
from tracecorr.store import Capture

Correlator = Callable[[str], Capture]
HERE = Path(__file__).parent
COLUMNS = ["dev", "ring", "ring_kind", "fence", "id", "client_id", "queued_ns", "run_ns", "done_ns"]


def _correlate(trace: Path, out: Path) -> Capture:
    import_files(out, [], [trace], clock="mono")
    correlate(out)
    return Capture.open(out)


def _rows(capture: Capture) -> list[dict[str, str]]:
    jobs = capture.table("drm_jobs").select(pl.col(COLUMNS).cast(pl.String).fill_null("")).collect()
    return jobs.to_dicts()


def _expected(name: str) -> list[dict[str, str]]:
    return list(csv.DictReader((HERE / name).read_text().splitlines()))


def test_old_naming_of_kernel_6_1(data_folder: Path, tmp_path: Path) -> None:
    """Two fences of the first jobs lie where fences of later jobs lie again."""
    capture = _correlate(data_folder / "vm" / "bookworm-mocksched" / "sched.trace.txt", tmp_path / "old.tracecorr")
    assert _rows(capture) == _expected("drm_jobs-6.1.csv")
    _assert_links(capture)


def _with_gap(trace: Path, out: Path, lost: Callable[[str, float], bool]) -> Path:
    """Write a recorded trace (old naming) without some of its records, with the line that the kernel prints there."""
    lines, lost_on = [], ""
    for line in trace.read_text().splitlines(keepends=True):
        found = re.search(r"\[(\d+)\] \S+ +(\d+\.\d+): ", line)
        if found and lost(line, float(found[2])):
            lost_on = found[1]
            continue
        lines += [f"CPU:{int(lost_on)} [LOST 2 EVENTS]\n"] if lost_on else []
        lines.append(line)
        lost_on = ""
    out.write_text("".join(lines))
    return out


def test_records_that_name_two_rings_are_of_two_jobs(data_folder: Path, tmp_path: Path) -> None:
    """Of a fence that two jobs had the run and end of the first, and the queueing of the second, are lost."""
    whole = data_folder / "vm" / "bookworm-mocksched" / "sched.trace.txt"
    of_fence = [line for line in whole.read_text().splitlines() if "fence=0000000084defbfb" in line]
    lacking = {line + "\n" for line in of_fence[1:4]}
    trace = _with_gap(whole, tmp_path / "gap.txt", lambda line, _: line in lacking)
    jobs = [job for job in _rows(_correlate(trace, tmp_path / "x.tracecorr")) if job["fence"] == "0x84defbfb"]
    told = [[name for name in ("queued_ns", "run_ns", "done_ns") if job[name]] for job in jobs]
    assert [(job["ring"], job["id"]) for job in jobs] == [("comp_1.0.0", "2"), ("gfx_0.0.0", "5")]
    assert told == [["queued_ns"], ["run_ns", "done_ns"]]


def test_new_naming_of_kernel_7_3(tmp_path: Path) -> None:
    capture = _correlate(HERE / "mocksched-7.3" / "trace.txt", tmp_path / "new.tracecorr")
    assert _rows(capture) == _expected("drm_jobs-7.3.csv")
    _assert_links(capture)
    submitters = capture.table("drm_jobs").select("process", "thread").unique().collect()
    assert submitters.height == 1 and submitters.null_count().row(0) == (0, 0)
    assert capture.table("processes").collect()["pid"].to_list()[submitters["process"][0]] == 129


def test_fences_of_the_draft_are_named_as_those_of_the_new_naming(tmp_path: Path) -> None:
    """SYNTHETIC trace, in the form that was posted for review in 2024."""
    line = " app:cs0-6498 [016] ..... 735.{us:06}: {name}: {more}fence=(context:7914, seqno:920), ring=gfx\n"
    lines = (("drm_sched_job", "id=5, "), ("drm_run_job", "dev=0000:0e:00.0, id=5, "))
    trace = tmp_path / "draft.txt"
    trace.write_text("# tracer: nop\n" + "".join(line.format(us=n, name=a, more=b) for n, (a, b) in enumerate(lines)))
    (job,) = _rows(_correlate(trace, tmp_path / "draft.tracecorr"))
    assert (job["fence"], job["id"], int(job["run_ns"]) - int(job["queued_ns"])) == ("7914:920", "5", 1_000)


def test_text_and_pages_of_one_recording_give_the_same_jobs(tmp_path: Path) -> None:
    text = _rows(_correlate(HERE / "mocksched-7.3" / "trace.txt", tmp_path / "text.tracecorr"))
    pages = _rows(_correlate(HERE / "mocksched-7.3" / "raw", tmp_path / "pages.tracecorr"))
    for one, other in zip(text, pages, strict=True):
        for column in COLUMNS:
            if column.endswith("_ns"):
                assert abs(int(one[column]) - int(other[column])) <= 500
            else:
                assert one[column] == other[column]


def _assert_links(capture: Capture) -> None:
    links = capture.table("links").filter(pl.col("rule").cast(pl.String) == "drm_job").collect()
    jobs = capture.table("drm_jobs").collect()
    wanted = [*zip(jobs["queue_event"], jobs["run_event"], strict=True),
              *zip(jobs["run_event"], jobs["done_event"], strict=True)]  # fmt: skip
    assert sorted(links.select("from_event", "to_event").rows()) == sorted(wanted)
    assert (links["gap_ns"] >= 0).all() and set(links["evidence"].cast(str)) == {"recorded"}


FIELDS = "dev=0000:03:00.0, fence=5:{n}, ring={ring}, job count:0, hw job count:0, client_id:7"
QUEUE = f"a-10 10 drm_sched_job_queue: {FIELDS}"
RUN = f"kworker/1:2-9 9 drm_sched_job_run: {FIELDS}"
DONE = "<idle>-0 0 drm_sched_job_done: fence=5:{n} signaled"


def test_a_job_that_is_half_seen_has_only_the_times_that_were_seen(correlate_trace: Correlator) -> None:
    """Queued only, run without its queueing, and an end of a job that began before the trace (synthetic)."""
    lines = [DONE.format(n=1), RUN.format(n=2, ring="sdma0"), DONE.format(n=2), QUEUE.format(n=3, ring="comp_1.0.0")]
    jobs = correlate_trace("\n".join(lines)).table("drm_jobs").collect()
    seen = jobs.select("fence", "ring_kind", *(pl.col(f"{s}_ns").is_not_null() for s in ("queued", "run", "done")))
    assert seen.rows() == [("5:2", "sdma", False, True, True), ("5:3", "kcq", True, False, False)]


def test_a_fence_that_is_used_again_is_another_job(correlate_trace: Correlator) -> None:
    """Old naming: the kernel frees a fence and puts the next one at its place (synthetic)."""
    fields = "entity=00000000aa, id={n}, fence=00000000bbbbbbbb, ring=sdma0, job count:0, hw job count:0"
    lines = []
    for n in (1, 2):
        lines += [f"a-10 10 drm_sched_job: {fields.format(n=n)}", f"sdma0-9 9 drm_run_job: {fields.format(n=n)}"]
        lines += ["<idle>-0 0 drm_sched_process_job: fence=00000000bbbbbbbb signaled"]
    jobs = correlate_trace("\n".join(lines)).table("drm_jobs").collect()
    assert jobs.select("id", "queue_event", "run_event", "done_event").rows() == [(1, 0, 1, 2), (2, 3, 4, 5)]


def test_jobs_of_one_fence_whose_steps_were_lost_stay_apart(correlate_trace: Correlator) -> None:
    """The first one lacks its queueing and end, the second one its queueing, the third one its run (synthetic)."""
    fields = "entity=00000000aa, id={n}, fence=00000000bbbbbbbb, ring=sdma0, job count:0, hw job count:0"
    done = "<idle>-0 0 drm_sched_process_job: fence=00000000bbbbbbbb signaled"
    lines = [f"sdma0-9 9 drm_run_job: {fields.format(n=n)}" for n in (1, 2)]
    capture = correlate_trace("\n".join([*lines, done, f"a-10 10 drm_sched_job: {fields.format(n=3)}", done]))
    jobs = capture.table("drm_jobs").collect().select("id", "process", "queue_event", "run_event", "done_event")
    assert jobs.drop("process").rows() == [(1, None, 0, None), (2, None, 1, 2), (3, 3, None, 4)]
    assert jobs["process"].is_not_null().to_list() == [False, False, True]
    links = capture.table("links").filter(pl.col("rule").cast(pl.String) == "drm_job").collect()
    assert sorted(links.select("from_event", "to_event").rows()) == [(1, 2), (3, 4)]


def test_events_of_the_driver_alone(correlate_trace: Correlator) -> None:
    """Without gpu_scheduler events those of amdgpu and dma_fence tell the jobs; 7.2 changed their text (synthetic)."""
    old = "timeline=gfx_0.0.0, context=5, seqno=9, ring_name=gfx_0.0.0, num_ibs=1"
    new = "timeline=comp_1.0.0, fence=6:1, ring_name=comp_1.0.0, num_ibs=1"
    lines = [f"a-10 10 amdgpu_cs_ioctl: sched_job=1, {old}", f"gfx_0.0.0-9 9 amdgpu_sched_run_job: sched_job=1, {old}"]
    lines += [f"a-10 10 amdgpu_cs_ioctl: {new}", f"kworker-8 8 amdgpu_sched_run_job: {new}"]
    for context, seqno in ((5, 9), (6, 1), (7, 1)):
        lines.append(f"<idle>-0 0 dma_fence_signaled: driver=drm_sched timeline=x context={context} seqno={seqno}")
    jobs = correlate_trace("\n".join(lines)).table("drm_jobs").collect()
    found = jobs.select("fence", pl.col("ring").cast(pl.String), "queue_event", "run_event", "done_event")
    assert found.rows() == [("5:9", "gfx_0.0.0", 0, 1, 4), ("6:1", "comp_1.0.0", 2, 3, 5)]


def test_recorded_desktop_of_kernel_4_11(data_folder: Path, tmp_path: Path) -> None:
    """A real trace of amdgpu and dma_fence events: every job that ran was queued or began before the trace."""
    path = data_folder / "real" / "ftrace-amdgpu-steamvr-k4.11.gpu-only.txt"
    if not path.is_file():
        pytest.skip(f"no recorded trace {path}")
    jobs = _correlate(path, tmp_path / "real.tracecorr").table("drm_jobs").collect()
    assert jobs["queue_event"].drop_nulls().len() == 755 and jobs["run_event"].drop_nulls().len() == 693
    whole = jobs.drop_nulls(["queued_ns", "run_ns", "done_ns"])
    assert whole.height > 600
    assert (whole["queued_ns"] <= whole["run_ns"]).all() and (whole["run_ns"] <= whole["done_ns"]).all()


@pytest.mark.parametrize(
    ("ring", "kind"),
    [
        ("comp_1.0.0", "kcq"), ("comp_0.1.0.3", "kcq"), ("gfx", "gfx"), ("gfx_0.0.0", "gfx"), ("sdma0", "sdma"),
        ("sdma1.3", "sdma"), ("page0", "sdma"), ("vcn_dec_0", "media"), ("jpeg_dec_0.1", "media"), ("vpe", "media"),
        ("mes_0.0.0", "other"), (None, None),
    ],
)  # fmt: skip
def test_the_name_of_a_ring_tells_its_kind(ring: str | None, kind: str | None) -> None:
    frame = pl.DataFrame({"ring": [ring]}, schema={"ring": pl.String})
    assert frame.select(kind=ring_kind(pl.col("ring")))["kind"][0] == kind
