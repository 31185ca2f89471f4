"""Partitions by their names: as statements show them, also NULL, the empty text, and values that directories spell otherwise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gateway.gateway import Gateway
from lake import Lake
from model.errors import AnalysisError
from model.identifier import Identifier

Ask = Callable[[str], list[tuple[Any, ...]]]
VALUES = (
    "a", "a/b", "100%", "a%2Fb", "a=b", "a,b", "a;b", "a;", "it''s", "''q''", "ü λ", " x ", "x", "s=1", "__DEFAULT", "a/s=b", "a,d=1",
    "[1]",
)  # fmt: skip
DAYS = ("2024-01-02", "1969-12-31")


@pytest.fixture
def ask(gateway: Gateway) -> Ask:
    def run(text: str) -> list[tuple[Any, ...]]:
        with gateway.run(text) as result:
            return [tuple(row) for row in result.collect()]

    return run


@pytest.fixture
def named(ask: Ask) -> Ask:
    """A table with a row in each of its partitions."""
    ask("CREATE TABLE n (id INT, d DATE, s STRING) PARTITIONED BY (d, s) WITH ('bucket' = '1', 'bucket-key' = 'id')")
    rows = [f"({at}, DATE '{DAYS[at % 2]}', '{value}')" for at, value in enumerate(VALUES)]
    rows += ["(100, NULL, 'a')", "(101, DATE '2024-01-02', NULL)"]
    ask(f"INSERT INTO n VALUES {', '.join(rows)}")
    return ask


def sql(name: str) -> str:
    return name.replace("'", "''")


def test_names_are_taken_as_they_are_shown(named: Ask) -> None:
    shown = [name for (name,) in named("SHOW PARTITIONS n")]
    assert len(shown) == len(VALUES) + 2
    assert sorted(shown) == sorted(name for (name,) in named("SELECT `partition` FROM n$partitions"))
    directories = {}
    for name in shown:
        dry = f"`table` => 'n', partitions => '{sql(name)}', dry_run => true"
        ((directory, _, rows, *_),) = named(f"CALL sys.drop_partition({dry})")
        assert rows == 1
        directories[name] = directory
        assert [row[0] for row in named(f"CALL sys.mark_partition_done({dry})")] == [directory]
        assert named(f"CALL sys.compact({dry}, compact_strategy => 'full')")[0][0] == 0
        assert len(named(f"CALL sys.rescale({dry}, bucket_num => 2)")) == 1
    assert len(set(directories.values())) == len(shown)
    for name, directory in directories.items():  # and as other statements show them
        assert [row[0] for row in named(f"CALL sys.drop_partition('n', '{sql(directory)}')")] == [directory], name
    assert named("SHOW PARTITIONS n") == []


@pytest.mark.parametrize(
    ("spec", "dropped"),
    [
        ("d=2024-01-02,s=a", 1), ("d=19724, s='a'", 1), ("s=a", 2), (" s = a ; ", 2), ("d=2024-01-02/s=a;d=1969-12-31,s=a/b", 2),
        ("s=a,b", 1), ("s=100%", 1), ("s=a%2Fb", 1), ("d=__DEFAULT_PARTITION__", 1), ("s=__DEFAULT_PARTITION__", 1), ("s=", 0),
    ],
)  # fmt: skip
def test_names_are_taken_as_paimons_clients_write_them(named: Ask, spec: str, dropped: int) -> None:
    assert len(named(f"CALL sys.drop_partition(`table` => 'n', partitions => '{sql(spec)}', dry_run => true)")) == dropped


@pytest.mark.parametrize("spec", ["x=1", "s=a,x=1", "s", ""])
def test_what_is_no_column_is_refused(named: Ask, spec: str) -> None:
    with pytest.raises(AnalysisError, match=r"names no partition|is named|needs the argument"):
        named(f"CALL sys.drop_partition('n', '{spec}')")


def test_drop_partition_takes_values_as_they_are(named: Ask) -> None:
    for value in VALUES:
        named(f"ALTER TABLE n DROP PARTITION (s = '{value}')")
    assert sorted(named("SHOW PARTITIONS n")) == [("d=2024-01-02/s=__DEFAULT_PARTITION__",)]
    named("ALTER TABLE n DROP PARTITION (d = DATE '2024-01-02', s = NULL)")
    assert named("SHOW PARTITIONS n") == []


@pytest.mark.parametrize("call", ["CALL sys.drop_partition('n', '{}')", "ALTER TABLE n DROP PARTITION (d = '{1}', s = '{2}')"])
def test_partitions_without_rows_are_dropped_by_the_names_that_are_shown(named: Ask, lake: Lake, call: str) -> None:
    before = sorted(named("SHOW PARTITIONS n"))
    specs = [{"d": "20000", "s": "new/one"}, {"d": "2024-10-05", "s": "50%"}, {"d": "20001", "s": "__DEFAULT_PARTITION__"}]
    lake.create_partitions(lake.open(Identifier("default", "n")), specs)
    made = sorted(set(named("SHOW PARTITIONS n")) - set(before))
    assert made == [("d=2024-10-04/s=new%2Fone",), ("d=2024-10-05/s=50%25",), ("d=2024-10-05/s=__DEFAULT_PARTITION__",)]
    for (name,), spec in zip(made, ({"d": "2024-10-04", "s": "new/one"}, {"d": "2024-10-05", "s": "50%"}, specs[2]), strict=True):
        assert len(named(f"CALL sys.mark_partition_done(`table` => 'n', partitions => '{name}', dry_run => true)")) == 1
        named(call.format(name, spec["d"], spec["s"]))
    assert sorted(named("SHOW PARTITIONS n")) == before
    with pytest.raises(AnalysisError, match="has no partition"):
        named("ALTER TABLE n DROP PARTITION (d = '2024-10-05', s = '50%')")
    named("ALTER TABLE n DROP IF EXISTS PARTITION (d = '2024-10-05', s = '50%')")


def test_null_and_the_empty_text_are_inserted_together_and_counted_once(ask: Ask) -> None:
    ask("CREATE TABLE t (id INT, s STRING) PARTITIONED BY (s)")
    ask("INSERT INTO t VALUES (1, NULL), (2, ''), (3, 'a'), (4, ' ')")
    ask("INSERT INTO t VALUES (5, ''), (6, NULL)")
    assert sorted(ask("SELECT id FROM t")) == [(1,), (2,), (3,), (4,), (5,), (6,)]
    names = [row[0] for row in ask("SHOW PARTITIONS t")]
    assert len(names) == len(set(names))
    assert sum(int(str(row[0])) for row in ask("SELECT record_count FROM sys.partitions WHERE table_name = 't'")) == 6
    ask("CALL sys.drop_partition('t', 's=__DEFAULT_PARTITION__')")
    assert ask("SELECT id FROM t") == [(3,)]


def test_sql_tells_null_from_the_empty_text(ask: Ask) -> None:
    ask("CREATE TABLE t (id INT, s STRING) PARTITIONED BY (s)")
    ask("INSERT INTO t VALUES (1, NULL), (2, ''), (3, 'a'), (4, ' ')")
    ask("ALTER TABLE t DROP PARTITION (s = NULL)")
    ask("ALTER TABLE t DROP IF EXISTS PARTITION (s = NULL)")
    assert sorted(ask("SELECT id FROM t")) == [(2,), (3,), (4,)]
    ask("ALTER TABLE t DROP PARTITION (s = '')")
    assert sorted(ask("SELECT id FROM t")) == [(3,), (4,)]
    assert sum(int(str(row[0])) for row in ask("SELECT record_count FROM sys.partitions WHERE table_name = 't'")) == 2
    ask("ALTER TABLE t DROP PARTITION (s = '__DEFAULT_PARTITION__')")
    assert ask("SELECT id FROM t") == [(3,)]
