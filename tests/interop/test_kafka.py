"""Topics of a real broker as tables, read and written in SQL."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from tests.fix_kafka import Broker
from tests.running import Refused, RunningServer
from tests.short import short
from tests.torture.job_campaign import until

pytestmark = pytest.mark.interop


@pytest.fixture
def ask(kafka_server: RunningServer, broker: Broker) -> Any:
    """Runs statements one after the other, with ``{with}`` in their text for the broker's options; the last one's rows."""

    def run(text: str) -> list[list[Any]]:
        return kafka_server.sql(text.replace("{kafka}", f"'connector' = 'kafka', 'properties.bootstrap.servers' = '{broker.address}'"))

    return run


EARLY = "'scan.startup.mode' = 'earliest-offset'"


def test_a_topic_of_json_is_read_with_its_metadata_and_keys(ask: Any, broker: Broker) -> None:
    broker.create("orders", 2)
    values: list[dict[str, Any]] = [
        {"id": n, "ts": f"2024-05-01 08:00:0{n}.25", "tags": ["a", None], "inner": {"x": n / 2}} for n in range(4)
    ]
    broker.produce(
        "orders",
        [
            {
                "value": json.dumps(v),
                "key": json.dumps({"shop": "s"}),
                "partition": v["id"] % 2,
                "headers": [("h", b"\x01")],
                "timestamp": 1000 + v["id"],
            }
            for v in values
        ],
    )
    broker.produce("orders", [{"value": None, "key": b"{}", "partition": 0}])
    columns = """k_shop STRING, id INT, ts TIMESTAMP(3), tags ARRAY<STRING>, `inner` ROW<x DOUBLE>, 
        p INT METADATA FROM 'partition' VIRTUAL, o BIGINT METADATA FROM 'offset', at TIMESTAMP_LTZ(3) METADATA FROM 'timestamp',
        `timestamp-type` STRING METADATA, topic STRING METADATA,
        headers MAP<STRING, BYTES> METADATA, WATERMARK FOR ts AS ts - INTERVAL '5' SECOND"""
    options = f"""{{kafka}}, 'topic' = 'orders', 'value.format' = 'json', 'key.format' = 'json',
        'key.fields' = 'k_shop', 'key.fields-prefix' = 'k_',
        'value.fields-include' = 'EXCEPT_KEY', {EARLY}"""
    rows = ask(f"CREATE TEMPORARY TABLE o ({columns}) WITH ({options}); SELECT * FROM o ORDER BY id")
    assert [row[:8] for row in rows] == [
        ["s", n, f"2024-05-01T08:00:0{n}.250", ["a", None], {"x": n / 2}, n % 2, n // 2, f"1970-01-01T00:00:01.00{n}Z"] for n in range(4)
    ]
    assert rows[0][8:] == ["CreateTime", "orders", [["h", "AQ=="]]]
    table = f"CREATE TEMPORARY TABLE o ({columns}) WITH ({options});"
    for hint, ids in (
        ("'scan.startup.mode' = 'timestamp', 'scan.startup.timestamp-millis' = '1002'", [2, 3]),
        (
            "'scan.startup.mode' = 'specific-offsets', 'scan.startup.specific-offsets' = 'partition:0,offset:1;partition:1,offset:0'",
            [1, 2, 3],
        ),
        ("'scan.bounded.mode' = 'specific-offsets', 'scan.bounded.specific-offsets' = 'partition:0,offset:1;partition:1,offset:1'", [0, 1]),
        ("'scan.bounded.mode' = 'timestamp', 'scan.bounded.timestamp-millis' = '1002'", [0, 1]),
    ):
        assert ask(f"{table} SELECT id FROM o /*+ OPTIONS({hint}) */ ORDER BY id") == [[n] for n in ids], hint
    windows = (
        "SELECT window_end, count(*) FROM TABLE(TUMBLE(TABLE o, DESCRIPTOR(ts), INTERVAL '2' SECOND)) GROUP BY window_start, window_end"
    )
    assert ask(f"{table} {windows} ORDER BY 1") == [["2024-05-01T08:00:02.000000", 2], ["2024-05-01T08:00:04.000000", 2]]


@pytest.mark.parametrize("form", short(["json", "csv", "avro"], ["json", "avro"]))
def test_what_is_written_is_read_back(ask: Any, broker: Broker, form: str) -> None:
    broker.create(f"back_{form}")
    nested = "" if form == "csv" else ", r ROW<x INT, y ARRAY<STRING>>, m MAP<STRING, INT>"
    more = "" if form == "csv" else ", named_struct('x', 1, 'y', array('p', NULL)), map('k', 7)"
    columns = f"id INT, s STRING, d DECIMAL(9, 2), t TIMESTAMP(3), l TIMESTAMP_LTZ(3), b BOOLEAN, f DOUBLE, day DATE{nested}"
    rows = ask(
        f"""CREATE TEMPORARY TABLE k ({columns}, headers MAP<STRING, BYTES> METADATA) WITH ({{kafka}},
              'topic' = 'back_{form}', 'format' = '{form}',
              'key.format' = 'raw', 'key.fields' = 's', {EARLY});
            INSERT INTO k SELECT 7, 'a,"ü', 12.50, TIMESTAMP '2024-05-01 08:30:00.123', TIMESTAMP_LTZ '1969-12-31 23:59:59.5', true,
              1.5, DATE '2024-02-29'{more}, map('h', X'01');
            INSERT INTO k SELECT 8, 'x', NULL, NULL, NULL, NULL, NULL, NULL{", NULL, NULL" if nested else ""}, NULL;
            SELECT * FROM k ORDER BY id"""
    )
    expected = [7, 'a,"ü', 12.5, "2024-05-01T08:30:00.123", "1969-12-31T23:59:59.500Z", True, 1.5, "2024-02-29"]
    assert [float(v) if index == 2 else v for index, v in enumerate(rows[0][:8])] == expected
    assert rows[0][-1] == [["h", "AQ=="]]
    if nested:
        assert rows[0][8:10] == [{"x": 1, "y": ["p", None]}, [["k", 7]]]
    assert rows[1][:3] == [8, "x", None]
    first = broker.consume(f"back_{form}", 1)[0]
    assert first.key() == 'a,"ü'.encode()
    if form == "json":
        assert json.loads(first.value())["t"] == "2024-05-01 08:30:00.123000"


@pytest.fixture(scope="module")
def bounded(broker: Broker) -> str:
    """What a text begins with that reads b: six records in two partitions, a millisecond apart."""
    broker.create("bounded", 2)
    broker.produce("bounded", [{"value": json.dumps({"a": n}), "partition": n % 2, "timestamp": 1000 + n} for n in range(6)])
    return f"CREATE TEMPORARY TABLE b (a INT) WITH ({{kafka}}, 'topic' = 'bounded', 'format' = 'json', {EARLY});"


def up_to(offsets: str, start: str = "") -> str:
    hint = f"/*+ OPTIONS({start}'scan.bounded.mode' = 'specific-offsets', 'scan.bounded.specific-offsets' = '{offsets}') */"
    return f"SELECT a FROM b {hint} ORDER BY a"


def test_a_bound_that_is_not_there_yet_is_refused(ask: Any, bounded: str) -> None:
    """Flink waits for it; of a partition that is not named neither reads anything."""

    def read(offsets: str, start: str = "") -> Any:
        return ask(f"{bounded} {up_to(offsets, start)}")

    assert read("partition:0,offset:3;partition:1,offset:1") == [[0], [1], [2], [4]]
    assert read("partition:1,offset:2") == [[1], [3]]
    start = "'scan.startup.mode' = 'specific-offsets', 'scan.startup.specific-offsets' = 'partition:0,offset:2;partition:1,offset:0', "
    assert read("partition:0,offset:1;partition:1,offset:2", start) == [[1], [3]]
    with pytest.raises(Refused, match=r"names offset 4 of partition 1, which ends at 3: nobody waits"):
        read("partition:0,offset:3;partition:1,offset:4")
    with pytest.raises(Refused, match="names partition 2, which topic bounded does not have"):
        read("partition:2,offset:1")


@pytest.mark.parametrize(("millis", "found"), short([(1001, [1, 2]), (1004, []), (1_000_000, [])], [(1_000_000, [])]))
def test_a_start_by_time_may_lie_behind_the_bound(ask: Any, bounded: str, millis: int, found: list[int]) -> None:
    start = f"'scan.startup.mode' = 'timestamp', 'scan.startup.timestamp-millis' = '{millis}', "
    assert ask(f"{bounded} {up_to('partition:0,offset:2;partition:1,offset:1', start)}") == [[n] for n in found]
    hint = f"/*+ OPTIONS({start}'scan.bounded.mode' = 'timestamp', 'scan.bounded.timestamp-millis' = '1003') */"
    assert ask(f"{bounded} SELECT a FROM b {hint} ORDER BY a") == [[n] for n in range(6) if millis <= 1000 + n < 1003]


HELD_BACK = "SELECT a FROM b {hint} GROUP BY a"


@pytest.mark.parametrize("query", short(["SELECT a FROM b {hint}", HELD_BACK], [HELD_BACK]))
def test_a_job_up_to_a_bound_that_is_not_there_yet_is_refused(ask: Any, broker: Broker, query: str) -> None:
    """It was FINISHED without the records that came later, and nothing told that they were missing."""
    topic = f"bounded_{len(query)}"
    broker.create(topic, 1)
    broker.produce(topic, [{"value": json.dumps({"a": n})} for n in range(3)])
    ask(f"CREATE TABLE {topic} (a INT)")
    table = f"CREATE TEMPORARY TABLE b (a INT) WITH ({{kafka}}, 'topic' = '{topic}', 'format' = 'json', {EARLY});"

    def insert(offsets: str) -> Any:
        hint = f"/*+ OPTIONS('scan.bounded.mode' = 'specific-offsets', 'scan.bounded.specific-offsets' = '{offsets}') */"
        return ask(f"SET 'execution.runtime-mode' = 'streaming'; {table} INSERT INTO {topic} {query.format(hint=hint)}")

    with pytest.raises(Refused, match=r"names offset 4 of partition 0, which ends at 3: nobody waits"):
        insert("partition:0,offset:4")
    with pytest.raises(Refused, match=f"names partition 7, which topic {topic} does not have"):
        insert("partition:7,offset:1")
    insert("partition:0,offset:2")
    until(lambda: sorted(ask(f"SELECT a FROM {topic}")) == [[0], [1]], seconds=120, what=lambda: ask("SHOW JOBS"))


def test_what_does_not_parse_is_an_error_or_ignored(ask: Any, broker: Broker) -> None:
    broker.create("bad")
    broker.produce("bad", [{"value": v} for v in (b'{"a": 1}', b"no json", b'{"a": "x", "b": "fine"}', b"{}")])
    table = f"CREATE TEMPORARY TABLE b (a INT, b STRING) WITH ({{kafka}}, 'topic-pattern' = 'ba.', 'format' = 'json', {EARLY}"
    with pytest.raises(Refused, match=r"(?i)malformed"):
        ask(f"{table}); SELECT * FROM b")
    rows = ask(f"{table}, 'json.ignore-parse-errors' = 'true'); SELECT * FROM b")
    assert sorted(rows, key=str) == sorted([[1, None], [None, "fine"], [None, None]], key=str)
    raw = f"CREATE TEMPORARY TABLE r (line STRING) WITH ({{kafka}}, 'topic' = 'bad', 'format' = 'raw', {EARLY});"
    assert ask(f"{raw} SELECT count(*), max(line) FROM r") == [[4, "{}"]]


def test_a_start_is_asked_for_and_a_broker_that_is_away_is_told(ask: Any, kafka_server: RunningServer) -> None:
    with pytest.raises(Refused, match=r"scan\.startup\.mode"):
        ask("CREATE TEMPORARY TABLE x (a INT) WITH ({kafka}, 'topic' = 'x', 'format' = 'json'); SELECT * FROM x")
    shown = kafka_server.sql(
        """CREATE TEMPORARY TABLE x (a INT) WITH ('connector' = 'kafka', 'topic' = 'x', 'format' = 'json',
           'properties.bootstrap.servers' = 'h:1', 
           'properties.sasl.jaas.config' = 'org.apache.kafka.common.security.plain.PlainLoginModule required password="p";');
           SHOW CREATE TABLE x"""
    )[0][0]
    assert "password=" not in shown
    assert httpx.get(f"{kafka_server.url}/livez").status_code == 200
