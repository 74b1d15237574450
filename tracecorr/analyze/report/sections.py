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
from tracecorr.analyze.evidence import Evidence, summarize_ledger, summarize_losses, summarize_unaccounted
from tracecorr.analyze.failures import summarize_kernel_log
from tracecorr.analyze.gpu import AT_LEAST, KERNELS
from tracecorr.analyze.ioctls import (
    explain_ioctls,
    summarize_driver_events,
    summarize_drm_jobs,
    summarize_evictions,
    summarize_ioctls,
    summarize_syscalls,
)
from tracecorr.analyze.kernels import summarize_counters, summarize_named, summarize_rocprof
from tracecorr.analyze.latency import (
    summarize_iterations,
    summarize_kernel_latency,
    summarize_latency,
    summarize_layers,
    summarize_paths,
)
from tracecorr.analyze.launches import (
    NO_DISPATCH,
    NO_PACKET,
    ONLY_NAMED,
    count_packets,
    summarize_fences,
    summarize_gaps,
    summarize_launches,
    summarize_unlinked,
)
from tracecorr.analyze.memory import summarize_copies
from tracecorr.analyze.occupancy import list_oversubscribed, summarize_occupancy, summarize_queue_holders
from tracecorr.analyze.owners import add_nodes, summarize_gpus, summarize_nodes, summarize_processes
from tracecorr.analyze.queues import (
    NO_STREAM_NAMES,
    list_logical_queues,
    names_streams,
    summarize_queues,
    summarize_refcounts,
    summarize_streams,
)
from tracecorr.analyze.report.answers import Section
from tracecorr.analyze.run_facts import list_machine
from tracecorr.analyze.slow_calls import summarize_lock_waits, summarize_slow_calls
from tracecorr.link.hqds import NONE_OF_LOG, shows_none_of_log

GLOSSARY = {
    "recorded": "a source says it: a log line, a trace event, a value that a probe read",
    "derived": "follows from a rule that can be checked: nesting, the order of a thread's lines",
    "inferred": "only bounds are known; the true value lies between them",
    "PASS, FAIL": "the records show that the claim holds, or that it does not hold",
    "UNKNOWN": "the records do not decide; the verdict names what would",
    "UNALIGNED": "a clock that could not be mapped: none of its events is linked by time",
    "error of a time": "the true time lies in an interval of this width",
    "p50, p95, p99": "this share of the values is not larger; a value that occurred (nearest rank)",
    "not yet": "no error: not finished yet (hipErrorNotReady), or a wait cut short (EINTR)",
    "half seen": "only the start or the end is recorded: counted as a call, not in the times",
}
_PROFILING = (
    "run with profiling on, so that the log has `Signal =` lines of the dispatches themselves (those of barriers do "
    "not show the time of a kernel)"
)


_NO_POLLS = "no polls of sysfs: queues of other programs are unknown (a capture on a machine with the KFD has them)"


def list_sections(evidence: Evidence) -> Iterator[Section]:
    """Yield all sections of the report in its order; each is computed when it is asked for."""
    words = pl.DataFrame({"word": list(GLOSSARY), "meaning": list(GLOSSARY.values())})
    yield Section("glossary", "Words of this report", words)
    yield from _open_sections(evidence)
    yield from _owner_sections(evidence)
    yield from _time_sections(evidence)
    yield from _packet_sections(evidence)
    yield from _queue_sections(evidence)
    yield from _ring_sections(evidence)
    yield from _path_sections(evidence)
    yield from _memory_sections(evidence)
    yield from _kernel_sections(evidence)
    yield from _gpu_sections(evidence)
    yield from _occupancy_sections(evidence)
    yield from _call_sections(evidence)
    yield from _driver_sections(evidence)
    yield from _trust_sections(evidence)


def _missing(evidence: Evidence, what: str, *, log: bool = False, trace: bool = False) -> str:
    """Return which of the sources that a section needs were not read; empty if all were.

    Args:
        evidence: the capture.
        what: what is unknown without them.
        log, trace: whether the section needs the HIP log, the kernel trace.
    """
    needs = (
        (f"no AMD log: {what} unknown; import with --amd-log", log, "amd_log"),
        (f"no ftrace: {what} unknown; import with --ftrace", trace, "ftrace"),
    )
    return "; ".join(text for text, is_needed, source in needs if is_needed and source not in evidence.sources)


