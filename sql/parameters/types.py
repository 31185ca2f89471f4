"""Which types the placeholders of a statement want, as far as its text and the tables it names tell: for clients that ask first."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from sqlglot import exp

from lake import Lake
from model.errors import LakeError
from model.identifier import Identifier
from model.schema.schema import Schema
from model.schema.types import BigIntType, DataType, DoubleType, IntType, VarCharType
from sql.analysis.references import table_references
from sql.analysis.rewrites.cut_casts import TEXTS
from sql.dialect import column_type, parse_one
from sql.execution.results import ResultColumn
from sql.execution.session import Session
from sql.parameters.parameters import NONE as NO_PARAMETERS
from sql.parameters.parameters import Parameter, Parameters
from sql.parameters.placeholders import Bound, Placeholder

_MARK = "wanted"
_UNKNOWN = VarCharType()
"""Where nothing tells: text is converted wherever Spark converts."""
_SAMPLES: dict[str, Any] = {
    "BOOLEAN": True, "TINYINT": 1, "SMALLINT": 1, "INT": 1, "BIGINT": 1, "FLOAT": 1.0, "DOUBLE": 1.0, "DECIMAL": Decimal(1),
    "CHAR": "1", "VARCHAR": "1", "BINARY": b"1", "VARBINARY": b"1", "DATE": dt.date(2000, 1, 1), "TIME": dt.time(1),
}  # fmt: skip
_COMPARING = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.NullSafeEQ, exp.NullSafeNEQ, exp.Between, exp.In)
_RECKONING = (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainInsert:
    """``INSERT INTO t [(columns)] VALUES (?, …)`` with placeholders alone: rows bound to it are rows of the table."""

    table: Identifier
    columns: tuple[str, ...]


class _Marking:
    """Puts a mark where each placeholder stands."""

    def __init__(self) -> None:
        self.seen: dict[int, Placeholder] = {}

    def value(self, placeholder: Placeholder, text: str) -> Bound:
        self.seen[placeholder.start] = placeholder
        mark = exp.Null()
        mark.meta[_MARK] = placeholder.start
        return Bound(mark, "1")


def wanted_parameters(text: str, lake: Lake, session: Session) -> list[ResultColumn]:
    """The placeholders of one statement in order, with their types; those of one name once. Raises what parsing raises."""
    if "?" not in text and ":" not in text:
        return []
    marking = _Marking()
    tree = parse_one(text, marking)
    tables = _Tables(tree, lake, session)
    types: dict[int, DataType] = {}
    for node in tree.find_all(exp.Null):
        if _MARK in node.meta:
            types[node.meta[_MARK]] = tables.type_of(node)
    columns: dict[str, ResultColumn] = {}
    for start in sorted(marking.seen):
        placeholder = marking.seen[start]
        name = placeholder.name or str(placeholder.number)
        columns.setdefault(name, ResultColumn(name, types.get(start, _UNKNOWN).with_nullable(True)))
    return list(columns.values())


def sample_parameters(wanted: Sequence[ResultColumn]) -> Parameters:
    """Values of these types, so that the statement can be looked at before it has its own."""
    if not wanted:
        return NO_PARAMETERS
    values = [Parameter(column.type, _sample(column.type)) for column in wanted]
    if any(not column.name.isdecimal() for column in wanted):
        return Parameters(by_name={column.name: value for column, value in zip(wanted, values, strict=True)})
    return Parameters(positional=values)


def plain_insert(text: str, lake: Lake, session: Session) -> PlainInsert | None:
    """The statement as a plain insert of its parameters, None where it is anything else."""
    marking = _Marking()
    tree = parse_one(text, marking)
    tables = _Tables(tree, lake, session)
    if not isinstance(tree, exp.Insert) or tree.args.get("overwrite") or tree.args.get("partition") or tables.target is None:
        return None
    values = tree.args["expression"]
    rows = values.expressions if isinstance(values, exp.Values) else []
    if len(rows) != 1 or not all(_MARK in node.meta for node in rows[0].expressions):
        return None
    columns = tables.target_columns()
    if len(columns) != len(rows[0].expressions) or any(placeholder.name for placeholder in marking.seen.values()):
        return None
    return PlainInsert(table=tables.target[0], columns=tuple(columns))


def _sample(type_: DataType) -> Any:
    if type_.root == "TIMESTAMP":
        return dt.datetime(2000, 1, 1, tzinfo=dt.UTC if "LOCAL" in type_.sql() else None)
    return _SAMPLES.get(type_.root)


class _Tables:
    """What the tables a statement names say of its placeholders."""

    def __init__(self, tree: exp.Expr, lake: Lake, session: Session) -> None:
        self._tree = tree
        self._lake = lake
        self._session = session
        self.target = self._target()

    def type_of(self, mark: exp.Expr) -> DataType:
        """The type wanted where a mark stands."""
        parent = mark.parent
        while isinstance(parent, exp.Paren | exp.Neg):
            mark, parent = parent, parent.parent
        match parent:
            case exp.Cast(to=to):
                return _named(to)
            case exp.Limit() | exp.Offset():
                return IntType()
            case exp.Tuple() if isinstance(parent.parent, exp.Values) and self.target is not None:
                return self._assigned(mark, parent)
        if isinstance(parent, _COMPARING):
            return next(filter(None, (self._type(other) for other in _children(parent) if other is not mark)), _UNKNOWN)
        if isinstance(parent, _RECKONING):
            other = next(part for part in _children(parent) if part is not mark)
            return self._type(other) or DoubleType()
        return _UNKNOWN

    def target_columns(self) -> Sequence[str]:
        """The columns an INSERT fills, in order."""
        into = self._tree.this
        if isinstance(into, exp.Schema):
            return [node.name for node in into.expressions]
        return self.target[1].field_names if self.target else ()

    def _assigned(self, mark: exp.Expr, row: exp.Expr) -> DataType:
        assert self.target is not None
        position = next(at for at, node in enumerate(row.expressions) if node is mark)
        columns = self.target_columns()
        field = self.target[1].find(columns[position]) if position < len(columns) else None
        return field.type if field is not None else _UNKNOWN

    def _target(self) -> tuple[Identifier, Schema] | None:
        if not isinstance(self._tree, exp.Insert):
            return None
        into = self._tree.this.this if isinstance(self._tree.this, exp.Schema) else self._tree.this
        return self._open(tuple(part.name for part in into.parts)) if isinstance(into, exp.Table) else None

    def _type(self, node: exp.Expr) -> DataType | None:
        if isinstance(node, exp.Literal):
            return _UNKNOWN if node.is_string else BigIntType() if node.name.isdecimal() else DoubleType()
        if isinstance(node, exp.Cast):
            return _named(node.to)
        if not isinstance(node, exp.Column):
            return None
        for reference in table_references(self._tree):
            alias = reference.node.alias or reference.parts[-1]
            if node.table and node.table != alias:
                continue
            opened = self._open(reference.parts)
            if opened is not None and (field := opened[1].find(node.name)) is not None:
                return field.type
        return None

    def _open(self, parts: tuple[str, ...]) -> tuple[Identifier, Schema] | None:
        """A table's schema; of what is none, or not the caller's to see, the statement itself will tell."""
        try:
            identifier = self._session.identifier(parts)
            if len(parts) == 1 and parts[0] in self._session.temporary_tables:
                return None
            return identifier, self._lake.open(identifier).schema
        except LakeError:
            return None


def _children(node: exp.Expr) -> Iterator[exp.Expr]:
    for value in node.args.values():
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, exp.Expr):
                yield child


def _named(node: exp.Expr) -> DataType:
    """The type a cast is to; of CHAR(n) and VARCHAR(n) a STRING, as the cast cuts what is longer."""
    try:
        return VarCharType() if isinstance(node, exp.DataType) and node.this in TEXTS else column_type(node.sql("spark"))
    except LakeError:
        return _UNKNOWN
