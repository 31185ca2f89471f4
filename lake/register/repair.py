"""CALL sys.repair_table: bring a table written past the catalog and the catalog together again.

Foreign snapshots that go on where ours end are registered, and those of a warehouse that is newer than the catalog. What contradicts
ours is moved to ``_diverged`` inside the table, where nothing is lost, and our own take its place.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from catalog import CatalogStore, CatalogTransaction
from catalog.records import HeadRow, SnapshotRow, TableRow, TagRow
from lake.access.callers import Caller
from lake.access.guard import require_options
from lake.access.rules import require_columns_kept
from lake.commit.ahead import ahead_of, later_schemas
from lake.commit.claims import claimed_in
from lake.commit.decided import follow
from lake.commit.publish import Publisher
from lake.register.changed import ChangedFile, changed_files, changed_tags, missing_files, put_anew, put_aside, put_back
from lake.register.foreign_tables import StoredBranch, check_schemas
from lake.register.looks.repair_plan import Plan, other_line, plan_of
from lake.register.operations import rewrite_operations
from lake.register.own_files import require_own
from lake.register.readable_line import read_snapshot
from lake.register.restored.known_answers import register_answers
from lake.register.unknown_branches import unregistered_branches
from lake.register.whole import is_readable
from lake.tables.consumers import Filed, Lowered, file_lowered, filed_consumers, lower_consumers
from lake.tables.handle import LakeTable
from lake.tables.tag_files import tag_of_file
from model.access import Access, table_resource
from model.damage import MISSING
from model.errors import LakeError, TableNotExist
from model.identifier import MAIN_BRANCH, Identifier, branch_of_file
from model.schema.schema import Schema
from model.snapshot import Snapshot
from table.format.store import TableFiles

_LOOKS = 3
"""So often a dry run looks at a table that is written meanwhile, before it keeps others from it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Repair:
    """What a repair did, or would do."""

    registered: tuple[int, ...]
    """Snapshots of the table's files that are the catalog's now."""
    set_aside: tuple[int, ...]
    """Foreign snapshots that contradict the catalog's."""
    directory: str
    """Where the files set aside lie."""
    back_from: int | None = None
    """The catalog's newest snapshot where nothing of it can be read any more; an older one is the latest now."""
    kept: tuple[tuple[str, int], ...] = ()
    """Tags, with their snapshots, that keep readable what is in the branch's past no more, and the newest of what was set aside."""
    branches: tuple[str, ...] = ()
    """Branches of the table's files that are the catalog's now."""
    schemas: tuple[int, ...] = ()
    """Versions of the schema that are the catalog's now."""
    rewritten: tuple[tuple[int, str], ...] = ()
    """Files of snapshots, schemas and tags written again from the catalog, with the number of each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """The same with what it is done with."""

    plan: Plan
    history: Sequence[SnapshotRow]
    schemas: Sequence[Schema]
    """Later versions that files tell of."""
    taken_over: Schema | None
    tags: Mapping[str, Snapshot]
    """Those that are to be made."""
    missing: Sequence[ChangedFile]
    changed: Sequence[ChangedFile]
    torn_tags: Sequence[ChangedFile]
    branches: Sequence[StoredBranch]
    done: Repair

    @property
    def lost_tags(self) -> list[str]:
        """The names of the torn tags that have no file."""
        return [tag_of_file(one.path) for one in self.torn_tags if one.problem == MISSING]


def repair(catalog: CatalogStore, publisher: Publisher, table: LakeTable, caller: Caller, *, dry_run: bool) -> Repair:
    """Bring the catalog and the files of a table together; commits wait meanwhile, but for a dry run.

    What follows the catalog's newest snapshot without a gap is registered. Where snapshots in between have expired, or nothing can be
    read of the catalog's newest, the newest that can be read becomes the latest, with all before it up to a gap; what else is readable
    is kept by tags. Where the files left the catalog's line before its end, as after a rollback that an old catalog does not know, their
    line becomes the catalog's. Only what contradicts all of it is set aside. With main come the branches that only the files have. Later
    versions of the schema are registered with or without snapshots, and the newest is the table's, as after an ALTER; but for those by
    which only what is set aside was written.
    Raises `TableDamaged`, and changes nothing, where no snapshot can be read or all are another table's or of another schema,
    `Unavailable` where the store does not give a file, `InvalidSchemaChange` where its schema lacks columns that policies and column grants
    name, `InvalidSchema` for a later schema that nobody could give the table here, and `Forbidden` where rows or history go that the
    caller may not take away.

    Tags, and that their lost files are to be written again, are on record before files are written and moved, and these are before the
    decision: a crash in between leaves a table that a second repair finishes.
    """
    if dry_run and (done := _seen_beside_writers(catalog, table, caller)) is not None:
        return done
    if dry_run:
        with catalog.transaction() as tx:
            _locked(tx, table)
            return _looked(tx, table, caller).done
    filed = filed_consumers(catalog, table)
    files, branch = table.files, table.identifier.branch
    while (decided := _decided(catalog, table, caller, filed)) is None:
        pass  # what is set aside is kept by tags now
    state, lowered = decided
    publisher.doubt(table.table_id, branch)
    publisher.try_to_catch_up(table.table_id, files, branch)
    for stored in state.branches:
        publisher.try_to_catch_up(table.table_id, stored.files, stored.branch)
        follow(
            partial(rewrite_operations, stored.files, stored.snapshots),
            f"Operations that Paimon cannot parse are told by {stored.files.name}",
        )
    file_lowered(catalog, table, lowered)
    follow(lambda: _hinted(table), f"The hint of {table.identifier} does not name its newest snapshot")
    return state.done


def _decided(catalog: CatalogStore, table: LakeTable, caller: Caller, filed: Filed) -> tuple[_Found, Lowered] | None:
    """Move what is in the way and decide the rest; None where so far only tags are on record: of what is to be moved, and lost ones.

    They come first, in a transaction of their own: of a file that was moved, a repair that is repeated would know nothing any more.
    """
    files, branch = table.files, table.identifier.branch
    with catalog.transaction() as tx:
        row = _locked(tx, table)
        state = _looked(tx, table, caller)
        on_record = {tag.name: tag.published for tag in tx.tags.all(table.table_id, branch)}
        if not on_record.keys() >= state.tags.keys():
            for name, snapshot in state.tags.items():
                tx.tags.put(table.table_id, name, snapshot.to_json(), branch, created_millis=tx.state.now_millis())
            return None
        if lost := [name for name in state.lost_tags if on_record[name]]:
            for name in lost:  # beside a file that is written again those that are not yet would count as removed by a client
                tx.tags.published(table.table_id, name, branch, published=False)
            return None
        with claimed_in(tx, None):
            for one in state.missing:  # of decisions made long ago: where one cannot be written, nothing else has changed
                put_anew(files.io, one.path, one.data)
            put_back(files, state.plan.back)
            put_aside(files, state.plan.aside, state.changed, state.torn_tags, state.done.directory)
            for name in state.lost_tags:
                tx.tags.published(table.table_id, name, branch)
            _register_schemas(tx, table, state.schemas, state.taken_over)
            for stored in state.branches:
                tx.branches.create(table.table_id, stored.branch, schema_id=stored.schema.id, table=str(table.identifier))
                stored.put(tx, table.table_id)
                register_answers(tx, files.io, stored.files.layout, stored.snapshots)
            _register(tx, table, state.plan, state.history)
            register_answers(tx, files.io, files.layout, state.plan.registered)
            lowered = lower_consumers(tx, table, _lost(state.plan, state.history), filed)
            _clear_mark(tx, table, row.diverged_at)
    return state, lowered


def _locked(tx: CatalogTransaction, table: LakeTable) -> TableRow:
    """Keep others from writing to the table; raises `TableNotExist` where another has its name by now."""
    row = tx.tables.lock(Identifier(table.identifier.database, table.identifier.table))
    if row.table_id != table.table_id or row.location != table.location:
        raise TableNotExist(str(table.identifier))
    tx.allow_silence()  # every snapshot's file is read
    return row


def _seen_beside_writers(catalog: CatalogStore, table: LakeTable, caller: Caller) -> Repair | None:
    """What a repair would do, others writing meanwhile; None where they are too fast for that."""
    for _ in range(_LOOKS):
        before = _moment(catalog, table)
        try:
            with catalog.reading() as tx:
                done = _looked(tx, table, caller).done
        except LakeError:
            if _moment(catalog, table) == before:
                raise
            continue
        if _moment(catalog, table) == before:
            return done
    return None


def _moment(catalog: CatalogStore, table: LakeTable) -> tuple[HeadRow | None, list[str]]:
    """By what it is told that nothing was decided about a table while its files were looked at."""
    with catalog.reading() as tx:
        head = tx.snapshots.head(table.identifier)
        if head is None or head.table_id != table.table_id or head.location != table.location:
            raise TableNotExist(str(table.identifier))
        return head, tx.branches.names(table.table_id)


def _looked(tx: CatalogTransaction, table: LakeTable, caller: Caller) -> _Found:
    """What is to be done; raises what `repair` raises."""
    files, branch = table.files, table.identifier.branch
    history = tx.snapshots.history(table.table_id, branch)
    known = dict(tx.tables.schemas(table.table_id, branch))
    stale = tx.stale.paths(table.table_id)
    later = later_schemas(files, max(known, default=-1))
    schemas = [schema for schema in later if files.layout.below(files.layout.schema_file(schema.id)) not in stale]
    newest_schema = max([*known, *(schema.id for schema in schemas)])
    plan = plan_of(files, history, other_line(tx, table, history, newest_schema), newest_schema=newest_schema)
    require_own(tx, table, plan.registered, history, known, has_later=bool(schemas))
    taken_over = _taken_over(files, schemas, plan)
    _require_schemas(tx, table, caller, schemas, taken_over)
    _require_to_take_away(table, caller, plan, history)
    tags = tx.tags.all(table.table_id, branch)
    kept_history = history if plan.history is None else ()
    missing = missing_files(files, kept_history, known)
    changed = changed_files(files, kept_history, known, plan.aside)
    new_tags = _names_of_tags([*plan.keep, *_readable_in_place(files, plan, history, changed)], tags)
    torn_tags = list(changed_tags(files, [tag for tag in tags if tag.published or tag.name not in new_tags], pending=True))
    branches = list(unregistered_branches(tx, table)) if branch == MAIN_BRANCH else []
    done = Repair(
        registered=tuple(s.id for s in plan.registered), set_aside=tuple(plan.aside),
        directory=files.layout.set_aside_dir(str(time.time_ns() // 1_000_000)), back_from=plan.back_from,
        branches=tuple(stored.branch for stored in branches), schemas=tuple(schema.id for schema in schemas),
        kept=tuple((name, snapshot.id) for name, snapshot in new_tags.items()),
        rewritten=tuple((one.number, one.path) for one in (*missing, *changed, *torn_tags)),
    )  # fmt: skip
    return _Found(
        plan=plan, history=history, schemas=schemas, taken_over=taken_over, tags=new_tags, missing=missing, changed=changed,
        torn_tags=torn_tags, branches=branches, done=done,
    )  # fmt: skip


def _readable_in_place(files: TableFiles, plan: Plan, history: Sequence[SnapshotRow], changed: Sequence[ChangedFile]) -> Iterator[Snapshot]:
    """Snapshots of somebody else that lie in the place of ours, which come back there."""
    known = {snapshot.key for snapshot in plan.keep} | {row.snapshot_uuid for row in history}
    for one in changed:
        stored = None if one.snapshot_id is None else read_snapshot(files, one.snapshot_id)
        if stored is not None and one.snapshot_id not in plan.aside and stored.key not in known and is_readable(files, stored):
            yield stored


def _clear_mark(tx: CatalogTransaction, table: LakeTable, mark: str | None) -> None:
    """Let the table be marked as diverged no more; of another branch the mark stays, or is made where that one's files are ahead, too."""
    others = {MAIN_BRANCH, *tx.branches.names(table.table_id)} - {table.identifier.branch}
    if mark is not None and branch_of_file(mark) in others:
        return
    tx.tables.clear_diverged(table.table_id)
    for branch in sorted(others):
        files = TableFiles(table.files.io, table.location, branch, name=table.files.name)
        path = ahead_of(tx, table.table_id, files, tx.snapshots.latest(table.table_id, branch))
        if path is not None:
            tx.tables.set_diverged(table.table_id, path)
            return


