"""The statements: each a value made from a tree that knows how to run."""
