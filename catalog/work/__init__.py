"""Repositories of jobs, streams, maintenance and the servers that do it."""
