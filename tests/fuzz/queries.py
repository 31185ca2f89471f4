"""Queries made at random for the real Spark: values of every type, each allowed function with odd arguments, nested queries.

Three in four are built by types, so that most of them run; the others put anything anywhere.
"""

from __future__ import annotations

import random
import re

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
# Types: i whole number, d double, s text, b condition, t date, T time, a list of numbers, A list of texts, m map, x bytes; * any.
_SIGNATURES = """
i: abs(i) length(s) char_length(s) bit_length(s) octet_length(s) ascii(s) crc32(x) hash(*,*) instr(s,s) locate(s,s) position(s,s)
i: levenshtein(s,s)
i: find_in_set(s,s) regexp_count(s,s) year(t) month(t) day(t) dayofweek(t) dayofyear(t) quarter(t) weekofyear(t) weekday(t) hour(T)
i: minute(T)
i: second(T) datediff(t,t) unix_date(t) cardinality(a) size(m) array_size(A) array_max(a) array_min(a) element_at(m,s)
i: try_element_at(a,i)
i: array_position(a,i) bit_count(i) sign(i) pmod(i,i) try_add(i,i) try_subtract(i,i) try_multiply(i,i) try_mod(i,i) shiftleft(i,i)
i: shiftright(i,i)
i: greatest(i,i) least(i,i) coalesce(i,i) nullif(i,i) ifnull(i,i) nvl2(i,i,i) if(b,i,i) json_array_length(s) getbit(i,i)
i: factorial(i) mod(i,i)
i: unix_seconds(T) unix_millis(T) xxhash64(*) negative(i) zeroifnull(i) nullifzero(i) width_bucket(d,d,d,i) get(a,i)
d: sqrt(d) exp(d) ln(d) log10(d) log2(d) log(d,d) sin(d) cos(d) tan(d) asin(d) acos(d) atan(d) atan2(d,d) sinh(d) cbrt(d)
d: degrees(d) radians(d)
d: power(d,d) hypot(d,d) signum(d) ceil(d) floor(d) round(d) bround(d) rint(d) nanvl(d,d) try_divide(d,d) months_between(t,t)
d: expm1(d) log1p(d) pi() e()
d: coalesce(d,d) greatest(d,d) if(b,d,d) positive(d) try_divide(i,i)
s: upper(s) lower(s) trim(s) ltrim(s) rtrim(s) btrim(s) reverse(s) initcap(s) soundex(s) concat(s,s) concat_ws(s,s,s)
s: substring(s,i,i) left(s,i)
s: right(s,i) replace(s,s,s) translate(s,s,s) overlay(s,s,i) split_part(s,s,1) substring_index(s,s,i) md5(x) sha1(x) sha2(x,256)
s: hex(i) hex(x)
s: base64(x) bin(i) chr(i) elt(1,s,s) date_format(T,'yyyy-MM-dd') dayname(t) monthname(t) format_number(d,2) typeof(*)
s: array_join(A,s)
s: get_json_object(s,'$.a') to_json(m) coalesce(s,s) nullif(s,s) if(b,s,s) conv(s,10,16) quote(s) url_encode(s) mask(s) lpad(s,5,s)
s: rpad(s,3,s)
s: repeat(s,3) make_valid_utf8(x) regexp_extract(s,'(a)',1) regexp_replace(s,'a',s) regexp_substr(s,'a') collation(s) to_json(a)
s: decode(x,'UTF-8')
b: isnan(d) isnull(*) isnotnull(*) contains(s,s) startswith(s,s) endswith(s,s) array_contains(a,i) arrays_overlap(a,a)
b: map_contains_key(m,s)
b: exists(a,x->x>1) forall(A,x->length(x)>1) rlike(s,'a.*') is_valid_utf8(x) luhn_check(s) equal_null(i,i) coalesce(b,b) if(b,b,b)
t: date_add(t,i) date_sub(t,i) add_months(t,i) last_day(t) next_day(t,'Mon') trunc(t,'MM') try_to_date(s) coalesce(t,t)
t: greatest(t,t) date_from_unix_date(i)
T: date_trunc('HOUR',T) try_to_timestamp(s) timestamp_seconds(i) timestamp_millis(i) from_utc_timestamp(T,'UTC') coalesce(T,T)
T: if(b,T,T)
a: array(i,i) array_append(a,i) array_prepend(a,i) array_compact(a) array_distinct(a) array_except(a,a) array_intersect(a,a)
a: array_union(a,a) array_remove(a,i)
a: array_sort(a) sort_array(a) reverse(a) concat(a,a) slice(a,1,2) array_repeat(i,3) filter(a,x->x>1) transform(a,x->x)
a: zip_with(a,a,(x,y)->x) coalesce(a,a)
a: map_values(m) sequence(1,5) flatten(ARRAY[ARRAY[1],xs]) array_insert(a,1,i) shuffle(a)
A: split(s,s) array(s,s) map_keys(m) array_distinct(A) array_sort(A) concat(A,A) transform(A,x->upper(x))
A: regexp_extract_all(s,'(a)',1)
m: map(s,i) map_filter(m,(k,v)->v>0) transform_values(m,(k,v)->v) map_from_entries(map_entries(MAP['k',1])) str_to_map('a:1')
m: coalesce(m,m)
x: unhex('4142') encode(s,'UTF-8') unbase64('YWI=') coalesce(x,x) aes_encrypt(x,'0000111122223333')
"""
_PLAIN = {
    "i": ["0", "1", "-1", "7", "127", "id", "CAST(NULL AS INT)", "CAST(2 AS SMALLINT)"],
    "d": ["CAST(0.5 AS DOUBLE)", "-0.0e0", "1e10", "CAST(id AS DOUBLE)"],
    "s": ["''", "'a'", "'é😀'", "s", "CAST(NULL AS STRING)", "'1,2'", "'{\"a\":[1,null]}'", "' b '"],
    "b": ["TRUE", "FALSE", "id > 1", "s IS NULL"],
    "t": ["d", "DATE '2024-02-29'", "CAST(NULL AS DATE)"], "T": ["ts", "TIMESTAMP '2024-03-31 02:30:00'"], "a": ["xs", "ARRAY[1, NULL, 3]"],
    "A": ["ARRAY['a', 'b']", "ARRAY[s, NULL]"], "m": ["MAP['k', 1]", "MAP['a', id]"], "x": ["X'00FF80'", "CAST(s AS BYTES)"],
}  # fmt: skip
_ODD = {
    "i": ["2147483647", "-2147483648", "9223372036854775807"], "d": ["CAST('NaN' AS DOUBLE)", "CAST('Infinity' AS DOUBLE)", "1e308"],
    "s": ["'%'", "'[('", "'GGGGGG'", "'Nowhere/Town'"], "b": ["CAST(NULL AS BOOLEAN)"], "t": ["DATE '0001-01-01'", "DATE '9999-12-31'"],
    "T": ["TIMESTAMP '0001-01-01 00:00:00'", "TIMESTAMP '9999-12-31 23:59:59.999999'"], "a": ["CAST(ARRAY[] AS ARRAY<INT>)"],
    "A": ["CAST(NULL AS ARRAY<STRING>)"], "m": ["CAST(NULL AS MAP<STRING, INT>)"], "x": ["X''"],
}  # fmt: skip
_CALL = re.compile(r"(\w+)\((.*)\)")
_PARTS = re.compile(r",(?![^(\[]*[)\]])")