def _open_sections(evidence: Evidence) -> Iterator[Section]:
    no_log = _missing(evidence, "what was open at the end is", log=True)
    yield Section(
        "open_calls",
        "Calls that were still open",
        evidence.by_node(lambda node: node.still_open.calls),
        "recorded: the last call of its thread, without a return; `open` = until the last record of its process, at "
        "least. Functions that print no return do not count. `waits for` is derived: by the signal that its thread "
        "waits for, the HIP event or stream that it is given, or its own last packet",
        no_log,
        nothing="no call was open at the end of the log",
    )
    yield Section(
        "open_rings",
        "Rings with packets that have no recorded end",
        evidence.by_node(lambda node: node.still_open.rings),
        "of processes with open calls; `first` = index of the first packet that is not known to have ended, with its "
        "row. The runtime prints an end only when it checks, so some of them may have ended",
        no_log,
        nothing="no call was open, or all packets have a recorded end",
    )


def _owner_sections(evidence: Evidence) -> Iterator[Section]:
    tables, nodes = evidence.tables, evidence.info.get("nodes") or []
    if nodes:
        yield Section(
            "nodes",
            "Nodes",
            summarize_nodes(tables, nodes),
            "one row per capture of the dataset; tables without the column `node` cover all nodes. A verdict is FAIL "
            "if it is FAIL on one node, else UNKNOWN if it is UNKNOWN on one, else PASS; nodes without the subject of "
            "a claim do not count. call = duration of the HIP calls that dispatch a kernel",
        )
    yield Section(
        "processes",
        "Processes",
        add_nodes(summarize_processes(tables), "process", nodes, "processes"),
        "`process` is the number that other sections use; `pid` = of the host, `log pid` = as the log prints it (in a "
        "container a different one); `gpus` = GPUs on which the process has queues",
        nothing="no process of HIP or of the driver is known",
    )
    yield Section(
        "gpus",
        "GPUs",
        add_nodes(summarize_gpus(tables), "gpu", nodes, "gpus"),
        "`gpu` is the number that other sections use; `gpu id` in hex, as debugfs prints it, from a topology, a "
        "CREATE_QUEUE probe or a dump; `processes` and `queues` = those known to use it",
        nothing="no source names a GPU (the CREATE_QUEUE probe, the KFD topology and dumps do)",
    )
    yield Section(
        "machine",
        "The machine",
        evidence.by_node(lambda node: list_machine(node.tables, node.info)),
        "`capture` = what the recording read of the machine (an import has none of it), with the parameters of amdgpu "
        "and the variables that HIP and ROCr read. `Python package` = those whose libraries a process with an open GPU "
        "device mapped",
        nothing="no source describes the machine",
    )
    yield Section(
        "devices",
        "GPU devices of the processes",
        evidence.devices.drop("opens"),
        "`opened` = the open of this path; if no path is recorded (before Linux 7.2, without a probe), the open of the "
        "descriptor that the calls used; `calls` = ioctls and mappings",
        _missing(evidence, "devices", trace=True),
        nothing="no call on /dev/kfd or a render node is in the trace: the process made none while it was recorded",
    )
    yield Section(
        "complaints",
        "Errors and warnings of the runtime",
        evidence.complaints.drop("name"),
        "recorded: lines that HIP printed at level 0 (fatal error), 1 (error) or 2 (warning), and what runtime and "
        "shell printed beside them (`notice`). Messages that differ only in numbers are one row: `message` is the "
        "first of them, `variants` their number; `call` is the HIP call "
        "around it. `Unknown Event Type` at the end of a process is harmless",
        _missing(evidence, "errors of the runtime are", log=True),
        nothing="the log has no line of an error or warning",
    )


