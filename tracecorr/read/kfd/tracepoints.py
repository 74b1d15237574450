"""The text of the drivers' tracepoints, as a list of `key=value` fields.

Print formats of include/trace/events/amdgpu, gpu_scheduler, dma_fence (Linux 5.10 to 7.2) and amdkfd (DKMS 2026-01).
"""

from __future__ import annotations

import polars as pl

# Fields that print hexadecimal digits without 0x.
_HEX = {
    "amdgpu_vm_bo_map": ("start", "last", "offset", "flags"),
    "amdgpu_vm_bo_unmap": ("start", "last", "offset", "flags"),
    "amdgpu_vm_bo_update": ("soffs", "eoffs", "flags"),
    "amdgpu_vm_bo_mapping": ("soffs", "eoffs", "flags"),
    "amdgpu_vm_bo_cs": ("soffs", "eoffs", "flags"),
    "amdgpu_vm_set_ptes": ("pe", "addr", "flags"),
    "amdgpu_vm_copy_ptes": ("pe", "src"),
    "amdgpu_vm_flush": ("pd_addr",),
    "amdgpu_vm_grab_id": ("pd_addr",),
}
# These write `key:value`.
_COLONS = ("amdgpu_iv", "amdgpu_vm_update_ptes")


def hex_fields(event: str) -> tuple[str, ...]:
    """Return the fields of a tracepoint whose digits are hexadecimal though no 0x says so."""
    return _HEX.get(event, ())


def plain_body(event: str, body: pl.Expr) -> pl.Expr:
    """Return the bodies of a tracepoint with the words between its fields left out."""
    if event in _COLONS:
        return body.str.replace_all(r"\b([a-z_]\w*):[ \n]?", "$1=")
    if event == "amdgpu_ib_pipe_sync":
        return body.str.replace(r"^job ring=", "ring=").str.replace(r",? need pipe sync to fence=", ", fence=")
    if event.startswith("kfd_"):
        return body.str.replace(r"^Process pid\s*=\s*", "pid=").str.replace_all(r"(\w)\s*=[ \t]*", "$1=")
    plain = body.str.replace(r" signaled\s*$", "").str.replace(r"^job ring=", "ring=")
    plain = plain.str.replace(r" depends on (?:unsignalled )?fence=", ", depends_fence=")
    return plain.str.replace(r"depends fence=", "depends_fence=")
