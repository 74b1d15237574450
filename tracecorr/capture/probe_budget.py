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
# Two functions that ring doorbells, and the watch of the mappings.
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
    per_thread = min(MOST_PER_THREAD, files // max(offer.workload_threads, 1))
    return max(per_thread // perf_cpus(offer), 0)


def watches_mappings(offer: Offer) -> bool:
    """Tell whether the mappings of the workload are watched through perf: it costs what one probe does.

    Where few probes fit, the doorbells take them all.
    """
    return offer.perf_probes and most_probes(offer) >= _FEW_PROBES


def describe_cost(probes: int, cpus: int) -> str:
    """Return what probes through perf cost the workload, as text."""
    events = probes * cpus
    start_ms = events * START_NS_PER_EVENT / 1e6
    return (
        f"{events} perf events per thread of the workload ({probes} probes x {cpus} CPUs): each thread starts "
        f"{start_ms:.1f} ms later and takes {events * BYTES_PER_EVENT >> 10} KiB of the kernel"
    )