def _time_sections(evidence: Evidence) -> Iterator[Section]:
    yield Section(
        "clocks",
        "Clocks",
        evidence.by_node(lambda node: summarize_clocks(node.tables("clock_map"))),
        "from = first stamp, on CLOCK_MONOTONIC; offset = CLOCK_MONOTONIC minus the source's clock at that time; "
        "lines = pieces of `clock_map`; rate = mean rate of the pieces; error = width of the bounds where they are "
        "widest, also at times without a record (see Errors of the times). `same_clock` and `samples` are recorded, "
        "`causal_pairs` is derived; `unaligned` = only the starts agree, and nothing is linked by time",
        _missing(evidence, "the other side of every link is", log=True, trace=True),
    )
    yield Section(
        "time_errors",
        "Errors of the times",
        summarize_time_errors(evidence.tables("events")),
        "width of the interval that holds an event's true start: bounds of the clock plus the step of printed times",
        nothing="no events",
    )


def _packet_sections(evidence: Evidence) -> Iterator[Section]:
    launches, events = evidence.tables("launches"), evidence.tables("events")
    packets, no_log = summarize_launches(launches), _missing(evidence, "packets", log=True)
    yield Section(
        "launches",
        "Packets and copies",
        packets,
        "packets are recorded by the log; their calls and commands are derived from thread and nesting. A doorbell is "
        "recorded if a probe traced its store (packets of a graph launch may share one: `derived` in Time by stage), "
        "else inferred: only an interval is known. `complete` = no link is missing that this kind of packet has: a "
        "packet of a graph has no command, a copy no queue",
        no_log or _missing_doorbells(packets),
    )
    yield Section(
        "unlinked",
        "Packets with a link missing",
        summarize_unlinked(launches),
        "each launch without a complete chain names its first missing link",
        no_log or (NO_PACKET if packets.is_empty() else ""),
        nothing="every packet and copy has all its links",
    )
    yield Section(
        "latency",
        "Time by stage",
        summarize_latency(launches, events),
        "`packets` = those with both ends of the stage. `evidence`: `recorded` = joined by a key; `derived` = the call "
        "is known by thread and nesting, GPU times by signal handle, completion by command, the doorbell of a graph by "
        "its launch; `inferred` = the doorbell lies in an interval. Negative times are real: a barrier's doorbell is "
        "stored, and its completion may be noticed, before its log line, and a running queue may take a packet before "
        "its doorbell is stored. Observed completion = when the runtime printed that it saw the end: an upper bound. "
        "Packets `of a graph` wait in their call for the packets before them (see Graph launches). `error` = largest "
        "error of one time, to either side; it is 0 between two times of one GPU, whose clock steps (10 ns at 100 MHz) "
        "are not included",
        no_log,
        nothing=NO_PACKET,
    )


def _missing_doorbells(packets: pl.DataFrame) -> str:
    if packets.filter(pl.col("kind") != "copy").is_empty():
        return NO_PACKET
    if packets["doorbell_recorded"].sum():
        return ""
    return "no recorded doorbell: their times are intervals; trace with the doorbell probe (uprobe on hsa_signal_store)"


