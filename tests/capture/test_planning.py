"""The plan: a pure function of what is wanted and what a machine offers, checked on real and described machines."""

from __future__ import annotations

import os
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from described import MACHINES, read_offer
from hypothesis import assume, given
from hypothesis import strategies as st

from tracecorr.capture.plan.plan import EVENT_SETS, Offer, Plan, Runtime, Wanted
from tracecorr.capture.plan.planning import make_plan, plan_late_probes, render_plan
from tracecorr.capture.probes.kernel import resolve_function
from tracecorr.capture.probes.user import (
    MOST_FOR_DOORBELLS,
    MOST_OPEN,
    MOST_PER_THREAD,
    choose_watch,
    most_probes,
    perf_cpus,
    watch_probes,
)
from tracecorr.model.errors import InputError, MachineError

NAMES = sorted(p.stem for p in MACHINES.glob("*.json"))
# Offsets as in Debian's libhsa-runtime64 and libamdhip64 7.2.4.
HSA = Runtime(
    "hsa", "/opt/rocm/lib/libhsa-runtime64.so.1", "/proc/7/root/opt/rocm/lib/libhsa-runtime64.so.1", 65024, 11,
    {"hsa_signal_store_screlease": 0xC11C0, "hsa_signal_store_release": 0xC11C0, "hsa_signal_store_relaxed": 0xC11A0,
     "hsa_queue_create": 0xC0E10, "hsa_init": 0xC0000}, "1.18.0",
)  # fmt: skip
HIP = Runtime(
    "hip", "/opt/rocm/lib/libamdhip64.so.7", "/opt/rocm/lib/libamdhip64.so.7", 65024, 12,
    {"hipLaunchKernel": 0x3D9690}, "7.2",
)  # fmt: skip
ROCTX = Runtime(
    "roctx", "/opt/rocm/lib/libroctx64.so.4", "/opt/rocm/lib/libroctx64.so.4", 65024, 13,
    {"roctxRangePushA": 0x1230, "roctxRangePop": 0x1280, "roctxMarkA": 0x12D0},
)  # fmt: skip


def _machine(name: str) -> Offer:
    return replace(read_offer(MACHINES / f"{name}.json"), runtimes=(HSA, HIP, ROCTX))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("event_set", EVENT_SETS)
def test_plan_of_each_machine_is_the_one_in_the_file(name: str, event_set: str) -> None:
    offer = _machine(name)
    text = render_plan(make_plan(Wanted(event_set), offer), offer) + "\n"
    expected = MACHINES / f"{name}-{event_set}.plan.txt"
    if os.environ.get("TRACECORR_WRITE_EXPECTED") == "1":
        expected.write_text(text)
    assert text == expected.read_text()


def _events(plan: Plan, instance: str) -> set[str]:
    return {f"{e.system}/{e.name}" for i in plan.instances if i.name == instance for e in i.events}


@pytest.mark.parametrize("name", NAMES)
def test_sets_grow_and_minimal_taxes_nobody(name: str) -> None:
    plans = [make_plan(Wanted(s), _machine(name)) for s in EVENT_SETS]
    for less, more in pairwise(plans):
        for instance in ("workload", "gpu"):
            assert _events(less, instance) <= _events(more, instance)
        # The driver's entry is probed only where the events of the ioctl are not there.
        assert {p.name for p in less.probes} - {"kfd_ioctl", "kfd_ioctl_ret"} <= {p.name for p in more.probes}
    assert not any(e.startswith(("syscalls/", "raw_syscalls/")) for e in _events(plans[0], "workload"))
    assert {"sched/sched_switch", "sched/sched_wakeup"} <= _events(plans[2], "workload")
    assert not {"sched/sched_switch", "sched/sched_wakeup"} & _events(plans[1], "workload")
    for plan in plans:
        assert not any("reg" in e and e.startswith("amdgpu/amdgpu_device") for e in _events(plan, "gpu"))
        assert not any(e.startswith(("gpu_scheduler/", "amdgpu/")) for e in _events(plan, "workload"))


