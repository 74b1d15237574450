"""Bytes to frames: one package per source, all yielding `model.parts.Block`."""
