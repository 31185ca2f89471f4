"""A table that is replaced: its columns, where its files lie, and whether files of one version of a schema can be read by another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from model.errors import InvalidSchemaChange
from model.options.deletion_vectors import ENABLED as DELETION_VECTORS
from model.options.table import is_on
from model.schema.schema import FieldIds, Schema
from model.schema.types import Field

REPLACE_TABLE = "REPLACE TABLE"
"""The operation of the snapshot by which a table of rows is replaced."""

_PLACING = {
    "partition.default-name": "__DEFAULT_PARTITION__",
    "partition.legacy-name": "true",
    "data-file.path-directory": "",
    "index-file-in-data-file-dir": "false",
}
"""Options by which the directories of data files and of deletion vectors are found, and what counts where one is not there."""
_BUCKETS = ("bucket", "bucket-key", "bucket-function.type")
_SWITCHES = ("partition.legacy-name", "index-file-in-data-file-dir")
_TEXTS = ("CHAR", "VARCHAR")


def replacing_fields(before: Schema, fields: Sequence[Field]) -> tuple[tuple[Field, ...], int]:
    """The columns that take the place of a table's, and the highest id given out by then.

    A column of a name and type that the table has stays that column, as rules that name it mean it still; any other, nested ones too, gets
    an id that none has had: by that of another column, files that were written before would show their values as its own.
    """
    known, ids = {field.name: field for field in before.fields}, FieldIds(before.highest_field_id)
    placed = []
    for field in fields:
        old = known.get(field.name)
        if old is not None and FieldIds().number(old.type) == FieldIds().number(field.type):  # the ids of nested ones aside
            placed.append(replace(field, id=old.id, type=old.type))
        else:
            placed.append(ids.number_column(field))
    return tuple(placed), ids.highest


def partitions_otherwise(before: Schema, schema: Schema) -> bool:
    """Whether partitions of one version are not read by another: they are kept as bytes of their columns' types, without these."""
    return before.partition_keys != schema.partition_keys or any(
        _partition_layout(old) != _partition_layout(new) for old, new in zip(before.partition_fields, schema.partition_fields, strict=True)
    )


def _partition_layout(field: Field) -> object:
    return _TEXTS if field.type.root in _TEXTS else field.type.with_nullable(True)


def means_other_columns(written: Schema, present: Schema) -> bool:
    """Whether rows written by one version would lose values where they are read by another that has a column of their name, or have none.

    As after a replacement between them; not after a RENAME, nor where a column was dropped.
    """
    old, new = ({field.name: field.id for field in schema.fields} for schema in (written, present))
    new_ids = set(new.values())
    return new_ids.isdisjoint(old.values()) or any(field_id not in new_ids and name in new for name, field_id in old.items())


def as_it_was(before: Schema, present: Schema) -> Schema:
    """An earlier version by which rows of then are read: its own columns, partitions and buckets, and the options of now."""
    buckets = {key: before.options[key] for key in _BUCKETS if key in before.options}
    return replace(before, options={key: value for key, value in present.options.items() if key not in _BUCKETS} | buckets)


def replacing_options(before: Schema, options: Mapping[str, str], *, table: str) -> dict[str, str]:
    """The options that take the place of a table's: those by which its files lie stay, as snapshots, tags and branches are read by them.

    So does the one by which other clients look for deletion vectors: they read earlier snapshots, too, by the present options.

    Raises `InvalidSchemaChange` where one of them is given another value.
    """
    placed = dict(options)
    if is_on(before.options, DELETION_VECTORS) and not is_on(placed, DELETION_VECTORS):
        if DELETION_VECTORS in options:
            raise InvalidSchemaChange(
                f"Table {table} cannot be replaced by one with '{DELETION_VECTORS}' = 'false': other Paimon clients would read "
                "deleted rows of its earlier snapshots again. Leave the option out, or drop the table and make it anew."
            )
        placed[DELETION_VECTORS] = before.options[DELETION_VECTORS]
    for key in _PLACING:
        here = before.options.get(key)
        if key not in options:
            placed |= {} if here is None else {key: here}
        elif _lie(before, key) != _lie(replace(before, options=options), key):
            said = f"has '{here}'" if here is not None else "does not have it"
            raise InvalidSchemaChange(
                f"Table {table} cannot be replaced by one with '{key}' = '{options[key]}': its files lie by that option, and it {said}. "
                "Leave the option out, or drop the table and make it anew."
            )
    return placed


def _lie(schema: Schema, key: str) -> str | None:
    """What an option says of where files lie, nothing of partitions where there are none."""
    if key.startswith("partition.") and not schema.partition_keys:
        return None
    text = schema.options.get(key, _PLACING[key])
    return text.lower() if key in _SWITCHES else text


def routes_otherwise(written: Schema, present: Schema) -> bool:
    """Whether rows were given their buckets by other columns, or another function, than by another version of the schema."""
    if max(written.bucket, present.bucket) <= 1:
        return (written.bucket > 0) != (present.bucket > 0)
    return _routing(written) != _routing(present)


def _routing(schema: Schema) -> object:
    """By what rows get their buckets; how many these are is told by each file."""
    if schema.bucket <= 0:
        return None
    keys = [(field.id, field.type.with_nullable(True)) for field in schema.bucket_fields]
    return keys, schema.options.get("bucket-function.type", "default").lower()


def lays_otherwise(written: Schema, present: Schema) -> bool:
    """Whether files of one version lie in other directories or buckets than those of another; only after a replacement between them."""
    return any(_lie(written, key) != _lie(present, key) for key in _PLACING) or routes_otherwise(written, present)
