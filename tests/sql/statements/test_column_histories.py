"""Whatever happens to columns between writes: rows, conditions, bounds and counts are those of a model, whichever files hold them.

Columns are added, dropped, renamed into each other's old names, moved and given other types and defaults, while rows are written,
changed and compacted; statistics and file indexes of older files then speak of other names and types than conditions do.
"""

from __future__ import annotations

import datetime as dt
import os
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gateway.gateway import Gateway
from model.errors import LakeError
from tests.interop.strict import check_warehouse

SEED = int(os.environ.get("SLUICE_TEST_SEED", "20261126"))
_NAMES = ("a", "b", "c", "e", "f")
_INTEGERS = {"TINYINT": 8, "SMALLINT": 16, "INT": 32, "BIGINT": 64}
_STARTS = (
    "TINYINT",
    "SMALLINT",
    "INT",
    "BIGINT",
    "FLOAT",
    "DOUBLE",
    "DECIMAL(6, 2)",
    "DATE",
    "TIMESTAMP(3)",
    "BOOLEAN",
    "VARCHAR(6)",
    "STRING",
)
_NEXT = {
    "TINYINT": ("SMALLINT", "INT", "BIGINT", "DECIMAL(24, 2)", "DOUBLE", "STRING"),
    "SMALLINT": ("INT", "BIGINT", "DECIMAL(24, 2)", "DOUBLE", "STRING"),
    "INT": ("BIGINT", "DECIMAL(24, 2)", "DOUBLE", "STRING"),
    "BIGINT": ("DECIMAL(24, 2)", "STRING"),
    "FLOAT": ("DOUBLE",),
    "DECIMAL(6, 2)": ("DECIMAL(24, 2)", "DECIMAL(12, 4)"),
    "DATE": ("TIMESTAMP(3)", "STRING"),
    "TIMESTAMP(3)": ("TIMESTAMP(6)",),
    "BOOLEAN": ("STRING",),
    "VARCHAR(6)": ("STRING",),
}
"""Casts that give the same whether a file was rewritten in between or not; texts of numbers and times that were cast before do not."""
_LAYOUTS = {
    "queue": "WITH ('bucket' = '1', 'bucket-key' = 'id'{})",
    "buckets": "WITH ('bucket' = '3', 'bucket-key' = 'id'{})",
    "no buckets": "WITH ('bucket' = '-1'{})",
    "partitions": "PARTITIONED BY (p) WITH ('bucket' = '-1'{})",
    "orc": "WITH ('bucket' = '-1', 'file.format' = 'orc'{})",
}
_SETTINGS: Sequence[Mapping[str, str]] = (
    {},
    {"metadata.stats-mode": "truncate(2)"},
    {"metadata.stats-mode": "full"},
    {"metadata.stats-dense-store": "false"},
    {"file-index.bloom-filter.columns": "a,b", "file-index.bitmap.columns": "a", "file-index.in-manifest-threshold": "1 mb"},
    {"file-index.range-bitmap.columns": "a,b"},
)
Value = Any


@dataclass(eq=False)
class Column:
    """One column, under whatever name and type."""

    name: str
    type: str
    default: Value = None


@dataclass(eq=False)
class Row:
    """One row; what was written before a column was there is NULL in it."""

    id: int
    partition: str
    values: dict[Column, Value] = field(default_factory=dict)


def cast(value: Value, old: str, new: str) -> Value:
    """A value of one type as the other reads it."""
    if value is None or old == new or new in _INTEGERS:
        return value
    if new == "DOUBLE":
        return float(value)
    if new.startswith("DECIMAL"):
        return Decimal(value)
    if new.startswith("TIMESTAMP"):
        return dt.datetime(value.year, value.month, value.day) if old == "DATE" else value
    if old == "BOOLEAN":
        return str(value).lower()
    return str(value)


def written(value: Value, type_: str) -> str:
    """A value as a literal."""
    if value is None:
        return "NULL"
    match value:
        case bool():
            return str(value).upper()
        case str():
            return "'" + value.replace("'", "''") + "'"
        case dt.datetime():
            return f"TIMESTAMP '{value.isoformat(sep=' ', timespec='milliseconds')}'"
        case dt.date():
            return f"DATE '{value}'"
        case float():
            return f"{value:.17e}"
    return str(value)


