"""Each function of Spark's registry is classified; in every position it can stand, one that is refused stays away from Spark."""

from __future__ import annotations

import ast
import contextlib
import re
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import ParseException
from pyspark.sql import SparkSession
from sqlglot import exp

from model.errors import SqlError
from model.version import sluice_version
from sql.analysis.allow_list import checked_sql
from sql.analysis.functions import ANSWERED_HERE, FUNCTIONS, OPERATORS, REFUSED, RUN_BY_SPARK, TABLE_FUNCTIONS
from sql.analysis.session_values import answer_session_values
from sql.dialect import parse_one
from sql.spark.session.pool import SparkPool
from sql.spark.session.settings import CONF
from sql.spark.session.texts import frame_of

ROOT = Path(__file__).parents[3]
POSITIONS = [
    "SELECT {call}",
    "SELECT {call} AS x FROM v",
    "SELECT DISTINCT {call} FROM v",
    "SELECT a FROM v WHERE {call} = 1",
    "SELECT a FROM v WHERE a IN (SELECT {call})",
    "SELECT a FROM v WHERE EXISTS (SELECT 1 FROM v WHERE {call} IS NULL)",
    "SELECT a FROM v GROUP BY {call}",
    "SELECT a FROM v GROUP BY GROUPING SETS (({call}))",
    "SELECT a FROM v GROUP BY a HAVING max({call}) > 1",
    "SELECT a FROM v ORDER BY {call}",
    "SELECT a FROM v DISTRIBUTE BY {call}",
    "SELECT a FROM v SORT BY {call}",
    "SELECT a FROM v LIMIT {call}",
    "SELECT a FROM v LIMIT 1 OFFSET {call}",
    "SELECT sum(a) OVER (PARTITION BY {call} ORDER BY b) FROM v",
    "SELECT sum(a) OVER (ORDER BY {call}) FROM v",
    "SELECT sum(a) OVER w FROM v WINDOW w AS (PARTITION BY {call})",
    "SELECT sum(a) FILTER (WHERE {call} = 1) FROM v",
    "SELECT max({call}) FROM v",
    "SELECT count(DISTINCT {call}) FROM v",
    "SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY {call}) FROM v",
    "SELECT CASE WHEN {call} = 1 THEN 1 ELSE 2 END FROM v",
    "SELECT CASE a WHEN 1 THEN {call} END FROM v",
    "SELECT CAST({call} AS STRING)",
    "SELECT TRY_CAST({call} AS TIMESTAMP(3))",
    "SELECT array(1, {call})",
    "SELECT ARRAY[{call}]",
    "SELECT MAP[{call}, 1]",
    "SELECT ROW({call})",
    "SELECT STRUCT({call} AS a)",
    "SELECT array(1)[{call}]",
    "SELECT named_struct('a', {call}).a",
    "SELECT transform(array(1), x -> {call})",
    "SELECT aggregate(array(1), 0, (x, y) -> {call}, z -> {call})",
    "SELECT INTERVAL '1' DAY + {call}",
    "SELECT {call} || 'a'",
    "SELECT 'a' LIKE {call}",
    "SELECT 'a' RLIKE {call}",
    "SELECT a BETWEEN {call} AND 2 FROM v",
    "SELECT EXTRACT(DAY FROM {call})",
    "SELECT TRIM(BOTH {call} FROM 'a')",
    "SELECT SUBSTRING({call} FROM 1 FOR 2)",
    "SELECT POSITION({call} IN 'a')",
    "SELECT OVERLAY('a' PLACING {call} FROM 1)",
    "SELECT IF({call} = 1, 1, 2)",
    "SELECT upper({call})",
    "SELECT mask(str => {call})",
    "SELECT -{call}, NOT {call}, ~{call}",
    "SELECT (SELECT {call})",
    "WITH x AS (SELECT {call}) SELECT * FROM x",
    "WITH {name}(a) AS (SELECT 1) SELECT {call}",
    "WITH {name} AS (SELECT 1) SELECT {call} FROM {name}",
    "WITH x({name}) AS (SELECT 1) SELECT {call} FROM x",
    "SELECT 1 AS {name} ORDER BY {call}",
    "SELECT {call} FROM v AS {name}(a, b)",
    "SELECT {call} FROM (SELECT 1) AS {name}(a)",
    "SELECT {call} FROM (VALUES (1)) AS {name}(a)",
    "SELECT * FROM (VALUES ({call})) AS t(a)",
    "VALUES ({call})",
    "SELECT * FROM v JOIN v AS w ON {call} = 1",
    "SELECT * FROM v, LATERAL (SELECT {call}) t",
    "SELECT * FROM v, LATERAL {call} t",
    "SELECT * FROM v, LATERAL TABLE({call}) t",
    "SELECT * FROM {call}",
    "SELECT * FROM TABLE({call})",
    "SELECT * FROM range({call})",
    "SELECT * FROM v LATERAL VIEW {call} t AS c",
    "SELECT * FROM v LATERAL VIEW explode(array({call})) t AS c",
    "SELECT * FROM v LATERAL VIEW explode(array(1)) {name} AS {name} WHERE {call} = 1",
    "SELECT * FROM v CROSS JOIN UNNEST(ARRAY[{call}]) AS t (c)",
    "SELECT * FROM v TABLESAMPLE ({call} ROWS)",
    "SELECT * FROM v PIVOT (max({call}) FOR b IN (1))",
    "SELECT * FROM v PIVOT (max(a) FOR b IN ({call}))",
    "SELECT /*+ BROADCAST({call}) */ * FROM v",
    "SELECT /*+ REPARTITION({call}) */ * FROM v",
    "SELECT /*+ REPARTITION(3, {call}) */ * FROM v",
    "SELECT /*+ {call} */ * FROM v",
    "SELECT a FROM v UNION ALL SELECT {call}",
    "SELECT a FROM v EXCEPT SELECT {call}",
    "SELECT from_json('{{}}', {call})",
    "SELECT CAST('{{}}' AS STRUCT<a INT DEFAULT {call}>)",
    "SELECT {{fn {call}}}",
    "SELECT b.{call} FROM v AS b",
    "SELECT system.builtin.{call}",
]
SPELLINGS = ["{}", "`{}`", "{} /* */ ", "{} -- x\n"]
REFUSABLE = [*sorted(REFUSED), "nosuchfunction"]


