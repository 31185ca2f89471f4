"""UPDATE, DELETE, MERGE, overwrites, inserts of every kind and compactions under kills of server, Spark and Postgres."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from migrations import upgrade
from server.process.postgres import EmbeddedPostgres
from tests.e2e.agreement import embedded_dsn
from tests.fix_server import StartServer
from tests.interop.appenders import Java, of_a_process, of_spark, pypaimon_process, rust_process
from tests.interop.spark_paimon import SparkClient
from tests.running import RunningServer, free_port, postgres_pid
from tests.torture.kills.appends import ClientWriter, Copier, Ingester
from tests.torture.kills.campaign import POSTGRES, SERVER, SPARK, Campaign

SEED = int(os.environ.get("SLUICE_TEST_SEED", "20261125"))
KILLS = int(os.environ.get("SLUICE_TEST_KILLS", "100"))


def _run(start_server: StartServer, *, kills: int, seed: int, renames: bool = False) -> None:
    server = start_server()
    campaign = Campaign([server], dsn=lambda: embedded_dsn(server), seed=seed, clients=6, renames=renames)
    _rounds(campaign, kills, [SERVER, SERVER, SPARK, POSTGRES])


@contextlib.contextmanager
def _others(campaign: Campaign, server: RunningServer, logs: Path) -> Iterator[None]:
    """Let every client of the REST catalog, Flight SQL and a job write beside the campaign's own clients."""
    with contextlib.ExitStack() as started:
        for name in ("java", "spark"):
            (logs / name).mkdir()
        spark = started.enter_context(contextlib.closing(SparkClient(server.url, logs / "spark" / "log")))
        java = started.enter_context(contextlib.closing(Java(server.url, logs / "java")))
        pypaimon = started.enter_context(pypaimon_process(server.url, logs / "pypaimon.log"))
        rust = started.enter_context(rust_process(server.url, logs / "rust.log"))
        appends = {"spark": of_spark(spark), "java": of_a_process(java), "pypaimon": of_a_process(pypaimon), "rust": of_a_process(rust)}
        counts = campaign.told.counts
        clients = {name: ClientWriter(name, server, append, counts) for name, append in appends.items()}
        campaign.others += [*clients.values(), Ingester([server], counts), Copier(server, clients["pypaimon"].book, counts)]
        yield


def _rounds(campaign: Campaign, kills: int, victims: list[str], *, longest: float = 4.0) -> None:
    try:
        for number in range(kills):
            campaign.round(number, victims, longest=longest)
            print(number, campaign.told, flush=True)
    finally:
        print(campaign.told)


@pytest.mark.spark
@pytest.mark.slow
def test_a_kill(start_server: StartServer) -> None:
    server = start_server()
    _rounds(Campaign([server], dsn=lambda: embedded_dsn(server), seed=SEED, clients=4, renames=True), 1, [SERVER], longest=2.0)


@pytest.mark.torture
@pytest.mark.timeout(36000)
def test_kills(start_server: StartServer) -> None:
    _run(start_server, kills=KILLS, seed=SEED + 1)


@pytest.mark.torture
@pytest.mark.timeout(36000)
def test_kills_beside_renames(start_server: StartServer) -> None:
    _run(start_server, kills=KILLS, seed=SEED + 2, renames=True)


@pytest.mark.torture
def test_kills_while_a_table_is_taken_back_branched_and_dropped(start_server: StartServer) -> None:
    server = start_server()
    _rounds(Campaign([server], dsn=lambda: embedded_dsn(server), seed=SEED, clients=0), 2, [SERVER, POSTGRES])


@pytest.mark.torture
@pytest.mark.timeout(36000)
def test_many_kills_while_a_table_is_taken_back_branched_and_dropped(start_server: StartServer) -> None:
    server = start_server()
    _rounds(Campaign([server], dsn=lambda: embedded_dsn(server), seed=SEED + 4, clients=0), KILLS, [SERVER, POSTGRES])


@pytest.mark.torture
@pytest.mark.interop
@pytest.mark.timeout(36000)
def test_kills_beside_other_protocols_and_a_job(start_server: StartServer, tmp_path: Path) -> None:
    server = start_server(SLUICE_LISTEN=f"127.0.0.1:{free_port()}")
    campaign = Campaign([server], dsn=lambda: embedded_dsn(server), seed=SEED + 5, clients=2)
    with _others(campaign, server, tmp_path):
        _rounds(campaign, KILLS, [SERVER, SERVER, SPARK, POSTGRES])


@pytest.fixture
def postgres(tmp_path: Path) -> Iterator[tuple[str, Callable[[], int | None]]]:
    """A Postgres for several servers that comes back when it is killed: its DSN, and what tells its process."""
    made = EmbeddedPostgres(tmp_path / "catalog")
    dsn = made.start()
    try:
        upgrade(dsn)
        yield dsn, lambda: postgres_pid(tmp_path / "catalog")
    finally:
        made.stop()


@pytest.mark.torture
@pytest.mark.timeout(36000)
def test_kills_of_two_servers(postgres: tuple[str, Callable[[], int | None]], start_server: StartServer, tmp_path: Path) -> None:
    dsn, pid = postgres
    shared = {"SLUICE_CATALOG_DSN": dsn, "SLUICE_WAREHOUSE": str(tmp_path / "warehouse")}
    servers = [start_server(name, **shared) for name in ("first", "second")]
    campaign = Campaign(servers, dsn=lambda: dsn, seed=SEED + 3, clients=6, renames=True)
    campaign.postgres_pid = pid
    _rounds(campaign, KILLS, [SERVER, SERVER, SPARK, POSTGRES])
