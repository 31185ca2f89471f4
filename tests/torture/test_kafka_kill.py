"""Kafka → table jobs under kill -9 of the server and of the broker: the table equals the topic."""

from __future__ import annotations

import json
import os
import random
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.fix_kafka import Broker
from tests.fix_server import StartServer
from tests.running import RunningServer
from tests.torture.job_campaign import job, start_job, until

pytestmark = [pytest.mark.spark, pytest.mark.torture]
SEED = int(os.environ.get("SLUICE_TEST_SEED", "20261121"))
TABLE = """CREATE TEMPORARY TABLE k (n BIGINT, part INT METADATA FROM 'partition' VIRTUAL) WITH ('connector' = 'kafka', 'topic' = 'numbers',
    'properties.bootstrap.servers' = '{address}', 'scan.startup.mode' = 'earliest-offset', 'format' = 'json')"""


class Producing:
    """Sends numbers to a topic until it is told to stop; a broker that is away is waited for."""

    def __init__(self, broker: Broker) -> None:
        from confluent_kafka import Producer

        self.sent = 0
        self._client: Any = Producer(
            {"bootstrap.servers": broker.address, "log_level": 0, "enable.idempotence": True, "message.timeout.ms": 600_000}
        )
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Producing:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(60)
        assert self._client.flush(120) == 0

    def _run(self) -> None:
        while not self._stop.is_set():
            for _ in range(20):
                self._client.produce("numbers", json.dumps({"n": self.sent}), partition=self.sent % 4)
                self.sent += 1
            self._client.poll(0.02)


def campaign(server: RunningServer, broker: Broker, kill: Callable[[], None], *, kills: int, seed: int) -> None:
    moments = random.Random(seed)
    broker.create("numbers", 4)
    server.sql("CREATE TABLE dst (n BIGINT, part INT)")
    job_id = start_job(server, f"{TABLE.format(address=broker.address)}; INSERT INTO dst SELECT n, part FROM k")
    with Producing(broker) as producing:
        for _ in range(kills):
            before = server.value("SELECT count(*) FROM dst")
            until(lambda before=before: server.value("SELECT count(*) FROM dst") > before, what=lambda: job(server, job_id))  # type: ignore[misc]
            time.sleep(moments.uniform(0.0, 2.0))
            kill()
    wanted = producing.sent
    until(lambda: server.value("SELECT count(*) FROM dst") >= wanted, what=lambda: (job(server, job_id), server.words()))
    rows = server.arrow("SELECT n, part FROM dst")
    numbers = rows.column("n").to_pylist()
    assert sorted(numbers) == list(range(wanted)), f"{len(numbers)} rows of {wanted}, {len(numbers) - len(set(numbers))} doubled"
    assert all(part == n % 4 for n, part in zip(numbers, rows.column("part").to_pylist(), strict=True))


@pytest.mark.timeout(7200)
def test_fifty_kills_of_the_server(start_server: StartServer, broker: Broker, kafka_jars: str) -> None:
    server = start_server(SLUICE_SPARK_JARS=kafka_jars)

    def kill() -> None:
        server.kill()
        server.start()

    campaign(server, broker, kill, kills=50, seed=SEED + 3)


@pytest.mark.timeout(1800)
def test_five_kills_of_the_broker(start_server: StartServer, broker: Broker, kafka_jars: str) -> None:
    def kill() -> None:
        broker.kill()
        time.sleep(2)
        broker.start()

    broker.admin().delete_topics(["numbers"])
    time.sleep(2)
    campaign(start_server(SLUICE_SPARK_JARS=kafka_jars), broker, kill, kills=5, seed=SEED + 4)
