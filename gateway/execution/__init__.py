"""Statements that wait and run: lanes, queues, threads, cancels."""
