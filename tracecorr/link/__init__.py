"""Identities and links: which rows of different sources speak of the same thing."""
