"""CALL sys.repair_table: bring a table written past the catalog and the catalog together again.

Foreign snapshots that go on where ours end are registered, and those of a warehouse that is newer than the catalog. What contradicts
ours is moved to ``_diverged`` inside the table, where nothing is lost, and our own take its place.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any

from catalog import CatalogStore, CatalogTransaction
from catalog.records import SnapshotRow, TagRow
from lake.access.callers import Caller
from lake.access.guard import require_options
from lake.access.rules import require_columns_kept
from lake.commit.ahead import is_no_more, later_schemas
from lake.commit.decided import follow
from lake.commit.idempotency import register_answers
from lake.commit.publish import Publisher
from lake.register.changed import ChangedFile, changed_schemas, changed_snapshots, changed_tags
from lake.register.foreign_tables import check_schemas
from lake.register.operations import rewrite_operations
from lake.register.own_files import require_own
from lake.register.readable_line import Line, line_of_files, read_snapshot, readable_line
from lake.register.unknown_branches import unregistered_branches
from lake.register.whole import is_readable, require_readable
from lake.tables.consumers import file_lowered, filed_consumers, lower_consumers
from lake.tables.handle import LakeTable
from model.access import Access, table_resource
from model.errors import LakeError, TableDamaged, TableNotExist
from model.identifier import MAIN_BRANCH, Identifier
from model.schema.schema import Schema
from model.snapshot import Snapshot
from model.text.file_name import file_name
from table.format.io.storage_errors import told_by_the_store
from table.format.manifests.lists import LIST_PREFIX
from table.format.schema_file import schema_bytes
from table.format.snapshot_file import same_snapshot, snapshot_bytes
from table.format.store import TableFiles
from table.scan.planning.live import merge_entries


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
class _Plan:
    """What is to be done."""

    registered: Sequence[Snapshot] = ()
    aside: Sequence[int] = ()
    history: Sequence[Snapshot] | None = None
    """All the catalog shall know of the branch; None where what it knows stays."""
    keep: Sequence[Snapshot] = ()
    """What can be read and would go out of reach: each gets a tag."""
    back_from: int | None = None


def repair(catalog: CatalogStore, publisher: Publisher, table: LakeTable, caller: Caller, *, dry_run: bool) -> Repair:
    """Bring the catalog and the files of a table together; commits wait meanwhile.

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

    Files are written and moved before the decision, so a crash in between leaves a table that a second repair finishes.
    """
    files, branch, filed = table.files, table.identifier.branch, filed_consumers(catalog, table)
    with catalog.transaction() as tx:
        row = tx.tables.lock(Identifier(table.identifier.database, table.identifier.table))
        if row.table_id != table.table_id or row.location != table.location:
            raise TableNotExist(str(table.identifier))
        history = tx.snapshots.history(table.table_id, branch)
        known = dict(tx.tables.schemas(table.table_id, branch))
        stale = tx.stale.paths(table.table_id)
        later = later_schemas(files, max(known, default=-1))
        schemas = [schema for schema in later if files.layout.below(files.layout.schema_file(schema.id)) not in stale]
        newest_schema = max([*known, *(schema.id for schema in schemas)])
        plan = _plan(files, history, _other_line(tx, table, history, newest_schema), newest_schema=newest_schema)
        require_own(tx, table, plan.registered, history, known, has_later=bool(schemas))
        taken_over = _taken_over(files, schemas, plan)
        _require_schemas(tx, table, caller, schemas, taken_over)
        _require_to_take_away(table, caller, plan, history)
        directory = files.layout.set_aside_dir(str(time.time_ns() // 1_000_000))
        tags = tx.tags.all(table.table_id, branch)
        new_tags = _names_of_tags(plan.keep, tags)
        kept_history = history if plan.history is None else ()
        missing = _missing(files, kept_history, known)
        changed = _changed(files, kept_history, known)
        torn_tags = list(changed_tags(files, tags))
        branches = list(unregistered_branches(tx, table)) if branch == MAIN_BRANCH else []
        done = Repair(
            registered=tuple(s.id for s in plan.registered), set_aside=tuple(plan.aside), directory=directory, back_from=plan.back_from,
            branches=tuple(stored.branch for stored in branches), schemas=tuple(schema.id for schema in schemas),
            kept=tuple((name, snapshot.id) for name, snapshot in new_tags.items()),
            rewritten=tuple((one.number, one.path) for one in (*missing, *changed, *torn_tags)),
        )  # fmt: skip
        if dry_run:
            return done
        for one in missing:  # of decisions made long ago: where one cannot be written, nothing else has changed
            files.io.create(one.path, one.data)
        _put_aside(files, plan.aside, changed, torn_tags, directory)
        _register_schemas(tx, table, schemas, taken_over)
        for name, snapshot in new_tags.items():
            tx.tags.put(table.table_id, name, snapshot.to_json(), branch, created_millis=time.time_ns() // 1_000_000)
        for stored in branches:
            tx.branches.create(table.table_id, stored.branch, schema_id=stored.schema.id, table=str(table.identifier))
            stored.put(tx, table.table_id)
            register_answers(tx, stored.snapshots)
        _register(tx, table, plan, history)
        register_answers(tx, plan.registered)
        lowered = lower_consumers(tx, table, _lost(plan, history), filed)
        tx.tables.set_diverged(table.table_id, None)
    publisher.doubt(table.table_id, branch)
    publisher.try_to_catch_up(table.table_id, files, branch)
    for stored in branches:
        publisher.try_to_catch_up(table.table_id, stored.files, stored.branch)
        follow(
            partial(rewrite_operations, stored.files, stored.snapshots),
            f"Operations that Paimon cannot parse are told by {stored.files.name}",
        )
    file_lowered(catalog, table, lowered)
    follow(lambda: _hinted(table), f"The hint of {table.identifier} does not name its newest snapshot")
    return done


def _put_aside(
    files: TableFiles, aside: Sequence[int], changed: Sequence[ChangedFile], torn_tags: Sequence[ChangedFile], directory: str
) -> None:
    """Move what is in the way into the directory, and write what was there; all of it is on disk before the repair is on record."""
    moved = [files.layout.snapshot_file(snapshot_id) for snapshot_id in aside]
    if aside:
        files.io.delete(files.layout.latest_hint())  # readers believe it, and find the newest by themselves where there is none
    for path in moved:
        files.io.rename(path, f"{directory}/{path.rpartition('/')[2]}")
    for one in changed:
        if one.path not in moved:
            files.io.rename(one.path, f"{directory}/{one.path.rpartition('/')[2]}")
        files.io.create(one.path, one.data)  # after a crash before this line it is missing, and a second repair writes it
    for tag in torn_tags:
        _replace_tag(files, tag, directory)
    touched = [*moved, *(one.path for one in (*changed, *torn_tags))]
    if touched:
        # A power cut that brought a file back where it lay would make the table diverged, or tell of a snapshot that is none.
        directories = {path.rpartition("/")[0] for path in touched}
        files.io.sync([*directories, *([directory] if files.io.exists(directory) else [])])


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


def _register(tx: CatalogTransaction, table: LakeTable, plan: _Plan, history: Sequence[SnapshotRow]) -> None:
    branch = table.identifier.branch
    if plan.history is None:
        base = history[-1].snapshot_uuid if history else None
        for snapshot in plan.registered:
            tx.snapshots.advance(table.table_id, branch, base=base, snapshot_id=snapshot.id, uuid=snapshot.key, body=snapshot.to_json())
            base = snapshot.key
        return
    tx.snapshots.point(table.table_id, branch, None)
    tx.snapshots.remove(table.table_id, branch, above=0)
    for snapshot in plan.history:
        tx.snapshots.insert(table.table_id, branch, snapshot_id=snapshot.id, uuid=snapshot.key, body=snapshot.to_json(), published=False)
    newest = plan.history[-1]
    row = SnapshotRow(snapshot_id=newest.id, snapshot_uuid=newest.key, body=newest.to_json(), published=False)
    tx.snapshots.point(table.table_id, branch, row)


def _lost(plan: _Plan, history: Sequence[SnapshotRow]) -> list[int]:
    """The ids whose snapshots, of the catalog or beyond it, are no more and may be another's next."""
    top = history[-1].snapshot_id if history else 0
    lost = [number for number in plan.aside if number > top]
    if plan.history is not None:
        stay = {snapshot.key for snapshot in plan.history}
        first = plan.history[0].id  # what lies before has expired
        lost += [row.snapshot_id for row in history if row.snapshot_id >= first and row.snapshot_uuid not in stay]
    return lost


