"""The sections of a report: the question, its table, how the rows are known, and what is missing."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from tracecorr.analyze.calls import (
    summarize_graphs,
    summarize_hip_calls,
    summarize_hsa_calls,
    summarize_internal_calls,
    summarize_waits,
)
from tracecorr.analyze.clocks import describe_durations, find_untimed, summarize_clocks, summarize_time_errors
from tracecorr.analyze.evidence import Evidence
from tracecorr.analyze.frames import Tables
from tracecorr.analyze.gpu import AT_LEAST, KERNELS
from tracecorr.analyze.hqd import list_logical_queues
from tracecorr.analyze.ioctls import (
    explain_ioctls,
    summarize_driver_events,
    summarize_drm_jobs,
    summarize_evictions,
    summarize_ioctls,
)
from tracecorr.analyze.kernels import summarize_named, summarize_rocprof
from tracecorr.analyze.latency import summarize_latency, summarize_paths
from tracecorr.analyze.launches import (
    NO_DISPATCH,
    NO_PACKET,
    ONLY_NAMED,
    count_packets,
    summarize_gaps,
    summarize_launches,
    summarize_unlinked,
)
from tracecorr.analyze.losses import summarize_ledger, summarize_losses, summarize_unaccounted
from tracecorr.analyze.memory import summarize_copies, summarize_memory
from tracecorr.analyze.owners import (
    add_nodes,
    summarize_gpus,
    summarize_nodes,
    summarize_processes,
)
from tracecorr.analyze.queues import NO_STREAM_NAMES, names_streams, summarize_queues, summarize_streams
from tracecorr.analyze.report.parts import Section
from tracecorr.link.queues.hqds import NONE_OF_LOG, shows_none_of_log

_NO_LOG = "no AMD log: {} unknown; import with --amd-log"
_NO_TRACE = "no ftrace: {} unknown; import with --ftrace"
_PROFILED_KERNELS = "no AMD log: dispatches unknown; section What rocprof timed has the kernels of the profile"


def _explain_lack(sources: set[str], what: str, *, log: bool = False, trace: bool = False) -> str:
    """Return which of the sources that a section needs were not read.

    Args:
        sources: those that were read.
        what: what is unknown without them.
        log, trace: whether the section needs the HIP log, the kernel trace.
    """
    needs = ((_NO_LOG, log, "amd_log"), (_NO_TRACE, trace, "ftrace"))
    return "; ".join(text.format(what) for text, is_needed, source in needs if is_needed and source not in sources)


def _explain_lack_of_packets(tables: Tables, sources: set[str]) -> str:
    """Return that the HIP log shows no packet."""
    return NO_PACKET if "amd_log" in sources and not count_packets(tables("launches")) else ""


def _explain_lack_of_doorbells(packets: pl.DataFrame) -> str:
    """Return that no doorbell store was traced.

    Args:
        packets: as `launches.summarize_launches` returns them.
    """
    if packets.filter(pl.col("kind") != "copy").is_empty():
        return NO_PACKET
    if packets["doorbell_recorded"].sum():
        return ""
    return "no recorded doorbell: their times are intervals; trace with the doorbell probe (uprobe on hsa_signal_store)"


def _explain_lack_of_dumps(tables: Tables) -> str:
    """Return that none of the queues of a dump is one of the log."""
    return NONE_OF_LOG if shows_none_of_log(tables("hqd").collect(), tables("queues").collect()) else ""


def _explain_lack_of_kernels(kernels: pl.DataFrame, sources: set[str]) -> str:
    """Return that no dispatch is known, or that none has GPU times.

    Args:
        kernels: as `kernels.summarize_named` returns them.
        sources: those that were read.
    """
    if "amd_log" not in sources:
        return _PROFILED_KERNELS if "rocprof" in sources else _explain_lack(sources, "kernels", log=True)
    if kernels["named"].sum() and not kernels["dispatches"].sum():
        return ONLY_NAMED
    if kernels.is_empty() or kernels["gpu_timed"].sum():
        return ""
    return (
        "no dispatch has GPU times: kernel durations unknown; run with profiling on, so that the log has `Signal =` "
        "lines of the dispatches themselves (those of barriers do not tell a kernel's time)"
    )


GLOSSARY = {
    "recorded": "a source says it: a log line, a trace event, a value that a probe read",
    "derived": "follows by a rule that can be checked: nesting, order of a thread's lines",
    "inferred": "only bounds are known, the truth lies between them",
    "PASS, FAIL": "the records show that the claim holds, or that it does not",
    "UNKNOWN": "the records cannot tell; the verdict names what would",
    "UNALIGNED": "a clock that could not be mapped: nothing of it is linked by time",
    "error of a time": "the true time lies in an interval of this width",
    "p50, p95, p99": "so many percent of the values are not larger; one that occurred (nearest rank)",
    "not yet": "no error: not done yet (hipErrorNotReady), or a wait that ended early (EINTR)",
    "half seen": "only begin or end was seen: counted among the calls, in no time",
}


def _list_words() -> pl.DataFrame:
    """Return one row per word: word, meaning."""
    return pl.DataFrame({"word": list(GLOSSARY), "meaning": list(GLOSSARY.values())})


def _list_owner_sections(evidence: Evidence) -> Iterator[Section]:
    """Yield the sections of the report on nodes, processes and GPUs."""
    tables, nodes = evidence.tables, evidence.info.get("nodes") or []
    yield from _node_sections(evidence)
    yield Section(
        "processes",
        "Processes",
        add_nodes(summarize_processes(tables), "process", nodes, "processes"),
        "`process` is the number that other sections name; `pid` = of the host, `log pid` = as the log prints it, in a "
        "container another one; `gpus` = those on which its queues are known to be",
        nothing="no process of HIP or of the driver is known",
    )
    yield Section(
        "gpus",
        "GPUs",
        add_nodes(summarize_gpus(tables), "gpu", nodes, "gpus"),
        "`gpu` is the number that other sections name; `gpu id` in hex, as debugfs prints it, of a topology, a "
        "CREATE_QUEUE probe or a dump; `processes` and `queues` = those known to be on it",
        nothing="no source names a GPU (the probe of CREATE_QUEUE, the topology and dumps of the KFD do)",
    )


def _node_sections(evidence: Evidence) -> Iterator[Section]:
    nodes = evidence.info.get("nodes")
    if nodes:
        yield Section(
            "nodes",
            "Nodes",
            summarize_nodes(evidence.tables, nodes),
            "one row per capture of the dataset; tables without the column `node` are of all nodes together. A "
            "verdict is FAIL where it is on one node, else UNKNOWN where it is on one, else PASS; a node that has "
            "nothing of what a claim is about is left out. call = duration of the HIP calls that dispatch a kernel",
        )


_UNTIMED = (
    "no kernel has GPU times: how busy the GPU was is not known; run with profiling on, so that the log has `Signal =` "
    "lines of the dispatches themselves (those of barriers, which wait, are no work), or import a profile of the same "
    "run (--rocprof)"
)
_NOT_ALL = "not every kernel is timed, or the log lost lines: where the GPU was idle is not known"
_NO_GAP = "no GPU was ever without a kernel between its first and its last"


def _list_gpu_sections(evidence: Evidence, sources: set[str]) -> Iterator[Section]:
    """Yield the sections on the time of the GPUs, in their order.

    Args:
        evidence: the tables of a capture.
        sources: the sources that were read.
    """
    busy = evidence.by_node(lambda node: node.gpu_times.gpus)
    kernels = busy.filter(pl.col("work") == KERNELS)
    lack = _explain_untimed(kernels, sources)
    yield Section(
        "gpu_busy",
        "How busy the GPUs were",
        busy,
        "GPU times are recorded (`Signal =` lines, or rocprof), whose they are is derived. `figures`: `exact` = all "
        "packets that the log shows are timed, and no line of it is known to lack; `at least` = others may have run, "
        "too: busy times are lower bounds, and idle ones are not known; `of the profile` = no kernel of a log is "
        "timed, these are all that a profiler recorded, on its own clock if that is UNALIGNED. `busy` = at least one "
        "ran (what ran at once counts once), `overlap` = those of two queues and more did, `idle` = none did between "
        "the first start and the last end. Of the idle time `unsubmitted` = before the line of the packet that ended "
        "the gap (of a profile: before its call), `in ring` = after its doorbell had been rung for sure. Programs and "
        "queues that are not recorded may have used the GPU. `agent` = the GPU as a profile names it; neither it nor "
        "`gpu` = which GPU these packets ran on is not known: if on several, busy is where one of them was. `error` = "
        "how far a clock may move all of these times together",
        lack,
        nothing=NO_DISPATCH,
    )
    yield Section(
        "queue_busy",
        "How busy the queues were",
        evidence.by_node(lambda node: node.gpu_times.queues),
        "the same of the kernels of each queue; of a profile alone `queue` is the id that it prints",
        lack,
        nothing=NO_DISPATCH,
    )
    yield Section(
        "gpu_gaps",
        "Longest times without a kernel",
        evidence.by_node(lambda node: node.gpu_times.gaps),
        "of each GPU the ten longest. `event` = the packet that ended it, `call` the HIP call that submitted that; "
        "`unsubmitted` and `in ring` as above. `host call` = where the thread of that call was longest in "
        "`unsubmitted`, `outside` = the time of it outside of HIP calls, of which nothing is recorded. `error` = how "
        "far both may lie from the truth. Copies may have run in a gap, and a packet in the ring may wait for another",
        lack or (_NOT_ALL if AT_LEAST in kernels["figures"].to_list() else ""),
        nothing=_NO_GAP,
    )


def _explain_untimed(kernels: pl.DataFrame, sources: set[str]) -> str:
    """Return what is missing where no kernel is timed."""
    if kernels["timed"].sum():
        return ""
    return _UNTIMED if kernels.height else _explain_lack(sources, "GPU times are", log=True)


def _list_call_sections(tables: Tables, sources: set[str]) -> Iterator[Section]:
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
        _explain_lack(sources, "HIP calls", log=True),
    )
    yield Section(
        "hip_internal",
        "Internal HIP calls",
        summarize_internal_calls(events),
        "recorded, as above: `__hip...`, which the compiler calls around a launch, and functions inside HIP that print "
        "lines of their own (`ihipLaunchKernel`); they are not counted among the HIP calls",
        _explain_lack(sources, "HIP calls", log=True),
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
        _explain_lack(sources, "ioctls", trace=True),
        nothing="the trace holds no ioctl on a KFD or DRM descriptor",
    )


def _list_driver_sections(evidence: Evidence, sources: set[str]) -> Iterator[Section]:
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
        _explain_lack(sources, "jobs", trace=True),
        nothing="no job is in the trace: none was submitted, or its events were not recorded (gpu_scheduler:*)",
    )
    yield Section(
        "driver_events",
        "Kernel functions and events",
        summarize_driver_events(tables("events")),
        "recorded: rows of the trace beside system calls, ioctls and doorbells; times of those that have a begin and "
        f"an end; a call that two tracers recorded is one of the rows{_scaled(tables)}",
        _explain_lack(sources, "kernel functions", trace=True),
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


def list_sections(evidence: Evidence, sources: set[str]) -> Iterator[Section]:
    """Yield all sections of the report, in its order.

    Args:
        evidence: the tables of a capture.
        sources: the sources that were read.
    """
    tables = evidence.tables
    yield Section("glossary", "Words of this report", _list_words())
    yield from _list_owner_sections(evidence)
    yield _complaint_section(evidence, sources)
    yield from _time_sections(evidence, sources)
    yield from _packet_sections(tables, sources)
    yield from _queue_sections(evidence, sources)
    yield from _service_sections(evidence, sources)
    yield from _ring_sections(evidence, sources)
    yield from _path_sections(evidence, sources)
    yield from _copy_sections(tables, sources)
    yield from _kernel_sections(evidence, sources)
    yield from _list_gpu_sections(evidence, sources)
    yield from _list_call_sections(tables, sources)
    yield from _list_driver_sections(evidence, sources)
    yield from _trust_sections(evidence)


def _complaint_section(evidence: Evidence, sources: set[str]) -> Section:
    return Section(
        "complaints",
        "Errors and warnings of the runtime",
        evidence.complaints.drop("name"),
        "recorded: lines that HIP printed at level 0 (fatal error), 1 (error) or 2 (warning); `message` is the first "
        "of those that differ in numbers alone, `variants` how many those are, `call` the HIP call around it. "
        "`Unknown Event Type` at the end of a process is harmless",
        _explain_lack(sources, "errors of the runtime are", log=True),
        nothing="the log has no line of an error or warning",
    )


def _time_sections(evidence: Evidence, sources: set[str]) -> Iterator[Section]:
    yield Section(
        "clocks",
        "Clocks",
        evidence.by_node(lambda node: summarize_clocks(node.tables("clock_map"))),
        "from = first stamp, on CLOCK_MONOTONIC; offset = CLOCK_MONOTONIC minus the source's clock there; lines = "
        "pieces of `clock_map`, the straight lines between the bounds by which stamps became times; rate = mean of "
        "their rates. A line bends only where the bounds force it to: a rate that nothing shows scales no duration. "
        "error = full width of the bounds where they are widest, which may be where no record is (Errors of the times "
        "has those of the records). "
        "`same_clock` and `samples` are recorded, `causal_pairs` is derived; `unaligned` = only the starts agree, "
        "no link was made by time. Errors assume that a clock holds its rate for a second (where few pairs tell of it "
        "and nothing shows a change, for 1.4 s or as long as fourteen pairs take), and that a new rate which they hide "
        "is within 100 ppm; between samples at both ends of a second or less alone, that it moves by no more than "
        "5 ppm; and that no suspend is shorter than 0.3 s",
        _explain_lack(sources, "the other side of every link is", log=True, trace=True),
    )
    yield Section(
        "time_errors",
        "Errors of the times",
        summarize_time_errors(evidence.tables("events")),
        "width of the interval that holds an event's true start: clock bounds plus the steps of the printed time",
        nothing="no events",
    )


def _packet_sections(tables: Tables, sources: set[str]) -> Iterator[Section]:
    launches = tables("launches")
    packets = summarize_launches(launches)
    yield Section(
        "launches",
        "Packets and copies",
        packets,
        "packets are recorded by the log; their calls and commands are derived by thread and nesting; a doorbell is "
        "recorded where a probe traced its store (packets of a graph launch may share one, Time by stage calls that "
        "derived), else inferred: only an interval is known; `complete` = nothing is missing that such a packet has: "
        "a graph's has no command of its own, a copy no queue",
        _explain_lack(sources, "packets", log=True) or _explain_lack_of_doorbells(packets),
    )
    yield Section(
        "unlinked",
        "Packets with a link missing",
        summarize_unlinked(launches),
        "each launch without a complete chain names the first link that it lacks",
        _explain_lack(sources, "packets", log=True) or (NO_PACKET if packets.is_empty() else ""),
        nothing="no packet or copy lacks a link that it should have",
    )
    yield Section(
        "latency",
        "Time by stage",
        summarize_latency(launches, tables("events")),
        "`packets` = those with both ends of the stage. A row is as good as its `evidence`: `recorded` = joined by a "
        "key; `derived` = the call is known by thread and nesting, GPU times by signal handle, completion by command, "
        "a graph's doorbell by its launch; `inferred` = the doorbell lies somewhere in an interval. A barrier's "
        "doorbell is stored before its log line, and its completion may be noticed before it; a queue that is running "
        "may take a packet from the ring before its doorbell is stored: negative times are real. Observed completion "
        "is when the runtime printed that it saw the end: not before the end on the GPU, and perhaps long after a call "
        "that waits for it returned. Packets `of a graph` wait in their call for those before "
        "them: what begins or ends with it is no cost of their own (Graph launches tells what the calls took). `error` "
        "= how far the time of the packet that is known worst may lie from the truth, to either side: a clock that is "
        "off moves all of them. Of two times of one GPU it is 0: no clock moves them apart, but the steps of the GPU's "
        "own one (10 ns at 100 MHz) are not in it",
        _explain_lack(sources, "packets", log=True),
        nothing=NO_PACKET,
    )


def _queue_sections(evidence: Evidence, sources: set[str]) -> Iterator[Section]:
    tables = evidence.tables
    lacks = (
        _explain_lack(sources, "half of each queue is", log=True, trace=True),
        _explain_lack_of_packets(tables, sources),
    )
    yield Section(
        "queues",
        "Queues",
        evidence.by_node(lambda node: summarize_queues(node.tables("queues"), node.tables("stream_queues"))),
        "log line and ioctl joined as `create_evidence` says: recorded by ring address, derived by thread and time; up "
        "to ROCm 6.1 the line names no ring, and is joined to that of packets as `ring_evidence` says: inferred = by "
        "the streams of both, or by the order of creations and packets",
        "; ".join(filter(None, lacks)),
    )
    yield Section(
        "queue_creation",
        "Queue creation",
        evidence.by_node(lambda node: node.queue_creation.drop("gpu_unknown")),
        "`stream` = the one that the call made; `rocr` = from `Number of allocated` to `Created` of the log; `rocr "
        "ioctls` = how many ioctls of its thread surely lie between these lines, by the errors of the clocks, `rocr in "
        "ioctls` = how long they took; `ioctl`, `kfd` and `mqd` = durations of CREATE_QUEUE and the way to the MQD's "
        "initialisation in the trace; the doorbell page is mapped once per process and GPU",
        _explain_lack(sources, "half of each creation is", log=True, trace=True),
    )
    yield Section(
        "priorities",
        "Priorities",
        evidence.by_node(lambda node: node.priorities),
        "`hip` = asked by the stream, `log` = Created line, `driver` = UPDATE_QUEUE, else CREATE_QUEUE, as a probe "
        "read it, `hqd` = the last dump; they prove the setting, not that the GPU preempts. Where `ring_evidence` (see "
        "Queues) is inferred, that `hip` and `log` are of one queue is so, too",
        _explain_lack(sources, "priorities are", log=True),
    )


def _service_sections(evidence: Evidence, sources: set[str]) -> Iterator[Section]:
    yield Section(
        "service",
        "Waiting for the GPU by priority",
        evidence.by_node(lambda node: node.service),
        "`start` = recorded doorbell to GPU start, of the `timed` packets; `completion` = packet to observed "
        "completion, an upper bound. Kernels are `dispatch`: a barrier, such as that of an event, starts when the "
        "packets before it are done, so that its times include theirs, and packets of a graph wait for each other. "
        "Priority in the log: 2 high, 1 normal, 0 low. A queue asked for more waits longer, too: `tracecorr experiment "
        "preempt` compares the same work alone and together. `start error` = how far a start may lie from the truth, "
        "to either side",
        _explain_lack(sources, "packets", log=True),
        nothing="no packet has a GPU time or an observed completion",
    )


def _ring_sections(evidence: Evidence, sources: set[str]) -> Iterator[Section]:
    tables = evidence.tables
    yield Section(
        "hqd",
        "Queues in the hardware",
        evidence.by_node(lambda node: list_logical_queues(node.tables("hqd").collect())),
        "recorded: dumps of HQDs, MQDs and runlists, the slots of all XCCs of a queue together; `queue` is joined by "
        "ring address, and where several processes have the same one by the doorbells that MQDs tell; `doorbell` = "
        "offset in dwords; `rptr`, `wptr` = what the registers hold, PQ_RPTR of XCC 0 alone and in another unit than "
        "PQ_WPTR: their difference is no backlog (Depth of the rings has it)",
        _explain_lack_of_dumps(tables),
        nothing="no dump of the KFD is in the capture (--hqd, or `tracecorr hqd`)",
    )
    yield Section(
        "backlog",
        "Depth of the rings",
        evidence.by_node(lambda node: node.backlog),
        "recorded: wptr - rptr + 1 of the log, packets in the ring when one more was written: an upper bound",
        _explain_lack(sources, "packets", log=True),
        nothing="the log prints no rptr and wptr (ROCm 6.2 and later do at level 5)",
    )
    yield Section(
        "streams",
        "Streams",
        evidence.by_node(_streams),
        "streams are recorded by the log's calls; their queues are known as `queue_evidence` says; dispatches, "
        "barriers or copies are unknown where it does not name the stream of all of them",
        _explain_lack(sources, "streams", log=True) or ("" if names_streams(tables("launches")) else NO_STREAM_NAMES),
    )


def _streams(node: Evidence) -> pl.DataFrame:
    return summarize_streams(*(node.tables(name) for name in ("streams", "stream_queues", "launches")))


def _kernel_sections(evidence: Evidence, sources: set[str]) -> Iterator[Section]:
    kernels = evidence.by_node(
        lambda node: summarize_named(*(node.tables(name) for name in ("launches", "kernels", "events")))
    )
    kernels = kernels.sort("dispatches", "named", descending=True, maintain_order=True)
    yield Section(
        "kernels",
        "Kernels",
        kernels,
        "names are recorded (ShaderName line); GPU times only where a source recorded them; `named` = lines that name "
        "the kernel while no packet of it is in the log: one for each launch",
        _explain_lack_of_kernels(kernels, sources),
        nothing=NO_DISPATCH,
    )


def _path_sections(evidence: Evidence, sources: set[str]) -> Iterator[Section]:
    tables = evidence.tables
    events, launches = tables("events"), tables("launches")
    yield Section(
        "paths",
        "Time by layer on the way of a dispatch",
        summarize_paths(launches, events, evidence.setup_calls),
        "`hip` = call to command, `command` = command to packet line, `doorbell` = to its store, `return` = to "
        "the return of the call; `kernel_mode` = system calls inside the call (part of the others). `setup` = launches "
        "whose call made a queue, loaded code or allocated memory: they say nothing about steady ones; `graph` = those "
        "of graph launches, whose call is not one dispatch's (see Graph launches); `unknown` = those whose call is not "
        "known. What ends or begins at a doorbell or on the GPU may be off by the error of "
        "Time by stage. `share` = of the time from call to return; where a doorbell is not recorded the rest is "
        "unknown",
        _explain_lack(sources, "packets", log=True),
        nothing=NO_DISPATCH,
    )
    yield Section(
        "graphs",
        "Graph launches",
        summarize_graphs(launches, events),
        "recorded: the calls that launch graphs, and their packets; the log's own cost is part of their times; `per "
        "dispatch` = time of the calls by their dispatches",
        _explain_lack(sources, "graph launches", log=True),
        nothing="no graph was launched",
    )
    yield Section(
        "gaps",
        "Pauses between packets",
        evidence.by_node(lambda node: summarize_gaps(node.tables("launches"))),
        "recorded by the log: time without a new packet on the queue, not idle time of the GPU",
        _explain_lack(sources, "packets", log=True),
        nothing=NO_PACKET,
    )
    yield Section(
        "waits",
        "Waits",
        summarize_waits(events),
        "recorded: calls and ioctls with their durations; waits on a signal are lines without one. Calls are those "
        "whose name says that they wait, of others (`hipFree`) those in which a wait lies (derived); what else they do "
        "is part of their time",
        _explain_lack(sources, "waits", log=True),
    )


def _copy_sections(tables: Tables, sources: set[str]) -> Iterator[Section]:
    copies = summarize_copies(tables("events"), tables("launches"), tables("kernels"))
    timed = copies.is_empty() or copies["gpu_timed"].sum()
    no_end = "" if timed else "no copy has a recorded end: no bandwidth; run with profiling on"
    yield Section(
        "copies",
        "Copies",
        copies,
        "recorded by the log; observed = until the runtime printed that it saw the end, an upper bound that may exceed "
        "the time of a call that waits for the copy; a rate is given only where the end of the copy on the GPU is "
        "recorded",
        _explain_lack(sources, "copies", log=True) or no_end,
        nothing="no copy is in the log: the program made none, or AMD_LOG_LEVEL was too low to print it (4 prints it)",
    )
    yield Section(
        "memory",
        "Memory",
        summarize_memory(tables("events"), tables("args")),
        "recorded by the log (level 4): what the runtime asked of ROCr; pools make it differ from hipMalloc. A `lock` "
        "that was refused (no address on the device is printed) is one of the allocations, without its bytes. No line "
        "tells when a `lock` of host memory ends, so how much was locked at once is unknown; so are the bytes of a "
        "kind of which some are `unsized`, whose line tells no size",
        _explain_lack(sources, "allocations", log=True),
        nothing="the log has no allocation line (level 4 and higher print them)",
    )


def _describe_no_loss(evidence: Evidence) -> str:
    told = "no source reports a loss (a text trace cannot show every loss)"
    if evidence.info.get("state") != "killed":
        return told
    return f"{told}; but the capture was killed, and of what it had not stored no source can tell"


def _trust_sections(evidence: Evidence) -> Iterator[Section]:
    yield Section(
        "losses",
        "Losses",
        evidence.by_node(lambda node: summarize_losses(node.tables("losses"))),
        "recorded by the sources themselves; the HIP log tells none: what is missing there follows from packet indexes "
        "that no line shows and calls with one line. A count inside such a span is a lower bound; where lines lack and "
        "nothing tells when, the span is the whole log, `untold` how many. A log that begins in the middle of the run "
        "lacks what was printed before its first line: that span has an end alone. Records that were there and could "
        "not be read are losses, too: the span is that of their file; What became of the bytes tells the reasons",
        nothing=_describe_no_loss(evidence),
    )
    yield Section(
        "ledger",
        "What became of the bytes",
        evidence.by_node(lambda node: summarize_ledger(node.tables("ledger"), node.tables("files"))),
        "recorded by the readers",
    )
    yield Section(
        "unaccounted",
        "Bytes that no reader accounts for",
        evidence.by_node(lambda node: summarize_unaccounted(node.tables("ledger"), node.tables("files"))),
        nothing="all bytes are accounted for",
    )
