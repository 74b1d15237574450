"""Write a SYNTHETIC log of the HIP runtime of any size, with a truth file beside it.

It has the form of HIP 7.2 at level 5 and the shape of a long GEMM loop: two HIP threads and the
event thread of ROCr, four streams on four queues, real long kernel names, text of the program
between, before and inside of records. No GPU and no runtime made it.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

PID = 157801
EVENT_THREAD = "0x7f744d7ff6c0"
ITERATIONS = 127_644
_TENSILE = (
    "Cijk_Ailk_Bljk_SB_MT64x64x32_MI16x16x4x1_SN_1LDSB0_APM1_ABV0_ACED0_AF0EM1_AF1EM1_AMAS0_ASE_ASGT_ASLT_ASM_ASAE01_"
    "ASCE01_ASEM1_AAC0_BL1_BS1_CLR0_DTLA0_DTLB0_DTVA0_DTVB0_DVO0_ETSP_EPS1_ELFLR0_EMLL0_FSSC10_FL0_GLVWA4_GLVWB4_"
    "GRCGA1_GRCGB1_GRPM1_GRVWn1_GSU1_GSUASB_GLS0_ISA942_IU1_K1_KLA_LBSPPA0_LBSPPB128_LPA16_LPB4_LDL1_LRVW1_LWPMn1_LDW0_"
    "FMA_MIAV0_MDA2_MO40_MMFSC_MKFGSU256_NTA0_NTB0_NTC0_NTD0_NEPBS0_NLCA1_NLCB1_ONLL1_OPLV0_PK0_PAP0_PGR2_PLR1_PKA0_"
    "SIA3_SLW1_SS1_SU32_SUM0_SUS256_SCIUI1_SPO0_SRVW0_SSO0_SVW1_SNLL0_TSGRA0_TSGRB0_TT4_16_TLDS1_UMLDSA0_UMLDSB1_U64SL1_"
    "USFGROn1_VAW1_VSn1_VW1_VWB1_VFLRP0_WSGRA0_WSGRB0_WS64_WG16_16_1_WGM8"
)
_CAST = (
    "void at::native::vectorized_elementwise_kernel<4, at::native::bfloat16tofloat32_copy_kernel_cuda("
    "at::TensorIteratorBase&)::{lambda(c10::BFloat16)#1}, std::array<char*, 2ul> >(int, at::native::bfloat16tofloat32_"
    "copy_kernel_cuda(at::TensorIteratorBase&)::{lambda(c10::BFloat16)#1}, std::array<char*, 2ul>)"
)
_SCALE = (
    "void at::native::vectorized_elementwise_kernel<4, at::native::AUnaryFunctor<float, float, float, at::native::"
    "binary_internal::MulFunctor<float> >, std::array<char*, 2ul> >(int, at::native::AUnaryFunctor<float, float, "
    "float, at::native::binary_internal::MulFunctor<float> >, std::array<char*, 2ul>)"
)
_GEMM16 = "gemm16(float const*, float const*, float*, int)"
_ARGS = (
    "Tensor2dSizeA = val:0x100000 (size:0x8)", "AddressD = val:0x1421a00000 (size:0x8)",
    "Alpha = val:0x3f800000 (size:0x4)", "StridesD = val:0x400 (size:0x8)",
    "SizesFree = 0x00 04 00 00 00 04 00 00 01 00 00 00  (size:0xc)",
    "NumFullBlocks = val:0x2 (size:0x4)", "MagicNumberWgmRemainder1 = val:0x10000001 (size:0x4)",
    "OrigStaggerUIter = val:0xf (size:0x4)",
)  # fmt: skip
_PROGRAM = (
    "step {n} loss=0.{n:06d} tok/s=1823.4", "/opt/amdgpu/share/libdrm/amdgpu.ids: No such file or directory", "",
    "I0102 12:00:00.{n:06d} 12345 worker.cc:88] heartbeat ok", "\r {n}/127644 [00:12<00:00, 1.23it/s]",
)  # fmt: skip


@dataclass
class _Queue:
    swq: int
    ring: int
    log_id: int
    stream: int
    index: int = 0


@dataclass
class Truth:
    """Count what the log holds."""

    rows: Counter[str] = field(default_factory=Counter)
    calls: Counter[str] = field(default_factory=Counter)
    kernels: Counter[str] = field(default_factory=Counter)
    dispatches: Counter[str] = field(default_factory=Counter)
    barriers: Counter[str] = field(default_factory=Counter)
    torn: list[dict[str, int | str]] = field(default_factory=list)
    iterations: int = 0
    records: int = 0
    lines: int = 0


class _Thread:
    """One HIP thread: what it prints, in the order of its times."""

    def __init__(
        self, tid: str, queues: list[_Queue], start_us: int, random: Random, truth: Truth, number: int
    ) -> None:
        self.now = start_us
        self.lines: list[tuple[float, str]] = []
        self._tid, self._queues, self._random, self._truth = tid, queues, random, truth
        self._turn = 0
        # No two commands or waits that are under way have one pointer or signal.
        self._pool = 0x55C431AF0000 + number * 0x40000
        self._signals = 0x7FC000 + number * 0x4000
        self._command = 0
        self._entered = start_us

    def _put(self, level: int, site: str, message: str, row: str = "", tid: str = "", delay: int = 0) -> None:
        random = self._random.random()
        self.now += 2 + int(random * 4)
        message = message.replace("$SPAN", f"{self.now - self._entered} us")
        text = f":{level}:{site}: {self.now + delay:010d} us: [pid:{PID} tid: {tid or self._tid}] {message}"
        # Lines of several threads change places by a microsecond or two; both threads here feed one event thread.
        self.lines.append((self.now + delay + (0 if tid else random * 1.9), text))
        if row:
            self._truth.rows[row] += 1

    def _call(self, name: str, site: str, arguments: str = "") -> None:
        self._put(3, site, f"\x1b[32m {name} ( {arguments} ) \x1b[0m")
        self._entered = self.now
        self._truth.calls[name] += 1

    def _return(self, name: str, site: str, value: str = "") -> None:
        self._put(3, site, f"{name}: Returned hipSuccess : {value}")

    def _pair(self, name: str, enter: str, leave: str, arguments: str, value: str = "") -> None:
        self._call(name, enter, arguments)
        self._return(name, leave, value)

    def begin(self) -> None:
        """Print the line by which a log shows that its head is there."""
        line = "Initializing runtime stack, Enumerated GPU agents = 1"
        self._put(3, _at("rocdevice.cpp", 416), line, "gpu_agents")

    def create_streams(self) -> None:
        for queue in self._queues:
            self._call("hipStreamCreateWithPriority", _at("hip_stream.cpp", 298), "0x562522f9b1e0, 1, 0")
            number = "Number of allocated hardware queues with low priority: 0, with normal priority: 0"
            number += ", with high priority: 0, maximum per priority is: 4"
            self._put(3, _at("rocdevice.cpp", 2871), number, "queue_allocated_count")
            made = f"Created SWq={queue.swq:#x} to map on HWq={queue.ring:#x} with size 16384"
            made += " with priority 1, cooperative: 0"
            self._put(3, _at("rocdevice.cpp", 2952), made, "queue_created")
            self._put(3, _at("rocdevice.cpp", 3046), f"acquireQueue refCount: {queue.ring:#x} (1)", "queue_acquired")
            self._return("hipStreamCreateWithPriority", _at("hip_stream.cpp", 313), f"{queue.stream:#x}")

    def iterate(self) -> None:
        """Print one iteration: four kernels and an event on the thread's next stream."""
        queue = self._queues[self._turn % len(self._queues)]
        self._turn += 1
        self._truth.iterations += 1
        self._pair("hipSetDevice", _at("hip_device_runtime.cpp", 779), _at("hip_device_runtime.cpp", 785), "0")
        self._pair(
            "hipGetDevice",
            _at("hip_device_runtime.cpp", 690),
            _at("hip_device_runtime.cpp", 702),
            "0x7ffc282687dc",
            "0",
        )
        self._launch(queue, _CAST, 3)
        self._launch_module(queue)
        self._launch(queue, _SCALE, 3)
        self._launch(queue, _GEMM16, 2)
        self._record_event(queue)
        if self._turn % 8 == 0:
            self._synchronize(queue)

    def _launch(self, queue: _Queue, kernel: str, arguments: int) -> None:
        grid = self._random.randrange(1, 64)
        stream = f"{queue.stream:#x}"
        sizes = f"{{{grid},1,1}}, {{256,1,1}}"
        site = [_at("hip_platform.cpp", n) for n in (255, 259, 264, 273)]
        self._pair("__hipPushCallConfiguration", site[0], site[1], f"{sizes}, 0, {stream}")
        self._pair(
            "__hipPopCallConfiguration", site[2], site[3], "{0,0,0}, {0,0,926328864}, 0x73e303ffd3a8, 0x73e303ffd370"
        )
        self._call(
            "hipLaunchKernel", _at("hip_module.cpp", 825), f"0x55f911829d50, {sizes}, 0x7f519107ece0, 0, {stream}"
        )
        self._submit(queue, kernel, [f"  = val:{0x3600 + i:#x} (size:0x4)" for i in range(arguments)], grid * 256)
        self._return("hipLaunchKernel", _at("hip_module.cpp", 826), ": duration: $SPAN")
        self._call("hipGetLastError", _at("hip_error.cpp", 34))

    def _launch_module(self, queue: _Queue) -> None:
        given = f"0x7fc735b51b20, 4096, 16, 1, 256, 1, 1, 0, {queue.stream:#x}, char array:<null>, 0x7ffc28268eb0"
        self._call(
            "hipExtModuleLaunchKernel", _at("hip_module.cpp", 588), given + ", char array:<null>, char array:<null>, 0"
        )
        self._put(
            3, _at("rocdevice.cpp", 2806), f"Check HW event = {0x2ADFC000 + 64 * queue.log_id:#x}", "Check HW event = #"
        )
        self._submit(queue, _TENSILE, [f" {text}" for text in _ARGS], 4096)
        self._return("hipExtModuleLaunchKernel", _at("hip_module.cpp", 603))

    def _enqueue(self, kind: str, queue: _Queue) -> str:
        self._command = (self._command + 0x2A0) % 0x40000
        command = f"{self._pool + self._command:#x}"
        self._put(5, _at("command.cpp", 364), f"Command ({kind}) enqueued: {command} to queue: {queue.stream:#x}", kind)
        return command

    def _submit(self, queue: _Queue, kernel: str, arguments: list[str], size: int) -> None:
        self._enqueue("KernelExecution", queue)
        for i, text in enumerate(arguments):
            self._put(4, _at("rocvirtual.cpp", 966), f"Arg{i}: {text}")
        self._put(3, _at("rocvirtual.cpp", 3631), f"ShaderName : {kernel}")
        self._truth.kernels[kernel] += 1
        self._put(5, _at("rocvirtual.cpp", 3827), "KernargSegmentByteSize = 128 KernargSegmentAlignment = 128")
        index, queue.index = queue.index, queue.index + 1
        text = (
            f"{_of(queue)} Dispatch Header = 0xb02 (type=2, barrier=1, acquire=1, release=1), setup=3, "
            f"grid=[{size}, 1, 1], workgroup=[256, 1, 1], private_seg_size=0, group_seg_size=52224, "
            f"kernel_obj={0x142C679500 + 64 * len(kernel):#x}, kernarg_address={0x142A600000 + index % 8192 * 128:#x}, "
            f"completion_signal=0x0, correlation_id=0, rptr={max(index - 3, 0)}, wptr={index}"
        )
        self._put(5, _at("rocvirtual.cpp", 1165), text, "dispatch")
        self._truth.dispatches[f"{queue.ring:#x}"] += 1

    def _barrier(self, queue: _Queue, kind: str, signal: str) -> None:
        index, queue.index = queue.index, queue.index + 1
        if kind == "barrier_and":
            text = "BarrierAND Header = 0x1503 (type=3, barrier=1, acquire=2, release=2)"
            text += ", dep_signal=[0x0, 0x0, 0x0, 0x0, 0x0]"
        else:
            text = "BarrierValue Header = 0x1500 AmdFormat = 0x2 (type=0, barrier=1, acquire=2, release=2)"
            text += ", signal=0x0, value = 0x0 mask = 0x0 cond: EQ"
        text = f"{_of(queue)} {text}, completion_signal={signal}, rptr={max(index - 3, 0)}, wptr={index}"
        self._put(5, _at("rocvirtual.cpp", 1568 if kind == "barrier_and" else 1658), text, kind)
        self._truth.barriers[f"{queue.ring:#x}"] += 1

    def _record_event(self, queue: _Queue) -> None:
        signal = f"{self._signals + self._turn % 64 * 128:#x}"
        self._call("hipEventRecord", _at("hip_event.cpp", 430), f"0x7f51740430b0, {queue.stream:#x}")
        command = self._enqueue("InternalMarker", queue)
        handler = f"handle({signal}), timestamp(0x55c431b0)"
        self._put(3, _at("rocvirtual.cpp", 586), f"Set Handler: {handler}, blocking CB=0", "set_handler")
        self._barrier(queue, "barrier_value", signal)
        self._return("hipEventRecord", _at("hip_event.cpp", 431))
        value = f"Handler: value(0), timestamp(0x55c431b0), handle({signal})"
        self._put(3, _at("rocvirtual.cpp", 216), value, "handler", EVENT_THREAD, 900)
        self._put(5, _at("command.cpp", 162), f"Command {command} complete", "complete", EVENT_THREAD, 900)

    def _synchronize(self, queue: _Queue) -> None:
        self._call("hipStreamSynchronize", _at("hip_stream.cpp", 430), f"{queue.stream:#x}")
        name = "finish"
        self._put(
            5, _at("commandqueue.cpp", 195), "finish() called with batch size: 2, cpu_wait: 0, fence dirty: 0", name
        )
        self._enqueue("InternalMarker", queue)
        signal = f"{self._signals + 0x3100:#x}"
        self._barrier(queue, "barrier_and", signal)
        self._put(4, _at("rocvirtual.cpp", 696), f"Host wait on completion_signal={signal}", "host_wait")
        self._return("hipStreamSynchronize", _at("hip_stream.cpp", 433))


