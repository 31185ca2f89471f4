"""Settings of the server: declared once, read from the environment."""
