"""Following a table snapshot by snapshot, once for all who read it."""
