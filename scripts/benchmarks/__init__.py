"""Benchmarks: one module per subject, each with `main(arguments)`; `scripts/bench SUBJECT` runs it."""

from tracecorr.threads import begin_polars

# What is measured runs with as many threads as `tracecorr` itself.
begin_polars()
