"""Work that outlives a statement."""
