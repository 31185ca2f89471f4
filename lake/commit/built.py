"""Single snapshots that a part of the server builds by itself: of a table replaced, or of what is left of one that lost files.

They go the way of all commits (`lake.commit.core`): in their turn, and with one key for all attempts, so that one whose answer was lost
is found again and not made twice. They are built before the turn, which may take long on a slow store; in the turn only where somebody
has committed since.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from uuid import uuid4

from catalog import CatalogTransaction
from catalog.commits.reservations import Place, Turn
from lake.commit.core import CommitCore, Prepared
from lake.commit.turns import TurnsLost
from lake.tables.handle import LakeTable
from model.catalog_errors import TurnLost
from model.commit_phase import CommitProgress
from model.errors import CommitConflict, OutcomeUnknown, TableDiverged, TableNotExist
from model.snapshot import Snapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltCommit:
    """A snapshot whose files are written, and what is decided with it."""

    table: LakeTable
    base: Snapshot | None
    """None where it is the first."""
    snapshot: Snapshot
    sync: Collection[str]
    """Every file that must be on disk before the snapshot is decided."""
    others_first: bool = False
    """See `lake.commit.core.Prepared`."""
    with_it: Callable[[CatalogTransaction], None] = lambda _: None
    """Called in the transaction that decides, before the pointer moves; may raise `CommitConflict`."""
    on_decided: Callable[[], None] = lambda: None
    """Called once it is decided."""


def decide_built(
    core: CommitCore, place: Place, build: Callable[[str], BuiltCommit | None], *, progress: CommitProgress | None = None
) -> BuiltCommit | None:
    """Decide and publish what ``build`` makes, built anew where a race was lost; None where it makes nothing.

    It is given the snapshot's key. What one call found out is to make the next one quick: in the turn nobody else decides meanwhile, for
    `lake.commit.turns.BUILT_SECONDS` at most; then others go on, and all begins anew. ``progress`` tells the owner of files that are in it
    how far it came.
    Raises what it raises, `TableNotExist` where the table was dropped or moved, `TableDiverged`, `StorageFull`, `Unavailable`, also where
    its turns are always over before it is built, or `OutcomeUnknown` where Postgres stays away after a lost answer; nothing once the
    snapshot is decided.
    """
    key, progress = str(uuid4()), progress or CommitProgress()
    turns_lost = TurnsLost()
    sent: BuiltCommit | None = None
    """The last one of which Postgres was asked."""
    try:
        while True:
            built = build(key)
            try:
                with core.turns.taken([place]) as turn:
                    if built is not None and turn is not None and not _is_latest(built.base, turn, place):
                        built = _built_in(turn, build, key)
                    if built is None:
                        return sent if sent is not None and _landed(core, sent, progress) else None
                    at = built.table
                    core.publisher.check_free(at.table_id, at.files, at.identifier, built.snapshot.id, _key(built.base))
                    sent = built
                    if _decided(core, built, turn, progress):
                        return built
            except CommitConflict as conflict:
                assert built is not None
                turns_lost.add(conflict, built.table.identifier, built.table.location)
            core.publisher.doubt(*place)
            core.turns.met(place)
            if sent is not None and _landed(core, sent, progress):
                return sent
    except OutcomeUnknown:
        raise
    except Exception as problem:
        if not progress.in_doubt or sent is None:
            raise
        raise OutcomeUnknown(
            f"The answer to a commit to {sent.table.identifier} was lost, and repeating it failed: {problem} It may or may not be there. "
            "Look at the table."
        ) from problem


def _built_in(turn: Turn, build: Callable[[str], BuiltCommit | None], key: str) -> BuiltCommit | None:
    """What is built anew in the turn; raises `TurnLost` where that was over before, and not what is found of those who went on."""
    built = build(key)
    turn.require_held()
    return built


def _is_latest(base: Snapshot | None, turn: Turn, place: Place) -> bool:
    latest = turn.latest.get(place)
    return (None if latest is None else latest.snapshot_uuid) == _key(base)


def _key(base: Snapshot | None) -> str | None:
    return None if base is None else base.key


def _decided(core: CommitCore, built: BuiltCommit, turn: Turn | None, progress: CommitProgress) -> bool:
    table, snapshot = built.table, built.snapshot

    def decide() -> bool:
        try:
            with core.catalog.transaction(turn=turn, brief=True) as tx:
                row = tx.tables.find_for_commit(table.identifier)
                if row is None or row.table_id != table.table_id or row.location != table.location:
                    raise TableNotExist(str(table.identifier))
                if row.diverged_at:
                    raise TableDiverged(table.identifier, path=row.diverged_at)
                built.with_it(tx)
                tx.snapshots.advance(
                    table.table_id,
                    table.identifier.branch,
                    base=_key(built.base),
                    snapshot_id=snapshot.id,
                    uuid=snapshot.key,
                    body=snapshot.to_json(),
                    writer=core.writer,
                    turn=turn is not None,
                )
        except TurnLost:
            raise
        except CommitConflict:
            return False
        return True

    with core.places([(table.identifier, table.table_id, table.files)]) as (directory,):
        prepared = Prepared(
            identifier=table.identifier,
            table_id=table.table_id,
            files=table.files,
            snapshot=snapshot,
            place=directory,
            others_first=built.others_first,
        )
        return core.commit([prepared], decide, progress=[progress], sync=built.sync, on_decided=built.on_decided)


def _landed(core: CommitCore, sent: BuiltCommit, progress: CommitProgress) -> bool:
    """Whether an attempt whose answer was lost was decided after all."""
    table = sent.table
    wanted = [(table.identifier, table.table_id, table.files)]
    return progress.in_doubt and bool(core.landed(wanted, [sent.snapshot.key], [progress]))
