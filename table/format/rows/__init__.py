"""Rows and values: binary rows, Arrow, casts, hashes, statistics."""
