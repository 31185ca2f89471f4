"""What keeps Java's clients from loading a table: they check a schema whenever they load it, and leave that to the server when it is made.

A table stored in spite of it is read by none of them, nor altered back, and ends their lists of the tables beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from model.errors import InvalidOption
from model.options.clustering import INCREMENTAL
from model.options.column_lists import BLOB_FIELD, BLOB_LISTS, INLINE_BLOBS, VECTOR_FIELD, listed_columns
from model.options.deletion_vectors import ENABLED as DELETION_VECTORS
from model.options.file_index import COLUMN_OPTIONS, indexed_column
from model.options.map_layout import SHREDDED, laid_out, layout_of, shredded_maps
from model.options.table import is_on
from model.schema.directives import check_no_directive
from model.schema.geospatial import GeometryType
from model.schema.schema import Schema, other_kind
from model.schema.type_parts import walk
from model.schema.types import (
    ArrayType,
    BigIntType,
    BlobType,
    CharType,
    DataType,
    DateType,
    DecimalType,
    Field,
    IntType,
    LocalZonedTimestampType,
    MapType,
    MultisetType,
    RowType,
    SmallIntType,
    TimestampType,
    TimeType,
    TinyIntType,
    VarCharType,
    VariantType,
    VectorType,
)

Problems = Iterator[tuple[tuple[object, ...], str]]
"""What each is about, and its text. Of what it is about there are no values, names, types and numbers of buckets: ALTERs change these."""
_CHECKED_KINDS = (None, "materialized-table")
_EVOLUTION, _TRACKING = "data-evolution.enabled", "row-tracking.enabled"
_OF_KEYED = ("primary-key.nullable", "table-read.sequence-number.enabled", "chain-table.enabled")
_OVERWRITE_READ = "streaming-read-overwrite"
_SORT, _SORT_FIELD = "manifest-sort.enabled", "manifest-sort.partition-field"
_VECTOR_FORMAT = "vector.file.format"
_SWITCHES = (*_OF_KEYED, _OVERWRITE_READ, _SORT, _TRACKING, _EVOLUTION, DELETION_VECTORS)
_SLICED = "bsi"
_SLICED_TYPES = (
    DecimalType, TinyIntType, SmallIntType, IntType, BigIntType, DateType, TimeType, TimestampType, LocalZonedTimestampType,
)  # fmt: skip
_NEVER_IN = {
    "orc": (VariantType, VectorType, GeometryType),
    "avro": (VariantType, GeometryType),
    "csv": (ArrayType, MapType, MultisetType, RowType, VariantType, VectorType, GeometryType, BlobType),
    "json": (MultisetType, VariantType, GeometryType, BlobType),
}
"""Types that Java's writer of a format has no place for; of csv and json, which look at columns alone, at the columns' own."""
_FLAT = frozenset({"csv", "json"})
_AVRO_TIMESTAMP_DIGITS, _AVRO_TIME_DIGITS = 6, 3
_ADAPTIVE = "variant.shredding.adaptive."
_RATIOS = ("variant.shredding.minFieldCardinalityRatio", "variant.shredding.adaptive.retentionRatio")
_SAMPLES = {"variant.shredding.maxInferBufferRow": 4096, "variant.shredding.adaptive.maxInferBufferRow": 256}


def check_taken(schema: Schema, *, before: Schema | None = None) -> None:
    """Raise for the schema of a table that is made, or takes the place of ``before``, as `check_loadable` and `check_no_directive` do."""
    before_columns = set() if before is None else {(column.name, column.description) for column in before.fields}
    for column in schema.fields if other_kind(schema.options) in _CHECKED_KINDS else ():
        if (column.name, column.description) not in before_columns:
            check_no_directive(column.name, column.description, column.type)
    check_loadable(schema, before=before)


def check_loadable(schema: Schema, *, before: Schema | None = None) -> None:
    """Raise `InvalidOption` for a schema that Java's clients would not load.

    What the schema ``before`` an ALTER or a replacement has of it already is no hindrance: it may mend another part, or this one in steps.
    """
    if other_kind(schema.options) not in _CHECKED_KINDS:
        return
    known = frozenset() if before is None else frozenset(about for about, _ in _problems(before))
    for about, text in _problems(schema):
        if about not in known:
            raise InvalidOption(f"{text} Paimon's Java clients would not load the table.")


def _problems(schema: Schema) -> Problems:
    for look in _LOOKS:
        yield from look(schema)


def _switches(schema: Schema) -> Problems:
    options = schema.options
    for key in _SWITCHES:
        if options.get(key, "false").lower() not in ("true", "false"):
            yield ("switch", key), f"Option '{key}' = '{options[key]}' is 'true' or 'false'."
    if schema.primary_keys:  # as a materialized table may have them
        return
    for key in _OF_KEYED:
        if is_on(options, key):
            yield ("keyed", key), f"Option '{key}' is for tables with a primary key; leave it out."
    if is_on(options, _OVERWRITE_READ):
        yield (
            ("keyed", _OVERWRITE_READ),
            f"Option '{_OVERWRITE_READ}' is for tables with a primary key; 'streaming-read-append-overwrite' is for these.",
        )


def _row_ids(schema: Schema) -> Problems:
    options = schema.options
    if is_on(options, _TRACKING) and schema.bucket != -1:
        yield ("buckets", _TRACKING), f"Option '{_TRACKING}' needs 'bucket' = '-1'; here it is '{schema.bucket}'."
    if is_on(options, _EVOLUTION):
        if not is_on(options, _TRACKING):
            yield ("needs", _EVOLUTION), f"Option '{_EVOLUTION}' needs '{_TRACKING}' = 'true'."
        if is_on(options, INCREMENTAL.key):
            yield ("exclude", _EVOLUTION, INCREMENTAL.key), f"Options '{_EVOLUTION}' and '{INCREMENTAL.key}' exclude each other."
    if is_on(options, INCREMENTAL.key) and is_on(options, DELETION_VECTORS) and schema.bucket != -1:
        yield (
            ("exclude", INCREMENTAL.key, DELETION_VECTORS),
            f"Options '{INCREMENTAL.key}' and '{DELETION_VECTORS}' exclude each other in a table with buckets.",
        )


def _blobs(schema: Schema) -> Problems:
    blobs = [field.name for field in schema.fields if is_blob(field.type)]
    for field in schema.fields:
        if field.name not in blobs and _holds(field.type, BlobType):
            yield (
                ("inner BLOB", field.id),
                f"Column {field.name} has the type {field.type.sql()}; BLOBs are columns, elements of an ARRAY or values of a MAP.",
            )
    if blobs:
        yield from _beside(schema, blobs, "BLOB")
        if not schema.primary_keys and not is_on(schema.options, _EVOLUTION):
            yield ("needs", "BLOB"), f"Column {blobs[0]} holds BLOBs, which needs '{_EVOLUTION}' = 'true' and '{_TRACKING}' = 'true'."
    for key in BLOB_LISTS:
        for name in listed_columns(schema.options, key):
            type_ = _type(schema, name)
            if type_ is None or not (is_blob(type_) if key == BLOB_FIELD else isinstance(type_, BlobType)):
                yield ("no BLOB", key, _identity(schema, name)), f"Option '{key}' names {name}, which is no column that holds BLOBs."
    described, viewed = ({*listed_columns(schema.options, key)} for key in INLINE_BLOBS)
    for name in sorted(described & viewed):
        yield ("both", _identity(schema, name)), f"Options '{INLINE_BLOBS[0]}' and '{INLINE_BLOBS[1]}' both name {name}."


def _vectors(schema: Schema) -> Problems:
    for name in listed_columns(schema.options, VECTOR_FIELD):
        if not isinstance(_type(schema, name), VectorType):
            yield ("no vector", _identity(schema, name)), f"Option '{VECTOR_FIELD}' names {name}, which is no column of vectors."
    if _VECTOR_FORMAT in schema.options:
        yield from _beside(schema, [field.name for field in schema.fields if isinstance(field.type, VectorType)], "VECTOR")
        if not is_on(schema.options, _EVOLUTION):
            yield ("needs", _VECTOR_FORMAT), f"Option '{_VECTOR_FORMAT}' needs '{_EVOLUTION}' = 'true' and '{_TRACKING}' = 'true'."


def _beside(schema: Schema, names: list[str], kind: str) -> Problems:
    """Columns whose values lie in files of their own, which neither are all there are nor say where files lie."""
    if len(names) == len(schema.fields):
        yield ("alone", kind), f"A table with {kind} columns needs a column of another type, too."
    for name in schema.partition_keys:
        if name in names:
            yield ("partition", _identity(schema, name)), f"Partition column {name} has the type {kind}; use one of a simple type."


def _partitions(schema: Schema) -> Problems:
    for field in schema.partition_fields:
        if isinstance(field.type, VariantType):
            yield ("partition", field.id), f"Partition column {field.name} has the type {field.type.sql()}; use one of a simple type."
    if is_on(schema.options, _SORT) and not schema.partition_keys and not is_on(schema.options, _EVOLUTION):
        yield ("partitions", _SORT), f"Option '{_SORT}' needs a table with partitions."
    by = schema.options.get(_SORT_FIELD)
    if is_on(schema.options, _SORT) and by and by not in schema.partition_keys:
        yield ("partitions", _SORT_FIELD), f"Option '{_SORT_FIELD}' = '{by}' is no partition column."


def _formats(schema: Schema) -> Problems:
    """Columns that the format of the table's files has no place for."""
    format_ = schema.options.get("file.format", "parquet").strip().lower()
    inline = {name for key in INLINE_BLOBS for name in listed_columns(schema.options, key)}
    own_file = _VECTOR_FORMAT in schema.options
    here = [
        field
        for field in schema.fields
        if not (is_blob(field.type) and field.name not in inline) and not (own_file and isinstance(field.type, VectorType))
    ]
    for field in here:
        parts = (field.type,) if format_ in _FLAT else walk(field.type)
        for part in parts:
            if isinstance(part, _NEVER_IN.get(format_, ())) or (format_ == "avro" and _too_fine_for_avro(part)):
                yield ("format", field.id), f"Column {field.name} holds {part.sql()}, which 'file.format' = '{format_}' has no place for."
                break
    if format_ == "text" and len(here) != 1 and not (here and here[0].type == VarCharType()):
        yield ("format", "text"), "Option 'file.format' = 'text' is for one column of type STRING."
    yield from _shapes(schema, format_)


