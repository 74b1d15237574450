"""Benchmarks: one module per subject, each with `main(arguments)`; `scripts/bench SUBJECT` runs it."""
