"""Values that would be too large and patterns that would not end are refused where the text tells, and guarded where it does not."""

from __future__ import annotations

import pytest
from sqlglot import exp

from model.errors import UnsupportedStatement
from model.schema.types import parse_type
from sql.analysis.allow_list import checked_expression, checked_sql
from sql.analysis.functions import RUN_BY_SPARK, TABLE_FUNCTIONS
from sql.analysis.limits.growth import FIXED, KEEPING, ROWS, TIMES
from sql.analysis.predicates import literal_value
from sql.analysis.windows import expand_windows
from sql.dialect import parse_one

REFUSED = [
    ("repeat('x', 2000000000)", "more than 33554432 bytes"),
    ("lpad('x', 2000000000, 'y')", "more than 33554432 bytes"),
    ("rpad(a, 2000000000)", "more than 33554432 bytes"),
    ("space(2000000000)", "more than 33554432 bytes"),
    ("array_repeat(1, 2000000000)", "more than 33554432 bytes"),
    ("array_insert(array(1), -2000000000, 1)", "more than 1000000 elements"),
    ("sequence(1, 2000000000)", "more than 1000000 elements"),
    ("sequence(0, 10000000, 2)", "more than 1000000 elements"),
    ("sequence(a, b, CAST('1 second' AS INTERVAL) * 2)", "step as a literal"),
    ("format_string('%2000000000d', 1)", "at most 9999"),
    ("printf('%-99999s', a)", "at most 9999"),
    ("format_number(a, 2000000000)", "more than 1000 digits"),
    ("transform(array(1), x -> repeat('x', 100000))", "more than 65536 bytes"),
    ("count_min_sketch(a, 0.00000001, 0.9, 1)", "eps of at least"),
    ("approx_count_distinct(a, 0.00004)", "deviation of at least 0.003"),
    ("approx_count_distinct(a, b)", "deviation of at least 0.003"),
    ("round(1.5D, 500000000)", "digits between -1000 and 1000"),
    ("bround(5, -500000000)", "digits between -1000 and 1000"),
    ("ceil(1.5D, 500000000)", "digits between -1000 and 1000"),
    ("floor(1.5D, 500000000)", "digits between -1000 and 1000"),
    ("window(TIMESTAMP '2020-01-01 00:00:00', '10000 days', '1 microsecond')", "at most 10000 slides"),
    ("window(a, 864000000000, 1)", "at most 10000 slides"),
    ("window(a, '10000 days', concat('1', ' second'))", "at most 10000 slides"),
    ("repeat('x', IF(rand() < 0.5, 1, 2000000000))", "name it in a subquery"),
    ("a RLIKE IF(rand() < 0.5, 'x', '(a|b)*')", "name it in a subquery"),
    ("sequence(1, uniform(1, 2000000000))", "name it in a subquery"),
    ("replace(shuffle(array(a, b))[0], 'x', a)", "name it in a subquery"),
    ("stack(2000000000, 1)", "at most 10000"),
    ("repeat(n => 5, str => a)", "by their places"),
    ("a RLIKE '(a+)+$'", "repeats what repeats itself"),
    ("a RLIKE '([a-zA-Z]+)*$'", "repeats what repeats itself"),
    ("regexp_like(a, '(a|aa)+$')", "repeats what repeats itself"),
    ("regexp_replace(a, '(.*)*x', '')", "repeats what repeats itself"),
    ("split(a, '(x+x+)+y')", "repeats what repeats itself"),
    ("regexp_extract(a, '((a{1,30}){1,30}){1,30}', 0)", "repeats what repeats itself"),
    ("regexp_count(a, '(\\\\p{L}+)+')", "repeats what repeats itself"),
    ("str_to_map(a, '(x+)+', ':')", "repeats what repeats itself"),
    ("regexp_like(a, '.*a.*b.*c.*d')", "more than 3 unlimited"),
    (f"a RLIKE '{'a?' * 30}{'a' * 30}'", "ways to match in one place"),
    (f"regexp_replace(a, '{'(a|a)' * 25}b', '')", "ways to match in one place"),
    (f"split(a, '{'a{0,20}' * 8}b')", "ways to match in one place"),
    ("regexp_extract(a, '(a{1,3}){1,20}b', 0)", "ways to match in one place"),
    (f"a RLIKE '{'(a?b?)?' * 20}c'", "ways to match in one place"),
    (f"a RLIKE '{'[x[a]]?' * 30}{'a' * 30}'", "ways to match in one place"),
    (r"a RLIKE '(\\w\\d?)*$'", "repeats what repeats itself"),
    ("a RLIKE '(a?a)*b'", "repeats what repeats itself"),
    ("regexp_replace(a, '(a|b|ab)*c', '')", "repeats what repeats itself"),
    (f"'{'a' * 600}' RLIKE '{'a?' * 20}{'a' * 20}'", "more than 381 characters"),
    (r"a RLIKE '(\\S\\w?)+$'", "repeats what repeats itself"),
    ("a RLIKE '(?i)([A-Z][a-z]?)+$'", "repeats what repeats itself"),
    (r"a RLIKE '(\r\n?|\n)+x'", "repeats what repeats itself"),
    ("a RLIKE '((a{0,20}){0,20}){0,20}'", "ways to match in one place"),
    (f"a RLIKE '{'(x|' * 400}a{')' * 400}'", "more groups inside groups"),
    ("histogram_numeric(a, 2000000000)", "bins of at most 10000"),
    ("histogram_numeric(a, b)", "bins of at most 10000"),
    ("parse_url(a, 'QUERY', '(a|b)*')", "letters, digits, _ and -"),
    ("try_parse_url(a, 'QUERY', 'a.*b')", "letters, digits, _ and -"),
    ("parse_url(url => a, partToExtract => 'QUERY', key => '(a|b)*')", "by their places"),
    ("a LIKE ANY ('x', '%a%b%c')", "LIKE ANY"),
    (f"a LIKE '{'%a' * 1001}'", "more than 1000 % and _"),
    (f"a ILIKE '{'_' * 1001}'", "more than 1000 % and _"),
    (f"a RLIKE '{'a?' * 3001}'", "more parts than Java's stack"),
    (f"a RLIKE '{'(a|b)' * 601}'", "more parts than Java's stack"),
]
R = "repeat('x', 33000000)"
REFUSED += [
    (f"concat({', '.join([R] * 60)})", "concat would make a value of more than 33554432 bytes"),
    (f"hex(hex({R}))", "hex would make"),
    (f"replace(replace({R}, 'x', 'xxxxxxxxxxxxxxxx'), 'x', 'yy')", "replace would make"),
    (f"regexp_replace({R}, 'x', 'xxxxxxxxxxxxxxxx')", "regexp_replace would make"),
    (f"size(split({R}, ''))", "split would make"),
    (f"size(regexp_extract_all({R}, 'x', 0))", "regexp_extract_all would make"),
    ("size(sentences(repeat('a ', 16000000)))", "sentences would make"),
    (f"str_to_map({R}, ',', ':')", "str_to_map would make"),
    (f"from_json({R}, 'ARRAY<INT>')", "from_json would make"),
    ("array_join(array_repeat('a', 1000000), 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx')", "array_join would make"),
    ("concat_ws(repeat('x', 1900), array_repeat('a', 1000000))", "concat_ws would make"),
    (f"format_string(repeat('%1$s', 50), {R})", "format_string would make"),
    ("array_repeat(1, 33000000)", "more than 33554432 bytes"),
    ("transform(sequence(1, 1000000), x -> repeat('x', 60000))", "transform would make"),
    (f"to_json(array_repeat({R}, 1))", "to_json would make"),
    (f"aes_encrypt({R}, '0000111122223333')", "aes_encrypt would make"),
]
AS_IT_IS = [
    "repeat('x', 1000)",
    "lpad(a, 10, '0')",
    "replace(a, 'x', 'yy')",
    "sequence(1, 100)",
    "concat(a, b, 'c')",
    "a || b",
    "a LIKE 'x%'",
    "a LIKE '%x'",
    "a LIKE '%x%'",
    "a LIKE 'x%y'",
    "a LIKE '_x'",
    "(NOT a LIKE '%x%')",
    "a RLIKE 'x|y'",
    "split(a, ',')",
    "parse_url(a, 'QUERY', 'page-id')",
    "regexp_replace(a, 'oo|ar', '')",
    r"a RLIKE '^\\d{1,10}(,\\d{1,10}){9}$'",
    "a RLIKE '^https?://(www[.])?[a-z0-9.-]{1,20}(:[0-9]{1,5})?(/.{0,20})?$'",
    "regexp_extract('foothebar', 'foo(.*?)(bar)', 2)",
    "array_join(a, ', ')",
    "format_string('%5d', a)",
    "stack(2, 1, 2)",
    "approx_count_distinct(a, 0.01)",
    "round(a)",
    "round(a, -2)",
    "count_min_sketch(a, 0.0001, 0.999, 1)",
    "histogram_numeric(a, 1000)",
    "from_json(a, 'x INT, y ARRAY<STRING>')",
    "from_json(a, schema_of_json('{\"a\":5}'))",
    "array_union(ARRAY(a), ARRAY(b))",
    "floor(a, 2)",
    "window(a, '10 minutes')",
    "window(a, '1 day', '1 minute')",
    "window(a, '1 hour 30 minutes', '1.5 seconds', '15 minutes')",
]
GUARDED = [
    "array_distinct(a)",
    "arrays_overlap(a, b)",
    "from_json(a, 'x DECIMAL(10, 2)')",
    "from_csv(a, 'x INT, y dec(38, 0)', MAP('sep', 'x'))",
    "from_json(a, schema_of_json('{\"a\":12345678901234567890}'))",
    "from_json(a, schema_of_json(b))",
    "repeat(a, b)",
    "repeat(repeat(a, 1000), 1000)",
    "lpad(a, b)",
    "space(a * b)",
    "array_repeat(a, 1000)",
    "sequence(1, a)",
    "sequence(a, b, INTERVAL '1' SECOND)",
    "sequence(a, b, make_dt_interval(0, 0, 0, 5.000))",
    "sequence(a, b, -INTERVAL '1' SECOND)",
    "sequence(a, b, CAST('1' AS INTERVAL SECOND))",
    "sequence(a, b, c)",
    "array_join(a, ',', b)",
    "array_join(a, ',', 'what is there for NULL')",
    "replace(a, 'x', b)",
    "regexp_replace(a, 'x', 'a much longer replacement')",
    "array_join(a, b)",
    "sequence(a, b, INTERVAL '1' MONTH)",
    "format_string(a, 1)",
    "levenshtein(a, b)",
    "aggregate(sequence(1, 30), 'x', (s, i) -> concat(s, s))",
    "a LIKE b",
    "a RLIKE b",
    "a RLIKE 'x.*'",
    "split(a, b)",
    "str_to_map(a, b, c)",
    "parse_url(a, 'QUERY', b)",
]


