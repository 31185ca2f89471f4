"""Golden windows over topics: TUMBLE, HOP and CUMULATE from every start to every bound, as the model says."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable, Mapping
from itertools import product

import pytest

from tests.fix_kafka import Broker
from tests.following import streamed
from tests.running import RunningServer
from tests.server.golden_model import WINDOWS, Row, seconds, windows
from tests.server.streams.golden import START
from tests.server.streams.golden_windows import counted, query

pytestmark = [pytest.mark.spark, pytest.mark.slow]
TOPIC = "golden_windows"
MILLIS = 1_714_557_600_000
"""The time of the first record, as the broker has it."""
RECORDS: Mapping[int, list[Row]] = {p: [(n, n % 3, p) for n in range(p, 40, 2)][: 20 - 5 * p] for p in (0, 1)}
"""What lies in each partition; the second is shorter."""
Taken = Callable[[int, int, int], bool]
"""Whether a record is read, by its partition, its offset and its time in milliseconds."""


def offsets(first: int, second: int) -> str:
    return f"partition:0,offset:{first};partition:1,offset:{second}"


STARTS: Mapping[str, tuple[dict[str, str], Taken]] = {
    "earliest-offset": ({}, lambda p, o, t: True),
    "timestamp": ({"scan.startup.timestamp-millis": str(MILLIS + 10)}, lambda p, o, t: t >= MILLIS + 10),
    "group-offsets": ({"properties.auto.offset.reset": "latest"}, lambda p, o, t: False),
    "specific-offsets": ({"scan.startup.specific-offsets": offsets(3, 6)}, lambda p, o, t: o >= (3, 6)[p]),
    "latest-offset": ({}, lambda p, o, t: False),
}
BOUNDS: Mapping[str, tuple[dict[str, str], Taken]] = {
    "latest-offset": ({}, lambda p, o, t: True),
    "timestamp": ({"scan.bounded.timestamp-millis": str(MILLIS + 25)}, lambda p, o, t: t < MILLIS + 25),
    "specific-offsets": ({"scan.bounded.specific-offsets": offsets(8, 15)}, lambda p, o, t: o < (8, 15)[p]),
}
EVERY = list(product(STARTS, BOUNDS, WINDOWS))
SHORT = EVERY[1::10]


@pytest.fixture(scope="module")
def topic(kafka_server: RunningServer, broker: Broker) -> RunningServer:
    """A server with a topic of two partitions, whose records' event time and own time grow with their offsets."""
    broker.create(TOPIC, 2)
    for partition, rows in RECORDS.items():
        sent = []
        for row in rows:
            value = {"id": row[0], "k": row[1], "ts": str(START + dt.timedelta(seconds=seconds(row)))}
            sent.append({"value": json.dumps(value), "partition": partition, "timestamp": MILLIS + row[0]})
        broker.produce(TOPIC, sent)
    options = f"'connector' = 'kafka', 'topic' = '{TOPIC}', 'properties.bootstrap.servers' = '{broker.address}', 'format' = 'json'"
    kafka_server.sql(
        f"CREATE TABLE {TOPIC} (id BIGINT, k INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '5' SECOND)"
        f" WITH ({options}, 'scan.startup.mode' = 'earliest-offset')"
    )
    return kafka_server


@pytest.mark.parametrize(
    ("start", "bound", "kind"), [pytest.param(*each, marks=[] if each in SHORT else pytest.mark.torture) for each in EVERY]
)
def test_windows_of_a_topic_are_the_models(topic: RunningServer, start: str, bound: str, kind: str) -> None:
    options = {"scan.startup.mode": start, **STARTS[start][0], "scan.bounded.mode": bound, **BOUNDS[bound][0]}
    taken = [
        row
        for partition, rows in RECORDS.items()
        for offset, row in enumerate(rows)
        if STARTS[start][1](partition, offset, MILLIS + row[0]) and BOUNDS[bound][1](partition, offset, MILLIS + row[0])
    ]
    assert counted(streamed(topic.url, query(kind, TOPIC, options))) == windows(kind, taken)
