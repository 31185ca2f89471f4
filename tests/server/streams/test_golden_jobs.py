"""Golden streams of jobs: each is a streaming INSERT on a real server, and what it wrote is what the model says.

`make test` asks the model of what SELECT and the source give (`test_golden`, `test_golden_source`), and runs jobs in `tests/jobs`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import httpx
import pytest

from lake import Lake
from model.identifier import Identifier
from tests.following import patiently
from tests.running import RunningServer
from tests.server.golden_model import Expected, History, Row
from tests.server.streams.golden import LAYOUTS, SENTINEL, Made, agree_by_place, ask, hint, history, streams
from tests.waiting import eventually

pytestmark = [pytest.mark.spark, pytest.mark.slow]
AT_ONCE = 6
Asked = tuple[dict[str, str], Expected]


@pytest.fixture(params=LAYOUTS)
def layout(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.mark.torture
@pytest.mark.parametrize("short", ["no buckets", "buckets of partitions"])
def test_some_jobs_write_what_the_model_says(shared: tuple[RunningServer, Lake], short: str) -> None:
    """One that ends and one that does not."""
    agrees(*shared, short, most=2)


@pytest.mark.torture
def test_jobs_write_what_the_model_says(shared: tuple[RunningServer, Lake], layout: str) -> None:
    """Two that end and one that does not with each layout, others with the next."""
    agrees(*shared, layout, most=3)


@pytest.mark.torture
@pytest.mark.timeout(7200)
def test_all_jobs_write_what_the_model_says(shared: tuple[RunningServer, Lake], layout: str) -> None:
    agrees(*shared, layout, most=None)


def agrees(server: RunningServer, lake: Lake, layout: str, *, most: int | None) -> None:
    number = list(LAYOUTS).index(layout)
    table = Identifier("default", f"golden_{most or 'all'}_{number}")
    made = history(lake, server.url, layout, table)
    every = streams(made, layout, one_in=1)
    ending = [asked for asked in every if asked[1].ends]
    endless = [asked for asked in every if not asked[1].ends]
    if most is not None:
        ending = ending[number :: len(ending) // (most - 1) - 1][: most - 1]
        endless = endless[number * 3 :: len(endless)][:1]
    for at in range(0, len(ending), AT_ONCE):
        ended(server, table, layout, ending[at : at + AT_ONCE])
    for at in range(0, len(endless), AT_ONCE):
        endless_ones(server, made, table, layout, endless[at : at + AT_ONCE])
    assert made.known_whole()


def job(server: RunningServer, table: Identifier, options: dict[str, str], number: int) -> str:
    """Start the job that copies a stream into a queue of its own."""
    ask(server.url, f"DROP TABLE IF EXISTS {into(table, number)} PURGE; CREATE TABLE {into(table, number)} (id BIGINT, k INT, p INT)")
    text = f"INSERT INTO {into(table, number)} SELECT id, k, p FROM {table} {hint(options)}"
    answer = patiently(lambda: httpx.post(f"{server.url}/sql?mode=streaming", content=text.encode(), timeout=300))
    assert answer.status_code == 200, (options, answer.text)
    ((job_id,),) = answer.json()["rows"]
    return str(job_id)


def into(table: Identifier, number: int) -> str:
    return f"{table}_into_{number}"


def described(server: RunningServer, job_id: str) -> list[Any]:
    return server.sql(f"DESCRIBE JOB '{job_id}'")[0]


def state(server: RunningServer, job_id: str) -> Any:
    return described(server, job_id)[2]


def over(server: RunningServer, job_id: str) -> bool:
    return state(server, job_id) in ("FINISHED", "FAILED")


def came(server: RunningServer, table: Identifier, number: int, rows: int) -> bool:
    return len(written(server, table, number)) >= rows


def written(server: RunningServer, table: Identifier, number: int) -> list[Row]:
    return [(id_, k, p) for id_, k, p in server.sql(f"SELECT id, k, p FROM {into(table, number)}")]


def ended(server: RunningServer, table: Identifier, layout: str, asked: Sequence[Asked]) -> None:
    jobs = [job(server, table, options, number) for number, (options, _) in enumerate(asked)]
    for number, (job_id, (options, expected)) in enumerate(zip(jobs, asked, strict=True)):
        assert eventually(partial(over, server, job_id), 300), (options, described(server, job_id))
        assert state(server, job_id) == "FINISHED", (options, described(server, job_id))
        agree_by_place(written(server, table, number), expected, layout, options)


def endless_ones(server: RunningServer, made: Made, table: Identifier, layout: str, asked: Sequence[Asked]) -> None:
    """Their rows until one that is committed when the jobs are answered; it stays, so the model is asked anew."""
    model = History(made.steps)
    asked = [(options, model.stream(options)) for options, _ in asked]
    jobs = [job(server, table, options, number) for number, (options, _) in enumerate(asked)]
    made.put([SENTINEL], None)
    for number, (job_id, (options, expected)) in enumerate(zip(jobs, asked, strict=True)):
        wanted = Expected(parts=(*expected.parts, (SENTINEL,)), ends=False)
        assert eventually(partial(came, server, table, number, sum(map(len, wanted.parts))), 300), (options, made.known_whole())
        server.sql(f"STOP JOB '{job_id}'")
        agree_by_place(written(server, table, number), wanted, layout, options)
