"""Column types: read and printed as Paimon spells them (`paimon-append.md` §2.1)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from model.errors import UnsupportedType
from model.schema.base_type import AtomicType as AtomicType
from model.schema.base_type import DataType as DataType
from model.schema.geospatial import parse_geospatial
from model.text.sql_text import literal, quote

MAX_LENGTH = 2_147_483_647
"""The length that makes VARCHAR a STRING and VARBINARY a BYTES."""
INTEGER_BITS = {"TINYINT": 8, "SMALLINT": 16, "INT": 32, "BIGINT": 64}
"""How wide the types of whole numbers are, with their sign."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BooleanType(AtomicType):
    root: ClassVar[str] = "BOOLEAN"


@dataclass(frozen=True, slots=True, kw_only=True)
class TinyIntType(AtomicType):
    root: ClassVar[str] = "TINYINT"


@dataclass(frozen=True, slots=True, kw_only=True)
class SmallIntType(AtomicType):
    root: ClassVar[str] = "SMALLINT"


@dataclass(frozen=True, slots=True, kw_only=True)
class IntType(AtomicType):
    root: ClassVar[str] = "INT"


@dataclass(frozen=True, slots=True, kw_only=True)
class BigIntType(AtomicType):
    root: ClassVar[str] = "BIGINT"


@dataclass(frozen=True, slots=True, kw_only=True)
class FloatType(AtomicType):
    root: ClassVar[str] = "FLOAT"


@dataclass(frozen=True, slots=True, kw_only=True)
class DoubleType(AtomicType):
    root: ClassVar[str] = "DOUBLE"


@dataclass(frozen=True, slots=True, kw_only=True)
class DateType(AtomicType):
    root: ClassVar[str] = "DATE"


@dataclass(frozen=True, slots=True, kw_only=True)
class VariantType(AtomicType):
    root: ClassVar[str] = "VARIANT"


@dataclass(frozen=True, slots=True, kw_only=True)
class BlobType(AtomicType):
    root: ClassVar[str] = "BLOB"


@dataclass(frozen=True, slots=True, kw_only=True)
class _LengthType(AtomicType):
    length: int = 1

    def sql(self) -> str:
        return f"{self.root}({self.length})"


@dataclass(frozen=True, slots=True, kw_only=True)
class CharType(_LengthType):
    root: ClassVar[str] = "CHAR"


@dataclass(frozen=True, slots=True, kw_only=True)
class VarCharType(_LengthType):
    """VARCHAR(n); the longest is STRING."""

    length: int = MAX_LENGTH
    root: ClassVar[str] = "VARCHAR"

    def sql(self) -> str:
        return "STRING" if self.length == MAX_LENGTH else f"VARCHAR({self.length})"


@dataclass(frozen=True, slots=True, kw_only=True)
class BinaryType(_LengthType):
    root: ClassVar[str] = "BINARY"


@dataclass(frozen=True, slots=True, kw_only=True)
class VarBinaryType(_LengthType):
    """VARBINARY(n); the longest is BYTES."""

    length: int = MAX_LENGTH
    root: ClassVar[str] = "VARBINARY"

    def sql(self) -> str:
        return "BYTES" if self.length == MAX_LENGTH else f"VARBINARY({self.length})"


@dataclass(frozen=True, slots=True, kw_only=True)
class DecimalType(AtomicType):
    precision: int = 10
    scale: int = 0
    root: ClassVar[str] = "DECIMAL"

    def sql(self) -> str:
        return f"DECIMAL({self.precision}, {self.scale})"


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeType(AtomicType):
    """TIME(p); the value is always milliseconds of the day."""

    precision: int = 0
    root: ClassVar[str] = "TIME"

    def sql(self) -> str:
        return f"TIME({self.precision})"

    @property
    def digits(self) -> int:
        """Digits of a second that its values have: as many as the precision says, three at most."""
        return min(self.precision, 3)


