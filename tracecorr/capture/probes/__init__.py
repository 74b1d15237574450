"""Probes in the kernel and in libraries."""