def _queue_sections(evidence: Evidence) -> Iterator[Section]:
    tables, no_packets = evidence.tables, _missing(evidence, "packets", log=True)
    missing = [_missing(evidence, "half of each queue is", log=True, trace=True)]
    if "amd_log" in evidence.sources and not count_packets(tables("launches")):
        missing.append(NO_PACKET)
    yield Section(
        "queues",
        "Queues",
        evidence.by_node(lambda node: summarize_queues(node.tables("queues"), node.tables("stream_queues"))),
        "`create_evidence` = how log line and ioctl are joined: recorded by ring address, derived by thread and time. "
        "Up to ROCm 6.1 the line names no ring: `ring_evidence` = how it is joined to the ring of packets; inferred = "
        "by the streams of both, or by the order of creations and packets",
        "; ".join(filter(None, missing)),
    )
    yield Section(
        "queue_creation",
        "Queue creation",
        evidence.by_node(lambda node: node.queue_creation.drop("gpu_unknown")),
        "`stream` = the stream that the call made; `rocr` = from `Number of allocated` to `Created` in the log; `rocr "
        "ioctls`, `rocr in ioctls` = number and time of the ioctls of its thread that lie between these lines within "
        "the errors of the clocks; `ioctl`, `kfd` and `mqd` = duration of CREATE_QUEUE, of the driver function, and "
        "time to the MQD's initialisation; the doorbell page is mapped once per process and GPU",
        _missing(evidence, "half of each creation is", log=True, trace=True),
    )
    yield Section(
        "priorities",
        "Priorities",
        evidence.by_node(lambda node: node.priorities),
        "`hip` = requested by the stream, `log` = Created line, `driver` = UPDATE_QUEUE, else CREATE_QUEUE, as a probe "
        "read it, `hqd` = the last dump. They prove the setting, not that the GPU preempts. If `ring_evidence` (see "
        "Queues) is inferred, so is the join of `hip` and `log`",
        _missing(evidence, "priorities are", log=True),
    )
    yield Section(
        "service",
        "Waiting for the GPU by priority",
        evidence.by_node(lambda node: node.service),
        "`start` = recorded doorbell to GPU start, of the `timed` packets; `completion` = packet to observed "
        "completion, an upper bound. Kernels are `dispatch`; a barrier starts when the packets before it are done, so "
        "its times include theirs, and packets of a graph wait for each other. Priority in the log: 2 high, 1 normal, "
        "0 low. A queue with more work waits longer: `tracecorr experiment preempt` compares the same work alone and "
        "together. `start error` = largest error of a start, to either side",
        no_packets,
        nothing="no packet has a GPU time or an observed completion",
    )
    yield Section(
        "hqd",
        "Queues in the hardware",
        evidence.by_node(lambda node: list_logical_queues(node.tables("hqd").collect())),
        "recorded: dumps of HQDs, MQDs and runlists, one row for the slots of all XCCs of a queue. `queue` is joined "
        "by ring address, and by the doorbells of MQDs if several processes have the same address. `doorbell` = offset "
        "in dwords; `rptr`, `wptr` = register values, PQ_RPTR of XCC 0 only and in another unit than PQ_WPTR: their "
        "difference is no backlog (see Depth of the rings)",
        NONE_OF_LOG if shows_none_of_log(tables("hqd").collect(), tables("queues").collect()) else "",
        nothing="no dump of the KFD is in the capture (--hqd, or `tracecorr hqd`)",
    )


def _ring_sections(evidence: Evidence) -> Iterator[Section]:
    tables, no_packets = evidence.tables, _missing(evidence, "packets", log=True)
    yield Section(
        "fences",
        "Barriers and fences of packets",
        evidence.by_node(lambda node: summarize_fences(node.tables("launches"))),
        "recorded: the packet's header; `barrier` = it waits for the packets before it in its ring",
        no_packets,
        nothing="no packet line has a header",
    )
    yield Section(
        "refcounts",
        "Reference counts of queues",
        evidence.by_node(lambda node: summarize_refcounts(node.tables)),
        "recorded by the log: `most` = streams that held the queue at once; `shared` = two or more did",
        _missing(evidence, "reference counts are", log=True),
        nothing="no line has a reference count of a known queue",
    )
    yield Section(
        "backlog",
        "Depth of the rings",
        evidence.by_node(lambda node: node.backlog),
        "recorded: wptr - rptr + 1 of the log, packets in the ring when one more was written: an upper bound. Where "
        "the log prints none (`--log-level 0`): the indexes that the doorbell probe read at each store",
        "" if evidence.backlog.height else no_packets,
        nothing="neither the log (ROCm 6.2 and later at level 5) nor the doorbell probe tells read and write index",
    )
    yield Section(
        "streams",
        "Streams",
        evidence.by_node(_streams),
        "streams are recorded by the log's calls, their queues as `queue_evidence` says; dispatches, barriers or "
        "copies are unknown if the stream of some of them is unknown",
        _missing(evidence, "streams", log=True) or ("" if names_streams(tables("launches")) else NO_STREAM_NAMES),
    )


def _streams(node: Evidence) -> pl.DataFrame:
    return summarize_streams(*(node.tables(name) for name in ("streams", "stream_queues", "launches")))


