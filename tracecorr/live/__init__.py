"""A running process seen from outside: its queues, signals and threads. Nothing is stopped, written or asked for by
ioctl. The structures are those of ROCr's amd_hsa_queue.h, amd_hsa_signal.h, hsa.h and core/inc/signal.h.
"""
