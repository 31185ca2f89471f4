"""UPDATE, DELETE, MERGE, overwrites, inserts of every kind and compactions under kills of server, Spark and Postgres."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.e2e.agreement import embedded_dsn
from tests.fix_server import StartServer
from tests.interop.asked import Asked
from tests.running import RunningServer, free_port
from tests.torture.kills.appends import PYPAIMON, Copier, Ingester, PypaimonWriter
from tests.torture.kills.campaign import POSTGRES, SERVER, SPARK, Campaign

SEED = int(os.environ.get("SLUICE_TEST_SEED", "20261125"))
KILLS = int(os.environ.get("SLUICE_TEST_KILLS", "100"))


def _run(start_server: StartServer, *, kills: int, seed: int, renames: bool = False) -> None:
    server = start_server()
    campaign = Campaign([server], dsn=lambda: embedded_dsn(server), seed=seed, clients=6, renames=renames)
    _rounds(campaign, kills, [SERVER, SERVER, SPARK, POSTGRES])


def _with_others(campaign: Campaign, server: RunningServer, log: Path) -> list[Asked]:
    """Let a client of the REST catalog, Flight SQL and a job write beside the others."""
    client = PypaimonWriter(server, campaign.told.counts, log)
    campaign.others += [client, Ingester([server], campaign.told.counts), Copier(server, client.book, campaign.told.counts)]
    return [client.client]


def _rounds(campaign: Campaign, kills: int, victims: list[str]) -> None:
    try:
        for number in range(kills):
            campaign.round(number, victims, longest=4.0)
            print(number, campaign.told, flush=True)
    finally:
        print(campaign.told)


@pytest.mark.spark
@pytest.mark.slow
def test_a_kill(start_server: StartServer) -> None:
    server = start_server()
    _rounds(Campaign([server], dsn=lambda: embedded_dsn(server), seed=SEED, clients=4, renames=True), 1, [SERVER])


@pytest.mark.torture
@pytest.mark.timeout(36000)
def test_kills(start_server: StartServer) -> None:
    _run(start_server, kills=KILLS, seed=SEED + 1)


@pytest.mark.torture
@pytest.mark.timeout(36000)
def test_kills_beside_renames(start_server: StartServer) -> None:
    _run(start_server, kills=KILLS, seed=SEED + 2, renames=True)


@pytest.mark.slow
def test_kills_while_a_table_is_taken_back_branched_and_dropped(start_server: StartServer) -> None:
    server = start_server()
    _rounds(Campaign([server], dsn=lambda: embedded_dsn(server), seed=SEED, clients=0), 3, [SERVER, POSTGRES])


@pytest.mark.torture
@pytest.mark.timeout(36000)
def test_many_kills_while_a_table_is_taken_back_branched_and_dropped(start_server: StartServer) -> None:
    server = start_server()
    _rounds(Campaign([server], dsn=lambda: embedded_dsn(server), seed=SEED + 4, clients=0), KILLS, [SERVER, POSTGRES])


@pytest.mark.torture
@pytest.mark.interop
@pytest.mark.timeout(36000)
def test_kills_beside_other_protocols_and_a_job(start_server: StartServer, tmp_path: Path) -> None:
    if not PYPAIMON.exists():
        pytest.skip("pypaimon cannot be had here: run `make pypaimon`.")
    server = start_server(SLUICE_LISTEN=f"127.0.0.1:{free_port()}")
    campaign = Campaign([server], dsn=lambda: embedded_dsn(server), seed=SEED + 5, clients=2)
    clients = _with_others(campaign, server, tmp_path / "pypaimon.log")
    try:
        _rounds(campaign, KILLS, [SERVER, SERVER, SPARK, POSTGRES])
    finally:
        for client in clients:
            client.close()


@pytest.mark.torture
@pytest.mark.timeout(36000)
def test_kills_of_two_servers(start_server: StartServer, dsn: str, tmp_path: Path) -> None:
    shared = {"SLUICE_CATALOG_DSN": dsn, "SLUICE_WAREHOUSE": str(tmp_path / "warehouse")}
    servers = [start_server(name, **shared) for name in ("first", "second")]
    campaign = Campaign(servers, dsn=lambda: dsn, seed=SEED + 3, clients=6, renames=True)
    _rounds(campaign, KILLS, [SERVER, SERVER, SPARK])
