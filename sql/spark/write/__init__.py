"""INSERTs, sorting and compaction on Spark."""
