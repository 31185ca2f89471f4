"""Columns as Spark writes them for every reader."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import types as st

from model.schema.schema import column, new_schema
from sql.spark.write.assign import physical

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("called", ["TIMESTAMP_NTZ", "TIMESTAMP_LTZ"])
def test_a_timestamps_unit_does_not_hang_on_whose_session_is_active(spark: SparkSession, called: str) -> None:
    """Java Paimon takes TIMESTAMP(3) for milliseconds; of a name like "timestamp" the active session's settings say what it is."""
    schema = new_schema([column(f"t{precision}", f"TIMESTAMP({precision})") for precision in (0, 3, 6)])
    session = spark.newSession()
    session.conf.set("spark.sql.timestampType", called)
    sessions = spark._jvm.SparkSession  # type: ignore[union-attr] # a JVM runs
    frame = session.sql(
        "SELECT TIMESTAMP_NTZ '2024-02-29 12:34:56' AS t0, TIMESTAMP_NTZ '2024-02-29 12:34:56.123' AS t3, current_date AS t6"
    )
    sessions.setActiveSession(session._jsparkSession)
    try:
        types = [field.dataType for field in frame.select(*physical(frame, schema)).schema.fields]
    finally:
        sessions.clearActiveSession()
    assert types == [st.TimestampType(), st.TimestampType(), st.TimestampNTZType()]
