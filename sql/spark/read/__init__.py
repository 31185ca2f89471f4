"""Queries and scans on Spark, and their results."""
