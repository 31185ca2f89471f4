"""Which changes of a column's type Paimon allows: those that keep every value, and casts of what is written (`paimon-append.md` §2.3)."""

from __future__ import annotations

from collections.abc import Iterator

from model.schema.types import ArrayType, DataType, LocalZonedTimestampType, MapType, MultisetType, RowType, VarCharType
from model.schema.widening import widens

_INTEGERS = frozenset({"TINYINT", "SMALLINT", "INT", "BIGINT"})
_NUMBERS = _INTEGERS | {"FLOAT", "DOUBLE", "DECIMAL"}
_TEXTS = frozenset({"CHAR", "VARCHAR"})
_BYTES = frozenset({"BINARY", "VARBINARY"})
_MOMENTS = frozenset({"TIMESTAMP", "TIMESTAMP_LTZ"})

_IMPLICIT: dict[str, frozenset[str]] = {
    "CHAR": frozenset({"CHAR"}),
    "VARCHAR": _TEXTS,
    "BINARY": frozenset({"BINARY"}),
    "VARBINARY": _BYTES,
    "DECIMAL": _NUMBERS,
    "FLOAT": _INTEGERS | {"DECIMAL"},
    "DOUBLE": _NUMBERS,
    "DATE": frozenset({"TIMESTAMP"}),
    "TIME": frozenset({"TIMESTAMP"}),
    "TIMESTAMP": _MOMENTS,
    "TIMESTAMP_LTZ": _MOMENTS,
}
"""What may become a type without being asked for, though not all of it keeps every value."""
_NUMBER_FROM = _NUMBERS | _TEXTS | {"BOOLEAN"}
_EXPLICIT: dict[str, frozenset[str]] = {
    "CHAR": _NUMBERS | _TEXTS | _BYTES | {"BOOLEAN"},
    "VARCHAR": _NUMBERS | _TEXTS | _BYTES | _MOMENTS | {"BOOLEAN", "DATE", "TIME"},
    "BOOLEAN": _TEXTS | _INTEGERS,
    "BINARY": _TEXTS | _BYTES,
    "VARBINARY": _TEXTS | _BYTES,
    "DECIMAL": _NUMBER_FROM,
    "TINYINT": _NUMBER_FROM,
    "SMALLINT": _NUMBER_FROM,
    "INT": _NUMBER_FROM | _MOMENTS,
    "BIGINT": _NUMBER_FROM | _MOMENTS,
    "FLOAT": _NUMBER_FROM,
    "DOUBLE": _NUMBER_FROM,
    "DATE": _MOMENTS | _TEXTS,
    "TIME": _MOMENTS | _TEXTS,
    "TIMESTAMP": _MOMENTS | _TEXTS | {"DATE", "TIME", "INT", "BIGINT"},
    "TIMESTAMP_LTZ": _MOMENTS | _TEXTS | {"DATE", "TIME", "INT", "BIGINT"},
}


def kind(type_: DataType) -> str:
    """The root of a type, with the two kinds of TIMESTAMP told apart."""
    return "TIMESTAMP_LTZ" if isinstance(type_, LocalZonedTimestampType) else type_.root


def casts(old: DataType, new: DataType, *, explicit: bool = True) -> bool:
    """Whether rows of the old type are read under the new one, by widening or by a cast; ``explicit`` ones only where that is allowed."""
    if widens(old, new):
        return True
    source, target = kind(old), kind(new)
    if target == "VARCHAR" and source in _MOMENTS | {"DATE", "TIME"} and not _is_plain_string(new):
        return False  # Java's readers know no other text for these
    return source in (_EXPLICIT if explicit else _IMPLICIT).get(target, frozenset())


def _is_plain_string(type_: DataType) -> bool:
    return type_.nullable and isinstance(type_, VarCharType) and type_.length == VarCharType().length


def is_cast(old: DataType, new: DataType) -> bool:
    """Whether values change on their way from one type to another, so that what is known of the old ones says nothing of the new."""
    return not widens(old, new) and casts(old, new)


def parts_cast(old: DataType, new: DataType) -> bool:
    """Whether elements of arrays, or keys or values of maps, would have to be cast."""
    return any(is_cast(*pair) for pair in _parts(old, new, inside=False))


def _parts(old: DataType, new: DataType, *, inside: bool) -> Iterator[tuple[DataType, DataType]]:
    if inside:
        yield old, new
    match old, new:
        case (ArrayType(element=a), ArrayType(element=b)) | (MultisetType(element=a), MultisetType(element=b)):
            yield from _parts(a, b, inside=True)
        case MapType(), MapType():
            yield from _parts(old.key, new.key, inside=True)
            yield from _parts(old.value, new.value, inside=True)
        case RowType(), RowType():
            by_id = {field.id: field.type for field in old.fields}
            for field in new.fields:
                if field.id in by_id:
                    yield from _parts(by_id[field.id], field.type, inside=inside)