def _signatures() -> dict[str, list[tuple[str, list[str]]]]:
    """By type: functions that give it, and what they take."""
    made: dict[str, list[tuple[str, list[str]]]] = {}
    for line in _SIGNATURES.strip().splitlines():
        kind, _, calls = line.partition(": ")
        for call in calls.split():
            found = _CALL.fullmatch(call)
            assert found is not None, call
            assert found[1] in FUNCTIONS, call
            made.setdefault(kind, []).append((found[1], _PARTS.split(found[2]) if found[2] else []))
    return made


_CALLS = _signatures()
_CASTS = {"i": "INT", "d": "DOUBLE", "s": "STRING", "b": "BOOLEAN", "t": "DATE", "T": "TIMESTAMP(3)"}


def typed(rng: random.Random, kind: str = "*", depth: int = 3) -> str:
    """A value of a type, mostly by what takes and gives such values."""
    if kind == "*":
        kind = rng.choice(list(_CALLS))
    if not depth or rng.random() < 0.2:
        return rng.choice(_PLAIN[kind] if rng.random() < 0.93 else _ODD[kind])

    def part(of: str = kind) -> str:
        return typed(rng, of, depth - 1)

    match rng.randrange(10):
        case 0:
            return f"CASE WHEN {part('b')} THEN {part()} ELSE {part()} END"
        case 1 if kind in _CASTS:
            return f"TRY_CAST({part('s')} AS {_CASTS[kind]})" if kind != "s" else f"CAST({part(rng.choice(list(_CASTS)))} AS STRING)"
        case 2 if kind == "b":
            of = rng.choice("idstT")
            return f"({part(of)} {rng.choice(['=', '<>', '<', '>=', 'IS DISTINCT FROM'])} {part(of)})"
        case 2 if kind == "d":
            return f"({part()} {rng.choice('+-*')} {part()})"
        case 3:
            return f"(SELECT {rng.choice(['max', 'min', 'first', 'any_value'])}({part()}) FROM t)" if kind in "idstT" else part()
    name, takes = rng.choice(_CALLS[kind])
    return f"{name}({', '.join(part(one) if one in _CALLS or one == '*' else one for one in takes)})"


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
    """A query over the table `t`, by types or not."""
    return typed_query(rng) if rng.random() < 0.75 else wild_query(rng)


