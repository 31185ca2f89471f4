"""Buckets, statistics, data files and the snapshot that names them."""
