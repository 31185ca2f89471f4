"""Columns with a default: stored as Paimon stores them, and written wherever a row has no value, whichever way it comes."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from decimal import Decimal
from io import BytesIO
from typing import Any

import pytest

from gateway.gateway import Gateway
from lake import Lake
from lake.tables import tables
from model.errors import ExecutionError, InvalidSchema, SqlSyntaxError, UnsupportedStatement
from model.identifier import Identifier
from model.schema.schema import column, new_schema
from model.schema.types import ArrayType, DataType, Field, IntType, MapType, RowType, VarCharType
from table.format.rows.cast import default_of
from tests.sql.tables import make_table

COLUMNS: list[tuple[str, str, str, Any]] = [
    ("b", "BOOLEAN", "TRUE", True),
    ("i", "INT", "-7", -7),
    ("l", "BIGINT", "'12'", 12),
    ("d", "DECIMAL(6, 2)", "1.50", Decimal("1.50")),
    ("f", "DOUBLE", "2.5", 2.5),
    ("s", "STRING", "'grüße'", "grüße"),
    ("y", "BYTES", "'ab'", b"ab"),
    ("day", "DATE", "'2024-02-29'", dt.date(2024, 2, 29)),
    ("at", "TIMESTAMP(3)", "'2024-02-29 12:34:56.789'", dt.datetime(2024, 2, 29, 12, 34, 56, 789000)),
    ("zoned", "TIMESTAMP_LTZ(3)", "'2024-02-29 12:34:56'", dt.datetime(2024, 2, 29, 12, 34, 56, tzinfo=dt.UTC)),
    ("t", "TIME", "'12:34:56'", dt.time(12, 34, 56)),
    ("a", "ARRAY<INT>", "'[1, null, 3]'", [1, None, 3]),
    ("m", "MAP<STRING, INT>", "'{x -> 1, y -> 2}'", [("x", 1), ("y", 2)]),
    ("r", "ROW<n INT, inner ARRAY<DATE>>", "'{7, [2024-02-29]}'", {"n": 7, "inner": [dt.date(2024, 2, 29)]}),
]
"""Of each type: how a default is written, and the value it is."""
CREATE = "CREATE TABLE t (id INT NOT NULL, " + ", ".join(f"{name} {type_} DEFAULT {text}" for name, type_, text, _ in COLUMNS) + ")"
VALUES = tuple(value for *_, value in COLUMNS)


def defaults_of(lake: Lake) -> dict[str, str | None]:
    return {field.name: field.default_value for field in lake.open(Identifier("default", "t")).schema.fields}


def rows_of(gateway: Gateway) -> list[tuple[Any, ...]]:
    return sorted(gateway.run("SELECT * FROM t").collect())


def test_defaults_are_stored_as_paimon_stores_them_and_shown(gateway: Gateway, lake: Lake) -> None:
    gateway.run(CREATE)
    assert defaults_of(lake) == {"id": None} | {name: text.lower() if text == "TRUE" else text for name, _, text, _ in COLUMNS}
    ((text,),) = gateway.run("SHOW CREATE TABLE t").collect()
    gateway.run("DROP TABLE t PURGE; " + text)
    assert gateway.run("SHOW CREATE TABLE t").collect() == [(text,)]
    extras = {row[0]: row[4] for row in gateway.run("DESCRIBE t").collect()}
    assert extras["i"] == "DEFAULT -7"


@pytest.mark.parametrize(
    ("stored", "type_", "shown"),
    [
        ("", "STRING", "DEFAULT ''"),
        ("n/a", "STRING", "DEFAULT 'n/a'"),
        ("a b", "STRING", "DEFAULT 'a b'"),
        ("-7", "INT", "DEFAULT -7"),
        ("1e2", "DOUBLE", "DEFAULT '1e2'"),
        ("TRUE", "BOOLEAN", "DEFAULT TRUE"),
        ("2024-02-29", "DATE", "DEFAULT '2024-02-29'"),
        ("it's */ so", "STRING", "/* DEFAULT it's * / so */"),
        ("'a''b'", "STRING", "/* DEFAULT 'a''b' */"),
    ],
)
def test_a_default_of_another_client_is_shown_so_that_the_text_makes_it_again(
    gateway: Gateway, lake: Lake, stored: str, type_: str, shown: str
) -> None:
    """Clients store texts as they are, and the CREATE TABLE that was shown did not parse."""
    schema = new_schema([replace(column("c", type_), default_value=stored)], options={"bucket": "-1"})
    lake.create_table(Identifier("default", "t"), schema)
    ((text,),) = gateway.run("SHOW CREATE TABLE t").collect()
    assert f"`c` {type_} {shown}\n" in text
    assert gateway.run("DESCRIBE t").collect()[0][4] == (f"DEFAULT {stored}" if shown.startswith("/*") else shown)
    value = default_of(lake.open(Identifier("default", "t")).schema.fields[0])
    gateway.run("DROP TABLE t PURGE; " + text)
    (again,) = lake.open(Identifier("default", "t")).schema.fields
    assert again.default_value is None if shown.startswith("/*") else default_of(again) == value


def test_a_column_left_out_or_null_has_its_default_without_spark(gateway: Gateway) -> None:
    gateway.run(CREATE)
    gateway.run("INSERT INTO t (id) VALUES (1)")
    gateway.run("INSERT INTO t VALUES (2" + ", NULL" * len(COLUMNS) + ")")
    gateway.append(Identifier("default", "t"), BytesIO(b'{"id": 3}\n{"id": 4, "s": null, "i": 5}\n'), "application/x-ndjson")
    with_five = (VALUES[0], 5, *VALUES[2:])
    assert rows_of(gateway) == [(1, *VALUES), (2, *VALUES), (3, *VALUES), (4, *with_five)]


@pytest.mark.spark
def test_a_column_left_out_or_null_has_its_default_on_spark(on_spark: Gateway) -> None:
    on_spark.run(CREATE)
    on_spark.run("INSERT INTO t (id) SELECT 1 + length('')")
    on_spark.run("INSERT INTO t SELECT 2 + length('')" + ", NULL" * len(COLUMNS))
    assert rows_of(on_spark) == [(1, *VALUES), (2, *VALUES)]


def test_a_column_that_may_not_be_null_takes_its_default_only_where_it_is_left_out(gateway: Gateway) -> None:
    gateway.run("CREATE TABLE t (id INT, s STRING NOT NULL DEFAULT 'x')")
    gateway.run("INSERT INTO t (id) VALUES (1)")
    with pytest.raises(ExecutionError, match="NOT NULL"):
        gateway.run("INSERT INTO t VALUES (2, NULL)")
    assert rows_of(gateway) == [(1, "x")]


def test_defaults_decide_partition_and_bucket(gateway: Gateway) -> None:
    gateway.run("CREATE TABLE t (id INT, p STRING DEFAULT 'here', k INT DEFAULT 3) PARTITIONED BY (p) WITH ('bucket'='4','bucket-key'='k')")
    gateway.run("INSERT INTO t (id) VALUES (1); INSERT INTO t VALUES (2, 'here', 3)")
    places = gateway.run("SELECT partition, bucket FROM t$files").collect()
    assert len(places) == 2
    assert len(set(places)) == 1


def test_a_default_is_set_changed_and_dropped_and_rows_before_keep_what_they_had(gateway: Gateway, lake: Lake) -> None:
    make_table(lake, id="INT", s="STRING")
    gateway.run("INSERT INTO t (id) VALUES (1); ALTER TABLE t ALTER COLUMN s SET DEFAULT 'one'; INSERT INTO t (id) VALUES (2)")
    gateway.run("ALTER TABLE t ALTER COLUMN s SET DEFAULT 'two'; INSERT INTO t (id) VALUES (3)")
    gateway.run("ALTER TABLE t ALTER COLUMN s DROP DEFAULT; INSERT INTO t (id) VALUES (4)")
    assert rows_of(gateway) == [(1, None), (2, "one"), (3, "two"), (4, None)]
    gateway.run("ALTER TABLE t ALTER COLUMN s SET DEFAULT 'three'; CALL sys.compact(`table` => 'default.t')")
    assert rows_of(gateway) == [(1, None), (2, "one"), (3, "two"), (4, None)]


@pytest.mark.parametrize(
    ("text", "error", "said"),
    [
        ("CREATE TABLE t (i INT DEFAULT 'x')", InvalidSchema, "The default 'x' of column i is no value of INT"),
        ("CREATE TABLE t (s VARCHAR(2) DEFAULT 'long')", InvalidSchema, r"is no value of VARCHAR\(2\)"),
        ("CREATE TABLE t (a ARRAY<INT> DEFAULT '1, 2', i INT)", InvalidSchema, "The default '1, 2' of column a is no value of ARRAY<INT>"),
        ("CREATE TABLE t (a ARRAY<INT> DEFAULT '[x]', i INT)", InvalidSchema, "of column a is no value of ARRAY<INT>"),
        ("CREATE TABLE t (m MAP<INT, INT> DEFAULT '{1, 2}', i INT)", InvalidSchema, "of column m is no value of MAP<INT, INT>"),
        ("CREATE TABLE t (r ROW<i INT> DEFAULT '{1, 2}', i INT)", InvalidSchema, "of column r is no value of ROW<"),
        ("CREATE TABLE t (i INT DEFAULT 1 + 1)", SqlSyntaxError, "expected"),
        ("CREATE TABLE t (i INT DEFAULT current_date)", UnsupportedStatement, "DEFAULT takes a literal"),
        ("CREATE TABLE t (s STRING DEFAULT 'it''s')", UnsupportedStatement, "quote or a backslash"),
        ("CREATE TABLE t (i INT); ALTER TABLE t ADD COLUMN j INT DEFAULT 1", UnsupportedStatement, "ALTER COLUMN j SET DEFAULT follows"),
        ("CREATE TABLE t (i INT); ALTER TABLE t ALTER COLUMN i SET DEFAULT 'x'", InvalidSchema, "of column i is no value of INT"),
        ("CREATE TEMPORARY TABLE t (i INT DEFAULT 1) WITH ('connector'='datagen')", UnsupportedStatement, "A connector's columns"),
    ],
)
def test_what_cannot_be_a_default_is_refused(gateway: Gateway, text: str, error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        gateway.run(text)


def test_a_default_that_another_client_stored_keeps_no_alter_from_its_column(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as theirs:
        theirs.setattr(tables, "_check_defaults", lambda *_, **__: None)
        gateway.run("CREATE TABLE t (i INT, r ROW<n INT> NOT NULL DEFAULT '(1)', a ARRAY<INT> DEFAULT '[1]')").close()
    for change in ("ALTER COLUMN r COMMENT 'theirs'", "RENAME COLUMN r TO s", "ALTER COLUMN s DROP NOT NULL"):
        gateway.run(f"ALTER TABLE t {change}").close()
    with pytest.raises(InvalidSchema, match="of column s is no value"):
        gateway.run("ALTER TABLE t ALTER COLUMN s SET DEFAULT '(2)'")
    with pytest.raises(InvalidSchema, match="of column b is no value"):
        gateway.run("ALTER TABLE t ADD COLUMN b INT; ALTER TABLE t ALTER COLUMN b SET DEFAULT 'x'")


INTS, TEXT = ArrayType(element=IntType()), VarCharType()
PAIR = RowType(fields=(Field(id=1, name="a", type=IntType()), Field(id=2, name="b", type=TEXT)))


@pytest.mark.parametrize(
    ("text", "type_", "value"),
    [
        (" ARRAY(1, 2)", INTS, [1, 2]),
        ("[]", INTS, []),
        ("[[1, 2], [3]]", ArrayType(element=INTS), [[1, 2], [3]]),
        ('["a,b", c]', ArrayType(element=TEXT), ['"a,b"', "c"]),
        ("{}", MapType(key=TEXT, value=INTS), []),
        ("MAP(a, 1, b, null)", MapType(key=TEXT, value=IntType()), [("a", 1), ("b", None)]),
        ('{"a,b" -> [1, 2]}', MapType(key=TEXT, value=INTS), [("a,b", [1, 2])]),
        ("NULL", MapType(key=TEXT, value=INTS), None),
        ("[STRUCT(1, x), {2, null}]", ArrayType(element=PAIR), [{"a": 1, "b": "x"}, {"a": 2, "b": None}]),
        ("{}", PAIR, {"a": None, "b": None}),
    ],
)
def test_nested_defaults_are_read_as_paimon_reads_them(text: str, type_: DataType, value: Any) -> None:
    """`StringToArrayCastRule`, `StringToMapCastRule` and `StringToRowCastRule`."""
    default = default_of(Field(id=0, name="x", type=type_, default_value=text))
    assert (None if default is None else default.as_py()) == value


def test_flinks_call_sets_a_default(gateway: Gateway, lake: Lake) -> None:
    gateway.run("CREATE TABLE t (id INT, s STRING)").close()
    told = gateway.run(
        "CALL sys.alter_column_default_value(`table` => 't', `column` => 's', default_value => 'x', dry_run => true)"
    ).collect()
    assert told == [("s", "x", True)]
    assert defaults_of(lake) == {"id": None, "s": None}
    assert gateway.run("CALL sys.alter_column_default_value('t', 's', 'x')").collect() == [("s", "x", False)]
    gateway.run("INSERT INTO t (id) VALUES (1)").close()
    assert rows_of(gateway) == [(1, "x")]
    for dry in ("", ", dry_run => true"):
        with pytest.raises(InvalidSchema, match="is no value of INT"):
            gateway.run(f"CALL sys.alter_column_default_value(`table` => 't', `column` => 'id', default_value => 'x'{dry})").close()
