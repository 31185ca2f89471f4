"""What a clause of UPDATE or MERGE gives the columns of a row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from sqlglot import exp

from lake import LakeTable
from model.errors import AnalysisError
from model.schema.types import Field, RowType
from sql.analysis.references import TableReference

Target = tuple[tuple[str, ...], int | None]
"""The path of a column or of a part of one, as written, and which of the query's values it is given; None for DEFAULT."""
_GENERATORS = frozenset(
    {"explode", "explode_outer", "posexplode", "posexplode_outer", "inline", "inline_outer", "stack", "json_tuple", "variant_explode"}
)


class Kind(Enum):
    """What a clause does with the rows it is for."""

    UPDATE = "UPDATE"
    DELETE = "DELETE"
    INSERT = "INSERT"


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """What one column is given."""

    field: Field
    value: int | None = None
    """Which of the query's values; None for the column's default, or where parts are given."""
    parts: tuple[tuple[tuple[str, ...], int | None], ...] = ()
    """Parts of a ROW, by their paths in it; what is not named stays."""

    @property
    def nested(self) -> bool:
        """Whether only parts are given."""
        return bool(self.parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Clause:
    """What is done with the rows of one clause."""

    kind: Kind
    assignments: tuple[Assignment, ...] = ()

    @property
    def assigned(self) -> frozenset[str]:
        """The columns it gives something."""
        return frozenset(assignment.field.name for assignment in self.assignments)


def assignments_of(table: LakeTable, reference: TableReference, targets: Sequence[Target]) -> tuple[Assignment, ...]:
    """The assignments by column; raises `AnalysisError` for what is no column, and for one that is given two values."""
    whole: dict[str, int | None] = {}
    parts: dict[str, dict[tuple[str, ...], int | None]] = {}
    for path, value in targets:
        name, *rest = _path_of(table, reference, path)
        field = table.schema.field(name, table=str(table.identifier))
        _check_part(field, rest)
        inner = parts.setdefault(name, {}) if rest else {}
        clashes = (rest[:at] in map(list, inner) or list(other)[: len(rest)] == rest for other in inner for at in range(1, len(rest) + 1))
        if name in whole or (not rest and name in parts) or any(clashes):
            raise AnalysisError(f"Column {'.'.join([name, *rest])} is given a value twice.", fragment=name)
        if rest:
            inner[tuple(rest)] = value
        else:
            whole[name] = value
    made = [Assignment(field=table.schema.field(name), value=value) for name, value in whole.items()]
    made += [Assignment(field=table.schema.field(name), parts=tuple(of.items())) for name, of in parts.items() if of]
    return tuple(made)


def _path_of(table: LakeTable, reference: TableReference, path: tuple[str, ...]) -> tuple[str, ...]:
    """The path without what names the table."""
    alias = reference.node.alias
    qualifiers = [(alias,)] if alias else [reference.parts[at:] for at in range(len(reference.parts))]
    if len(path) > 1 and table.schema.find(path[0]) is None:
        for qualifier in qualifiers:
            if path[: len(qualifier)] == qualifier and len(path) > len(qualifier):
                return path[len(qualifier) :]
    return path


def _check_part(field: Field, path: Sequence[str]) -> None:
    """Raise `AnalysisError` where a path is no part of a column."""
    inside, walked = field.type, field.name
    for name in path:
        if not isinstance(inside, RowType):
            raise AnalysisError(f"{walked} is {inside.sql()} and has no part {name}; only parts of a ROW are given values.", fragment=name)
        part = next((part for part in inside.fields if part.name == name), None)
        if part is None:
            raise AnalysisError(f"{walked} has no part {name}: it has {', '.join(p.name for p in inside.fields)}.", fragment=name)
        inside, walked = part.type, f"{walked}.{name}"


def check_values(values: Sequence[exp.Expr]) -> None:
    """Raise `AnalysisError` for what gives no single value for each row, and for stars, which would name more than the table's columns."""
    for value in values:
        for node in value.walk(prune=lambda node: isinstance(node, exp.Query | exp.Subquery)):
            name = node.name.lower() if isinstance(node, exp.Anonymous) else node.key
            if name in _GENERATORS or isinstance(node, exp.Window | exp.AggFunc | exp.Unnest | exp.Explode):
                written = node.sql("spark")[:80]
                raise AnalysisError(f"{written} gives no value for each row by itself; take it from a subquery.", fragment=None)
            if isinstance(node, exp.Star):
                raise AnalysisError("A value is made of columns that are named, not of *.", fragment="*")
