"""What snapshots name that earlier ones had: read once, as thousands that are retained are asked at each expiry.

Java's `rollbackToAsLatest` adds the files, the index manifest and the statistics of an earlier snapshot again, and any commit of a client
may add a file again that is still there. Only those are asked that may take files away (`Snapshot.may_take_files`), and the latest for
all it has: what came back by whatever commit is there still, or one of them names it that took it away.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence, Set
from typing import NamedTuple

from model.schema.schema import Schema
from model.snapshot import Snapshot
from model.text.file_name import file_name
from table.format.cache import ByteCache
from table.format.store import TableFiles
from table.retention.named_files import metadata_of, paths_of

_BYTES = 64 << 20
_NAMES: ByteCache[tuple[str, ...], array[int]] = ByteCache(_BYTES, lambda hashes: 400 + 8 * len(hashes))
"""Hashes of names: two of one hash keep a file that could go, and never the other way round."""


class KeptBeside(NamedTuple):
    """Who may need files of a tag that goes: those that keep all they have, and between the earliest and the latest the takers."""

    kept: Sequence[Snapshot]
    takers: Sequence[Snapshot]
    """Those that may take files away (`Snapshot.may_take_files`)."""


def named_again(files: TableFiles, schema: Schema, snapshots: Iterable[Snapshot], names: Set[str]) -> set[str]:
    """Which of some names of files some snapshots have in what they changed, or in their manifests, indexes and statistics.

    What they take away counts, too: somebody who is retained had it until then.
    """
    by_hash = {hash(name) for name in names}
    hashes = {one for snapshot in snapshots for one in _hashes(files, schema, snapshot) if one in by_hash}
    return {name for name in names if hash(name) in hashes} if hashes else set()


def _hashes(files: TableFiles, schema: Schema, snapshot: Snapshot) -> array[int]:
    lists = (snapshot.base_manifest_list, snapshot.delta_manifest_list, snapshot.changelog_manifest_list)
    key = (files.location, *(name or "" for name in (*lists, snapshot.index_manifest, snapshot.statistics)))
    return _NAMES.or_load(key, lambda: array("q", {hash(name) for name in _names(files, schema, snapshot)}))


def _names(files: TableFiles, schema: Schema, snapshot: Snapshot) -> Iterator[str]:
    for entry in files.delta_entries(snapshot):
        yield from map(file_name, paths_of(files, schema, entry))
    yield from (file_name(path) for path, _ in metadata_of(files, snapshot))
