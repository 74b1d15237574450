"""Which driver functions are probed, and what is read there.

Arguments of `kfd_ioctl_*` are the kernel's copy of the uAPI struct (kfd_ioctl.h, the same offsets from KFD 1.3 to
1.23), so they hold on every kernel. Fields of the driver's own structs are read by name where the kernel knows
types. Two offsets that all known drivers share are used without: queue_properties has queue_id at 8 and
queue_address at 16 (kernels 6.1 to 7.2, DKMS 6.7 and 2026-01); readers believe them only where the ring equals the
one that CREATE_QUEUE asked for. Drivers before 1.17 have no engine and no metadata ring in CREATE_QUEUE: what lies
there is believed only where the number of the request says that the caller's struct holds them.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from tracecorr.capture.plan.plan import Absent, Offer, ProbePlan, Wanted
from tracecorr.capture.tracefs.arm import OF_DRIVER
from tracecorr.read.kfd.ioctls import USERQ_HANDLER

_REGISTERS = ("di", "si", "dx", "cx", "r8", "r9")  # of the first arguments, x86-64 System V
_SUFFIX = re.compile(r"(?:\.(?:isra|constprop|part)\.\d+)+$")
_RING = "ring=+0({3}):x64"
_RESULT = "ret=$retval:s32"
_ENTRY = "kfd_ioctl"
# The wrappers that MI300's generation has are unique and count once per queue; the others exist once per generation.
_MQD = re.compile(
    r"^(?:(?:allocate|init|update|load|destroy|free|restore)_(?:mqd|sdma_mqd|hiq_mqd)(?:_(?!hub)\w+)?"
    r"|kfd_(?:load|free|destroy)_mqd\w*|(?:kfd_)?hiq_load_mqd_kiq\w*)$"
)


@dataclass(frozen=True)
class _Function:
    """A driver function; in texts `{n}` stands for its n-th argument."""

    name: str
    arguments: str = ""
    typed: str = ""  # the same, and more, by field names
    returns: str = ""  # read at the return; "" = no return probe
    kept: str = ""  # read at the return of entry arguments, where the kernel keeps them
    instance: str = "workload"
    event_set: str = "minimal"  # the least set that has it
    older: str = ""  # what older drivers call it
    optional: bool = False  # of newer drivers alone: nothing is lost where it is not there


def _call(name: str, arguments: str, kept: str = "", event_set: str = "minimal") -> _Function:
    return _Function(f"kfd_ioctl_{name}", arguments, returns=_RESULT, kept=kept, event_set=event_set)


_FUNCTIONS = (
    # Entering and leaving the driver.
    _Function(_ENTRY, "cmd={2}:x32 arg={3}:x64", returns="ret=$retval:s64"),
    _Function("kfd_mmap"),
    _Function("kfd_open", instance="gpu"),
    _Function("kfd_release", instance="gpu"),
    _Function("kfd_create_process"),
    # The life of a queue, by the struct of its ioctl.
    _call(
        "create_queue",
        f"{_RING} wptr=+8({{3}}):x64 rptr=+16({{3}}):x64 size=+32({{3}}):u32 gpu=+36({{3}}):x32 type=+40({{3}}):u32"
        " pct=+44({3}):u32 prio=+48({3}):u32 engine=+88({3}):u32 metadata_ring=+92({3}):u32",
        kept="qid=+52({3}):u32 doorbell=+24({3}):x64",
    ),
    _call("destroy_queue", "qid=+0({3}):u32"),
    _call("update_queue", f"{_RING} qid=+8({{3}}):u32 size=+12({{3}}):u32 pct=+16({{3}}):u32 prio=+20({{3}}):u32"),
    _call("set_cu_mask", "qid=+0({3}):u32 bits=+4({3}):u32"),
    _call("alloc_queue_gws", "qid=+0({3}):u32 gws=+4({3}):u32"),
    # Memory.
    _call("alloc_memory_of_gpu", "va=+0({3}):x64 size=+8({3}):u64 gpu=+32({3}):x32 flags=+36({3}):x32",
          kept="handle=+16({3}):x64", event_set="full"),
    _call("free_memory_of_gpu", "handle=+0({3}):x64", event_set="full"),
    _call("map_memory_to_gpu", "handle=+0({3}):x64 gpus=+16({3}):u32", event_set="full"),
    _call("unmap_memory_from_gpu", "handle=+0({3}):x64 gpus=+16({3}):u32", event_set="full"),
    # Inside: queue manager, scheduler (HWS: runlist, MES: queue by queue, or none).
    _Function("pqm_create_queue", returns=_RESULT),
    _Function("pqm_destroy_queue", "qid={2}:u32", returns=_RESULT),
    # Linux 5.10 and 5.15 have the older name, with the same arguments.
    _Function("pqm_update_queue_properties", "qid={2}:u32", returns=_RESULT, older="pqm_update_queue"),
    _Function("create_queue_cpsch", "qid=+48({2}):u32 ring=+56({2}):x64",
              "qid=q->properties.queue_id ring=q->properties.queue_address type=q->properties.type", _RESULT),
    _Function("create_queue_nocpsch", "qid=+48({2}):u32 ring=+56({2}):x64",
              "qid=q->properties.queue_id ring=q->properties.queue_address type=q->properties.type", _RESULT),
    _Function("destroy_queue_cpsch", "qid=+48({3}):u32 ring=+56({3}):x64",
              "qid=q->properties.queue_id ring=q->properties.queue_address", _RESULT),
    _Function("destroy_queue_nocpsch", "qid=+48({3}):u32 ring=+56({3}):x64",
              "qid=q->properties.queue_id ring=q->properties.queue_address", _RESULT),
    _Function("update_queue", "qid=+48({2}):u32 ring=+56({2}):x64",
              "qid=q->properties.queue_id ring=q->properties.queue_address prio=q->properties.priority", _RESULT),
    _Function("add_queue_mes", "qid=+48({2}):u32 ring=+56({2}):x64",
              "qid=q->properties.queue_id ring=q->properties.queue_address doorbell_off=q->properties.doorbell_off",
              _RESULT),
    _Function("remove_queue_mes", "qid=+48({2}):u32 ring=+56({2}):x64",
              "qid=q->properties.queue_id ring=q->properties.queue_address", _RESULT),
    _Function("execute_queues_cpsch", returns=_RESULT),
    _Function("map_queues_cpsch", returns=_RESULT),
    _Function("unmap_queues_cpsch", returns=_RESULT),
    # The end of a creation: the KFD queue id is known here on every kernel.
    _Function("kfd_procfs_add_queue", "qid=+48({1}):u32 ring=+56({1}):x64",
              "qid=q->properties.queue_id ring=q->properties.queue_address doorbell_off=q->properties.doorbell_off"),
    # MI300's MQD functions: one call per queue, whatever the number of XCCs.
    _Function("init_mqd_v9_4_3", "qid=+8({5}):u32 ring=+16({5}):x64",
              "qid=q->queue_id ring=q->queue_address doorbell_off=q->doorbell_off prio=q->priority"),
    _Function("update_mqd_v9_4_3", "qid=+8({3}):u32 ring=+16({3}):x64",
              "qid=q->queue_id ring=q->queue_address prio=q->priority active=q->is_active"),
    # What the driver does to queues from its workers, so for every process of the machine.
    _Function("kfd_process_evict_queues", returns=_RESULT, instance="gpu"),
    _Function("kfd_process_restore_queues", returns=_RESULT, instance="gpu"),
    _Function("evict_process_queues_cpsch", returns=_RESULT, instance="gpu"),
    _Function("restore_process_queues_cpsch", returns=_RESULT, instance="gpu"),
    _Function("kfd_signal_event_interrupt", instance="gpu", event_set="full"),
    # Queues of the DRM (struct drm_amdgpu_userq_in: what lies between `ip_type` and `queue_va` differs by release).
    _Function(USERQ_HANDLER, "op=+0({2}):u32 ip=+8({2}):u32 ring=+24({2}):x64 size=+32({2}):u64",
              returns=_RESULT, kept="qid=+0({2}):u32", optional=True),
    # How drivers of 2026 reset one queue instead of the GPU.
    *(_Function(name, instance="gpu", optional=True) for name in (
        "remove_queue_mes_on_reset_option", "reset_queues_mes", "recover_bad_queue_mes", "kfd_reset_queue_mes",
        "set_queue_as_reset", "amdgpu_gfx_reset_mes_compute", "amdgpu_mes_reset_user_queue",
        "amdgpu_sdma_reset_engine", "reset_hung_queues_sdma",
    )),
)  # fmt: skip

# Moments without arguments: cheapest through the function tracer.
_MOMENTS = (
    "init_user_queue", "allocate_doorbell", "deallocate_doorbell", "kfd_alloc_process_doorbells", "kfd_doorbell_mmap",
    "allocate_sdma_queue", "kfd_queue_acquire_buffers", "pm_send_runlist", "pm_send_unmap_queue",
    "pm_send_query_status", "kfd_procfs_del_queue",
)  # fmt: skip


@dataclass(frozen=True)
class _KernelPlan:
    """The driver's part of a plan."""

    probes: tuple[ProbePlan, ...]
    functions: tuple[str, ...]
    absent: tuple[Absent, ...]


