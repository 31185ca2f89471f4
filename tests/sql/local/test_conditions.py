"""Conditions on columns that changed, on partitions and bucket keys of hostile values: each way keeps the rows it should."""

from __future__ import annotations

import os
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Context, Decimal
from typing import Any

import pyarrow as pa
import pytest

from gateway.gateway import Gateway
from lake import Lake
from model.identifier import Identifier
from model.schema.types import DataType, DecimalType
from sql.execution.writing import append_batches
from table.format.rows.arrow import arrow_schema
from tests.sql.local import modelled as m
from tests.sql.local.modelled import Conditions, Of, Said
from tests.sql.local.ways import Ways

SEED = int(os.environ.get("SLUICE_TEST_SEED", "20261125"))
CONDITIONS = int(os.environ.get("SLUICE_TEST_CONDITIONS", "300"))
"""For each column of a table in the torture form."""
_EXACT = Context(prec=76)

_SHORT = [said for said in m.TEXTS if len(said.value) <= 3]
_SOME = [said for said in m.MICROS if "9999" not in said.text]
CHANGES: Mapping[str, tuple[Sequence[Said], Sequence[Said], Sequence[Said]]] = {
    "TINYINT -> BIGINT": ([s for s in m.WHOLE if -128 <= s.value <= 127], [*m.WHOLE, *m.BIG], m.NUMBERS),
    "INT -> BIGINT": (m.WHOLE, [*m.WHOLE, *m.BIG], m.NUMBERS),
    "INT -> DOUBLE": (m.WHOLE, m.DOUBLES, m.NUMBERS),
    "FLOAT -> DOUBLE": (m.SINGLES, m.DOUBLES, m.NUMBERS),
    "INT -> DECIMAL(12, 2)": (m.WHOLE, m.NARROW, [*m.WHOLE, *m.FRACTIONS, *m.EXPONENTS]),
    "DECIMAL(10, 2) -> DECIMAL(14, 4)": (m.NARROW, [*m.NARROW, *m.FRACTIONS[:4]], [*m.WHOLE, *m.FRACTIONS, *m.NARROW]),
    "DECIMAL(18, 2) -> DECIMAL(22, 2)": (m.NARROW, m.NARROW, [*m.WHOLE, *m.FRACTIONS]),
    "VARCHAR(3) -> STRING": (_SHORT, m.TEXTS, m.TEXTS),
    "CHAR(3) -> STRING": (_SHORT, m.TEXTS, m.TEXTS),
    "CHAR(3) -> VARCHAR(20)": (_SHORT, _SHORT, m.TEXTS),
    "VARBINARY(17) -> BYTES": ([s for s in m.BYTES if len(s.value) <= 17], m.BYTES, m.BYTES),
    "TIMESTAMP(3) -> TIMESTAMP(6)": (m.MILLIS, m.MICROS, m.CLOCK),
    "TIMESTAMP(0) -> TIMESTAMP(3)": (m.SECONDS, m.MILLIS, m.CLOCK),
    "TIMESTAMP_LTZ(3) -> TIMESTAMP_LTZ(6)": (m.INSTANTS[-4:], m.INSTANTS, m.INSTANTS),
    "STRING -> INT": ([Said(f"'{n}'", str(n)) for n in (1, 10, 9, -5, 300)], m.WHOLE, m.NUMBERS),
    "STRING -> VARCHAR(2)": (m.TEXTS, [s for s in _SHORT if len(s.value) <= 2], m.TEXTS),
    "STRING -> DATE": ([Said(s.text[5:], s.text[6:-1]) for s in m.DAYS[3:5]], m.DAYS, m.CLOCK),
    "BIGINT -> INT": ([*m.WHOLE, *m.BIG], m.WHOLE, m.NUMBERS),
    "INT -> STRING": (m.WHOLE, m.TEXTS, m.TEXTS),
    "INT -> TINYINT": (m.WHOLE, m.WHOLE[:4], m.NUMBERS),
    "DOUBLE -> INT": (m.EXPONENTS[:3], m.WHOLE, m.NUMBERS),
    "DOUBLE -> FLOAT": (m.DOUBLES, m.SINGLES, m.NUMBERS),
    "DECIMAL(10, 2) -> DECIMAL(10, 1)": (m.NARROW[:3], m.NARROW[5:], [*m.WHOLE, *m.FRACTIONS]),
    "DECIMAL(10, 2) -> STRING": (m.NARROW, m.TEXTS, m.TEXTS),
    "BOOLEAN -> STRING": (m.TRUTHS, m.TEXTS, m.TEXTS),
    "BOOLEAN -> INT": (m.TRUTHS, m.WHOLE, m.NUMBERS),
    "DATE -> TIMESTAMP(3)": (m.DAYS, m.MILLIS, m.CLOCK),
    "TIMESTAMP(6) -> DATE": (m.MICROS, m.DAYS, m.CLOCK),
    "TIMESTAMP(6) -> TIMESTAMP(3)": (_SOME, m.MILLIS, m.CLOCK),
    "TIMESTAMP(6) -> STRING": (_SOME, m.TEXTS, m.TEXTS),
}
"""What a column was and becomes; literals of each, and those it is compared with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table's columns with what they may hold and are compared with."""

    columns: Mapping[str, str]
    holds: Mapping[str, Sequence[Said]]
    asked: Mapping[str, Sequence[Said]] = field(default_factory=dict)
    """Where it is more than what they hold."""
    partition: str = ""
    options: Sequence[Mapping[str, str]] = ({},)