def _other_line(tx: CatalogTransaction, table: LakeTable, history: Sequence[SnapshotRow], newest_schema: int) -> Line | None:
    """The line of the files where they went another way than the catalog; one that we left ourselves is none."""
    line = line_of_files(table.files, history, newest_schema=newest_schema)
    return None if line is None or is_no_more(tx, table.table_id, table.files, line.snapshots[-1]) else line


def _plan(files: TableFiles, history: Sequence[SnapshotRow], line: Line | None, *, newest_schema: int) -> _Plan:
    """``line``: where the files went another way than the catalog, which is older; what it has besides is kept by tags."""
    if line is not None:
        return _along(line, history)
    latest = Snapshot.from_json(history[-1].body) if history else None
    top = latest.id if latest else 0
    beyond = [snapshot_id for snapshot_id in files.snapshot_ids() if snapshot_id > top]
    if latest is None or is_readable(files, latest):
        replaced = _replaced(files, history)
        registered = [] if replaced else _extension(files, history, newest_schema=newest_schema)
        rest = beyond[len(registered) :]
        last = registered[-1].id if registered else top
        if rest and rest[0] > last + 1 and not replaced:
            line = readable_line(files, history, newest_schema=newest_schema)
        if line is None or line.snapshots[-1].id <= last:
            aside = [*replaced, *rest]
            readable = (each for i in reversed(aside) if (each := read_snapshot(files, i)) is not None and is_readable(files, each))
            return _Plan(registered=registered, aside=aside, keep=[*islice(readable, 1)])
        # Of what lay between nothing is left: it expired or was lost, so the files know a later time than the catalog does.
    elif (line := readable_line(files, history, newest_schema=newest_schema)) is None:
        raise _nothing_readable(files, latest)
    return _along(line, history)


