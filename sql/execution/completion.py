"""Completion: what may stand at a place of a text that is still being typed."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Iterator

from lake import Lake
from model.errors import LakeError
from model.text.name_parts import parse_name
from model.text.sql_text import quote
from sql.execution.session import CATALOG, Session


def _words(text: str) -> tuple[str, ...]:
    return tuple(" ".join(word.split()) for word in text.split("|"))


STATEMENTS = _words(
    """
    ALTER DATABASE | ALTER JOB | ALTER TABLE | ALTER VIEW | CALL | CREATE DATABASE | CREATE TABLE | CREATE TEMPORARY TABLE |
    CREATE VIEW | DESCRIBE | DESCRIBE DATABASE | DESCRIBE JOB | DROP DATABASE | DROP TABLE | DROP VIEW |
    EXECUTE STATEMENT SET BEGIN | EXPLAIN | GRANT | INSERT INTO | INSERT OVERWRITE | PURGE TABLE | RESET | RESET QUOTA | REVOKE |
    SELECT | SET | SET QUOTA | SHOW CATALOGS | SHOW COLUMNS FROM | SHOW CREATE TABLE | SHOW CREATE VIEW |
    SHOW CURRENT CATALOG | SHOW CURRENT DATABASE | SHOW DATABASES | SHOW DROPPED DATABASES | SHOW DROPPED TABLES | SHOW FUNCTIONS |
    SHOW GRANTS | SHOW JOBS | SHOW PARTITIONS | SHOW PROCEDURES | SHOW QUOTAS | SHOW ROLES | SHOW TABLES |
    SHOW VIEWS | STOP JOB | TRUNCATE TABLE | UNDROP DATABASE | UNDROP TABLE | USE | USE CATALOG | VALUES | WITH
    """
)
KEYWORDS = _words(
    """
    AND | AS | ASC | BETWEEN | BY | CASE | CAST | COUNT | CROSS JOIN | DESC | DISTINCT | ELSE | END | EXCEPT |
    EXISTS | FALSE | FROM | FULL JOIN | GROUP BY | HAVING | IN | INTERSECT | INTO | IS | JOIN | LATERAL |
    LEFT JOIN | LIKE | LIMIT | MAX | MIN | NOT | NULL | OFFSET | ON | OR | ORDER BY | OVER | PARTITION BY |
    RIGHT JOIN | SELECT | SUM | THEN | TRUE | UNION | UNION ALL | USING | VALUES | WHEN | WHERE | WITH
    """
)
_BACKWARDS_WORD = re.compile(r"[\w$.`]*")
_PLAIN = re.compile(r"[A-Za-z_]\w*")
_BEFORE_TABLE = re.compile(r"\b(FROM|JOIN|INTO|OVERWRITE|TABLE|VIEW|DESCRIBE|DESC|PARTITIONS)\s+$", re.IGNORECASE)
_BEFORE_DATABASE = re.compile(r"\b(USE|DATABASE)\s+$", re.IGNORECASE)
_TABLES = re.compile(r"\b(?:FROM|JOIN|INTO|TABLE)\s+((?:`[^`]+`|\w+)(?:\s*\.\s*(?:`[^`]+`|[\w$]+)){0,2})", re.IGNORECASE)
_AROUND_DOT = re.compile(r"\s*\.\s*(?=(?:[^`]|`[^`]*`)*$)")
"""A dot between names, not one within backquotes, with its spaces."""
_AT_START = re.compile(r"^\s*+[A-Za-z ]*$")
_MOST_TABLES = 8
_MOST_CHARACTERS = 4000
"""So much of a statement is looked at before its place and behind it: nothing else runs while an expression looks for its place."""


def complete(lake: Lake, session: Session, text: str, position: int) -> list[str]:
    """What may stand at a position (0-based) of a text; names of the lake come first, then keywords."""
    at = min(max(0, position), len(text))
    before = text[max(0, at - _MOST_CHARACTERS) : at].rpartition(";")[2]
    word = _BACKWARDS_WORD.match(before[::-1])
    typed = word.group()[::-1] if word else ""
    head = before.removesuffix(typed)
    statement = before + text[at : at + _MOST_CHARACTERS].partition(";")[0]
    return [candidate for candidate in _unique(_candidates(lake, session, head, statement, typed)) if _begins(candidate, typed)]


def _candidates(lake: Lake, session: Session, head: str, statement: str, typed: str) -> Iterator[str]:
    if _BEFORE_DATABASE.search(head):
        yield from _databases(lake)
        return
    if _BEFORE_TABLE.search(head):
        yield from _table_names(lake, session, typed)
        return
    if not _AT_START.match(head + typed):
        yield from _columns(lake, session, statement, typed)
        yield from KEYWORDS
        return
    so_far = " ".join(head.upper().split())
    # The rest of a statement's name, whichever of its words is being typed.
    rest = [known[len(so_far) :].strip() for known in STATEMENTS if known.startswith(so_far)]
    yield from rest
    if so_far and not any(rest):
        yield from _columns(lake, session, statement, typed)
        yield from KEYWORDS


def _databases(lake: Lake) -> Iterator[str]:
    with contextlib.suppress(LakeError):  # no candidates are better than an error while somebody types
        yield from map(_written, lake.list_databases())


def _table_names(lake: Lake, session: Session, typed: str) -> Iterator[str]:
    """Tables of the current database, or of the one already typed in front of a dot; then databases."""
    parts = [part.strip("`") for part in typed.split(".")]
    if len(parts) > 1 and parts[0] == CATALOG:
        parts = parts[1:]
    with contextlib.suppress(LakeError):
        if len(parts) > 1:
            prefix = typed.rpartition(".")[0]
            yield from (f"{prefix}.{_written(name)}" for name in _readable(lake, parts[0]))
            return
        yield from sorted(map(_written, session.temporary_tables))
        yield from map(_written, _readable(lake, session.current_database))
    yield from _databases(lake)


def _readable(lake: Lake, database: str) -> list[str]:
    """What a query can name: tables, then views."""
    return [*lake.list_tables(database), *lake.views.names(database)]


def _columns(lake: Lake, session: Session, statement: str, typed: str) -> Iterator[str]:
    """Columns of the tables the statement names, with the qualifier that was typed."""
    qualifier = f"{typed.rpartition('.')[0]}." if "." in typed else ""
    for match in _TABLES.findall(statement)[:_MOST_TABLES]:
        parts = parse_name(_AROUND_DOT.sub(".", match))
        temporary = session.temporary_tables.get(parts[0]) if len(parts) == 1 else None
        if temporary is not None:
            yield from (qualifier + _written(field.name) for field in temporary.columns)
            continue
        with contextlib.suppress(LakeError):
            table = lake.open(session.identifier(parts))
            yield from (qualifier + _written(name) for name in table.schema.field_names)


def _written(name: str) -> str:
    return name if _PLAIN.fullmatch(name) else quote(name)


def _begins(candidate: str, typed: str) -> bool:
    """Names are case-sensitive in meaning, but who types them need not be."""
    return candidate.replace("`", "").lower().startswith(typed.replace("`", "").lower())


def _unique(names: Iterable[str]) -> Iterator[str]:
    return iter(dict.fromkeys(name for name in names if name))
