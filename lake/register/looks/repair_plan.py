"""What a repair is to do about a branch's snapshots: which it registers, which files it sets aside, and what is kept by tags."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

from catalog import CatalogTransaction
from catalog.records import SnapshotRow
from lake.commit.ahead import is_no_more
from lake.register.looks.cut_off import cut_off, goes_on
from lake.register.readable_line import Line, line_of_files, read_snapshot, readable_line
from lake.register.whole import is_readable, require_readable
from lake.tables.handle import LakeTable
from model.errors import LakeError, TableDamaged
from model.snapshot import Snapshot
from model.text.file_name import file_name
from table.format.manifests.lists import LIST_PREFIX
from table.format.snapshot_file import same_snapshot
from table.format.store import TableFiles


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is to be done."""

    registered: Sequence[Snapshot] = ()
    aside: Sequence[int] = ()
    history: Sequence[Snapshot] | None = None
    """All the catalog shall know of the branch; None where what it knows stays."""
    keep: Sequence[Snapshot] = ()
    """What can be read and would go out of reach: each gets a tag."""
    back_from: int | None = None
    back: Mapping[int, str] = field(default_factory=dict)
    """Where registered snapshots lie that a repair had moved, and that was cut off then."""


def plan_of(files: TableFiles, history: Sequence[SnapshotRow], line: Line | None, *, newest_schema: int) -> Plan:
    """``line``: where the files went another way than the catalog, which is older; what it has besides is kept by tags."""
    if line is not None:
        return _along(line, history)
    latest = Snapshot.from_json(history[-1].body) if history else None
    top = latest.id if latest else 0
    beyond = [snapshot_id for snapshot_id in files.snapshot_ids() if snapshot_id > top]
    if latest is None or is_readable(files, latest, contradictions=True):
        replaced = _replaced(files, history)
        moved = cut_off(files, top, beyond)
        registered = [] if replaced else _extension(files, history, moved, newest_schema=newest_schema)
        last = registered[-1].id if registered else top
        rest = [snapshot_id for snapshot_id in beyond if snapshot_id > last]
        if rest and rest[0] > last + 1 and not replaced and not moved:
            line = readable_line(files, history, newest_schema=newest_schema)
        if line is None or line.snapshots[-1].id <= last:
            aside = [*replaced, *rest]
            readable = (each for i in reversed(aside) if (each := read_snapshot(files, i)) is not None and is_readable(files, each))
            back = {snapshot.id: moved[snapshot.id] for snapshot in registered if snapshot.id in moved}
            return Plan(registered=registered, aside=aside, keep=[*islice(readable, 1)], back=back)
        # Of what lay between nothing is left: it expired or was lost, so the files know a later time than the catalog does.
    elif (line := readable_line(files, history, newest_schema=newest_schema)) is None:
        raise _nothing_readable(files, latest)
    return _along(line, history)


def other_line(tx: CatalogTransaction, table: LakeTable, history: Sequence[SnapshotRow], newest_schema: int) -> Line | None:
    """The line of the files where they went another way than the catalog; one that we left ourselves is none."""
    line = line_of_files(table.files, history, newest_schema=newest_schema)
    return None if line is None or is_no_more(tx, table.table_id, table.files, line.snapshots[-1]) else line


def _along(line: Line, history: Sequence[SnapshotRow]) -> Plan:
    known, top = {row.snapshot_uuid for row in history}, history[-1].snapshot_id if history else 0
    back_from = top if line.snapshots[-1].id < top else None
    registered = [snapshot for snapshot in line.snapshots if snapshot.key not in known]
    return Plan(registered=registered, aside=line.aside, history=line.snapshots, keep=line.beside, back_from=back_from)


def _nothing_readable(files: TableFiles, latest: Snapshot) -> TableDamaged:
    """What is lost of the newest snapshot where nothing is left to go back to; what else it has can be had only where its lists are."""
    path, problem = files.layout.manifest(latest.base_manifest_list), "could not be read"
    try:
        require_readable(files, latest)
    except TableDamaged as damage:
        path, problem = damage.file, damage.problem
    except LakeError as failure:  # as `is_readable`, which has asked the store
        problem = f"could not be read ({failure.message.rstrip('.')})"
    name = file_name(path)
    no_rest = name.startswith(LIST_PREFIX) or name == latest.index_manifest
    problem += ": its snapshot cannot be read, and no other snapshot can; nothing was changed"
    return files.damaged(path, problem, snapshot_id=latest.id, way_out="" if no_rest else None)


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


def _extension(files: TableFiles, history: Sequence[SnapshotRow], moved: Mapping[int, str], *, newest_schema: int) -> list[Snapshot]:
    """The foreign snapshots that go on, without a gap, where ours end; ``moved`` ones lie elsewhere."""
    snapshots: list[Snapshot] = []
    latest = Snapshot.from_json(history[-1].body) if history else None
    keys = {row.snapshot_uuid for row in history}
    while (after := read_snapshot(files, following := (latest.id if latest else 0) + 1, moved.get(following))) is not None:
        # A schema the catalog does not know cannot be read, and a commit that it has at another id comes no second time.
        if after.schema_id > newest_schema or after.key in keys or not goes_on(files, latest, after):
            break
        snapshots.append(after)
        keys.add(after.key)
        latest = after
    return snapshots