_KEYS = tuple({"bucket": "5", "bucket-key": key} for key in ("k,s", "k", "s,k", "d", "n,y,t", "o,k"))
TABLES: Mapping[str, Table] = {
    "keys": Table(
        columns={"k": "BIGINT", "s": "STRING", "d": "DATE", "n": "DECIMAL(10, 2)", "y": "BYTES", "t": "TIMESTAMP(3)", "o": "INT"},
        holds={"k": m.WHOLE[:4], "s": m.TEXTS[:7], "d": m.DAYS, "n": m.NARROW, "y": m.BYTES[:4], "t": m.MILLIS[:5], "o": m.WHOLE[:3]},
        asked={"k": [*m.WHOLE[:4], Said("1.0", 1.0), Said("1e0", 1.0), *m.BIG[:1], *m.FRACTIONS[:1]], "n": [*m.NARROW, *m.WHOLE[:4]]},
        options=_KEYS,
    ),
    "text partitions": Table(
        columns={"p": "STRING", "q": "VARCHAR(40)", "k": "INT"},
        holds={"p": m.TEXTS, "q": m.TEXTS, "k": m.WHOLE},
        partition="p, q",
        options=({}, {"partition.default-name": "a"}, {"partition.legacy-name": "false"}, {"file.format": "orc"}),
    ),
    "number partitions": Table(
        columns={"p": "DOUBLE", "q": "FLOAT", "k": "BIGINT", "n": "DECIMAL(38, 10)", "v": "INT"},
        holds={"p": m.DOUBLES, "q": m.SINGLES, "k": [*m.WHOLE, *m.BIG], "n": m.WIDE, "v": m.WHOLE},
        asked={"p": m.NUMBERS, "q": m.NUMBERS, "k": m.NUMBERS, "n": [*m.WIDE, *m.WHOLE, *m.FRACTIONS[:6]]},
        partition="p, q, k, n",
        options=({}, {"partition.legacy-name": "false"}),
    ),
    "time partitions": Table(
        columns={"p": "TIMESTAMP(6)", "q": "DATE", "r": "BOOLEAN", "z": "TIMESTAMP_LTZ(3)", "v": "INT"},
        holds={"p": m.MICROS, "q": m.DAYS, "r": m.TRUTHS, "z": m.INSTANTS[3:], "v": m.WHOLE},
        asked={"p": m.CLOCK, "q": m.CLOCK},
        partition="p, q, r, z",
        options=({}, {"partition.legacy-name": "false"}),
    ),
}
_INDEXABLE = ("TINYINT", "INT -> BIGINT", "INT -> STRING", "INT -> TINYINT", "BIGINT", "VARCHAR", "TIMESTAMP", "STRING -> DATE", "DATE")


def indexed(*starts: str) -> str:
    """The columns of changes, for an option of an index."""
    return ",".join(f"v{at}" for at, change in enumerate(CHANGES) if change.startswith(starts))


