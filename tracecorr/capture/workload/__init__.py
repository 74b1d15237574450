"""The workload: on the host or in a container, its caller, its processes."""
