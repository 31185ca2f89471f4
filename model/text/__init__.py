"""Text: names as people write them, numbers, patterns, SQL literals."""
