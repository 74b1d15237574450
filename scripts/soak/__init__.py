"""What must hold many times out of many: each module is run by a command of its own, CI runs a few rounds of each."""