@pytest.mark.parametrize("name", NAMES)
def test_ambiguous_functions_are_traced_and_never_probed(name: str) -> None:
    offer = _machine(name)
    plan = make_plan(Wanted("full"), offer)
    probed = {p.definition.split()[0].removeprefix("amdgpu:") for p in plan.probes if p.kind in ("p", "r", "f")}
    assert all(offer.functions[f] == 1 for f in probed)
    assert not any("arg" in p.definition and "." in p.definition.split()[0] for p in plan.probes if p.kind == "p")
    if offer.function_tracer:
        traced = {f.partition(":")[0] for f in plan.instances[0].functions}
        assert {"init_mqd", "update_mqd", "allocate_mqd"} <= traced
        assert not traced & probed


def test_default_plan_of_an_old_kernel_needs_no_newer_feature() -> None:
    offer = _machine("5.10-dkms")
    plan = make_plan(Wanted(), offer)
    assert {p.kind for p in plan.probes} == {"p", "r", "u", "u-return"}
    assert not any("->" in p.definition for p in plan.probes)
    assert all("$arg" not in p.definition for p in plan.probes if p.kind == "r")
    create = next(p for p in plan.probes if p.name == "kfd_ioctl_create_queue")
    assert "ring=+0($arg3):x64" in create.definition
    ids = next(p for p in plan.probes if p.name == "kfd_procfs_add_queue")
    assert ids.definition == "kfd_procfs_add_queue qid=+48($arg1):u32 ring=+56($arg1):x64"
    registers = make_plan(Wanted("minimal"), replace(offer, numbered_arguments=False))
    assert next(p for p in registers.probes if p.name == "kfd_ioctl").definition == "kfd_ioctl cmd=%si:x32 arg=%dx:x64"


def test_a_function_is_probed_under_the_name_that_an_old_driver_has_for_it() -> None:
    by_kernel = {}
    for name in ("5.10", "6.1"):
        plan = make_plan(Wanted(), _machine(name))
        by_kernel[name] = [p.definition for p in plan.probes if p.name.startswith("pqm_update_queue")]
        assert not [a for a in plan.absent if "pqm_update_queue" in a.what]
    assert by_kernel == {
        "5.10": ["pqm_update_queue qid=$arg2:u32", "pqm_update_queue ret=$retval:s32"],
        "6.1": ["pqm_update_queue_properties qid=$arg2:u32", "pqm_update_queue_properties ret=$retval:s32"],
    }
    neither = make_plan(Wanted(), replace(_machine("5.10"), functions={"kfd_ioctl_create_queue": 1}))
    assert "function pqm_update_queue_properties" in [a.what for a in neither.absent]


def test_one_address_is_one_doorbell_probe() -> None:
    plan = make_plan(Wanted(), _machine("6.12"))
    doorbells = [p for p in plan.probes if p.name.startswith("doorbell")]
    assert [p.name for p in doorbells] == ["doorbell", "doorbell_relaxed"]
    assert doorbells[0].definition.startswith(f"{HSA.host_path}:0xc11c0 sig=%di:x64 val=%si:s64 kind=+0(%di):s64")
    assert doorbells[0].filter == ""
    assert doorbells[1].filter == "kind < 0"
    apart = replace(HSA, symbols={**HSA.symbols, "hsa_signal_store_release": 0xC1300})
    plan = make_plan(Wanted(), replace(_machine("6.12"), runtimes=(apart,)))
    assert [p.name for p in plan.probes if p.name.startswith("doorbell")] == [
        "doorbell", "doorbell_release", "doorbell_relaxed",
    ]  # fmt: skip


def test_queues_of_rocm_10_are_probed_where_the_library_makes_them() -> None:
    """SYNTHETIC symbols: those that libhsa-runtime64 exports since ROCm 10."""
    made = {"hsa_amd_queue_create": 0xC2000, "hsa_amd_counted_queue_acquire": 0xC2100}
    newer = replace(HSA, symbols={**HSA.symbols, **made})
    plan = make_plan(Wanted("minimal"), replace(_machine("6.12"), runtimes=(newer,)))
    named = {probe.name for probe in plan.probes}
    assert {f"{name}{end}" for name in made for end in ("", "_ret")} <= named


