"""Each way to hurt oneself is found by its number, and a table in good shape is left in peace."""

from __future__ import annotations

from dataclasses import replace

import pytest

from model.identifier import Identifier
from model.schema.schema import Schema, column, new_schema
from table.format.manifests.entries import EMPTY_ROW, ManifestEntry
from table.format.rows import binary_row
from table.retention.health import examine
from tests.table.compaction.test_candidates import entries

GB = 1024.0
T = Identifier("d", "o'neil")


def schema(**options: str) -> Schema:
    keys = {"bucket-key": "id"} if options.get("bucket", "-1") != "-1" else {}
    return new_schema([column("id", "INT"), column("p", "INT")], options={"bucket": "-1", **options, **keys})


def parted(count: int, size: float) -> tuple[Schema, list[ManifestEntry]]:
    made = new_schema([column("id", "INT"), column("p", "INT")], partition_keys=["p"], options={"bucket": "-1"})
    types = [f.type for f in made.partition_fields]
    files = [replace(e, partition=binary_row.encode_prefixed(types, [n])) for n, e in enumerate(entries([size] * count, total_buckets=-1))]
    return made, files


def whats(found: list[object]) -> str:
    return " | ".join(getattr(one, "what") for one in found)  # noqa: B009


def test_a_good_table_is_left_in_peace() -> None:
    assert examine(schema(), entries([200.0] * 30, total_buckets=-1), table=T, write_only=False, writers=4) == []
    assert examine(schema(bucket="1"), entries([0.01] * 8), table=T, write_only=False, writers=4) == []
    assert examine(schema(), [], table=T, write_only=False, writers=4) == []


def test_small_files_nobody_merges() -> None:
    (found,) = examine(schema(), entries([0.01] * 20, total_buckets=-1), table=T, write_only=True, writers=4)
    assert found.what == "20 small files could be merged"
    assert found.statement == "CALL sys.compact('d.o''neil')"


@pytest.mark.parametrize(("size", "fitting"), [(64.0, 1), (512.0, 2)])
def test_too_many_buckets(size: float, fitting: int) -> None:
    files = [replace(e, bucket=n) for n, e in enumerate(entries([size / 100] * 100, total_buckets=100))]
    found = examine(schema(bucket="100"), files, table=T, write_only=False, writers=4)
    assert "100 buckets are too many" in whats(list(found))
    assert f"'bucket' = '{fitting}'" in found[-1].statement or f"'bucket' = '{fitting}'" in found[0].statement


def test_one_queue_for_everything() -> None:
    (found,) = examine(schema(bucket="1"), entries([256.0] * 40), table=T, write_only=False, writers=4)
    assert found.what == "all rows of a partition stand in one queue"
    assert "'bucket' = '10'" in found.statement


def test_a_key_with_few_values() -> None:
    sizes = [900.0, *[50.0] * 7]
    files = [replace(e, bucket=n) for n, e in enumerate(entries(sizes, total_buckets=8))]
    assert "5.8 times the average" in whats(list(examine(schema(bucket="8"), files, table=T, write_only=False, writers=4)))


def test_partitions_of_a_few_kilobytes() -> None:
    made, files = parted(40, 0.01)
    (found,) = examine(made, files, table=T, write_only=False, writers=4)
    assert found.what == "40 of 40 partitions are smaller than 1 MB"
    made, files = parted(40, 500.0)
    assert examine(made, files, table=T, write_only=False, writers=4) == []


def test_files_of_another_bucket_number() -> None:
    assert entries([1.0])[0].partition == EMPTY_ROW
    found = examine(schema(bucket="2"), entries([100.0], total_buckets=4), table=T, write_only=False, writers=4)
    assert "another number of buckets" in whats(list(found))
    assert found[0].statement == "CALL sys.rescale('d.o''neil')"
    found = examine(schema(), entries([100.0], total_buckets=4), table=T, write_only=False, writers=4)
    assert found[0].statement == "INSERT OVERWRITE `d`.`o'neil` SELECT * FROM `d`.`o'neil`"  # without buckets nothing is rescaled


@pytest.mark.parametrize(("count", "writers", "told"), [(100, 4, False), (200, 4, True), (200, 16, False)])
def test_partitions_and_buckets_written_at_once(count: int, writers: int, told: bool) -> None:
    """(N·B)/P < 100, with the buckets that keep it."""
    _, files = parted(count, 300.0)
    made = new_schema([column("id", "INT"), column("p", "INT")], partition_keys=["p"], options={"bucket": "3", "bucket-key": "id"})
    files = [replace(e, total_buckets=3) for e in files]
    found = [one for one in examine(made, files, table=T, write_only=False, writers=writers) if "at once" in one.what]
    assert bool(found) is told
    if told:
        assert "(200·3)/4 = 150" in found[0].why
        assert found[0].statement == "ALTER TABLE `d`.`o'neil` SET ('bucket' = '1'); CALL sys.rescale('d.o''neil')"
    old = [replace(e, file=replace(e.file, creation_time_millis=-n * 1_000_000)) for n, e in enumerate(files)]
    assert not [one for one in examine(made, old, table=T, write_only=False, writers=1) if "at once" in one.what]