@pytest.mark.parametrize(("call", "says"), REFUSED)
def test_what_is_too_much_by_itself_is_refused(call: str, says: str) -> None:
    with pytest.raises(UnsupportedStatement, match=says):
        checked_sql(parse_one(f"SELECT {call} FROM v"), {"v"})


@pytest.mark.parametrize("call", AS_IT_IS)
def test_what_cannot_become_large_is_left_as_it_is(call: str) -> None:
    assert checked_sql(parse_one(f"SELECT {call} FROM v"), {"v"}) == f"SELECT {call} FROM v"


def test_a_sketch_of_each_group_is_small() -> None:
    checked_sql(parse_one("SELECT count_min_sketch(a, 0.001, 0.99, 1) FROM v GROUP BY b"), {"v"})
    with pytest.raises(UnsupportedStatement, match="for each group"):
        checked_sql(parse_one("SELECT count_min_sketch(a, 0.0001, 0.999, 1) FROM v GROUP BY b"), {"v"})


@pytest.mark.parametrize("text", ["repeat(concat(a, b), c)", "a LIKE '%a%b%c'", "regexp_like(concat(a, b), c)"])
def test_an_expression_by_itself_is_guarded_as_in_a_query(text: str) -> None:
    tree = parse_one(f"SELECT {text} FROM v").expressions[0].pop()
    guarded = checked_expression(tree)
    assert guarded != text
    assert checked_sql(parse_one(f"SELECT {text} AS x FROM v"), {"v"}) == f"SELECT {guarded} AS x FROM v"


