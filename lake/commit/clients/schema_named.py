"""Whether the schema that a client's snapshot names reads what it holds."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping

from catalog.records import HeadRow
from lake.commit.clients.merged import told
from model.catalog_errors import InvalidCommit
from model.errors import LakeError
from model.identifier import Identifier
from model.schema.replaced import lays_otherwise
from model.schema.schema import Schema
from model.snapshot import CommitKind, Snapshot
from model.text.sql_text import literal
from table.format.store import TableFiles


def check_schema(table: Identifier, head: HeadRow, snapshot: Snapshot) -> None:
    """Raise where nobody could read the snapshot by its schema; an OVERWRITE may go back to an older one, as `rollbackToAsLatest` does."""
    if snapshot.schema_id < (head.snapshot_schema_id or 0) and snapshot.commit_kind is not CommitKind.OVERWRITE:
        raise InvalidCommit(
            f"Snapshot {snapshot.id} of {table} has the schema id {snapshot.schema_id}, and the snapshot before it has "
            f"{head.snapshot_schema_id}: a schema id never shrinks. Load the table again and write with its present schema."
        )
    if snapshot.schema_id > head.schema_id:
        raise InvalidCommit(f"Snapshot {snapshot.id} of {table} has the schema id {snapshot.schema_id}; the newest is {head.schema_id}.")


def check_older_schema(table: Identifier, files: TableFiles, snapshot: Snapshot) -> None:
    """Raise where a snapshot of an older schema holds a file of a newer one: a branch of it would not have the schema its rows need."""
    newest = max((entry.file.schema_id for entry in files.live_entries(snapshot)), default=0)
    if newest > snapshot.schema_id:
        raise InvalidCommit(
            f"Snapshot {snapshot.id} of {table} has the schema id {snapshot.schema_id}, and holds files of schema {newest}: an OVERWRITE "
            "goes back to an older schema with files of it alone. Load the table again and write with its present schema."
        )


def check_placed(table: Identifier, versions: Mapping[int, Schema], present: Schema) -> None:
    """Raise for rows that lie where the present schema does not look for them: a replacement changed how rows get their place."""
    if elsewhere := [number for number, schema in versions.items() if lays_otherwise(schema, present)]:
        raise InvalidCommit(
            f"Version {elsewhere[0]} of the schema of {table} was replaced, and rows lie in other directories or buckets now. Load the "
            "table again and write with its present schema."
        )


def check_replaced(
    table: Identifier,
    files: TableFiles,
    snapshot: Snapshot,
    replaced: Mapping[int, Schema],
    present: Schema,
    kept: Callable[[], Iterable[tuple[str, Snapshot]]],
) -> None:
    """Raise for a commit by versions of the schema that have other columns of the present one's names, whose values nobody would read.

    ``kept`` gives the snapshots and tags of the table, with what means each in a CALL.

    Java's `rollbackToAsLatest` is taken: its rows have been read without these values since. Not where the table is another one altogether,
    or has columns that are NOT NULL and that the rows have nothing for: they would be no rows of it.
    """
    meant = _as_one_before(files, snapshot, kept()) if snapshot.commit_kind is CommitKind.OVERWRITE else None
    if meant is None:
        raise InvalidCommit(
            f"Version {min(replaced)} of the schema of {table} was replaced, and its columns are others now. Load the table again and "
            "write with its present schema."
        )
    required = {field.id for field in present.fields if not field.type.nullable}
    shared = {field.id for field in present.fields}
    for version, schema in replaced.items():
        ids = {field.id for field in schema.fields}
        if shared.isdisjoint(ids) or not required <= ids:
            raise InvalidCommit(
                f"{table} cannot go back to {meant} and keep its present schema: the table was replaced since, and the "
                f"rows of version {version} of the schema have no values for its columns. "
                f"CALL sys.rollback_to({literal(table.written())}, {meant}) goes back with the schema, and the snapshots after it go."
            )


def _as_one_before(files: TableFiles, snapshot: Snapshot, kept: Iterable[tuple[str, Snapshot]]) -> str | None:
    """What means the snapshot or tag that has the same schema, files and deletion vectors; None where there is none that can be read."""

    def held(one: Snapshot) -> dict[object, object]:
        return {entry.key(): told(entry) for entry in files.live_entries(one)}

    def numbers(one: Snapshot) -> tuple[object, ...]:
        return one.schema_id, one.total_record_count, one.index_manifest

    wanted: dict[object, object] | None = None
    for meant, one in kept:
        if numbers(one) == numbers(snapshot):
            with contextlib.suppress(LakeError):
                wanted = held(snapshot) if wanted is None else wanted
                if held(one) == wanted:
                    return meant
    return None