@pytest.mark.parametrize("each", [pytest.param(1, id="short"), pytest.param(len(SPELLINGS) + 1, id="whole", marks=pytest.mark.torture)])
@pytest.mark.parametrize("position", POSITIONS)
def test_what_is_refused_is_refused_wherever_it_stands_and_however_it_is_written(position: str, each: int) -> None:
    """Each name, in so many spellings by turns."""
    for number, name in enumerate(REFUSABLE, POSITIONS.index(position)):
        for spelled in islice(cycle((*(form.format(name) for form in SPELLINGS), name.upper())), number, number + each):
            text = position.format(call=f"{spelled}('a', 'b')", name=name)
            with pytest.raises(SqlError):
                checked_sql(parse_one(text), {"v"})


@pytest.mark.spark
def test_every_function_of_the_registry_is_classified_once(spark: SparkSession) -> None:
    registered = _registered(spark)
    lists = (RUN_BY_SPARK, ANSWERED_HERE, frozenset(REFUSED), OPERATORS)
    for name in sorted(registered):
        inside = sum(name in one for one in lists) + (name in TABLE_FUNCTIONS and name not in RUN_BY_SPARK)
        assert inside == 1, f"{name} of this Spark's registry stands in {inside} lists of sql/analysis/functions.py"
    assert FUNCTIONS - registered == {"timestampadd", "timestampdiff"}, "these are Spark's grammar; others there are not"
    assert frozenset(REFUSED) <= registered


