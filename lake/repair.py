"""CALL sys.repair_table: bring a table written past the catalog and the catalog together again.

Foreign snapshots that go on where ours end are adopted. All others are moved to ``_diverged`` inside the table, where no
reader looks and nothing is lost, and our own take their place.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from catalog import CatalogStore
from catalog.records import SnapshotRow
from lake.commit.publish import Publisher
from lake.register.operations import rewrite_operations
from lake.table import LakeTable
from model.errors import LakeError, TableNotExist
from model.snapshot import Snapshot
from table.live import merge_entries
from table.store import TableFiles, same_snapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class Repair:
    """What a repair did, or would do."""

    adopted: tuple[int, ...]
    """Foreign snapshots that are the catalog's now."""
    set_aside: tuple[int, ...]
    """Foreign snapshots that contradict the catalog's."""
    directory: str
    """Where the files set aside lie."""


def repair(catalog: CatalogStore, publisher: Publisher, table: LakeTable, *, dry_run: bool) -> Repair:
    """Adopt or set aside every snapshot file the catalog did not decide; commits wait meanwhile.

    Files are moved before the decision, so a crash in between leaves a table that a second repair finishes.
    """
    files, branch = table.files, table.identifier.branch
    with catalog.transaction() as tx:
        row = tx.tables.lock(table.identifier)
        if row.table_id != table.table_id or row.location != table.location:
            raise TableNotExist(str(table.identifier))
        history = tx.snapshots.history(table.table_id, branch)
        latest = Snapshot.from_json(history[-1].body) if history else None
        top = latest.id if latest else 0
        replaced = _replaced(files, history)
        beyond = [i for i in files.snapshot_ids() if i > top]
        adopted = [] if replaced else _extension(files, latest, newest_schema=row.schema_id)
        aside = [*replaced, *beyond[len(adopted) :]]
        directory = f"{table.location}/_diverged/{time.time_ns() // 1_000_000}"
        plan = Repair(adopted=tuple(s.id for s in adopted), set_aside=tuple(aside), directory=directory)
        if dry_run:
            return plan
        for snapshot_id in aside:
            files.io.rename(files.layout.snapshot_file(snapshot_id), f"{directory}/snapshot-{snapshot_id}")
        base = latest.key if latest else None
        for snapshot in adopted:
            tx.snapshots.advance(table.table_id, branch, base=base, snapshot_id=snapshot.id, uuid=snapshot.key, body=snapshot.to_json())
            base = snapshot.key
        tx.tables.set_diverged(table.table_id, None)
    publisher.catch_up(table.table_id, files, branch)
    rewrite_operations(files, adopted)
    if newest := adopted[-1].id if adopted else top:
        with files.snapshots() as place:
            files.write_hints(newest, place)
    return plan


def _replaced(files: TableFiles, history: Sequence[SnapshotRow]) -> list[int]:
    """Decided snapshots in whose place somebody else's file lies: only those whose publication is not on record, and the latest."""
    found = []
    for row in history:
        if row.published and row is not history[-1]:
            continue
        if not files.io.exists(files.layout.snapshot_file(row.snapshot_id)):
            continue
        lying = _read(files, row.snapshot_id)
        if lying is None or not same_snapshot(lying, Snapshot.from_json(row.body)):
            found.append(row.snapshot_id)
    return found


def _extension(files: TableFiles, latest: Snapshot | None, *, newest_schema: int) -> list[Snapshot]:
    """The foreign snapshots that go on, without a gap, where ours end."""
    found: list[Snapshot] = []
    while (after := _read(files, (latest.id if latest else 0) + 1)) is not None:
        # A schema the catalog does not know cannot be read.
        if after.schema_id > newest_schema or not _goes_on(files, latest, after):
            break
        found.append(after)
        latest = after
    return found


def _goes_on(files: TableFiles, before: Snapshot | None, after: Snapshot) -> bool:
    """Whether a snapshot's base holds exactly the files its predecessor left, and its own manifests can be read."""
    try:
        base = [entry for meta in files.manifest_list(after.base_manifest_list) for entry in files.manifest(meta.file_name)]
        based_on = {entry.key() for entry in merge_entries(base, table=files.name)}
        list(files.live_entries(after))
        return based_on == {entry.key() for entry in files.live_entries(before)}
    except (LakeError, ValueError, KeyError, EOFError):  # manifests that are missing or no manifests at all: not to be adopted
        return False


def _read(files: TableFiles, snapshot_id: int) -> Snapshot | None:
    try:
        snapshot = files.read_snapshot(snapshot_id)
    except (ValueError, KeyError, TypeError, AttributeError):  # not JSON, or not a snapshot
        return None
    return snapshot if snapshot is not None and snapshot.id == snapshot_id else None
