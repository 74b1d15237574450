"""rocprof output: CSV tables of rocprofv3 and rocprof v1, and the JSON trace of rocprof v1."""

from tracecorr.parse.rocprof.reader import looks_like_rocprof, read_rocprof

__all__ = ["looks_like_rocprof", "read_rocprof"]
