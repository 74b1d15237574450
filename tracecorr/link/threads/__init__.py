"""Threads and processes: who is who in log and trace, though numbers and addresses are given out again."""
