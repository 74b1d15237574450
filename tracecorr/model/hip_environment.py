"""What variables of the HIP runtime and of ROCr change of what a capture sees (CLR's flags.hpp, 2026)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping

# The prefixes of the variables that a capture stores.
PREFIXES = (
    "AMD_", "HIP_", "HSA_", "ROCR_", "GPU_", "HCC_", "DEBUG_HIP_", "DEBUG_CLR_", "ROC_", "ROCPROF_", "HSAKMT_",
    "NCCL_", "RCCL_",
)  # fmt: skip
# Releases since the middle of 2026 behave as if it were 1.
IGNORES_PRIORITIES = "DEBUG_HIP_IGNORE_STREAM_PRIORITY"
HONOUR_PRIORITIES = f"set {IGNORES_PRIORITIES}=0 (ROCm 10 ignores stream priorities unless told so)"
DIRECT_DOORBELL, _ASYNC_LOG = "DEBUG_CLR_DIRECT_DOORBELL", "AMD_LOG_ASYNC"
# What the ring of the asynchronous log holds.
_LINES_OF_RING = 16_384


def is_on(environment: Mapping[str, str], name: str) -> bool | None:
    """Return whether a flag is on; None if it is not set. The runtime reads it with atoi: decimal numbers only."""
    if name not in environment:
        return None
    found = re.match(r"\s*([+-]?\d+)", environment[name])
    return bool(found and int(found[1]))


def _always(_: str) -> bool:
    return True


def _is_number(value: str) -> bool:
    return is_on({"": value}, "") or False


_EFFECTS: dict[str, tuple[Callable[[str], bool], str]] = {
    IGNORES_PRIORITIES: (_is_number, "all streams use queues of normal priority: no priority reaches the GPU"),
    DIRECT_DOORBELL: (_is_number, "CLR rings doorbells without a call, so that no probe sees them: they are inferred"),
    "DEBUG_CLR_AQL_DEV_QUEUE": (_is_number, "rings of queues lie in memory of the GPU"),
    "DEBUG_HIP_GRAPH_PM4": (_is_number, "graphs are no AQL packets: the log shows no packets of theirs"),
    _ASYNC_LOG: (
        _is_number,
        f"a thread writes the HIP log: SIGKILL loses what it has not written, at most {_LINES_OF_RING:,} lines",
    ),
    "AMD_LOG_LEVEL_SIZE": (_always, "the runtime empties its log when it reaches so many MiB"),
}


def describe_effects(environment: Mapping[str, str]) -> Iterator[str]:
    """Yield what the variables of a workload change of what a capture sees, one sentence each."""
    for name, (applies, effect) in _EFFECTS.items():
        if name in environment and applies(environment[name]):
            yield f"{name}={environment[name]}: {effect}"


def describe_lost_end(environment: Mapping[str, str], *, prints_hashes: bool) -> str:
    """Return what a killed process may have lost of its log, or "".

    Args:
        environment: of the workload.
        prints_hashes: whether the log prints hashes as threads. Releases that do so write a log that has a file
            asynchronously, unless told otherwise.
    """
    on = is_on(environment, _ASYNC_LOG)
    if on or (on is None and prints_hashes):
        return (
            f"the workload was killed, and a thread of its runtime writes the HIP log: at most {_LINES_OF_RING:,} of "
            f"its last lines may be missing; {_ASYNC_LOG}=0 writes each line at once"
        )
    return ""
