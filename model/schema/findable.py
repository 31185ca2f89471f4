"""What a new table says so that Java's clients find its files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from model.errors import InvalidOption
from model.options.table import is_on
from model.schema.schema import CONNECTOR_KIND, Schema, other_kind
from model.schema.types import BinaryType, VarBinaryType

OLD_NAMES = "partition.legacy-name"


def findable(schema: Schema) -> Schema:
    """The schema of a table without files, with new names for the directories of partitions by bytes.

    By the old ones Java's clients, of every version, call such a directory after the place of the bytes in their memory: they write each
    file to another one and read none. Raises `InvalidOption` where the old ones are asked for.
    """
    if not _by_bytes(schema) or other_kind(schema.options) == CONNECTOR_KIND:
        return schema
    require_new_names(schema, schema.options)
    return replace(schema, options={**schema.options, OLD_NAMES: "false"})


def require_new_names(schema: Schema, options: Mapping[str, str]) -> None:
    """Raise `InvalidOption` where options ask for old names of the directories of partitions by bytes."""
    if is_on(options, OLD_NAMES) and (columns := _by_bytes(schema)):
        raise InvalidOption(
            f"Option '{OLD_NAMES}' = 'true' is not for partitions by bytes (column {columns[0]}): Paimon's Java clients would find none "
            "of their files. Leave it out."
        )


def _by_bytes(schema: Schema) -> list[str]:
    return [field.name for field in schema.partition_fields if isinstance(field.type, BinaryType | VarBinaryType)]
