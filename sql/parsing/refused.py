"""Statements that are not available, by their first words; and calls whose arguments Flink parts by words, as ``FLOOR(a TO DAY)``."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from sql.parsing.base import BaseParser

REFUSED = {
    "CACHE": "tables are not cached",
    "UNCACHE": "tables are not cached",
    "CLEAR": "tables are not cached",
    "REFRESH": "tables are always read as they are now",
    "ADD": "code and files cannot be added to the server",
    "REMOVE": "code and files cannot be removed from the server",
    "LIST": "the server's files are not shown",
    "LOAD": "files are loaded with INSERT INTO … SELECT from a filesystem table or with POST /tables/{database}/{table}/rows",
    "ANALYZE": "statistics are kept by every write",
    "MSCK": "partitions are known from the table's metadata",
    "IMPORT": "tables are made with CREATE TABLE",
    "EXPORT": "results are fetched as Parquet, Arrow, CSV or JSON over HTTP",
    "DECLARE": "session variables are not available",
    "LOCK": "tables are not locked",
    "UNLOCK": "tables are not locked",
    "COMMENT": "use ALTER TABLE … COMMENT",
    "REPLACE": "use INSERT OVERWRITE",
    "COMPILE": "plans are not stored",
    "PREPARE": "statements are not prepared in SQL",
    "VACUUM": "files are removed when their snapshots expire",
    "OPTIMIZE": "files are merged by compaction",
    "COPY": "files are loaded with INSERT INTO … SELECT from a filesystem table",
    "FOR": "scripts are not available",
    "IF": "scripts are not available",
    "WHILE": "scripts are not available",
    "REPEAT": "scripts are not available",
    "LOOP": "scripts are not available",
    "TABLE": "write SELECT * FROM the table",
    "MAP": "TRANSFORM and its kin start programs on the server",
    "REDUCE": "TRANSFORM and its kin start programs on the server",
    "UNSET": "use RESET",
    "UNLOAD": "functions are Spark's; there are no modules",
}
"""First words of statements that are refused, and why or what to do instead."""

_CUT = "date_trunc('HOUR', a) is the begin of an hour, and date_trunc('HOUR', a) + INTERVAL '1' HOUR that of the next"
_READ = "get_json_object(a, '$.b') reads a part of a JSON text, and a CAST gives it a type"
_WRITE = "to_json(named_struct('k', 1)) and to_json(array(1, 2)) write JSON"
_WAYS_OUT = {
    "CEIL": _CUT,
    "CEILING": _CUT,
    "FLOOR": _CUT,
    "JSON_ARRAY": _WRITE,
    "JSON_ARRAYAGG": "to_json(collect_list(a)) writes JSON",
    "JSON_EXISTS": "get_json_object(a, '$.b') IS NOT NULL tells",
    "JSON_OBJECT": _WRITE,
    "JSON_OBJECTAGG": "to_json(map_from_entries(collect_list(struct(k, v)))) writes JSON",
    "JSON_QUERY": _READ,
    "JSON_VALUE": _READ,
}


def _call(parser: BaseParser) -> exp.Expr:
    """A call whose arguments are a plain list, from behind its parenthesis; one with such a word is refused."""
    name = parser._tokens[parser._index - 2]
    arguments = parser._parse_function_args()
    word = parser.here
    if word is not None and word.text != ")":
        called, written = name.text.upper(), parser.sql[word.start : word.end + 1]
        parser.refuse(f"{called}(… {written} …) is not available; {_WAYS_OUT[called]}.", word)
    return exp.Anonymous(this=name.text, expressions=arguments)


SPECIAL_CALLS: dict[str, Callable[[BaseParser], exp.Expr]] = dict.fromkeys(_WAYS_OUT, _call)
"""Their parsers, by name."""
