"""Lengths and precisions in casts."""

import pytest

from model.errors import UnsupportedStatement, UnsupportedType
from sql.analysis.allow_list import checked_sql
from sql.analysis.to_spark import spark_sql
from sql.dialect import parse_one


@pytest.mark.parametrize(
    "type_", ["CHAR(0)", "VARCHAR(0)", "VARCHAR(2147483648)", "CHAR(MAX)", "VARCHAR(1, 2)", "ARRAY<CHAR(0)>", "ROW<x MAP<INT, VARCHAR(0)>>"]
)
def test_a_length_that_no_text_has_is_refused(type_: str) -> None:
    with pytest.raises(UnsupportedType, match=r"a text has 1 to 2147483647 characters"):
        spark_sql(parse_one(f"SELECT CAST(a AS {type_}) FROM t"))


@pytest.mark.parametrize(
    ("type_", "said"), [("VARBINARY(0)", "bytes are 1 to"), ("MAP<BINARY(0), INT>", "bytes are 1 to"), ("ARRAY<TIMESTAMP(9)>", "0 to 6")]
)
def test_other_lengths_and_precisions_that_no_value_has_are_refused(type_: str, said: str) -> None:
    with pytest.raises(UnsupportedType, match=said):
        spark_sql(parse_one(f"SELECT CAST(a AS {type_}) FROM t"))


@pytest.mark.parametrize("type_", ["ROW<VARCHAR(3), INT>", "ROW(INT)", "STRUCT<a INT, STRING>", "MAP<INT, ARRAY<ROW<a ROW<INT>>>>"])
@pytest.mark.parametrize("column", ["CAST(a AS {})", "TRY_CAST(a AS {}) IS NULL AS x"])
def test_a_row_whose_fields_have_no_names_is_refused_by_name(column: str, type_: str) -> None:
    with pytest.raises(UnsupportedType, match=r"The fields of a ROW need names in a cast, as in ROW<a INT>"):
        spark_sql(parse_one(f"SELECT {column.format(type_)} FROM t"))


@pytest.mark.parametrize("type_", ["ARRAY<INT NOT NULL>", "ROW<a ARRAY<INT NOT NULL>>", "MAP<INT, INT NOT NULL>"])
def test_what_a_cast_that_fails_makes_null_is_not_required(type_: str) -> None:
    with pytest.raises(UnsupportedType, match="TRY_CAST takes no NOT NULL inside an ARRAY or a MAP"):
        spark_sql(parse_one(f"SELECT TRY_CAST(a AS {type_}) FROM t"))
    assert "raise_error" in spark_sql(parse_one(f"SELECT CAST(a AS {type_}) FROM t"))


def test_a_row_of_try_cast_keeps_not_null() -> None:
    """Stored texts have it, and Spark takes it where the value cannot be NULL."""
    cast = "TRY_CAST(named_struct('a', 1) AS STRUCT<a: INT NOT NULL, b: ARRAY<STRUCT<c: INT NOT NULL>>>)"
    assert spark_sql(parse_one(f"SELECT {cast} AS x FROM t")) == f"SELECT {cast} AS x FROM t"
    assert "raise_error" in spark_sql(parse_one("SELECT CAST(a AS ROW<a INT NOT NULL>) AS x FROM t"))


@pytest.mark.parametrize("type_", ["MAP<STRING NOT NULL, INT>", "ARRAY<MAP<INT NOT NULL, STRING NULL> NULL>", "ROW<a INT NULL>"])
@pytest.mark.parametrize("cast", ["CAST", "TRY_CAST"])
def test_keys_are_never_null(type_: str, cast: str) -> None:
    bare = type_.replace(" NOT NULL", "").replace(" NULL", "")
    assert spark_sql(parse_one(f"SELECT {cast}(a AS {type_}) FROM t")) == spark_sql(parse_one(f"SELECT {cast}(a AS {bare}) FROM t"))


