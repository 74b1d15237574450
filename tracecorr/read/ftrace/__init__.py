"""Read kernel traces: text, ring buffer pages, `trace.dat` files of trace-cmd, perf's records of probes."""