class Columns:
    """A table whose columns change, and what it is known to hold."""

    def __init__(self, gateway: Gateway, rng: random.Random, layout: str) -> None:
        self.gateway, self.rng = gateway, rng
        self.partitioned = layout == "partitions"
        settings = dict(rng.choice(_SETTINGS)) | {"rows.erasable": "true", "write-only": "true"}
        self.indexes = [key for key in settings if key.endswith(".columns")]
        starts = ("INT", "BIGINT", "STRING") if self.indexes else _STARTS
        self.columns = [Column("a", rng.choice(starts)), Column("b", rng.choice(starts))]
        self.indexed = list(self.columns) if self.indexes else []
        self.rows: list[Row] = []
        self.next_id = 0
        self.told: list[str] = []
        self.compared = self.left = 0
        more = "".join(f", '{key}' = '{value}'" for key, value in settings.items())
        shown = ", ".join(f"{column.name} {column.type}" for column in self.columns)
        self.do(f"CREATE TABLE t (id INT, p STRING, {shown}) {_LAYOUTS[layout].format(more)}")

    def do(self, text: str) -> None:
        self.told.append(text)
        try:
            self.gateway.run(text).close()
        except LakeError as problem:
            raise AssertionError("\n".join([*self.told, repr(problem)])) from problem

    def ask(self, text: str) -> list[tuple[Any, ...]] | None:
        """The rows of a query, or None where it takes Spark."""
        try:
            with self.gateway.run(text) as result:
                return result.collect()
        except LakeError as problem:
            if problem.status == 503:
                return None
            raise AssertionError("\n".join([*self.told, text, repr(problem)])) from problem

    # What happens

    def value(self, type_: str) -> Value:
        rng = self.rng
        if rng.random() < 0.2:
            return None
        if bits := _INTEGERS.get(type_):
            return rng.choice((0, 1, -1, 7, 10, 100, 2 ** (bits - 1) - 1, -(2 ** (bits - 1)), rng.randrange(-50, 50)))
        match type_.partition("(")[0]:
            case "FLOAT":
                return float(np.float32(rng.choice((0.0, 1.5, -2.25, 0.1, 3e38, rng.uniform(-10, 10)))))
            case "DOUBLE":
                return rng.choice((0.0, 1.5, -2.25, 0.1, 1e300, rng.uniform(-10, 10)))
            case "DECIMAL":
                return Decimal(rng.choice((0, 1, -1, 999999, rng.randrange(-(10**5), 10**5)))).scaleb(-2)
            case "DATE":
                return dt.date(1970, 1, 1) + dt.timedelta(days=rng.choice((0, -1, 20000, rng.randrange(-9000, 9000))))
            case "TIMESTAMP":
                seconds = rng.choice((0, -1, 86_400, rng.randrange(-(10**9), 10**9)))
                # ORC holds no fraction of a second before 1970.
                return dt.datetime(1970, 1, 1) + dt.timedelta(seconds=seconds, milliseconds=0 if seconds < 0 else rng.randrange(1000))
            case "BOOLEAN":
                return rng.random() < 0.5
        return rng.choice(("", "a", "ab", "abc", "b%", "ä", "zz\U0001f600", "10", "9", "true", "A", f"x{rng.randrange(20)}"))

    def insert(self) -> None:
        given = [column for column in self.columns if self.rng.random() < 0.8]
        self.rng.shuffle(given)
        texts = []
        for _ in range(self.rng.choice((1, 1, 2, 5))):
            row = Row(self.next_id, self.rng.choice("xy"))
            self.next_id += 1
            for column in self.columns:
                value = self.value(column.type) if column in given else None
                row.values[column] = column.default if value is None else value
            self.rows.append(row)
            texts.append(
                f"({', '.join([str(row.id), written(row.partition, 'STRING'), *(written(row.values[c], c.type) for c in given)])})"
            )
        self.do(f"INSERT INTO t ({', '.join(['id', 'p', *(column.name for column in given)])}) VALUES {', '.join(texts)}")

    def free_name(self) -> str | None:
        free = [name for name in _NAMES if name not in {column.name for column in self.columns}]
        return self.rng.choice(free) if free else None

    def where(self) -> str:
        return self.rng.choice(("", " FIRST", f" AFTER {self.rng.choice(self.columns).name}")) if self.columns else ""

    def add(self) -> None:
        name = self.free_name()
        if name is not None:
            column = Column(name, self.rng.choice(_STARTS))
            self.do(f"ALTER TABLE t ADD {name} {column.type}{self.where()}")
            self.columns.append(column)

    def drop(self) -> None:
        if len(self.columns) > 1:
            column = self.columns.pop(self.rng.randrange(len(self.columns)))
            self.without_indexes_of(column)
            self.do(f"ALTER TABLE t DROP {column.name}")

    def without_indexes_of(self, column: Column) -> None:
        """Columns with an index stay, and so do types of theirs."""
        if column in self.indexed:
            self.do(f"ALTER TABLE t RESET ({', '.join(map(repr, self.indexes))})")
            self.indexed.clear()

    def rename(self) -> None:
        name = self.free_name()
        if name is not None:
            column = self.rng.choice(self.columns)
            self.do(f"ALTER TABLE t RENAME {column.name} TO {name}")
            column.name = name

    def retype(self) -> None:
        column = self.rng.choice(self.columns)
        if column.default is None and (types := _NEXT.get(column.type)):
            new = self.rng.choice(types)
            if new == "STRING" and not self.only(column):
                return
            if new != "BIGINT":
                self.without_indexes_of(column)
            self.do(f"ALTER TABLE t MODIFY {column.name} {new}")
            for row in self.rows:
                row.values[column] = cast(row.values.get(column), column.type, new)
            column.type = new

    def only(self, column: Column) -> bool:
        return column.type in _INTEGERS or column.type in ("DATE", "BOOLEAN", "VARCHAR(6)")

    def move(self) -> None:
        column, other = self.rng.choice(self.columns), self.rng.choice(self.columns)
        if column is not other:
            self.do(f"ALTER TABLE t MODIFY {column.name} {column.type} AFTER {other.name}")

    def set_default(self) -> None:
        column = self.rng.choice(self.columns)
        if column.type not in ("INT", "BIGINT", "STRING", "BOOLEAN"):
            return
        column.default = self.value(column.type)
        if column.default is None or column.default == "":
            column.default = None
            self.do(f"ALTER TABLE t ALTER COLUMN {column.name} DROP DEFAULT")
        else:
            self.do(f"ALTER TABLE t ALTER COLUMN {column.name} SET DEFAULT {written(column.default, column.type)}")

    def change(self) -> None:
        if self.rows:
            top = self.rng.choice(self.rows).id
            column = self.rng.choice(self.columns)
            value = self.value(column.type)
            self.do(f"UPDATE t SET {column.name} = {written(value, column.type)} WHERE id >= {top} AND id < {top + 3}")
            for row in self.rows:
                if top <= row.id < top + 3:
                    row.values[column] = column.default if value is None else value

    def erase(self) -> None:
        if self.rows:
            gone = self.rng.choice(self.rows)
            self.do(f"DELETE FROM t WHERE id = {gone.id}")
            self.rows.remove(gone)

    def compact(self) -> None:
        self.do(
            self.rng.choice(
                ("CALL sys.compact('t')", "CALL sys.compact('t', compact_strategy => 'full')", "CALL sys.rewrite_file_index('t')")
            )
        )

    # What must be

    def condition(self) -> tuple[str, Callable[[Row], bool | None]]:
        rng = self.rng
        if rng.random() < 0.3:
            (left, of_left), (right, of_right) = self.condition(), self.condition()
            if rng.random() < 0.5:
                return f"({left} AND {right})", lambda row: both(of_left(row), of_right(row))
            return f"({left} OR {right})", lambda row: either(of_left(row), of_right(row))
        if rng.random() < 0.1:
            text, of = self.condition()
            return f"NOT {text}", lambda row: None if (kept := of(row)) is None else not kept
        column = rng.choice(self.columns)
        values = [row.values.get(column) for row in self.rows]
        value = rng.choice(values) if values and rng.random() < 0.7 else self.value(column.type)
        kind = rng.randrange(9)
        if value is None or kind == 0:
            negated = rng.random() < 0.5
            return f"{column.name} IS {'NOT ' * negated}NULL", lambda row: (row.values.get(column) is not None) == negated
        if kind == 1:
            more = [value, *(other for other in (self.value(column.type) for _ in range(2)) if other is not None)]
            texts = ", ".join(written(other, column.type) for other in more)
            return f"{column.name} IN ({texts})", known(column, lambda found: found in more)
        if kind == 2 and isinstance(value, str) and value and "%" not in value:
            return (
                f"{column.name} LIKE '{value[:2]}%'",
                lambda row: None if row.values.get(column) is None else row.values[column].startswith(value[:2]),
            )
        operator, compare = rng.choice(_OPERATORS)
        return (
            f"{column.name} {operator} {written(value, column.type)}",
            lambda row: None if row.values.get(column) is None else compare(row.values[column], value),
        )

    def check(self, conditions: int = 6) -> None:
        names = ", ".join(["id", *(column.name for column in self.columns)])
        self.agree(f"SELECT {names} FROM t", [self.shown(row) for row in self.rows])
        for _ in range(conditions):
            text, of = self.condition()
            self.agree(f"SELECT {names} FROM t WHERE {text}", [self.shown(row) for row in self.rows if of(row)])
        self.agree("SELECT COUNT(*) FROM t", [(len(self.rows),)])
        for column in self.columns:
            values = [value for row in self.rows if (value := row.values.get(column)) is not None]
            if column.type != "BOOLEAN":
                key = _utf8 if values and isinstance(values[0], str) else None
                low, high = min(values, default=None, key=key), max(values, default=None, key=key)
                self.agree(f"SELECT MIN({column.name}), MAX({column.name}), COUNT({column.name}) FROM t", [(low, high, len(values))])

    def agree(self, text: str, expected: Sequence[tuple[Value, ...]]) -> None:
        found = self.ask(text)
        if found is None:
            self.left += 1
            return
        self.compared += 1
        assert as_bag(found) == as_bag(expected), "\n".join([*self.told, text])

    def shown(self, row: Row) -> tuple[Value, ...]:
        return (row.id, *(row.values.get(column) for column in self.columns))


