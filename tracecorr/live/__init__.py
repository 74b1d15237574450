"""A running process seen from outside: its queues, signals and threads. Nothing is stopped, written or asked for.

No ioctl is issued. What may block (the target's memory lock, files of a hung driver) is read by a child process with a
time limit (`look.py`, `driver.py`). Sources of the structures: ROCr's amd_hsa_queue.h, amd_hsa_signal.h, hsa.h,
core/inc/signal.h.
"""
