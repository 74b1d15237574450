"""Doorbell stores through the stand-in of an HSA runtime (`hsa_library`)."""

from __future__ import annotations

import ctypes


def store_doorbells(loaded: ctypes.CDLL, count: int) -> None:
    """Store 0, 1, ... to the doorbell of a queue whose ring is at 0x1000 and whose id is 7 (amd_hsa_signal.h)."""
    queue = (ctypes.c_uint64 * 8)(0, 0x1000, 0, 0, 7)
    signal = (ctypes.c_uint64 * 8)(2**64 - 1, 0x2000, 0, 0, 0, 0, ctypes.addressof(queue))
    for number in range(count):
        loaded.hsa_signal_store_screlease(ctypes.byref(signal), ctypes.c_int64(number))
