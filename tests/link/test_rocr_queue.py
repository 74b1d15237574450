"""The queue of ROCr, of whose packets the log shows those of its blit kernels alone (SYNTHETIC log as HIP 6.4.3)."""

from __future__ import annotations

from pathlib import Path

import polars as pl
from hip_logs import correlate_messages

_LAUNCH = "\x1b[32m hipLaunchKernel ( 0x66 ) \x1b[0m"
_DISPATCH = (
    "Dispatch Header = 0x1402 (type=2, barrier=0, acquire=2, release=2), setup=1, grid=[64, 1, 1], "
    "workgroup=[64, 1, 1], private_seg_size=0, group_seg_size=0, kernel_obj=0x250000, kernarg_address=0x252000, "
    "completion_signal=0x0"
)


def test_how_much_went_through_it_is_not_known(tmp_path: Path) -> None:
    capture = correlate_messages(
        tmp_path,
        "Created SWq=0x22000 to map on HWq=0x3c00000 with size 16384 with priority 1, cooperative: 0",
        "Created SWq=0x33000 to map on HWq=0x7000000 with size 16384 with priority 1, cooperative: 0",
        _LAUNCH,
        f"[***rocr***] HWq=0x21d000, id=0, {_DISPATCH} rptr=4, wptr=4",
        f"SWq=0x22000, HWq=0x3c00000, id=1, {_DISPATCH}, correlation_id=0, rptr=0, wptr=0",
        "hipLaunchKernel: Returned hipSuccess : ",
    )
    queues = capture.table("queues").select("hwq", "dispatches", "barriers").sort("hwq").collect()
    assert queues.rows() == [(0x21D000, None, None), (0x3C00000, 1, 0), (0x7000000, 0, 0)]
    assert capture.table("launches").select(pl.len()).collect().item() == 1
