"""Read kernel traces: text, ring buffer pages, `trace.dat` files of trace-cmd, perf's records of probes."""

from tracecorr.parse.ftrace.dat_format import looks_like_trace_dat
from tracecorr.parse.ftrace.formats import PageTrace
from tracecorr.parse.ftrace.lines import looks_like_ftrace_text
from tracecorr.parse.ftrace.pages import read_ftrace_pages
from tracecorr.parse.ftrace.perf_records import read_perf_records
from tracecorr.parse.ftrace.prints import read_prints
from tracecorr.parse.ftrace.text import read_ftrace_text
from tracecorr.parse.ftrace.trace_dat import read_trace_dat

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
