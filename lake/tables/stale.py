"""Files of what is no more: on record with the decision that ended it, and removed once that stands (`architecture.md`)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from catalog import CatalogTransaction
from catalog.records import TagRow
from lake.commit.decided import follow
from lake.commit.publish import Publisher
from lake.tables.handle import LakeTable
from table.format.store import TableFiles


def remove_stale(publisher: Publisher, table: LakeTable) -> bool:
    """Remove the files of what is no more, once that is decided; False where that is still to be done."""
    remove = partial(publisher.remove_stale, table.table_id, table.files)
    return follow(remove, f"Files of what {table.identifier} had are still there")


def stale_file(tx: CatalogTransaction, table: LakeTable, path: str, snapshot: Mapping[str, Any]) -> None:
    """Remember the file of a snapshot or tag that is no more."""
    tx.stale.add(table.table_id, *stale_snapshot(table.files, path, snapshot))


def stale_tag(tx: CatalogTransaction, table: LakeTable, files: TableFiles, tag: TagRow) -> None:
    """Remember the file of a tag that is no more; one that was never written for it is another tag's of before, and goes at once.

    It would be taken for a tag that a client made, of a snapshot whose files may be on their way out. The caller holds the table's row.
    """
    path = files.layout.tag_file(tag.name)
    if not tag.published and tx.kept:
        files.io.delete(path)
    stale_file(tx, table, path, tag.snapshot)


def stale_snapshot(files: TableFiles, path: str, snapshot: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """The file of a snapshot or tag as it is remembered; its delta manifest list has a name no other has."""
    return files.layout.below(path), {"deltaManifestList": snapshot["deltaManifestList"]}


def stale_schema(files: TableFiles, schema_id: int, body: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """The file of a version of a schema as it is remembered."""
    return files.layout.below(files.layout.schema_file(schema_id)), {"id": schema_id, "timeMillis": body.get("timeMillis")}
