"""Correlate on a Dask cluster: many captures, and byte ranges of long logs, by many processes."""

from tracecorr.cluster.run import correlate_on_cluster

__all__ = ["correlate_on_cluster"]