def _hinted(table: LakeTable) -> None:
    newest = table.latest()
    if newest is not None:
        with table.files.snapshots() as place:
            table.files.write_hints(newest.id, place)


def _names_of_tags(keep: Sequence[Snapshot], tags: Sequence[TagRow]) -> dict[str, Snapshot]:
    """A name for the tag of each; where an earlier repair gave it to another snapshot, a longer one."""
    taken = {tag.name: Snapshot.from_json(tag.snapshot).key for tag in tags}
    names: dict[str, Snapshot] = {}
    for snapshot in keep:
        name = f"before-repair-{snapshot.id}"
        if name in names or taken.get(name, snapshot.key) != snapshot.key:
            name += f"-{snapshot.key[:8]}"
        names[name] = snapshot
    return names


def _register(tx: CatalogTransaction, table: LakeTable, plan: Plan, history: Sequence[SnapshotRow]) -> None:
    branch = table.identifier.branch
    if plan.history is None:
        base = history[-1].snapshot_uuid if history else None
        for snapshot in plan.registered:
            body = snapshot.to_json()
            tx.snapshots.advance(table.table_id, branch, base=base, snapshot_id=snapshot.id, uuid=snapshot.key, body=body, found=True)
            base = snapshot.key
        if plan.registered:  # their partitions changed now, whatever their files tell
            tx.snapshots.point(table.table_id, branch, tx.snapshots.get(table.table_id, branch, plan.registered[-1].id))
        return
    tx.snapshots.point(table.table_id, branch, None)
    decided = {row.snapshot_uuid: row.decided_at for row in tx.snapshots.remove(table.table_id, branch, above=0)}
    rows = [
        SnapshotRow(snapshot_id=one.id, snapshot_uuid=one.key, body=one.to_json(), published=False, decided_at=decided.get(one.key))
        for one in plan.history
    ]
    for row in rows:
        tx.snapshots.insert(table.table_id, branch, row)
    tx.snapshots.point(table.table_id, branch, rows[-1])


