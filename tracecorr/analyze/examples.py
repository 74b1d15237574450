"""SQL that answers common questions: what `query --examples` and the page offer."""

from __future__ import annotations

import re

from tracecorr.model.errors import InputError
from tracecorr.model.kinds import GRAPH_CALL, NOT_YET, NUMBER, SUCCEEDED

# What an example has more of a dataset, whose tables all have `node`.
_OF_NODES = re.compile(r"/\* (.*?) \*/ ?")

# Name -> what it answers, and the query; /* what only a dataset has */ is a comment to all others (see `find_example`).
EXAMPLES: dict[str, tuple[str, str]] = {
    "queues": (
        "queues with their ring, priorities and packets",
        "SELECT /* node, */ queue, type, hwq, priority_log, priority_ioctl, dispatches, barriers FROM queues "
        "ORDER BY queue",
    ),
    "slowest-launches": (
        "the 20 slowest HIP calls that dispatch kernels, with their system calls; kernels of a graph share one",
        "SELECT /* l.node, */ l.call_event, c.name AS hip_call, MIN(k.display) AS a_kernel, COUNT(*) AS dispatches, "
        "MAX(l.return_ns - l.call_ns) AS call_duration_ns, MIN(l.packet_ns - l.call_ns) AS to_first_packet_ns, "
        "MAX(s.n) AS syscalls, MAX(s.ns) AS in_syscalls_ns "
        "FROM launches l JOIN events c ON l.call_event = c.event LEFT JOIN kernels k ON l.kernel = k.kernel "
        "LEFT JOIN (SELECT chain, COUNT(*) AS n, SUM(dur_ns) AS ns FROM events WHERE layer IN ('syscall', 'ioctl') "
        "GROUP BY chain) s ON l.call_event = s.chain "
        "WHERE l.kind = 'dispatch' AND l.return_ns IS NOT NULL GROUP BY /* l.node, */ l.call_event, c.name "
        "ORDER BY call_duration_ns DESC, l.call_event LIMIT 20",
    ),
    "kernels": (
        "dispatches by kernel and queue",
        "SELECT /* l.node, */ k.display AS kernel, l.queue, COUNT(*) AS dispatches FROM launches l "
        "LEFT JOIN kernels k ON l.kernel = k.kernel WHERE l.kind = 'dispatch' "
        "GROUP BY /* l.node, */ k.display, l.queue ORDER BY dispatches DESC",
    ),
    "gpu-times": (
        "GPU times by queue and kind of packet (times that overlap count twice; a barrier is no work)",
        "SELECT /* node, */ queue, kind, COUNT(*) AS packets, COUNT(gpu_end_ns - gpu_start_ns) AS timed, "
        "SUM(gpu_end_ns - gpu_start_ns) AS gpu_total_ns, MIN(gpu_start_ns) AS first_start_ns, "
        "MAX(gpu_end_ns) AS last_end_ns FROM launches GROUP BY /* node, */ queue, kind ORDER BY queue, kind",
    ),
    "ioctls-in-calls": (
        "ioctls by the HIP call that caused them",
        "SELECT c.name AS hip_call, i.name AS ioctl, COUNT(*) AS n, SUM(i.dur_ns) AS total_ns FROM events i "
        "JOIN events c ON i.chain = c.event WHERE i.layer = 'ioctl' GROUP BY c.name, i.name ORDER BY n DESC",
    ),
    "kernel-time-of-calls": (
        "time of the outermost HIP calls, and how much of it was in ioctls and other system calls",
        "SELECT c.name AS hip_call, COUNT(*) AS calls, SUM(c.dur_ns) AS total_ns, SUM(s.ioctls) AS ioctls, "
        "SUM(s.ioctl_ns) AS in_ioctls_ns, SUM(s.others) AS other_syscalls, SUM(s.other_ns) AS in_other_syscalls_ns "
        "FROM events c LEFT JOIN (SELECT chain, SUM(CASE WHEN layer = 'ioctl' THEN 1 ELSE 0 END) AS ioctls, "
        "SUM(CASE WHEN layer = 'ioctl' THEN dur_ns ELSE 0 END) AS ioctl_ns, "
        "SUM(CASE WHEN layer = 'syscall' THEN 1 ELSE 0 END) AS others, "
        "SUM(CASE WHEN layer = 'syscall' THEN dur_ns ELSE 0 END) AS other_ns "
        "FROM events WHERE layer IN ('ioctl', 'syscall') GROUP BY chain) s ON c.event = s.chain "
        "WHERE c.layer = 'hip' AND c.chain = c.event AND c.source <> 'rocprof' GROUP BY c.name ORDER BY total_ns DESC",
    ),
    "failed": (
        "calls and ioctls that failed",
        "SELECT /* node, */ layer, name, result, COUNT(*) AS n FROM events WHERE layer IN ('hip', 'ioctl') "
        f"AND result NOT IN ({', '.join(map(repr, (*SUCCEEDED, *NOT_YET)))}) AND NOT REGEXP_LIKE(result, '{NUMBER}') "
        "GROUP BY /* node, */ layer, name, result ORDER BY n DESC",
    ),
    "doorbell-delay": (
        "time from packet line to doorbell store, by kind of packet (barriers store before their line)",
        "SELECT kind, COUNT(*) AS n, MIN(doorbell_ns - packet_ns) AS min_ns, AVG(doorbell_ns - packet_ns) AS mean_ns, "
        "MAX(doorbell_ns - packet_ns) AS max_ns FROM launches WHERE doorbell_evidence = 'recorded' "
        "GROUP BY kind ORDER BY kind",
    ),
    "launch-latency": (
        "P50 and P99 from HIP call to packet, recorded doorbell and GPU start, by stream and kernel, without graphs",
        "SELECT /* l.node, */ l.stream, k.display AS kernel, COUNT(*) AS dispatches, "
        "QUANTILE_DISC(l.packet_ns - l.call_ns, 0.5) AS packet_p50_ns, "
        "QUANTILE_DISC(l.packet_ns - l.call_ns, 0.99) AS packet_p99_ns, "
        "QUANTILE_DISC(d.doorbell_ns - l.call_ns, 0.5) AS doorbell_p50_ns, "
        "QUANTILE_DISC(d.doorbell_ns - l.call_ns, 0.99) AS doorbell_p99_ns, "
        "QUANTILE_DISC(l.gpu_start_ns - l.call_ns, 0.5) AS gpu_start_p50_ns, "
        "QUANTILE_DISC(l.gpu_start_ns - l.call_ns, 0.99) AS gpu_start_p99_ns "
        "FROM launches l LEFT JOIN kernels k ON l.kernel = k.kernel "
        "LEFT JOIN events c ON l.call_event = c.event "
        "LEFT JOIN (SELECT event, doorbell_ns FROM launches WHERE doorbell_evidence = 'recorded') d "
        f"ON l.event = d.event WHERE l.kind = 'dispatch' AND COALESCE(c.name, '') NOT LIKE '{GRAPH_CALL}%' "
        "GROUP BY /* l.node, */ l.stream, k.display ORDER BY dispatches DESC, l.stream, kernel",
    ),
    "waits-for": (
        "which stream waited for signals of which other stream, and how often",
        "SELECT /* b.node, */ b.stream AS waiting_stream, b.queue AS waiting_queue, b.kind AS waiting_kind, "
        "a.stream AS of_stream, a.queue AS of_queue, a.kind AS of_kind, COUNT(*) AS waits FROM links k "
        "JOIN launches a ON k.from_event = a.event JOIN launches b ON k.to_event = b.event "
        "WHERE k.rule = 'signal_dependency' "
        "GROUP BY /* b.node, */ b.stream, b.queue, b.kind, a.stream, a.queue, a.kind ORDER BY waits DESC",
    ),
    "unlinked": (
        "why launches have no link",
        "SELECT kind, unlinked_reason, COUNT(*) AS n FROM launches WHERE unlinked_reason IS NOT NULL "
        "GROUP BY kind, unlinked_reason ORDER BY n DESC",
    ),
    "streams": (
        "which stream used which queue, and when",
        "SELECT /* s.node, */ s.stream, s.handle, s.priority, q.queue, q.from_ns, q.to_ns FROM streams s "
        "JOIN stream_queues q ON s.stream = q.stream ORDER BY s.stream, q.from_ns",
    ),
    "copies": (
        "copies by engine",
        "SELECT engine, COUNT(*) AS copies, COUNT(size_bytes) AS with_size, SUM(size_bytes) AS total_bytes "
        "FROM launches WHERE kind = 'copy' "
        "GROUP BY engine ORDER BY copies DESC",
    ),
    "links": (
        "links by rule and evidence",
        "SELECT rule, evidence, COUNT(*) AS n FROM links GROUP BY rule, evidence ORDER BY n DESC",
    ),
    "skipped": (
        "what was skipped or lost, by file and reason",
        "SELECT /* f.node, */ f.path, l.outcome, l.reason, l.records, l.bytes FROM ledger l "
        "JOIN files f ON l.file = f.file WHERE l.outcome <> 'used' ORDER BY l.bytes DESC",
    ),
}


def find_example(name: str, *, by_node: bool = False) -> str:
    """Return the query of an example.

    Args:
        name: one of `EXAMPLES`.
        by_node: whether the capture is a dataset of many nodes; then the query names the node of each row.

    Raises:
        InputError: there is no such example.
    """
    if name not in EXAMPLES:
        raise InputError(f"there is no example {name!r}", f"examples are: {', '.join(EXAMPLES)}")
    return _OF_NODES.sub(r"\1 " if by_node else "", EXAMPLES[name][1])
