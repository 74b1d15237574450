"""Leaf of the house: schema, errors, vocabularies. Imports nothing of tracecorr."""
