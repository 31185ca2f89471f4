"""What a client's commit changes of what stands beside the data files: marks of deleted rows, and indexes of values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from table.format.deletions import INDEX_TYPE
from table.format.store import TableFiles


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexChange:
    """How one index manifest differs from another."""

    deletions: bool = False
    """Whether other rows are marked as deleted, or the same by another file."""
    adds_index: bool = False
    """Whether there is an index that was not there: readers leave rows out by what it says, and nobody compares it with them."""


def index_change(files: TableFiles, before: str | None, after: str | None) -> IndexChange:
    """What the second index manifest says otherwise, line by line; raises what reading them raises."""
    if before == after:
        return IndexChange()
    old, new = (Counter(map(_line, files.index_manifest(name) if name is not None else ())) for name in (before, after))
    added, removed = new - old, old - new
    return IndexChange(
        deletions=any(is_of_deletions for is_of_deletions, _ in (*added, *removed)),
        adds_index=any(not is_of_deletions for is_of_deletions, _ in added),
    )


def _line(record: Mapping[str, object]) -> tuple[bool, object]:
    return record["_INDEX_TYPE"] == INDEX_TYPE, _plain(record)


def _plain(value: object) -> object:
    """A record by what it says: writers of an older version leave out what is null."""
    if isinstance(value, Mapping):
        return tuple(sorted((key, _plain(one)) for key, one in value.items() if one is not None and key != "_VERSION"))
    if isinstance(value, list):
        return tuple(map(_plain, value))
    return value