def _at(file: str, line: int) -> str:
    return f"{file:<25}:{line:<4}"


def _of(queue: _Queue) -> str:
    return f"SWq={queue.swq:#x}, HWq={queue.ring:#x}, id={queue.log_id},"


def _merged(threads: list[_Thread], iterations: int) -> Iterator[str]:
    """Yield the lines of all threads, in time order but for a microsecond or two."""
    done = 0
    waiting: list[tuple[float, str]] = []
    while done < iterations:
        for _ in range(min(256, iterations - done)):
            min(threads, key=lambda t: t.now).iterate()
            done += 1
        for thread in threads:
            waiting += thread.lines
            thread.lines = []
        waiting.sort(key=lambda item: item[0])
        until = min(t.now for t in threads)
        ready = next((i for i, item in enumerate(waiting) if item[0] > until), len(waiting))
        yield from (text for _, text in waiting[:ready])
        del waiting[:ready]
    yield from (text for _, text in waiting)


def _disturb(lines: Iterator[str], truth: Truth, random: Random, every: int, torn_every: int) -> Iterator[str]:
    """Put text of the program between records, before them and into them; yield whole lines."""
    offset = 0
    for text in lines:
        truth.records += 1
        pieces = [text]
        n = truth.records
        if n % torn_every == 0:
            pieces = _tear(text, n, offset, truth, glue=(n // torn_every) % 2 == 0)
        elif n % every == 0:
            pieces = [_PROGRAM[random.randrange(len(_PROGRAM))].format(n=n), text]
        for piece in pieces:
            truth.lines += 1
            offset += len(piece) + 1
            yield piece + "\n"


def _tear(text: str, n: int, offset: int, truth: Truth, *, glue: bool) -> list[str]:
    """Return a record behind text of the program, or one that such a text cuts apart."""
    output = f"epoch {n} done, best=0.98"
    if glue:
        truth.torn.append({"kind": "glued", "offset": offset + len(output)})
        return [output + text]
    cut = (len(text) + 80) // 2
    truth.torn.append({"kind": "cut", "offset": offset, "tail_offset": offset + cut + len(output) + 1})
    return [text[:cut] + output, text[cut:]]


def write_big_log(
    path: Path, iterations: int = ITERATIONS, size_bytes: int | None = None, seed: int = 1, torn_every: int = 66_037
) -> Truth:
    """Write a log and return what it holds; the same arguments give the same bytes.

    Args:
        path: the log.
        iterations: iterations of the loop.
        size_bytes: stop the loop near this size instead.
        seed: of the random choices.
        torn_every: every so many records one is torn.
    """
    truth, random = Truth(), Random(seed)
    if size_bytes is not None:
        iterations = max(1, size_bytes // BYTES_PER_ITERATION)
    queues = [
        _Queue(0x220000 + i * 0x20000, 0x3C00000 + i * 0x200000, i + 1, 0x55C431A2A210 + i * 0x1000) for i in range(4)
    ]
    tids = ("0x7fb85b569880", "0x7f519107f6c0")
    threads = [_Thread(tid, queues[i::2], 2_496_383_546, random, truth, i) for i, tid in enumerate(tids)]
    threads[0].begin()
    for thread in threads:
        thread.create_streams()
    lines = _disturb(_merged(threads, iterations), truth, random, every=1000, torn_every=torn_every)
    with path.open("w", buffering=1 << 20, newline="\n") as out:
        out.writelines(lines)
    return truth


BYTES_PER_ITERATION = 11_806


def truth_path(path: Path) -> Path:
    """Return the path of the truth file of a log."""
    return path.with_name(path.name + ".truth.json")


def main(arguments: list[str]) -> None:
    """Write a log and its truth file."""
    parser = argparse.ArgumentParser(prog="make_big_log", description=__doc__)
    parser.add_argument("log", type=Path)
    parser.add_argument("--iterations", type=int, default=ITERATIONS)
    parser.add_argument("--size-mb", type=int, help="write about this many MB instead")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args(arguments)
    truth = write_big_log(given.log, given.iterations, given.size_mb and given.size_mb * 1_000_000, given.seed)
    content = {
        "synthetic": True,
        "about": "made by scripts/make_big_log; no GPU and no runtime was involved",
        "seed": given.seed,
    }
    truth_path(given.log).write_text(json.dumps({**content, **vars(truth)}, indent=1) + "\n")
    print(f"{given.log}: {given.log.stat().st_size / 1e6:.1f} MB, {truth.lines} lines, synthetic", file=sys.stderr)


if __name__ == "__main__":
    main(sys.argv[1:])
