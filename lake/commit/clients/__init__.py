"""Commits that clients built: decoded, judged, compared with what is live."""
