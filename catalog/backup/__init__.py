"""The catalog as an archive, and what is held back while one is made."""
