"""Clocks: from bracketed samples and causal pairs to a map with bounds."""
