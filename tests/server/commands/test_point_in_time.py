"""A catalog brought back to a point in time from Postgres's own base backup and its archived log (`docs/operations.md`)."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from catalog import CatalogStore
from gateway.gateway import Gateway, GatewayLimits
from lake import Lake
from lake.register.restored.after_restore import differences
from migrations import upgrade
from model.errors import TableDiverged
from model.identifier import Identifier
from server.process import postgres as embedded
from server.process.postgres import EmbeddedPostgres
from tests import new_cluster
from tests.lake.register.damage import forget_metadata
from tests.server.conftest import NoSpark
from tests.waiting import eventually
from workers.pool import WorkerPool

T = Identifier("default", "t")


class Archived:
    """An embedded Postgres whose log is archived, as a managed one's is."""

    def __init__(self, place: Path) -> None:
        self.place, self.wal, self.base = place, place / "wal", place / "base"
        self.wal.mkdir()
        self.wal.chmod(0o777)  # Postgres runs as another user where tests run as root
        first = new_cluster.made(place / "data")
        with psycopg.connect(first.start(), autocommit=True) as conn:
            conn.execute("ALTER SYSTEM SET archive_mode = on")
            conn.execute(f"ALTER SYSTEM SET archive_command = 'test ! -f {self.wal}/%f && cp %p {self.wal}/%f'")
        first.stop()
        self.running = EmbeddedPostgres(place / "data")
        self.dsn = self.running.start()

    def base_backup(self) -> None:
        where = conninfo_to_dict(self.dsn)
        command = [
            str(embedded._binaries() / "pg_basebackup"),
            "-h",
            str(where["host"]),
            "-U",
            "postgres",
            "-c",
            "fast",
            "-D",
            str(self.base),
        ]
        subprocess.run(command, check=True, capture_output=True)

    def archive(self) -> None:
        """Wait until all that was written is in the archive."""
        with psycopg.connect(self.dsn, autocommit=True) as conn:
            row = conn.execute("SELECT pg_walfile_name(pg_switch_wal())").fetchone()
            assert row is not None
        assert eventually(lambda: (self.wal / str(row[0])).exists(), seconds=60)

    def recovered(self, name: str, *settings: str) -> EmbeddedPostgres:
        """Another Postgres, from the base backup and the archive."""
        data = self.place / name
        shutil.copytree(self.base, data / "postgres")
        cluster = data / "postgres"
        with (cluster / "postgresql.auto.conf").open("a") as file:
            lines = [f"restore_command = 'cp {self.wal}/%f %p'", "recovery_target_action = 'promote'", "hot_standby = 'off'", *settings]
            file.write("\n".join(lines) + "\n")
        (cluster / "recovery.signal").touch()
        owner = (self.place / "data/postgres").stat()
        for path in (cluster, *cluster.rglob("*")):
            os.chown(path, owner.st_uid, owner.st_gid)
        cluster.chmod(0o700)
        return EmbeddedPostgres(data)


@pytest.mark.slow
def test_a_catalog_of_a_point_in_time(tmp_path: Path, workers: WorkerPool) -> None:
    postgres = Archived(tmp_path)
    try:
        upgrade(postgres.dsn)
        warehouse = str(tmp_path / "warehouse")
        with Opened(postgres.dsn, warehouse, workers) as before:
            before.run("CREATE TABLE t (id INT)", "INSERT INTO t VALUES (1)")
            postgres.base_backup()
            before.run("INSERT INTO t VALUES (2)")
            with psycopg.connect(postgres.dsn, autocommit=True) as conn:
                conn.execute("SELECT pg_create_restore_point('before the mistake')")
            before.run("TRUNCATE TABLE t", "INSERT INTO t VALUES (9)")
            postgres.archive()
    finally:
        postgres.running.stop()
    forget_metadata()
    _to_the_end_of_the_log(postgres, warehouse, workers)
    forget_metadata()
    _to_the_point(postgres, warehouse, workers)


def _to_the_end_of_the_log(postgres: Archived, warehouse: str, workers: WorkerPool) -> None:
    """Nothing is missing, and catalog and warehouse agree."""
    end = postgres.recovered("end")
    try:
        with Opened(end.start(), warehouse, workers) as opened:
            assert opened.rows() == [9]
            assert list(differences(opened.catalog, warehouse)) == []
    finally:
        end.stop()


def _to_the_point(postgres: Archived, warehouse: str, workers: WorkerPool) -> None:
    """The rows of that moment can be read, what came later is noticed, and nothing is written until somebody has chosen."""
    point = postgres.recovered("point", "recovery_target_name = 'before the mistake'")
    try:
        with Opened(point.start(), warehouse, workers) as opened:
            opened.lake.standing.compare()
            opened.lake.standing.look_around(tables=None)
            assert opened.rows() == [1, 2]
            assert [trouble.statement for trouble in opened.lake.standing.troubles()] == ["CALL sys.repair_table('default.t')"]
            with pytest.raises(TableDiverged):
                opened.run("INSERT INTO t VALUES (3)")
            opened.run("CALL sys.repair_table('default.t')")
            assert opened.rows() == [9]
            opened.run("CALL sys.rollback_to('default.t', 2)", "INSERT INTO t VALUES (3)")
            assert opened.rows() == [1, 2, 3]
            assert opened.lake.standing.mismatch is None
    finally:
        point.stop()


class Opened:
    """A gateway on a catalog, closed when the block ends."""

    def __init__(self, dsn: str, warehouse: str, workers: WorkerPool) -> None:
        self.catalog = CatalogStore(dsn)
        self.lake = Lake(self.catalog, warehouse)
        self.lake.standing.compare()
        self.gateway = Gateway(self.lake, NoSpark(), limits=GatewayLimits(local_threads=2, spark_statements=1), workers=workers)
        self.gateway.start()

    def run(self, *texts: str) -> None:
        for text in texts:
            self.gateway.run(text).close()

    def rows(self) -> list[int]:
        with self.gateway.run("SELECT id FROM t") as result:
            return sorted(row[0] for row in result.collect())

    def __enter__(self) -> Opened:
        return self

    def __exit__(self, *_: object) -> None:
        self.gateway.close()
        self.lake.close()
        self.catalog.close()