@pytest.mark.parametrize(
    "query",
    [
        "SELECT explode(sequence(DATE '2024-01-01', DATE '2024-12-31', INTERVAL 1 DAY)) AS d",
        "SELECT explode(sequence(to_timestamp('2024-01-01'), to_timestamp('2024-02-01'), INTERVAL '1' HOUR)) AS d",
        "SELECT explode(sequence(current_date() - 30, current_date())) AS d",
        "SELECT array_join(transform(sequence(DATE '2024-01-01', DATE '2024-01-31', INTERVAL 1 DAY), d -> string(d)), ',') AS d",
        "SELECT transform(sequence(current_date() - 30, current_date()), d -> named_struct('d', d, 'y', year(d), 'm', month(d))) AS d",
    ],
)
def test_a_calendar_is_mentioned_as_often_as_it_is_needed(query: str) -> None:
    mentions = " UNION ALL ".join(["SELECT d FROM cal"] * 10)
    assert checked_sql(parse_one(f"WITH cal AS ({query}) {mentions}"), set())


def test_options_and_schemas_stay_where_spark_looks_for_literals() -> None:
    text = checked_sql(parse_one("SELECT from_json(replace(j, a, b), 'x INT', map('mode', 'PERMISSIVE')) AS x FROM v"), {"v"})
    assert "__given.a2" not in text
    assert "'PERMISSIVE'" in text


