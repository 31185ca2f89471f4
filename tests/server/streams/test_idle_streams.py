"""What streams that wait for rows ask of Postgres: as much for many as for one."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from catalog import CatalogStore
from gateway.gateway import Gateway, GatewayLimits
from lake import Lake
from tests.fix_postgres_proxy import PostgresProxy
from tests.following import Follower
from tests.server.conftest import NoSpark
from tests.server.streams.test_streams import QUEUE, insert, sql
from workers.pool import WorkerPool

_SECONDS = 2.0
_STREAM = "SELECT {columns} FROM t /*+ OPTIONS('scan.mode' = 'latest', 'continuous.discovery-interval' = '200 ms') */"


@pytest.fixture
def gateway(postgres_proxy: PostgresProxy, tmp_path: Path, workers: WorkerPool) -> Iterator[Gateway]:
    """The server's, with a proxy before Postgres."""
    catalog = CatalogStore(postgres_proxy.dsn)
    lake = Lake(catalog, str(tmp_path / "warehouse"))
    made = Gateway(lake, NoSpark(), limits=GatewayLimits(local_threads=4, spark_statements=1), workers=workers)
    made.start()
    yield made
    made.close()
    lake.close()
    catalog.close()


def asked(proxy: PostgresProxy) -> Counter[str]:
    """What is asked of Postgres in some seconds, and how often."""
    proxy.reset()
    time.sleep(_SECONDS)
    return Counter(proxy.asked())


def test_many_streams_of_a_table_that_wait_ask_no_more_than_one(url: str, postgres_proxy: PostgresProxy) -> None:
    sql(url, QUEUE)
    with ExitStack() as opened:
        streams = [opened.enter_context(Follower(url, _STREAM.format(columns="id")))]
        assert streams[0].silent(1.0)
        of_one = asked(postgres_proxy)
        for number in range(20):  # also of other texts, which read for themselves
            columns = ("id", "word", "id, word", "word AS w")[number % 4]
            streams.append(opened.enter_context(Follower(url, _STREAM.format(columns=columns))))
        assert all(stream.silent(0.1) for stream in streams)
        of_all = asked(postgres_proxy)
        assert of_one.total() >= _SECONDS, "the one does not look by itself"
        assert of_all.total() <= 2.5 * of_one.total() + 10, (of_one, of_all)  # which had less of the processor, perhaps
        insert(url, 1)
        assert all(len(stream.rows(1)) == 1 for stream in streams)
