"""What a read needs: live files, data skipping, splits, time travel, positions of streams."""