def test_a_lambda_stays_where_spark_looks_for_one() -> None:
    text = checked_sql(parse_one("SELECT map_zip_with(map_concat(a, c), b, (k, v1, v2) -> v1 + v2) AS m FROM v"), {"v"})
    assert "(k, v1, v2) -> v1 + v2" in text
    assert text.count("'a2'") == 0


@pytest.mark.parametrize(
    ("call", "anywhere"),
    [
        ("from_csv(a, 'x DECIMAL', MAP('sep', 'x'))", True), ("from_csv(a, 'x DECIMAL', MAP(concat('s', 'ep'), 'x'))", True),
        ("from_csv(a, 'x DECIMAL', MAP('mode', 'FAILFAST'))", False), ("from_json(a, 'x DECIMAL', MAP('mode', 'FAILFAST'))", False),
        ("from_json(a, 'x DECIMAL')", False),
        ("from_csv(a, 'x DECIMAL', MAP('sep', ','))", False), ("from_csv(a, 'x DECIMAL', MAP('sep', ',', 'quote', 'x'))", True),
    ],
)  # fmt: skip
def test_a_number_stands_alone_unless_an_option_says_what_is_between(call: str, anywhere: bool) -> None:
    assert ("(?<!" in checked_sql(parse_one(f"SELECT {call} AS x FROM v"), {"v"})) is not anywhere


def test_digits_may_be_reckoned() -> None:
    for digits in ("1 + 1", "CAST(2 AS INT)", "-2", "(3)"):
        assert checked_sql(parse_one(f"SELECT round(a, {digits}) FROM v"), {"v"})
    for digits in ("500 + 501", "b", "CAST(2000 AS INT)"):
        with pytest.raises(UnsupportedStatement, match="number of digits"):
            checked_sql(parse_one(f"SELECT round(a, {digits}) FROM v"), {"v"})


@pytest.mark.parametrize("call", GUARDED)
def test_what_depends_on_rows_is_guarded_and_keeps_its_name(call: str) -> None:
    text = checked_sql(parse_one(f"SELECT {call} FROM v"), {"v"})
    assert "raise_error(" in text
    assert text.endswith(f" AS `{call}` FROM v")


@pytest.mark.parametrize(
    "around", ["regexp_replace({}, 'x.*', '')", "replace({}, 'x', b)", "array_join(split({}, b), b)", "repeat('x', {})"]
)
def test_calls_inside_calls_are_guarded_by_a_text_as_long_as_they_are(around: str) -> None:
    """A guard that copies what it looks at doubles with every call: 14 of them would hold the server's Python for hours."""

    def guarded(levels: int) -> int:
        nested = "a"
        for _ in range(levels):
            nested = around.format(nested)
        return len(checked_sql(parse_one(f"SELECT {nested} AS c FROM v"), {"v"}))

    assert guarded(20) < 3 * guarded(10)


