"""Partitions by name, and what a commit changes in them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionStatistics:
    """What a partition holds, or what a commit adds to it (then numbers may be negative)."""

    spec: Mapping[str, str]
    """Empty for a table without partitions."""
    record_count: int
    file_size: int
    file_count: int
    last_file_millis: int
    total_buckets: int


def partition_name(spec: Mapping[str, str], keys: tuple[str, ...]) -> str:
    """``a=1/b=2``, in the order of the table's partition keys; nothing is escaped."""
    return "/".join(f"{key}={spec[key]}" for key in keys)