def _too_fine_for_avro(type_: DataType) -> bool:
    match type_:
        case TimestampType(precision=digits) | LocalZonedTimestampType(precision=digits):
            return digits > _AVRO_TIMESTAMP_DIGITS
        case TimeType(precision=digits):
            return digits > _AVRO_TIME_DIGITS
    return False


def _shapes(schema: Schema, format_: str) -> Problems:
    shaped = [field for field in schema.fields if _holds(field.type, GeometryType)]
    for key, other in (("file.format", format_), ("changelog-file.format", schema.options.get("changelog-file.format") or "parquet")):
        if shaped and other.strip().lower() != "parquet":
            yield (
                ("shapes", key),
                f"Column {shaped[0].name} holds {shaped[0].type.sql()}, which needs '{key}' = 'parquet'; here it is '{other}'.",
            )


def _field_options(schema: Schema) -> Problems:
    for key in schema.options:
        parts = key.split(".")
        if len(parts) > 3 and parts[0] == "fields" and isinstance(_type(schema, parts[1]), RowType):
            yield (
                ("parts", _identity(schema, parts[1]), *parts[2:]),
                f"Option '{key}': there are no options for the parts of {parts[1]}, which is a ROW.",
            )


def _maps(schema: Schema) -> Problems:
    """MAPs whose values of one key lie in a column."""
    shredded = []
    for key, value in schema.options.items():
        if (name := laid_out(key)) is None:
            continue
        type_, layout = _type(schema, name), layout_of(value)
        if not isinstance(type_, MapType):
            yield ("no map", _identity(schema, name)), f"Option '{key}': {name} is no column of type MAP."
        elif layout == SHREDDED:
            shredded.append(type_)
            if not isinstance(type_.key, VarCharType) or type_.key.nullable:
                yield (
                    ("keys", _identity(schema, name)),
                    f"Option '{key}' = '{value}' needs a MAP with keys of type STRING NOT NULL; {name} has {type_.key}.",
                )
            if _holds(type_.value, BlobType) or _holds(type_.value, VectorType):
                yield ("values", _identity(schema, name)), f"Option '{key}' = '{value}' takes no BLOB and no VECTOR in {name}."
        elif layout != "default":
            yield ("layout", _identity(schema, name)), f"Option '{key}' = '{value}': the layouts are default and {SHREDDED}."
    if shredded:
        yield from _shredded(schema)