@pytest.mark.spark
def test_sparks_own_parser_finds_no_call_that_was_not_judged(spark: SparkSession) -> None:
    """The texts that pass, parsed by Spark: what it would call is on the list."""
    parser = spark._jsparkSession.sessionState().sqlParser()
    passed = 0
    for position in POSITIONS:
        for name in ("upper", "explode", "current_date", "filter", "left", "xpath_string"):
            for spelled in (form.format(name) for form in SPELLINGS):
                try:
                    text = checked_sql(parse_one(position.format(call=f"{spelled}('a', 'b')", name=name)), {"v"})
                except SqlError:
                    continue
                with contextlib.suppress(ParseException):
                    assert set(_calls(str(parser.parsePlan(text).treeString()))) <= RUN_BY_SPARK | OPERATORS, text
                    passed += 1
    assert passed > 300


@pytest.mark.spark
def test_texts_reach_spark_as_they_were_meant(pool: SparkPool) -> None:
    """Quotes, backslashes and comments inside a literal or a name do not end it for Spark."""
    texts = [
        "it's",
        "\\",
        "\\'",
        "\\\\'",
        "a' OR reflect('x')--",
        '"',
        "`",
        "/*",
        "*/",
        "--",
        "\n",
        "\\u0041",
        "\\N",
        "%\\_",
        "é",
        "$x",
        "${y}",
        "?",
    ]
    tree = exp.select(*[exp.alias_(exp.Literal.string(text), text.replace(".", "_") or "x", quoted=True) for text in texts])
    session = pool.session()
    for key in ("spark.sql.variable.substitute",):  # this run's context was started without our settings
        session.conf.set(key, CONF[key])
    frame = frame_of(session, tree)
    assert list(frame.collect()[0]) == texts
    assert frame.columns == [text.replace(".", "_") for text in texts]


def test_the_session_answers_for_itself() -> None:
    tree = parse_one(
        "SELECT current_user(), CURRENT_USER, upper(session_user()), current_database(), user(), version() FROM v "
        "WHERE current_catalog() = 'x'"
    )
    answer_session_values(tree, principal="it's", catalog="sluice", database="d")
    assert checked_sql(tree, {"v"}) == (
        r"SELECT 'it\'s' AS `current_user()`, 'it\'s' AS `current_user()`, upper('it\'s'), 'd' AS `current_database()`, "
        rf"'it\'s' AS `user()`, '{sluice_version()}' AS `version()` FROM v WHERE 'sluice' = 'x'"
    )


def test_only_one_module_gives_spark_text() -> None:
    """But for the fixed statements that a JVM without tables and users runs, so that its classes are kept."""
    for file in sorted((ROOT / "sql").rglob("*.py")):
        calls = [node.func for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.Call)]
        given = [ast.unparse(call) for call in calls if isinstance(call, ast.Attribute) and _takes_text(call)]
        assert not given or file.name in ("texts.py", "class_archive.py"), f"{file} hands Spark a text of its own: {given}"


def _takes_text(call: ast.Attribute) -> bool:
    return ast.unparse(call) in ("F.expr", "session.sql", "spark.sql", "frame.sparkSession.sql") or call.attr == "selectExpr"


def _registered(spark: SparkSession) -> set[str]:
    shown = {row[0].rpartition(".")[2] for row in spark.sql("SHOW ALL FUNCTIONS").collect()}
    state: Any = spark._jsparkSession.sessionState()
    for registry in (state.functionRegistry(), state.tableFunctionRegistry()):
        found = registry.listFunction().mkString("\n")
        shown |= {line.split(".")[-1].strip("`") for line in found.splitlines()}
    return shown


def _calls(plan: str) -> list[str]:
    """The names Spark's parser takes for functions, which its plan writes behind a quote, and those of table functions."""
    return [name.lower() for name in [*re.findall(r"'(\w+)\(", plan), *re.findall(r"TableValuedFunction \[(\w+)", plan)]]