@dataclass(frozen=True, slots=True, kw_only=True)
class TimestampType(AtomicType):
    """TIMESTAMP(p), without time zone."""

    precision: int = 6
    root: ClassVar[str] = "TIMESTAMP"

    def sql(self) -> str:
        return f"TIMESTAMP({self.precision})"


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalZonedTimestampType(AtomicType):
    """TIMESTAMP_LTZ(p): an instant, shown in the session's zone."""

    precision: int = 6
    root: ClassVar[str] = "TIMESTAMP"

    def sql(self) -> str:
        return f"TIMESTAMP({self.precision}) WITH LOCAL TIME ZONE"


@dataclass(frozen=True, slots=True, kw_only=True)
class IntervalDayTimeType(AtomicType):
    """INTERVAL DAY TO SECOND: milliseconds. Only results have it, no table does."""

    root: ClassVar[str] = "INTERVAL DAY TO SECOND"


@dataclass(frozen=True, slots=True, kw_only=True)
class IntervalYearMonthType(AtomicType):
    """INTERVAL YEAR TO MONTH: months. Only results have it, no table does."""

    root: ClassVar[str] = "INTERVAL YEAR TO MONTH"


@dataclass(frozen=True, slots=True, kw_only=True)
class NullType(AtomicType):
    """The type of a bare NULL. Only results have it, no table does."""

    root: ClassVar[str] = "NULL"


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayType(DataType):
    element: DataType
    root: ClassVar[str] = "ARRAY"

    def sql(self) -> str:
        return f"ARRAY<{self.element}>"

    def to_json(self) -> str | dict[str, Any]:
        return {"type": "ARRAY" + self._suffix(), "element": self.element.to_json()}


@dataclass(frozen=True, slots=True, kw_only=True)
class MultisetType(DataType):
    element: DataType
    root: ClassVar[str] = "MULTISET"

    def sql(self) -> str:
        return f"MULTISET<{self.element}>"

    def to_json(self) -> str | dict[str, Any]:
        return {"type": "MULTISET" + self._suffix(), "element": self.element.to_json()}


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorType(DataType):
    element: DataType
    length: int
    root: ClassVar[str] = "VECTOR"

    def sql(self) -> str:
        return f"VECTOR<{self.element}, {self.length}>"

    def to_json(self) -> str | dict[str, Any]:
        return {"type": "VECTOR" + self._suffix(), "element": self.element.to_json(), "length": self.length}