def _path_sections(evidence: Evidence) -> Iterator[Section]:
    events, launches = evidence.tables("events"), evidence.tables("launches")
    no_log = _missing(evidence, "packets", log=True)
    yield Section(
        "layers",
        "The run by layer",
        summarize_layers(evidence.tables),
        "`total` = sum of the durations (what ran at once, or in each other, counts twice); `busy` = at least one was "
        "going on; `share` = of the time from the first to the last event",
        nothing="no row has a duration",
    )
    yield Section(
        "iterations",
        "Iterations",
        evidence.by_node(lambda node: summarize_iterations(node.tables)),
        "derived: the launches of a process repeat a sequence of `kernels` launches (nine of ten are the same as one "
        "sequence earlier); an iteration goes from one line of `kernel` to the next; `jitter` = P99 - P50",
        no_log,
        nothing="the launches repeat no sequence of kernels",
    )
    yield Section(
        "kernel_latency",
        "Latency by kernel",
        evidence.by_node(
            lambda node: summarize_kernel_latency(
                node.tables("launches"), node.tables("events"), node.tables("kernels"), node.setup_calls
            )
        ),
        "`first` = the first launch of a kernel in its process, and launches whose call created a queue, loaded code "
        "or allocated memory; `steady` = the others; P99 from 100 launches on; only recorded doorbells and GPU times; "
        "completion = the line that tells it",
        no_log,
        nothing=NO_DISPATCH,
    )
    yield Section(
        "paths",
        "Time by layer on the way of a dispatch",
        summarize_paths(launches, events, evidence.setup_calls),
        "`hip` = call to command, `command` = command to packet line, `doorbell` = to its store, `return` = to the "
        "return of the call; `kernel_mode` = system calls inside the call (part of the others). `setup` = launches "
        "whose call created a queue, loaded code or allocated memory; `graph` = those of graph launches (see Graph "
        "launches); `unknown` = those of an unknown call. Times that begin or end at a doorbell or on the GPU have the "
        "error of Time by stage. `share` = of the time from call to return; without a recorded doorbell the rest is "
        "unknown",
        no_log,
        nothing=NO_DISPATCH,
    )
    yield Section(
        "graphs",
        "Graph launches",
        summarize_graphs(launches, events),
        "recorded: the calls that launch graphs, and their packets; the times include the cost of logging; `per "
        "dispatch` = time of the calls divided by their dispatches",
        _missing(evidence, "graph launches", log=True),
        nothing="no graph was launched",
    )
    yield Section(
        "gaps",
        "Pauses between packets",
        evidence.by_node(lambda node: summarize_gaps(node.tables("launches"))),
        "recorded by the log: time without a new packet on the queue, not idle time of the GPU",
        no_log,
        nothing=NO_PACKET,
    )
    yield Section(
        "waits",
        "Waits",
        summarize_waits(events),
        "recorded: calls and ioctls with their durations; a wait on a signal is a line without a duration. The calls "
        "are those that wait by their name, and others (`hipFree`) with a wait inside (derived); the time includes "
        "their other work",
        _missing(evidence, "waits", log=True),
    )


def _memory_sections(evidence: Evidence) -> Iterator[Section]:
    tables = evidence.tables
    copies = summarize_copies(tables("events"), tables("launches"), tables("kernels"))
    timed = copies.is_empty() or copies["gpu_timed"].sum()
    no_end = "" if timed else "no copy has a recorded end: no bandwidth; run with profiling on"
    yield Section(
        "copies",
        "Copies",
        copies,
        "recorded by the log; observed = until the runtime printed that it saw the end: an upper bound that may exceed "
        "the time of a call that waits for the copy; a rate needs a recorded end of the copy on the GPU",
        _missing(evidence, "copies", log=True) or no_end,
        nothing="no copy is in the log: the program made none, or AMD_LOG_LEVEL was too low to print it (4 prints it)",
    )
    yield Section(
        "memory",
        "Memory",
        evidence.memory,
        "recorded by the log (level 4): what the runtime requested from ROCr; because of pools it differs from "
        "hipMalloc. A refused `lock` (no device address is printed) counts as an allocation without bytes; `failed` "
        "allocations, at (nil), do not count. No line shows when a `lock` of host memory ends, so its peak is unknown; "
        "so are the bytes of a kind with `unsized` allocations, whose line has no size",
        _missing(evidence, "allocations", log=True),
        nothing="the log has no allocation line (level 4 and higher print them)",
    )


