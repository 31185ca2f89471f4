"""Consumers: how far each reader of a stream has come.

Engines read and write the files without asking, so the files are the truth; the row in Postgres says which of our streams may
write one, and what it was about to write when a crash came. A file is written and removed under a lock of Postgres: what that
decided last is what the file says last.

All take their locks in one order: the table's row, the consumer, its row. Who writes a file shares the table's row with commits; who goes
back in history has it alone, reads the files before, and finds no row of a consumer held by somebody who waits for a store.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from uuid import UUID, uuid4

from catalog import CatalogStore, CatalogTransaction
from catalog.records import ConsumerRow
from lake.commit.claims import Claim, claimed_in
from lake.commit.decided import follow
from lake.register.expired import is_past
from lake.store_places import locked_beside_store
from lake.tables.handle import LakeTable
from model.errors import ConsumerTaken, InvalidData, InvalidName, SnapshotNotExist
from model.names import check_name
from table.format.consumers import delete_consumer, read_consumers, told_at, write_consumer
from table.format.json_document import parse_json
from table.format.store import TableFiles


@dataclass(frozen=True, slots=True, kw_only=True)
class Lowered:
    """Consumers that go on from an earlier snapshot, as those they had read are no more."""

    to: int
    files: Mapping[str, int]
    """What their files said before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Filed:
    """What the files of consumers said when they were read, and the rows of just before."""

    rows: Mapping[str, ConsumerRow]
    files: Mapping[str, int]

    def since(self, rows: Mapping[str, ConsumerRow]) -> dict[str, int]:
        """What the files say by now, as the rows tell: where one has changed, it tells what was written with it."""
        files = {name: following for name, following in self.files.items() if name in rows or name not in self.rows}
        changed = {name: row.written for name, row in rows.items() if row != self.rows.get(name)}
        return files | {name: written for name, written in changed.items() if written is not None}


def filed_consumers(catalog: CatalogStore, table: LakeTable, *, settled: bool = False) -> Filed:
    """Read the files of consumers; before the table is held, as a store may be slow. One that cannot be read is no consumer.

    ``settled``: raises `TableDamaged` for such a one; whoever deletes what consumers have still to read must know of all.
    """
    with catalog.reading() as tx:
        rows = tx.consumers.progress(table.table_id, table.identifier.branch)
    return Filed(rows=rows, files={consumer.name: consumer.next_snapshot for consumer in read_consumers(table.files, settled=settled)})


def consumers(catalog: CatalogStore, table: LakeTable) -> dict[str, int]:
    """Each consumer's next snapshot, by name."""
    filed = filed_consumers(catalog, table)
    return {name: _next(filed.rows.get(name), following) for name, following in sorted(filed.files.items())}


def first_unread(tx: CatalogTransaction, table: LakeTable, filed: Filed) -> int | None:
    """The first snapshot that a consumer has still to read; None without consumers."""
    rows = tx.consumers.progress(table.table_id, table.identifier.branch)
    return min((_next(rows.get(name), following) for name, following in filed.since(rows).items()), default=None)


def _next(row: ConsumerRow | None, filed: int) -> int:
    """Where a consumer goes on, of which a file tells: the file is believed, unless the row was changed since that was written."""
    return filed if row is None or row.next_snapshot is None or row.written != filed else row.next_snapshot


def is_noted(catalog: CatalogStore, table: LakeTable, name: str) -> bool:
    """Whether Postgres has a row of a consumer, whatever the files tell."""
    with catalog.reading() as tx:
        return name in tx.consumers.progress(table.table_id, table.identifier.branch)


