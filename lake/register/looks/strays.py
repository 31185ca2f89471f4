"""Files beside those that the catalog knows which tell nothing: what needs whatever they name is not known, so nothing is removed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial

from catalog import CatalogStore
from lake.register.looks.faults import Fault
from lake.register.unknown_branches import files_of_branch, tagged
from lake.tables.handle import LakeTable
from lake.tables.tag_files import stored_tags
from model.errors import TableDamaged
from table.format.consumers import read_consumers
from table.format.store import TableFiles


def of_strays(catalog: CatalogStore, table: LakeTable, branches: Iterable[str]) -> Iterator[Fault]:
    """Files of tags, snapshots and consumers that clients left torn, with what helps; those of the catalog's own are held against it."""
    for branch in branches:
        files = files_of_branch(table, branch)
        with catalog.reading() as tx:
            tags = {tag.name for tag in tx.tags.all(table.table_id, branch)}
            newest = tx.snapshots.latest(table.table_id, branch)
        for look in _looks(files, tags, 0 if newest is None else newest.snapshot_id):
            try:
                look()
            except TableDamaged as damage:
                problem = damage.problem if damage.way_out is None else f"{damage.problem}; {damage.way_out}"
                yield Fault(branch=branch, snapshot_id=None, partition="", file=damage.file, rows=None, problem=problem)


def _looks(files: TableFiles, tags: set[str], newest: int) -> Iterator[Callable[[], object]]:
    for name in sorted(stored_tags(files).keys() - tags):
        yield partial(list, tagged(files, [name]))
    for snapshot_id in (number for number in files.snapshot_ids() if number > newest):
        yield partial(files.read_snapshot, snapshot_id)
    yield partial(read_consumers, files, settled=True)