_ALL, _RANGED = indexed(*_INDEXABLE), indexed(*_INDEXABLE, "FLOAT", "DECIMAL(10, 2) -> DECIMAL", "DOUBLE", "INT")
LAYOUTS: Mapping[str, Mapping[str, str]] = {
    "parquet": {},
    "orc": {"file.format": "orc"},
    "short": {"metadata.stats-mode": "truncate(1)"},
    "full": {"metadata.stats-mode": "full"},
    "sparse": {
        "metadata.stats-dense-store": "false",
        "metadata.stats-mode": "counts",
        "fields.v1.stats-mode": "full",
        "fields.v7.stats-mode": "none",
    },
    "bloom": {"metadata.stats-mode": "none", "file-index.bloom-filter.columns": _ALL},
    "bitmap": {"metadata.stats-mode": "none", "file-index.bitmap.columns": _ALL},
    "range bitmap": {"metadata.stats-mode": "none", "file-index.range-bitmap.columns": _RANGED},
}


def create(gateway: Gateway, columns: Mapping[str, str], options: Mapping[str, str], partition: str = "") -> None:
    given = {"bucket": "-1", "rows.erasable": "true", "write-only": "true", **options}
    said = ", ".join(f"'{key}' = '{value}'" for key, value in given.items())
    listed = ", ".join(f"{name} {type_}" for name, type_ in columns.items())
    gateway.run(f"CREATE TABLE c (id INT, {listed}) {f'PARTITIONED BY ({partition})' if partition else ''} WITH ({said})").close()


def fill(lake: Lake, holds: Mapping[str, Sequence[Said]], seed: str, *, first: int = 0, orc: bool = False, wide: int = 30) -> int:
    """Commits of one row, of rows that bound each other, with NULLs, and of NULL alone; gives the next id."""
    rng = random.Random(seed)
    table = lake.open(Identifier("default", "c"))
    fields = {f.name: f.type for f in table.schema.fields}
    values = {name: [held(fields[name], said.value) for said in of if not orc or in_orc(said.text)] for name, of in holds.items()}
    for commit in range(wide):
        rows = []
        for _ in range(1 if commit % 3 < 2 else rng.randint(2, 5)):
            picked = {name: None if commit == wide - 1 or rng.random() < 0.1 else rng.choice(of) for name, of in values.items()}
            rows.append({"id": first, **picked})
            first += 1
        append_batches(lake, table, [pa.RecordBatch.from_pylist(rows, schema=arrow_schema(table.schema.fields))])
    return first


def held(type_: DataType, value: Any) -> Any:
    """A value as a column of a type holds it."""
    return (
        value.quantize(Decimal(1).scaleb(-type_.scale), context=_EXACT)
        if isinstance(type_, DecimalType) and isinstance(value, Decimal)
        else value
    )


def in_orc(text: str) -> bool:
    """Whether ORC files of ours hold a time."""
    return not text.startswith("TIMESTAMP") or not (("1969" in text and "." in text) or "0001" in text or "9999" in text)


def several(asked: Mapping[str, Sequence[Said]], seed: str, count: int) -> dict[str, Of]:
    """Conditions on each column, and on all of them."""
    alone = [Conditions({name: said}, f"{seed} {name}").several(count) for name, said in asked.items()]
    return {text: of for made in [*alone, Conditions(asked, f"{seed} all").several(count)] for text, of in made.items()}


def ask(lake: Lake, conditions: Mapping[str, Of]) -> int:
    """Ask a table every way; how many answers there were."""
    ways = Ways(lake)
    assert ways.differing(conditions) == {}
    assert ways.aggregates() == {}
    return ways.asked


def changed(gateway: Gateway, lake: Lake, layout: str, count: int, *, wide: int = 30) -> dict[str, Of]:
    """A table whose columns got other types between commits; so many conditions on each column."""
    seed = f"{SEED} {layout}"
    names = {f"v{at}": change.split(" -> ") for at, change in enumerate(CHANGES)}
    create(gateway, {name: old for name, (old, _) in names.items()}, LAYOUTS[layout])
    before, after, asked = ({f"v{at}": of[part] for at, of in enumerate(CHANGES.values())} for part in range(3))
    first = fill(lake, before, f"{seed} old", orc=layout == "orc", wide=wide)
    gateway.run(f"ALTER TABLE c MODIFY ({', '.join(f'{name} {new}' for name, (_, new) in names.items())})").close()
    fill(lake, after, f"{seed} new", first=first, orc=layout == "orc", wide=wide)
    return several(asked, seed, count)


