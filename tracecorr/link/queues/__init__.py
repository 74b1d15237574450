"""Queues, streams and GPUs: their lives, rings, creations and ends."""
