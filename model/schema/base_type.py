"""What all column types are."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar


@dataclass(frozen=True, slots=True, kw_only=True)
class DataType:
    """Base of all types; nullable unless said otherwise."""

    nullable: bool = True
    root: ClassVar[str] = ""

    def sql(self) -> str:
        """The type without its nullability, as SQL spells it."""
        return self.root

    def to_json(self) -> str | dict[str, Any]:
        """The type as it stands in a schema file."""
        return self.sql() + self._suffix()

    def _suffix(self) -> str:
        return "" if self.nullable else " NOT NULL"

    def with_nullable(self, nullable: bool) -> DataType:
        """The same type with the given nullability."""
        return self if self.nullable == nullable else replace(self, nullable=nullable)

    def __str__(self) -> str:
        return self.sql() + self._suffix()


class AtomicType(DataType):
    """A type without parts; the only kind that may partition, route to buckets or carry statistics."""

    __slots__ = ()