def filled(gateway: Gateway, lake: Lake, name: str, options: Mapping[str, str], count: int, *, wide: int = 60) -> dict[str, Of]:
    """One of the tables with rows; so many conditions on each column."""
    table, seed = TABLES[name], f"{SEED} {name} {options}"
    create(gateway, table.columns, options, table.partition)
    fill(lake, table.holds, seed, orc="orc" in options.values(), wide=wide)
    return several({**table.holds, **table.asked}, seed, count)


STEPS: Sequence[tuple[str, Mapping[str, Sequence[Said]]]] = (
    ("", {"a": m.WHOLE, "b": m.TEXTS, "d": m.DOUBLES}),
    ("RENAME a TO x", {"x": m.WHOLE, "b": m.TEXTS, "d": m.DOUBLES}),
    ("ADD a BIGINT DEFAULT 5", {"x": m.WHOLE, "a": [*m.WHOLE, *m.BIG], "b": m.TEXTS}),
    ("DROP b", {"x": m.WHOLE, "a": m.WHOLE}),
    ("ADD b INT FIRST", {"b": m.WHOLE, "x": m.WHOLE, "a": m.WHOLE, "d": m.DOUBLES}),
    ("RENAME x TO c; ALTER TABLE c RENAME d TO x", {"b": m.WHOLE, "c": m.WHOLE, "x": m.DOUBLES}),
    ("MODIFY c BIGINT AFTER x", {"c": m.BIG, "a": m.BIG, "x": m.DOUBLES}),
)
"""Changes of a table's columns, and what is written after each: names come to mean other columns."""
_NAMED = "a,b"
NAMES: Mapping[str, Mapping[str, str]] = {
    "parquet": {},
    "orc": {"file.format": "orc"},
    "indexes": {"metadata.stats-mode": "none", "file-index.bloom-filter.columns": _NAMED, "file-index.bitmap.columns": _NAMED},
    "range bitmap": {"metadata.stats-mode": "none", "file-index.range-bitmap.columns": _NAMED},
    "buckets": {"bucket": "4", "bucket-key": "a"},
}


def renamed(gateway: Gateway, lake: Lake, layout: str, count: int) -> dict[str, Of]:
    """A table whose names of columns mean others from commit to commit; so many conditions on each."""
    seed, first = f"{SEED} names {layout}", 0
    create(gateway, {"a": "INT", "b": "STRING", "d": "DOUBLE"}, NAMES[layout])
    for step, (change, holds) in enumerate(STEPS):
        if change == "DROP b" and layout in ("indexes", "range bitmap"):
            gateway.run(f"ALTER TABLE c RESET ({', '.join(repr(key) for key in NAMES[layout] if key.startswith('file-index'))})").close()
        if change:
            gateway.run(f"ALTER TABLE c {change}").close()
        first = fill(lake, holds, f"{seed} {step}", first=first, wide=12)
    return several({"a": m.NUMBERS, "b": m.NUMBERS, "c": m.NUMBERS, "x": m.NUMBERS}, seed, count)


@pytest.mark.parametrize("layout", ["parquet"])
def test_some_conditions_on_columns_of_another_type(gateway: Gateway, lake: Lake, layout: str) -> None:
    assert ask(lake, changed(gateway, lake, layout, 5, wide=6)) > 100


@pytest.mark.torture
@pytest.mark.parametrize("layout", LAYOUTS)
def test_conditions_on_columns_of_another_type(gateway: Gateway, lake: Lake, layout: str) -> None:
    ask(lake, changed(gateway, lake, layout, CONDITIONS))


@pytest.mark.torture
@pytest.mark.parametrize(("name", "options"), [(name, options) for name, table in TABLES.items() for options in table.options])
def test_conditions_on_partitions_and_keys(gateway: Gateway, lake: Lake, name: str, options: Mapping[str, str]) -> None:
    ask(lake, filled(gateway, lake, name, options, CONDITIONS))


@pytest.mark.torture
@pytest.mark.parametrize("layout", NAMES)
def test_conditions_on_names_that_meant_other_columns(gateway: Gateway, lake: Lake, layout: str) -> None:
    ask(lake, renamed(gateway, lake, layout, CONDITIONS))
