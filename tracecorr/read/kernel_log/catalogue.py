"""What amdgpu, amdkfd and the kernel print when queues, schedulers and GPUs are in trouble: one entry per message.

The texts are those of the format strings of Linux 6.1.192, 6.12.117 and 7.3.4 and of older DKMS trees as reports of
their users show them. A pattern matches the message behind its prefix (module `printk`); a number that a message names
is a group of its pattern. A new message is one entry here.
"""

from __future__ import annotations

from dataclasses import dataclass

# What a message is about, in the order in which a reader wants to know it.
RESET, SCHEDULER, QUEUE, MEMORY, FAULT, _EVICTION, _OCCUPANCY, HARDWARE, _HOST = (
    "reset", "scheduler", "queue", "memory", "fault", "eviction", "occupancy", "hardware", "host",
)  # fmt: skip
# Groups of patterns that hold hexadecimal digits without 0x.
HEXADECIMAL = frozenset({"doorbell", "status", "data", "detail", "client"})


@dataclass(frozen=True)
class Message:
    """Describe one message of the kernel log.

    Args:
        name: of its events.
        subject: what it is about.
        pattern: regular expression of the text behind the prefix; its groups are the numbers and names that it tells:
            `pid` and `pasid` of a process, `doorbell` (dword offset in the doorbell BAR), `kfd_queue` (the queue id of
            the KFD), `ring` (of the DRM scheduler), `ret` (a negative errno), `address`, and others.
        kernels: releases of Linux whose source has it, and where else it was seen.
        means: what it says, in a sentence.
        helps: what its reader can do; empty if nothing general is known.
    """

    name: str
    subject: str
    pattern: str
    kernels: str
    means: str
    helps: str = ""


_ALL = "6.1, 6.12, 7.3"
_HWS_DEAD = "The hardware scheduler did not unmap a queue in time; a reset of the GPU follows."
_OVERSUBSCRIBED = "More queues or processes than the hardware can hold at once: the scheduler rotates them."
_FEWER_QUEUES = "Use fewer queues: GPU_MAX_HW_QUEUES of each process, or amdgpu.num_kcq=2."
_REFUSED = "The driver refused to make a queue."

