"""The HIP logs of a workload: followed, closed, and brought into the capture folder."""
