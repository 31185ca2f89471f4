"""Golden windows: TUMBLE, HOP and CUMULATE over every start, bound and layout that ends, as the model says.

`make test` has windows without the model: `tests/sql/spark/test_windows.py`, `tests/jobs/test_bounded_windows.py`.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from lake import Lake
from model.identifier import Identifier
from tests.following import patiently, streamed
from tests.running import RunningServer
from tests.server.golden_model import WINDOWS, History, Row, Windows, windows
from tests.server.streams.golden import LAYOUTS, Made, history, streams
from tests.server.streams.golden_windows import counted, query
from tests.waiting import eventually

pytestmark = [pytest.mark.spark, pytest.mark.slow]
AT_ONCE = 2
Asked = tuple[str, dict[str, str], Windows]
"""The window's kind, the source's options, what comes."""


def ending(made: Made, layout: str) -> list[tuple[dict[str, str], list[Row]]]:
    """Every start and bound that ends, and the rows it gives."""
    model = History(made.steps)
    ends = [(options, given.parts) for options, given in streams(made, layout, one_in=1) if given.ends]
    followed = [(options, [row for part in parts for row in part]) for options, parts in ends]
    return [*followed, *(({"scan.bounded": "true", **read}, list(model.read(read))) for read in bounded(made))]


def bounded(made: Made) -> list[dict[str, str]]:
    """What is read once and not followed: a snapshot, what was there at a time, what came between two snapshots or times."""
    ids = [step.id for step in made.steps]
    times = [step.millis for step in made.steps]
    found = [{"scan.snapshot-id": str(id_)} for id_ in ids] + [{"scan.timestamp-millis": str(at)} for at in times]
    for first in range(len(ids)):
        for last in range(first + 1, len(ids)):
            found.append({"incremental-between": f"{ids[first]},{ids[last]}"})
            found.append({"incremental-between-timestamp": f"{times[first]},{times[last]}"})
    return [{}, *found]


def by_select(server: RunningServer, table: Identifier, kind: str, options: dict[str, str]) -> Windows:
    return counted(streamed(server.url, query(kind, str(table), options)))


def by_job(server: RunningServer, table: Identifier, kind: str, options: dict[str, str], number: int) -> Windows:
    into = f"{table}_{kind}_{number}"
    server.sql(
        f"DROP TABLE IF EXISTS {into} PURGE; CREATE TABLE {into} (window_start TIMESTAMP(3), window_end TIMESTAMP(3), k INT, n BIGINT)"
    )
    body = f"INSERT INTO {into} {query(kind, str(table), options)}".encode()
    answer = patiently(lambda: httpx.post(f"{server.url}/sql?mode=streaming", content=body, timeout=300))
    assert answer.status_code == 200, (options, answer.text)
    ((job_id,),) = answer.json()["rows"]
    assert eventually(lambda: server.sql(f"DESCRIBE JOB '{job_id}'")[0][2] in ("FINISHED", "FAILED"), 300), options
    described = server.sql(f"DESCRIBE JOB '{job_id}'")[0]
    assert described[2] == "FINISHED", (options, described)
    rows = server.sql(f"SELECT window_start, window_end, k, n FROM {into}")
    return counted([dict(zip(("window_start", "window_end", "k", "n"), row, strict=True)) for row in rows])


def agrees(server: RunningServer, lake: Lake, layout: str, *, one_in: int, jobs_one_in: int) -> None:
    """Compare one in so many of the windows of a layout, others with each layout, and of those one in so many by a job."""
    at = list(LAYOUTS).index(layout)
    table = Identifier("default", f"golden_windows_{at}_{one_in}")
    made = history(lake, server.url, layout, table, timed=True)
    every: list[Asked] = [(kind, options, windows(kind, rows)) for options, rows in ending(made, layout) for kind in WINDOWS]
    chosen = every[at % one_in :: one_in]
    assert {kind for kind, _, _ in chosen} == WINDOWS.keys()
    assert any(expected for _, _, expected in chosen)

    def compare(numbered: tuple[int, Asked]) -> None:
        number, (kind, options, expected) = numbered
        assert by_select(server, table, kind, options) == expected, (kind, options)
        if number % jobs_one_in == 0:
            assert by_job(server, table, kind, options, number) == expected, (kind, options)

    with ThreadPoolExecutor(AT_ONCE) as threads:
        list(threads.map(compare, enumerate(chosen)))
    assert made.known_whole()


@pytest.mark.torture
@pytest.mark.parametrize("short", ["buckets of partitions", "no buckets"])
def test_some_windows_are_the_models(shared: tuple[RunningServer, Lake], short: str) -> None:
    agrees(*shared, short, one_in=311, jobs_one_in=4)


@pytest.mark.torture
@pytest.mark.timeout(14400)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_all_windows_are_the_models(shared: tuple[RunningServer, Lake], layout: str) -> None:
    agrees(*shared, layout, one_in=1, jobs_one_in=20)
