"""Java Paimon, as the REST catalog's client, and this server write and compact the same tables in turns; everybody reads them."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest

from tests.interop.appenders import Java
from tests.interop.conftest import Reader
from tests.running import RunningServer

pytestmark = pytest.mark.interop

ROUNDS = [pytest.param(2, id="short"), pytest.param(3, id="whole", marks=pytest.mark.torture)]
OPTIONS = "'write-only' = 'true', 'compaction.max.file-num' = '4'"
"""Nobody compacts but who is told to."""
KINDS = {
    "queue": f"WITH ({OPTIONS})",
    "buckets": f"WITH ({OPTIONS}, 'bucket' = '2', 'bucket-key' = 'id')",
    "scalable": f"WITH ({OPTIONS}, 'bucket' = '-1')",
}


@pytest.fixture(scope="module")
def java(server: RunningServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Java]:
    if shutil.which("javac") is None:
        pytest.skip("javac cannot be had here: Java Paimon does not compact.")
    made = Java(server.url, tmp_path_factory.mktemp("compactor"))
    yield made
    made.close()


def append(server: RunningServer, table: str, first: int, count: int) -> None:
    server.sql(f"INSERT INTO {table} VALUES " + ", ".join(f"({n}, 's{n}')" for n in range(first, first + count)))


def check(server: RunningServer, table: str, kind: str, count: int, readers: list[Reader]) -> None:
    """Everybody finds every row once, where it belongs, and in a queue in the order they were written."""
    ours = [row[0] for row in server.sql(f"SELECT id FROM {table}")]
    assert (ours if kind == "queue" else sorted(ours)) == list(range(count))
    for reader in readers:
        found = reader.read(server.table_path(table))
        assert found["misplaced"] == 0
        theirs = [row[0] for row in found["rows"]]
        assert (theirs if kind == "queue" else sorted(theirs)) == list(range(count))


@pytest.mark.parametrize("rounds", ROUNDS)
@pytest.mark.parametrize("kind", KINDS)
def test_both_compact(
    server: RunningServer, database: str, java: Java, pypaimon: Reader, java_paimon: Reader, kind: str, rounds: int
) -> None:
    table = f"{database}.t"
    server.sql(f"CREATE TABLE {table} (id BIGINT, s STRING) {KINDS[kind]}")
    written = 0
    for number in range(rounds):
        for _ in range(3):
            append(server, table, written, 5)
            java.do(table=table, append=[written + 5, 5])
            written += 10
        if number % 2:
            assert server.sql(f"CALL sys.compact('{table}', '', 'minor')")[0][0] > 0
        else:
            assert java.do(table=table) > 0
        append(server, table, written, 5)
        written += 5
        check(server, table, kind, written, [pypaimon, java_paimon])
    assert java.do(table=table) > 0 or kind == "scalable"
    append(server, table, written, 5)
    server.sql(f"CALL sys.compact('{table}')")
    check(server, table, kind, written + 5, [pypaimon, java_paimon])
    assert server.value(f"SELECT COUNT(*) FROM {table}$snapshots WHERE commit_kind = 'COMPACT'") >= rounds