def plan_kernel_functions(wanted: Wanted, offer: Offer, sets: tuple[str, ...]) -> _KernelPlan:
    """Choose kernel probes and traced functions.

    Args:
        wanted: what the command line asks for.
        offer: what the machine offers.
        sets: the event sets that are included, the wanted one last.
    """
    if not any(name.startswith("kfd_ioctl") for name in offer.functions):
        absent = (Absent("functions of the KFD", "the driver amdgpu is not loaded", "modprobe amdgpu"),)
        extra, more = _extra_functions(wanted, offer)
        return _KernelPlan((), extra, absent + more)
    probes: list[ProbePlan] = []
    absents: list[Absent] = []
    if offer.kprobes or offer.fprobes:
        for function in _chosen(offer, sets):
            found, missing = _probe(function, offer)
            probes += found
            absents += missing
    else:
        why = "this kernel has neither kprobes nor fprobe events"
        absents.append(Absent("arguments of KFD functions", why, "a kernel with CONFIG_KPROBE_EVENTS"))
    probed = {p.definition.split()[0].removeprefix("amdgpu:") for p in probes}
    functions, missing = _traced(offer, probed, sets)
    if not offer.function_tracer:
        probes += _moment_probes(offer, probed)
    extra, more = _extra_functions(wanted, offer)
    return _KernelPlan(tuple(probes), (*functions, *extra), (*absents, *missing, *more))


