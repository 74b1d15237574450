"""What an experiment with a high and a low priority workload shows: one module per question."""
