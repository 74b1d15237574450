"""Packets and copies: their indexes, commands, doorbells and signals, put together in `launches`."""
