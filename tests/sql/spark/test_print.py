"""Rows that become lines of the server's output are one line each, whatever they hold."""

from __future__ import annotations

import pytest

from gateway.gateway import Gateway, GatewayLimits
from lake import Lake
from sql.spark.session.pool import SparkPool

pytestmark = pytest.mark.spark


def test_a_row_forges_no_line_of_the_log(lake: Lake, pool: SparkPool, capsys: pytest.CaptureFixture[str]) -> None:
    gateway = Gateway(lake, pool, limits=GatewayLimits(local_threads=2, spark_statements=1))
    gateway.start()
    try:
        session = gateway.open_session()
        made = "CREATE TEMPORARY TABLE p (s STRING) WITH ('connector' = 'print', 'print-identifier' = 'x\ny', 'standard-error' = 'true')"
        gateway.run(made, session=session).close()
        gateway.run("INSERT INTO p SELECT concat('a', chr(10), '{\"level\":\"error\"}', chr(27), '[0m é')", session=session).close()
    finally:
        gateway.close()
    assert 'x\\ny> +I[a\\n{"level":"error"}\\x1b[0m é]\n' in capsys.readouterr().err
