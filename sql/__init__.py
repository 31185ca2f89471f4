"""The language: text in, rows out. Its front door is `gateway.gateway`, all that the server calls.

Nothing is imported here: Spark's executors load parts of this package and must not need the rest of it.
"""
