"""Where in a text something stands."""

from __future__ import annotations


def place(source: str, fragment: str | None) -> tuple[int | None, int | None]:
    """Line and column (from 1) of the fragment in the user's text, whatever its case; none where it is not there once."""
    if not fragment:
        return None, None
    at = source.find(fragment)
    if at < 0:
        at = source.lower().find(fragment.lower())
    if at < 0:
        return None, None
    before = source[:at]
    return before.count("\n") + 1, at - (before.rfind("\n") + 1) + 1
