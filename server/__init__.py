"""The wire: Flask in front of the gateway, its settings, and the process that serves it."""
