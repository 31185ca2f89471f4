"""A real PgBouncer in transaction mode before the run's Postgres."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from tests.running import free_port

_ROOT = Path(__file__).parents[1]
SERVER_CONNECTIONS = 4
"""To Postgres, of each database: few, so that clients' transactions change them all the time."""
WAITS_SECONDS = 120
"""How long a statement waits for a connection to Postgres: with so few of them longer than docs/operations.md asks for."""
_INI = """
[databases]
* = host={host} port={port} user={user}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {listen}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = {connections}
max_client_conn = 500
query_wait_timeout = {waits}
server_login_retry = 1
logfile = {log}
"""


@contextlib.contextmanager
def leading_to(server_dsn: str, *, waits: int = WAITS_SECONDS) -> Iterator[int]:
    """The port of a PgBouncer that leads to the Postgres of a DSN, and where a statement waits so long for a connection there."""
    found = subprocess.run([_ROOT / "scripts" / "pgbouncer"], capture_output=True, text=True, check=False)
    if found.returncode != 0:
        pytest.skip("PgBouncer cannot be had here: servers behind it are not tried.")
    parts, port = conninfo_to_dict(server_dsn), free_port()
    place = Path(tempfile.mkdtemp(prefix="sluice-pgbouncer-"))
    place.chmod(0o777)  # for another user
    ini = place / "pgbouncer.ini"
    ini.write_text(
        _INI.format(
            host=parts.get("host"),
            port=parts.get("port") or 5432,
            user=parts.get("user") or "postgres",
            listen=port,
            connections=SERVER_CONNECTIONS,
            waits=waits,
            log=place / "log",
        )
    )
    user = ["-u", _who(str(parts.get("host") or ""))] if os.geteuid() == 0 else []
    process = subprocess.Popen([found.stdout.split()[0], "-q", *user, str(ini)], stderr=subprocess.DEVNULL)
    try:
        for _ in range(300):
            try:
                psycopg.connect(through_pgbouncer(port, server_dsn), autocommit=True).close()
                break
            except psycopg.OperationalError:
                if process.poll() is not None:
                    pytest.fail("PgBouncer died.")
                time.sleep(0.1)
        else:
            pytest.fail(f"PgBouncer lets nobody in: {(place / 'log').read_text()}")
        yield port
    finally:
        process.kill()  # told to end it may wait for its clients
        process.wait(60)
        shutil.rmtree(place, ignore_errors=True)


@pytest.fixture(scope="session")
def pgbouncer_port(server_dsn: str) -> Iterator[int]:
    """Where PgBouncer answers."""
    with leading_to(server_dsn) as port:
        yield port


def _who(sockets: str) -> str:
    """Whom a Postgres of ours lets in: PgBouncer refuses to be root."""
    return pwd.getpwuid(Path(sockets).stat().st_uid).pw_name if sockets.startswith("/") else "nobody"


def through_pgbouncer(port: int, dsn: str) -> str:
    """The DSN through the PgBouncer at a port."""
    return make_conninfo(
        "", host="127.0.0.1", port=port, dbname=conninfo_to_dict(dsn)["dbname"], user="sluice", sslmode="disable", connect_timeout=10
    )


@pytest.fixture
def pooled_dsn(dsn: str, pgbouncer_port: int) -> str:
    """The DSN of this test's database through PgBouncer."""
    return through_pgbouncer(pgbouncer_port, dsn)
