"""Statements answered without Spark tell their columns before they are run, and look nothing up for it."""

from __future__ import annotations

import pytest

from gateway.gateway import Gateway
from model.errors import DatabaseNotExist, JobNotExist

LOOKING = (
    "SHOW CATALOGS", "SHOW CURRENT DATABASE", "SHOW DATABASES", "SHOW TABLES", "SHOW COLUMNS FROM t", "SHOW CREATE TABLE t", "DESCRIBE t",
    "DESCRIBE EXTENDED plain", "DESCRIBE plain", "DESCRIBE DATABASE `default`", "SHOW GRANTS", "SHOW ROLES", "SHOW POLICIES ON t",
    "SHOW JOBS", "SET", "SELECT a FROM t", "SELECT count(*) AS n FROM t", "SELECT snapshot_id FROM t$snapshots",
)  # fmt: skip


def test_what_is_described_is_what_running_it_gives(gateway: Gateway) -> None:
    gateway.run("CREATE TABLE t (a INT COMMENT 'c', p INT) PARTITIONED BY (p); CREATE TABLE plain (a INT)").close()
    for text in LOOKING:
        with gateway.run(text, describe=True) as described, gateway.run(text) as found:
            assert described.is_query, text
            assert list(described.columns) == list(found.columns), text
            assert described.collect() == []


@pytest.mark.parametrize(
    ("text", "failure"),
    [("SHOW TABLES FROM nowhere", DatabaseNotExist), ("DESCRIBE JOB '00000000-0000-0000-0000-000000000000'", JobNotExist)],
)
def test_nothing_is_looked_up_to_describe(gateway: Gateway, text: str, failure: type[Exception]) -> None:
    with gateway.run(text, describe=True) as described:
        assert described.columns
    with pytest.raises(failure):
        gateway.run(text)
