"""The disk of a server's data, filled to its last pages with nothing kept free: Postgres meets its end in the middle of a commit.

A Postgres without a byte is in `test_outages`, which `make test` runs, too.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import httpx
import psycopg
import pytest

from server.process.postgres_space import WAL_SEGMENT_BYTES
from tests.disks import MEGABYTE, PAGE, fill, mounted
from tests.e2e.agreement import assert_agreement, embedded_dsn
from tests.fix_server import StartServer
from tests.running import RunningServer
from tests.waiting import eventually

PAGES = (0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 128, 256, 1024, 4096, 8192)
SHORT_FORM = (1, 24)
_CLOSE_BYTES = 2000
"""Less than a commit's own records."""
_MOST_MESSAGES = 5000
_MOST_SECONDS = 180.0
REFUSALS = {503, 507}


@pytest.fixture
def one_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 300 MB."""
    with mounted(tmp_path / "disk", megabytes=300) as directory:
        yield directory


def anywhere(dsn: str) -> None:
    """The log has space in the segment it is in: what has none are the pages of Postgres's tables."""


def at_the_end_of_the_log(dsn: str) -> None:
    """The next commit needs a segment of Postgres's write-ahead log that is not there yet."""
    later = "SELECT count(*) FROM pg_ls_waldir() WHERE name ~ '^[0-9A-F]{24}$' AND name > pg_walfile_name(pg_current_wal_insert_lsn())"
    with psycopg.connect(dsn, autocommit=True) as conn:
        for _ in range(_MOST_MESSAGES):
            (at,) = conn.execute("SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint").fetchone() or (0,)
            left = WAL_SEGMENT_BYTES - at % WAL_SEGMENT_BYTES
            if left < _CLOSE_BYTES and conn.execute(later).fetchone() == (0,):
                return
            size = MEGABYTE if left > 2 * MEGABYTE else min(left, 64 << 10) // 2 if left > _CLOSE_BYTES else 2 * _CLOSE_BYTES
            conn.execute("SELECT pg_logical_emit_message(false, 'test', repeat('x', %s))", (size,))
    raise AssertionError("there is always a segment more")


class Pages:
    """A server that is asked the same at one number of free pages after the other."""

    def __init__(self, server: RunningServer, disk: Path) -> None:
        self._server, self._disk = server, disk
        self.dsn = embedded_dsn(server)
        self.acknowledged = [0]
        self.tried = self.refused = self.unavailable = 0

    def insert(self, number: int) -> int:
        return self._server.post(f"INSERT INTO t VALUES ({number})", timeout=_MOST_SECONDS, Idempotency_Key=f"key-{number}").status_code

    def body(self, number: int) -> int:
        sent = b"".join(json.dumps({"id": number + one}).encode() + b"\n" for one in range(2))
        headers = {"Content-Type": "application/x-ndjson", "Idempotency-Key": f"key-{number}"}
        answer = httpx.post(f"{self._server.url}/tables/default/t/rows", content=sent, headers=headers, timeout=_MOST_SECONDS)
        return answer.status_code

    def at(self, pages: int, prepare: Callable[[str], None]) -> None:
        """Ask with so many free pages, make space, and ask for what was refused again, under its key."""
        first = 1 + max(self.acknowledged)
        requests: list[Callable[[], int]] = [lambda: self.insert(first), lambda: self.body(first + 1)]
        prepare(self.dsn)
        fill(self._disk / "ballast", leave=pages * PAGE)
        told = [ask() for ask in requests]
        (self._disk / "ballast").unlink()
        print(f"{pages} pages: {told}")
        assert set(told) <= {200, *REFUSALS}, told
        self.tried += len(told)
        self.refused += sum(status != 200 for status in told)
        self.unavailable += told.count(503)
        for ask in requests:
            assert eventually(partial(_taken, ask), _MOST_SECONDS), "there is space, and it goes on by itself"
        self.acknowledged += [first, first + 1, first + 2]
        self.holds()

    def holds(self) -> None:
        """Every row is there once, and the files are as Postgres says."""
        server = self._server
        assert sorted(row[0] for row in server.sql("SELECT id FROM t")) == self.acknowledged
        assert server.value("SELECT COUNT(*) FROM t") == len(self.acknowledged)
        assert server.sql("CALL sys.check_table('t')") == []
        assert_agreement(self.dsn, server, "default.t")


def _taken(ask: Callable[[], int]) -> bool:
    return ask() == 200


def asked_at_each(server: RunningServer, disk: Path, pages: Sequence[int], prepare: Callable[[str], None], *, again: int = 0) -> Pages:
    """Ask at these numbers of free pages, and look at what is there once more after a start.

    All of it is done ``again``, so many times at most, until Postgres was away: another transaction may come to the log's end first.
    """
    server.sql("CREATE TABLE t (id INT) WITH ('bucket' = '-1', 'write-only' = 'true'); INSERT INTO t VALUES (0)")
    full = Pages(server, disk)
    for _ in range(1 + again):
        for number in pages:
            full.at(number, prepare)
        if full.unavailable:
            break
    print(f"{prepare.__name__}: {full.tried} tried, {full.refused} refused, {full.unavailable} of them as Postgres was away")
    assert server.terminate() == 0
    server.start()
    full.holds()
    return full


@pytest.mark.torture
@pytest.mark.slow
def test_postgres_ends_in_the_middle_of_a_commit(one_disk: Path, tmp_path: Path, start_server: StartServer) -> None:
    server = start_server(SLUICE_DATA=str(one_disk), SLUICE_WAREHOUSE=str(tmp_path / "warehouse"), SLUICE_STORAGE_RESERVE="0")
    assert asked_at_each(server, one_disk, SHORT_FORM, at_the_end_of_the_log, again=14).unavailable


@pytest.mark.torture
@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("both", [False, True], ids=["its disk", "the disk of all"])
@pytest.mark.parametrize("prepare", [anywhere, at_the_end_of_the_log])
def test_postgres_meets_every_last_page_of(
    one_disk: Path, tmp_path: Path, start_server: StartServer, prepare: Callable[[str], None], both: bool
) -> None:
    warehouse = {} if both else {"SLUICE_WAREHOUSE": str(tmp_path / "warehouse")}
    assert asked_at_each(start_server(SLUICE_DATA=str(one_disk), SLUICE_STORAGE_RESERVE="0", **warehouse), one_disk, PAGES, prepare).refused
