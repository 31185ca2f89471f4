"""The pages, by a test client and in a real browser."""
