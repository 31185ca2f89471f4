"""Who fills Spark with statements that do not end leaves the server to others: in what order answers come, not how fast."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from benchmarks.light import WORKS, ask, client_of
from tests.fix_server import StartServer
from tests.waiting import eventually

pytestmark = pytest.mark.spark
_COUNT = 12
_ENDLESS = "SELECT count(DISTINCT id % 1009) FROM range(0, 100000000000, 1, 10000)"
"""Ten thousand tasks of ten million rows: between two of them Spark's cores are somebody else's, if shares are kept."""


@pytest.mark.torture
@pytest.mark.slow
def test_a_light_user_is_answered_while_every_statement_of_a_heavy_one_still_runs_or_waits(start_server: StartServer) -> None:
    server = start_server(SLUICE_TOKEN="root")
    heavy, light = (client_of(server.url, name) for name in ("heavy", "light"))
    httpx.get(f"{server.url}/livez", timeout=60).raise_for_status()
    ask(light, "CREATE TABLE light (id BIGINT, s STRING)")
    ask(light, "SELECT sum(id * 2) FROM range(10)")  # waits until Spark runs
    with ThreadPoolExecutor(_COUNT) as threads:
        sent = [threads.submit(heavy.post, "/sql", content=_ENDLESS, headers={"X-Request-Id": f"heavy{at}"}) for at in range(_COUNT)]
        try:
            assert eventually(lambda: _heavy(server.url) == _COUNT, 120)
            for text in WORKS.values():
                ask(light, text)
            assert ask(light, "SELECT count(*) FROM light").json()["rows"] == [[10]]
            assert not any(one.done() for one in sent)
        finally:
            for at in range(_COUNT):
                heavy.delete(f"/statements/heavy{at}")
    heavy.close()
    light.close()


def _heavy(url: str) -> int:
    """How many statements the server knows that wait or run."""
    text = httpx.get(f"{url}/metrics", headers={"Authorization": "Bearer root"}, timeout=60).raise_for_status().text
    states = [line for line in text.splitlines() if line.startswith("sluice_statements{")]
    return round(sum(float(line.rpartition(" ")[2]) for line in states))
