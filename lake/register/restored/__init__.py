"""A catalog that is older than its warehouse, after a restore or on a standby: what was used since, and what differs."""
