"""Each session option that has an effect here has it by SET in a text, by a request's settings, and in a session of Flink's protocol."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable, Iterator

import pytest
from flask.testing import FlaskClient

from gateway.gateway import Gateway, GatewayLimits
from lake import Lake
from sql.execution.session_settings import DML_SYNC, SQL_OPTIONS
from sql.spark.streaming.streams import StartPositions
from tests.fix_gateway import NoSpark
from tests.gateway.held import Held
from tests.server.flink.test_protocol import ask, body_of, submit
from workers.pool import WorkerPool

JOB = "INSERT INTO u SELECT id FROM t"
HINTED = "SELECT id FROM t /*+ OPTIONS('scan.snapshot-id' = '1') */"
SOON = f"{dt.datetime.now(dt.UTC) + dt.timedelta(hours=1):%Y-%m-%d %H:%M:%S}"
ZONED = f"SELECT file_path FROM t$files /*+ OPTIONS('scan.timestamp' = '{SOON}') */"
"""In Tokyo that time was eight hours ago, before the table was there."""
STREAMING = {"execution.runtime-mode": "streaming"}
Observe = Callable[[str, Lake], object]
"""What is seen of a statement's answer, and of the job it may have started."""


def setting_of_job(key: str) -> Observe:
    return lambda _, lake: lake.jobs.all()[0].settings.get(key)


def in_answer(word: str) -> Observe:
    return lambda answer, _: word in answer


CASES: dict[str, tuple[str, str, Observe, object]] = {
    "table.local-time-zone": ("Asia/Tokyo", ZONED, in_answer(".parquet"), False),
    "execution.runtime-mode": ("streaming", "SELECT count(*) FROM t", in_answer("There is no Spark in this test"), True),
    "execution.checkpointing.interval": ("7 s", JOB, setting_of_job("execution.checkpointing.interval"), "7 s"),
    "restart-strategy.exponential-delay.initial-backoff": (
        "2 s", JOB, setting_of_job("restart-strategy.exponential-delay.initial-backoff"), "2 s",
    ),
    "restart-strategy.exponential-delay.max-backoff": ("3 s", JOB, setting_of_job("restart-strategy.exponential-delay.max-backoff"), "3 s"),
    "job.bad-rows": ("bad", JOB, setting_of_job("job.bad-rows"), "bad"),
    "pipeline.name": ("mine", JOB, lambda _, lake: lake.jobs.all()[0].name, "mine"),
    "statement.timeout": ("300 ms", "SELECT held()", in_answer("limit of 0.3 s"), True),
    "table.dynamic-table-options.enabled": (
        "false", HINTED, in_answer("has an OPTIONS hint, and 'table.dynamic-table-options.enabled' is 'false'"), True,
    ),
}  # fmt: skip
"""A value, a statement, and what is seen of it with the value."""


@pytest.fixture
def gateway(lake: Lake, spark_stub: NoSpark, workers: WorkerPool, monkeypatch: pytest.MonkeyPatch) -> Iterator[Gateway]:
    made = Gateway(lake, spark_stub, limits=GatewayLimits(local_threads=4, spark_statements=1), workers=workers)
    made.start()
    for text in (
        "CREATE TABLE t (id INT)",
        "CREATE TABLE u (id INT)",
        "CREATE TABLE bad (job STRING, source STRING, batch BIGINT, error STRING)",
        "INSERT INTO t VALUES (1)",
    ):
        made.run(text).close()
    monkeypatch.setattr("sql.spark.streaming.job_query.check", lambda *_: StartPositions())
    yield made
    made.close()


def by_text(client: FlaskClient, settings: dict[str, str], statement: str) -> str:
    text = "; ".join([*(f"SET '{key}' = '{value}'" for key, value in settings.items()), statement])
    return str(client.post("/sql", data=text).text)


def by_settings(client: FlaskClient, settings: dict[str, str], statement: str) -> str:
    return str(client.post("/sql", json={"statement": statement, "settings": settings}).text)


def by_session(client: FlaskClient, settings: dict[str, str], statement: str) -> str:
    session = str(body_of(ask(client, "POST", "/v2/sessions"))["sessionHandle"])
    texts = [*(f"SET '{key}' = '{value}'" for key, value in settings.items()), statement]
    for text in texts:
        operation = submit(client, session, text)
        answer = ask(client, "GET", f"/v2/sessions/{session}/operations/{operation}/result/0")
        while answer.status_code == 200 and answer.json and answer.json["resultType"] == "NOT_READY":
            answer = ask(client, "GET", f"/v2/sessions/{session}/operations/{operation}/result/0")
    return str(answer.text)


def test_every_option_that_is_not_the_clients_own_has_a_case() -> None:
    assert {option.key for option in SQL_OPTIONS if not (option.kept or option is DML_SYNC)} == set(CASES)


@pytest.mark.parametrize("way", [by_text, by_settings, by_session])
@pytest.mark.parametrize("key", sorted(CASES))
def test_an_option_has_its_effect_however_it_is_set(
    client: FlaskClient, lake: Lake, held: Callable[..., Held], key: str, way: Callable[[FlaskClient, dict[str, str], str], str]
) -> None:
    stuck = held()
    value, statement, observe, expected = CASES[key]
    streaming = STREAMING if statement == JOB else {}
    assert observe(way(client, {**streaming, key: value}, statement), lake) == expected
    stuck.let_go.set()
    assert observe(way(client, streaming, statement), lake) != expected


@pytest.mark.parametrize(
    "text",
    [
        "SELECT id FROM t /*+ OPTIONS('scan.snapshot-id' = '1') */",
        "INSERT INTO t /*+ OPTIONS('write-buffer-size' = '1 mb') */ VALUES (2)",
        "SELECT * FROM t$files /*+ OPTIONS('scan.snapshot-id' = '1') */",
        "EXPLAIN SELECT id FROM t /*+ OPTIONS('scan.snapshot-id' = '1') */",
        "CREATE VIEW w AS SELECT id FROM t /*+ OPTIONS('scan.snapshot-id' = '1') */",
        "INSERT INTO u SELECT id FROM t /*+ OPTIONS('scan.snapshot-id' = '1') */",
    ],
)
def test_where_hints_are_switched_off_none_is_taken(client: FlaskClient, text: str) -> None:
    off = "SET 'table.dynamic-table-options.enabled' = 'false'"
    answer = client.post("/sql", data=f"{off}; {text}")
    assert (answer.status_code, json.loads(answer.data)["errorClass"]) == (400, "AnalysisError")
    assert "leave the hint out, or SET the option to 'true'" in answer.text
    assert client.post("/sql", data=f"{off}; SELECT id FROM t").json["rows"] == [[1]]  # type: ignore[index]
