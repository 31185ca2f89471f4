"""The wire: Flask; JSON and HTML."""