_OPERATORS: Sequence[tuple[str, Callable[[Value, Value], bool]]] = (
    ("=", lambda a, b: bool(a == b)),
    ("<>", lambda a, b: bool(a != b)),
    ("<", lambda a, b: bool(_utf8(a) < _utf8(b))),
    ("<=", lambda a, b: bool(_utf8(a) <= _utf8(b))),
    (">", lambda a, b: bool(_utf8(a) > _utf8(b))),
    (">=", lambda a, b: bool(_utf8(a) >= _utf8(b))),
)


def known(column: Column, of: Callable[[Value], bool]) -> Callable[[Row], bool | None]:
    """A condition on a value, which says nothing of NULL."""
    return lambda row: None if (value := row.values.get(column)) is None else of(value)


def _utf8(value: Value) -> Value:
    """Texts are in the order of their bytes."""
    return value.encode() if isinstance(value, str) else value


def both(left: bool | None, right: bool | None) -> bool | None:
    return False if left is False or right is False else None if left is None or right is None else True


def either(left: bool | None, right: bool | None) -> bool | None:
    return True if left or right else None if left is None or right is None else False


def as_bag(rows: Iterable[tuple[Value, ...]]) -> list[str]:
    return sorted(repr(tuple(_plain(value) for value in row)) for row in rows)