MESSAGES = (
    # --- occupancy
    Message(
        "runlist_oversubscribed", _OCCUPANCY,
        r"^Runlist is getting oversubscribed(?: due to(?<cause>[^.]*))?\. Expect reduced ROCm performance\.",
        f"{_ALL} (7.3 names the cause)", _OVERSUBSCRIBED, _FEWER_QUEUES,
    ),
    Message(
        "no_sdma_queue", _OCCUPANCY,
        r"^No more (?<kind>XGMI )?SDMA queue (?:for target ID (?<target>\d+) )?to allocate"
        r"(?: \((?<total>\d+) total queues\))?",
        _ALL, "All SDMA queues are taken: ROCr copies with kernels instead.",
    ),
    Message(
        "too_many_queues_of_device", _OCCUPANCY,
        r"^Can't create new usermode queue because (?<count>-?\d+) queues were already created",
        _ALL, "The driver's count of queues reached its limit; a negative count went wrong after a failed preemption.",
        "A negative count needs a reload of amdgpu.",
    ),
    Message(
        "too_many_queues_of_process", _OCCUPANCY,
        r"^Cannot open more queues for process with (?:pasid (?<pasid>0x[0-9a-f]+)|pid (?<pid>\d+))",
        _ALL, "The process has 1,024 queues, the most that one may have.",
    ),
    Message(
        "no_doorbells", _OCCUPANCY, r"^No doorbells available", _ALL,
        "All doorbells of the process are taken: CREATE_QUEUE returns EBUSY.",
    ),
    Message(
        "no_vmid", _OCCUPANCY,
        r"^(?:no more vmid to allocate|no vmid pasid mapping supported|"
        r"Didn't find vmid for (?:pasid (?<pasid>0x[0-9a-f]+)|process pid (?<pid>\d+)))",
        _ALL, "Without the hardware scheduler each process needs a VMID, and none is free.",
    ),
    # --- queues
    Message(
        "create_queue_failed", QUEUE,
        r"^(?:[Pp]asid (?<pasid>0x[0-9a-f]+|\d+)|process pid (?<pid>\d+)) DQM create queue(?: type)? (?<type>\d+) "
        r"failed\. ret (?<ret>-?\d+)",
        f"{_ALL}, 4.x", _REFUSED + " -12: no slot; -62: a preemption timed out; -5: the GPU hangs.",
    ),
    Message(
        "destroy_queue_failed", QUEUE,
        r"^(?:Pasid (?<pasid>0x[0-9a-f]+)|Process pid (?<pid>\d+)|process pid (?<pid_>\d+)) destroy queue "
        r"(?<kfd_queue>\d+) failed, ret (?<ret>-?\d+)",
        _ALL, "The driver could not take a queue away from the GPU.",
    ),
    Message(
        "queue_preemption_failed", QUEUE,
        r"^(?:XCC (?<xcc>\d+): )?Queue preemption failed for queue with doorbell_id: (?<doorbell>[0-9a-f]+)",
        "6.12, 7.3", "The firmware named the queue that did not let itself be preempted.",
        "Others went on after ending its process, or with amdgpu.cwsr_enable=0.",
    ),
    Message(
        "hiq_preemption_timeout", QUEUE,
        r"^HIQ MQD's queue_doorbell_id0 is not 0, Queue preemption time out", "6.1, DKMS 6.x",
        "One queue did not answer a preemption; the message does not say which.",
        "tracecorr hqd shows which queues are active.",
    ),
    Message(
        "cp_preemption_failed", QUEUE,
        r"^cp queue (?:preemption time out\.?|pipe (?<pipe>\d+) queue (?<slot>\d+) preemption failed)", _ALL,
        "A hardware slot did not let itself be preempted.",
    ),
    Message(
        "queue_reset", QUEUE,
        r"^queue id 0x(?<kfd_queue_hex>[0-9a-f]+) at pasid (?:(?<pasid>0x[0-9a-f]+)|(?<pid>\d+)) is reset",
        "6.12, 7.3", "The driver reset one queue; its process gets an exception, others go on.",
    ),
    Message(
        "queues_reset", QUEUE,
        r"^Queues reset on process (?<task>.*) tid (?<tid>\d+) thread (?<thread>.*) pid (?<pid>\d+)", "7.3",
        "The driver reset queues of this process.",
    ),
    Message(
        "ring_reset_disabled", QUEUE, r"^(?<kind>sdma|compute) queue hung, but ring reset disabled", "7.3",
        "A queue hangs, and the driver may not reset it alone.",
    ),
    Message(
        "mes_add_queue_failed", QUEUE,
        r"^failed to add hardware queue to MES, doorbell=0x(?<doorbell>[0-9a-f]+)", _ALL,
        "MES did not take the queue with this doorbell.",
    ),
    Message(
        "mes_remove_queue_failed", QUEUE,
        r"^failed to remove (?:hardware )?queue from MES, doorbell=0x(?<doorbell>[0-9a-f]+)", _ALL,
        "MES did not give up the queue with this doorbell: it did not answer an eviction or its destruction.",
        "Others went on with amdgpu.cwsr_enable=0.",
    ),
    Message(
        "remove_queues_failed", QUEUE,
        r"^(?:\w+: )?Failed to remove queue (?<kfd_queue>\d+) for dev (?<gpu_id>\d+)", _ALL,
        "MES did not give up a queue while all were taken from the GPU.",
    ),
    Message(
        "queue_evict_failed", QUEUE, r"^Failed to (?<what>evict|restore|remove) queue (?<kfd_queue>\d+)$", _ALL,
        "A queue could not be taken from the GPU or put back; a neighbouring line names its process.",
    ),
    # --- scheduler
    Message("hws_fence_timeout", SCHEDULER, r"^qcm fence wait loop timeout expired", f"{_ALL}, 4.x", _HWS_DEAD),
    Message(
        "hws_unrecoverable", SCHEDULER,
        r"^The cp might be in an unrecoverable state due to an unsuccessful queues preemption", _ALL, _HWS_DEAD,
    ),
    Message("runlist_failed", SCHEDULER, r"^failed to execute runlist", _ALL, "No run list could be submitted."),
    Message(
        "mes_no_answer", SCHEDULER,
        r"^MES(?:\((?<first>\d+)(?:, (?<pipe>\d+))?\))? failed to (?:response|respond to) msg=(?<request>\S+)"
        r"(?: \((?<detail_text>[^)]*)\))?",
        _ALL, "MES did not answer. The request is the first one after it died, not what killed it.",
    ),
    Message(
        "mes_unrecoverable", SCHEDULER, r"^MES might be in unrecoverable state, issue a GPU reset", _ALL,
        "MES is dead; a reset of the GPU follows.",
    ),
    Message(
        "mes_trouble", SCHEDULER,
        r"^(?:MES ring buffer is full\.?|failed to unmap legacy queue|failed to suspend all gangs|"
        r"Failed to detect (?:and reset )?hung queues)",
        _ALL, "MES did not do what the driver asked of it.",
    ),
    Message(
        "kiq_timeout", SCHEDULER,
        r"^(?:timeout waiting for kiq fence|Timeout waiting for VM flush hub: (?<hub_number>\d+)!|"
        r"ring (?<ring>\S+) test failed \((?<ret>-?\d+)\))",
        _ALL, "The GPU's microcontroller does not answer.",
    ),
    # --- DRM rings and resets
    Message(
        "ring_timeout", RESET,
        r"^ring (?<ring>\S+) timeout, (?:signaled seq=(?<signaled>\d+), emitted seq=(?<emitted>\d+)|"
        r"but (?<soft>soft recovered))",
        _ALL, "A job of a DRM ring did not end in time. Queues of ROCm programs are not among these rings.",
    ),
    Message(
        "process_information", RESET,
        r"^\s?(?:Process information: process|Process|for process|in process) (?<task>.*?) pid (?<pid>\d+) "
        r"thread (?<thread>.*?) pid (?<tid>\d+)\)?$",
        _ALL, "It names the process of the line before.",
    ),
    Message(
        "ring_reset", RESET, 
        r"^(?:Starting (?<ring>\S+) ring reset|Ring (?<ring_>\S+) reset (?<outcome>succeeded|failed))",
        "later than 6.12", "The driver reset one DRM ring.",
    ),
    Message(
        "gpu_reset_begin", RESET, r"^GPU reset begin!\.?(?:\s+Source:\s+(?<reset_source>\d+))?", _ALL,
        "A reset of the whole GPU begins: all its processes lose their queues.",
    ),
    Message(
        "gpu_reset_end", RESET,
        r"^GPU reset(?:\((?<number>\d+)\) (?<outcome>succeeded!?|failed)| succeeded, trying to resume| "
        r"end with ret = (?<ret>-?\d+))|^GPU Recovery Failed: (?<ret_>-?\d+)",
        _ALL, "The reset of the whole GPU ended.",
    ),
    Message("vram_lost", RESET, r"^VRAM is lost due to GPU reset!", _ALL, "What was in VRAM is gone."),
    Message(
        "reset_step", RESET,
        r"^(?:Dumping IP State(?: Completed)?|MODE[12] reset|GPU mode[12] reset|"
        r"AMDGPU device coredump file has been created|device wedged, but recovered through reset)",
        _ALL, "A step of a reset.",
    ),
    # --- evictions
    Message(
        "evict_process_failed", _EVICTION,
        r"^Failed to (?<what>evict|restore) (?:process queues|queues(?: of (?:pasid (?<pasid>0x[0-9a-f]+)|"
        r"process pid (?<pid>\d+)))?)$",
        _ALL, "The queues of a process could not be taken from the GPU or put back.",
    ),
    Message(
        "suspend_process_failed", _EVICTION,
        r"^(?:Failed to suspend process (?:(?<pasid>0x[0-9a-f]+)|pid (?<pid>\d+))|"
        r"Restore process (?<pasid_>\d+) failed during resume)",
        _ALL, "The queues of a process could not be suspended or resumed.",
    ),
    Message(
        "quiesce_failed", _EVICTION, r"^(?:Failed to quiesce KFD|(?:\w+: )?Failed to resume KFD)", _ALL,
        "A change of a program's memory needed its queues off the GPU, and that failed.",
    ),
    Message(
        "queue_buffer_freed", _EVICTION,
        r"^Freeing queue vital buffer (?<address>0x[0-9a-f]+), queue evicted", "6.12",
        "A program freed the ring or save area of a live queue; usual and harmless while it ends.",
    ),
    Message(
        "eviction", _EVICTION,
        r"^(?<what>Started|Finished) (?<kind>evicting|restoring) (?:process )?(?:pasid (?<pasid>0x[0-9a-f]+)|"
        r"pid (?<pid>\d+))",
        f"{_ALL} (debug level), DKMS of ROCm 4", "Queues of a process leave the GPU or come back.",
    ),
    Message(
        "waves_reset", _EVICTION, r"^Resetting wave fronts \((?<kind>no)?cpsch\)", _ALL,
        "A process died with queues that did not drain; their waves were killed.",
    ),
    # --- faults
    Message(
        "page_fault", FAULT,
        r"^\[(?<hub>\w+)\] (?:(?<retry>retry|no-retry) )?page fault \(src_id:(?<src_id>\d+) ring:(?<ring_number>\d+) "
        r"vmid:(?<vmid>\d+) pasid:(?<pasid>\d+)"
        r"(?:, for process (?<task>.*?) pid (?<pid>\d+) thread (?<thread>.*?) pid (?<tid>\d+))?\)",
        _ALL, "A kernel or the packet processor used an address without a mapping.",
    ),
    Message(
        "fault_address", FAULT,
        r"^\s*in page starting at address (?<address>0x[0-9a-f]+) from (?:IH client (?<client>0x[0-9a-f]+) "
        r"\((?<client_name>[^)]*)\)|client (?<client_number>\S+))",
        _ALL, "The address of the page fault before.",
    ),
    Message(
        "fault_die", FAULT, r"^\s*cookie node_id (?<node_id>\d+) fault from die (?<die>\S+)", "6.12, 7.3 (MI300)",
        "The die of the page fault before.",
    ),
    Message(
        "fault_status", FAULT,
        r"^(?:GC)?VM_L2_PROTECTION_FAULT_STATUS(?:_LO32)?:0x(?<status>[0-9A-Fa-f]+)", _ALL,
        "The status register of the page fault before.",
    ),
    Message(
        "fault_detail", FAULT,
        r"^\s*(?:Faulty UTCL2 client ID: (?<client_name>\S+)(?: \((?<client>0x[0-9a-f]+)\))?|"
        r"(?<field>MORE_FAULTS|WALKER_ERROR|PERMISSION_FAULTS|MAPPING_ERROR|RW): (?<value>0x[0-9a-f]+))",
        _ALL, "A field of the status of the page fault before.",
    ),
    Message(
        "shader_error", FAULT,
        r"^sq_intr: error, (?:se (?<se>\d+), data 0x(?<data>[0-9a-f]+)|"
        r"detail 0x(?<detail>[0-9a-f]+), type (?<type>\d+))"
        r", sh (?<sh>\d+), priv (?<priv>\d+), wave_id (?<wave>\d+), simd_id (?<simd>\d+), (?:cu_id|wgp_id) (?<cu>\d+)"
        r"(?:, err_type (?<err_type>\d+))?",
        _ALL, "A wave met an illegal instruction, a memory violation or an uncorrectable error.",
    ),
    Message(
        "signal_sent", FAULT,
        r"^(?:Sending (?<what>SIG\w+) to process (?<pid>\d+)(?: \(pasid (?<pasid>0x[0-9a-f]+)\))?|"
        r"Send (?<what_>SIGBUS) to process (?<task>.*)\(pasid:(?<pasid_number>\d+)\)|"
        r"[Pp]rocess (?:pid )?(?<pid_>\d+)(?: \(pasid (?<pasid_>0x[0-9a-f]+)\))? got unhandled exception)",
        _ALL, "The driver told a process about an error of its GPU work.",
    ),
    # --- memory and interrupts
    Message(
        "doorbells_failed", MEMORY, r"^Failed to allocate process doorbells", "6.1, 6.12",
        "The doorbell BAR or memory is exhausted: opening /dev/kfd or the first queue fails.",
    ),
    Message(
        "interrupts_lost", HARDWARE,
        r"^(?:KFD node (?<kfd_node>\d+) ih_fifo overflow|IH ring buffer overflow)", _ALL,
        "Interrupts were lost: a thread that sleeps until a signal may never wake.",
        "HSA_ENABLE_INTERRUPT=0 makes ROCr poll.",
    ),
    Message(
        "fence_fallback", HARDWARE, r"^Fence fallback timer expired on ring (?<ring>\S+)", _ALL,
        "An interrupt of a DRM ring was lost.",
    ),
    Message(
        "hardware_error", HARDWARE,
        r"^(?:\{(?<event_id>\d+)\})?(?:socket: (?<socket>\d+), die: (?<die>\d+),? (?<count>\d+) new uncorrectable "
        r"hardware errors detected in (?<block>\w+) block|"
        r"uncorrectable hardware error\((?<what>\w+)\) detected!|"
        r"\[Hardware Error\]: aca entry\[\d+\]\.STATUS=(?<status_text>0x[0-9a-f]+)|"
        r"GPU reset for (?<block_>\w+) RAS poison consumption is issued!)",
        _ALL, "The GPU found an uncorrectable error of its own memory or logic (RAS).",
    ),
    # --- the debugger's interface
    Message(
        "debug_refused", _HOST,
        r"^PID (?<pid>\d+) (?:is not PTRACED and cannot be debugged|not debug enabled for op (?<op>\d+))", _ALL,
        "A request of a debugger was refused.",
    ),
    # --- the host
    Message(
        "task_blocked", _HOST,
        r"^INFO: task (?<task>.*):(?<tid>\d+) blocked (?:in I/O wait )?for more than (?<seconds>\d+) seconds"
        r"(?: in I/O wait)?\.",
        _ALL, "A thread has been in uninterruptible sleep in the kernel.",
    ),
    Message(
        "task_owner", _HOST,
        r"^INFO: task (?<task>.*):(?<tid>\d+) is blocked on an? (?<lock>[\w-]+),? likely owned by task "
        r"(?<owner>.*):(?<owner_tid>\d+)\.",
        "7.3", "The kernel names the thread that holds the lock.",
    ),
)  # fmt: skip
# Every other line of amdgpu or amdkfd.
DRIVER_MESSAGE = "driver_message"