def test_two_copies_of_a_runtime_are_both_probed() -> None:
    wheel = replace(HSA, path="/venv/torch/lib/libhsa-runtime64.so", host_path="/venv/libhsa.so", inode=99)
    plan = make_plan(Wanted(), replace(_machine("6.12"), runtimes=(HSA, wheel)))
    assert len({p.name for p in plan.probes}) == len(plan.probes)
    places = {p.name: p.definition.split(":")[0] for p in plan.probes if p.name in ("doorbell", "doorbell__2")}
    assert places == {"doorbell": HSA.host_path, "doorbell__2": "/venv/libhsa.so"}
    late, absent = plan_late_probes(Wanted(), replace(_machine("6.12"), runtimes=(wheel,)), 3)
    assert not {p.name for p in late} & {p.name for p in plan.probes}
    assert {p.name for p in late} >= {"doorbell__3", "hsa_queue_create__3", "hsa_queue_create__3_ret"}
    assert [a.what for a in absent] == ["roctx ranges (libroctx64)"]


def test_ranges_that_are_asked_for_are_recorded_in_every_set() -> None:
    names = {"roctx_push", "roctx_pop", "roctx_mark"}
    for ranges in ((), ("roctx:step",)):
        plan = make_plan(Wanted("minimal", ranges=ranges), _machine("6.12"))
        assert {p.name for p in plan.probes} & names == (names if ranges else set())


def test_others_never_pay_unless_asked() -> None:
    shared = replace(_machine("6.12"), perf_probes=False, runtimes=(replace(HSA, other_users=3),))
    plan = make_plan(Wanted(), shared)
    assert not any(p.kind.startswith("u") for p in plan.probes)
    reason = next(a for a in plan.absent if a.what == f"probes on {HSA.path}")
    assert reason.why.startswith("3 other processes would get slower")
    assert reason.remedy == "tracecorr capture --probe-shared"
    asked = make_plan(Wanted(probe_shared=True), shared)
    assert {p.through for p in asked.probes} == {"tracefs"}
    offered = make_plan(Wanted(probe_shared=True), replace(shared, perf_probes=True))
    assert {p.through for p in offered.probes} == {"tracefs"}
    assert offered.perf_buffer_kb_per_cpu == 0
    alone = make_plan(Wanted(), replace(shared, runtimes=(HSA,)))
    assert any(p.name == "doorbell" for p in alone.probes)
    assert alone.perf_buffer_kb_per_cpu == 0


def test_what_the_user_adds() -> None:
    offer = _machine("6.12")
    wanted = Wanted(
        events=("amdgpu/amdgpu_vm_bo_*", "irq/no_such", "amdgpu:amdgpu_device_wreg"),
        functions=("kfd_ioctl_svm*", "no_such_*"),
        uprobes=(f"{HIP.path}:hipLaunchKernel", f"{HIP.path}:hipNothing", "nonsense"),
    )
    plan = make_plan(wanted, offer)
    assert {"amdgpu/amdgpu_vm_bo_map", "amdgpu/amdgpu_device_wreg"} <= _events(plan, "gpu")
    assert "amdgpu/amdgpu_device_rreg" not in _events(plan, "gpu")
    assert any(p.definition.startswith(f"{HIP.host_path}:0x3d9690 arg1=") for p in plan.probes)
    absent = {a.what: a.why for a in plan.absent}
    assert "--functions no_such_*" in absent
    assert absent[f"--uprobes {HIP.path}:hipNothing"] == f"{HIP.path} does not export hipNothing"
    assert absent["--uprobes nonsense"] == "it is not of the form PATH:SYMBOL"
    assert "events irq/*" in absent


def test_driver_without_tracer_or_probes_is_told() -> None:
    offer = replace(_machine("6.12"), kprobes=False, fprobes=False, function_tracer=False)
    plan = make_plan(Wanted(), offer)
    absent = {a.what: a for a in plan.absent}
    assert absent["arguments of KFD functions"].remedy == "a kernel with CONFIG_KPROBE_EVENTS"
    assert "function tracer" in absent["MQD functions"].why
    fprobes = make_plan(Wanted(), replace(offer, fprobes=True))
    assert {p.kind for p in fprobes.probes if not p.kind.startswith("u")} == {"f", "f-return"}
    bare = make_plan(Wanted(), replace(offer, functions={}))
    assert next(a for a in bare.absent if a.what == "functions of the KFD").remedy == "modprobe amdgpu"


