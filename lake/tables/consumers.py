"""Consumers: how far each reader of a stream has come.

Engines read and write the files without asking, so the files are the truth; the row in Postgres says which of our streams may
write one, and what it was about to write when a crash came. A file is written and removed under a lock of Postgres: what that
decided last is what the file says last.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from uuid import UUID, uuid4

from catalog import CatalogStore, CatalogTransaction
from lake.commit.claims import Claim, claimed_in
from lake.tables.handle import LakeTable
from lake.tables.names import check_name
from model.errors import ConsumerTaken, InvalidData, InvalidName
from table.format.consumers import delete_consumer, read_consumers, write_consumer
from table.format.json_document import parse_json

_FILING = threading.BoundedSemaphore(4)
"""Each who writes a consumer's file holds a connection meanwhile; a store that hangs must leave the others theirs."""


def consumers(table: LakeTable) -> dict[str, int]:
    """Each consumer's next snapshot, by name; a file that cannot be read is no consumer."""
    consumers_by_name = {}
    for status in table.files.io.list(table.files.layout.consumer_dir()):
        name = status.path.rpartition("/")[2]
        if not name.startswith("consumer-"):
            continue
        next_snapshot = _read(table, name.removeprefix("consumer-"))
        if next_snapshot is not None:
            consumers_by_name[name.removeprefix("consumer-")] = next_snapshot
    return dict(sorted(consumers_by_name.items()))


def reset_consumer(catalog: CatalogStore, table: LakeTable, name: str, next_snapshot: int | None, *, claim: Claim | None = None) -> None:
    """Let a consumer go on from a snapshot, once under a claim; None forgets it. A stream that reads under this name here ends."""
    check_name(name, "consumer")
    if next_snapshot is not None and next_snapshot < 0:
        raise InvalidData(f"Consumer {name} cannot go on from snapshot {next_snapshot}: ids are not negative.")
    with _filing(catalog, table, name) as tx:
        with claimed_in(tx, claim):
            tx.consumers.reset(table.table_id, table.identifier.branch, name, next_snapshot)
        if next_snapshot is None:  # the file last: whoever is refused before it has changed nothing
            delete_consumer(table.files, name)
        else:
            write_consumer(table.files, name, next_snapshot)


def forget_consumer(
    catalog: CatalogStore, table: LakeTable, name: str, *, told_before: int | None = None, claim: Claim | None = None
) -> bool:
    """Forget a consumer, whoever reads under its name; False where it told something at ``told_before`` (in milliseconds) or later."""
    try:
        check_name(name, "consumer")
    except (InvalidName, UnicodeError):  # no stream of ours can have this name, nor Postgres a row of it
        delete_consumer(table.files, name)
        return True
    with _filing(catalog, table, name) as tx:
        if told_before is not None and any(
            consumer.name == name and consumer.updated_millis >= told_before for consumer in read_consumers(table.files)
        ):
            return False
        with claimed_in(tx, claim):
            tx.consumers.reset(table.table_id, table.identifier.branch, name, None)
        delete_consumer(table.files, name)
    return True


@contextlib.contextmanager
def _filing(catalog: CatalogStore, table: LakeTable, name: str) -> Iterator[CatalogTransaction]:
    with _FILING, catalog.transaction() as tx:
        tx.consumers.lock(table.table_id, table.identifier.branch, name)
        yield tx


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
        with _filing(catalog, table, name) as tx:
            row = tx.consumers.take(table.table_id, table.identifier.branch, name, owner=owner)
            filed = _read(table, name)
        # They differ where somebody else wrote the file; a server of before may have noted what it then could not write.
        return cls(catalog, name, owner), row.next_snapshot if filed == row.written else filed

    def tell(self, table: LakeTable, next_snapshot: int) -> None:
        """Note that everything before a snapshot has been read; raises `ConsumerTaken` where another stream goes on in its place."""
        branch = table.identifier.branch
        with _filing(self._catalog, table, self.name) as tx:
            if not tx.consumers.advance(table.table_id, branch, self.name, owner=self._owner, next_snapshot=next_snapshot):
                raise ConsumerTaken(self.name, str(table.identifier))
            write_consumer(table.files, self.name, next_snapshot)


def _read(table: LakeTable, name: str) -> int | None:
    try:
        return int(parse_json(table.files.io.read(table.files.layout.consumer_file(name)))["nextSnapshot"])
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return None
