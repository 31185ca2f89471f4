"""Compaction, rescaling, erasing, expiry and orphan removal, committed."""