def typed_query(rng: random.Random) -> str:
    """One whose places hold what they want."""
    what, other, key, where = (typed(rng), typed(rng, "s"), typed(rng, rng.choice("istT"), 2), typed(rng, "b"))
    over = rng.choice(
        ["max({i})", "min({s})", "sum({d})", "count({s})", "avg({i})", "collect_list({s})", "bool_or({b})", "stddev({d})", "first({t})"]
    )
    summed = re.sub(r"\{(.)\}", lambda found: typed(rng, found[1], 2), over)
    places = [
        f"SELECT {what} AS a, {other} AS b FROM t", f"SELECT id FROM t WHERE {where}", f"SELECT id, {what} AS a FROM t ORDER BY {key}",
        f"SELECT {key} AS k, {summed} AS n FROM t GROUP BY {key}", f"SELECT {summed} AS n FROM t HAVING count(*) > 0",
        f"SELECT id, row_number() OVER (PARTITION BY s ORDER BY {key}) AS n, {what} AS a FROM t",
        f"SELECT q.a FROM (SELECT {what} AS a, id AS n FROM t) AS q JOIN t ON q.n = t.id AND {where}",
        f"SELECT s AS a FROM t WHERE {where} UNION ALL SELECT {other} FROM t",
        f"WITH c AS (SELECT {what} AS a, {where} AS b FROM t) SELECT a FROM c WHERE b",
        f"SELECT y FROM t, LATERAL TABLE(explode({typed(rng, 'a')})) AS x(y)",
        f"SELECT id FROM t WHERE {key} IN (SELECT {key} FROM t)", f"EXPLAIN SELECT {what} AS a FROM t",
        f"SELECT DISTINCT {key} AS k FROM t LIMIT 3",
        f"INSERT INTO u SELECT {other}, {typed(rng, 's', 2)} FROM t",
    ]  # fmt: skip
    return rng.choice(places)


def wild_query(rng: random.Random) -> str:
    """One with any expressions in any of its places."""
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
