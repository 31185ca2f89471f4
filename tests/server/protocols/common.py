"""What can be done through a endpoint, and how it says no."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol
from uuid import uuid4

from lake import LakeTable
from model.errors import LakeError
from model.identifier import Identifier
from model.schema.types import Field, parse_type
from table.format.manifests.entries import EMPTY_ROW, DataFile, NewFile, SimpleStats

Columns = list[tuple[str, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What a endpoint says of a failure; None where it has no word for it."""

    status: int
    resource_type: str | None = None
    error_class: str | None = None

    def is_of(self, expected: type[LakeError]) -> bool:
        """Whether the endpoint said what this class says, as far as it has words."""
        kind = getattr(expected, "resource_type", None)
        named = self.error_class is not None or self.resource_type == kind
        return self.status == expected.status and self.error_class in (None, expected.error_class) and named


class Refused(Exception):
    """A endpoint said no."""

    def __init__(self, told: Told) -> None:
        super().__init__(told)
        self.told = told


class Endpoint(Protocol):
    """What can be done and seen; tables and views are named ``d.t``."""

    def create_database(self, name: str, options: dict[str, str]) -> None: ...
    def alter_database(self, name: str, options: dict[str, str]) -> None: ...
    def drop_database(self, name: str) -> None: ...
    def databases(self) -> list[str]: ...
    def database_options(self, name: str) -> dict[str, str]: ...
    def create_table(self, name: str, columns: Columns, *, options: dict[str, str], comment: str, partition: str | None = None) -> None: ...
    def drop_table(self, name: str) -> None: ...
    def rename_table(self, name: str, to: str) -> None: ...
    def tables(self, database: str) -> list[str]: ...
    def columns(self, name: str) -> Columns: ...
    def options(self, name: str) -> dict[str, str]: ...
    def add_column(self, name: str, column: str, type_: str) -> None: ...
    def rename_column(self, name: str, column: str, to: str) -> None: ...
    def drop_column(self, name: str, column: str) -> None: ...
    def set_option(self, name: str, key: str, value: str) -> None: ...
    def reset_option(self, name: str, key: str) -> None: ...
    def append(self, name: str) -> None: ...
    def records(self, name: str) -> int: ...
    def snapshots(self, name: str) -> list[int]: ...
    def partitions(self, name: str) -> list[str]: ...
    def create_tag(self, name: str, tag: str, snapshot: int) -> None: ...
    def delete_tag(self, name: str, tag: str) -> None: ...
    def tags(self, name: str) -> list[str]: ...
    def rollback(self, name: str, snapshot: int) -> None: ...
    def create_branch(self, name: str, branch: str, tag: str) -> None: ...
    def rename_branch(self, name: str, branch: str, to: str) -> None: ...
    def fast_forward(self, name: str, branch: str) -> None: ...
    def drop_branch(self, name: str, branch: str) -> None: ...
    def branches(self, name: str) -> list[str]: ...
    def create_view(self, name: str, query: str) -> None: ...
    def rename_view(self, name: str, to: str) -> None: ...
    def drop_view(self, name: str) -> None: ...
    def views(self, database: str) -> list[str]: ...


def identifier(name: str) -> Identifier:
    """``d.t`` or ``d.t$branch_b``."""
    database, _, object_ = name.partition(".")
    table, _, branch = object_.partition("$branch_")
    return Identifier(database, table, branch or "main")


def fields_of(query: str) -> tuple[Field, ...]:
    """The one column of `SELECT name FROM …`, a BIGINT."""
    return (Field(id=0, name=query.split()[1], type=parse_type("BIGINT")),)


def two_rows(day: str | None) -> NewFile:
    """A file of two rows that nobody opens: every endpoint counts from the manifests."""
    from table.format.rows import binary_row

    file = DataFile(
        file_name=f"data-{uuid4()}-0.parquet", file_size=9, row_count=2, value_stats=SimpleStats(), value_stats_cols=(),
        min_sequence_number=0, max_sequence_number=1, schema_id=0, creation_time_millis=1,
    )  # fmt: skip
    partition = EMPTY_ROW if day is None else binary_row.encode_prefixed([parse_type("STRING")], (day,))
    return NewFile(partition=partition, bucket=0, file=file)


def day_of(table: LakeTable) -> str | None:
    """The partition all rows of a partitioned table go to."""
    return "x" if table.schema.partition_keys else None


def refusal(act: Callable[[], object]) -> Told:
    """What the endpoint said no with; an act that succeeds is a failure."""
    try:
        act()
    except LakeError as error:
        return Told(status=error.status, resource_type=getattr(error, "resource_type", None), error_class=error.error_class)
    except Refused as refused:
        return refused.told
    raise AssertionError("nothing was refused")
