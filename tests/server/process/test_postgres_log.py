"""What the log of the embedded Postgres says of why it is away."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pytest

from server.process.postgres_log import last_problem, last_words
from tests import new_cluster

STAMP = "2026-11-24 10:00:00.123 UTC [42] "
FULL = STAMP + '53100 PANIC:  could not write to file "pg_wal/xlogtemp.42": No space left on device'
SECRET = STAMP + "53100 STATEMENT:  INSERT INTO t VALUES ('FATAL:  a secret')"
DOWN = STAMP + "00000 LOG:  database system is shut down"
READY = STAMP + "00000 LOG:  database system is ready to accept connections"
STARTING = STAMP + "57P03 FATAL:  the database system is in recovery mode"
NOBODY = STAMP + '28000 FATAL:  role "nobody" does not exist'
MANY = STAMP + "53300 FATAL:  sorry, too many clients already"
LOCKED = STAMP + '53100 FATAL:  could not create lock file "postmaster.pid": No space left on device'
OLD_PREFIX = STAMP + "PANIC:  could not locate a valid checkpoint record"


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        ([], None),
        ([READY, NOBODY, MANY, STARTING], None),
        ([READY, FULL, SECRET, STARTING, DOWN], 'could not write to file "pg_wal/xlogtemp.42": No space left on device'),
        ([READY, FULL, DOWN, LOCKED, DOWN], 'could not create lock file "postmaster.pid": No space left on device'),
        ([FULL, SECRET, DOWN, READY], None),
        ([OLD_PREFIX], "could not locate a valid checkpoint record"),
        ([STAMP + "22012 ERROR:  FATAL:  division by zero", "\tPANIC:  a second line of a statement"], None),
    ],
)
def test_the_last_problem_since_it_was_ready(tmp_path: Path, lines: list[str], problem: str | None) -> None:
    log = tmp_path / "log"
    log.write_text("".join(line + "\n" for line in lines))
    assert last_problem(log) == problem
    assert "secret" not in (last_problem(log) or "")


def test_an_operator_is_told_the_problem_and_the_last_lines(tmp_path: Path) -> None:
    log = tmp_path / "log"
    assert last_words(log) == "it left no log."
    log.write_text("")
    assert last_words(log) == "its log is empty."
    log.write_text("\n".join([FULL, STARTING, STARTING, DOWN]))
    assert last_words(log).startswith('could not write to file "pg_wal/xlogtemp.42": No space left')
    assert last_words(log).endswith("database system is shut down")


def test_a_real_log_is_read(tmp_path: Path) -> None:
    postgres = new_cluster.made(tmp_path)
    dsn = postgres.start()
    log = tmp_path / "postgres" / "log"
    try:
        with psycopg.connect(dsn, autocommit=True) as conn, pytest.raises(psycopg.errors.RaiseException):
            conn.execute("DO $$ BEGIN RAISE EXCEPTION 'PANIC:  made up'; END $$")
        with pytest.raises(psycopg.OperationalError, match="does not exist"):
            psycopg.connect(dsn, dbname="nowhere")
        assert "3D000 FATAL:  database" in log.read_text(), "the state is in every line"
        assert last_problem(log) is None
        assert postgres.problem() is None
    finally:
        postgres.stop()
    with log.open("a") as file:
        file.write(FULL.replace("pg_wal", f"{tmp_path}/postgres/pg_wal") + "\n")
    assert postgres.problem() == 'could not write to file "postgres/pg_wal/xlogtemp.42": No space left on device'