@pytest.mark.parametrize("cast", ["CAST(a AS INT NOT NULL)", "TRY_CAST(a AS ARRAY<INT> NOT NULL)"])
def test_a_cast_is_to_a_type_that_takes_null(cast: str) -> None:
    with pytest.raises(UnsupportedStatement, match="to a type without NOT NULL"):
        parse_one(f"SELECT {cast} FROM t")
    assert spark_sql(parse_one("SELECT a::INT NOT NULL FROM t")) == "SELECT (NOT CAST(a AS INT) IS NULL) FROM t"


@pytest.mark.parametrize("type_", ["CHAR(70000)", "ROW<x CHAR(70000)>", "ROW<x ROW<y BINARY(70000)>, z INT>", "ARRAY<CHAR(65536)>"])
def test_a_row_is_filled_up_as_far_as_a_text_alone(type_: str) -> None:
    assert "rpad" in checked_sql(parse_one(f"SELECT CAST(a AS {type_}) FROM t"), {"t"})


@pytest.mark.parametrize("type_", ["ARRAY", "MAP", "MAP<INT>", "MAP<INT, INT, INT>", "ARRAY<INT, INT>", "OBJECT", "UNION", "LIST<INT>"])
@pytest.mark.parametrize("within", ["{}", "ROW<a ARRAY<{}>>"])
def test_an_array_or_a_map_without_its_types_is_refused(type_: str, within: str) -> None:
    with pytest.raises(UnsupportedType, match=f"There is no type {type_}; there are ARRAY<t> and MAP<k, v>"):
        spark_sql(parse_one(f"SELECT CAST(a AS {within.format(type_)}) FROM t"))


@pytest.mark.parametrize(
    "schema",
    [
        "a MAP<STRING, NULLABLE<INT>>",
        "m MAP<STRING, INT>, a ARRAY<>",
        "m MAP<STRING, INT>, a MAP<INT>",
        "m MAP<STRING, INT>, a STRUCT<INT>",
        "m MAP<STRING, INT>, a INT b MAP<STRING, INT>",
        "m MAP<STRING, INT>, a-b INT",
        "m MAP<STRING, INT> /* /* */ */",
        "MAP<STRING, INT>, 7 x INT, b MAP<",
    ],
)
def test_a_schema_with_a_map_that_nobody_reads_is_refused(schema: str) -> None:
    """The keys of its map could not be kept apart."""
    with pytest.raises(UnsupportedStatement, match="from_json reads no schema such as") as refused:
        checked_sql(parse_one(f"SELECT from_json(a, '{schema}') FROM t"), {"t"})
    assert f"'{schema}'" in refused.value.message


@pytest.mark.parametrize(
    "schema",
    [
        "m MAP<STRING, INT>, a ARRAY",  # what is no type is Spark's to tell
        "m MAP<STRING, INT>, a MAP",
        "m MAP<STRING, INT>, a OBJECT, u UNION",
        "m MAP<STRING, VOID>, v VARIANT, i INTERVAL DAY TO SECOND, s STRING COLLATE UTF8_LCASE, e STRUCT<>",
        "select INT, not DECIMAL(10, 2) NOT NULL COMMENT \\'a, b MAP<\\', m MAP<STRING, INT>",
        "MAP/**/<STRING, INT>",
        "m MAP -- x, y <\n<STRING, INT>",
        "STRUCT<m: /* >, */ MAP<STRING, INT>>",
        "`x` MAP<STRING, INT> COMMENT r\\'\\\\\\', `m` MAP<STRING, INT>",
    ],
)
def test_the_keys_of_each_schema_that_spark_reads_are_kept_apart(schema: str) -> None:
    assert "transform_keys" in checked_sql(parse_one(f"SELECT from_json(a, '{schema}') FROM t"), {"t"})