def _shredded(schema: Schema) -> Problems:
    options = schema.options
    for key in ("file.format", "changelog-file.format"):
        if options.get(key, "parquet").strip().lower() not in ("parquet", "orc"):
            yield ("shredded", key), f"A MAP with the layout {SHREDDED} needs '{key}' = 'parquet' or 'orc'; here it is '{options[key]}'."
    for key in ("file.compression", "changelog-file.compression"):
        if options.get(key, "zstd").strip().lower() not in ("", "zstd", "lz4", "none"):
            yield (
                ("shredded", key),
                f"A MAP with the layout {SHREDDED} needs '{key}' = 'zstd', 'lz4' or 'none'; here it is '{options[key]}'.",
            )
    for field in schema.fields:
        if _holds(field.type, VariantType) or _holds(field.type, MultisetType):
            yield (
                ("shredded", field.id),
                f"Column {field.name} of type {field.type.sql()} cannot be beside a MAP with the layout {SHREDDED}.",
            )


def _file_indexes(schema: Schema) -> Problems:
    """Indexes of kinds that are not written here; `check_file_indexes` looks at the others."""
    declared: dict[str, list[str]] = {}
    for key, value in schema.options.items():
        if not (key.startswith("file-index.") and key.endswith(".columns")):
            continue
        kind = key.removeprefix("file-index.").removesuffix(".columns")
        declared[kind] = names = [name.strip() for name in value.split(",")]
        if kind in COLUMN_OPTIONS:
            continue
        if kind != _SLICED:
            yield ("index", key), f"Option '{key}': there is no kind of index '{kind}'; there are {', '.join((*COLUMN_OPTIONS, _SLICED))}."
        for name in names if kind == _SLICED else ():
            if not isinstance(_indexed_type(schema, name), _SLICED_TYPES):
                yield (
                    ("index", key, _identity(schema, indexed_column(name))),
                    f"Option '{key}': {name or '(without a name)'} is no column with such an index.",
                )
    for key in schema.options:
        parts = key.split(".")
        if parts[0] == "file-index" and len(parts) == 4 and parts[1] not in COLUMN_OPTIONS:
            names = declared.get(parts[1], [])
            if parts[2] in names or parts[2] in map(indexed_column, names):
                continue
            yield (
                ("index", parts[1], _identity(schema, parts[2]), parts[3]),
                f"Option '{key}': column {parts[2]} is not in 'file-index.{parts[1]}.columns'.",
            )


