"""Footers of Parquet files, read so that no damaged one ends the process."""
