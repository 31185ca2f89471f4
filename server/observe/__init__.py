"""Health, metrics, logs and traces."""
