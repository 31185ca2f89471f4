"""What was answered under an Idempotency-Key after the backup is known again once its snapshots are: a repeat writes no row twice."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from gateway.gateway import Gateway
from model.errors import IdempotencyMismatch, TableDiverged
from tests.fix_gateway import gateway as gateway
from tests.fix_gateway import spark_stub as spark_stub
from tests.lake.register.test_standing import older

DAYS = 2 * 86_400


def days_behind(patch: pytest.MonkeyPatch) -> None:
    """The server's clock, in all its threads; that of the file system is right."""
    now = time.time_ns
    patch.setattr(time, "time_ns", lambda: now() - DAYS * 1_000_000_000)


@pytest.mark.parametrize("branch", ["", "$branch_b"])
def test_a_write_that_a_repair_registered_is_not_done_again(gateway: Gateway, dsn: str, tmp_path: Path, branch: str) -> None:
    insert = f"INSERT INTO k{branch} VALUES (7)"
    gateway.run("CREATE TABLE k (a INT)")
    gateway.run("INSERT INTO k VALUES (1)")
    gateway.run("CALL sys.create_tag('k', 'now')")
    if branch:
        gateway.run("CALL sys.create_branch('k', 'b', 'now')")
    older(dsn, tmp_path / "old")
    first = gateway.run(insert, idempotency_key="K").collect()
    gateway.run(f"INSERT INTO k{branch} VALUES (8)", idempotency_key="L")
    gateway.lake._publisher._notifier.close()
    older(dsn, tmp_path / "old", back=True)

    with pytest.raises(TableDiverged):
        gateway.run(insert, idempotency_key="K")
    gateway.run(f"CALL sys.repair_table('k{branch}')")
    for _ in range(2):
        assert gateway.run(insert, idempotency_key="K").collect() == first
    assert sorted(gateway.run(f"SELECT a FROM k{branch}").collect()) == [(1,), (7,), (8,)]
    gateway.run(f"INSERT INTO k{branch} VALUES (9)", idempotency_key="M")
    with pytest.raises(IdempotencyMismatch):
        gateway.run(insert, idempotency_key="M")


def test_a_branch_that_a_repair_registered_brings_its_answers(gateway: Gateway, dsn: str, tmp_path: Path) -> None:
    gateway.run("CREATE TABLE k (a INT)")
    gateway.run("INSERT INTO k VALUES (1)")
    gateway.run("CALL sys.create_tag('k', 'now')")
    older(dsn, tmp_path / "old")
    gateway.run("CALL sys.create_branch('k', 'b', 'now')")
    first = gateway.run("INSERT INTO k$branch_b VALUES (7)", idempotency_key="K").collect()
    older(dsn, tmp_path / "old", back=True)
    gateway.run("CALL sys.repair_table('k')")
    assert gateway.run("INSERT INTO k$branch_b VALUES (7)", idempotency_key="K").collect() == first
    assert sorted(gateway.run("SELECT a FROM k$branch_b").collect()) == [(1,), (7,)]


@pytest.mark.parametrize("branch", ["", "$branch_b"])
def test_a_write_by_a_server_whose_clock_is_behind_is_not_done_again(gateway: Gateway, dsn: str, tmp_path: Path, branch: str) -> None:
    """Its snapshot says two days ago; its file tells when it was."""
    with pytest.MonkeyPatch.context() as patch:
        days_behind(patch)
        gateway.run("CREATE TABLE k (a INT)")
        gateway.run("INSERT INTO k VALUES (1)")
        gateway.run("CALL sys.create_tag('k', 'now')")
        older(dsn, tmp_path / "old")
        if branch:
            gateway.run("CALL sys.create_branch('k', 'b', 'now')")
        first = gateway.run(f"INSERT INTO k{branch} VALUES (7)", idempotency_key="K").collect()
        gateway.lake._publisher._notifier.close()
    older(dsn, tmp_path / "old", back=True)
    gateway.run("CALL sys.repair_table('k')")
    assert gateway.run(f"INSERT INTO k{branch} VALUES (7)", idempotency_key="K").collect() == first
    assert sorted(gateway.run(f"SELECT a FROM k{branch}").collect()) == [(1,), (7,)]


def test_a_key_of_days_ago_is_free_after_a_repair(gateway: Gateway, dsn: str, warehouse: Path, tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        days_behind(patch)
        gateway.run("CREATE TABLE k (a INT)")
        older(dsn, tmp_path / "old")
        gateway.run("INSERT INTO k VALUES (7)", idempotency_key="K")
        gateway.lake._publisher._notifier.close()
    older(dsn, tmp_path / "old", back=True)
    for file in (warehouse / "default.db/k/snapshot").iterdir():
        os.utime(file, (time.time() - DAYS,) * 2)
    gateway.run("CALL sys.repair_table('k')")
    gateway.run("INSERT INTO k VALUES (7)", idempotency_key="K")
    assert gateway.run("SELECT a FROM k").collect() == [(7,), (7,)]
