"""Streaming queries on Spark: sources, checkpoints, event time."""
