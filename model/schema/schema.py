"""A table's schema, and the rules a schema of an append table must keep (`paimon-append.md` §2)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from model.errors import ColumnNotExist, InvalidName, InvalidOption, InvalidSchema, nearest
from model.options.clustering import check_clustering
from model.options.file_index import check_file_indexes
from model.options.table import TABLE_OPTIONS
from model.schema.lengths import check_lengths
from model.schema.types import ArrayType, AtomicType, DataType, Field, MapType, MultisetType, RowType, parse_type

SCHEMA_VERSION = 3
_RESERVED_NAMES = frozenset({"_SEQUENCE_NUMBER", "_VALUE_KIND", "_LEVEL", "rowkind", "_ROW_ID"})
_RESERVED_PREFIX = "_KEY_"
_FIRST_SYSTEM_ID = 2**31 - 1 - 100_000
"""Field ids from here up belong to Paimon's system columns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Schema:
    """One version of a table's schema, as a schema file holds it."""

    id: int
    fields: tuple[Field, ...]
    highest_field_id: int
    partition_keys: tuple[str, ...] = ()
    primary_keys: tuple[str, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)
    comment: str | None = None
    time_millis: int = 0
    version: int = SCHEMA_VERSION

    def to_json(self) -> dict[str, Any]:
        """The schema as Paimon writes it; an absent comment is left out, since Java reads null as text."""
        body: dict[str, Any] = {
            "version": self.version,
            "id": self.id,
            "fields": [f.to_json() for f in self.fields],
            "highestFieldId": self.highest_field_id,
            "partitionKeys": list(self.partition_keys),
            "primaryKeys": list(self.primary_keys),
            "options": dict(self.options),
        }
        if self.comment is not None:
            body["comment"] = self.comment
        body["timeMillis"] = self.time_millis
        return body

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> Schema:
        """Read a schema file; old versions get the defaults of their time."""
        version = int(body.get("version") or 1)
        options = {str(k): str(v) for k, v in (body.get("options") or {}).items()}
        if version <= 1:
            options.setdefault("bucket", "1")
        if version <= 2:
            options.setdefault("file.format", "orc")
        fields = tuple(Field.from_json(f) for f in body["fields"])
        return cls(
            id=int(body["id"]),
            fields=fields,
            highest_field_id=int(body.get("highestFieldId", highest_id(fields))),
            partition_keys=tuple(body.get("partitionKeys") or ()),
            primary_keys=tuple(body.get("primaryKeys") or ()),
            options=options,
            comment=body.get("comment"),
            time_millis=int(body.get("timeMillis") or 0),
            version=SCHEMA_VERSION,
        )

    @property
    def field_names(self) -> tuple[str, ...]:
        """The columns' names, in order."""
        return tuple(f.name for f in self.fields)

    def find(self, name: str) -> Field | None:
        """The column of that name, or None; names are case-sensitive."""
        return next((f for f in self.fields if f.name == name), None)

    def field(self, name: str, *, table: str | None = None) -> Field:
        """The column of that name; raises `ColumnNotExist` naming the nearest one, and the table where that is known."""
        field = self.find(name)
        if field is None:
            raise ColumnNotExist(name, table, nearest=nearest(name, self.field_names))
        return field

    @property
    def partition_fields(self) -> tuple[Field, ...]:
        """The partition columns, in the order of the partition keys (which is the order of directories)."""
        return tuple(self.field(name) for name in self.partition_keys)

    @property
    def bucket(self) -> int:
        """Buckets per partition; -1 where the table is not bucketed. Paimon's stored default is -1."""
        return bucket_count(self.options)

    @property
    def bucket_keys(self) -> tuple[str, ...]:
        """The columns hashed to a bucket, in the order the option names them."""
        text = self.options.get("bucket-key")
        return tuple(part.strip() for part in text.split(",")) if text else ()

    @property
    def bucket_fields(self) -> tuple[Field, ...]:
        """The bucket-key columns as fields."""
        return tuple(self.field(name) for name in self.bucket_keys)

    @property
    def place_columns(self) -> frozenset[str]:
        """The columns whose values say in which partition and bucket a row lies."""
        return frozenset(self.partition_keys) | (frozenset(self.bucket_keys) if self.bucket > 1 else frozenset())


def bucket_count(options: Mapping[str, str]) -> int:
    """What ``bucket`` says; raises `InvalidOption` for what is no number. Paimon's stored default is -1."""
    try:
        return int(options.get("bucket", "-1"))
    except ValueError:
        raise InvalidOption(f"Option 'bucket' = '{options['bucket']}': a whole number is expected.") from None


def highest_id(fields: Iterable[Field]) -> int:
    """The largest field id in use, nested ones included, system ids left out; -1 for no fields."""
    return max((f.id for f in every_field(fields) if f.id < _FIRST_SYSTEM_ID), default=-1)


def every_field(fields: Iterable[Field]) -> Iterator[Field]:
    """Yield the fields and all fields of ROW types inside them."""
    for outer in fields:
        yield outer
        yield from _nested(outer.type)


