"""Spark's scheduler: cores, pools, stages and tasks."""
