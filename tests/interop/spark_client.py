"""A Spark with Paimon's module that does one statement a line; runs in an environment of its own, see `spark_paimon.py`."""

from __future__ import annotations

import json
import sys

from pyspark.sql import SparkSession


def session(url: str, jar: str, warehouse: str) -> SparkSession:
    """A session whose catalog ``sluice`` is the server, with the settings of docs/catalog.md, and ``files`` Paimon's own in a directory."""
    settings = {
        "spark.jars": jar,
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.extensions": "org.apache.paimon.spark.extensions.PaimonSparkSessionExtensions",
        "spark.sql.catalog.sluice": "org.apache.paimon.spark.SparkCatalog",
        "spark.sql.catalog.sluice.metastore": "rest",
        "spark.sql.catalog.sluice.uri": url,
        "spark.sql.catalog.sluice.warehouse": "sluice",
        "spark.sql.catalog.sluice.token.provider": "bear",
        "spark.sql.catalog.sluice.token": "any",
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


def main(url: str, jar: str, warehouse: str) -> None:
    """One request a line: a statement, or ``stream <table>``."""
    out, sys.stdout = sys.stdout, sys.stderr
    spark = session(url, jar, warehouse)
    for line in sys.stdin:
        text = json.loads(line)
        try:
            if text.startswith("stream "):
                answer: dict[str, object] = {"rows": stream(spark, text.removeprefix("stream "))}
            else:
                answer = {"rows": [list(row) for row in spark.sql(text).collect()]}
        except Exception as problem:  # whatever it is, the test tells it
            answer = {"error": str(problem)[:2000]}
        print(json.dumps(answer, default=str), file=out, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
