"""rocprof output: CSV, JSON and database of rocprofv3, CSV tables and the JSON trace of rocprof v1."""

from tracecorr.read.rocprof.files import has_counters, is_statistic, looks_like_rocprof, read_rocprof
from tracecorr.read.rocprof.profile import REPEATED, TIMELESS, RepeatedRecords
from tracecorr.read.rocprof.rocpd import check_rocpd, looks_like_sqlite, read_rocpd

__all__ = [
    "REPEATED", "TIMELESS", "RepeatedRecords", "check_rocpd", "has_counters", "is_statistic", "looks_like_rocprof",
    "looks_like_sqlite", "read_rocpd", "read_rocprof",
]  # fmt: skip