def _chosen(offer: Offer, sets: tuple[str, ...]) -> list[_Function]:
    """Return the functions of these sets; the events of the ioctl itself tell more than its entry to the driver."""
    told = "default" in sets and "syscalls/sys_enter_ioctl" in offer.events
    return [_as_named(f, offer) for f in _FUNCTIONS if f.event_set in sets and not (told and f.name == _ENTRY)]


def _as_named(function: _Function, offer: Offer) -> _Function:
    """Return the function under the name that this driver has for it."""
    names = (function.name, function.older)
    known = next((name for name in names if name and resolve_function(name, offer.functions)), function.name)
    return replace(function, name=known)


def resolve_function(name: str, functions: Mapping[str, int]) -> str:
    """Return the name under which a function can be probed: its own, or one with the compiler's suffix, or ""."""
    if name in functions:
        return name
    return next((f for f in sorted(functions) if f.startswith(name) and _SUFFIX.sub("", f) == name), "")


def _probe(function: _Function, offer: Offer) -> tuple[list[ProbePlan], list[Absent]]:
    name = resolve_function(function.name, offer.functions)
    if not name and function.optional:
        return [], []
    if not name:
        return [], [Absent(f"function {function.name}", "this driver does not have it, or the compiler inlined it")]
    if (copies := offer.functions[name]) > 1:
        return [], [
            Absent(
                f"arguments of {name}", f"{copies} functions have this name, and a probe would trace only one of them"
            )
        ]
    # The compiler has changed what such a copy gets, and in which order.
    plain = name != function.name
    kinds = ("p", "r") if offer.kprobes else ("f", "f-return")
    place = f"amdgpu:{name}" if name in offer.shared_names and offer.kprobes else name
    # The kernel has no types for a name that has to be qualified (seen on 6.12 and 7.3).
    typed = function.typed if offer.btf_arguments and not plain and name not in offer.shared_names else ""
    fixed = "" if plain else _spell(function.arguments, offer)
    definition, otherwise = (typed or fixed), (fixed if typed else "")
    probes = [
        ProbePlan(
            kinds[0], function.name, f"{place} {definition}".strip(), function.instance,
            otherwise=f"{place} {otherwise}".strip() if definition else "",
        )
    ]  # fmt: skip
    if function.returns:
        kept = _spell(function.kept, offer, numbered=True) if offer.return_arguments and not plain else ""
        probes.append(
            ProbePlan(
                kinds[1], f"{function.name}_ret", f"{place} {function.returns} {kept}".strip(), function.instance,
                otherwise=f"{place} {function.returns}" if kept else "",
            )
        )  # fmt: skip
    lost = function.arguments and plain
    return probes, [Absent(f"arguments of {function.name}", f"the compiler made {name} from it")] if lost else []


