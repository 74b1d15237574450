"""The schema of tables that the kernel side alone fills: jobs of its GPU scheduler, hardware queues, polled values."""

from __future__ import annotations

import polars as pl

from tracecorr.model.columns import CAT, I32, I64, U16, U32, U64, Table, columns_of

DRM_JOBS = Table(
    "drm_jobs",
    "one job of the kernel's gpu_scheduler: queued, run, done",
    columns_of(
        ("job", U32, "row id"),
        ("dev", CAT, "PCI name of the device; null on kernels before 6.17, whose events name none"),
        ("ring", CAT, "ring as printed: `sdma0`, `comp_1.0.0`, `gfx_0.0.0`, ..."),
        ("ring_kind", CAT, "`kcq` (kernel compute queue), `gfx`, `sdma` (`page` rings too), `media`, `other`"),
        ("fence", pl.String, "finished fence: its pointer (old naming) or `context:seqno` (new naming)"),
        ("id", I64, "job id on its entity (old naming)"),
        ("client_id", I64, "drm-client-id (new naming)"),
        ("process", U32, "submitting process: key of `processes`; null where the trace does not tell it"),
        ("thread", U32, "submitting thread: key of `threads`"),
        ("queue_event", I64, "`drm_sched_job` or `drm_sched_job_queue`"),
        ("run_event", I64, "`drm_run_job` or `drm_sched_job_run`"),
        ("done_event", I64, "`drm_sched_process_job` or `drm_sched_job_done`"),
        ("queued_ns", I64, "pushed to its entity", "ns"),
        ("run_ns", I64, "handed to the hardware ring", "ns"),
        ("done_ns", I64, "finished fence signalled", "ns"),
    ),
)

HQD = Table(
    "hqd",
    "one hardware queue slot, MQD or runlist entry of one debugfs dump",
    columns_of(
        ("snapshot", U32, "number of the dump in the capture"),
        ("dump", CAT, "`hqds` (registers), `mqds` (memory descriptors) or `rls` (runlists)"),
        ("read_start_ns", I64, "the read began; null = not recorded", "ns"),
        ("read_end_ns", I64, "the read ended", "ns"),
        ("kfd_node", I32, "KFD node number (hqds, rls)"),
        ("gpu_id", U32, "gpu_id of the KFD, decimal as in sysfs; reports write it in hex, as debugfs does: f7bc"),
        ("xcc", U16, "XCC (`Inst`) of the register bank, or the MQD's place among those of its queue; null for SDMA"),
        ("type", CAT, "`cp`, `hiq`, `diq` or `sdma`"),
        ("pid", I32, "owning process (mqds); null where the dump does not name one"),
        ("mqd", I32, "number of the queue in its process (mqds: newest first) or in its runlist (rls)"),
        ("pipe", U16, "pipe; SDMA: engine"),
        ("slot", U16, "queue slot of the pipe; SDMA: RLC"),
        ("state", CAT, "`active`, `stale` (used before, not mapped), `unused`; mqds: `described`; rls: `listed`"),
        ("active", pl.Boolean, "CP_HQD_ACTIVE; SDMA: RB_ENABLE and its doorbell enabled; null in mqds and rls"),
        (
            "rptr",
            I64,
            "PQ_RPTR or RB_RPTR as the register holds it; PQ_RPTR is kept by XCC 0 alone and in another unit than wptr",
        ),
        ("wptr", I64, "PQ_WPTR or RB_WPTR as the register holds it"),
        ("quantum", U32, "CP_HQD_QUANTUM (bit 0 enabled, bit 4 scale, bits 13:8 duration); null for SDMA"),
        ("pq_base", U64, "ring base address: PQ_BASE or RB_BASE, shifted left by 8"),
        ("ring_bytes", I64, "size of the ring", "bytes"),
        ("doorbell", U32, "doorbell offset", "dwords"),
        ("doorbell_enabled", pl.Boolean, "whether the queue listens to its doorbell"),
        ("pipe_priority", U16, "0 low, 1 medium, 2 high"),
        ("queue_priority", U16, "0 to 15; 0 in all queues where the driver sets that of the pipe alone"),
        ("vmid", U16, "VMID; 0 in an MQD of a queue that the firmware schedules"),
        ("mqd_base", U64, "address of the MQD"),
        ("logical", U32, "number of the logical queue in its dump: slots of all XCCs share it; null = no queue"),
        ("gpu", U16, "key of `gpus`"),
        ("queue", U32, "key of `queues`"),
        ("file", U16, "key of `files`"),
        ("offset", I64, "first byte of the block in its file", "bytes"),
    ),
)

SAMPLES = Table(
    "samples",
    "one polled value",
    columns_of(
        ("ts_ns", I64, "time of the read", "ns"),
        ("gpu", U16, "key of `gpus`"),
        ("process", U32, "key of `processes`"),
        ("name", CAT, "what was polled"),
        ("value", pl.Float64, "its value"),
    ),
)
