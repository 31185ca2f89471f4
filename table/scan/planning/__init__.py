"""Which files a scan reads: live entries, by entry and by columns."""
