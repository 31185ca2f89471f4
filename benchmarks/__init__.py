"""What is meant to be fast, measured beside plain Spark in one run; `make bench` writes docs/benchmarks.md."""
