"""What lies in a table's directory and the catalog does not know, as where it is older than its warehouse: branches above all.

Their rows lie among the table's own files, so nothing of them may go before `sys.repair_table` has made them the catalog's.
"""

from __future__ import annotations

import contextlib
from collections.abc import Container, Iterable, Iterator
from dataclasses import replace
from uuid import UUID

from catalog import CatalogTransaction
from catalog.records import TagRow
from lake.register.expired import has_lists, left_by_expiry
from lake.register.foreign_tables import StoredBranch, names_of_branches, stored_branch
from lake.register.whole import require_readable
from lake.tables.handle import LakeTable
from lake.tables.tag_files import fault_of_tag, replacement, stored_tags, tag_in
from model.damage import MISSING
from model.errors import InvalidName, InvalidSchema, TableDamaged
from model.identifier import MAIN_BRANCH
from model.names import check_name
from model.snapshot import Snapshot
from model.text.sql_text import literal
from table.format.io.directory import FileStatus
from table.format.io.file_io import FileIO
from table.format.layout import TableLayout
from table.format.store import TableFiles


def unknown_branches(tx: CatalogTransaction, io: FileIO, table_id: UUID, location: str) -> list[str]:
    """Their names. What is being removed is none, nor is a directory without a schema."""
    stored = names_of_branches(io, location)  # first: one that is made meanwhile is in the catalog before it is here
    if not stored:
        return []
    known = {MAIN_BRANCH, *tx.branches.names(table_id)}
    return [name for name in stored if name not in known and _is_branch(tx, io, TableLayout(location, name))]


def _is_branch(tx: CatalogTransaction, io: FileIO, layout: TableLayout) -> bool:
    with contextlib.suppress(InvalidName):
        check_name(layout.branch, "branch")
        if io.list(layout.schema_dir()) and not tx.directories.is_discarded(layout.branch_dir):
            return bool(io.list(layout.schema_dir()))  # again: what is off the record may have been removed just now
    return False


def unregistered_branches(tx: CatalogTransaction, table: LakeTable) -> Iterator[StoredBranch]:
    """Those of which all can be read, with their schemas and snapshots; the others stay where they lie."""
    for name in unknown_branches(tx, table.files.io, table.table_id, table.location):
        with contextlib.suppress(InvalidSchema, TableDamaged):
            yield stored_branch(files_of_branch(table, name))


def snapshots_kept(tx: CatalogTransaction, table: LakeTable, *, known: Container[str] | None = None) -> list[Snapshot]:
    """The snapshots and tags that lie in the table's directory and are not the catalog's: what is asked before files are deleted.

    Of branches it does not know that is all they have; of main and the others what came later than it, as where it is older than
    its warehouse, or lies in the place of what is its own. With ``known``, the keys of all it has, every file is held against them, also
    where the catalog knows one of that name. Raises `TableDamaged` where a file cannot be read: whatever it needs would go.
    Tags of the table's own branch need only be readable: whoever asks has taken them in, or found that they are not the table's; but for
    those of schemas that the catalog lacks, which are not taken in before these are.
    """
    snapshots: list[Snapshot] = []
    for name in _directories_of_branches(tx, table):
        snapshots += _all_of_unknown(table, files_of_branch(table, name))
    for name in (MAIN_BRANCH, *tx.branches.names(table.table_id)):
        files = files_of_branch(table, name)
        beyond = [*_beyond(tx, table, files, known)]
        for snapshot in beyond if known is not None else ():
            _require_lists(table, files, snapshot)
        snapshots += beyond
        own = name == table.identifier.branch
        tags = {tag.name: tag for tag in tx.tags.all(table.table_id, name)} if own or known is None else {}
        others = [*tagged(files, [tag for tag, status in stored_tags(files).items() if _is_other(files, tags.get(tag), status, own=own)])]
        if own:
            snapshots += [snapshot for snapshot in others if _is_of_newer_schema(table, snapshot)]
        else:
            snapshots += [snapshot for snapshot in others if known is None or snapshot.key not in known]
    return snapshots


def _is_other(files: TableFiles, tag: TagRow | None, status: FileStatus, *, own: bool) -> bool:
    """Whether a tag's file tells what the catalog does not know; of the own branch's tags of its names it has taken that in."""
    return tag is None or (not own and replacement(files, tag, status) is not None)


def _directories_of_branches(tx: CatalogTransaction, table: LakeTable) -> list[str]:
    """All that may be a branch the catalog does not know: also of a name that none can have here, or without its schemas."""
    io, known = table.files.io, [MAIN_BRANCH]
    stored = names_of_branches(io, table.location)  # before what is known, as in `unknown_branches`
    if stored:
        known += tx.branches.names(table.table_id)
    return [name for name in stored if name not in known and _holds_any(tx, io, TableLayout(table.location, name))]


