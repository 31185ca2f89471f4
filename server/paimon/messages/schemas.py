"""Schemas of tables, from the protocol's JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from model.errors import InvalidOption, InvalidSchema
from model.options.rules import FILE_FORMATS, check_contradictions
from model.options.table import TABLE_OPTIONS, keyed_only
from model.schema.lengths import check_lengths
from model.schema.schema import FieldIds, Schema, check_schema, every_field, highest_id, other_kind
from model.schema.types import Field
from server.paimon.messages.wire import reading, string_list
from server.sql.bodies import strings

_KINDS = ("format-table", "materialized-table", "object-table", "lance-table", "iceberg-table")
"""Kinds of tables that Paimon's clients run and that are only described here."""


def schema_of(body: dict[str, Any]) -> tuple[Schema, str | None]:
    """The first version of a schema, with the client's field ids, and where an external table is to lie.

    Raises for what no append table can have, by name; tables of other kinds are taken as they are.
    """
    options = strings(body, "options")
    path = options.pop("path", None)
    with reading("The schema"):
        fields = _numbered(tuple(Field.from_json(field) for field in body["fields"]))
        comment = body.get("comment")
        if comment is not None and not isinstance(comment, str):
            raise ValueError("the comment must be a string")
    partition_keys = _keys(options, "partition", string_list(body, "partitionKeys"))
    primary_keys = _keys(options, "primary-key", string_list(body, "primaryKeys"))
    schema = Schema(
        id=0,
        fields=fields,
        highest_field_id=highest_id(fields),
        partition_keys=partition_keys,
        primary_keys=primary_keys,
        options=options,
        comment=comment,
    )
    ids = [field.id for field in every_field(fields)]
    if len(set(ids)) != len(ids):
        raise InvalidSchema("Two fields of the schema have the same id; each has its own, nested ones too.")
    check_harmless(options)
    if (kind := other_kind(options)) is None:
        check_options(options)
    elif kind not in _KINDS:
        raise InvalidOption(f"Option 'type' = '{kind}' is no kind of a table; there are table, {', '.join(_KINDS)}.")
    check_schema(schema)
    if kind is None:
        check_contradictions(options, options)
    check_lengths(schema)
    return schema, path


def _numbered(fields: tuple[Field, ...]) -> tuple[Field, ...]:
    """Fields with ids of their own: pypaimon 1.4 numbers the fields of each ROW from 0, and no file of a new table names one yet."""
    columns, every = ({field.id for field in some} for some in (fields, tuple(every_field(fields))))
    if len(columns) < len(fields) or len(every) == len(tuple(every_field(fields))):
        return fields
    ids = FieldIds()
    return tuple(ids.number_column(field) for field in fields)


def _keys(options: dict[str, str], name: str, keys: list[str]) -> tuple[str, ...]:
    """Columns an option names belong into the schema's own keys."""
    text = options.pop(name, None)
    if text is None:
        return tuple(keys)
    if keys:
        raise InvalidSchema(f"The option '{name}' repeats what the schema says; leave one of them out.")
    return tuple(part.strip() for part in text.split(","))


def check_harmless(options: Mapping[str, str]) -> None:
    """Raise `InvalidOption` for keys by which a table would make its readers run, reach or believe something."""
    for key in options:
        if reason := TABLE_OPTIONS.danger(key):
            raise InvalidOption(f"Option '{key}' is not kept: {reason} Set it in the client's own configuration.")


def check_options(options: Mapping[str, str]) -> None:
    """Raise `InvalidOption` for what only tables with a primary key have, or no client loads; keys nobody here knows are kept."""
    if (name := options.get("file.format", "parquet")).lower() not in FILE_FORMATS:
        raise InvalidOption(f"Option 'file.format' = '{name}' is no format of Paimon's; there are {', '.join(FILE_FORMATS)}.")
    for key in options:
        if key.startswith("data-file.external-paths"):
            raise InvalidOption(
                f"Option '{key}' is not available: files of a table lie in its own directory, or where it was registered or migrated from."
            )
        if keyed_only(key):
            raise InvalidOption(
                f"Option '{key}' is not available: it belongs to tables with a primary key, and these are append tables, which have none."
            )
