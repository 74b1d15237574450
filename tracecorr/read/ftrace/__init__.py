"""Read kernel traces: text, ring buffer pages, `trace.dat` files of trace-cmd, perf's records of probes."""

from tracecorr.read.ftrace.formats import PageTrace
from tracecorr.read.ftrace.lines import looks_like_ftrace_text
from tracecorr.read.ftrace.pages import read_ftrace_pages
from tracecorr.read.ftrace.perf_records import read_perf_records
from tracecorr.read.ftrace.text import read_ftrace_text, read_prints
from tracecorr.read.ftrace.trace_dat import looks_like_trace_dat, read_trace_dat

__all__ = [
    "PageTrace",
    "looks_like_ftrace_text",
    "looks_like_trace_dat",
    "read_ftrace_pages",
    "read_ftrace_text",
    "read_perf_records",
    "read_prints",
    "read_trace_dat",
]
