"""Tables whose rows lie elsewhere, in batch."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.gateway import Gateway, GatewayLimits
from lake import Lake
from model.errors import InvalidOption
from sql.connectors import CONNECTORS
from sql.spark.session.pool import SparkPool

pytestmark = pytest.mark.spark


def test_every_connector_has_its_spark_side() -> None:
    from sql.spark.connectors import SPARK_CONNECTORS

    assert set(SPARK_CONNECTORS) == set(CONNECTORS)


DATAGEN = """CREATE TEMPORARY TABLE g (
  n BIGINT, i INT, t TINYINT, b BIGINT, x DOUBLE, d DECIMAL(6, 2), s STRING, c CHAR(5), v VARBINARY(4), o BOOLEAN, dt DATE, tm TIME,
  ts TIMESTAMP(3), l TIMESTAMP_LTZ(3), a ARRAY<INT>, m MAP<STRING, BIGINT>, r ROW<p INT, q STRING>, w STRING
) WITH ('connector' = 'datagen', 'number-of-rows' = '1000', 'fields.n.kind' = 'sequence', 'fields.n.start' = '5', 'fields.n.end' = '10000',
  'fields.i.min' = '1', 'fields.i.max' = '3', 'fields.d.min' = '0', 'fields.s.length' = '40', 'fields.r.p.max' = '7',
  'fields.r.p.min' = '7',
  'fields.w.null-rate' = '0.5', 'fields.ts.max-past' = '1 h', 'fields.a.length' = '4')"""


def test_datagen_makes_every_type_it_knows(lake: Lake, pool: SparkPool, tmp_path: Path) -> None:
    gateway = Gateway(lake, pool, limits=GatewayLimits(local_threads=2, spark_statements=1))
    gateway.start()
    try:
        session = gateway.open_session()
        gateway.run(DATAGEN, session=session).close()
        rows = gateway.run("SELECT * FROM g ORDER BY n", session=session).collect()
        assert [row[0] for row in rows] == list(range(5, 1005))
        assert {row[1] for row in rows} == {1, 2, 3}
        first = rows[0]
        assert (len(first[6]), len(first[7]), len(first[8]), len(first[14]), len(first[15])) == (40, 5, 4, 4, 3)
        assert 300 < sum(row[17] is None for row in rows) < 700
        assert all(0 <= row[5] < 10_000 for row in rows)
        again = gateway.run("SELECT * FROM g ORDER BY n", session=session).collect()
        assert [row[:10] + row[14:] for row in again] == [row[:10] + row[14:] for row in rows], "all but the times is the same each time"
        assert gateway.run("SELECT count(*) FROM g /*+ OPTIONS('number-of-rows' = '7') */", session=session).collect() == [(7,)]
        gateway.run("CREATE TEMPORARY TABLE e (a INT) WITH ('connector' = 'datagen')", session=session).close()
        with pytest.raises(InvalidOption, match="number-of-rows"):
            gateway.run("SELECT * FROM e", session=session)
    finally:
        gateway.close()