def _kernel_sections(evidence: Evidence) -> Iterator[Section]:
    kernels = evidence.by_node(
        lambda node: summarize_named(*(node.tables(name) for name in ("launches", "kernels", "events")))
    )
    yield Section(
        "kernels",
        "Kernels",
        kernels.sort("dispatches", "named", descending=True, maintain_order=True),
        "names are recorded (ShaderName line), GPU times only if a source recorded them; `named` = lines that name "
        "the kernel while the log has no packet of it: one for each launch",
        _missing_kernels(kernels, evidence),
        nothing=NO_DISPATCH,
    )


def _missing_kernels(kernels: pl.DataFrame, evidence: Evidence) -> str:
    if "amd_log" not in evidence.sources:
        if "rocprof" in evidence.sources:
            return "no AMD log: dispatches unknown; section What rocprof timed has the kernels of the profile"
        return _missing(evidence, "kernels", log=True)
    if kernels["named"].sum() and not kernels["dispatches"].sum():
        return ONLY_NAMED
    if kernels.is_empty() or kernels["gpu_timed"].sum():
        return ""
    return f"no dispatch has GPU times: kernel durations unknown; {_PROFILING}"


def _gpu_sections(evidence: Evidence) -> Iterator[Section]:
    busy = evidence.by_node(lambda node: node.gpu_times.gpus)
    kernels = busy.filter(pl.col("work") == KERNELS)
    missing = _missing_gpu_times(kernels, evidence)
    yield Section(
        "gpu_busy",
        "How busy the GPUs were",
        busy,
        "GPU times are recorded (`Signal =` lines, or rocprof), their packet is derived. `figures`: `exact` = all "
        "packets of the log are timed, and no line is known to be missing; `at least` = others may have run: busy "
        "times are lower bounds, idle times are unknown; `of the profile` = no kernel of a log is timed, these are "
        "all that a profiler recorded, on its own clock if that is UNALIGNED. `busy` = at least one ran, `overlap` = "
        "packets of two or more queues ran, `idle` = none ran between the first start and the last end. Idle time: "
        "`unsubmitted` = before the line of the packet that ended the gap (profile: before its call), `in ring` = "
        "after its doorbell. Programs and queues that are not recorded may have used the GPU. `agent` = the GPU as a "
        "profile names it; a row without `agent` and `gpu` has packets of an unknown GPU, perhaps of several. `error` "
        "= how far a clock may move all of these times together",
        missing,
        nothing=NO_DISPATCH,
    )
    yield Section(
        "queue_busy",
        "How busy the queues were",
        evidence.by_node(lambda node: node.gpu_times.queues),
        "as in How busy the GPUs were, for the kernels of each queue; if there is only a profile, `queue` is the id "
        "that it prints",
        missing,
        nothing=NO_DISPATCH,
    )
    not_all = "not every kernel is timed, or log lines are missing: where the GPU was idle is unknown"
    yield Section(
        "gpu_gaps",
        "Longest times without a kernel",
        evidence.by_node(lambda node: node.gpu_times.gaps),
        "the ten longest of each GPU. `event` = the packet that ended it, `call` = the HIP call that submitted that "
        "packet; `unsubmitted` and `in ring` as in How busy the GPUs were. `host call` = the longest call of that "
        "thread during `unsubmitted`, `outside` = the part of it outside of HIP calls. `error` = error of both. Copies "
        "may have run in a gap, and a packet in the ring may wait for another",
        missing or (not_all if AT_LEAST in kernels["figures"].to_list() else ""),
        nothing="no GPU was ever without a kernel between its first and its last",
    )


