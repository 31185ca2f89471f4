"""Repositories of what a catalog holds: databases, tables, views, functions, branches, tags, snapshots, drops."""
