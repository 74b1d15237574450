"""The sections of a report about calls: of HIP, of libraries, of the driver, and inside the driver."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from tracecorr.analyze.answers import Section
from tracecorr.analyze.clocks import describe_durations, find_untimed
from tracecorr.analyze.driver_events import summarize_driver_events
from tracecorr.analyze.drm_jobs import summarize_drm_jobs
from tracecorr.analyze.evictions import summarize_evictions
from tracecorr.analyze.frames import Tables
from tracecorr.analyze.hip_calls import summarize_hip_calls, summarize_internal_calls
from tracecorr.analyze.hsa_calls import summarize_hsa_calls
from tracecorr.analyze.ioctls import explain_ioctls, summarize_ioctls
from tracecorr.analyze.lacks import explain_lack
from tracecorr.analyze.rocprof import summarize_rocprof
from tracecorr.analyze.verdicts.evidence import Evidence


def list_call_sections(tables: Tables, sources: set[str]) -> Iterator[Section]:
    """Yield the sections about calls.

    Args:
        tables: gives a table by its name.
        sources: the sources that were read.
    """
    events, scaled = tables("events"), _scaled(tables)
    yield Section(
        "hip_calls",
        "HIP calls",
        summarize_hip_calls(events),
        "recorded: enter and exit lines of the log (1 us steps, the log's own cost included); `share` = of the total "
        "of all of them, where a call inside another one counts twice",
        explain_lack(sources, "HIP calls", log=True),
    )
    yield Section(
        "hip_internal",
        "Internal HIP calls",
        summarize_internal_calls(events),
        "recorded, as above: `__hip...`, which the compiler calls around a launch, and functions inside HIP that print "
        "lines of their own (`ihipLaunchKernel`); they are not counted among the HIP calls",
        explain_lack(sources, "HIP calls", log=True),
    )
    yield Section(
        "hsa_calls",
        "HSA calls and probed functions of libraries",
        summarize_hsa_calls(events),
        f"recorded by probes on the library, or by a profiler{scaled}",
        nothing="no HSA call is recorded (probes on libhsa-runtime64 or rocprof --hsa-trace do)",
    )
    yield Section(
        "rocprof",
        "What rocprof timed",
        summarize_rocprof(events, tables("kernels")),
        "recorded by rocprof: the GPU times of its kernels and copies, and its own view of the calls",
        nothing="what was imported of rocprof holds no row with times: section What became of the bytes says why"
        if "rocprof" in sources
        else "no output of rocprof was imported (--rocprof)",
    )
    yield Section(
        "ioctls",
        "Ioctls",
        summarize_ioctls(events),
        f"{explain_ioctls(events)}; `result unknown` = calls whose result no record tells: they may have failed"
        f"{scaled}",
        explain_lack(sources, "ioctls", trace=True),
        nothing="the trace holds no ioctl on a KFD or DRM descriptor",
    )


def list_driver_sections(evidence: Evidence, sources: set[str]) -> Iterator[Section]:
    """Yield the sections about what the driver did.

    Args:
        evidence: the tables of a capture.
        sources: the sources that were read.
    """
    tables = evidence.tables
    yield Section(
        "drm_jobs",
        "Jobs of the kernel's GPU scheduler",
        evidence.by_node(_jobs).sort("jobs", descending=True, maintain_order=True),
        "recorded by the events of gpu_scheduler or amdgpu; `waited` = from queued to handed to the ring, `ran` = "
        "until its fence. `kcq` = kernel compute queue; queued, run, done = jobs seen at that stage. Work that goes by "
        f"doorbell is no such job{_scaled(tables)}",
        explain_lack(sources, "jobs", trace=True),
        nothing="no job is in the trace: none was submitted, or its events were not recorded (gpu_scheduler:*)",
    )
    yield Section(
        "driver_events",
        "Kernel functions and events",
        summarize_driver_events(tables("events")),
        "recorded: rows of the trace beside system calls, ioctls and doorbells; times of those that have a begin and "
        f"an end; a call that two tracers recorded is one of the rows{_scaled(tables)}",
        explain_lack(sources, "kernel functions", trace=True),
        nothing="the trace holds no function or event of the driver",
    )
    yield Section(
        "evictions",
        "Evictions, page faults, resets",
        summarize_evictions(tables("events"), tables("args"), tables("processes")),
        "recorded by the KFD (SMI events), also of processes that are not the workload's: a queue that is evicted does "
        "not run until its restore. What the driver's small buffer had no room for it tells since DROPPED_EVENT only",
        nothing="no SMI event of the KFD is recorded (a capture as root on a machine with GPUs takes them)",
    )


def _jobs(node: Evidence) -> pl.DataFrame:
    return summarize_drm_jobs(node.tables("drm_jobs"), timed=not find_untimed(node.tables("clock_map")))


def _scaled(tables: Tables) -> str:
    told = describe_durations(tables("clock_map"))
    return f"; {told}" if told else ""
