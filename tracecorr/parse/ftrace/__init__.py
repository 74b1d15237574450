"""Read kernel traces: text (`read_ftrace_text`), ring buffer pages (`read_ftrace_pages`), perf's records of probes."""

from tracecorr.parse.ftrace.formats import PageTrace
from tracecorr.parse.ftrace.lines import looks_like_ftrace_text
from tracecorr.parse.ftrace.pages import read_ftrace_pages
from tracecorr.parse.ftrace.perf_records import read_perf_records
from tracecorr.parse.ftrace.text import read_ftrace_text

__all__ = ["PageTrace", "looks_like_ftrace_text", "read_ftrace_pages", "read_ftrace_text", "read_perf_records"]
