"""Commands beside `serve`: backup, restore, check, doctor."""