def lower_consumers(tx: CatalogTransaction, table: LakeTable, gone: Iterable[int], filed: Filed) -> Lowered:
    """Let the consumers that are beyond the first of the snapshots that are no more go on there, with the decision that ends these.

    Other snapshots get their ids, whose rows nobody has read. The files of the consumers follow by `file_lowered`. The table is held.
    """
    if (first := min(gone, default=None)) is None:
        return Lowered(to=0, files={})
    rows = tx.consumers.progress(table.table_id, table.identifier.branch)
    beyond = {name: following for name, following in filed.since(rows).items() if _next(rows.get(name), following) > first}
    named = {name: following for name, following in beyond.items() if _can_be_named(name)}
    tx.consumers.lower(table.table_id, table.identifier.branch, first, named)
    return Lowered(to=first, files=beyond)


def file_lowered(catalog: CatalogStore, table: LakeTable, lowered: Lowered) -> None:
    """Write the files of consumers that were lowered; where one cannot be written, the catalog knows better than it."""

    def write() -> None:
        for name, before in lowered.files.items():
            _file_lowered(catalog, table, name, before, lowered.to)

    follow(write, f"Files of consumers of {table.identifier} name snapshots that are no more")


def _file_lowered(catalog: CatalogStore, table: LakeTable, name: str, before: int, following: int) -> None:
    """Write one, unless somebody else has written it since, or removed it: that consumer is no more."""
    if not _can_be_named(name):
        if _read(table, name) == before:
            write_consumer(table.files, name, following)
        return
    branch = table.identifier.branch
    with _filing(catalog, table, name) as tx:
        row = tx.consumers.progress(table.table_id, branch).get(name)
        if row == ConsumerRow(next_snapshot=following, written=before) and _read(table, name) == before:
            tx.consumers.filed(table.table_id, branch, name)
            write_consumer(table.files, name, following)


def carry_consumers(tx: CatalogTransaction, table_id: UUID, old: TableFiles, new: TableFiles) -> None:
    """Write the files of a branch's consumers under its new name, where its directory cannot be moved; one that is there says more.

    The table stays.
    """
    for consumer in read_consumers(old):
        if _can_be_named(consumer.name):
            tx.consumers.lock(table_id, new.layout.branch, consumer.name)
        if not new.io.file_exists(new.layout.consumer_file(consumer.name)):
            write_consumer(new, consumer.name, consumer.next_snapshot)


def _can_be_named(name: str) -> bool:
    """Whether Postgres has rows of a name; clients can give others to their files."""
    try:
        check_name(name, "consumer")
    except (InvalidName, UnicodeError):
        return False
    return True


def reset_consumer(
    catalog: CatalogStore,
    table: LakeTable,
    name: str,
    next_snapshot: int | None,
    *,
    after: str | None = None,
    claim: Claim | None = None,
) -> None:
    """Let a consumer go on from a snapshot, once under a claim; None forgets it. A stream that reads under this name here ends.

    ``after``: the key of the snapshot read before it; raises `SnapshotNotExist` where the table was rolled back to before that one.
    """
    check_name(name, "consumer")
    if next_snapshot is not None and next_snapshot < 0:
        raise InvalidData(f"Consumer {name} cannot go on from snapshot {next_snapshot}: ids are not negative.")
    with _filing(catalog, table, name) as tx:
        if after is not None and next_snapshot is not None:
            _require_read(tx, table, name, next_snapshot - 1, after)
        with claimed_in(tx, claim):
            tx.consumers.reset(table.table_id, table.identifier.branch, name, next_snapshot)
        if next_snapshot is None:  # the file last: whoever is refused before it has changed nothing
            delete_consumer(table.files, name)
        else:
            write_consumer(table.files, name, next_snapshot)


def _require_read(tx: CatalogTransaction, table: LakeTable, name: str, snapshot_id: int, key: str) -> None:
    """Raise `SnapshotNotExist` where a snapshot that was read is none of the table's past."""
    if not is_past(tx, table.table_id, table.identifier.branch, snapshot_id, key):
        raise SnapshotNotExist(
            f"Table {table.identifier} was rolled back to before snapshot {snapshot_id}, after which consumer {name} is to go on. "
            "Nothing was changed.",
            resource_name=str(snapshot_id),
        )


