"""Columns of types that SQL does not read: a query on Spark that names others is answered, and one that needs them is told which."""

from __future__ import annotations

import pytest

from lake import Lake
from model.errors import UnsupportedType
from model.identifier import Identifier
from model.schema.change import AddColumn, DropColumn
from model.schema.types import ArrayType, DataType, IntType, MapType, MultisetType, VarCharType, VariantType, parse_type
from tests.sql.spark.conftest import Run

pytestmark = pytest.mark.spark


def _mapped(type_: DataType) -> DataType:
    return MapType(key=VarCharType(nullable=False), value=ArrayType(element=type_))


@pytest.mark.parametrize(
    ("format_", "prefix", "type_"),
    [
        pytest.param("parquet", "data-", VariantType(), id="Spark's reader"),
        pytest.param("orc", "data-", MultisetType(element=IntType()), id="Spark's reader of ORC"),
        pytest.param("parquet", "_", VariantType(), id="Arrow for Spark"),
    ],
)
def test_the_others_are_read(run: Run, lake: Lake, format_: str, prefix: str, type_: DataType) -> None:
    run(f"CREATE TABLE t (id INT, s STRING) WITH ('bucket' = '-1', 'file.format' = '{format_}', 'data-file.prefix' = '{prefix}')")
    run("INSERT INTO t VALUES (1, 'a'), (2, 'a'), (3, 'b')")
    table = Identifier("default", "t")
    lake.alter_table(table, [AddColumn(name="v", type=type_), AddColumn(name="m", type=_mapped(type_))])
    lake.alter_table(table, [AddColumn(name="n", type=parse_type("TIMESTAMP(9)")), AddColumn(name="last", type=IntType())])
    assert run("SELECT s, COUNT(*), MAX(last) FROM t GROUP BY s ORDER BY s") == [("a", 2, None), ("b", 1, None)]
    assert run("SELECT x.id FROM t x JOIN t y ON x.id = y.id + 1 ORDER BY x.id") == [(2,), (3,)]
    assert run("SELECT COUNT(*) FROM t WHERE hash(id) IS NOT NULL") == [(3,)]
    run("CREATE TABLE copied AS SELECT id, upper(s) AS s FROM t")
    assert sorted(run("SELECT * FROM copied")) == [(1, "A"), (2, "A"), (3, "B")]
    for query in (
        "SELECT * FROM t WHERE hash(id) IS NOT NULL",
        "SELECT id FROM t WHERE v IS NOT NULL AND hash(id) IS NOT NULL",
        "SELECT x.a FROM t AS x(a, b, v, m, n, last) GROUP BY x.a",
        "SELECT id FROM t NATURAL JOIN copied GROUP BY id",
    ):
        with pytest.raises(UnsupportedType, match=rf"Column v of t holds {type_.sql()}, which is not read in SQL\. Name the other columns"):
            run(query)
    for name, holds in (("m", type_.sql()), ("n", r"TIMESTAMP\(9\)")):
        with pytest.raises(UnsupportedType, match=f"Column {name} of t holds {holds}"):
            run(f"SELECT id, {name} FROM t ORDER BY id")


def test_no_rows_are_lost_where_there_is_no_other(run: Run, lake: Lake) -> None:
    run("CREATE TABLE t (id INT) WITH ('bucket' = '-1', 'data-file.prefix' = '_')")
    run("INSERT INTO t VALUES (1), (2)")
    lake.alter_table(Identifier("default", "t"), [AddColumn(name="v", type=VariantType()), DropColumn(name="id")])
    for query in ("SELECT upper('x') FROM t", "SELECT COUNT(*) FROM t JOIN (VALUES (1), (2)) AS u (a) ON TRUE"):
        with pytest.raises(UnsupportedType, match=r"^All columns of t hold what is not read in SQL, such as v with VARIANT\."):
            run(query)
