"""Every value that a declared option takes leaves a table that can be written, read, merged and expired."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from gateway.gateway import Gateway
from model.errors import LakeError, Unavailable
from model.options.option import Option
from model.options.table import TABLE_OPTIONS

_SAMPLES = {
    "boolean": ("true", "false"),
    "integer": ("0", "2", "9223372036854775807"),
    "size": ("1 b", "1 tb"),
    "duration": ("0 s", "100000 d"),
    "number": ("0", "0.5", "1000000"),
    "text": ("s", "day"),
}
_HINTED = ("", "x", "-1", "1,2", "2,1", "../..", "0001-01-01 00:00:00", "9999-12-31 23:59:59", "9223372036854775808", "y" * 5000)
"""What may stand in a hint besides: values that no declaration takes."""
_ANY = ("0", "s", "1 b", "1 d", "true", "Europe/Paris")
_READING = ("scan.", "incremental-", "consumer")
"""What a read may be asked and cannot be given, such as a snapshot that is not there, is refused when it is read."""
_STATEMENTS = (
    "INSERT INTO t VALUES (1, 'a', 'x'), (2, 'b', 'y')",
    "INSERT INTO t VALUES (3, NULL, 'x')",
    "SELECT * FROM t WHERE s = 'a'",
    "CALL sys.compact('default.t', compact_strategy => 'full')",
    "CALL sys.expire_snapshots('default.t', retain_max => 1)",
    "SELECT COUNT(*) FROM t$files",
)


EVERY = [pytest.param(11, id="short"), pytest.param(1, id="whole", marks=pytest.mark.torture)]
"""One in so many of all options' values; prime to how many most options have (2, 3 or 6, in hints ten more): they differ by option."""


def _values(option: Option[Any]) -> Iterator[str]:
    kind = option.parser.kind.replace("\\", "")
    yield from _SAMPLES.get(kind) or ((part.strip() for part in kind.split("|")) if "|" in kind else _ANY)


@pytest.mark.parametrize("format_", ["parquet", pytest.param("orc", marks=pytest.mark.torture)])
@pytest.mark.parametrize("every", EVERY)
def test_a_value_that_is_taken_harms_no_statement(gateway: Gateway, format_: str, every: int) -> None:
    taken = 0
    harmed = []
    for key, value in [(option.key, value) for option in TABLE_OPTIONS for value in _values(option)][::every]:
        options = ", ".join(f"'{name}' = '{text}'" for name, text in {"file.format": format_, key: value}.items())
        try:
            gateway.run(f"CREATE TABLE t (id INT, s STRING, day STRING) PARTITIONED BY (day) WITH ({options})").close()
        except LakeError as problem:
            if problem.status >= 500:
                harmed.append((key, value, "CREATE TABLE", problem.message))
            continue
        taken += 1
        for statement in _STATEMENTS:
            try:
                gateway.run(statement, timeout=60.0).collect()
            except LakeError as problem:
                needs_spark = isinstance(problem, Unavailable) and "no Spark in this test" in problem.message
                if not needs_spark and (problem.status >= 500 or not key.startswith(_READING)):
                    harmed.append((key, value, statement, problem.message))
            except Exception as problem:
                harmed.append((key, value, statement, repr(problem)))
        gateway.run("DROP TABLE t PURGE").close()
    assert not harmed
    assert taken > len(list(TABLE_OPTIONS)) // every, "most options take more than one of the samples"


@pytest.mark.parametrize("every", EVERY)
def test_whatever_stands_in_a_hint(gateway: Gateway, every: int) -> None:
    gateway.run("CREATE TABLE t (id INT, s STRING, day STRING) PARTITIONED BY (day)").close()
    gateway.run("INSERT INTO t VALUES (1, 'a', 'x')").close()
    wrong: list[tuple[object, ...]] = []
    for key, value in [(option.key, value) for option in TABLE_OPTIONS for value in (*_values(option), *_HINTED)][::every]:
        hint = f"/*+ OPTIONS('{key}' = '{value}') */"
        for statement in (f"SELECT * FROM t {hint}", f"SELECT * FROM t$snapshots {hint}", f"INSERT INTO t {hint} VALUES (2, 'b', 'x')"):
            try:
                gateway.run(statement, timeout=60.0).collect()
            except LakeError as problem:
                if problem.status >= 500 and "no Spark in this test" not in problem.message:
                    wrong.append((statement[:200], problem.status, problem.message))
            except Exception as problem:
                wrong.append((statement[:200], repr(problem)))
    assert not wrong
