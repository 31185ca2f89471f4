"""What Spark's Python processes run: each imports it for itself, so it imports neither the server, its parsers nor its catalog.

Spark takes along a function that is made inside another one, and only the name of one that stands in a module: that module is imported
wherever the function is called. `tests/sql/spark/test_executors.py` holds what may be imported here.
"""