def test_maps_in_each_other_without_end_are_refused() -> None:
    def nested(types: int) -> str:
        return "MAP<STRING, " * types + "INT" + ">" * types

    assert checked_sql(parse_one(f"SELECT from_json(a, '{nested(10)}') FROM t"), {"t"}).count("transform_keys") == 10
    with pytest.raises(UnsupportedStatement, match="no schema with a MAP and more than 50 types inside each other"):
        checked_sql(parse_one(f"SELECT from_json(a, '{nested(51)}') FROM t"), {"t"})
    deepest = "MAP<STRING, ROW<a " * 25 + "INT" + ">>" * 25
    with pytest.raises(UnsupportedStatement, match="nested too deeply"):
        checked_sql(parse_one(f"SELECT CAST(a AS {deepest}) FROM t"), {"t"})


@pytest.mark.parametrize("schema", ["map INT, b ARRAY<STRING>", "a INT COMMENT \\'map<\\'", "`map<` INT"])
def test_a_schema_without_a_map_stays(schema: str) -> None:
    assert "transform" not in checked_sql(parse_one(f"SELECT from_json(a, '{schema}') FROM t"), {"t"})


@pytest.mark.parametrize(
    ("value", "written", "most"),
    [
        ("CAST(a AS CHAR(40000000))", "CHAR(40000000)", 32 << 20),
        ("CAST(a AS ROW<x BINARY(40000000)>)", "BINARY(40000000)", 32 << 20),
        ("CAST(a AS ARRAY<CHAR(70000)>)", "CHAR(70000)", 64 << 10),
        ("CAST(a AS MAP<INT, ROW<x BINARY(70000)>>)", "BINARY(70000)", 64 << 10),
        ("CAST(a AS ROW<x ARRAY<CHAR(70000)>>)", "CHAR(70000)", 64 << 10),
        ("transform(a, e -> CAST(e AS ROW<x CHAR(70000)>))", "CHAR(70000)", 64 << 10),
    ],
)
def test_what_a_cast_would_fill_up_too_far_is_refused_by_its_type(value: str, written: str, most: int) -> None:
    with pytest.raises(UnsupportedStatement) as refused:
        checked_sql(parse_one(f"SELECT {value} AS x FROM t"), {"t"})
    assert refused.value.message.startswith(f"{written} would make a value of more than {most} bytes")
    assert refused.value.fragment == written


@pytest.mark.parametrize("type_", ["MULTISET<INT>", "INT MULTISET", "ARRAY<MULTISET<INT>>", "ROW<a INT, b MULTISET<INT>>"])
def test_a_multiset_is_refused_by_name(type_: str) -> None:
    with pytest.raises(UnsupportedStatement, match="The type MULTISET is not available"):
        parse_one(f"SELECT TRY_CAST(CAST(a AS {type_}) AS STRING) FROM t")
    parse_one("SELECT CAST(multiset < 3 AS STRING), CAST(a AS INT) multiset FROM t")


@pytest.mark.parametrize(
    ("column", "name"),
    [
        ("CAST(a AS VARCHAR(3))", "a"),
        ("t.a::CHAR(3)", "a"),
        ("CAST(a AS ARRAY<VARCHAR(3)>)", "a"),
        ("CAST(r.a AS VARCHAR(3))", "CAST(r.a AS STRING)"),
        ("CAST(LOCALTIMESTAMP AS CHAR(3))", "CAST(LOCALTIMESTAMP() AS STRING)"),
        ("CAST(CAST(a AS CHAR(2)) AS VARBINARY(3))", "CAST(CAST(a AS STRING) AS BINARY)"),
        ("CAST(a AS TIMESTAMP(3))", "CAST(a AS TIMESTAMP(3))"),
    ],
)
def test_a_cast_that_cuts_keeps_the_name_of_its_column(column: str, name: str) -> None:
    assert spark_sql(parse_one(f"SELECT {column} FROM t")).endswith(f" AS `{name}` FROM t")