def _indexed_type(schema: Schema, name: str) -> DataType | None:
    """Of what an index is; None where it is of no column, or of a key of what has no such keys."""
    column = indexed_column(name)
    type_ = _type(schema, column)
    if column == name:
        return type_
    if not isinstance(type_, MapType) or not isinstance(type_.key, (CharType, VarCharType)) or column in shredded_maps(schema.options):
        return None
    return type_.value


def _variants(schema: Schema) -> Problems:
    options, mode = schema.options, schema.options.get("variant.shredding.inferenceMode", "")
    adaptive = mode.strip().lower() == "adaptive"  # nobody looks at what is for that mode where it is not on
    for key, usual in _SAMPLES.items():
        if (adaptive or not key.startswith(_ADAPTIVE)) and (_number(options, key, usual) or 0) < 1:
            yield ("number", key), f"Option '{key}' = '{options[key]}' is a whole number above 0."
    shares = [_number(options, key, usual) for key, usual in zip(_RATIOS, (0.1, 0.05), strict=True)]
    for key, share in zip(_RATIOS, shares, strict=True):
        if (adaptive or not key.startswith(_ADAPTIVE)) and (share is None or not 0 <= share <= 1):
            yield ("number", key), f"Option '{key}' = '{options[key]}' is a share of the whole, from 0 to 1."
    if adaptive and (shares[1] or 0) > (shares[0] or 0):
        yield ("ratios",), f"Option '{_RATIOS[1]}' may not be above '{_RATIOS[0]}' where 'variant.shredding.inferenceMode' = '{mode}'."


def _number(options: Mapping[str, str], key: str, usual: float) -> float | None:
    """The number that an option says; None for one that is none."""
    try:
        return float(options.get(key, usual))
    except ValueError:
        return None


_LOOKS: tuple[Callable[[Schema], Problems], ...] = (
    _switches, _row_ids, _blobs, _vectors, _partitions, _formats, _field_options, _maps, _file_indexes, _variants,
)  # fmt: skip


def is_blob(type_: DataType) -> bool:
    """Whether a column's values lie in files of BLOBs."""
    match type_:
        case ArrayType(element=held) | MapType(value=held):
            return isinstance(held, BlobType)
    return isinstance(type_, BlobType)


def _holds(type_: DataType, kind: type[DataType]) -> bool:
    return any(isinstance(part, kind) for part in walk(type_))


def _identity(schema: Schema, name: str) -> int | str:
    """What stays of a column that is renamed; the name of one that is not there."""
    field = schema.find(name)
    return name if field is None else field.id


def _type(schema: Schema, name: str) -> DataType | None:
    field: Field | None = schema.find(name)
    return None if field is None else field.type
