"""Which functions of the user-space runtimes are probed, and what is read there.

The doorbell store reads the queue out of the signal (amd_hsa_signal.h, amd_hsa_queue.h, ROCm 4.5 to 7.2):
kind at 0, doorbell address at 8, amd_queue_t at 48; in the queue its ring at 8 and its id at 32.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from tracecorr.capture.plan.plan import Absent, Offer, ProbePlan, Runtime, Wanted

# Measured (kernel 6.18, 64 to 2,688 events): start and end of a thread take 7.4 to 8.0 us longer per event.
_START_NS_PER_EVENT = 7_500
# sizeof(struct perf_event) of Linux 6.x, rounded up by its slab.
_BYTES_PER_EVENT = 1_280
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

    Those of the workload's threads alone cost as many events as one probe does. If few probes fit, the doorbells
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
    start_ms = events * _START_NS_PER_EVENT / 1e6
    product = f"{probes} probe{'s' * (probes != 1)} x {cpus} CPU{'s' * (cpus != 1)}"
    return (
        f"{events} perf events per thread of the workload ({product}): each thread starts "
        f"{start_ms:.1f} ms later and takes {events * _BYTES_PER_EVENT >> 10} KiB of the kernel"
    )


# With write and read index of the amd_queue_t, and the offset of the latter that it tells itself, as a check of all
# that (amd_hsa_queue.h, ROCm 4.5 to 7.2).
_STORE = (
    "sig=%di:x64 val=%si:s64 kind=+0(%di):s64 hw=+8(%di):x64 swq=+48(%di):x64 ring=+8(+48(%di)):x64"
    " qid=+32(+48(%di)):u64 written=+56(+48(%di)):s64 finished=+128(+48(%di)):s64 check=+136(+48(%di)):u32"
)
# Stores to user signals go through the relaxed form, too: kinds below 0 are doorbells.
_DOORBELLS_ONLY = "kind < 0"


@dataclass(frozen=True)
class _Call:
    """A function of a runtime."""

    symbol: str
    event: str
    arguments: str
    returns: str = ""
    event_set: str = "minimal"
    filter: str = ""


def _entry(symbol: str, arguments: str = "", event_set: str = "full") -> _Call:
    return _Call(symbol, symbol, arguments, "ret=$retval:s32", event_set)


_CALLS = (
    _Call("hsa_signal_store_screlease", "doorbell", _STORE),
    _Call("hsa_signal_store_release", "doorbell_release", _STORE),
    _Call("hsa_signal_store_relaxed", "doorbell_relaxed", _STORE, filter=_DOORBELLS_ONLY),
    _entry("hsa_queue_create", "agent=%di:x64 size=%si:u32 type=%dx:u32", "minimal"),
    # ROCm 10. What it makes is in an array of structures, whose layout is not known here.
    _entry("hsa_amd_queue_create", "agent=%di:x64 queues=%dx:u32", "minimal"),
    _entry("hsa_amd_counted_queue_acquire", "agent=%di:x64 type=%si:u32 priority=%dx:u32", "minimal"),
    _entry("hsa_amd_counted_queue_release", "swq=%di:x64", "minimal"),
    _entry("hsa_queue_destroy", "swq=%di:x64", "minimal"),
    _entry("hsa_amd_queue_set_priority", "swq=%di:x64 priority=%si:u32", "minimal"),
    _entry("hsa_amd_queue_cu_set_mask", "swq=%di:x64 bits=%si:u32", "minimal"),
    _Call("roctxRangePushA", "roctx_push", "text=+0(%di):string", event_set="default"),
    _Call("roctxRangePop", "roctx_pop", "", event_set="default"),
    _Call("roctxMarkA", "roctx_mark", "text=+0(%di):string", event_set="default"),
    _entry("hsa_init"),
    _entry("hsa_shut_down"),
    _entry("hsa_amd_memory_pool_allocate", "size=%si:u64"),
    _entry("hsa_amd_memory_pool_free", "address=%di:x64"),
    _entry("hsa_amd_memory_lock", "address=%di:x64 size=%si:u64"),
    _entry("hsa_amd_memory_unlock", "address=%di:x64"),
    _entry("hsa_amd_memory_async_copy", "to=%di:x64 from=%dx:x64 size=%r8:u64"),
    _entry("hsa_amd_memory_async_copy_on_engine", "to=%di:x64 from=%dx:x64 size=%r8:u64"),
    _entry("hsa_executable_load_agent_code_object"),
    _entry("hsa_executable_freeze"),
    _entry("hipLaunchKernel", "function=%di:x64 stream=$stack2:x64"),
    _entry("hipModuleLaunchKernel", "function=%di:x64"),
    _entry("hipExtModuleLaunchKernel", "function=%di:x64"),
    _entry("hipGraphLaunch", "graph=%di:x64 stream=%si:x64"),
)
_KIND_NAMES = {"hsa": "libhsa-runtime64", "roctx": "libroctx64"}


@dataclass(frozen=True)
class _Wish:
    """The probes of one function of one runtime."""

    runtime: Runtime
    probes: tuple[ProbePlan, ...]
    rank: int  # the lowest is armed first where not all can be


def plan_user_probes(
    wanted: Wanted, offer: Offer, sets: tuple[str, ...], taken: int = 0
) -> tuple[tuple[ProbePlan, ...], tuple[Absent, ...]]:
    """Choose the probes on the runtimes of the offer; one that appears late is planned by the same function.

    Args:
        wanted: what the command line asks for.
        offer: what the machine offers; `runtimes` are those that the workload loads, or may load.
        sets: the event sets that are included, the wanted one last.
        taken: how many probes go through perf already.
    """
    if not offer.uprobes:
        why = "this kernel has no uprobe events"
        return (), (Absent("doorbells (inferred instead)", why, "a kernel with CONFIG_UPROBE_EVENTS"),)
    wishes: list[_Wish] = []
    absent: list[Absent] = []
    for number, runtime in enumerate(offer.runtimes, 1):
        asked = (*sets, "default") if wanted.ranges and runtime.kind == "roctx" else sets
        calls = [*_calls_of(runtime, asked), *_wanted_calls(runtime, wanted)]
        reason = _unbound(runtime, wanted, offer)
        if calls and reason:
            absent.append(reason)
            continue
        suffix = copy_suffix(1 if number == 1 + _first(offer.runtimes, runtime.kind) else number)
        wishes += [_Wish(runtime, tuple(_probes(call, runtime, suffix)), _rank(call)) for call in calls]
    probes, too_many = _share_out(wishes, wanted, offer, taken)
    return probes, (*absent, *too_many, *_missing(wanted, offer, sets))


def _rank(call: _Call) -> int:
    """Doorbells first, then what the user named, then the functions in their order."""
    if call.event.startswith("doorbell"):
        return 0
    return _CALLS.index(call) + 2 if call in _CALLS else 1


def _share_out(
    wishes: list[_Wish], wanted: Wanted, offer: Offer, taken: int
) -> tuple[tuple[ProbePlan, ...], list[Absent]]:
    """Choose the way of each probe: perf as far as its events go, else tracefs where no other process would pay.

    If the user lets everybody pay, tracefs does it with one probe instead of one per thread and CPU.
    """
    if not offer.perf_probes or wanted.probe_shared:
        return tuple(probe for wish in wishes for probe in wish.probes), []
    left = most_probes(offer) - taken - watch_probes(offer)
    ways: dict[int, str] = {}
    for at in sorted(range(len(wishes)), key=lambda at: wishes[at].rank):
        count = len(wishes[at].probes)
        fits = count <= left
        left -= count if fits else 0
        ways[at] = "perf" if fits else "tracefs" if not wishes[at].runtime.other_users else ""
    probes = [replace(probe, through=ways[at]) for at, wish in enumerate(wishes) for probe in wish.probes if ways[at]]
    refused: dict[str, tuple[Runtime, list[str]]] = {}
    for at, wish in enumerate(wishes):
        if not ways[at]:
            names = refused.setdefault(wish.runtime.host_path, (wish.runtime, []))[1]
            names += [probe.name for probe in wish.probes]
    return tuple(probes), [_too_costly(runtime, names, offer) for runtime, names in refused.values()]


def _too_costly(runtime: Runtime, names: list[str], offer: Offer) -> Absent:
    cost = describe_cost(len(names), perf_cpus(offer))
    return Absent(
        f"probes {' '.join(names)} on {runtime.path}",
        f"{cost}; through tracefs the {runtime.other_users} other processes that map the library would get slower",
        "run the workload on fewer CPUs (taskset, numactl), or: tracecorr capture --probe-shared",
    )


def copy_suffix(number: int) -> str:
    """Return what the names of probes end in for the `number`-th library; readers take it off again."""
    return "" if number == 1 else f"__{number}"


def _first(runtimes: tuple[Runtime, ...], kind: str) -> int:
    return next(at for at, r in enumerate(runtimes) if r.kind == kind)


def _calls_of(runtime: Runtime, sets: tuple[str, ...]) -> Iterator[_Call]:
    """Yield the functions to probe; of two names of one address the first, or every hit would count and cost twice."""
    taken: set[int] = set()
    for call in _CALLS:
        offset = runtime.symbols.get(call.symbol)
        if offset is not None and offset not in taken and call.event_set in sets:
            taken.add(offset)
            yield call


def _wanted_calls(runtime: Runtime, wanted: Wanted) -> Iterator[_Call]:
    for text in wanted.uprobes:
        path, _, symbol = text.rpartition(":")
        if path in (runtime.path, runtime.host_path) and symbol in runtime.symbols:
            event = re.sub(r"\W", "_", symbol)
            yield _Call(symbol, event, "arg1=%di:x64 arg2=%si:x64 arg3=%dx:x64", "ret=$retval:x64")


def _unbound(runtime: Runtime, wanted: Wanted, offer: Offer) -> Absent | None:
    """Return why no probe may be set on the file: others would pay some 10 us for each of their calls."""
    if offer.perf_probes or wanted.probe_shared or not runtime.other_users:
        return None
    others = f"{runtime.other_users} other processes" if runtime.other_users > 1 else "another process"
    return Absent(
        f"probes on {runtime.path}",
        f"{others} would get slower, and this kernel does not let perf bind them to the workload",
        "tracecorr capture --probe-shared",
    )


def _probes(call: _Call, runtime: Runtime, suffix: str) -> Iterator[ProbePlan]:
    place = f"{runtime.host_path}:{runtime.symbols[call.symbol]:#x}"
    name = f"{call.event}{suffix}"
    why = f"{call.symbol} of {runtime.path}"
    yield ProbePlan("u", name, f"{place} {call.arguments}".strip(), "workload", why=why, filter=call.filter)
    if call.returns:
        yield ProbePlan("u-return", f"{name}_ret", f"{place} {call.returns}", "workload", why=why)


def _missing(wanted: Wanted, offer: Offer, sets: tuple[str, ...]) -> Iterator[Absent]:
    kinds = {r.kind for r in offer.runtimes}
    if "hsa" not in kinds:
        yield Absent(
            f"doorbells ({_KIND_NAMES['hsa']})",
            "no library that exports hsa_signal_store_* was found; if the workload loads one, it is probed then",
        )
    if "roctx" not in kinds and (wanted.ranges or "default" in sets):
        yield Absent(f"roctx ranges ({_KIND_NAMES['roctx']})", "no library that exports roctxRangePushA was found")
    for text in wanted.uprobes:
        path, _, symbol = text.rpartition(":")
        if not any(symbol in r.symbols and path in (r.path, r.host_path) for r in offer.runtimes):
            yield Absent(f"--uprobes {text}", _no_symbol(path, symbol, offer.runtimes))


def _no_symbol(path: str, symbol: str, runtimes: Iterable[Runtime]) -> str:
    if not path or not symbol:
        return "it is not of the form PATH:SYMBOL"
    known = any(path in (r.path, r.host_path) for r in runtimes)
    return f"{path} does not export {symbol}" if known else f"no file {path} that exports {symbol} was found"
