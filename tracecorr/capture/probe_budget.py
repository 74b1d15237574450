"""How many probes may go through perf: each is one event per thread and CPU, cloned for every thread that starts.

The kernel maps the records of events that children inherit only when each event is of one CPU (perf_event_open(2)), so
a probe costs as many events per thread as the workload may use CPUs.
"""

from __future__ import annotations

from tracecorr.capture.offer import Offer

# Measured (kernel 6.18, 64 to 2,688 events): start and end of a thread take 7.4 to 8.0 us longer per event.
START_NS_PER_EVENT = 7_500
# sizeof(struct perf_event) of Linux 6.x, rounded up by its slab.
BYTES_PER_EVENT = 1_280
# So a thread of the workload starts at most some 4 ms later.
MOST_PER_THREAD = 512
# Two functions ring doorbells. Without both most of a launch is not seen, so on 257 to 384 CPUs they may cost 6 ms.
_DOORBELLS, MOST_FOR_DOORBELLS = 2, 768
# Both, and the watch of the mappings.
_FEW_PROBES = 3
# Descriptors of the events of threads that run already, and the kernel's memory for them.
MOST_OPEN = 200_000
_FILES_PER_CPU, _OTHER_FILES = 6, 256


def perf_cpus(offer: Offer) -> int:
    """Return on how many CPUs a probe must be opened."""
    return len(offer.workload_cpus) or offer.cpus


def most_probes(offer: Offer) -> int:
    """Return how many probes may go through perf."""
    files = min(offer.most_files - offer.cpus * _FILES_PER_CPU - _OTHER_FILES, MOST_OPEN)
    files_per_thread, cpus = files // max(offer.workload_threads, 1), perf_cpus(offer)
    doorbells = min(MOST_FOR_DOORBELLS, files_per_thread) // cpus
    return max(min(MOST_PER_THREAD, files_per_thread) // cpus, min(doorbells, _DOORBELLS), 0)


def choose_watch(offer: Offer) -> str:
    """Return whose mappings perf tells of (`Plan.watch_mappings`).

    Those of the workload's threads alone cost as many events as one probe does. Where few probes fit, the doorbells
    take them all, and one event per CPU tells of the mappings of the whole machine.
    """
    if not offer.perf_probes:
        return ""
    return "workload" if most_probes(offer) >= _FEW_PROBES else "machine"


def watch_probes(offer: Offer) -> int:
    """Return how many probes the watch of the mappings costs each thread of the workload."""
    return int(choose_watch(offer) == "workload")


def describe_cost(probes: int, cpus: int) -> str:
    """Return what probes through perf cost the workload, as text."""
    events = probes * cpus
    start_ms = events * START_NS_PER_EVENT / 1e6
    product = f"{probes} probe{'s' * (probes != 1)} x {cpus} CPU{'s' * (cpus != 1)}"
    return (
        f"{events} perf events per thread of the workload ({product}): each thread starts "
        f"{start_ms:.1f} ms later and takes {events * BYTES_PER_EVENT >> 10} KiB of the kernel"
    )
