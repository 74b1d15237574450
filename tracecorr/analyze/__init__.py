"""Answer questions about a capture: pure functions from frames to frames, one module per question."""