def test_own_prints_of_the_driver() -> None:
    offer = replace(_machine("6.12"), driver_prints=True)
    assert ("trace_printk_dest", "1") in make_plan(
        Wanted(), replace(offer, instance_options=offer.instance_options | {"trace_printk_dest"})
    ).instances[1].options
    without = replace(offer, instance_options=offer.instance_options - {"trace_printk_dest"})
    assert make_plan(Wanted(), without).copy_top_buffer
    assert "copied from the top buffer" in render_plan(make_plan(Wanted(), without))
    assert not make_plan(Wanted(), replace(without, driver_prints=False)).copy_top_buffer


# A server of two sockets with 384 CPUs, described: what costs nothing on 2 CPUs does here.
BIG = {"cpus": 384, "memory_available_bytes": 2 << 40, "perf_probes": True}


def _ways(plan: Plan) -> dict[str, str]:
    return {p.name: p.through for p in plan.probes if p.kind.startswith("u")}


def test_probes_of_a_big_server_go_through_perf_as_far_as_threads_can_bear() -> None:
    """The doorbells go through perf; nobody else maps the libraries, so tracefs takes the others."""
    offer = replace(_machine("6.12"), **BIG)
    plan = make_plan(Wanted(), offer)
    ways = _ways(plan)
    assert {name for name, way in ways.items() if way == "perf"} == {"doorbell", "doorbell_relaxed"}
    assert ways.keys() == _ways(make_plan(Wanted(), _machine("6.12"))).keys()
    assert "768 perf events per thread of the workload (2 probes x 384 CPUs)" in render_plan(plan, offer)
    # One more CPU, and there is room for one only.
    more = _ways(make_plan(Wanted(), replace(offer, cpus=385)))
    assert {name for name, way in more.items() if way == "perf"} == {"doorbell"}


@pytest.mark.parametrize(("cpus", "watched"), [(2, "workload"), (170, "workload"), (171, "machine"), (1024, "machine")])
def test_late_libraries_are_never_polled_where_perf_can_tell(cpus: int, watched: str) -> None:
    """Beyond the budget of a thread one event per CPU tells of all mappings, which costs threads nothing."""
    offer = replace(_machine("6.12"), cpus=cpus, perf_probes=True)
    plan = make_plan(Wanted(), offer)
    assert plan.watch_mappings == choose_watch(offer) == watched
    assert ("of the whole machine" in render_plan(plan, offer)) == (watched == "machine")
    assert make_plan(Wanted(), replace(offer, perf_probes=False)).watch_mappings == ""


def test_probes_that_nobody_can_pay_for_are_absent_with_their_price() -> None:
    shared = tuple(replace(runtime, other_users=3) for runtime in (HSA, HIP, ROCTX))
    offer = replace(_machine("6.12"), **BIG, runtimes=shared)
    plan = make_plan(Wanted(), offer)
    assert _ways(plan) == {"doorbell": "perf", "doorbell_relaxed": "perf"}
    hsa = next(a for a in plan.absent if a.what.endswith(HSA.path))
    assert hsa.what.startswith("probes hsa_queue_create hsa_queue_create_ret")
    assert "768 perf events per thread" in hsa.why
    assert "3 other processes that map the library would get slower" in hsa.why
    assert "--probe-shared" in hsa.remedy
    everybody = make_plan(Wanted(probe_shared=True), offer)
    assert set(_ways(everybody).values()) == {"tracefs"}


def test_a_workload_on_few_cpus_of_a_big_server_has_all_probes() -> None:
    offer = replace(_machine("6.12"), **BIG, workload_cpus=tuple(range(48, 72)))
    plan = make_plan(Wanted(), offer)
    assert set(_ways(plan).values()) == {"perf"}
    assert plan.perf_cpus == offer.workload_cpus
    assert plan.perf_buffer_kb_per_cpu > make_plan(Wanted(), replace(_machine("6.12"), **BIG)).perf_buffer_kb_per_cpu


