"""Names of the manifest lists that a table's snapshots and tags hold: a client's commit brings new ones, as Paimon's writers do.

An old list names files that were taken away since, and that stay for those who read the past: committed again, their rows would come
back, and go for good once the past expires. Its name is no secret, as the snapshots tell it.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from uuid import UUID

from catalog import CatalogStore
from catalog.objects.snapshots import ListsRow
from model.catalog_errors import InvalidCommit
from model.identifier import Identifier
from model.snapshot import Snapshot
from table.format.cache import ByteCache

_CACHED_BYTES = 32 << 20
_BYTES_A_NAME = 110
_FORGOTTEN_NAMES = 50_000
"""So many names are kept of snapshots that may have expired since; then they are read anew."""


@dataclass(slots=True)
class _Past:
    newest: dict[str, tuple[int, str]] = field(default_factory=dict)
    """The newest snapshot of each branch that was looked at: its id and key."""
    beside: dict[str, list[str]] = field(default_factory=dict)
    """`HeadRow.beside` of each branch that was looked at: another branch, and a tag, may hold what this one never did."""
    tags: str | None = None
    """The part of it that tells of the tags whose lists were read."""
    names: set[bytes] = field(default_factory=set)
    read: int = 0
    """How many names there were when all had been read."""

    def add(self, rows: Iterable[ListsRow]) -> None:
        for branch, snapshot_id, key, *lists in rows:
            self.newest[branch] = max(self.newest.get(branch, (0, "")), (snapshot_id, key))
            self.names.update(_digest(name) for name in lists if name is not None)


class PastLists:
    """Asks Postgres for the names of all once, and then for those of others' commits."""

    def __init__(self, catalog: CatalogStore) -> None:
        self._catalog = catalog
        self._lock = threading.Lock()
        self._pasts: ByteCache[UUID, _Past] = ByteCache(_CACHED_BYTES, lambda past: 500 + _BYTES_A_NAME * len(past.names))

    def require_new(
        self, table: Identifier, table_id: UUID, base: tuple[int, str] | None, beside: Sequence[str], snapshot: Snapshot
    ) -> None:
        """Raise `InvalidCommit` where the delta of a commit is a list that a snapshot or tag holds already.

        ``base`` is the id and key of the snapshot it is built on, ``beside`` what its head tells of other branches and tags. What comes
        to these after that was read has taken no files away yet that lie in the past.
        """
        with self._lock:
            past = self._pasts.get(table_id)
            seen = None if past is None else (past.newest.get(table.branch), past.beside.get(table.branch))
        if past is None or base is None or seen != (base, beside):
            past = self._read(table_id, past, tags=beside[-1])
        with self._lock:
            past.beside[table.branch] = list(beside)
            known = _digest(snapshot.delta_manifest_list) in past.names
        if known:
            raise InvalidCommit(
                f"Snapshot {snapshot.id} of {table} is not taken: its delta is the manifest list {snapshot.delta_manifest_list}, which a "
                "snapshot or tag holds already, and what that adds may have been taken away since. Write a list of its own for it."
            )

    def decided(self, table_id: UUID, branch: str, base: tuple[int, str] | None, snapshot: Snapshot) -> None:
        """Know the lists of a commit that was decided."""
        with self._lock:
            past = self._pasts.get(table_id)
            if past is None or base is None or past.newest.get(branch) != base:
                return  # another's commit came between: the next look finds both
            lists = (snapshot.base_manifest_list, snapshot.delta_manifest_list, snapshot.changelog_manifest_list)
            past.add([(branch, snapshot.id, snapshot.key, *lists)])
            self._pasts.put(table_id, past)

    def _read(self, table_id: UUID, past: _Past | None, *, tags: str) -> _Past:
        """What has come since, or all, where what was looked at is not there any more: rolled back, dropped, expired."""
        with self._lock:
            grown = past is None or len(past.names) > max(2 * past.read, _FORGOTTEN_NAMES)
            newest = {} if past is None or grown else dict(past.newest)
        with self._catalog.reading() as tx:
            rows = tx.snapshots.lists_since(table_id, {branch: snapshot_id for branch, (snapshot_id, _) in newest.items()})
            if past is None or grown or not {(branch, *at) for branch, at in newest.items()} <= {row[:3] for row in rows}:
                rows = tx.snapshots.lists_since(table_id, {}) if newest else rows
                past = _Past(names={_digest(name) for name in tx.tags.lists(table_id)}, tags=tags)
                past.add(rows)
                past.read = len(past.names)
                rows = []
            tagged = tx.tags.lists(table_id) if past.tags != tags else []
        with self._lock:
            past.add(rows)
            past.names.update(map(_digest, tagged))
            past.tags = tags
            self._pasts.put(table_id, past)
        return past


def _digest(name: str) -> bytes:
    return blake2b(name.encode(), digest_size=16).digest()
