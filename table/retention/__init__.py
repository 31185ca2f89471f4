"""What a table's snapshots, tags and branches keep: whether it is all there."""
