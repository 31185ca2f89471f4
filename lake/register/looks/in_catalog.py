"""What the catalog has of a table that is looked at: the lines of its history, and what of its branches lies in files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from catalog import CatalogStore
from catalog.records import SnapshotRow, TagRow
from lake.register.looks.faults import Fault
from lake.register.looks.needed import Line
from lake.register.unknown_branches import unknown_branches
from lake.tables.handle import LakeTable
from model.identifier import MAIN_BRANCH
from model.snapshot import Snapshot
from model.text.sql_text import literal
from table.format.layout import TableLayout


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchMetadata:
    """What the catalog has of a branch, each in a file of its own."""

    branch: str
    schemas: Sequence[tuple[int, Mapping[str, Any]]]
    snapshots: Sequence[SnapshotRow]
    tags: Sequence[TagRow]


def lines_of(catalog: CatalogStore, table: LakeTable) -> tuple[list[Line], list[BranchMetadata]]:
    """All lines of a table as the catalog has them, and what each branch has of files of its own."""
    lines, metadata = [], []
    with catalog.consistent() as tx:
        for branch in [MAIN_BRANCH, *tx.branches.names(table.table_id)]:
            rows = tx.snapshots.history(table.table_id, branch)
            published = frozenset(row.snapshot_id for row in rows if row.published)
            lines.append(Line(branch=branch, snapshots=[Snapshot.from_json(row.body) for row in rows], published=published))
            tags = tx.tags.all(table.table_id, branch)
            lines += [Line(branch=branch, snapshots=[Snapshot.from_json(row.snapshot)]) for row in tags]
            row = tx.tables.find(replace(table.identifier, branch=branch))
            written = -1 if row is None else row.published_schema_id  # those of a new branch are written when it is first opened
            schemas = [(schema_id, body) for schema_id, body in tx.tables.schemas(table.table_id, branch) if schema_id <= written]
            metadata.append(BranchMetadata(branch=branch, schemas=schemas, snapshots=rows, tags=tags))
    return lines, metadata


def of_unknown_branches(catalog: CatalogStore, table: LakeTable) -> Iterator[Fault]:
    """Branches that only the files have: the catalog is older than they are."""
    with catalog.reading() as tx:
        names = unknown_branches(tx, table.files.io, table.table_id, table.location)
    for name in names:
        path = TableLayout(table.location, name).branch_dir
        problem = f"is a branch that the catalog does not have; CALL sys.repair_table({literal(table.identifier.written())}) registers it"
        yield Fault(branch=name, snapshot_id=None, partition="", file=path, rows=None, problem=problem)