def _nested(type_: DataType) -> Iterator[Field]:
    match type_:
        case RowType(fields=fields):
            yield from every_field(fields)
        case ArrayType(element=inner) | MultisetType(element=inner):
            yield from _nested(inner)
        case MapType(key=key, value=value):
            yield from _nested(key)
            yield from _nested(value)


class FieldIds:
    """Hands out field ids the way Paimon does (`paimon-append.md` §2.2)."""

    def __init__(self, highest: int = -1) -> None:
        self.highest = highest

    def next(self) -> int:
        """The next unused id."""
        self.highest += 1
        return self.highest

    def number(self, type_: DataType) -> DataType:
        """Give new ids to the ROW fields inside a type; a nested field is numbered after its own descendants."""
        match type_:
            case RowType(fields=fields):
                return replace(type_, fields=tuple(self._number_nested(f) for f in fields))
            case ArrayType(element=inner) | MultisetType(element=inner):
                return replace(type_, element=self.number(inner))
            case MapType(key=key, value=value):
                return replace(type_, key=self.number(key), value=self.number(value))
        return type_

    def _number_nested(self, nested: Field) -> Field:
        type_ = self.number(nested.type)
        return replace(nested, type=type_, id=self.next())

    def number_column(self, column: Field) -> Field:
        """Give a top-level column its id first, then its nested fields theirs."""
        own = self.next()
        return replace(column, id=own, type=self.number(column.type))


def new_schema(  # noqa: PLR0913 - the parts of a schema
    columns: Sequence[Field],
    *,
    partition_keys: Sequence[str] = (),
    primary_keys: Sequence[str] = (),
    options: Mapping[str, str] | None = None,
    comment: str | None = None,
    time_millis: int = 0,
    stored: Mapping[str, str] | None = None,
) -> Schema:
    """Build and check version 0 of a schema: ids are assigned here, whatever the columns carry.

    ``stored``: options that the table has whose place it takes, of which `check_schema` tells.
    """
    options = TABLE_OPTIONS.stored(options or {})
    partitions = _from_option(options, "partition", partition_keys)
    keys = _from_option(options, "primary-key", primary_keys)
    ids = FieldIds()
    fields = tuple(ids.number_column(c) for c in columns)
    schema = Schema(
        id=0,
        fields=fields,
        highest_field_id=ids.highest,
        partition_keys=partitions,
        primary_keys=keys,
        options=options,
        comment=comment,
        time_millis=time_millis,
    )
    check_schema(schema, stored=stored)
    check_lengths(schema)
    return schema


def _from_option(options: dict[str, str], key: str, names: Sequence[str]) -> tuple[str, ...]:
    """Paimon moves these two options out of the options and into the schema's own keys."""
    text = options.pop(key, None)
    if text is None:
        return tuple(names)
    if names:
        raise InvalidSchema(f"The option '{key}' repeats what the statement says; leave one of them out.")
    return tuple(part.strip() for part in text.split(","))


def other_kind(options: Mapping[str, str]) -> str | None:
    """The kind of a table that other engines run and that is only described here (`format-table`, `object-table`, …), or None."""
    kind = options.get("type", "table")
    return None if kind == "table" else kind


CONNECTOR_KIND = "connector-table"
"""The kind of a table whose rows lie elsewhere, and are read and written by its options."""

DIRECTORY_KINDS = frozenset({"format-table", "object-table"})
"""Kinds of tables whose rows are the files of their directory, whatever lies there."""


def check_schema(schema: Schema, *, stored: Mapping[str, str] | None = None) -> None:
    """Raise for a schema no append table can have; the text names the column or option and the way out.

    Options that are ``stored`` already, by an earlier version or another client, only have to be read.
    """
    if other_kind(schema.options) is not None:
        return
    if schema.primary_keys:
        raise InvalidSchema(
            "PRIMARY KEY is not available: Sluice holds append tables, which have none. "
            "To keep rows of one key in order, give the key as 'bucket-key'."
        )
    _check_columns(schema)
    _check_partitions(schema.fields, schema.partition_keys)
    _check_buckets(schema)
    TABLE_OPTIONS.check_values(schema.options, stored or {})
    _check_field_options(schema)
    check_file_indexes(schema.options, schema.fields)
    check_clustering(schema.options, schema.find, schema.bucket)


def _check_partitions(fields: Sequence[Field], partition_keys: Sequence[str]) -> None:
    types = {field.name: field.type for field in fields}
    for name in partition_keys:
        if name not in types:
            raise InvalidSchema(f"Partition column {name} is not a column of the table.")
        if not isinstance(types[name], AtomicType):
            raise InvalidSchema(f"Partition column {name} has the nested type {types[name].sql()}; use one of a simple type.")
    twice = next((name for at, name in enumerate(partition_keys) if name in partition_keys[:at]), None)
    if twice is not None:
        raise InvalidSchema(f"Column {twice} stands twice in PARTITIONED BY.")
    if partition_keys and len(partition_keys) == len(fields):
        raise InvalidSchema("Every column is a partition column; at least one must not be.")