@dataclass(frozen=True, slots=True, kw_only=True)
class MapType(DataType):
    key: DataType
    value: DataType
    root: ClassVar[str] = "MAP"

    def sql(self) -> str:
        return f"MAP<{self.key}, {self.value}>"

    def to_json(self) -> str | dict[str, Any]:
        return {"type": "MAP" + self._suffix(), "key": self.key.to_json(), "value": self.value.to_json()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """A column of a table or a part of a ROW; the id stays when the name changes."""

    id: int
    name: str
    type: DataType
    description: str | None = None
    default_value: str | None = None

    def to_json(self) -> dict[str, Any]:
        body: dict[str, Any] = {"id": self.id, "name": self.name, "type": self.type.to_json()}
        if self.description is not None:
            body["description"] = self.description
        if self.default_value is not None:
            body["defaultValue"] = self.default_value
        return body

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> Field:
        return cls(
            id=int(body["id"]),
            name=str(body["name"]),
            type=parse_type(body["type"]),
            description=body.get("description"),
            default_value=body.get("defaultValue"),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RowType(DataType):
    fields: tuple[Field, ...]
    root: ClassVar[str] = "ROW"

    def sql(self) -> str:
        comments = (f" COMMENT {literal(f.description)}" if f.description else "" for f in self.fields)
        parts = ", ".join(f"{quote(f.name)} {f.type}{comment}" for f, comment in zip(self.fields, comments, strict=True))
        return f"ROW<{parts}>"

    def to_json(self) -> str | dict[str, Any]:
        return {"type": "ROW" + self._suffix(), "fields": [f.to_json() for f in self.fields]}


_ATOMIC: dict[str, type[AtomicType]] = {
    "BOOLEAN": BooleanType,
    "TINYINT": TinyIntType,
    "SMALLINT": SmallIntType,
    "INT": IntType,
    "INTEGER": IntType,
    "BIGINT": BigIntType,
    "FLOAT": FloatType,
    "DOUBLE": DoubleType,
    "DOUBLE PRECISION": DoubleType,
    "DATE": DateType,
    "VARIANT": VariantType,
    "BLOB": BlobType,
}
_NUMBERED = re.compile(r"^([A-Z_]+)\s*(?:\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\))?\s*(.*)$")


def parse_type(spelled: str | Mapping[str, Any]) -> DataType:
    """Read a type from a schema file or a REST body; raise `UnsupportedType` for what is no Paimon type."""
    if isinstance(spelled, str):
        return _parse_atomic(spelled)
    kind, nullable = _split_nullability(str(spelled.get("type", "")))
    kind = kind.partition("<")[0]  # some writers spell "MAP<STRING, INT>"; as for Java, the members say what lies inside
    if kind == "ARRAY":
        return ArrayType(element=parse_type(spelled["element"]), nullable=nullable)
    if kind == "MULTISET":
        return MultisetType(element=parse_type(spelled["element"]), nullable=nullable)
    if kind == "VECTOR":
        return VectorType(element=parse_type(spelled["element"]), length=int(spelled["length"]), nullable=nullable)
    if kind == "MAP":
        return MapType(key=parse_type(spelled["key"]), value=parse_type(spelled["value"]), nullable=nullable)
    if kind == "ROW":
        return RowType(fields=tuple(Field.from_json(f) for f in spelled["fields"]), nullable=nullable)
    raise UnsupportedType(f"There is no type {spelled.get('type')!r}.")


def _split_nullability(text: str) -> tuple[str, bool]:
    upper = " ".join(text.upper().split())
    if upper.endswith(" NOT NULL"):
        return upper.removesuffix(" NOT NULL"), False
    return upper.removesuffix(" NULL"), True


def _parse_atomic(text: str) -> DataType:
    if (geospatial := parse_geospatial(text)) is not None:
        return geospatial
    body, nullable = _split_nullability(text)
    if simple := _ATOMIC.get(body):
        return simple(nullable=nullable)
    if body == "STRING":
        return VarCharType(nullable=nullable)
    if body == "BYTES":
        return VarBinaryType(nullable=nullable)
    match = _NUMBERED.match(body)
    if match is None:
        raise UnsupportedType(f"There is no type {text!r}.")
    name, first, second, rest = match.groups()
    number = int(first) if first is not None else None
    if name in ("DECIMAL", "NUMERIC", "DEC") and not rest:
        precision, scale = (10 if number is None else number), int(second or 0)
        if not 1 <= precision <= 38 or scale > precision:
            raise UnsupportedType(f"{text}: the precision lies between 1 and 38, the scale between 0 and the precision.")
        return DecimalType(precision=precision, scale=scale, nullable=nullable)
    if second is None and (made := _length_or_precision(name, number, rest, nullable, text)):
        return made
    raise UnsupportedType(f"There is no type {text!r}.")


def _length_or_precision(name: str, number: int | None, rest: str, nullable: bool, text: str) -> DataType | None:
    lengths: dict[str, type[_LengthType]] = {"CHAR": CharType, "VARCHAR": VarCharType, "BINARY": BinaryType, "VARBINARY": VarBinaryType}
    if name in lengths and not rest:
        length = 1 if number is None else number
        if not 1 <= length <= MAX_LENGTH:
            raise UnsupportedType(f"{text}: the length lies between 1 and {MAX_LENGTH}.")
        return lengths[name](length=length, nullable=nullable)
    if name == "TIME" and rest in ("", "WITHOUT TIME ZONE"):
        return TimeType(precision=_precision(0 if number is None else number, text), nullable=nullable)
    if name == "TIMESTAMP" and rest in ("", "WITHOUT TIME ZONE"):
        return TimestampType(precision=_precision(6 if number is None else number, text), nullable=nullable)
    if (name, rest) in (("TIMESTAMP", "WITH LOCAL TIME ZONE"), ("TIMESTAMP_LTZ", "")):
        return LocalZonedTimestampType(precision=_precision(6 if number is None else number, text), nullable=nullable)
    return None


def _precision(number: int, text: str) -> int:
    if not 0 <= number <= 9:
        raise UnsupportedType(f"{text}: the precision lies between 0 and 9.")
    return number
