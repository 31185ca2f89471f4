"""An open table: what the catalog says of it, and the hand on its files."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from uuid import UUID

from catalog import CatalogStore
from lake.commit.publish import Publisher
from lake.commit.write_context import Write
from model.identifier import Identifier
from model.schema.replaced import as_it_was
from model.schema.schema import Schema
from model.snapshot import Snapshot
from table.format.store import TableFiles


@dataclass(frozen=True, slots=True, kw_only=True)
class LakeTable:
    """A table as it was when it was opened; its snapshots are asked for anew each time."""

    identifier: Identifier
    table_id: UUID
    schema: Schema
    location: str
    files: TableFiles
    read_latest: Callable[[UUID, TableFiles, str], Snapshot | None]
    remembered: bool = False
    """True where the catalog was not asked: a commit raises `TableChanged` where it is not the table's newest schema any more."""
    left_behind: Callable[[], None] = lambda: None
    """Called when a write of the table has failed: where the table is gone, what it made of directories and metadata is garbage."""

    def __post_init__(self) -> None:
        self.files.partition_types = [field.type for field in self.schema.partition_fields]

    def latest(self) -> Snapshot | None:
        """The newest snapshot, its file in place; None for a table never written."""
        return self.read_latest(self.table_id, self.files, self.identifier.branch)

    def write(self) -> Write:
        """The owner of files written for the table: ``with table.write.writer() as write:``; see `Write`."""
        return Write(self.files, self.schema, self.left_behind)

    def schema_at(self, schema_id: int) -> Schema:
        """The schema a data file was written with."""
        return self.schema if schema_id == self.schema.id else self.files.read_schema(schema_id)

    def at(self, schema_id: int | None) -> LakeTable:
        """The table as snapshots of a version of its schema are read; itself for the present one, and for None."""
        if schema_id is None or schema_id == self.schema.id:
            return self
        return replace(self, schema=as_it_was(self.schema_at(schema_id), self.schema))


def require_newest(publisher: Publisher, *tables: LakeTable) -> None:
    """Raise `TableDiverged` where files of one are ahead of the catalog, which does not know all that a change would take away."""
    for table in tables:
        publisher.require_newest(table.table_id, table.files, table.identifier)


def schemas_of(catalog: CatalogStore, table_id: UUID, branch: str) -> Mapping[int, Schema]:
    """All versions the catalog has of a table's schema, or of a branch's."""
    with catalog.reading() as tx:
        return {schema_id: Schema.from_json(body) for schema_id, body in tx.tables.schemas(table_id, branch)}
