"""Branches: made from a tag or empty, renamed, dropped, and main moved forward to one."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from catalog import CatalogStore, CatalogTransaction
from catalog.records import SnapshotRow, TableRow
from lake.access.guard import needs
from lake.access.rules import require_columns_kept
from lake.commit.claims import Claim, claimed_in
from lake.commit.decided import follow, require_table_writable
from lake.commit.publish import Publisher
from lake.register.expired import forget_expired
from lake.register.unknown_branches import unknown_branches
from lake.register.whole import require_whole
from lake.rewrite.garbage import carry_renamed, clear_left, make_way, remove_discarded
from lake.tables.consumers import Filed, file_lowered, filed_consumers, lower_consumers
from lake.tables.handle import LakeTable, require_newest, schemas_of
from lake.tables.history import clear_all_expired, clear_expired, lower_earliest_hint
from lake.tables.names import refuse_branch
from lake.tables.stale import remove_stale, stale_file, stale_schema, stale_snapshot, stale_tag
from lake.tables.tags import Tags, require_same
from model.access import Access
from model.catalog_errors import BranchAlreadyExist, BranchNotExist, ChangedMeanwhile
from model.errors import BadRequest, InvalidName, TableDamaged, TableDiverged, TableNotExist
from model.identifier import MAIN_BRANCH, Identifier
from model.names import check_name
from model.snapshot import Snapshot
from model.text.sql_text import literal
from table.format.layout import TableLayout
from table.format.store import TableFiles

_MAINS = "Name the table, {table}, and the branch by its own name."


class Branches:
    """The branches of tables besides main."""

    def __init__(
        self, catalog: CatalogStore, publisher: Publisher, tags: Tags, open_found: Callable[[Callable[[], TableRow]], object]
    ) -> None:
        """``open_found`` opens what a look finds, its files in place."""
        self._catalog = catalog
        self._publisher = publisher
        self._tags = tags
        self._open_found = open_found
        self.standing = tags.standing
        self.caller = tags.caller

    def names(self, table: LakeTable) -> list[str]:
        """All but main, by name."""
        with self._catalog.reading() as tx:
            return tx.branches.names(table.table_id)

    @needs(Access.UPDATE)
    def create(
        self,
        table: LakeTable,
        name: str,
        *,
        from_tag: str | None = None,
        if_not_exists: bool = False,
        dry_run: bool = False,
        claim: Claim | None = None,
    ) -> bool:
        """Add a branch with a tag's snapshot, or without any, once under a claim; False when it exists and that is fine.

        Raises `BranchAlreadyExist`, `TagNotExist`, `TableDamaged`, `InvalidName`, or `ChangedMeanwhile` where the tag was given to
        another snapshot meanwhile.
        """
        refuse_branch(table.identifier, "a branch is made of main or of a tag of main", _MAINS)
        self.standing.require_own_now()
        self._check_name(table, name)
        tag = self._tags.get(table, from_tag) if from_tag is not None else None
        if tag is not None:
            self._tags.require_whole(table, tag)
        self._clear_way(table, name, dry_run=dry_run)
        try:
            with self._catalog.transaction(keep=not dry_run) as tx, claimed_in(tx, claim):
                row = self._held(tx, table)
                snapshot = Snapshot.from_json(tag.snapshot) if tag else None
                if tag:
                    require_same(tx, table, tag)
                newest = snapshot.schema_id if snapshot else row.schema_id
                if not dry_run:
                    self._make_way(tx, table, name)
                tx.branches.create(table.table_id, name, schema_id=newest, table=str(table.identifier))
                for schema_id, body in tx.tables.schemas(table.table_id, MAIN_BRANCH):
                    if schema_id <= newest:
                        tx.tables.add_schema(table.table_id, name, schema_id, body)
                if snapshot and tag:
                    of_main = tx.snapshots.by_uuid(table.table_id, snapshot.key)  # a fast-forward goes on from it
                    present = SnapshotRow(
                        snapshot_id=snapshot.id, snapshot_uuid=snapshot.key, body=snapshot.to_json(), published=False,
                        decided_at=of_main.decided_at if of_main else None,
                    )  # fmt: skip
                    tx.snapshots.insert(table.table_id, name, present)
                    tx.snapshots.point(table.table_id, name, present)
                    tx.tags.put(table.table_id, tag.name, tag.snapshot, name, created_millis=tag.created_millis, retained=tag.retained)
        except BranchAlreadyExist:
            if not if_not_exists:
                raise
            return False
        if not dry_run:
            self._file(table, name)
        return True

    @needs(Access.DELETE)
    def drop(self, table: LakeTable, names: Sequence[str], *, dry_run: bool = False, claim: Claim | None = None) -> list[list[Snapshot]]:
        """Remove branches, all or none, once under a claim, with their snapshots, which are returned, and tags.

        Raises `BranchNotExist`, or `TableDiverged` where files of one are ahead of the catalog.
        """
        refuse_branch(table.identifier, "branches are dropped from their table", _MAINS)
        require_newest(self._publisher, *(self._branch(table, name) for name in names if name != MAIN_BRANCH))
        gone: list[list[Snapshot]] = []
        directories = [TableLayout(table.location, name).branch_dir for name in names]
        with self._catalog.transaction(keep=not dry_run) as tx, claimed_in(tx, claim):
            self._held(tx, table)
            for name, directory in zip(names, directories, strict=True):
                tx.holds.require_no_backup(f"Dropping branch {name} of {table.identifier}")
                history = tx.snapshots.history(table.table_id, name) if name != MAIN_BRANCH else []
                gone.append([Snapshot.from_json(row.body) for row in history])
                tx.directories.discard_known(directory, table.table_id, name)
                if not tx.branches.drop(table.table_id, name):
                    raise BranchNotExist(name, str(table.identifier))
        if dry_run:
            return gone

        def remove(directory: str) -> None:
            with self._catalog.beside_store(removes=True) as tx:
                remove_discarded(tx, table.files.io, self.standing, directory)

        for directory in directories:
            follow(partial(remove, directory), f"The directory {directory} of a dropped branch could not be removed")
        return gone

    @needs(Access.DELETE)  # who reads by the old name gets another branch, or none: as where it is dropped and made anew
    def rename(self, table: LakeTable, name: str, to: str, *, dry_run: bool = False, claim: Claim | None = None) -> None:
        """Give a branch another name, once under a claim; raises `BranchNotExist`, `BranchAlreadyExist` or `TableDiverged`.

        Its directory may be deleted, as on an object store: all in it has to be known.
        """
        refuse_branch(table.identifier, "branches are renamed in their table", _MAINS)
        self._check_name(table, to)
        if name != MAIN_BRANCH:
            require_newest(self._publisher, self._branch(table, name))
        self._clear_way(table, to, dry_run=dry_run)
        old, new = TableLayout(table.location, name).branch_dir, TableLayout(table.location, to).branch_dir
        with self._catalog.transaction(keep=not dry_run) as tx, claimed_in(tx, claim):
            self._held(tx, table)
            tx.holds.require_no_backup(f"Renaming branch {name} of {table.identifier}")
            if not dry_run:
                self._make_way(tx, table, to)
            if not tx.branches.rename(table.table_id, name, to, table=str(table.identifier)):
                raise BranchNotExist(name, str(table.identifier))
            tx.directories.discard_renamed(old, table.table_id, name, to=to)
        if dry_run:
            return
        # Decided; what lies under the new name is written anew by whoever opens it, so a crash here loses nothing.
        io = table.files.io

        def move() -> None:
            with self._catalog.beside_store() as tx:
                tx.tables.stay(table.table_id)  # before its places, as all others
                if (row := tx.directories.lock_discarded(old)) is None:
                    return
                is_named_so = row.renamed == (table.table_id, to)  # else another has renamed it meanwhile: the name is nobody's
                if io.atomic_rename and is_named_so and io.exists(old) and not io.exists(new):
                    io.rename(old, new)
                    io.sync([TableLayout(table.location).branches_dir()])  # else a power cut brings the old name back, which nobody knows
                    tx.directories.directory_removed(old)
                    return
                carry_renamed(tx, io, old, later=False)
            with self._catalog.beside_store(removes=True) as tx:  # a tree may be large, and nothing of the table waits for it
                remove_discarded(tx, io, self.standing, old)

        if not io.atomic_rename and not self._file(table, to):
            return  # the old files are all that tells other clients what it needs; they are on record, and go after the new are there
        follow(move, f"The directory {old} of a renamed branch could not be moved")
        self._file(table, to)

    @needs(Access.DELETE)
    def fast_forward(
        self, table: LakeTable, name: str, *, dry_run: bool = False, claim: Claim | None = None
    ) -> tuple[list[Snapshot], Snapshot]:
        """Let main go on where a branch is, once under a claim.

        Main's snapshots, schemas and tags from the branch's first on are replaced by the branch's; its earlier snapshots stay where the
        branch's first one was made of them.
        Returns the snapshots main loses and the one it has then.
        Raises `BranchNotExist`, `TableDamaged`, `TableDiverged`, `BadRequest` for a branch without snapshots, or without those that main's
        consumers have still to read, or `InvalidSchemaChange` where the branch has not the columns that policies and column grants of the
        table name.
        """
        refuse_branch(table.identifier, "main alone goes forward to a branch", _MAINS)
        opened = self._branch(table, name)
        require_newest(self._publisher, table, opened)
        with self._catalog.reading() as tx:
            newest = tx.snapshots.latest(table.table_id, name)
        forget_expired(self._catalog, opened)
        if newest is not None:
            self._require_whole(opened, newest)
        if not dry_run:
            require_table_writable(table.files)
            clear_all_expired(self._catalog, table)  # before the table is held: there may be many
        filed = filed_consumers(self._catalog, table)
        tags, new_tags = self._tags.look(table), self._tags.look(opened)
        with self._catalog.transaction(keep=not dry_run) as tx, claimed_in(tx, None if dry_run else claim):
            main = self._held_as_known(tx, table)
            branch = tx.tables.find(Identifier(main.database, main.name, name))
            if name == MAIN_BRANCH or branch is None:
                raise BranchNotExist(name, str(table.identifier))
            history = tx.snapshots.history(table.table_id, name)
            if not history:
                raise BadRequest(f"Branch {name} of {table.identifier} has no snapshot to go forward to.")
            require_columns_kept(tx, Identifier(main.database, main.name), table.table_id, main.schema, branch.schema)
            first = Snapshot.from_json(history[0].body)
            self._require_read_on(tx, table, name, history[0], filed)
            tx.holds.require_no_backup(f"Moving main of {table.identifier} to branch {name}")
            if not dry_run:
                clear_expired(tx, table)
                lower_earliest_hint(table, first.id)
            self._tags.take_in(tx, table, tags)  # also those that clients wrote as files
            self._tags.take_in(tx, opened, new_tags)
            lost = self._clear(tx, table, name, history)
            lowered = lower_consumers(tx, table, [snapshot.id for snapshot in lost], filed)
            present = dict(tx.tables.schemas(table.table_id, MAIN_BRANCH))
            # Also those before the first snapshot's: main may have lost them by going forward to another branch, and files name them.
            added = {number: body for number, body in tx.tables.schemas(table.table_id, name) if number not in present}
            for schema_id, body in added.items():
                tx.tables.add_schema(table.table_id, MAIN_BRANCH, schema_id, body)
                tx.stale.keep(table.table_id, *stale_schema(table.files, schema_id, body))
            published = min([main.published_schema_id, *(schema_id - 1 for schema_id in added)])
            tx.tables.set_schema(table.table_id, MAIN_BRANCH, branch.schema_id, published=published)
            for row in history:
                tx.snapshots.insert(table.table_id, MAIN_BRANCH, replace(row, published=False))
                tx.stale.keep(table.table_id, *stale_snapshot(table.files, table.files.layout.snapshot_file(row.snapshot_id), row.body))
            tx.snapshots.point(table.table_id, MAIN_BRANCH, tx.snapshots.get(table.table_id, MAIN_BRANCH, history[-1].snapshot_id))
            for tag in tx.tags.all(table.table_id, name):
                tx.tags.put(table.table_id, tag.name, tag.snapshot, created_millis=tag.created_millis, retained=tag.retained)
                tx.stale.keep(table.table_id, *stale_snapshot(table.files, table.files.layout.tag_file(tag.name), tag.snapshot))
        if not dry_run:
            remove_stale(self._publisher, table)
            follow(partial(self._file_main, table), f"The files of what {table.identifier} went forward to could not be written")
            file_lowered(self._catalog, table, lowered)
        return lost, Snapshot.from_json(history[-1].body)

    def _file(self, table: LakeTable, name: str) -> bool:
        """Put the files of a decided branch there, as whoever opens it does: all that other clients go by are files."""

        def look() -> TableRow:
            with self._catalog.reading() as tx:
                return tx.tables.get(replace(table.identifier, branch=name))

        return follow(partial(self._open_found, look), f"The files of branch {name} of {table.identifier} could not be written")

    def _file_main(self, table: LakeTable) -> None:
        self._publisher.catch_up(table.table_id, table.files, MAIN_BRANCH)
        self._tags.publish_all(table)

    def _branch(self, table: LakeTable, name: str) -> LakeTable:
        """A branch as a table; raises `BranchNotExist` before a path is made of its name."""
        with self._catalog.reading() as tx:
            if name not in tx.branches.names(table.table_id):
                raise BranchNotExist(name, str(table.identifier))
        identifier = replace(table.identifier, branch=name)
        known = partial(schemas_of, self._catalog, table.table_id, name)
        return replace(
            table,
            identifier=identifier,
            files=TableFiles(table.files.io, table.location, name, name=identifier.written(), known_schemas=known),
        )

    @staticmethod
    def _require_read_on(tx: CatalogTransaction, table: LakeTable, name: str, first: SnapshotRow, filed: Filed) -> None:
        """Raise `BadRequest` where main has consumers, and what they would read after main's snapshots has expired in the branch."""
        there = tx.snapshots.get(table.table_id, MAIN_BRANCH, first.snapshot_id)
        if (there is not None and there.snapshot_uuid == first.snapshot_uuid) or tx.snapshots.last_expired(table.table_id, name) is None:
            return
        if consumers := filed.since(tx.consumers.progress(table.table_id, MAIN_BRANCH)):
            raise BadRequest(
                f"Branch {name} of {table.identifier} begins at snapshot {first.snapshot_id}, which main does not have, and "
                f"earlier ones have expired: main's consumers ({', '.join(sorted(consumers))}) could not go on. Where what they have "
                f"not read is not needed, CALL sys.clear_consumers({literal(table.identifier.written())}) first."
            )

    @staticmethod
    def _clear(tx: CatalogTransaction, table: LakeTable, branch: str, history: Sequence[SnapshotRow]) -> list[Snapshot]:
        """Take away what of main the branch replaces; returns the snapshots that are lost with it, not those that the branch has, too."""
        files, first = TableFiles(table.files.io, table.location), Snapshot.from_json(history[0].body)
        stay = {row.snapshot_uuid for row in history}
        # Where main went another way before the branch's first snapshot, a file that it took away may be the branch's still, and expiry,
        # which goes by what each snapshot took away, would remove it: nothing of that way stays. Nor does what could not be read any more.
        there = tx.snapshots.get(table.table_id, MAIN_BRANCH, first.id)
        taken, ours = dict(tx.tables.schemas(table.table_id, branch)), dict(tx.tables.schemas(table.table_id, MAIN_BRANCH))

        def unreadable(body: Mapping[str, Any]) -> bool:
            """By a schema after that of the branch's first snapshot, as where a client had gone back to an older one before it."""
            schema_id = int(body["schemaId"])
            return schema_id >= first.schema_id and taken.get(schema_id) != ours.get(schema_id)

        goes_on = there is not None and there.snapshot_uuid == history[0].snapshot_uuid
        before = [row for row in tx.snapshots.history(table.table_id, MAIN_BRANCH) if row.snapshot_id < first.id]
        above = first.id - 1 if goes_on and not any(unreadable(row.body) for row in before) else 0
        lost = [row for row in tx.snapshots.remove(table.table_id, MAIN_BRANCH, above=above) if row.snapshot_uuid not in stay]
        for row in lost:
            stale_file(tx, table, files.layout.snapshot_file(row.snapshot_id), row.body)
        for schema_id, body in ours.items():
            if schema_id >= first.schema_id and taken.get(schema_id) != body:
                tx.stale.add(table.table_id, *stale_schema(files, schema_id, body))
        tx.tables.drop_schemas(table.table_id, MAIN_BRANCH, above=first.schema_id - 1)
        tags = {tag.name: tag.snapshot for tag in tx.tags.all(table.table_id, branch)}
        for tag in tx.tags.all(table.table_id):
            replaced = tag.name in tags or int(tag.snapshot["id"]) >= first.id
            if (replaced or unreadable(tag.snapshot)) and tags.get(tag.name) != tag.snapshot:
                tx.tags.drop(table.table_id, tag.name)
                stale_tag(tx, table, files, tag)
        return [Snapshot.from_json(row.body) for row in lost]

    def _require_whole(self, branch: LakeTable, newest: SnapshotRow) -> None:
        """Raise `TableDamaged` for a snapshot that nobody could read, `ChangedMeanwhile` for one that is not the branch's any more."""
        try:
            require_whole(branch, Snapshot.from_json(newest.body), data=True)
        except TableDamaged:
            with self._catalog.reading() as tx:
                row = tx.snapshots.latest(branch.table_id, branch.identifier.branch)
            if row is None or row.snapshot_uuid != newest.snapshot_uuid:
                name = str(branch.identifier)
                raise ChangedMeanwhile(f"{name} changed while it was looked at. Repeat it.", resource_name=name) from None
            raise

    def _held(self, tx: CatalogTransaction, table: LakeTable) -> TableRow:
        """The main row of the table, nobody committing until the transaction ends."""
        row = tx.tables.lock(Identifier(table.identifier.database, table.identifier.table))
        if row.table_id != table.table_id or row.location != table.location:
            raise TableNotExist(str(table.identifier))
        return row

    def _held_as_known(self, tx: CatalogTransaction, table: LakeTable) -> TableRow:
        """As `_held`; raises `TableDiverged` where anything of the table, also another branch, waits for its repair."""
        row = self._held(tx, table)
        if row.diverged_at:
            raise TableDiverged(table.identifier, path=row.diverged_at)
        return row

    def _clear_way(self, table: LakeTable, name: str, *, dry_run: bool) -> None:
        """Remove what a drop has left where a branch is to be, before the table is held: a tree may be large."""
        directory = TableLayout(table.location, name).branch_dir
        with self._catalog.reading() as tx:
            is_left = tx.directories.is_discarded(directory)
        if is_left and not dry_run:
            clear_left(self._catalog, table.files.io, self.standing, directory)

    def _make_way(self, tx: CatalogTransaction, table: LakeTable, name: str) -> None:
        """Have nothing lie where a branch of that name is to be; raises `InvalidName` where one does that the catalog does not have."""
        directory, io = TableLayout(table.location, name).branch_dir, table.files.io
        is_free = make_way(tx, io, self.standing, directory)
        if not is_free or name in unknown_branches(tx, io, table.table_id, table.location):
            when = "" if is_free else ", once a server has been started anew"  # then it is on record as garbage no more
            raise InvalidName(
                f"There cannot be a branch {name} of {table.identifier}: {directory} holds one that this catalog, which is older than the "
                f"warehouse, does not have. CALL sys.repair_table({literal(table.identifier.written())}) registers it{when}; or choose "
                "another name."
            )

    def _check_name(self, table: LakeTable, name: str) -> None:
        check_name(name, "branch")
        if name == MAIN_BRANCH:
            raise BranchAlreadyExist(name, str(table.identifier))
        with contextlib.suppress(ValueError):
            int(name)
            raise InvalidName(f"The branch name {name!r} is a number, which Paimon's clients take for a snapshot.")
