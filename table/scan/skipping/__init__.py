"""Which files and partitions need not be read."""
