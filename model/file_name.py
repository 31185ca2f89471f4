"""What messages call a file."""

from __future__ import annotations


def file_name(path: str) -> str:
    """Its last name: the directories above it are the server's, and name partitions that a policy may hide."""
    return path.rstrip("/").rpartition("/")[2] or path
