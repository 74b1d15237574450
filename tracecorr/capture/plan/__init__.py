"""What a capture would record: what the machine offers, and what of it is armed."""
