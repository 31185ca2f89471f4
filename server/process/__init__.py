"""The process: its services, data directory and embedded Postgres."""
