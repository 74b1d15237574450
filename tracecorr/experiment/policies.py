"""The policies that `experiment preempt` tries: what each gives the workloads, and how it holds the low one."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tracecorr.capture.workload.invoker import find_invoker
from tracecorr.control.controller import Actuator, Controller
from tracecorr.control.steering import (
    CHANNEL_VARIABLE,
    ROLE_VARIABLE,
    Applied,
    Channel,
    CommandDecider,
    Decider,
    SharedWord,
    Steering,
)
from tracecorr.control.stopping import Freezer, Guard, StopSignals, Workload, find_membership
from tracecorr.control.suspending import SuspendedQueues
from tracecorr.control.suspending import find_refusal as find_driver_refusal
from tracecorr.model.errors import InputError
from tracecorr.store.raw import read_topology

NONE, _PRIORITY, CUMASK, _SLICE, _EVENT, STOP, SUSPEND, _COMMAND = (
    "none", "priority", "cumask", "slice", "event", "stop", "suspend", "command",
)  # fmt: skip
_POLICIES = (NONE, _PRIORITY, CUMASK, _SLICE, _EVENT, STOP, SUSPEND)
STEERED = (_SLICE, _EVENT, STOP, SUSPEND, _COMMAND)
# These hold processes, whatever they do; the others are asked for their cooperation.
_FORCED = (STOP, SUSPEND)
_SIGNAL, _FREEZER = "signal", "freezer"
# Read by the programs in samples/workloads as the priority of their stream.
_PRIORITY_VARIABLE = "TRACECORR_PRIORITY"
_LAUNCHERS = ("torchrun", "torch.distributed", "mpirun", "mpiexec", "srun", "deepspeed", "accelerate launch")
# libhsakmt takes another topology for that of a model of a GPU.
_TOPOLOGY = "/sys/class/kfd/kfd/topology"


@dataclass(frozen=True)
class PolicyOptions:
    """Say how the policies act.

    Args:
        share: of each period that the low one may run under `slice`, and of the CUs under `cumask`.
        period_ns: of `slice`.
        command: the user's own policy, "" = none.
        force: also hold a member of a distributed job.
        stop_by: `signal` or `freezer`.
        allow_reset: suspend queues, which may end in a reset of the GPU.
    """

    share: float = 0.2
    period_ns: int = 10_000_000
    command: str = ""
    force: bool = False
    stop_by: str = _SIGNAL
    allow_reset: bool = False


def find_refusal(policy: str, options: PolicyOptions, low: str, container: str | None) -> str:
    """Return why a policy cannot be tried here; empty if it can.

    Args:
        policy: of `_POLICIES`, or `command`.
        options: how it acts.
        low: the command of the low one.
        container: where the workloads run, None = on the host.
    """
    if policy in STEERED and container is not None:
        return "its file and its processes are the host's: run the experiment inside of the container"
    if policy == CUMASK and not _list_cus():
        return "the KFD's topology shows no GPU with CUs, so there is nothing to divide"
    if policy in _FORCED and not options.force:
        if told := find_membership([f"{name}={value}" for name, value in os.environ.items()]):
            return f"this is a member of a distributed job ({told}), whose peers a held one would stall (--force)"
        if launcher := next((name for name in _LAUNCHERS if name in low), ""):
            return f"{launcher} starts a distributed job, whose peers a held member would stall (--force)"
    if policy == SUSPEND:
        return find_driver_refusal() if options.allow_reset else _NO_RESET
    return ""


_NO_RESET = (
    "each suspend unmaps all queues of the GPU, and a wave that cannot be saved ends in a reset, which kills every "
    "process there: --allow-gpu-reset takes that risk"
)


def _list_cus() -> list[int]:
    """Return how many CUs each GPU has, by the KFD's topology."""
    found = []
    for _, gpu_id, properties in read_topology(Path(os.environ.get("HSA_MODEL_TOPOLOGY") or _TOPOLOGY) / "nodes"):
        told = dict(line.split(" ", 1) for line in properties.splitlines() if " " in line)
        simds, per_cu = (int(told.get(name, "0")) for name in ("simd_count", "simd_per_cu"))
        if gpu_id.strip() not in ("", "0") and simds and per_cu:
            found.append(simds // per_cu)
    return found


def choose_variables(policy: str, role: str, options: PolicyOptions, channel: Path) -> dict[str, str]:
    """Return what a workload gets in its environment.

    `HSA_CU_MASK` is `GPUS:CUS;...` (ROCr, core/util/flag.h): its queues may use these CUs alone.
    """
    is_high = role == "high"
    if policy == _PRIORITY:
        return {_PRIORITY_VARIABLE: "-1" if is_high else "1"}
    if policy == CUMASK:
        masks = []
        for gpu, count in enumerate(_list_cus()):
            first = max(1, min(count - 1, round(count * options.share)))
            masks.append(f"{gpu}:{first}-{count - 1}" if is_high else f"{gpu}:0-{first - 1}")
        return {"HSA_CU_MASK": ";".join(masks)}
    if policy in STEERED:
        return {CHANNEL_VARIABLE: str(channel), ROLE_VARIABLE: role}
    return {}


@dataclass
class Steered:
    """Hold what the controller did during a phase.

    Args:
        applied: its actions.
        reads: how often the low one asked whether it may launch; None if it is held without asking.
        reached: how many of its processes or queues were held, in all holds together; None if it is asked.
        environment: of a workload, as far as it says that there is no GPU.
    """

    applied: Sequence[Applied] = ()
    reads: int | None = None
    reached: int | None = None
    environment: Mapping[str, str] = field(default_factory=dict)


@contextmanager
def steer(policy: str, options: PolicyOptions, channel_path: Path, pid_files: Mapping[str, Path]) -> Iterator[Steered]:
    """Act on the low one during a phase, as its policy says; at the end it is not held.

    Args:
        policy: its name.
        options: how it acts.
        channel_path: where the mapped file is made.
        pid_files: role -> where its shell writes its number.

    Raises:
        HoldError: the low one may not or cannot be held.
        InputError: the user's command failed.
    """
    told = Steered()
    if policy not in STEERED:
        yield told
        return
    uid = find_invoker(os.environ).uid
    channel, workloads = Channel(channel_path), {role: Workload(path, uid) for role, path in pid_files.items()}
    decider = CommandDecider(options.command) if policy == _COMMAND else _make_controller(policy, options)
    with Guard(channel.descriptor) as guard:
        actuator = _choose_actuator(policy, options, channel, workloads, guard)
        steering = Steering(decider, actuator, channel, workloads["high"].is_running)
        try:
            with steering:
                yield told
            steering.check()
        finally:
            told.applied, told.reads = steering.applied, None if policy in _FORCED else channel.reads
            told.reached = actuator.reached if policy in _FORCED else None
            if isinstance(decider, CommandDecider):
                decider.close()
            channel.close()


def _choose_actuator(
    policy: str, options: PolicyOptions, channel: Channel, workloads: Mapping[str, Workload], guard: Guard
) -> Actuator:
    low, high = workloads["low"], workloads["high"]
    if policy == SUSPEND:
        return SuspendedQueues(low.list_processes, high.list_processes, force=options.force)
    if policy == STOP:
        return (Freezer if options.stop_by == _FREEZER else StopSignals)(low, guard, force=options.force)
    return SharedWord(channel, guard)


def _make_controller(policy: str, options: PolicyOptions) -> Decider:
    controller = Controller()
    controller.register("high", 1)
    controller.register("low")
    if policy == _SLICE:
        controller.slice("low", options.share, options.period_ns)
    return controller


def choose_policies(given: Sequence[str], command: str) -> list[str]:
    """Return the policies to try, `none` first: it is what the others are compared with.

    Raises:
        InputError: there is no such policy.
    """
    names = [name for word in given for name in word.split(",") if name]
    for name in names:
        if name not in (*_POLICIES, "all"):
            raise InputError(f"there is no policy {name!r}", f"the policies: {', '.join(_POLICIES)}, all")
    chosen = _POLICIES if "all" in names else tuple(name for name in _POLICIES if name in (NONE, *names))
    return [*chosen, *([_COMMAND] if command else [])]


def export_words(variables: Mapping[str, str]) -> str:
    """Return the shell words that export variables; empty without any."""
    return "".join(f"export {name}={shlex.quote(value)}; " for name, value in variables.items())
