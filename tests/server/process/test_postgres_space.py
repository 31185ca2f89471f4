"""The space that the embedded Postgres's write-ahead log takes, by the size of its disk."""

from __future__ import annotations

import contextlib
from pathlib import Path

import psycopg
import pytest

from server.process.postgres import EmbeddedPostgres
from server.process.postgres_space import WAL_SEGMENT_BYTES, wal_growth, wal_settings
from tests.disks import MEGABYTE, mounted


@pytest.mark.parametrize(("megabytes", "most"), [(300, "32MB"), (4096, "128MB"), (20_000, "624MB"), (40_000, None)])
def test_the_log_takes_a_part_of_a_small_disk(tmp_path: Path, megabytes: int, most: str | None) -> None:
    with mounted(tmp_path / "disk", megabytes=megabytes) as disk:
        assert dict(wal_settings(disk)).get("max_wal_size") == most


def size_of(wal: Path) -> int:
    """Bytes of the log's segments; one may go while they are counted."""
    total = 0
    for file in wal.glob("*"):
        with contextlib.suppress(FileNotFoundError):
            total += file.stat().st_size if file.is_file() else 0
    return total


def test_the_log_stays_within_what_it_is_promised(tmp_path: Path) -> None:
    with mounted(tmp_path / "disk", megabytes=300) as disk:
        postgres = EmbeddedPostgres(disk)
        dsn = postgres.start()
        try:
            wal = disk / "postgres" / "pg_wal"
            before = size_of(wal)
            assert wal_growth(disk) == 32 * MEGABYTE - before + WAL_SEGMENT_BYTES
            most = before + wal_growth(disk)
            with psycopg.connect(dsn, autocommit=True) as conn:
                conn.execute("CREATE TABLE t (v text STORAGE PLAIN)")
                for _ in range(40):
                    conn.execute("INSERT INTO t SELECT repeat(md5(n::text), 100) FROM generate_series(1, 1000) n")
                    conn.execute("TRUNCATE t")
                    now = size_of(wal)
                    assert now <= most, "it grows in whole segments"
                written = conn.execute("SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')").fetchone()
                assert written is not None
                assert written[0] > 3 * 32 * MEGABYTE, "three times as much was written"
            assert wal_growth(disk) >= WAL_SEGMENT_BYTES
        finally:
            postgres.stop()


def test_a_cluster_that_is_not_there_is_promised_a_segment(tmp_path: Path) -> None:
    assert wal_growth(tmp_path) == WAL_SEGMENT_BYTES
