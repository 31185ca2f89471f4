"""Gateway, of `tests`."""
