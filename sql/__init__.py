"""The language: text in, rows out. Its callers come through `gateway.gateway`, all that the server calls.

Nothing is imported here: Spark's executors load parts of this package and must not need the rest of it.
"""
