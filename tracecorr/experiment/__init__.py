"""Experiments: run workloads in turn and together, without and with capture."""
