"""SQL that is almost right: statements of every kind with words left out, doubled, swapped, quoted, nested and made enormous."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest
from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from tests.fuzz.inputs import drawn, mutated
from tests.fuzz.oracle import Flat, failed_once, judged, sql
from tests.server.conftest import NoSpark

SHORT, PART, PARTS = 250, 6_000, 8
_RUNNING = 25
"""The first of `statements` need no Spark."""
CASES = Path(__file__).parents[1] / "sql" / "cases"
_ODD = [
    "'", '"', "`", "``", ";", "--", "/*", "*/", "/*+", "(", ")", ")" * 50, "(" * 50, ",", ".", "..", "?", ":x", "${x}", "\\", "\x00",
    "\ud800", "é", "😀", "-", "1e999", "0x", "9" * 400, "NULL", "*", "t$files", "sys.tables", "`t$files`", "t$branch_b", "CAST(1 AS",
    "INTERVAL", "DATE '99999-01-01'", "TIMESTAMP 'x'", "X'0'", "ARRAY[", "MAP[", "ROW(", "UNION ALL", "LATERAL", "OVER (", "DESCRIPTOR(ts)",
    "/*+ OPTIONS('scan.snapshot-id'='-1') */", "/*+ OPTIONS('a'='b', 'a'='c') */", "/*+ BROADCAST(t) */", "FOR SYSTEM_TIME AS OF",
    "x" * 5000, "1 = 1 OR " * 300, "NOT " * 400, "- " * 400, "CASE WHEN 1 THEN " * 100, "SELECT ", "FROM ",
]  # fmt: skip


@pytest.fixture(autouse=True)
def without_spark() -> None:
    assert not NoSpark.ready  # what needs Spark is 503 here: this is about all that comes before it


def statements() -> list[str]:
    """Every statement the parser's own cases hold, and some with values that reach the files."""
    found = [
        "SELECT * FROM t", "SELECT id, s FROM t WHERE id IN (1, 2) AND s LIKE 'a%' ORDER BY id LIMIT 3", "SELECT COUNT(*) FROM t",
        "INSERT INTO t VALUES (1, 'a'), (2, NULL)", "INSERT INTO t (s) VALUES ('x')", "SELECT * FROM t$files WHERE bucket = 0",
        "SELECT * FROM t$snapshots ORDER BY snapshot_id DESC", "SELECT * FROM sys.tables WHERE table_name = 't'", "EXPLAIN SELECT * FROM t",
        "CALL sys.create_tag('t', 'x', 1)", "CALL sys.compact(`table` => 't', dry_run => true)", "CALL sys.expire_snapshots('t', 1)",
        "ALTER TABLE t SET ('snapshot.num-retained.max' = '5')", "ALTER TABLE t ADD (x INT AFTER id)", "ALTER TABLE t MODIFY (id BIGINT)",
        "CREATE TABLE u (a INT, b STRING, PRIMARY KEY (a) NOT ENFORCED) PARTITIONED BY (b) WITH ('bucket' = '2', 'bucket-key' = 'a')",
        "CREATE VIEW v AS SELECT id FROM t", "DROP VIEW IF EXISTS v", "SHOW CREATE TABLE t", "DESCRIBE EXTENDED t", "SET 'a' = 'b'",
        "CREATE TEMPORARY TABLE g (a INT) WITH ('connector' = 'datagen', 'number-of-rows' = '3')", "SHOW PARTITIONS t", "USE `default`",
        "GRANT SELECT ON t TO ada UNTIL '2099-01-31T00:00:00Z'", "CREATE POLICY p ON t TO ada USING (id = 1)", "SHOW JOBS",
    ]  # fmt: skip
    for file in sorted(CASES.glob("*.sql")):
        for block in file.read_text().split("\n-- "):
            found.append(block.partition("\n")[2].partition("\n=>")[0].strip())
    return [text for text in found if text and "DROP TABLE" not in text.upper()]


def almost(rng: random.Random, every: list[str]) -> str:
    """One of them, changed."""
    text = rng.choice(every[:_RUNNING] if rng.random() < 0.5 else every)
    words = text.split(" ")
    for _ in range(rng.choice([0, 1, 1, 2, 3, 6])):
        at = rng.randrange(len(words) or 1)
        match rng.randrange(6):
            case 0:
                del words[at : at + 1]
            case 1:
                words.insert(at, rng.choice(_ODD))
            case 2:
                words[at:at] = words[at : at + rng.choice([1, 3, 40])]
            case 3:
                words[at : at + 1] = [rng.choice(rng.choice(every).split(" "))]
            case 4:
                words += [";", *rng.choice(every).split(" ")]
            case _:
                words[at : at + 1] = [rng.choice(_ODD)]
    made = " ".join(words)
    if rng.random() < 0.15:
        made = mutated(rng, made.encode("utf-8", "surrogatepass")).decode("utf-8", "replace")
    return made[:60_000]


def run(client: FlaskClient, sent: bytes, what: str) -> TestResponse:
    return judged(lambda: client.post("/sql", data=sent, headers={"Content-Type": "application/sql"}, buffered=True), what, sent)


def campaign(client: FlaskClient, seeds: range) -> Counter[int]:
    """Send them; returns how many were answered with 2xx, 4xx, …"""
    answered: Counter[int] = Counter()
    every = statements()
    for seed in seeds:
        rng = drawn("sql", seed)
        sent = almost(rng, every).encode("utf-8", "surrogatepass")
        response = run(client, sent, f"sql seed {seed}")
        assert response.status_code != 401, "a statement closed the server to all that follow"
        answered[response.status_code // 100] += 1
        if seed % 50 == 0:  # some drop it
            sql(client, "CREATE TABLE IF NOT EXISTS t (id INT, s STRING)")
    return answered


def test_statements_that_are_almost_right_are_answered(table: FlaskClient) -> None:
    flat = Flat()
    answered = campaign(table, range(SHORT))
    assert answered[2] > SHORT // 20, "hardly any statement was one"
    flat.check(files=40)


@pytest.mark.torture
@pytest.mark.parametrize("part", range(PARTS))
def test_thousands_of_statements(table: FlaskClient, part: int) -> None:
    flat = Flat()
    campaign(table, range(SHORT + part * PART, SHORT + (part + 1) * PART))
    flat.check(files=40)


def test_what_failed_once(table: FlaskClient) -> None:
    for name, _, sent in failed_once("sql"):
        run(table, sent, f"sql kept as {name}")
