"""A real Kafka broker: one KRaft node on loopback, from its own jars; and a server whose Spark can reach it."""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests import java
from tests.fix_memory import LastingPath
from tests.fix_server import few_partitions
from tests.running import RunningServer, free_port

BROKER = ("org.apache.kafka:kafka_2.13:4.1.1", "org.apache.logging.log4j:log4j-slf4j-impl:2.24.3")
_LOGGING = """<Configuration status="error"><Appenders><Console name="o"><PatternLayout pattern="%d %p %c %m%n"/></Console></Appenders>
<Loggers><Root level="WARN"><AppenderRef ref="o"/></Root></Loggers></Configuration>"""
_START_SECONDS = 240.0


class Broker:
    """A broker with a directory of its own; can be killed and started again on the same port."""

    def __init__(self, directory: Path, jars: Path) -> None:
        self.directory = directory
        self.address = f"127.0.0.1:{free_port()}"
        self._jars = jars
        self._process: subprocess.Popen[bytes] | None = None
        directory.mkdir(parents=True, exist_ok=True)
        controller = f"127.0.0.1:{free_port()}"
        settings = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@{controller}",
            "listeners": f"PLAINTEXT://{self.address},CONTROLLER://{controller}",
            "advertised.listeners": f"PLAINTEXT://{self.address}",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "log.dirs": str(directory / "data"),
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "log.retention.ms": "-1",  # tests send records of other years
            # A broker that is killed keeps what it has acknowledged.
            "log.flush.interval.messages": "10000",
        }
        (directory / "server.properties").write_text("\n".join(f"{key}={value}" for key, value in settings.items()))
        (directory / "log4j2.xml").write_text(_LOGGING)
        self._run("kafka.tools.StorageTool", "format", "-t", "MkU3OEVBNTcwNTJENDM2Qk", "-c", "server.properties")

    def _command(self, *words: str) -> list[str]:
        logging = f"-Dlog4j2.configurationFile=file:{self.directory / 'log4j2.xml'}"
        return ["java", "-Xmx512m", "-XX:TieredStopAtLevel=1", logging, "-cp", f"{self._jars}/*", *words]

    def _run(self, *words: str) -> None:
        subprocess.run(self._command(*words), cwd=self.directory, check=True, capture_output=True)

    def start(self) -> Broker:
        """Start it and wait until it answers."""
        with (self.directory / "broker.log").open("ab") as log:
            self._process = subprocess.Popen(self._command("kafka.Kafka", "server.properties"), cwd=self.directory, stdout=log, stderr=log)
        until = time.monotonic() + _START_SECONDS
        while time.monotonic() < until:
            if self._process.poll() is None and self._answers():
                return self
            time.sleep(0.2)
        raise RuntimeError(f"The broker did not start:\n{(self.directory / 'broker.log').read_text()[-2000:]}")

    def _answers(self) -> bool:
        host, port = self.address.split(":")
        with socket.socket() as probe:
            if probe.connect_ex((host, int(port))):
                return False
        try:
            return bool(self.admin().list_topics(timeout=2).brokers)
        except Exception:  # it listens before it is ready
            return False

    def kill(self) -> None:
        """Kill -9."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def admin(self) -> Any:
        """A client that manages topics."""
        from confluent_kafka.admin import AdminClient

        return AdminClient({"bootstrap.servers": self.address, "log_level": 0})

    def create(self, topic: str, partitions: int = 1) -> None:
        """Make a topic."""
        from confluent_kafka.admin import NewTopic  # type: ignore[attr-defined]

        client = self.admin()  # its answers end with it
        for made in client.create_topics([NewTopic(topic, partitions, 1)]).values():
            made.result()

    def produce(self, topic: str, records: Iterable[Mapping[str, Any]]) -> None:
        """Send records (value, key, partition, headers, timestamp) and wait until all are acknowledged."""
        from confluent_kafka import Producer

        failures: list[Any] = []
        client = Producer({"bootstrap.servers": self.address, "linger.ms": 20, "log_level": 0, "enable.idempotence": True})
        for number, record in enumerate(records):
            while True:
                try:
                    client.produce(topic, on_delivery=lambda error, _: failures.append(error) if error else None, **record)
                    break
                except BufferError:
                    client.poll(0.1)
            if number % 1000 == 0:
                client.poll(0)
        assert client.flush(120) == 0
        assert not failures, failures[:3]

    def consume(self, topic: str, count: int) -> list[Any]:
        """The first so many records of a topic."""
        from confluent_kafka import Consumer

        client = Consumer({"bootstrap.servers": self.address, "group.id": "test", "auto.offset.reset": "earliest", "log_level": 0})
        client.subscribe([topic])
        found: list[Any] = []
        until = time.monotonic() + 120
        while len(found) < count and time.monotonic() < until:
            found += [message for message in client.consume(count - len(found), 1.0) if not message.error()]
        client.close()
        return found


def broker_jars() -> Path:
    """The directory of the broker's jars, fetched where they are not there yet; skips the test where Maven cannot be had."""
    return java.jars(*BROKER)


@pytest.fixture(scope="session")
def kafka_jars() -> str:
    """What Spark needs for Kafka, as SLUICE_SPARK_JARS takes it."""
    script = Path(__file__).parents[1] / "scripts" / "kafka-jars"
    found = subprocess.run([str(script)], capture_output=True, text=True)
    if found.returncode:
        pytest.skip("Maven cannot be had here: Kafka is not run.")
    return found.stdout.strip()


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A running broker."""
    made = Broker(tmp_path_factory.mktemp("kafka"), broker_jars()).start()
    yield made
    made.kill()


@pytest.fixture(scope="session")
def kafka_server(lasting_path: LastingPath, kafka_jars: str) -> Iterator[RunningServer]:
    """A server whose Spark has the Kafka connector."""
    directory = lasting_path("server")
    server = RunningServer(directory, SLUICE_SPARK_JARS=kafka_jars, SLUICE_SPARK_CONF=str(few_partitions(directory))).start()
    yield server
    server.stop()
