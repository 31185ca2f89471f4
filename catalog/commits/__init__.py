"""What decides a commit in Postgres: the pointer, its repeats, and whose turn it is."""
