"""Changes of the same rows by several servers and clients at once: their outcome is that of one after another."""
