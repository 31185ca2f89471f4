"""What a directory's files are: those in it, with the columns that the table names, however old they are."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql import types as st

from model.errors import InvalidOption
from sql.connectors import ConnectorScope, ConnectorTable
from sql.connectors.registry import connector_table
from sql.dialect import parse_one
from sql.spark.connectors.filesystem import SparkFilesystem

pytestmark = [pytest.mark.spark, pytest.mark.timeout(240)]


def table(path: object, columns: str = "(id INT, city STRING)", options: str = "'format' = 'csv'") -> ConnectorTable:
    text = f"CREATE TEMPORARY TABLE f {columns} WITH ('connector' = 'filesystem', 'path' = '{path}', {options})"
    return connector_table("f", parse_one(text).args["definition"], scope(path))


def scope(path: object) -> ConnectorScope:
    return ConnectorScope(import_dirs=(str(path).partition("*")[0].rstrip("/"),))


def test_directories_below_are_out_of_the_way_but_for_those_that_name_a_column(spark: SparkSession, tmp_path: Path) -> None:
    """Whoever watches a directory moves what is done to one below it; jobs of before hold no such names."""
    for name, text in (("b.csv", "1,one"), ("done/a.csv", "2,two")):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text + "\n")
    assert list(map(tuple, SparkFilesystem().read(spark, table(tmp_path), scope(tmp_path)).collect())) == [(1, "one")]
    spark.range(2).write.parquet(str(tmp_path / "p" / "city=Rome"))
    in_columns = table(tmp_path / "p", "(id BIGINT, city STRING)", "'format' = 'parquet'")
    assert sorted(map(tuple, SparkFilesystem().read(spark, in_columns, scope(tmp_path)).collect())) == [(0, "Rome"), (1, "Rome")]


def test_a_file_that_comes_with_an_old_time_is_new(spark: SparkSession, tmp_path: Path) -> None:
    """As ``mv``, ``cp -p`` and ``tar`` leave it: older by more than a week than what was read before."""
    place = tmp_path / "in"
    place.mkdir()
    (place / "new.csv").write_text("1,new\n")

    def drain() -> set[tuple[Any, ...]]:
        frame = SparkFilesystem().follow(spark, table(place, options="'format' = 'csv', 'source.monitor-interval' = '1 s'"), scope(place))
        started = frame.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "checkpoint"))
        started.trigger(availableNow=True).start(str(tmp_path / "out")).awaitTermination()
        return set(map(tuple, spark.read.parquet(str(tmp_path / "out")).collect()))

    assert drain() == {(1, "new")}
    old = place / "old.csv"
    old.write_text("2,old\n")
    month_ago = (place / "new.csv").stat().st_mtime - 30 * 86400
    os.utime(old, (month_ago, month_ago))
    assert drain() == {(1, "new"), (2, "old")}


class NotFoundError(AnalysisException):
    """As Spark's JVM tells it."""

    def __init__(self) -> None:
        super().__init__("no such path")

    def getCondition(self) -> str:  # noqa: N802 - Spark's name
        return "PATH_NOT_FOUND"


ROWS = SimpleNamespace(schema=st.StructType())


class Reader:
    """Spark's reader of a store, as far as it is asked."""

    def __init__(self, found: bool) -> None:
        self.loaded: Any = None
        self._found = found

    @property
    def read(self) -> Reader:
        return self

    def format(self, _: str) -> Reader:
        return self

    def option(self, *_: str) -> Reader:
        return self

    def load(self, paths: Any) -> SimpleNamespace:
        if not self._found:
            raise NotFoundError
        self.loaded = paths
        return ROWS


def test_a_pattern_of_a_store_is_sparks_to_find(tmp_path: Path) -> None:
    store = "s3://b/in"
    made = table(f"{store}/*.parquet", "", "'format' = 'parquet'")
    reader: Any = Reader(found=True)
    assert SparkFilesystem().read(reader, made, scope(store)) is ROWS  # type: ignore[comparison-overlap]
    assert reader.loaded == [f"{store}/*.parquet"]
    (tmp_path / "a*.parquet").touch()
    SparkFilesystem().read(reader, table(tmp_path, "", "'format' = 'parquet'"), scope(tmp_path))
    assert reader.loaded == [str(tmp_path)]
    missing: Any = Reader(found=False)
    with pytest.raises(InvalidOption, match="there is no such file"):
        SparkFilesystem().read(missing, made, scope(store))
