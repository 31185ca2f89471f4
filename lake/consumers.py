"""Consumers: how far each reader of a stream has come.

Engines read and write the files without asking, so the files are the truth; the row in Postgres says which of our streams may
write one, and what it was about to write when a crash came.
"""

from __future__ import annotations

import json
from uuid import UUID, uuid4

from catalog import CatalogStore
from lake.names import check_name
from lake.table import LakeTable
from model.errors import ConsumerTaken, InvalidData


def consumers(table: LakeTable) -> dict[str, int]:
    """Each consumer's next snapshot, by name; a file that cannot be read is no consumer."""
    found = {}
    for status in table.files.io.list(table.files.layout.consumer_dir()):
        name = status.path.rpartition("/")[2]
        if not name.startswith("consumer-"):
            continue
        next_snapshot = _read(table, name.removeprefix("consumer-"))
        if next_snapshot is not None:
            found[name.removeprefix("consumer-")] = next_snapshot
    return dict(sorted(found.items()))


def reset_consumer(catalog: CatalogStore, table: LakeTable, name: str, next_snapshot: int | None) -> None:
    """Let a consumer go on from a snapshot; None forgets it. A stream that reads under this name here ends."""
    check_name(name, "consumer")
    if next_snapshot is not None and next_snapshot < 0:
        raise InvalidData(f"Consumer {name} cannot go on from snapshot {next_snapshot}: ids are not negative.")
    with catalog.reading() as tx:
        tx.consumers.reset(table.table_id, table.identifier.branch, name, next_snapshot)
    if next_snapshot is None:
        table.files.io.delete(table.files.layout.consumer_file(name))
    else:
        _write(table, name, next_snapshot)


class ConsumerProgress:
    """The hand one stream has on its consumer; a newer stream of the same name takes it away."""

    def __init__(self, catalog: CatalogStore, name: str, owner: UUID) -> None:
        self.name = name
        self._catalog = catalog
        self._owner = owner

    @classmethod
    def take(cls, catalog: CatalogStore, table: LakeTable, name: str) -> tuple[ConsumerProgress, int | None]:
        """Take a consumer over; returns the snapshot it reads next, None for one that has no progress."""
        check_name(name, "consumer")
        owner = uuid4()
        with catalog.reading() as tx:
            row = tx.consumers.take(table.table_id, table.identifier.branch, name, owner=owner)
        filed = _read(table, name)
        # The file lags behind the row only where a crash came between the two; any other value was put there by somebody else.
        return cls(catalog, name, owner), row.next_snapshot if filed == row.written else filed

    def tell(self, table: LakeTable, next_snapshot: int) -> None:
        """Note that everything before a snapshot has been read; raises `ConsumerTaken` where another stream goes on in its place."""
        branch = table.identifier.branch
        with self._catalog.reading() as tx:
            if not tx.consumers.advance(table.table_id, branch, self.name, owner=self._owner, next_snapshot=next_snapshot):
                raise ConsumerTaken(self.name, str(table.identifier))
        _write(table, self.name, next_snapshot)
        with self._catalog.reading() as tx:
            tx.consumers.written(table.table_id, branch, self.name, owner=self._owner, next_snapshot=next_snapshot)


def _read(table: LakeTable, name: str) -> int | None:
    try:
        return int(json.loads(table.files.io.read(table.files.layout.consumer_file(name)))["nextSnapshot"])
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return None


def _write(table: LakeTable, name: str, next_snapshot: int) -> None:
    table.files.io.write(table.files.layout.consumer_file(name), json.dumps({"nextSnapshot": next_snapshot}).encode())