def test_an_attached_process_with_many_threads_has_fewer_probes() -> None:
    machine = replace(_machine("6.12"), cpus=64, workload_threads=2000)
    assert set(_ways(make_plan(Wanted(), machine)).values()) == {"perf", "tracefs"}
    few_files = replace(machine, workload_threads=1, most_files=1024)
    through_perf = [w for w in _ways(make_plan(Wanted(), few_files)).values() if w == "perf"]
    assert len(through_perf) + watch_probes(few_files) == most_probes(few_files)
    fewer_files = make_plan(Wanted(), replace(few_files, most_files=800))
    assert [name for name, way in _ways(fewer_files).items() if way == "perf"] == ["doorbell", "doorbell_relaxed"]
    # Threads have no room for a watch of their own, so it is the machine's.
    assert fewer_files.watch_mappings == "machine"


@given(
    cpus=st.integers(1, 512),
    bound=st.integers(0, 512),
    threads=st.integers(1, 5000),
    files=st.integers(256, 1 << 20),
    users=st.integers(0, 2),
    taken=st.integers(0, 20),
    shared=st.booleans(),
)
def test_events_of_probes_stay_within_their_budget(
    cpus: int, bound: int, threads: int, files: int, users: int, taken: int, shared: bool
) -> None:
    offer = replace(
        _machine("6.12"), cpus=cpus, perf_probes=True, workload_cpus=tuple(range(bound)) if bound < cpus else (),
        workload_threads=threads, most_files=files,
        runtimes=tuple(replace(runtime, other_users=users) for runtime in (HSA, HIP, ROCTX)),
    )  # fmt: skip
    wanted = Wanted("full", probe_shared=shared)
    probes, absent = plan_late_probes(wanted, offer, 2, taken)
    events = sum(p.through == "perf" for p in probes) * perf_cpus(offer)
    only_doorbells = all(p.name.startswith("doorbell") for p in probes if p.through == "perf")
    most = MOST_FOR_DOORBELLS if only_doorbells else MOST_PER_THREAD
    assert (taken * perf_cpus(offer) + events) <= most or events == 0
    assert events * threads <= min(files, MOST_OPEN)
    every, _ = plan_late_probes(wanted, replace(offer, cpus=1, workload_cpus=(), workload_threads=1), 2, 0)
    gone = {name for a in absent if a.what.startswith("probes ") for name in a.what.split(" on ")[0].split()[1:]}
    assert len(probes) + len(gone) >= len(plan_late_probes(Wanted("full", probe_shared=True), offer, 2)[0])
    assert {p.name for p in every} >= {p.name for p in probes}
    assert not users or shared or all(p.through == "perf" for p in probes)


def test_impossible_plans_are_refused() -> None:
    with pytest.raises(InputError, match="maximal"):
        make_plan(Wanted("maximal"), _machine("6.1"))
    with pytest.raises(MachineError, match="mono"):
        make_plan(Wanted(), Offer("2.6.32", 2, 1 << 30))


@pytest.mark.parametrize("memory", [24 << 30, (1 << 30) - 1])
def test_buffers_larger_than_half_of_the_memory_are_refused(memory: int) -> None:
    offer = replace(_machine("6.1"), memory_available_bytes=memory)
    most = memory // 2 >> 20
    assert make_plan(Wanted(buffer_mb=most), offer).instances
    with pytest.raises(InputError, match=f"--buffer-mb {most + 1} is more than half") as refused:
        make_plan(Wanted(buffer_mb=most + 1), offer)
    assert f"give --buffer-mb {most} or less" in refused.value.next_step
    assert refused.value.exit_code == 2


