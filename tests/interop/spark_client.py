"""A Spark with Paimon's module that does one statement a line; runs in an environment of its own, see `spark_paimon.py`."""

from __future__ import annotations

import json
import sys
import tempfile

from pyspark.sql import SparkSession


def session(given: str, jar: str, warehouse: str) -> SparkSession:
    """A session with the settings of docs/catalog.md, whose catalog ``sluice`` is the server; ``files`` is Paimon's own in a directory."""
    settings = {
        **json.loads(given),
        "spark.jars": jar,
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.catalog.files": "org.apache.paimon.spark.SparkCatalog",
        "spark.sql.catalog.files.warehouse": warehouse,
    }
    builder = SparkSession.builder.master("local[1]").appName("client")
    for key, value in settings.items():
        builder = builder.config(key, value)
    made = builder.getOrCreate()
    made.sparkContext.setLogLevel("ERROR")
    return made


def stream(spark: SparkSession, table: str) -> list[list[object]]:
    """All that a stream of the table reads from its first snapshot on, until there is nothing more."""
    found: list[list[object]] = []
    rows = spark.readStream.option("scan.mode", "from-snapshot-full").option("scan.snapshot-id", "1").table(table)
    query = rows.writeStream.foreachBatch(lambda batch, _: found.extend(list(row) for row in batch.collect())).trigger(availableNow=True)
    query.start().awaitTermination()
    return found


def write_past(spark: SparkSession, table: str, path: str) -> list[list[object]]:
    """Append the rows of a table to files, as a stream that is given a path and no table's name."""
    writing = spark.readStream.table(table).writeStream.format("paimon").option("checkpointLocation", tempfile.mkdtemp())
    writing.trigger(availableNow=True).start(path).awaitTermination()
    return []


def follow(spark: SparkSession, source: str, target: str) -> list[list[object]]:
    """Append the rows of a table to another in the catalog, batch by batch."""
    writing = spark.readStream.table(source).writeStream.option("checkpointLocation", tempfile.mkdtemp()).trigger(availableNow=True)
    writing.foreachBatch(lambda batch, _: batch.writeTo(target).append()).start().awaitTermination()
    return []


def to_table(spark: SparkSession, source: str, target: str) -> list[list[object]]:
    """The same by Spark's own word for it."""
    writing = spark.readStream.table(source).writeStream.option("checkpointLocation", tempfile.mkdtemp()).trigger(availableNow=True)
    writing.toTable(target).awaitTermination()
    return []


_STREAMS = {"past": write_past, "follow": follow, "to_table": to_table}


def main(given: str, jar: str, warehouse: str) -> None:
    """One request a line: a statement, ``stream <table>``, or one of `_STREAMS` with a table and where its rows go."""
    out, sys.stdout = sys.stdout, sys.stderr
    spark = session(given, jar, warehouse)
    for line in sys.stdin:
        text = json.loads(line)
        try:
            if text.startswith("stream "):
                answer: dict[str, object] = {"rows": stream(spark, text.removeprefix("stream "))}
            elif (writing := _STREAMS.get(text.partition(" ")[0])) is not None:
                answer = {"rows": writing(spark, *text.split()[1:])}
            else:
                answer = {"rows": [list(row) for row in spark.sql(text).collect()]}
        except Exception as problem:  # whatever it is, the test tells it
            answer = {"error": str(problem)[:2000]}
        print(json.dumps(answer, default=str), file=out, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