@pytest.mark.parametrize(
    "query",
    [
        f"SELECT {', '.join(f'{R} AS c{n}' for n in range(100))} FROM v",
        f"WITH c AS (SELECT {R} AS a FROM v) " + " UNION ALL ".join(["SELECT a FROM c"] * 10),
        f"SELECT {', '.join(f'concat(a, {n}) AS c{n}' for n in range(10))} FROM (SELECT substring({R}, 2) AS a FROM v) AS t",
        f"SELECT b, {', '.join(f'upper({R})' for n in range(10))} FROM v",
    ],
)
def test_what_literals_make_counts_for_the_statement(query: str) -> None:
    """Spark computes each while it plans, and keeps it."""
    with pytest.raises(UnsupportedStatement, match="67108864 bytes together"):
        checked_sql(parse_one(query), {"v"})
    checked_sql(parse_one(f"SELECT {R}, length(concat(a, {R})) FROM v"), {"v"})


@pytest.mark.parametrize(
    "query",
    [
        "SELECT split(x, '') FROM (SELECT repeat(a, b) AS x FROM v) AS t",
        "SELECT upper(x) AS y, concat(y, 'a') FROM (SELECT lpad(a, b) AS x FROM v) AS t",
        "SELECT hex(t.q) FROM (SELECT lpad(a, b) FROM v) AS t(q)",
        "SELECT concat(q, q) FROM v LATERAL VIEW explode(array(lpad(a, b), c)) t AS q",
        "SELECT (SELECT concat(t.x, w.a) FROM v AS w) FROM (SELECT repeat(a, b) AS x FROM v) AS t",
        "SELECT aes_encrypt(x, k) FROM (SELECT repeat(a, b) AS x, k FROM v) AS t",
        "SELECT aggregate(r, a, (s, i) -> array_union(s, transform(s, x -> x || i))) FROM v",
        "SELECT hex(hex(hex(hex(hex(hex(hex(hex(hex(hex(hex(a))))))))))) FROM v",
    ],
)
def test_a_value_that_was_made_is_looked_at_where_it_grows_further(query: str) -> None:
    """By the query that makes it; a function that nobody has looked at is taken to make eight times as much."""
    alone = query.count("repeat(a") + query.count("lpad(a")
    assert checked_sql(parse_one(query), {"v"}).count("raise_error") > alone


def test_every_function_of_rows_stands_where_no_guard_is_put_around_it() -> None:
    generators = {name for name in TABLE_FUNCTIONS if name in RUN_BY_SPARK}
    assert (ROWS | generators) <= KEEPING | FIXED | {"rand", "randn", "random", "uniform", "randstr", "shuffle"}
    assert (KEEPING | FIXED | TIMES.keys()) <= RUN_BY_SPARK
    assert not KEEPING & FIXED
    assert not (KEEPING | FIXED) & TIMES.keys()


def test_dates_and_months_are_counted_in_lambdas() -> None:
    for call in ("sequence(DATE '0001-01-01', DATE '9999-12-31')", "sequence(a, b, INTERVAL '1' MONTH)"):
        text = checked_sql(parse_one(f"SELECT transform(r, x -> {call}) FROM v"), {"v"})
        assert "more than 8192 elements" in text


def test_texts_that_double_by_every_query_are_guarded() -> None:
    levels = ", ".join(f"c{n} AS (SELECT concat(a, a) AS a FROM c{n - 1})" for n in range(1, 30))
    assert (
        checked_sql(parse_one(f"WITH c0 AS (SELECT a FROM v), {levels} SELECT a FROM c29"), {"v"}).count("raise_error") == 19
    )  # from a thousandfold on
    recursive = "WITH RECURSIVE r AS (SELECT a FROM v UNION ALL SELECT concat(a, a) FROM r) SELECT a FROM r"
    assert "raise_error" in checked_sql(parse_one(recursive), {"v"})


def test_a_day_hops_by_a_minute_but_not_by_a_millisecond() -> None:
    hop = "SELECT * FROM HOP(TABLE v, DESCRIPTOR(ts), INTERVAL {}, INTERVAL '1' DAY)"
    assert "window(" in checked_sql(_expanded(hop.format("'1' MINUTE")), {"v"})
    with pytest.raises(UnsupportedStatement, match="at most 10000 slides"):
        checked_sql(_expanded(hop.format("'0.001' SECOND")), {"v"})


