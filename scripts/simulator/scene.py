"""What a synthetic run does, and what is recorded of it."""

from __future__ import annotations

from dataclasses import dataclass, field

from simulator.clocks import ClockModel


@dataclass(frozen=True)
class Scene:
    """Describe one synthetic run; the same scene gives the same bytes.

    Args:
        seed: of the random choices.
        era: release whose forms the log has: `7.2`, `7.0`, `6.4`, `6.3`, `6.2` or `5.7`.
        level: AMD_LOG_LEVEL.
        levels: AMD_LOG_LEVEL of the first process, the second one, and so on; none: all have `level`.
        span_s: the run goes on for this long.
        launch_gap_us: mean time between two operations of a thread.
        processes, threads: processes, and HIP threads in each of them.
        streams: streams of each thread.
        queues: hardware queues of a process, at most (GPU_MAX_HW_QUEUES).
        clock: the trace's clock.
        raw: CLOCK_MONOTONIC_RAW, the clock of ROCr's lines.
        suspended_ns: BOOTTIME minus MONOTONIC.
        namespace_ns: what the time namespace of the processes adds to the clocks that the log shows.
        samples_s: time between clock samples; 0 = none.
        doorbell: fields of the probe: `none`, `plain` (sig, val) or `rich` (with ring and qid).
        queue_probe: whether a kernel probe records the ring of CREATE_QUEUE.
        thread_events: which calls of the C library were traced: `robust`, or none.
        container: the log shows other pids than the trace.
        swapped_pids: whether the log shows for each process the host's pid of the next one, as namespaces may.
        one_log: whether all processes write to one file.
        direct_dispatch: whether packets are written by the calling thread.
        first_index: index of the first packet of each queue, to reach the wrap at 2**32.
        staged_copies: whether some copies are made in parts that wait for each other.
        recreate: whether queues are deleted and made again with the same ring.
        reuse_pid: whether a second process of the same pid follows the first.
        successive: whether the threads follow each other, all with the same stack address.
        reuse_tid: whether all threads but the first one have one tid, of which each stack tells the owner.
        log_damage, trace_damage: by their names in `simulator.damage`; none without a name.
        damage_seed: of the random choices of the damage.
        migrate: whether threads change their CPU.
        gpus: GPUs of each process; its threads make their streams on all of them in turns.
        graph_packets: kernels of each graph; 0 = two to five.
        same_layout: whether the processes have equal addresses, as copies of one container without ASLR do.
        pages: whether the trace is written as pages of the ring buffer, else as text.
        writes: how the log is written, if the trace shows that: `file` (one write per record), `stderr` (pieces of at
            most 128 bytes), `odd` (pieces of any size, with short writes, restarts and a full disk on the way); or not.
        long_names: whether the names of kernels fill the 4,095 bytes that a message has at most.
        kinds: weights of the operations.
    """

    seed: int = 1
    era: str = "7.2"
    level: int = 5
    levels: tuple[int, ...] = ()
    span_s: float = 2.0
    launch_gap_us: float = 400.0
    processes: int = 1
    threads: int = 1
    streams: int = 2
    queues: int = 4
    clock: ClockModel = field(default_factory=ClockModel)
    raw: ClockModel = field(default_factory=lambda: ClockModel("mono_raw", 250_000_000, 3.0))
    suspended_ns: int = 0
    namespace_ns: int = 0
    samples_s: float = 0.0
    doorbell: str = "plain"
    queue_probe: bool = False
    thread_events: tuple[str, ...] = ("robust",)
    container: bool = False
    swapped_pids: bool = False
    one_log: bool = False
    direct_dispatch: bool = True
    first_index: int = 0
    staged_copies: bool = False
    recreate: bool = False
    reuse_pid: bool = False
    successive: bool = False
    reuse_tid: bool = False
    log_damage: str = ""
    trace_damage: str = ""
    damage_seed: int = 1
    migrate: bool = False
    gpus: int = 1
    graph_packets: int = 0
    same_layout: bool = False
    pages: bool = False
    writes: str = ""
    long_names: bool = False
    kinds: tuple[tuple[str, float], ...] = (
        ("launch", 10), ("event", 3), ("sync", 1), ("malloc", 1), ("copy", 1), ("graph", 0.5), ("getters", 2),
    )  # fmt: skip

    @property
    def prints_index(self) -> bool:
        """Tell whether dispatch lines of this release print rptr and wptr."""
        return self.era >= "6.3"

    @property
    def barriers_print_index(self) -> bool:
        """Tell whether barrier lines of this release print rptr and wptr."""
        return self.era >= "7.0"
