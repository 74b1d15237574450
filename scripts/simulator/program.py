"""What the threads of a synthetic run do: HIP calls with everything below them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

from simulator import forms
from simulator.event_thread import EventThread
from simulator.machine import Machine, Packet, Process, Queue, Signal, Stream, Thread

CREATE, DESTROY, UPDATE = 0xC0604B02, 0xC0084B03, 0x40184B07
ALLOC, MAP, WAIT = 0xC0284B16, 0xC0184B18, 0xC0184B0C
# The ids of GPUs are hashes: agents come in another order than their ids.
GPU_IDS = (0xC8DD, 0x7E3A, 0xF00F, 0x1B2C, 0x9A41, 0x0D5E, 0xB677, 0x4412)
# Kind of mapping in the highest two bits of an offset in /dev/kfd, gpu_id in the next 16.
_DOORBELLS = 3 << 62
KERNELS = (
    "vadd(float const*, float const*, float*, int)",
    "gemm16(float const*, float const*, float*, int)",
    "fill(float*, float, int)",
)


class HipThread(Thread):
    """A thread that calls HIP."""

    def __init__(self, machine: Machine, process: Process, tid: int, address: int, events: EventThread) -> None:
        super().__init__(machine, process, tid, address, f"hip{process.number}")
        self.events = events
        self.streams: list[Stream] = []
        self.worker: Thread | None = None
        # The outermost call that enqueued each command's line.
        self._caller: dict[int, int] = {}

    def live(self, start_ns: float) -> Iterator[float]:
        """Create the streams, work until the end of the run, and destroy the queues where the scene says so."""
        scene, random = self.scene, self.machine.random
        self.now = start_ns
        yield from self._announce()
        end_ns = start_ns + scene.span_s * 1e9
        rounds = 2 if scene.recreate else 1
        names, weights = zip(*scene.kinds, strict=True)
        for part in range(rounds):
            for number in range(scene.streams):
                yield from self._create_stream(number)
            while self.now < start_ns + (part + 1) * (end_ns - start_ns) / rounds:
                kind = random.choices(names, weights)[0]
                yield from getattr(self, f"_do_{kind}")(random.choice(self.streams))
                self.spend(5, 2 * scene.launch_gap_us)
                yield self.now
            yield from self._synchronize(self.streams)
            if scene.recreate:
                yield from self._destroy()

    def _announce(self) -> Iterator[float]:
        """Register the thread; the first one initialises the runtime, which makes a queue of its own."""
        yield from self.register()
        self.spend(500, 2000)
        yield self.now
        if self is self.process.threads[1]:
            yield from self.say("init", f"Initializing runtime stack, Enumerated GPU agents = {self.scene.gpus}")
            yield from self.ioctl(CREATE, 300, 900)
            self.spend(500, 900)

    def _create_stream(self, number: int) -> Iterator[float]:
        era, process = self.scene.era, self.process
        gpu = number % self.scene.gpus
        if self.scene.gpus > 1:
            yield from self.enter("device", "hipSetDevice", str(gpu))
            yield from self.leave("device", "hipSetDevice")
        yield from self.enter("stream", "hipStreamCreateWithPriority", f"0x7f519107ec68, 1, {(number % 3) - 1}")
        counts = "of allocated hardware queues with low priority: 0, with normal priority: 0, with high priority: 0"
        word = "Number" if era >= "6.2" else "number"
        yield from self.say("queue", f"{word} {counts}, maximum per priority is: {self.scene.queues}")
        mine = [queue for queue in process.queues if queue.gpu == gpu and queue.users > 0]
        if len(mine) < self.scene.queues:
            queue = yield from self._create_queue(number, gpu)
        else:
            queue = mine[(number + len(process.threads)) % len(mine)]
            queue.users += 1
            name = queue.ring if era >= "6.2" else queue.swq
            yield from self.say("queue", f"Selected queue refCount: {name:#x} (2)")
        handle = 0x7F5174001300 + 0x1000 * (100 * process.number + 10 * len(process.threads) + len(self.streams))
        handle += self.tid * 0x100000
        self.streams.append(Stream(handle, queue))
        yield from self.leave("stream", "hipStreamCreateWithPriority", forms.stream_text(era, handle))

    def _map_doorbells(self, gpu: int, ioctl: int) -> Iterator[float]:
        """Map the doorbell page of a GPU, once in a process and after its first queue there."""
        if gpu in self.process.mapped or self.scene.gpus == 1:
            return
        self.process.mapped.add(gpu)
        offset = _DOORBELLS | GPU_IDS[gpu] << 46
        given = f"addr: 0, len: 0x2000, prot: 3, flags: 0x1, fd: 4, off: {offset:#x}"
        mapping = yield from self.syscall("mmap", given, 5, 20, "0x7f5600000000")
        self.machine.record.truth.mappings.append((ioctl, mapping))

    def _create_queue(self, number: int, gpu: int) -> Iterator[float]:
        process = self.process
        # Memory that a deleted queue left is used again, as an allocator does.
        taken = {queue.place for queue in process.queues}
        place = next(place for place in count() if place not in taken)
        process.made += 1
        queue = Queue(
            0x3C00000 + place * 0x3400000, 0x220000 + place * 0x9000, process.made, 0x7FFB80 - process.made * 0x2400,
            self.scene.first_index, gpu, place,
        )  # fmt: skip
        process.queues.append(queue)
        self.spend(100, 600)
        enter = self.trace(f"sys_ioctl(fd: 4, cmd: {CREATE:#x}, arg: 0x7ffd061c4300)")
        self._note_syscall(enter)
        if self.scene.queue_probe:
            self.spend(2, 5)
            fields = f"ring={queue.ring:#x} wptr={queue.swq + 0x38:#x} rptr={queue.swq + 0x80:#x} size=1048576"
            self.trace(
                f"kfd_create_queue: (kfd_ioctl_create_queue+0x4/0x670 [amdgpu]) {fields}"
                f" gpu={GPU_IDS[gpu] if self.scene.gpus > 1 else 2:#x} type=2 pct=100 prio=7"
            )
        self.spend(250, 700)
        yield self.now
        left = self.trace("sys_ioctl -> 0x0")
        self.machine.record.truth.exits.append((left, enter))
        self._note_syscall(left)
        yield from self._map_doorbells(gpu, enter)
        self.spend(50, 300)
        priority = 2 - number % 3
        if priority != 1:
            yield from self.ioctl(UPDATE, 30, 90)
        line = yield from self.say("queue", forms.created(self.scene.era, queue.swq, queue.ring, priority))
        queue.made = line
        self.machine.record.truth.creations.append((enter, line))
        if self.scene.queue_probe:
            self.machine.record.truth.queue_gpus.append((line, GPU_IDS[gpu] if self.scene.gpus > 1 else 2, gpu))
        name = queue.ring if self.scene.era >= "6.2" else queue.swq
        yield from self.say("queue", f"acquireQueue refCount: {name:#x} (1)")
        return queue

    def _destroy(self) -> Iterator[float]:
        """Destroy the thread's streams, and the queues that no stream uses any more."""
        for stream in self.streams:
            yield from self.enter("stream", "hipStreamDestroy", forms.stream_text(self.scene.era, stream.handle))
            stream.queue.users -= 1
            yield from self.leave("stream", "hipStreamDestroy")
        unused = [queue for queue in self.process.queues if queue.users == 0]
        for queue in unused:
            queue.users = -1
        for queue in unused:
            name = queue.ring if self.scene.era >= "6.2" else queue.swq
            yield from self.say("queue", f"Deleting hardware queue {name:#x} with refCount 0")
            yield from self.ioctl(DESTROY, 100, 300)
            self.process.queues.remove(queue)
        self.streams = []

    # operations

    def _do_getters(self, stream: Stream) -> Iterator[float]:
        del stream
        for name in ("hipGetDevice", "hipGetDevice"):
            yield from self.enter("device", name, "0x7ffc282687dc")
            yield from self.leave("device", name, "0")

    def _do_malloc(self, stream: Stream) -> Iterator[float]:
        del stream
        yield from self.enter("malloc", "hipMalloc", "0x7f517a5fdc88, 262144")
        yield from self.ioctl(ALLOC, 20, 250)
        yield from self.ioctl(MAP, 10, 60)
        yield from self.say("memory", "Allocate hsa device memory 0x1401e80000, size 0x40000, hsa_mem_flags 0x0h")
        yield from self.leave("malloc", "hipMalloc", "0x1401e80000", timed=True)

    def _do_nested(self, stream: Stream) -> Iterator[float]:
        """Make a call whose function makes another logged one, as hipMallocHost does."""
        yield from self.enter("malloc", "hipMallocHost", "0x7f517a5fdc88, 262144")
        yield from self._do_malloc(stream)
        yield from self.leave("malloc", "hipMallocHost", "0x1401e80000", timed=True)

    def _do_launch(self, stream: Stream) -> Iterator[float]:
        sizes = "{256,1,1}, {256,1,1}"
        handle = forms.stream_text(self.scene.era, stream.handle)
        yield from self.enter("launch", "hipLaunchKernel", f"0x55f911829d50, {sizes}, 0x7f519107ece0, 0, {handle}")
        command = yield from self._enqueue("KernelExecution", stream)
        if self.worker:
            yield from self.leave("launch", "hipLaunchKernel", timed=True)
            self.worker.now = max(self.worker.now, self.now + 5_000)
            yield from self.worker.say(
                "command", f"Command (KernelExecution) processing: {command[1]:#x} ,events.size(): 0"
            )
            yield from self.worker.say("command", f"Command (KernelExecution) submitted: {command[1]:#x}")
            yield from self._write_kernel(self.worker, stream, command)
            return
        yield from self._write_kernel(self, stream, command)
        yield from self.leave("launch", "hipLaunchKernel", timed=True)

    def _write_kernel(self, thread: Thread, stream: Stream, command: tuple[int, int]) -> Iterator[float]:
        yield thread.now
        for number in range(3):
            yield from thread.say("arg", f"Arg{number}:   = ptr:0x1400e00000 obj:[0x1400e00000-0x1400e40000]")
        kernel = self.machine.random.choice(KERNELS)
        message = f"ShaderName : {kernel}"
        if self.scene.long_names:
            # The runtime cuts a message there (a buffer of 4,096 bytes).
            message = message.ljust(4095, "x")
        yield from thread.say("shader", message)
        if self.scene.era >= "6.4":
            yield from thread.say("kernarg", "KernargSegmentByteSize = 288 KernargSegmentAlignment = 128")
        if stream.pending:
            yield from self._barrier(thread, stream, "barrier_and", command[0], None, stream.pending)
            self._await(stream, None)
        line = yield from self._dispatch(thread, stream, command[0])
        self.machine.record.truth.kernels.append((line, kernel))

    def _do_event(self, stream: Stream) -> Iterator[float]:
        yield from self.enter(
            "event", "hipEventRecord", f"0x7f5174042fe0, {forms.stream_text(self.scene.era, stream.handle)}"
        )
        line, command = yield from self._enqueue("InternalMarker", stream)
        signal = self.process.next_signal()
        packet = yield from self._barrier(self, stream, "barrier_value", line, signal, None)
        yield from self.leave("event", "hipEventRecord")
        self.events.expect([packet], signal, command, self.now)

    def _do_sync(self, stream: Stream) -> Iterator[float]:
        yield from self._synchronize([stream])

    def _synchronize(self, streams: list[Stream]) -> Iterator[float]:
        for stream in streams:
            yield from self.enter("sync", "hipStreamSynchronize", forms.stream_text(self.scene.era, stream.handle))
            line, command = yield from self._enqueue("InternalMarker", stream)
            signal = self.process.next_signal()
            packet = yield from self._barrier(self, stream, "barrier_and", line, signal, None)
            yield from self.say("wait", f"Host wait on completion_signal={signal.handle:#x}")
            if signal.end_ns > self.now + 200_000:
                yield from self.ioctl(WAIT, (signal.end_ns - self.now) / 1000, (signal.end_ns - self.now) / 1000 + 20)
            self.now = max(self.now, signal.end_ns + 3_000)
            yield self.now
            done = yield from self.say("done", f"Command {command:#x} complete (Wall: 58178, CPU: 0, GPU: 2 us)")
            if done >= 0:
                self.machine.record.truth.completions.append((packet, done))
                self.machine.record.truth.inside.append((done, self.calls[-1]))
            yield from self.leave("sync", "hipStreamSynchronize")

    def _do_copy(self, stream: Stream) -> Iterator[float]:
        handle = forms.stream_text(self.scene.era, stream.handle)
        arguments = f"0x1401e00000, 0x280000, 262144, hipMemcpyHostToDevice, {handle}"
        yield from self.enter("copy", "hipMemcpyAsync", arguments)
        line, _ = yield from self._enqueue("CopyHostToDevice", stream)
        before, after = self.process.next_signal(), self.process.next_signal()
        barrier = yield from self._barrier(self, stream, "barrier_and", line, before, None)
        self.spend(3, 8)
        if self.scene.era in ("6.4", "7.0") and self.process.level >= 5:
            text = "HWq=0x20a000, id=0, Barrier Header = 0x103 (type=3, barrier=1, acquire=0, release=0), "
            self.say_raw("rocr", text + "dep_signal=[0x0 0x0 0x0 0x0 0x0], completion_signal=0x0 rptr=1, wptr=2")
        copied = yield from self._copy_on_engine(line, before, after)
        if copied >= 0:
            self.machine.record.truth.dependencies.append((barrier, copied))
        last = after
        # What the staging buffer does not hold at once follows in further copies, each behind the one before.
        for _ in range(self.machine.random.choice((0, 0, 1, 2)) if self.scene.staged_copies else 0):
            last = self.process.next_signal()
            more = yield from self._copy_on_engine(line, after, last)
            if more >= 0 and after.line >= 0:
                self.machine.record.truth.dependencies.append((after.line, more))
            after = last
        self._await(stream, last)
        yield from self.leave("copy", "hipMemcpyAsync", timed=True)

    def _await(self, stream: Stream, signal: Signal | None) -> None:
        """Let the stream's next kernel wait for a signal, which is not used again before."""
        awaited = self.process.awaited
        awaited.difference_update([stream.pending.handle] if stream.pending else [])
        awaited.update([signal.handle] if signal else [])
        stream.pending = signal

    def _copy_on_engine(self, command: int, wait: Signal, done: Signal) -> Iterator[float]:
        """Start one copy on an SDMA engine that waits for a signal; return the id of its line."""
        fields = f"dst=0x1401e00000, src=0x280000, size=262144, forceSDMA=0, engineType=2, wait_event={wait.handle:#x}"
        form = "HSA Copy copy_engine=0x1" if self.scene.era >= "7.1" else "HSA Async Copy on copy_engine=0x1"
        copied = yield from self.say("blit", f"{form}, {fields}, completion_signal={done.handle:#x}")
        if copied >= 0:
            self._own(command, copied)
        done.line, done.known = copied, True
        done.start_ns = max(self.now, wait.end_ns) + 5_000
        done.end_ns = done.start_ns + self.machine.random.uniform(1e4, 2e5)
        return copied

    def _do_graph(self, stream: Stream) -> Iterator[float]:
        if self.scene.era < "7.0" or self.worker:
            return
        yield from self.enter(
            "graph", "hipGraphLaunch", f"0x7f517404a090, {forms.stream_text(self.scene.era, stream.handle)}"
        )
        batch: list[int] = []
        queue = stream.queue
        first = queue.index
        count = self.scene.graph_packets or self.machine.random.randrange(2, 6)
        # The indexes of a batch are taken at once.
        queue.index += count
        for number in range(count):
            yield from self.say("shader", f"Graph ShaderName : {KERNELS[number % 3]}, device id : 0")
            batch.append((yield from self._write_packet(self, stream, "dispatch", first + number, None, None)))
            self.machine.record.truth.kernels.append((batch[-1], KERNELS[number % 3]))
        yield from self._store(self, queue, first + count - 1, batch)
        line, command = yield from self._enqueue("Task", stream)
        for packet in batch:
            self._own(line, packet)
        signal = self.process.next_signal()
        packet = yield from self._barrier(self, stream, "barrier_value", line, signal, None)
        yield from self.leave("graph", "hipGraphLaunch", timed=True)
        self.events.expect([*batch, packet], signal, command, self.now)

    # what operations are made of

    def _enqueue(self, kind: str, stream: Stream) -> Iterator[float]:
        command = self.process.next_command()
        more = f" to queue: {stream.handle:#x}" if self.scene.era >= "7.0" else ""
        line = yield from self.say("command", f"Command ({kind}) enqueued: {command:#x}{more}")
        self._caller[line] = self.calls[0]
        self.machine.record.truth.inside.append((line, self.calls[-1]))
        return line, command

    def _own(self, command: int, line: int) -> None:
        """Note that the line of a packet or copy belongs to a command, and to the call that enqueued it."""
        self.machine.record.truth.commands.append((command, line))
        self.machine.record.truth.inside.append((line, self._caller[command]))

    def _dispatch(self, thread: Thread, stream: Stream, command: int) -> Iterator[float]:
        index = stream.queue.index
        stream.queue.index += 1
        line = yield from self._write_packet(thread, stream, "dispatch", index, None, None)
        yield from self._store(thread, stream.queue, index, [line])
        self._own(command, line)
        return line

    def _barrier(
        self, thread: Thread, stream: Stream, kind: str, command: int, signal: Signal | None, wait: Signal | None
    ) -> Iterator[float]:
        if self.worker:
            # What the worker was given before goes before it into the ring.
            thread.now = max(thread.now, self.worker.now)
            yield thread.now
        index = stream.queue.index
        stream.queue.index += 1
        # The store comes first, the line follows.
        store = yield from self._ring(thread, stream.queue, index)
        thread.spend(9, 40)
        line = yield from self._write_packet(thread, stream, kind, index, signal, wait)
        stream.queue.ring_up_to(
            index, self.machine.record.lines[store].at_ns if store >= 0 else thread.now, self.machine.record
        )
        self._note_store(store, [line])
        self._own(command, line)
        if wait and wait.line >= 0:
            self.machine.record.truth.dependencies.append((wait.line, line))
        return line

    def _store(self, thread: Thread, queue: Queue, index: int, lines: list[int]) -> Iterator[float]:
        thread.spend(2, 6)
        yield thread.now
        store = yield from self._ring(thread, queue, index)
        queue.ring_up_to(index, thread.now, self.machine.record)
        self._note_store(store, lines)

    def _note_store(self, store: int, lines: list[int]) -> None:
        if store >= 0:
            self.machine.record.truth.doorbells += [(line, store) for line in lines if line >= 0]

    def _ring(self, thread: Thread, queue: Queue, index: int) -> Iterator[float]:
        """Store to the doorbell; return the id of the record, or -1 without a probe."""
        if self.scene.doorbell == "none":
            return -1
        text = f"doorbell: (0x7f91946c11c0) sig={queue.doorbell:#x} val={index}"
        if self.scene.doorbell == "rich":
            more = f"kind=-1 hw=0x7f5600000008 swq={queue.swq:#x} ring={queue.ring:#x} qid={queue.log_id}"
            text = f"doorbell: (0x7f91946c11c0) sig={queue.doorbell:#x} val={index:#x} {more}"
        store = thread.trace(text, "DBZff")
        thread.spend(1, 4)
        yield thread.now
        return store

    def _write_packet(
        self, thread: Thread, stream: Stream, kind: str, index: int, signal: Signal | None, wait: Signal | None
    ) -> Iterator[float]:
        scene, queue = self.scene, stream.queue
        head = forms.packet_head(scene.era, queue.swq, queue.ring, queue.log_id)
        handle = signal.handle if signal else 0
        printed = scene.prints_index if kind == "dispatch" else scene.barriers_print_index
        tail = forms.packet_tail(printed, max(index - 3, 0), index)
        if kind == "dispatch":
            body = "Dispatch Header = 0xb02 (type=2, barrier=1, acquire=1, release=1), setup=3"
            body += ", grid=[65536, 1, 1], workgroup=[256, 1, 1], private_seg_size=0, group_seg_size=0"
            body += ", kernel_obj=0x1000197d80, kernarg_address=0x10001bf000"
            body += f", completion_signal={handle:#x}" + (", correlation_id=0" if scene.era >= "6.3" else "")
        elif kind == "barrier_and":
            waits = f"{wait.handle if wait else 0:#x}, 0x0, 0x0, 0x0, 0x0"
            body = f"BarrierAND Header = 0x1503 (type=3, barrier=1, acquire=2, release=2), dep_signal=[{waits}]"
            body += f", completion_signal={handle:#x}"
        else:
            body = "BarrierValue Header = 0x1500 AmdFormat = 0x2 (type=0, barrier=1, acquire=2, release=2), signal=0x0"
            body += f", value = 0x0 mask = 0x0 cond: EQ, completion_signal={handle:#x}"
        line = yield from thread.say("dispatch" if kind == "dispatch" else "barrier", head + body + tail)
        duration = self.machine.random.uniform(2e3, 3e4) if kind == "dispatch" else 100.0
        queue.waiting.append(Packet(line, index, duration, signal, [wait] if wait else []))
        if line >= 0:
            names = queue.ring, queue.swq, queue.log_id
            self.machine.record.truth.packets.append((line, *names, index, self.process.number))
            self.machine.record.truth.packet_queues.append((queue, line))
        return line