def check_column_name(name: str) -> None:
    """Raise `InvalidName` for names Paimon keeps for itself."""
    if not name or not name.strip():
        raise InvalidName("A column needs a name.")
    if name in _RESERVED_NAMES or name.startswith(_RESERVED_PREFIX):
        raise InvalidName(f"The column name {name} is reserved by the table format; choose another.")


def _check_columns(schema: Schema) -> None:
    if not schema.fields:
        raise InvalidSchema("A table needs at least one column.")
    seen: set[str] = set()
    for column in schema.fields:
        check_column_name(column.name)
        if column.name in seen:
            raise InvalidSchema(f"Column {column.name} is declared twice.")
        seen.add(column.name)


def _check_field_options(schema: Schema) -> None:
    """Java loads no table with an option ``fields.<column>.…`` of a column that is not there, and reads names up to the first dot."""
    for key in schema.options:
        if not key.startswith("fields"):
            continue
        named = key.split(".")[1] if "." in key else ""
        for name in named.split(","):
            if schema.find(name) is None and name != "default-aggregate-function":
                raise InvalidOption(
                    f"Option '{key}': there is no column {name or '(without a name)'}. RESET it, or name a column that is there; "
                    "one with a dot or a comma in its name can have no such option."
                )


def _check_buckets(schema: Schema) -> None:  # noqa: C901 - a check behind another
    bucket = schema.bucket
    if bucket == -1:
        for key in ("bucket-key", "full-compaction.delta-commits"):
            if key in schema.options:
                raise InvalidOption(f"Option '{key}' needs buckets; with 'bucket' = '-1' there are none. Leave one of them out.")
        return
    if bucket < 1:
        raise InvalidOption(f"Option 'bucket' = '{bucket}': an append table has -1 (no buckets) or at least 1.")
    if not schema.bucket_keys:
        raise InvalidOption("Option 'bucket-key' is missing: with buckets, name the column or columns whose value picks the bucket.")
    for name in schema.bucket_keys:
        column = schema.find(name)
        if column is None:
            raise InvalidOption(f"Option 'bucket-key': there is no column {name}.")
        if name in schema.partition_keys:
            raise InvalidOption(f"Option 'bucket-key': {name} is a partition column; it is the same for all rows of a partition.")
        if not isinstance(column.type, AtomicType):
            raise InvalidOption(f"Option 'bucket-key': column {name} has the type {column.type.sql()}, which cannot be hashed.")
    if len(set(schema.bucket_keys)) != len(schema.bucket_keys):
        raise InvalidOption("Option 'bucket-key' names a column twice.")
    _check_bucket_function(schema)


def _check_bucket_function(schema: Schema) -> None:
    function = schema.options.get("bucket-function.type", "default").lower()
    roots = [f.type.root for f in schema.bucket_fields]
    if function == "mod" and (len(roots) != 1 or roots[0] not in ("INT", "BIGINT")):
        raise InvalidOption("Option 'bucket-function.type' = 'mod' needs one 'bucket-key' column of type INT or BIGINT.")
    if function == "hive" and "TIMESTAMP" in roots:
        raise InvalidOption("Option 'bucket-function.type' = 'hive' cannot hash a TIMESTAMP column.")


def default_bucket_key(fields: Sequence[Field], partition_keys: Sequence[str]) -> str | None:
    """The key stored for a queue of one bucket: the first column that is neither partition nor nested.

    Java Paimon refuses to load a table with buckets and no key (`architecture.md`).
    A comma in the name would be read as two columns, so such a column does not qualify.
    """
    for column in fields:
        if column.name not in partition_keys and isinstance(column.type, AtomicType) and "," not in column.name:
            return column.name
    return None


def with_queue_defaults(options: Mapping[str, str], fields: Sequence[Field], partition_keys: Sequence[str]) -> dict[str, str]:
    """The options SQL stores: without ``bucket`` a table is a queue of one bucket, with its key written down."""
    stored = dict(options)
    if stored.get("bucket", "1").strip() == "1":
        stored["bucket"] = "1"
        if "bucket-key" not in stored:
            key = default_bucket_key(fields, partition_keys)
            if key is None:
                _check_partitions(fields, partition_keys)  # which may be why there is none
                raise InvalidOption(
                    f"A queue needs a bucket key of a simple type, and {', '.join(f.name for f in fields)} can be none: all are partition "
                    "columns or nested, and Java Paimon loads no such table. Add a column, such as id BIGINT, or say "
                    "WITH ('bucket' = '-1') for a table without order."
                )
            stored["bucket-key"] = key
    return stored


def with_stored_default(options: Mapping[str, str]) -> dict[str, str]:
    """A stored table's options as SQL says them: where no ``bucket`` is stored, a CREATE TABLE without one would make a queue of it."""
    return {"bucket": "-1", **options}


def column(name: str, spelled: str, *, comment: str | None = None) -> Field:
    """A column not yet numbered: ``column("id", "BIGINT NOT NULL")``."""
    return Field(id=-1, name=name, type=parse_type(spelled), description=comment)