def _plain(value: Value) -> Value:
    return value.normalize() if isinstance(value, Decimal) else value


_STEPS: dict[Callable[[Columns], None], int] = {
    Columns.insert: 12, Columns.add: 3, Columns.drop: 2, Columns.rename: 3, Columns.retype: 4, Columns.move: 1, Columns.set_default: 2,
    Columns.change: 3, Columns.erase: 2, Columns.compact: 2,
}  # fmt: skip


def live(gateway: Gateway, layout: str, seed: int, *, steps: int, conditions: int = 6) -> Columns:
    rng = random.Random(seed)
    columns = Columns(gateway, rng, layout)
    columns.insert()
    for _ in range(steps):
        (step,) = rng.choices(list(_STEPS), list(_STEPS.values()))
        step(columns)
        columns.check(conditions)
    return columns


@pytest.mark.parametrize("layout", _LAYOUTS)
def test_any_change(gateway: Gateway, warehouse: Path, layout: str) -> None:
    lived = live(gateway, layout, SEED, steps=12)
    assert lived.compared > lived.left
    check_warehouse(warehouse)


@pytest.mark.torture
@pytest.mark.parametrize("seed", range(int(os.environ.get("SLUICE_TEST_HISTORIES", "40"))))
@pytest.mark.parametrize("layout", _LAYOUTS)
def test_many_changes(gateway: Gateway, warehouse: Path, layout: str, seed: int) -> None:
    live(gateway, layout, SEED + 1000 + seed, steps=50)
    check_warehouse(warehouse)
