"""Partitions by name, and what a commit changes in them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256

_MOST_BYTES = 2_000
"""A name is looked for by an index, whose entries are bounded."""


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
    """``a=1/b=2``, in the order of the table's partition keys: no two partitions of a table have one name.

    A `/` or `%` of a key or value is escaped; a directory escapes more (`table.format.layout`), patterns of clients do not.
    """
    name = "/".join(f"{_escaped(key)}={_escaped(spec[key])}" for key in keys)
    whole = name.encode()
    return name if len(whole) <= _MOST_BYTES else f"{whole[:_MOST_BYTES].decode(errors='ignore')}#{sha256(whole).hexdigest()}"


def _escaped(text: str) -> str:
    return text.replace("%", "%25").replace("/", "%2F")
