"""Flink's SQL is read; what is not SQL here is refused by name and place."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlglot import exp

from model.errors import SqlError, SqlSyntaxError, UnsupportedStatement
from model.schema.change import AddColumn, DropColumn, Position, RenameColumn, SetOption, UpdateColumnPosition, UpdateColumnType
from model.schema.types import BigIntType, IntType, MapType, RowType, parse_type
from model.text.sql_text import literal
from sql.analysis.allow_list import checked_sql
from sql.analysis.functions import FUNCTIONS
from sql.analysis.to_spark import spark_sql
from sql.dialect import OPTIONS_HINT, parse_one, split
from sql.parsing import trees
from sql.parsing.ddl import TableDefinition
from sql.parsing.positions import place

SPECIAL = frozenset(
    {
        "and", "any", "between", "case", "cast", "char", "count", "current_date", "current_timestamp", "current_user",
        "extract", "in", "map", "not", "overlay", "session_user", "struct", "transform", "trim", "when",
    }
)  # fmt: skip
"""Names whose arguments are no plain list, or that other tests cover."""
CASES = Path(__file__).parent / "cases"


def cases(name: str) -> list[tuple[str, str, str]]:
    """Title, text and expectation of each block of a case file."""
    found = []
    for block in (CASES / name).read_text().split("\n\n"):
        title, _, rest = block.strip().partition("\n")
        text, _, expected = rest.partition("\n=>\n")
        found.append((title.removeprefix("-- "), text, expected))
    return found


@given(st.text(st.sampled_from("a'\\\"%n0é\n;-"), max_size=8))
def test_a_text_written_as_a_literal_is_read_as_the_same_text(text: str) -> None:
    (found,) = parse_one(f"SELECT {literal(text)}").expressions
    assert (found.is_string, found.this) == (True, text)


@pytest.mark.parametrize(("title", "text", "expected"), cases("spark.sql"), ids=[c[0] for c in cases("spark.sql")])
def test_a_query_becomes_sparks(title: str, text: str, expected: str) -> None:
    assert spark_sql(parse_one(text)) == expected
    checked_sql(parse_one(text), {table.name for table in parse_one(text).find_all(exp.Table)})


@pytest.mark.parametrize(("title", "text", "expected"), cases("refused.sql"), ids=[c[0] for c in cases("refused.sql")])
def test_a_refusal_tells_what_and_where(title: str, text: str, expected: str) -> None:
    with pytest.raises(SqlError) as refused:
        checked_sql(parse_one(text), {"t"})
    where, _, says = expected.partition(" ")
    told = (refused.value.line, refused.value.column) if refused.value.line else place(text, refused.value.fragment)
    assert f"{told[0]}:{told[1]}" == where
    assert says in refused.value.message


def test_a_table_as_a_flink_user_types_it() -> None:
    tree = parse_one(
        """CREATE TABLE IF NOT EXISTS d.`my t` (
             id BIGINT NOT NULL COMMENT 'the key', ts TIMESTAMP(3), l TIMESTAMP_LTZ(3), r ROW<a INT, b ROW<c STRING>>,
             m MAP<STRING NOT NULL, ARRAY<INT>>, dt STRING, WATERMARK FOR ts AS ts - INTERVAL '5' SECOND
           ) COMMENT 'c' PARTITIONED BY (dt) WITH ('bucket' = '8', 'bucket-key' = 'id')"""
    )
    assert isinstance(tree, trees.CreateTable)
    made: TableDefinition = tree.args["definition"]
    assert tree.args["name"] == ("d", "my t")
    assert tree.args["if_not_exists"]
    assert [c.name for c in made.columns] == ["id", "ts", "l", "r", "m", "dt"]
    assert made.columns[0].type == BigIntType(nullable=False)
    assert made.columns[0].description == "the key"
    assert made.columns[2].type == parse_type("TIMESTAMP_LTZ(3)")
    assert isinstance(made.columns[3].type, RowType)
    assert isinstance(made.columns[4].type, MapType)
    assert made.watermarks[0].expression == "ts - INTERVAL '5' SECOND"
    assert (made.comment, made.partition_keys, made.options) == ("c", ("dt",), {"bucket": "8", "bucket-key": "id"})


@pytest.mark.parametrize(
    ("text", "changes"),
    [
        ("ADD c INT", (AddColumn(name="c", type=IntType()),)),
        (
            "ADD (c INT COMMENT 'x' FIRST, d INT AFTER c)",
            (
                AddColumn(name="c", type=IntType(), comment="x", position=Position(first=True)),
                AddColumn(name="d", type=IntType(), position=Position(after="c")),
            ),
        ),
        ("ADD COLUMNS (c INT)", (AddColumn(name="c", type=IntType()),)),
        ("MODIFY c BIGINT", (UpdateColumnType(name="c", type=BigIntType()),)),
        (
            "MODIFY c INT AFTER d",
            (UpdateColumnType(name="c", type=IntType()), UpdateColumnPosition(name="c", position=Position(after="d"))),
        ),
        ("ALTER COLUMN c TYPE BIGINT", (UpdateColumnType(name="c", type=BigIntType()),)),
        ("DROP (a, b)", (DropColumn(name="a"), DropColumn(name="b"))),
        ("DROP COLUMN a", (DropColumn(name="a"),)),
        ("RENAME a TO b", (RenameColumn(name="a", to="b"),)),
        ("RENAME COLUMN a TO b", (RenameColumn(name="a", to="b"),)),
        ("SET ('k' = 'v')", (SetOption(key="k", value="v"),)),
    ],
)
def test_alterations_of_both_dialects(text: str, changes: tuple[object, ...]) -> None:
    tree = parse_one(f"ALTER TABLE t {text}")
    assert isinstance(tree, trees.AlterTable)
    assert tree.args["changes"] == changes


def test_every_function_keeps_its_name_and_arguments() -> None:
    renamed = {"position": "LOCATE", "substr": "SUBSTRING"}
    for name in sorted(FUNCTIONS - SPECIAL):
        text = spark_sql(parse_one(f"SELECT {name}(a, b, c) FROM v"))
        assert text.lower() == f"select {renamed.get(name, name).lower()}(a, b, c) from v"


def test_hints_belong_to_their_table() -> None:
    tree = parse_one("SELECT * FROM a /*+ OPTIONS('scan.snapshot-id'='1', 'x' = 'it''s') */ AS x JOIN b /* OPTIONS('no'='hint') */ ON true")
    found = {table.name: table.meta.get(OPTIONS_HINT) for table in tree.find_all(exp.Table)}
    assert found == {"a": {"scan.snapshot-id": "1", "x": "it's"}, "b": None}


def test_texts_are_split_outside_quotes_comments_and_statement_sets() -> None:
    text = "SELECT ';' -- ; \n;\n/* ; */ EXECUTE STATEMENT SET BEGIN INSERT INTO a SELECT 1; INSERT INTO b SELECT 2; END;;\nSELECT `;`"
    found = split(text)
    assert [(part.text.split()[0], part.line) for part in found] == [("SELECT", 1), ("EXECUTE", 3), ("SELECT", 4)]
    members = parse_one(found[1].text)
    assert isinstance(members, trees.StatementSet)
    assert len(members.expressions) == 2
    assert text[found[2].offset :] == "SELECT `;`"


@pytest.mark.parametrize("text", ["SELECT 1 <>", "SELECT CAST(NULL AS ROW<>)", "SELECT a FROM t WHERE b AND"])
def test_what_ends_too_early_is_told_without_the_parsers_names(text: str) -> None:
    with pytest.raises(SqlSyntaxError, match="something is missing here") as told:
        parse_one(text)
    assert "sqlglot" not in told.value.message


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("SELECT 'abc", r"quoted text is not closed\.$"),
        ("SELECT `abc", r"backquoted name is not closed\.$"),
        ("SELECT /* abc", r"a comment or quoted text is not closed\.$"),
        (r"SELECT 'it\'s' FROM `t", r"backquoted name is not closed\.$"),
        (r"SELECT 'C:\'", r"quoted text is not closed\. A backslash escapes the quote behind it: .* 'C:\\\\'\.$"),
        (r"SELECT 'C:\', 'x'", r"quoted text is not closed\. A backslash escapes the quote behind it"),
    ],
)
def test_what_is_not_closed_is_told(text: str, says: str) -> None:
    with pytest.raises(SqlSyntaxError, match=says):
        parse_one(text)


def test_a_backslash_escapes_as_the_page_says() -> None:
    tree = parse_one(r"""SELECT '\n', '\d', '\'', '''', '\\d', 'C:\\new', r'\d', r'C:\new' FROM t /*+ OPTIONS('k' = 'a\tb') */""")
    assert [text.name for text in tree.expressions] == ["\n", "d", "'", "'", r"\d", r"C:\new", r"\d", r"C:\new"]
    assert [table.meta[OPTIONS_HINT] for table in tree.find_all(exp.Table)] == [{"k": r"a\tb"}]


@pytest.mark.parametrize(
    "text",
    [
        'SELECT * FROM t WHERE s = "x"',
        'SELECT * FROM "t"',
        'SELECT 1 AS "x"',
        'SELECT r"x"',
        "CREATE TABLE t (a INT) WITH (\"bucket\" = '1')",
    ],
)
def test_double_quotes_are_refused_wherever_they_stand(text: str) -> None:
    """They were texts in a condition and names in FROM, so that a filter on a "name" found nothing."""
    with pytest.raises(SqlSyntaxError, match="single quotes and `name` in backquotes") as refused:
        parse_one(text)
    assert refused.value.column is not None
    assert text[refused.value.column - 1 :].startswith(refused.value.fragment or "?")


def test_double_quotes_inside_other_quotes_and_in_texts_stored_before_are_read() -> None:
    assert parse_one('SELECT \'a "b"\', `c"d` FROM t').sql("spark") == 'SELECT \'a "b"\', `c"d` FROM t'
    assert parse_one('SELECT "x" FROM t', stored=True).sql("spark") == "SELECT 'x' FROM t"


def test_a_cast_to_blob_in_a_text_stored_before_is_read_as_it_was() -> None:
    assert parse_one("SELECT blob, CAST(a AS BLOB) FROM t", stored=True).sql("spark") == "SELECT blob, CAST(a AS BINARY) FROM t"


@pytest.mark.parametrize(
    "cast",
    [
        "CAST(a AS ARRAY<INT>[])",
        "TRY_CAST(a AS ARRAY<INT>[1])",
        "a::ARRAY<INT>[]",
        "CAST(a AS ROW<x ARRAY<INT>[]>)",
        "CAST(a AS MAP<INT, INT>(1))",
    ],
)
def test_brackets_behind_a_type_with_types_inside_are_no_type(cast: str) -> None:
    """They were read as a value of that type, and the cast as one to a cast."""
    with pytest.raises(UnsupportedStatement, match=r"make no type; an array of arrays is ARRAY<ARRAY<…>>") as refused:
        parse_one(f"SELECT {cast}")
    assert refused.value.column is not None
    assert parse_one("SELECT CAST(a AS ARRAY<INT>)[1], CAST(a AS INT[]), ARRAY<INT>[1]").sql("spark").count("ARRAY<INT>") == 3


@pytest.mark.parametrize(
    ("type_", "read"),
    [
        ("INT ARRAY ARRAY", "ARRAY<ARRAY<INT>>"),
        ("ARRAY<INT ARRAY>", "ARRAY<ARRAY<INT>>"),
        ("MAP<STRING, DECIMAL(5, 1) ARRAY>", "MAP<STRING, ARRAY<DECIMAL(5, 1)>>"),
        ("ROW<x INT ARRAY>", "STRUCT<x: ARRAY<INT>>"),
        ("ROW<x INT ARRAY, y INT>", "STRUCT<x: ARRAY<INT>, y: INT>"),
        ("ROW<array INT ARRAY NOT NULL, y ROW<z STRING ARRAY>>", "STRUCT<array: ARRAY<INT> NOT NULL, y: STRUCT<z: ARRAY<STRING>>>"),
    ],
)
def test_array_behind_a_type_is_read_in_casts_as_in_columns(type_: str, read: str) -> None:
    assert parse_one(f"SELECT CAST(a AS {type_}), b").sql("spark") == f"SELECT CAST(a AS {read}), b"


def test_too_deep_nesting_is_an_error_not_a_crash() -> None:
    with pytest.raises(SqlSyntaxError, match="nested too deeply"):
        parse_one("SELECT " + "(" * 5000 + "1" + ")" * 5000)


def test_arguments_of_a_call() -> None:
    tree = parse_one("CALL sys.compact(`table` => 'd.t', dry_run => true, -3, 1.5, NULL)")
    assert tree.args["procedure"] == ("sys", "compact")
    assert [(n, str(v)) for n, v in tree.args["arguments"]] == [
        ("table", "d.t"), ("dry_run", "True"), (None, "-3"), (None, "1.5"), (None, "None"),
    ]  # fmt: skip


def test_set_in_every_spelling() -> None:
    for text in ("SET 'a.b' = 'c'", "SET a.b = c", "SET `a.b` = 'c'"):
        tree = parse_one(text)
        assert (tree.args["key"], tree.args["value"]) == ("a.b", "c")
    with pytest.raises(UnsupportedStatement):
        parse_one("SET TIME ZONE 'UTC'")
