"""The sections of a report: which question, asked of which tables, known how."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from tracecorr.analyze.answers import Section
from tracecorr.analyze.call_sections import list_call_sections, list_driver_sections
from tracecorr.analyze.clocks import summarize_clocks, summarize_time_errors
from tracecorr.analyze.copies import summarize_copies
from tracecorr.analyze.frames import Tables
from tracecorr.analyze.gaps import summarize_gaps
from tracecorr.analyze.glossary import list_words
from tracecorr.analyze.gpu_sections import list_gpu_sections
from tracecorr.analyze.graphs import summarize_graphs
from tracecorr.analyze.hqd import list_logical_queues
from tracecorr.analyze.kernels import summarize_named
from tracecorr.analyze.lacks import (
    explain_lack,
    explain_lack_of_doorbells,
    explain_lack_of_dumps,
    explain_lack_of_kernels,
    explain_lack_of_packets,
)
from tracecorr.analyze.latency import summarize_latency
from tracecorr.analyze.launches import NO_DISPATCH, NO_PACKET, summarize_launches, summarize_unlinked
from tracecorr.analyze.ledger import summarize_ledger, summarize_unaccounted
from tracecorr.analyze.losses import summarize_losses
from tracecorr.analyze.memory import summarize_memory
from tracecorr.analyze.owners import list_owner_sections
from tracecorr.analyze.paths import summarize_paths
from tracecorr.analyze.queues import summarize_queues
from tracecorr.analyze.streams import NO_STREAM_NAMES, names_streams, summarize_streams
from tracecorr.analyze.verdicts.evidence import Evidence
from tracecorr.analyze.waits import summarize_waits


def list_sections(evidence: Evidence, sources: set[str]) -> Iterator[Section]:
    """Yield all sections of the report, in its order.

    Args:
        evidence: the tables of a capture.
        sources: the sources that were read.
    """
    tables = evidence.tables
    yield Section("glossary", "Words of this report", list_words())
    yield from list_owner_sections(evidence)
    yield _complaint_section(evidence, sources)
    yield from _time_sections(evidence, sources)
    yield from _packet_sections(tables, sources)
    yield from _queue_sections(evidence, sources)
    yield from _service_sections(evidence, sources)
    yield from _ring_sections(evidence, sources)
    yield from _path_sections(evidence, sources)
    yield from _copy_sections(tables, sources)
    yield from _kernel_sections(evidence, sources)
    yield from list_gpu_sections(evidence, sources)
    yield from list_call_sections(tables, sources)
    yield from list_driver_sections(evidence, sources)
    yield from _trust_sections(evidence)


def _complaint_section(evidence: Evidence, sources: set[str]) -> Section:
    return Section(
        "complaints",
        "Errors and warnings of the runtime",
        evidence.complaints.drop("name"),
        "recorded: lines that HIP printed at level 0 (fatal error), 1 (error) or 2 (warning); `message` is the first "
        "of those that differ in numbers alone, `variants` how many those are, `call` the HIP call around it. "
        "`Unknown Event Type` at the end of a process is harmless",
        explain_lack(sources, "errors of the runtime are", log=True),
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
        explain_lack(sources, "the other side of every link is", log=True, trace=True),
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
        explain_lack(sources, "packets", log=True) or explain_lack_of_doorbells(packets),
    )
    yield Section(
        "unlinked",
        "Packets with a link missing",
        summarize_unlinked(launches),
        "each launch without a complete chain names the first link that it lacks",
        explain_lack(sources, "packets", log=True) or (NO_PACKET if packets.is_empty() else ""),
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
        explain_lack(sources, "packets", log=True),
        nothing=NO_PACKET,
    )


def _queue_sections(evidence: Evidence, sources: set[str]) -> Iterator[Section]:
    tables = evidence.tables
    lacks = (
        explain_lack(sources, "half of each queue is", log=True, trace=True),
        explain_lack_of_packets(tables, sources),
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
        explain_lack(sources, "half of each creation is", log=True, trace=True),
    )
    yield Section(
        "priorities",
        "Priorities",
        evidence.by_node(lambda node: node.priorities),
        "`hip` = asked by the stream, `log` = Created line, `driver` = UPDATE_QUEUE, else CREATE_QUEUE, as a probe "
        "read it, `hqd` = the last dump; they prove the setting, not that the GPU preempts. Where `ring_evidence` (see "
        "Queues) is inferred, that `hip` and `log` are of one queue is so, too",
        explain_lack(sources, "priorities are", log=True),
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
        explain_lack(sources, "packets", log=True),
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
        explain_lack_of_dumps(tables),
        nothing="no dump of the KFD is in the capture (--hqd, or `tracecorr hqd`)",
    )
    yield Section(
        "backlog",
        "Depth of the rings",
        evidence.by_node(lambda node: node.backlog),
        "recorded: wptr - rptr + 1 of the log, packets in the ring when one more was written: an upper bound",
        explain_lack(sources, "packets", log=True),
        nothing="the log prints no rptr and wptr (ROCm 6.2 and later do at level 5)",
    )
    yield Section(
        "streams",
        "Streams",
        evidence.by_node(_streams),
        "streams are recorded by the log's calls; their queues are known as `queue_evidence` says; dispatches, "
        "barriers or copies are unknown where it does not name the stream of all of them",
        explain_lack(sources, "streams", log=True) or ("" if names_streams(tables("launches")) else NO_STREAM_NAMES),
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
        explain_lack_of_kernels(kernels, sources),
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
        explain_lack(sources, "packets", log=True),
        nothing=NO_DISPATCH,
    )
    yield Section(
        "graphs",
        "Graph launches",
        summarize_graphs(launches, events),
        "recorded: the calls that launch graphs, and their packets; the log's own cost is part of their times; `per "
        "dispatch` = time of the calls by their dispatches",
        explain_lack(sources, "graph launches", log=True),
        nothing="no graph was launched",
    )
    yield Section(
        "gaps",
        "Pauses between packets",
        evidence.by_node(lambda node: summarize_gaps(node.tables("launches"))),
        "recorded by the log: time without a new packet on the queue, not idle time of the GPU",
        explain_lack(sources, "packets", log=True),
        nothing=NO_PACKET,
    )
    yield Section(
        "waits",
        "Waits",
        summarize_waits(events),
        "recorded: calls and ioctls with their durations; waits on a signal are lines without one. Calls are those "
        "whose name says that they wait, of others (`hipFree`) those in which a wait lies (derived); what else they do "
        "is part of their time",
        explain_lack(sources, "waits", log=True),
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
        explain_lack(sources, "copies", log=True) or no_end,
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
        explain_lack(sources, "allocations", log=True),
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
