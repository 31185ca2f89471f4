"""What cannot be done is refused with its status and a text that helps, and nothing has changed after it."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import httpx
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.running import PARQUET, RunningServer

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def bad_database(server: RunningServer) -> Iterator[str]:
    """A database with one table, which no test of this module may change."""
    name = f"bad{uuid4().hex[:8]}"
    server.sql(f"CREATE DATABASE {name}")
    server.sql(f"CREATE TABLE {name}.t (id INT NOT NULL, small TINYINT, price DECIMAL(5,2), code VARCHAR(3), note STRING)")
    server.sql(f"INSERT INTO {name}.t VALUES (1, 1, 1.00, 'abc', 'kept')")
    yield name
    server.sql(f"DROP DATABASE {name} CASCADE")


@pytest.fixture(scope="module")
def bad_state(server: RunningServer, bad_database: str) -> tuple[Any, ...]:
    return state(server, bad_database)


@pytest.fixture(autouse=True)
def _nothing_changed(server: RunningServer, bad_database: str, bad_state: tuple[Any, ...]) -> Iterator[None]:
    yield
    assert state(server, bad_database) == bad_state


def state(server: RunningServer, database: str) -> tuple[Any, ...]:
    """Everything a bad statement could have changed: tables, their schema, rows and files."""
    path = server.table_path(f"{database}.t")
    files = sorted(str(file.relative_to(path)) for file in path.rglob("*") if file.is_file() and not file.name.startswith("."))
    shown = server.value(f"SHOW CREATE TABLE {database}.t")
    return server.sql(f"SHOW TABLES FROM {database}"), shown, server.sql(f"SELECT * FROM {database}.t"), files


CASES = {
    "syntax error": ("SELEC 1", 400, "SqlSyntaxError|UnsupportedStatement", "SELEC"),
    "syntax error further down": ("SELECT 1,\n  FROM WHERE", 400, "SqlSyntaxError", ""),
    "unknown table": ("SELECT * FROM nowhere", 404, "TableNotExist", "nowhere"),
    "unknown table inside a query": ("SELECT 1 FROM t JOIN nowhere ON t.id = nowhere.id", 404, "TableNotExist", "nowhere"),
    "unknown database": ("USE nowhere", 404, "DatabaseNotExist", "nowhere"),
    "unknown column": ("SELECT nop FROM t", 400, "AnalysisError", "nop"),
    "unknown column on insert": ("INSERT INTO t (id, nop) VALUES (1, 2)", 400, "AnalysisError", "nop"),
    "unknown option": ("CREATE TABLE x (id INT) WITH ('bukcet'='4')", 400, "InvalidOption", "bukcet.*[Dd]id you mean.*bucket"),
    "option of primary-key tables": ("CREATE TABLE x (id INT) WITH ('changelog-producer'='input')", 400, "InvalidOption", "primary"),
    "unknown function": ("SELECT no_such(1)", 400, "AnalysisError|UnsupportedStatement", "no_such"),
    "function that reaches the JVM": ("SELECT reflect('java.lang.System', 'exit', 1)", 400, "UnsupportedStatement", "reflect"),
    "direct file query": ("SELECT * FROM parquet.`/etc/passwd`", 404, "DatabaseNotExist", "parquet"),
    "bucket without a key": ("CREATE TABLE x (id INT) WITH ('bucket'='4')", 400, "InvalidOption|InvalidSchema", "bucket-key"),
    "bucket-key of a nested type": (
        "CREATE TABLE x (id INT, a ARRAY<INT>) WITH ('bucket'='4','bucket-key'='a')",
        400,
        "InvalidOption|InvalidSchema|UnsupportedType",
        "bucket-key",
    ),
    "primary key": ("CREATE TABLE x (id INT, PRIMARY KEY (id) NOT ENFORCED)", 400, "UnsupportedStatement|InvalidSchema", "PRIMARY KEY"),
    "update": ("UPDATE t SET note = 'x'", 400, "UnsupportedStatement", "UPDATE"),
    "delete": ("DELETE FROM t WHERE id = 1", 400, "UnsupportedStatement", "DELETE"),
    "merge": ("MERGE INTO t USING t s ON t.id = s.id WHEN MATCHED THEN DELETE", 400, "UnsupportedStatement", "MERGE"),
    "null into not null": ("INSERT INTO t VALUES (NULL, 1, 1, 'a', 'b')", 400, "InvalidData|ExecutionError", "id.*NULL|NULL.*id"),
    "null into not null by a query": (
        "INSERT INTO t SELECT CAST(NULL AS INT), small, price, code, note FROM t",
        400,
        "InvalidData|ExecutionError|AnalysisError",
        "NULL|null",
    ),
    "value out of range": (
        "INSERT INTO t VALUES (2, 128, 1, 'a', 'b')",
        400,
        "InvalidData|ExecutionError|AnalysisError",
        "small|TINYINT|128",
    ),
    "decimal out of range": ("INSERT INTO t VALUES (2, 1, 1000.00, 'a', 'b')", 400, "InvalidData|ExecutionError", "price|DECIMAL|1000"),
    "text too long": ("INSERT INTO t VALUES (2, 1, 1, 'abcd', 'b')", 400, "InvalidData|ExecutionError", "code|VARCHAR|length"),
    "text too long by a query": (
        "INSERT INTO t SELECT id, small, price, CONCAT(code, code), note FROM t",
        400,
        "InvalidData|ExecutionError",
        "code|VARCHAR|length",
    ),
    "wrong arity": ("INSERT INTO t VALUES (1, 2)", 400, "AnalysisError|InvalidData", "5|2"),
    "wrong arity by a query": ("INSERT INTO t SELECT id FROM t", 400, "AnalysisError|InvalidData", "5|1"),
    "wrong type": ("INSERT INTO t VALUES ('one', 1, 1, 'a', 'b')", 400, "InvalidData|ExecutionError|AnalysisError", "one|id"),
    "division by zero": ("SELECT 1 / 0", 400, "ExecutionError", "[Dd]ivision by zero"),
    "import path outside": (
        "CREATE TEMPORARY TABLE f (x STRING) WITH ('connector'='filesystem','path'='/etc/passwd','format'='csv'); SELECT * FROM f",
        403,
        "Forbidden",
        "/etc/passwd",
    ),
    "create function": ("CREATE FUNCTION f AS 'com.example.F'", 400, "UnsupportedStatement", "FUNCTION"),
    "add jar": ("ADD JAR '/tmp/x.jar'", 400, "UnsupportedStatement", "ADD"),
    "spark option": ("SET 'spark.sql.ansi.enabled' = 'false'", 400, "InvalidOption|UnsupportedStatement", "spark"),
    "write to a directory": ("INSERT OVERWRITE DIRECTORY '/tmp/x' SELECT 1", 400, "UnsupportedStatement|SqlSyntaxError", ""),
    "type nobody reads": ("CREATE TABLE x (id INT, m MULTISET<INT>)", 400, "UnsupportedType", "MULTISET"),
    "type without a cast": ("ALTER TABLE t MODIFY id DATE", 400, "InvalidSchemaChange", "id"),
    "snapshot that never was": ("SELECT * FROM t /*+ OPTIONS('scan.snapshot-id'='99') */", 404, "SnapshotNotExist", "99"),
    "table that is there": ("CREATE TABLE t (id INT)", 409, "TableAlreadyExist", "t"),
}


@pytest.mark.parametrize("case", CASES)
def test_refused_statement(server: RunningServer, bad_database: str, case: str) -> None:
    text, status, error_class, words = CASES[case]
    answer = httpx.post(f"{server.url}/sql", params={"database": bad_database}, content=text.encode(), timeout=300)
    problem = answer.json()
    assert (answer.status_code, answer.headers["Content-Type"]) == (status, "application/problem+json"), problem
    assert problem["status"] == status
    assert re.fullmatch(error_class, problem["errorClass"]), problem
    assert re.search(words, problem["detail"] + str(problem.get("fragment", "")), re.DOTALL | re.IGNORECASE), problem
    if "syntax" in case:
        assert problem["line"] == text.count("\n") + 1
        assert problem["column"] >= 1
    assert "Traceback" not in answer.text
    assert "org.apache" not in problem["detail"]


def test_many_statements_that_fail_in_the_middle(server: RunningServer, database: str) -> None:
    table = f"{database}.a"
    text = f"CREATE TABLE {table} (id INT); INSERT INTO {table} VALUES (1); SELECT * FROM {database}.nowhere; DROP TABLE {table}"
    answer = server.post(text)
    problem = answer.json()
    assert answer.status_code == 404
    assert problem["statementIndex"] == 2
    assert len(problem["completed"]) == 2
    assert server.sql(f"SELECT * FROM {database}.a") == [[1]]


def test_statement_of_50_megabytes(server: RunningServer) -> None:
    answer = server.post("SELECT '" + "x" * (50 << 20) + "'")
    assert answer.status_code == 413
    assert answer.json()["errorClass"] == "StatementTooLarge"


def corrupt() -> bytes:
    """A Parquet body whose footer is whole and whose pages are not."""
    sink = io.BytesIO()
    rows = {"id": list(range(1000)), "small": [1] * 1000, "note": [f"note {n}" for n in range(1000)]}
    pq.write_table(pa.table(rows), sink)
    body = bytearray(sink.getvalue())
    body[100:1500] = bytes(1400)
    return bytes(body)


@pytest.mark.parametrize(
    ("body", "content_type", "status"),
    [
        (b"PAR1 this is no Parquet", PARQUET, 400),
        (corrupt(), PARQUET, 400),
        (b"", PARQUET, 400),
        (b'{"id": 1}\n{"id": ', "application/x-ndjson", 400),
        (b'{"id": 1, "nop": 2}\n', "application/x-ndjson", 404),
        (b'{"id": null}\n', "application/x-ndjson", 400),
        (b"id,small\n1,300\n", "text/csv", 400),
        (b"id,small\n1\n", "text/csv", 400),
        (b"id\n1\n", "application/x-something", 415),
    ],
    ids=["no parquet", "corrupt pages", "empty", "broken json", "unknown column", "null", "out of range", "ragged", "unknown kind"],
)
def test_refused_body(server: RunningServer, bad_database: str, body: bytes, content_type: str, status: int) -> None:
    answer = httpx.post(f"{server.url}/tables/{bad_database}/t/rows", content=body, headers={"Content-Type": content_type}, timeout=60)
    assert answer.status_code == status, answer.text
    assert answer.json()["detail"]


def test_rows_for_a_table_that_is_not_there(server: RunningServer, bad_database: str) -> None:
    answer = httpx.post(f"{server.url}/tables/{bad_database}/nowhere/rows", content=b"id\n1\n", headers={"Content-Type": "text/csv"})
    assert answer.status_code == 404
    assert answer.json()["errorClass"] == "TableNotExist"


def test_invalid_json(server: RunningServer) -> None:
    answer = httpx.post(f"{server.url}/sql", content=b'{"statement": ', headers={"Content-Type": "application/json"})
    assert (answer.status_code, answer.json()["errorClass"]) == (400, "BadRequest")


def test_wrong_method(server: RunningServer) -> None:
    answer = httpx.get(f"{server.url}/sql")
    assert answer.status_code == 405
    assert "POST" in answer.headers["Allow"]


def test_unknown_session(server: RunningServer) -> None:
    answer = httpx.get(f"{server.url}/v1/sessions/{uuid4()}/operations/{uuid4()}/status")
    assert answer.status_code == 500
    assert "SessionNotExist" in answer.json()["errors"][0]


def test_unknown_operation_and_token_and_statement_after_cancel(server: RunningServer) -> None:
    session = httpx.post(f"{server.url}/v1/sessions", json={}).json()["sessionHandle"]
    base = f"{server.url}/v1/sessions/{session}"
    unknown = httpx.get(f"{base}/operations/{uuid4()}/status")
    assert unknown.status_code == 500
    assert "OperationNotExist" in unknown.json()["errors"][0]

    operation = httpx.post(
        f"{base}/statements", json={"statement": "SELECT COUNT(*) FROM range(0, 1000000000000) WHERE HASH(id) = 3"}
    ).json()
    handle = operation["operationHandle"]
    assert httpx.get(f"{base}/operations/{handle}/result/77", timeout=60).status_code == 500
    assert httpx.post(f"{base}/operations/{handle}/cancel", timeout=60).json()["status"] == "CANCELED"
    after = httpx.get(f"{base}/operations/{handle}/result/0", timeout=60)
    assert after.status_code == 500
    assert "cancel" in after.text.lower()
    again = httpx.post(f"{base}/statements", json={"statement": "SELECT 1"}, timeout=60)
    assert again.status_code == 200  # the session lives on
    assert httpx.delete(base).status_code == 200
    assert httpx.post(f"{base}/statements", json={"statement": "SELECT 1"}).status_code == 500


def test_the_same_key_with_another_body(server: RunningServer, database: str) -> None:
    server.sql(f"CREATE TABLE {database}.k (id INT)")
    for _ in range(2):
        server.sql(f"INSERT INTO {database}.k VALUES (1)", Idempotency_Key="one")
    answer = server.post(f"INSERT INTO {database}.k VALUES (2)", Idempotency_Key="one")
    assert (answer.status_code, answer.json()["errorClass"]) == (422, "IdempotencyMismatch")
    assert server.sql(f"SELECT * FROM {database}.k") == [[1]]
