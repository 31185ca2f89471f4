"""Indexes of single data files: built as files are written, used to leave files out of a scan (`paimon-append.md` §9.1)."""
