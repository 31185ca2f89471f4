"""Texts that any answer can hold."""

from __future__ import annotations


def writable(text: str) -> str:
    """A text that may quote half a surrogate pair, which JSON lets through and no answer can hold, with an escape in its place."""
    return text.encode(errors="backslashreplace").decode()