def _along(line: Line, history: Sequence[SnapshotRow]) -> _Plan:
    known, top = {row.snapshot_uuid for row in history}, history[-1].snapshot_id if history else 0
    back_from = top if line.snapshots[-1].id < top else None
    registered = [snapshot for snapshot in line.snapshots if snapshot.key not in known]
    return _Plan(registered=registered, aside=line.aside, history=line.snapshots, keep=line.beside, back_from=back_from)


def _nothing_readable(files: TableFiles, latest: Snapshot) -> TableDamaged:
    """What is lost of the newest snapshot where nothing is left to go back to; what else it has can be had only where its lists are."""
    path, problem = files.layout.manifest(latest.base_manifest_list), "cannot be read"
    try:
        require_readable(files, latest)
    except TableDamaged as damage:
        path, problem = damage.file, damage.problem
    except LakeError as failure:  # as `is_readable`, which has asked the store
        problem = f"cannot be read ({failure.message.rstrip('.')})"
    name = file_name(path)
    no_rest = name.startswith(LIST_PREFIX) or name == latest.index_manifest
    problem += ": its snapshot cannot be read, and no other snapshot can; nothing was changed"
    return files.damaged(path, problem, snapshot_id=latest.id, way_out="" if no_rest else None)


def _require_to_take_away(table: LakeTable, caller: Caller, plan: _Plan, history: Sequence[SnapshotRow]) -> None:
    """Raise `Forbidden` where the catalog's snapshots go, or files by what is registered, and the caller may not take them away."""
    if caller.may(Access.DELETE, resource := table_resource(table.identifier)):
        return
    stay = {row.snapshot_uuid for row in history} if plan.history is None else {snapshot.key for snapshot in plan.history}
    manifests = (meta for snapshot in plan.registered for meta in table.files.delta_manifests(snapshot))
    if any(row.snapshot_uuid not in stay for row in history) or any(meta.num_deleted_files for meta in manifests):
        caller.require(Access.DELETE, resource)


def _taken_over(files: TableFiles, schemas: Sequence[Schema], plan: _Plan) -> Schema | None:
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


