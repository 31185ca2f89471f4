"""Queries made at random for the real Spark: values of every type, each allowed function with odd arguments, nested queries."""

from __future__ import annotations

import random

from sql.analysis.functions import FUNCTIONS

VALUES = [
    "NULL", "0", "-1", "1", "127", "-128", "32767", "2147483647", "-2147483648", "9223372036854775807",
    "-9223372036854775808", "1e308", "-1e-308",
    "CAST('NaN' AS DOUBLE)", "CAST('Infinity' AS FLOAT)", "0.0", "-0.0", "99999999999999999999999999999999999999", "0.00000000000000000001",
    "''", "' '", "'a'", "'é😀'", "'%'", "'\\\\'", "'[('", "'yyyy-MM-dd'",
    "'GGGGGG'", "'UTC'", "'+99:99'", "'Nowhere/Town'", "'{\"a\":[1,null]}'",
    "'<a><b/></a>'", "'a INT, b STRING'", "'1,2'", "'$.a[0]'", "X''", "X'00FF80'",
    "TRUE", "FALSE", "DATE '0001-01-01'", "DATE '9999-12-31'",
    "DATE '2024-02-29'", "TIMESTAMP '0001-01-01 00:00:00'", "TIMESTAMP '9999-12-31 23:59:59.999999'", "TIMESTAMP '2024-03-31 02:30:00'",
    "TIME '23:59:59.999'", "CAST('2024-01-01 00:00:00' AS TIMESTAMP_LTZ(3))", "INTERVAL '1' DAY",
    "INTERVAL '-178000000' YEAR",
    "INTERVAL '99999' DAY", "ARRAY[1, NULL, 3]", "ARRAY['a']", "CAST(ARRAY[] AS ARRAY<INT>)", "MAP['k', 1]", "MAP[1, ARRAY[2]]",
    "ROW(1, 'x')", "CAST(ROW(1, NULL) AS ROW<x INT, y STRING>)",
    "ARRAY[ROW(1, 'x')]", "CAST(1.5 AS DECIMAL(38, 37))", "CAST('x' AS CHAR(3))",
    "CAST(1 AS TINYINT)", "CAST(1 AS SMALLINT)", "CAST(2 AS FLOAT)", "id", "s", "d", "ts", "xs", "x -> x", "(a, b) -> a", "*",
]  # fmt: skip
TYPES = [
    "TINYINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL(38, 10)", "DECIMAL(1, 1)", "STRING", "CHAR(1)", "VARCHAR(2)",
    "BYTES", "BINARY(3)", "BOOLEAN", "DATE",
    "TIME", "TIMESTAMP(3)", "TIMESTAMP_LTZ(6)", "ARRAY<STRING>", "MAP<STRING, INT>", "ROW<a INT, b STRING>",
]  # fmt: skip
_SIGNS = ["+", "-", "*", "/", "%", "=", "<>", "<", ">=", "||", "AND", "OR", "LIKE", "IS DISTINCT FROM", "&", "|", "^"]
_NAMES = sorted(FUNCTIONS)


def expression(rng: random.Random, depth: int = 3) -> str:
    """A value, a call, a cast, a condition or a query in parentheses."""
    kind = rng.randrange(10) if depth else 0

    def part() -> str:
        return expression(rng, depth - 1)

    match kind:
        case 0 | 1:
            return rng.choice(VALUES)
        case 2 | 3 | 4 | 5:
            name = rng.choice(_NAMES)
            return f"{name}({', '.join(part() for _ in range(rng.choice([0, 1, 1, 2, 2, 3, 4])))})"
        case 6:
            return f"{rng.choice(['CAST', 'TRY_CAST'])}({part()} AS {rng.choice(TYPES)})"
        case 7:
            return f"({part()} {rng.choice(_SIGNS)} {part()})"
        case 8:
            return f"CASE WHEN {part()} IS NULL THEN {part()} ELSE {part()} END"
        case _:
            over = rng.choice(["max", "count", "first", "collect_list"])
            return f"(SELECT {over}({part()}) FROM {rng.choice(['t', '(VALUES (1), (NULL)) AS v(id)'])})"


def query(rng: random.Random) -> str:
    """A query over the table `t` with such expressions in any of its places."""
    what, where, more = expression(rng), expression(rng, 2), expression(rng, 1)
    places = [
        f"SELECT {what}", f"SELECT {what} AS a FROM t", f"SELECT id FROM t WHERE {where} IS NOT NULL",
        f"SELECT {what} FROM t ORDER BY {more}",
        f"SELECT count(*), {what} FROM t GROUP BY {more}", f"SELECT id, {what} OVER (PARTITION BY s ORDER BY {more}) FROM t",
        f"SELECT * FROM (SELECT {what} AS a, id FROM t) AS q JOIN t ON q.id = t.id AND {where} IS NULL",
        f"SELECT {what} UNION ALL SELECT {more}",
        f"WITH c AS (SELECT {what} AS a) SELECT a, {more} FROM c", f"SELECT * FROM t, LATERAL TABLE(explode(ARRAY[{what}])) AS x(y)",
        f"SELECT transform(xs, x -> {what}) FROM t", f"SELECT id FROM t WHERE id IN (SELECT {what} FROM t)",
        f"EXPLAIN SELECT {what} FROM t",
        f"SELECT {what} FROM t HAVING {where} IS NULL", f"SELECT DISTINCT {what} FROM t LIMIT {rng.choice(['0', '1', '2147483647', more])}",
        f"INSERT INTO u SELECT {what}, {more}", f"VALUES ({what}, {more})",
    ]  # fmt: skip
    return rng.choice(places)