def _spell(text: str, offer: Offer, *, numbered: bool = False) -> str:
    """Return `text` with its arguments as this kernel names them."""
    by_number = numbered or offer.numbered_arguments
    names = [f"$arg{n}" if by_number else f"%{r}" for n, r in enumerate(_REGISTERS, 1)]
    return text.format("", *names)


def _traced(offer: Offer, probed: set[str], sets: tuple[str, ...]) -> tuple[tuple[str, ...], list[Absent]]:
    """Return what the function tracer records: MQD functions, many of which share a name, and all without a probe."""
    mqd = sorted(f for f in offer.functions if _MQD.match(_SUFFIX.sub("", f)) and f not in probed)
    names = (*(f.name for f in _chosen(offer, sets)), *_MOMENTS)
    resolved = (resolve_function(name, offer.functions) for name in names)
    moments = [name for name in resolved if name and name not in probed]
    if offer.function_tracer:
        return tuple(dict.fromkeys(_filter_word(name, offer) for name in (*moments, *mqd))), []
    many = [f for f in mqd if offer.functions[f] > 1]
    if not many:
        return (), []
    why = f"several functions have each of these names ({', '.join(many)}) and the function tracer cannot be used"
    return (), [Absent("MQD functions", why, "a kernel with CONFIG_FUNCTION_TRACER and CONFIG_DYNAMIC_FTRACE")]


def _filter_word(name: str, offer: Offer) -> str:
    return f"{name}{OF_DRIVER}" if name in offer.shared_names else name


def _moment_probes(offer: Offer, probed: set[str]) -> Iterator[ProbePlan]:
    """Yield probes in place of the function tracer, where a name is unique."""
    if not (offer.kprobes or offer.fprobes):
        return
    mqd = [f for f in sorted(offer.functions) if _MQD.match(_SUFFIX.sub("", f))]
    for name in (*(resolve_function(m, offer.functions) for m in _MOMENTS), *mqd):
        if name and name not in probed and offer.functions[name] == 1:
            place = f"amdgpu:{name}" if name in offer.shared_names and offer.kprobes else name
            yield ProbePlan("p" if offer.kprobes else "f", _SUFFIX.sub("", name), place, "workload")


def _extra_functions(wanted: Wanted, offer: Offer) -> tuple[tuple[str, ...], tuple[Absent, ...]]:
    """Return the functions that `--functions` adds."""
    found: list[str] = []
    absent: list[Absent] = []
    for pattern in wanted.functions:
        names = fnmatch.filter(offer.functions, pattern)
        if not names:
            absent.append(Absent(f"--functions {pattern}", "no traceable function has this name"))
        elif not offer.function_tracer:
            absent.append(Absent(f"--functions {pattern}", "this kernel does not let the function tracer be used"))
        else:
            found += sorted(names)
    return tuple(dict.fromkeys(found)), tuple(absent)
