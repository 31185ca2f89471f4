"""Spark's driver: the JVM, how it is launched, watched, kept ready, and what its executors need."""
