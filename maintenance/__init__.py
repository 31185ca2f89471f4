"""Compaction, expiry, tags and statistics by the server: the coordinator, its runners, their records."""
