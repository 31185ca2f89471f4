"""What a connector declares, and a table made with one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, ClassVar

from model.location import Location
from model.options.option import Option, OptionGroup, one_of
from model.options.watermark import Watermark
from model.schema.types import DataType, Field


class Bound(Enum):
    """How a table ends when it is read as a stream."""

    NEVER = "never"
    NOW = "now"
    """With what is there when the stream starts (Spark's ``Trigger.AvailableNow``)."""
    OFFSET = "offset"
    """When its offset says so: it has a member ``end`` then, which is true."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectorTable:
    """``CREATE [TEMPORARY] TABLE … WITH ('connector' = …)``: how to find rows that lie elsewhere."""

    name: str
    columns: tuple[Field, ...]
    options: Mapping[str, str]
    metadata: Mapping[str, str] = field(default_factory=dict)
    """Columns that tell about the record a row came from, and which key each shows."""
    virtual: frozenset[str] = frozenset()
    """METADATA columns that are only read."""
    watermark: Watermark | None = None
    comment: str | None = None
    kept: bool = False
    """Whether it is one of the catalog, which others than its maker read and write by grants; else the session's own."""
    owned: bool = False
    """Whether the caller holds ALL on it: the maker's secrets are his to use."""

    @property
    def connector(self) -> str:
        """The connector's name."""
        return self.options["connector"].lower()

    @property
    def written_columns(self) -> tuple[Field, ...]:
        """The columns an INSERT fills: all but VIRTUAL ones."""
        return tuple(column for column in self.columns if column.name not in self.virtual)

    def to_json(self) -> dict[str, Any]:
        """The table as JSON, for keeping it."""
        body: dict[str, Any] = {
            "columns": [field.to_json() for field in self.columns],
            "options": dict(self.options),
            "metadata": dict(self.metadata),
            "virtual": sorted(self.virtual),
        }
        if self.watermark is not None:
            body["watermark"] = {"column": self.watermark.column, "expression": self.watermark.expression}
        return body if self.comment is None else body | {"comment": self.comment}

    @classmethod
    def from_json(cls, name: str, body: Mapping[str, Any]) -> ConnectorTable:
        """The table kept as JSON."""
        return cls(
            name=name,
            columns=tuple(Field.from_json(column) for column in body["columns"]),
            options=dict(body["options"]),
            metadata=dict(body["metadata"]),
            virtual=frozenset(body["virtual"]),
            watermark=Watermark(**body["watermark"]) if "watermark" in body else None,
            comment=body.get("comment"),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectorScope:
    """What of the server and the session a connector may use."""

    import_dirs: tuple[str, ...] = ()
    refuse_guarded: Callable[[Sequence[Location]], None] = lambda _: None
    """Raises `Forbidden` for places that are a table's, which are not to be read as they lie."""
    remote_catalogs: tuple[str, ...] = ()
    """Addresses of other catalogs whose word is trusted."""
    kafka_brokers: tuple[str, ...] | None = None
    """Brokers, `host` or `host:port`, that may be connected to; None allows all."""
    zone: str = "UTC"


class Connector:
    """One kind of place where rows lie; its reading and writing is the `SparkConnector` of the same name."""

    name: ClassVar[str]
    options: ClassVar[OptionGroup]
    """All keys its tables may have, ``connector`` among them."""
    metadata: ClassVar[Mapping[str, DataType]] = {}
    """What METADATA columns may show."""
    source: ClassVar[bool] = True
    sink: ClassVar[bool] = False

    def check(self, table: ConnectorTable, scope: ConnectorScope) -> None:
        """Raise for a table that can never work; each option by itself is known and parses already."""

    def shared_end(self, table: ConnectorTable) -> str | None:
        """The option that ends a stream of the table only where all sources of the query end with what is there; None for none."""
        return None

    def bound(self, table: ConnectorTable) -> Bound:
        """How the table ends as a stream."""
        return Bound.NEVER


def options_of(name: str, doc: str) -> OptionGroup:
    """The group for a connector's options, with ``connector`` in it."""
    group = OptionGroup(f"Option of connector {name}", doc)
    group.declare(Option("connector", one_of(name), name, "This connector."))
    return group
