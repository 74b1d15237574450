"""Losses: what lines and records lack, stand elsewhere or are those of two calls, and what is still sure there."""
