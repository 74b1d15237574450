"""Capture: the only code that changes the machine: plan, arm, run, collect, leave no trace."""
