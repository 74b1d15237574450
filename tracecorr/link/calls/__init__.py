"""Calls: what HIP calls, system calls and functions of the driver enclose, and which device they went to."""
