"""Tables, of `tests/lake`."""
