"""The phases of every commit, whoever built it: prepared → decided → published (`architecture.md`, Decided means on disk).

Until Postgres decides, a commit fails and nothing has happened. From then on nothing makes it fail: what goes wrong while its
snapshot file is written is made up for at the next look at the table, or when a server starts.
"""

from __future__ import annotations

import contextlib
import logging
import sys
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from uuid import UUID, uuid4

from catalog import CatalogStore
from lake.commit.publish import Hook, Publisher, no_hook
from lake.commit.turns import ServerTurns
from model.commit_phase import CommitPhase, CommitProgress
from model.errors import OutcomeUnknown, TableNotExist, Unavailable
from model.identifier import Identifier
from model.snapshot import Snapshot
from model.work.deciding import Decider
from table.format.io.directory import Directory
from table.format.store import TableFiles
from table.format.table_directory import missing

_log = logging.getLogger(__name__)
_OUTCOME_SECONDS = 20.0
"""How long to look for the outcome of a commit whose answer was lost."""
_ASK_AGAIN_SECONDS = 0.2


Committed = tuple[Identifier, UUID, TableFiles]
"""A table that is committed to: its name, its id, its files."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """One table's snapshot whose files are written, and the directory its own file is to lie in.

    No file of the snapshot's name lay there just before (`Publisher.check_free`).
    """

    identifier: Identifier
    table_id: UUID
    files: TableFiles
    snapshot: Snapshot
    place: Directory
    others_first: bool = False
    """Whether more is decided with it whose files come first: the version of the schema by which it is read, or snapshots before it."""


class CommitCore:
    """Takes prepared snapshots through their decision to their publication."""

    def __init__(self, catalog: CatalogStore, publisher: Publisher, hook: Hook = no_hook) -> None:
        self.catalog = catalog
        self.publisher = publisher
        self.turns = ServerTurns(catalog)
        self.writer = f"server {uuid4()}"
        """This process, where turns are asked for."""
        self._hook = hook

    @contextlib.contextmanager
    def places(self, tables: Sequence[Committed], *, make: bool = True) -> Iterator[list[Directory]]:
        """The tables' directories of snapshots, held since before the decision; letting go of one fails no commit.

        Raises `WarehouseMismatch`, and where the directory of a table is not there `TableNotExist` or `Unavailable`; with ``make`` off
        `FileNotFoundError`.
        """
        self.publisher.require_own()
        places = contextlib.ExitStack()
        try:
            yield [places.enter_context(self._place(table, make=make)) for table in tables]
        except BaseException:
            if not places.__exit__(*sys.exc_info()):
                raise
        else:
            with contextlib.suppress(Exception):
                places.close()

    @contextlib.contextmanager
    def _place(self, table: Committed, *, make: bool) -> Iterator[Directory]:
        name, table_id, files = table
        with contextlib.ExitStack() as opened:
            try:
                place = opened.enter_context(files.snapshots(make=make))
            except FileNotFoundError as gone:
                if not make:
                    raise
                with self.catalog.reading() as tx:
                    if not tx.tables.lies_at(table_id, files.location):
                        raise TableNotExist(str(name)) from gone
                raise missing(files.location, files.name) from gone
            yield place

    def commit(
        self,
        prepared: Sequence[Prepared],
        decide: Callable[[], bool],
        *,
        progress: Sequence[CommitProgress] = (),
        sync: Collection[str] = (),
        on_decided: Callable[[], None] = lambda: None,
    ) -> bool:
        """Decide the snapshots in one transaction and publish them; False where the race was lost.

        ``sync`` are the files and ``progress`` the commits the snapshots are made of; ``on_decided`` is called once they are decided.
        ``decide`` says whether Postgres took them; what it raises, but for `OutcomeUnknown`, means that nothing was decided.
        """
        self._hook("built")
        if sync:
            self.sync([(table.identifier, table.table_id, table.files) for table in prepared], sync)
        self._hook("synced")
        with deciding(progress):
            decided = self._decided(prepared[0], decide, progress)
            if not decided:
                _set(progress, CommitPhase.PREPARED)
        if decided:
            self._hook("decided")
            self._publish(prepared, on_decided)
        return decided

    def sync(self, tables: Sequence[Committed], paths: Collection[str]) -> None:
        """Make files of tables survive a loss of power; raises `TableNotExist` where a table was dropped meanwhile."""
        try:
            tables[0][2].io.sync(paths)
        except FileNotFoundError as gone:
            with self.catalog.reading() as tx:
                for name, table_id, files in tables:
                    row = tx.tables.by_id(table_id)
                    if row is None or row.location != files.location:
                        raise TableNotExist(str(name)) from gone
            raise Unavailable(f"{gone.filename} was removed before it could be committed. Nothing was committed; repeat it.") from gone

    def _decided(self, first: Prepared, decide: Callable[[], bool], progress: Sequence[CommitProgress]) -> bool:
        try:
            return decide()
        except OutcomeUnknown as lost:
            if self._find_outcome(first, lost):
                return True
            for table in progress:
                table.in_doubt = True
            return False

    def _find_outcome(self, first: Prepared, lost: OutcomeUnknown) -> bool:
        """Whether a commit whose answer was lost was decided, once Postgres answers and nobody decides any more that began before."""
        deadline = time.monotonic() + _OUTCOME_SECONDS
        snapshot = first.snapshot
        while True:
            try:
                with self.catalog.transaction(brief=True) as tx:
                    tx.snapshots.wait_for_deciders(first.table_id)
                    return tx.snapshots.by_uuid(first.table_id, snapshot.key, first.identifier.branch) is not None
            except (Unavailable, OutcomeUnknown):
                if time.monotonic() > deadline:
                    raise OutcomeUnknown(
                        f"The catalog database went away while snapshot {snapshot.id} of {first.identifier} was being committed; it may "
                        "or may not be there. Look at the table once the database is back; a repeat by a client of the Paimon REST "
                        "catalog, or under the same Idempotency-Key, is recognized."
                    ) from lost
                time.sleep(_ASK_AGAIN_SECONDS)

    def landed(self, wanted: Sequence[Committed], keys: Sequence[str], progress: Sequence[CommitProgress]) -> list[Snapshot]:
        """The snapshots of these keys, published, where an earlier attempt decided them after all; else nothing."""
        with self.catalog.reading() as tx:
            rows = [tx.snapshots.by_uuid(table_id, key, name.branch) for (name, table_id, _), key in zip(wanted, keys, strict=True)]
        landed = [row for row in rows if row is not None]
        if len(landed) < len(rows):
            return []
        _set(progress, CommitPhase.DECIDED)
        for (name, table_id, files), row in zip(wanted, landed, strict=True):
            self.publisher.ready(table_id, files, name.branch, row)
        return [Snapshot.from_json(row.body) for row in landed]

    def _publish(self, prepared: Sequence[Prepared], on_decided: Callable[[], None]) -> None:
        """Put the decided snapshots' files there; nothing that fails here is a failure of the commit."""
        try:
            on_decided()
        except Exception:
            _log.exception("A listener failed after a commit to %s", prepared[0].identifier)
        for table in prepared:
            try:
                if table.others_first:
                    self.publisher.catch_up(table.table_id, table.files, table.identifier.branch)
                else:
                    self.publisher.publish_next(table.table_id, table.files, table.identifier.branch, table.snapshot, table.place)
            except FileNotFoundError:  # dropped meanwhile
                pass
            except Exception as problem:  # a bug, too: the commit stands, and is not to be repeated
                self.publisher.put_off(
                    table.table_id, table.identifier.branch, table.files.layout.snapshot_file(table.snapshot.id), problem
                )


@contextlib.contextmanager
def deciding(progress: Sequence[CommitProgress]) -> Iterator[None]:
    """The block in which Postgres decides: at its end it has, unless the block itself says that it has not.

    An error says so too, but for `OutcomeUnknown` and what ends the thread. Raises, and nothing is decided, where one of those whose
    commits they are was told to stop; but for commits in doubt, whose decision was begun before.
    """
    begun: list[Decider] = []
    try:
        for decider in {id(table.decider): table.decider for table in progress if not table.in_doubt}.values():
            decider.begin_decision()
            begun.append(decider)
        _set(progress, CommitPhase.DECIDING)
        try:
            yield
        except OutcomeUnknown:
            raise
        except Exception:
            _set(progress, CommitPhase.PREPARED)
            raise
        for table in progress:
            if table.phase is CommitPhase.DECIDING:
                table.phase = CommitPhase.DECIDED
    finally:
        if all(table.undecided for table in progress):
            for decider in begun:
                decider.end_decision()


def _set(progress: Sequence[CommitProgress], phase: CommitPhase) -> None:
    for table in progress:
        table.phase = phase