def _occupancy_sections(evidence: Evidence) -> Iterator[Section]:
    tables = evidence.tables
    missing = "" if "sysfs" in evidence.sources else _NO_POLLS
    yield Section(
        "occupancy",
        "Hardware queue slots",
        summarize_occupancy(tables),
        "recorded: queues in sysfs, of all processes of the machine, polled each second; `process_limit` is derived "
        "from the target. Beyond `cp_slots` or `process_limit` the scheduler rotates: idle queues hold the GPU for a "
        "quantum, and an idle GPU may show 100 % busy. A queue that is suspended or evicted takes no slot, but is "
        "counted here. SDMA queues do not count for oversubscription",
        missing,
        nothing="sysfs showed no queue",
    )
    yield Section(
        "oversubscribed",
        "When the slots were oversubscribed",
        list_oversubscribed(tables),
        "derived from the polls: it began between `after` and `from`, and ended between `to` and `before`; `event` = "
        "the line of the kernel log that says so. The driver prints none for the end",
        missing,
        nothing="no poll showed more queues than slots, or the slots are not known",
    )
    yield Section(
        "queue_holders",
        "Who held hardware queues",
        summarize_queue_holders(tables),
        "recorded: queues in sysfs, polled each second; a row without `process` is a program that is not part of this "
        "capture",
        missing,
        nothing="sysfs showed no queue",
    )


def _missing_gpu_times(kernels: pl.DataFrame, evidence: Evidence) -> str:
    if kernels["timed"].sum():
        return ""
    if kernels.is_empty():
        return _missing(evidence, "GPU times are", log=True)
    return (
        f"no kernel has GPU times: how busy the GPU was is unknown; {_PROFILING}, or import a profile of the same run "
        "(--rocprof)"
    )


def _durations(evidence: Evidence) -> str:
    text = describe_durations(evidence.tables("clock_map"))
    return f"; {text}" if text else ""


def _call_sections(evidence: Evidence) -> Iterator[Section]:
    events, durations = evidence.tables("events"), _durations(evidence)
    yield Section(
        "hip_calls",
        "HIP calls",
        summarize_hip_calls(events),
        "recorded: enter and exit lines of the log (1 us steps, including the cost of logging); `share` = of the total "
        "of all calls, in which a call inside another counts twice",
        _missing(evidence, "HIP calls", log=True),
    )
    yield Section(
        "slow_calls",
        "Where the time of slow HIP calls went",
        evidence.by_node(lambda node: summarize_slow_calls(node.tables)),
        "the longest call of each function, the ten longest of these. Making a queue = from `Number of allocated` to "
        "`Created` in the log; lock = futex; time off the CPU needs sched_switch (--event-set full); parts may "
        "overlap. They are derived: by thread and time",
        _missing(evidence, "HIP calls", log=True),
        nothing="no HIP call has both its lines",
        is_whole=True,
        shown=("node", "call_event", "thread", "summary"),
    )
    yield Section(
        "hip_internal",
        "Internal HIP calls",
        summarize_internal_calls(events),
        "recorded by enter and exit lines of the log: `__hip...`, which the compiler calls around a launch, and "
        "functions inside HIP with log lines of their own (`ihipLaunchKernel`); not counted among the HIP calls",
        _missing(evidence, "HIP calls", log=True),
    )
    yield Section(
        "hsa_calls",
        "HSA calls and probed functions of libraries",
        summarize_hsa_calls(events),
        f"recorded by probes on the library, or by a profiler{durations}",
        nothing="no HSA call is recorded (probes on libhsa-runtime64 or rocprof --hsa-trace do)",
    )
    yield Section(
        "rocprof",
        "What rocprof timed",
        summarize_rocprof(events, evidence.tables("kernels")),
        "recorded by rocprof: the GPU times of its kernels and copies, and its own view of the calls",
        nothing="the imported rocprof output has no row with times: see Used, skipped and lost bytes"
        if "rocprof" in evidence.sources
        else "no output of rocprof was imported (--rocprof)",
    )
    yield Section(
        "counters",
        "Hardware counters of kernels",
        summarize_counters(events, evidence.tables("args"), evidence.tables("kernels")),
        "recorded by rocprof, one value per dispatch; `dispatches` = those with a value, in the counter's unit",
        nothing="no profile with counters was imported (rocprofv3 --pmc, then --rocprof with its folder)",
    )
    locks = evidence.by_node(lambda node: summarize_lock_waits(node.tables))
    yield Section(
        "lock_waits",
        "Waits for locks",
        locks,
        "derived: futex calls of the trace that waited for a mutex of glibc, those of one call at one lock by one "
        "waker together; `woken by` = the last thread that woke another one at this lock before the wait ended: "
        "the last holder, perhaps not the only one",
        nothing="no thread waited for a mutex, or futex calls were not recorded (capture with --locks)",
    )
    yield Section(
        "syscalls",
        "System calls",
        summarize_syscalls(events),
        f"recorded: sys_enter and sys_exit, without the ioctls on KFD and DRM; `longest` = the event{durations}",
        _missing(evidence, "system calls", trace=True),
        nothing="the trace has no system call",
    )
    yield Section(
        "ioctls",
        "Ioctls",
        summarize_ioctls(events),
        f"{explain_ioctls(events)}; `result unknown` = no record shows the result: they may have failed{durations}",
        _missing(evidence, "ioctls", trace=True),
        nothing="the trace has no ioctl on a KFD or DRM descriptor",
    )


