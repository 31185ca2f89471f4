"""Which types hold every value of another (`paimon-append.md` §2.3)."""

from __future__ import annotations

from model.schema.types import (
    ArrayType,
    AtomicType,
    BinaryType,
    CharType,
    DataType,
    DecimalType,
    LocalZonedTimestampType,
    MapType,
    MultisetType,
    RowType,
    TimestampType,
    TimeType,
    VarBinaryType,
    VarCharType,
)

_INTEGERS = {"TINYINT": 3, "SMALLINT": 5, "INT": 10, "BIGINT": 19}
"""Integer types, narrow to wide, with the decimal digits they need."""


def widens(old: DataType, new: DataType) -> bool:
    """Whether every value of the old type is a value of the new one; nullability does not count."""
    if old.with_nullable(True) == new.with_nullable(True):
        return True
    if not isinstance(old, AtomicType) or not isinstance(new, AtomicType):
        return False
    if old.root in _INTEGERS:
        return _integer_widens(old.root, new)
    match old, new:
        case (DecimalType(precision=p, scale=s), DecimalType(precision=q, scale=t)):
            return t >= s and q - t >= p - s
        case (CharType(length=a) | VarCharType(length=a), VarCharType(length=b)):
            return b >= a
        case (BinaryType(length=a) | VarBinaryType(length=a), VarBinaryType(length=b)):
            return b >= a
        case (TimestampType(precision=a), TimestampType(precision=b)):
            return b >= a
        case (LocalZonedTimestampType(precision=a), LocalZonedTimestampType(precision=b)):
            return b >= a
        case (TimeType(precision=a), TimeType(precision=b)):
            return b >= a
    return old.root == "FLOAT" and new.root == "DOUBLE"


def keeps_values(old: DataType, new: DataType) -> bool:
    """Whether all that is read under the old type, as far as it is still there, is read unchanged under the new one."""
    match old, new:
        case RowType(), RowType():
            before = {field.id: field.type for field in old.fields}
            return all(keeps_values(before[field.id], field.type) for field in new.fields if field.id in before)
        case (ArrayType(element=a), ArrayType(element=b)) | (MultisetType(element=a), MultisetType(element=b)):
            return keeps_values(a, b)
        case MapType(), MapType():
            return keeps_values(old.key, new.key) and keeps_values(old.value, new.value)
    return widens(old, new)


def _integer_widens(root: str, new: AtomicType) -> bool:
    if new.root in _INTEGERS:
        return _INTEGERS[new.root] >= _INTEGERS[root]
    if isinstance(new, DecimalType):
        return new.precision - new.scale >= _INTEGERS[root]
    return new.root == "DOUBLE" and root != "BIGINT"