def _lost(plan: Plan, history: Sequence[SnapshotRow]) -> list[int]:
    """The ids whose snapshots, of the catalog or beyond it, are no more and may be another's next."""
    top = history[-1].snapshot_id if history else 0
    lost = [number for number in plan.aside if number > top]
    if plan.history is not None:
        stay = {snapshot.key for snapshot in plan.history}
        first = plan.history[0].id  # what lies before has expired
        lost += [row.snapshot_id for row in history if row.snapshot_id >= first and row.snapshot_uuid not in stay]
    return lost


def _require_to_take_away(table: LakeTable, caller: Caller, plan: Plan, history: Sequence[SnapshotRow]) -> None:
    """Raise `Forbidden` where the catalog's snapshots go, or files by what is registered, and the caller may not take them away."""
    if caller.may(Access.DELETE, resource := table_resource(table.identifier)):
        return
    stay = {row.snapshot_uuid for row in history} if plan.history is None else {snapshot.key for snapshot in plan.history}
    manifests = (meta for snapshot in plan.registered for meta in table.files.delta_manifests(snapshot))
    if any(row.snapshot_uuid not in stay for row in history) or any(meta.num_deleted_files for meta in manifests):
        caller.require(Access.DELETE, resource)


def _taken_over(files: TableFiles, schemas: Sequence[Schema], plan: Plan) -> Schema | None:
    """Which of the later schemas is the table's now; None where all came with what is set aside."""
    needed = max((snapshot.schema_id for snapshot in plan.registered), default=-1)
    aside = {snapshot.schema_id for number in plan.aside if (snapshot := read_snapshot(files, number)) is not None}
    end = next((schema.id for schema in schemas if schema.id > needed and schema.id in aside), None)
    return next((schema for schema in reversed(schemas) if end is None or schema.id < end), None)


def _require_schemas(
    tx: CatalogTransaction, table: LakeTable, caller: Caller, schemas: Sequence[Schema], taken_over: Schema | None
) -> None:
    """Raise for later schemas that nobody could give the table here, or that the caller could not."""
    present = tx.tables.find(table.identifier)
    if not schemas or present is None:
        return
    check_schemas(table.files, schemas, known=present.schema["options"])
    if taken_over is not None:
        require_columns_kept(tx, table.identifier, table.table_id, present.schema, taken_over)
        require_options(caller, table.identifier, present.schema["options"], taken_over.options)


def _register_schemas(tx: CatalogTransaction, table: LakeTable, schemas: Sequence[Schema], taken_over: Schema | None) -> None:
    branch = table.identifier.branch
    for schema in schemas:
        tx.tables.add_schema(table.table_id, branch, schema.id, schema.to_json())
    if taken_over is not None:
        tx.tables.set_schema(table.table_id, branch, taken_over.id, published=taken_over.id)