def forget_consumer(
    catalog: CatalogStore, table: LakeTable, name: str, *, told_before: int | None = None, claim: Claim | None = None
) -> bool:
    """Forget a consumer, whoever reads under its name; False where it told something at ``told_before`` (in milliseconds) or later."""
    try:
        check_name(name, "consumer")
    except (InvalidName, UnicodeError):  # no stream of ours can have this name, nor Postgres a row of it
        delete_consumer(table.files, name)
        return True
    if claim is not None:  # its repeat finds no file where nobody heard that it was forgotten, and goes by the row that is left
        with _filing(catalog, table, name) as tx:
            tx.consumers.note(table.table_id, table.identifier.branch, name)
    with _filing(catalog, table, name) as tx:
        if told_before is not None and (told_at(table.files, name) or 0) >= told_before:
            return False
        with claimed_in(tx, claim):
            tx.consumers.reset(table.table_id, table.identifier.branch, name, None)
        delete_consumer(table.files, name)
    return True


@contextlib.contextmanager
def _filing(catalog: CatalogStore, table: LakeTable, name: str) -> Iterator[CatalogTransaction]:
    """A transaction that has a consumer's file; raises `Unavailable` where what it waits for stays somebody's."""

    def lock(tx: CatalogTransaction) -> None:
        tx.tables.stay(table.table_id)  # who goes back in history holds its row
        tx.consumers.lock(table.table_id, table.identifier.branch, name)

    with locked_beside_store(catalog, lock, place_seconds=None) as (tx, _):
        yield tx


class ConsumerProgress:
    """The hand one stream has on its consumer; a newer stream of the same name takes it away."""

    def __init__(self, catalog: CatalogStore, name: str, owner: UUID, require_own: Callable[[], None]) -> None:
        self.name = name
        self._require_own = require_own
        self._catalog = catalog
        self._owner = owner

    @classmethod
    def take(
        cls, catalog: CatalogStore, table: LakeTable, name: str, *, require_own: Callable[[], None] = lambda: None
    ) -> tuple[ConsumerProgress, int | None]:
        """Take a consumer over; returns the snapshot it reads next, None for one that has no progress.

        ``require_own`` is asked before anything is written: `Standing.require_own`.
        """
        check_name(name, "consumer")
        require_own()
        owner = uuid4()
        with _filing(catalog, table, name) as tx:
            row = tx.consumers.take(table.table_id, table.identifier.branch, name, owner=owner)
            filed = _read(table, name)
        # They differ where somebody else wrote the file; a server of before may have noted what it then could not write.
        return cls(catalog, name, owner, require_own), row.next_snapshot if filed == row.written else filed

    def check(self, table: LakeTable) -> None:
        """Raise `ConsumerTaken` where another stream goes on in its place."""
        with self._catalog.reading() as tx:
            owner = tx.consumers.owner(table.table_id, table.identifier.branch, self.name)
        if owner != self._owner:
            raise ConsumerTaken(self.name, str(table.identifier))

    def tell(self, table: LakeTable, next_snapshot: int, *, after: str | None = None) -> None:
        """Note that everything before a snapshot has been read; raises `ConsumerTaken` where another stream goes on in its place.

        ``after``: as of `reset_consumer`.
        """
        self._require_own()
        branch = table.identifier.branch
        with _filing(self._catalog, table, self.name) as tx:
            if not tx.consumers.advance(table.table_id, branch, self.name, owner=self._owner, next_snapshot=next_snapshot):
                raise ConsumerTaken(self.name, str(table.identifier))
            if after is not None:  # one that had told nothing was not lowered by a rollback, and would pass over what came after that
                _require_read(tx, table, self.name, next_snapshot - 1, after)
            write_consumer(table.files, self.name, next_snapshot)


def _read(table: LakeTable, name: str) -> int | None:
    try:
        return int(parse_json(table.files.io.read(table.files.layout.consumer_file(name)))["nextSnapshot"])
    except (FileNotFoundError, ValueError, KeyError, TypeError, OverflowError):
        return None