@given(cpus=st.integers(1, 512), memory=st.integers(1 << 28, 1 << 42), buffer_mb=st.none() | st.integers(1, 1 << 14))
def test_buffers_stay_small(cpus: int, memory: int, buffer_mb: int | None) -> None:
    offer = replace(_machine("6.1"), cpus=cpus, memory_available_bytes=memory)
    assume(buffer_mb is None or buffer_mb <= offer.most_buffer_mb)
    plan = make_plan(Wanted(buffer_mb=buffer_mb), offer)
    sizes = [i.buffer_kb_per_cpu for i in plan.instances] + [plan.perf_buffer_kb_per_cpu]
    whole = min(memory // 50, 2 << 30) if buffer_mb is None else buffer_mb << 20
    assert sum(sizes) <= whole / 1024 / cpus + len(sizes) * 64
    assert plan.perf_buffer_kb_per_cpu & (plan.perf_buffer_kb_per_cpu - 1) == 0
    assert all(size >= 64 and size % 4 == 0 for size in sizes)


def test_buffers_of_a_big_server_take_no_more_than_2_gib() -> None:
    offer = _machine("6.12-384-cpus")
    for plan in (make_plan(Wanted(event_set), offer) for event_set in EVENT_SETS):
        per_cpu = sum(i.buffer_kb_per_cpu for i in plan.instances) + plan.perf_buffer_kb_per_cpu
        assert (2 << 30) * 3 // 4 < per_cpu * 1024 * offer.cpus <= 2 << 30


def test_memory_goes_to_the_cpus_of_the_workload() -> None:
    offer = replace(_machine("5.10-dkms"), workload_cpus=tuple(range(24)))
    everywhere, pinned = (make_plan(Wanted(), o).instances[0] for o in (replace(offer, workload_cpus=()), offer))
    assert pinned.busy_cpus == tuple(range(24))
    assert pinned.busy_buffer_kb > 6 * everywhere.buffer_kb_per_cpu
    together = pinned.busy_buffer_kb * 24 + pinned.buffer_kb_per_cpu * (192 - 24)
    assert together <= everywhere.buffer_kb_per_cpu * 192
    assert "KiB on 24 of the workload" in render_plan(make_plan(Wanted(), offer), offer)


@given(
    flags=st.fixed_dictionaries({name: st.booleans() for name in (
        "function_tracer", "kprobes", "uprobes", "fprobes", "numbered_arguments", "return_arguments", "btf_arguments",
        "perf_probes",
    )}),
    event_set=st.sampled_from(EVENT_SETS),
    numbers=st.lists(st.integers(0, 3), max_size=4, unique=True),
)  # fmt: skip
def test_only_what_is_offered_is_planned(flags: dict[str, bool], event_set: str, numbers: list[int]) -> None:
    known = (HSA, replace(HSA, inode=5, other_users=2), HIP, ROCTX)
    offer = replace(_machine("6.12"), runtimes=tuple(known[n] for n in numbers), **flags)  # type: ignore[arg-type]
    plan = make_plan(Wanted(event_set), offer)
    offered = {"p": offer.kprobes, "r": offer.kprobes, "f": offer.fprobes, "f-return": offer.fprobes,
               "u": offer.uprobes, "u-return": offer.uprobes}  # fmt: skip
    assert len({p.name for p in plan.probes}) == len(plan.probes)
    names = {i.name for i in plan.instances}
    for probe in plan.probes:
        assert offered[probe.kind]
        assert probe.instance in names
        assert probe.through == "tracefs" or offer.perf_probes
        assert offer.btf_arguments or "->" not in probe.definition
        assert "{" not in probe.definition
    assert offer.function_tracer or not plan.instances[0].functions
    assert all(event in offer.events for event in _events(plan, "workload") | _events(plan, "gpu"))
    assert render_plan(plan, offer)


def test_names_with_the_compilers_suffix_are_found() -> None:
    functions = {"a": 1, "b.isra.0": 1, "c.constprop.0": 1, "bb": 1, "d.cold": 1, "e.part.0.isra.0": 1}
    assert resolve_function("a", functions) == "a"
    assert resolve_function("b", functions) == "b.isra.0"
    assert resolve_function("c", functions) == "c.constprop.0"
    assert resolve_function("d", functions) == ""
    assert resolve_function("e", functions) == "e.part.0.isra.0"


def test_every_described_machine_says_where_it_is_from() -> None:
    assert {"5.10", "5.10-dkms", "6.1", "6.12"} <= set(NAMES)
    for path in MACHINES.glob("*.json"):
        assert '"from"' in Path(path).read_text()
