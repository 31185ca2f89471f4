"""Data files held against what was written down of them."""
