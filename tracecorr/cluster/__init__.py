"""Correlate on a Dask cluster: many captures, and byte ranges of long logs, by many processes."""
