"""Which snapshot a batch read means, and with which columns."""

from __future__ import annotations

from collections.abc import Sequence

from model.errors import InvalidOption
from model.schema.replaced import as_it_was, means_other_columns
from model.schema.schema import Schema
from model.snapshot import Snapshot
from pyspark_sluice.catalog import RemoteTable
from pyspark_sluice.options import SourceOptions
from table.scan.time_travel import BatchScan, Versions, resolve


def schema_of(table: RemoteTable, options: SourceOptions) -> Schema:
    """The schema of the snapshot that the options name; the table's present one where they name none."""
    schema_id = resolve(_Remote(table), options.scan, table.schema, zone=options.zone).schema_id
    if schema_id is None or schema_id == table.schema.id:
        return table.schema
    return as_it_was(table.files.read_schema(schema_id), table.schema)


def scan_of(table: RemoteTable, options: SourceOptions, schema: Schema) -> BatchScan:
    """What is read by a schema; raises `InvalidOption` where columns of then would be NULL, as another has their name by now."""
    scan = resolve(_Remote(table), options.scan, schema, zone=options.zone)
    if scan.schema_id is None or scan.schema_id == schema.id or scan.snapshot is None:
        return scan
    if means_other_columns(table.files.read_schema(scan.schema_id), schema):
        raise InvalidOption(
            f"Table {table.identifier} had other columns of the same names at snapshot {scan.snapshot.id}. The option 'scan.version' = "
            f"'{scan.snapshot.id}', or a tag with 'scan.tag-name', reads it with the columns of then."
        )
    return scan


class _Remote(Versions):
    """A table's snapshots over the protocol."""

    def __init__(self, table: RemoteTable) -> None:
        self.table = str(table.identifier)
        self._table = table

    def latest(self) -> Snapshot | None:
        return self._table.latest()

    def find(self, snapshot_id: int) -> Snapshot | None:
        return self._table.version(str(snapshot_id))

    def history(self) -> Sequence[Snapshot]:
        return self._table.history()

    def tags(self) -> dict[str, Snapshot]:
        return self._table.tags()

    def find_tag(self, name: str) -> Snapshot | None:
        return self._table.tag(name)
