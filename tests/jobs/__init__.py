"""Jobs, of `tests`."""