def _driver_sections(evidence: Evidence) -> Iterator[Section]:
    tables, durations = evidence.tables, _durations(evidence)
    yield Section(
        "drm_jobs",
        "Jobs of the kernel's GPU scheduler",
        evidence.by_node(_jobs).sort("jobs", descending=True, maintain_order=True),
        "recorded by the events of gpu_scheduler or amdgpu; `waited` = from queued to handed to the ring, `ran` = "
        "until its fence. `kcq` = kernel compute queue; queued, run, done = jobs seen at that stage. Work submitted by "
        f"doorbell is no such job{durations}",
        _missing(evidence, "jobs", trace=True),
        nothing="no job is in the trace: none was submitted, or its events were not recorded (gpu_scheduler:*)",
    )
    yield Section(
        "driver_events",
        "Kernel functions and events",
        summarize_driver_events(tables("events")),
        "recorded: rows of the trace except system calls, ioctls and doorbells; times of those with a begin and an "
        f"end; a call that two tracers recorded is one row{durations}",
        _missing(evidence, "kernel functions", trace=True),
        nothing="the trace has no function or event of the driver",
    )
    yield Section(
        "evictions",
        "Evictions, page faults, resets",
        summarize_evictions(tables("events"), tables("args"), tables("processes")),
        "recorded by the KFD (SMI events), also of other processes than the workload's: an evicted queue does not run "
        "until its restore. Only newer drivers report, by DROPPED_EVENT, that their small buffer overran",
        nothing="no SMI event of the KFD is recorded (a capture as root on a machine with GPUs records them)",
    )
    yield Section(
        "kernel_log",
        "Kernel log",
        summarize_kernel_log(tables),
        "what amdgpu, amdkfd and the kernel printed; `process`, `queue` and `gpu` only if the line names them and "
        "its time is known. Half of all hangs print nothing",
        missing=""
        if "kernel_log" in evidence.sources or evidence.layers.get("kernel")
        else "no kernel log: what the driver printed is unknown; import with --kernel-log",
        nothing="the kernel log is silent: none of its lines is of the GPU's driver",
    )


def _jobs(node: Evidence) -> pl.DataFrame:
    return summarize_drm_jobs(node.tables("drm_jobs"), timed=not find_untimed(node.tables("clock_map")))


def _trust_sections(evidence: Evidence) -> Iterator[Section]:
    nothing = "no source reports a loss (a text trace cannot show every loss)"
    if evidence.info.get("state") == "killed":
        nothing += "; but the capture was killed, and no source shows what it had not stored"
    yield Section(
        "losses",
        "Losses",
        evidence.by_node(lambda node: summarize_losses(node.tables("losses"))),
        "recorded by the sources themselves. The HIP log reports no losses: they follow from gaps of packet indexes "
        "and from calls with only one line. A count inside such a span is a lower bound; if the time is unknown, the "
        "span is the whole log; `untold` = spans of unknown number. A log that begins in the middle of the run has a "
        "span with an end only. Records that could not be read are losses too, with the span of their file; What "
        "became of the bytes has the reasons",
        nothing=nothing,
    )
    yield Section(
        "ledger",
        "Used, skipped and lost bytes",
        evidence.by_node(lambda node: summarize_ledger(node.tables("ledger"), node.tables("files"))),
        "recorded by the readers",
    )
    yield Section(
        "unaccounted",
        "Bytes that no reader accounts for",
        evidence.by_node(lambda node: summarize_unaccounted(node.tables("ledger"), node.tables("files"))),
        nothing="all bytes are accounted for",
    )