def _missing(files: TableFiles, history: Sequence[SnapshotRow], schemas: Mapping[int, Mapping[str, Any]]) -> list[ChangedFile]:
    """Files of schemas and snapshots that are gone, with what they held; of a snapshot only where its manifests are there.

    A missing beginning is what a client expired.
    """
    missing = []
    for schema_id, body in schemas.items():
        if not files.io.file_exists(path := files.layout.schema_file(schema_id)):
            missing.append(ChangedFile(path=path, data=schema_bytes(body), problem="is missing", number=schema_id))
    there = set(files.snapshot_ids())
    for row in history:
        snapshot = Snapshot.from_json(row.body)
        hole = row.published and row.snapshot_id not in there and (row is history[-1] or row.snapshot_id > min(there, default=0))
        if hole and is_readable(files, snapshot):
            path, data = files.layout.snapshot_file(snapshot.id), snapshot_bytes(snapshot)
            missing.append(ChangedFile(path=path, data=data, problem="is missing", number=snapshot.id, snapshot_id=snapshot.id))
    return missing


def _changed(files: TableFiles, history: Sequence[SnapshotRow], schemas: Mapping[int, Mapping[str, Any]]) -> list[ChangedFile]:
    """Files in whose place another or none lies, of a snapshot only where its manifests are there.

    A snapshot among those that are set aside is ours all the same: what contradicts it goes, and it comes back.
    """
    changed = list(changed_schemas(files, schemas.items()))
    rows = {row.snapshot_id: row for row in history}
    for one in changed_snapshots(files, history):
        assert one.snapshot_id is not None
        if is_readable(files, Snapshot.from_json(rows[one.snapshot_id].body)):
            changed.append(one)
    return changed


def _replace_tag(files: TableFiles, tag: ChangedFile, directory: str) -> None:
    """Write a tag's file again; never without one, as who removes a tag's file removes the tag."""
    aside = f"{directory}/{tag.path.rpartition('/')[2]}"
    if not files.io.exists(tag.path):
        files.io.create(tag.path, tag.data)
        return
    try:
        files.io.create(aside, files.io.read(tag.path))
    except (FileNotFoundError, TableDamaged):  # a directory lies there, or a link out of the table: nothing readers could take for a tag
        files.io.rename(tag.path, aside)
    files.io.write(tag.path, tag.data)


def _replaced(files: TableFiles, history: Sequence[SnapshotRow]) -> list[int]:
    """Decided snapshots in whose place somebody else's file lies: only those whose publication is not on record, and the latest."""
    replaced = []
    for row in history:
        if row.published and row is not history[-1]:
            continue
        if not files.io.file_exists(files.layout.snapshot_file(row.snapshot_id)):
            continue
        stored = read_snapshot(files, row.snapshot_id)
        if stored is None or not same_snapshot(stored, Snapshot.from_json(row.body)):
            replaced.append(row.snapshot_id)
    return replaced


def _extension(files: TableFiles, history: Sequence[SnapshotRow], *, newest_schema: int) -> list[Snapshot]:
    """The foreign snapshots that go on, without a gap, where ours end."""
    snapshots: list[Snapshot] = []
    latest = Snapshot.from_json(history[-1].body) if history else None
    keys = {row.snapshot_uuid for row in history}
    while (after := read_snapshot(files, (latest.id if latest else 0) + 1)) is not None:
        # A schema the catalog does not know cannot be read, and a commit that it has at another id comes no second time.
        if after.schema_id > newest_schema or after.key in keys or not _goes_on(files, latest, after):
            break
        snapshots.append(after)
        keys.add(after.key)
        latest = after
    return snapshots


def _goes_on(files: TableFiles, before: Snapshot | None, after: Snapshot) -> bool:
    """Whether a snapshot's base holds exactly the files its predecessor left, and its own manifests can be read."""
    try:
        base = [entry for meta in files.base_manifests(after) for entry in files.manifest(meta)]
        based_on = {entry.key() for entry in merge_entries(base, table=files.name)}
        list(files.live_entries(after))
        return based_on == {entry.key() for entry in files.live_entries(before)}
    except (LakeError, ValueError, KeyError, EOFError) as problem:  # manifests that are missing, or none: not to be registered
        if told_by_the_store(problem):
            raise
        return False
