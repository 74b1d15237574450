"""Hold a workload back while a more important one is at work: who is held (`controller`), and how."""
