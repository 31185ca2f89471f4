"""The pooled Spark: its JVM, leases, settings, errors and tasks."""