def _holds_any(tx: CatalogTransaction, io: FileIO, layout: TableLayout) -> bool:
    def holds() -> bool:
        return any(io.list(place) for place in (layout.schema_dir(), layout.snapshot_dir(), layout.tag_dir()))

    return holds() and not tx.directories.is_discarded(layout.branch_dir) and holds()  # again: as in `_is_branch`


def _all_of_unknown(table: LakeTable, files: TableFiles) -> list[Snapshot]:
    """Every snapshot and tag of a branch the catalog does not know; raises `TableDamaged` where one of them cannot be read."""
    try:
        snapshots = [*filter(None, map(files.read_snapshot, files.snapshot_ids())), *tagged(files, stored_tags(files), links_too=True)]
        for snapshot in snapshots:
            require_readable(table.files, snapshot, deletions=False)
    except TableDamaged as damage:
        raise table.files.damaged(
            damage.file,
            f"{damage.problem}; branch {files.layout.branch} needs it, which the catalog does not have: nothing of the table is deleted "
            f"before the file is put back or, where nobody needs the branch, {files.layout.branch_dir} is removed",
            snapshot_id=damage.snapshot_id,
        ) from damage
    return snapshots


def _beyond(tx: CatalogTransaction, table: LakeTable, files: TableFiles, known: Container[str] | None) -> Iterator[Snapshot]:
    """What of a branch's snapshots files alone have; not what has expired, left by a crash."""
    branch = files.layout.branch
    ids = tx.snapshots.ids(table.table_id, branch)
    left = {*left_by_expiry(tx, table.table_id, files)} if ids else set[int]()
    noted = {snapshot_id for snapshot_id, published in ids[:-1] if published}
    for snapshot_id in files.snapshot_ids():
        if snapshot_id in left or (snapshot_id in noted and known is None):
            continue
        snapshot = files.read_snapshot(snapshot_id)
        if snapshot is None or (known is not None and snapshot.key in known):
            continue
        if ids and snapshot_id < ids[0][0] and not has_lists(files, snapshot):
            continue
        if known is not None or tx.snapshots.by_uuid(table.table_id, snapshot.key, branch) is None:
            yield snapshot


def _require_lists(table: LakeTable, files: TableFiles, snapshot: Snapshot) -> None:
    """Raise `TableDamaged` for the file of a snapshot that is not the catalog's and names lists that are not there, as another table's."""
    path, names = files.layout.snapshot_file(snapshot.id), (snapshot.base_manifest_list, snapshot.delta_manifest_list)
    lost = next((name for name in names if not files.io.file_exists(files.layout.manifest(name))), None)
    if lost is not None and files.io.file_exists(path):
        name = replace(table.identifier, branch=files.layout.branch).written()
        repair = f"CALL sys.repair_table({literal(name)}) brings it and the catalog together"
        raise files.damaged(path, f"is not the catalog's and names {lost}, which {MISSING}", way_out=repair)


def _is_of_newer_schema(table: LakeTable, snapshot: Snapshot) -> bool:
    """Whether nothing else is wrong with it: what anybody made up must not keep the table from its maintenance."""
    return snapshot.schema_id > table.schema.id and fault_of_tag(table, snapshot, newer_schemas=True) is None


def tagged(files: TableFiles, names: Iterable[str], *, links_too: bool = False) -> Iterator[Snapshot]:
    """The snapshots of tags; raises `TableDamaged` for a file that tells none.

    What is no file of the table's, as a link that leads out of it or a pipe, is no tag of it: whoever laid it there must not keep the
    table from its maintenance. With ``links_too`` nothing is left out.
    """
    for name in names:
        if (tag := tag_in(files, name)) is not None:
            yield Snapshot.from_json(tag.snapshot)
            continue
        try:
            files.io.read(path := files.layout.tag_file(name))
        except FileNotFoundError:  # removed just now, or a link to nowhere
            continue
        except TableDamaged:
            if links_too:
                raise
            continue
        raise files.damaged(path, "is no tag", way_out=_over(files, name))


def _over(files: TableFiles, name: str) -> str:
    """What helps where a file of no tag that the catalog has tells none."""
    by_hand = "remove the file, where no client is about to write it"
    try:
        check_name(name, "tag")
    except InvalidName:
        return by_hand
    return f"{by_hand}, or CALL sys.create_tag({literal(files.name)}, {literal(name)}) puts a tag in its place"


def files_of_branch(table: LakeTable, branch: str) -> TableFiles:
    """The files of one of a table's branches, whether or not the catalog has it."""
    files = TableFiles(table.files.io, table.location, branch, name=table.files.name, allowed=table.files.reach.allowed)
    files.partition_types = table.files.partition_types
    return files
