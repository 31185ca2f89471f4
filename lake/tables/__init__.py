"""Handles on tables, and databases, branches, tags, views, partitions and drops."""
