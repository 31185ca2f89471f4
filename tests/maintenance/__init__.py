"""Maintenance, of `tests`."""
