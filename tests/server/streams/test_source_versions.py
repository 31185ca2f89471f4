"""The columns of a batch read by ``format("sluice")``: those of the snapshot that is named, and never NULL in the place of others."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from gateway.gateway import Gateway
from model.errors import InvalidOption
from model.identifier import Identifier
from model.schema.schema import Schema, column, new_schema
from pyspark_sluice.source import DefaultSource

OLD = [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}]


def read(url: str, **options: str) -> list[dict[str, Any]]:
    """What a batch gives, planned and read as Spark does."""
    source = DefaultSource({"uri": url, "path": "default.t"} | {f"scan.{key.replace('_', '-')}": value for key, value in options.items()})
    reader = source.reader(source.schema())
    splits = [pickle.loads(pickle.dumps(split)) for split in reader.partitions()]
    return [row for split in splits for batch in reader.read(split) for row in batch.to_pylist()]


@pytest.fixture
def changed(gateway: Gateway) -> Gateway:
    """With a snapshot of two rows that has a tag."""
    gateway.run("CREATE TABLE t (a INT, b STRING) WITH ('bucket' = '-1'); INSERT INTO t VALUES (1, 'x'), (2, 'y')").close()
    gateway.run("CALL sys.create_tag('t', 'first', 1)").close()
    return gateway


@pytest.mark.parametrize(
    "change",
    [
        new_schema([column("a", "BIGINT"), column("b", "STRING")], options={"bucket": "-1"}),
        new_schema([column("d", "DATE"), column("a", "BIGINT")], options={"bucket": "2", "bucket-key": "d"}),
        "ALTER TABLE t RENAME b TO c; ALTER TABLE t ADD b INT; INSERT INTO t VALUES (3, 'z', 4)",
    ],
)
def test_a_snapshot_has_the_columns_it_was_committed_with(url: str, changed: Gateway, change: Schema | str) -> None:
    if isinstance(change, Schema):  # CREATE OR REPLACE TABLE, as other engines ask for it
        changed.lake.replace_table(Identifier("default", "t"), change)
    else:
        changed.run(change).close()
    for options in ({"version": "1"}, {"version": "first"}, {"tag_name": "first"}):
        assert read(url, **options) == OLD, options


def test_what_may_also_begin_a_stream_gives_present_columns_or_is_refused(url: str, changed: Gateway) -> None:
    changed.run("ALTER TABLE t RENAME b TO c; ALTER TABLE t ADD d INT").close()
    assert read(url, snapshot_id="1") == [{"a": row["a"], "c": row["b"], "d": None} for row in OLD]
    changed.run("ALTER TABLE t DROP a; ALTER TABLE t ADD a INT").close()
    for options in ({"snapshot_id": "1"}, {"timestamp": "2999-01-01"}):
        with pytest.raises(InvalidOption, match=r"'scan\.version' = '1'"):
            read(url, **options)
    assert read(url, version="1") == OLD