def _expanded(text: str) -> exp.Expr:
    tree = parse_one(text)
    expand_windows(tree)
    return tree


def test_a_step_that_is_an_interval_from_elsewhere_raises() -> None:
    """A guard that is NULL raises nothing."""
    text = checked_sql(parse_one("SELECT sequence(a, b, c) FROM v"), {"v"})
    assert "coalesce(" in text
    assert "coalesce(" not in checked_sql(parse_one("SELECT sequence(a, b, -INTERVAL '1' SECOND) FROM v"), {"v"})


def test_a_format_that_is_no_literal_is_short() -> None:
    assert "> 10000" in checked_sql(parse_one("SELECT format_string(a, 1) FROM v"), {"v"})


@pytest.mark.parametrize(
    ("condition", "becomes"),
    [
        ("a LIKE '%a%b%'", r"a RLIKE '(?s)\\A(?>.*?a)(?>.*?b)'"),
        ("a LIKE 'x%a_c%y'", r"a RLIKE '(?s)\\Ax(?>.*?a.c).*y\\z'"),
        ("a NOT LIKE '%a%b'", r"(NOT a RLIKE '(?s)\\A(?>.*?a).*b\\z')"),
        ("a LIKE '%a.%!%%' ESCAPE '!'", r"a RLIKE '(?s)\\A(?>.*?a\\.)(?>.*?%)'"),
        ("a ILIKE '%A%B%'", r"lower(a) RLIKE '(?s)\\A(?>.*?a)(?>.*?b)'"),
        ("like(a, '%a%b%')", r"(a RLIKE '(?s)\\A(?>.*?a)(?>.*?b)')"),
    ],
)
def test_a_like_with_several_percent_signs_never_goes_back(condition: str, becomes: str) -> None:
    assert checked_sql(parse_one(f"SELECT 1 FROM v WHERE {condition}"), {"v"}) == f"SELECT 1 FROM v WHERE {becomes}"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("SELECT /*+ REPARTITION(100000000) */ id FROM range(10)", "at most 10,000 partitions"),
        ("SELECT /*+ COALESCE(10001) */ id FROM range(10)", "at most 10,000 partitions"),
        ("SELECT count(*) FROM range(0, 10, 1, 5000000)", "at most 10,000 partitions"),
        ("SELECT count(*) FROM range(0, 10, 1, 5000 * 1000)", "at most 10,000 partitions"),
    ],
)
def test_partitions_are_not_more_than_a_query_can_have(text: str, says: str) -> None:
    with pytest.raises(UnsupportedStatement, match=says):
        checked_sql(parse_one(text), set())
    for few in ("SELECT /*+ REPARTITION(200) */ id FROM range(10)", "SELECT count(*) FROM range(0, 10, 1, 4)"):
        checked_sql(parse_one(few), set())


@pytest.mark.parametrize("number", ["1e10000000", "1e-10000000", "9" * 1_000_000, "0." + "1" * 1_000_000])
@pytest.mark.parametrize("type_", ["INT", "BIGINT", "DECIMAL(38, 10)", "DOUBLE"])
def test_a_number_that_no_column_holds_is_not_written_out(number: str, type_: str) -> None:
    """Python's `int` of a DECIMAL takes hours for it, in which nothing else runs: the test would not end."""
    assert literal_value(exp.Literal.number(number), parse_type(type_)) is None


@pytest.mark.parametrize("text", [f"'{'9' * 200_000}'", "repeat('9', 200000)", f"concat('{'9' * 60_000}', '{'9' * 60_000}')"])
@pytest.mark.parametrize("cast", ["CAST({} AS DECIMAL(38, 0))", "TRY_CAST({} AS DECIMAL(10, 2))", "CAST({} AS DECIMAL)"])
def test_a_long_text_is_not_read_as_a_decimal_while_spark_plans(text: str, cast: str) -> None:
    with pytest.raises(UnsupportedStatement, match="is not read as a DECIMAL"):
        checked_sql(parse_one(f"SELECT {cast.format(text)}"), set())
    checked_sql(parse_one(f"SELECT {cast.format('12.5')}, {cast.format(chr(39) + '12.5' + chr(39))}, {cast.format('s')} FROM v"), {"v"})
    checked_sql(parse_one(f"SELECT CAST({text} AS STRING)"), set())
