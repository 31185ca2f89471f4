"""Snapshots that a repair has moved out of the way and that was cut off before it had moved all: what is left is no line with a gap.

Up to 0.1 a repair moved the oldest first, so that those left seemed to lie behind snapshots that had expired.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from lake.register.looks.faults import Fault
from lake.register.readable_line import read_snapshot
from lake.tables.handle import LakeTable
from model.errors import LakeError
from model.snapshot import Snapshot
from model.text.file_name import file_name
from model.text.sql_text import literal
from model.text.whole_number import whole_number
from table.format.io.storage_errors import told_by_the_store
from table.format.manifests.entries import ManifestEntry, ManifestFile
from table.format.store import TableFiles
from table.scan.planning.live import Key, settle


def cut_off(files: TableFiles, top: int, beyond: Sequence[int]) -> Mapping[int, str]:
    """Where the snapshots lie, by id, that are missing among those ``beyond`` the catalog's newest; nothing where no repair has moved them.

    One repair has moved all of them, after what is left was committed, and that goes on from the last of them.
    Raises what a store says that does not give a file.
    """
    last = top
    while last + 1 in beyond:
        last += 1
    first = next((snapshot_id for snapshot_id in beyond if snapshot_id > last), None)
    left = None if first is None else read_snapshot(files, first)
    if first is None or left is None:
        return {}
    root = files.layout.set_aside_root()
    for directory in sorted((status.path for status in files.io.list(root) if status.is_dir), reverse=True):
        moved_millis = whole_number(file_name(directory))
        if moved_millis is None or moved_millis < left.time_millis:
            continue
        there = {file_name(status.path) for status in files.io.list(directory)}
        if first - last - 1 > len(there):
            continue
        names = {snapshot_id: files.layout.snapshot_name(snapshot_id) for snapshot_id in range(last + 1, first)}
        if there.issuperset(names.values()):
            moved = {snapshot_id: files.layout.reach.named(directory, name) for snapshot_id, name in names.items()}
            before = read_snapshot(files, first - 1, moved[first - 1])
            if before is not None and goes_on(files, before, left):
                return moved
    return {}


def cut_off_faults(table: LakeTable) -> Iterator[Fault]:
    """A repair of the table's branch that was cut off, as a fault; raises what the store says."""
    files, branch, latest = table.files, table.identifier.branch, table.latest()
    top = latest.id if latest else 0
    moved = cut_off(files, top, [snapshot_id for snapshot_id in files.snapshot_ids() if snapshot_id > top])
    for snapshot_id, path in moved.items():
        statement = f"CALL sys.repair_table({literal(table.identifier.written())})"
        problem = f"was moved here by a repair that was cut off, and later snapshots of its line are in place; {statement} ends it"
        yield Fault(branch=branch, snapshot_id=snapshot_id, partition="", file=path, rows=None, problem=problem)


def goes_on(files: TableFiles, before: Snapshot | None, after: Snapshot) -> bool:
    """Whether a snapshot's base holds exactly the files its predecessor left, and its own manifests can be read.

    Where the predecessor's contradict each other its base may, too, which goes on from it all the same; what it changes fits.
    """
    left, live = dict[Key, ManifestEntry](), dict[Key, ManifestEntry]()
    try:
        contradicts = bool(settle(left, _entries(files, files.manifests_of(before) if before is not None else ())))
        if settle(live, _entries(files, files.base_manifests(after))) and not contradicts:
            return False
        return live.keys() == left.keys() and not settle(live, files.delta_entries(after))
    except (LakeError, ValueError, KeyError, EOFError) as problem:  # manifests that are missing, or none: not to be registered
        if told_by_the_store(problem):
            raise
        return False


def _entries(files: TableFiles, manifests: Sequence[ManifestFile]) -> Iterator[ManifestEntry]:
    return (entry for meta in manifests for entry in files.manifest(meta))
