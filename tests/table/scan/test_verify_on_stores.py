"""Files of an object store are looked at once before Spark reads them, at the cost of a footer each; see `table.scan.checks.verify`."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyarrow import orc

from model.errors import TableDamaged
from model.schema.schema import Schema, column, new_schema
from model.schema.types import Field, RowType, TimestampType
from table.format.io.file_io import file_io_for
from table.format.rows.stats import ColumnStats, StatsModes
from table.format.store import TableFiles
from table.index.checksum import Checksum, container_of
from table.scan.checks.verify import forget, sound
from table.scan.planning.entry_scan import PlannedFile, plan_scan
from table.write.data_file import describe
from tests.fix_s3 import Bucket
from tests.fix_s3_proxy import Proxy
from tests.table.scan.test_files import insert

Planned = tuple[TableFiles, Schema, list[PlannedFile]]


def written(
    bucket: Bucket, proxy: Proxy, monkeypatch: pytest.MonkeyPatch, commits: int, format_: str = "parquet", keys: Sequence[str] = ()
) -> Planned:
    """A table on the store behind the proxy, a file a commit."""
    for name, value in {**bucket.environment, "AWS_ENDPOINT_URL": proxy.endpoint}.items():
        monkeypatch.setenv(name, value)
    place = f"s3://{bucket.name}/lake/default.db/t"
    files = TableFiles(file_io_for(place), place)
    columns = [column("id", "BIGINT"), column("s", "STRING"), *[column(key, "INT") for key in keys]]
    schema = new_schema(columns, partition_keys=keys, options={"bucket": "-1", "file.format": format_})
    snapshot = None
    for commit in range(commits):
        rows = [{"id": commit * 1000 + n, "s": f"text {n}", **dict.fromkeys(keys, 1)} for n in range(100)]
        snapshot = insert(files, schema, snapshot, rows)
    assert snapshot is not None
    forget()
    proxy.reset()
    return files, schema, list(plan_scan(files, schema, snapshot).files)


def put(files: TableFiles, planned: PlannedFile, rows: pa.Table, compression: str = "zstd") -> PlannedFile:
    """Another file in the place of one, whose size the manifest would tell all the same."""
    sink = pa.BufferOutputStream()
    pq.write_table(rows, sink, compression=compression)
    data = sink.getvalue().to_pybytes()
    files.io.write(planned.path, data)
    return replace(planned, file=replace(planned.file, file_size=len(data)))


def of_data(proxy: Proxy) -> list[str]:
    return [request for request in proxy.requests if "/bucket-" in request]


@pytest.mark.parametrize("format_", ["parquet", "orc"])
def test_an_object_is_looked_at_once(bucket: Bucket, s3_proxy: Proxy, monkeypatch: pytest.MonkeyPatch, format_: str) -> None:
    files, schema, planned = written(bucket, s3_proxy, monkeypatch, 3, format_)
    assert sound(files, planned, lambda _: schema) == [True] * 3
    first = len(of_data(s3_proxy))
    assert 3 <= first <= 3 * (2 if format_ == "parquet" else 5)
    assert sound(files, planned, lambda _: schema) == [True] * 3
    assert len(of_data(s3_proxy)) == first


@pytest.mark.parametrize("format_", ["parquet", "orc"])
def test_an_object_in_a_partition_takes_no_request_more_but_two_of_orc(
    bucket: Bucket, s3_proxy: Proxy, monkeypatch: pytest.MonkeyPatch, format_: str
) -> None:
    """For the values of its partition columns, of which the end of an ORC file tells nothing here."""

    def requests(*keys: str) -> int:
        files, schema, planned = written(bucket, s3_proxy, monkeypatch, 1, format_, keys)
        assert sound(files, planned, lambda _: schema) == [True]
        files.io.delete_tree(files.location)
        return len([request for request in of_data(s3_proxy) if request.startswith(("GET", "HEAD"))])

    assert requests() == requests("p") - (2 if format_ == "orc" else 0) > 0


def test_another_file_in_an_objects_place_is_told(bucket: Bucket, s3_proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> None:
    files, schema, planned = written(bucket, s3_proxy, monkeypatch, 2)
    swapped = [replace(one, path=other.path) for one, other in pairwise([*planned, planned[0]])]
    with pytest.raises(TableDamaged, match=r"outside of what its manifest tells|where its manifest tells"):
        sound(files, swapped, lambda _: schema)
    renamed = put(files, planned[0], pa.table({"id": pa.array(range(100), pa.int64()), "t": [f"text {n}" for n in range(100)]}))
    with pytest.raises(TableDamaged, match="lacks column s"):
        sound(files, [renamed], lambda _: schema)
    files.io.delete(planned[1].path)
    forget()
    with pytest.raises(Exception, match="is not there any more"):
        sound(files, [planned[1]], lambda _: schema)


def test_a_codec_that_spark_lacks_is_seen(bucket: Bucket, s3_proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> None:
    files, schema, planned = written(bucket, s3_proxy, monkeypatch, 1)
    rows = pa.table({"id": pa.array(range(100), pa.int64()), "s": [f"text {n}" for n in range(100)]})
    assert sound(files, [put(files, planned[0], rows, "brotli")], lambda _: schema) == [False]


BEFORE, AFTER = dt.datetime(1969, 12, 31, 23, 59, 58, 500_000), dt.datetime(2024, 1, 1, 0, 0, 0, 500_000)


@pytest.mark.parametrize(("time", "in_spark"), [(BEFORE, False), (AFTER, True)])
def test_orc_times_that_spark_does_not_read_are_seen(
    bucket: Bucket, s3_proxy: Proxy, monkeypatch: pytest.MonkeyPatch, time: dt.datetime, in_spark: bool
) -> None:
    """As pypaimon writes them, in a column and in a ROW, whatever the manifest tells."""
    files, _, (planned,) = written(bucket, s3_proxy, monkeypatch, 1, "orc")
    parts = RowType(fields=(Field(id=-1, name="t", type=TimestampType()),))
    schema = new_schema([column("t", "TIMESTAMP(6)"), Field(id=-1, name="r", type=parts)], options={"bucket": "-1", "file.format": "orc"})
    moment = pa.timestamp("us")
    for columns in ({"t": [time, None], "r": [None, {"t": AFTER}]}, {"t": [None, AFTER], "r": [None, {"t": time}]}):
        rows = pa.table(columns, schema=pa.schema({"t": moment, "r": pa.struct({"t": moment})}))
        sink = pa.BufferOutputStream()
        orc.write_table(rows, sink)
        files.io.write(planned.path, data := sink.getvalue().to_pybytes())
        bounds = pc.min_max(rows["t"]).as_py()
        for stats in ({}, {"t": ColumnStats(min=bounds["min"], max=bounds["max"], null_count=1)}):
            file = describe(
                schema, StatsModes(schema), planned.path, size=len(data), rows=2, stats=stats, first_sequence=0, created_millis=0
            )
            forget()
            s3_proxy.reset()
            assert sound(files, [replace(planned, file=file)], lambda _: schema) == [in_spark]
            cost = len(of_data(s3_proxy))
            assert sound(files, [replace(planned, file=file)], lambda _: schema) == [in_spark]
            assert len(of_data(s3_proxy)) == cost


def test_orc_of_a_store_is_not_decoded_for_times_that_its_manifest_tells(
    bucket: Bucket, s3_proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    files, _, (planned,) = written(bucket, s3_proxy, monkeypatch, 1, "orc")
    schema = new_schema([column("t", "TIMESTAMP(6)")], options={"bucket": "-1", "file.format": "orc"})
    sink = pa.BufferOutputStream()
    orc.write_table(pa.table({"t": pa.array([AFTER], pa.timestamp("us"))}), sink)
    files.io.write(planned.path, data := sink.getvalue().to_pybytes())
    requests = []
    for stats in ({}, {"t": ColumnStats(min=AFTER, max=AFTER, null_count=0)}):
        file = describe(schema, StatsModes(schema), planned.path, size=len(data), rows=1, stats=stats, first_sequence=0, created_millis=0)
        forget()
        s3_proxy.reset()
        assert sound(files, [replace(planned, file=file)], lambda _: schema) == [True]
        requests.append(len(of_data(s3_proxy)))
    assert requests[1] < requests[0]
    monkeypatch.setattr("table.scan.checks.verify.MOST_ORC_BYTES", 0)
    for stats, in_spark in (({}, False), ({"t": ColumnStats(min=AFTER, max=AFTER, null_count=0)}, True)):
        file = describe(schema, StatsModes(schema), planned.path, size=len(data), rows=1, stats=stats, first_sequence=0, created_millis=0)
        forget()
        assert sound(files, [replace(planned, file=file)], lambda _: schema) == [in_spark]


def with_times(files: TableFiles, planned: PlannedFile, schema: Schema, *, by_java: bool) -> PlannedFile:
    """An ORC file of times of which the manifest tells nothing, in the place of one."""
    sink = pa.BufferOutputStream()
    orc.write_table(pa.table({"t": pa.array([AFTER], pa.timestamp("us"))}), sink)
    data = sink.getvalue().to_pybytes()
    if by_java:
        head, writer, tail = data.rpartition(b"\x48\x01")  # the footer's field 9: 1 is the library in C++, 0 Java's
        assert writer
        data = head + b"\x48\x00" + tail
        assert orc.ORCFile(pa.BufferReader(data)).writer == "ORC_JAVA"
    files.io.write(planned.path, data)
    file = describe(schema, StatsModes(schema), planned.path, size=len(data), rows=1, stats={}, first_sequence=0, created_millis=0)
    forget()
    return replace(planned, file=file)


def test_orc_of_java_on_a_store_is_not_decoded_for_its_times(bucket: Bucket, s3_proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark reads what Java wrote: else large files, which no room is left for, would go to our reader with each statement."""
    files, _, (planned,) = written(bucket, s3_proxy, monkeypatch, 1, "orc")
    schema = new_schema([column("t", "TIMESTAMP(6)")], options={"bucket": "-1", "file.format": "orc"})
    monkeypatch.setattr("table.scan.checks.verify.MOST_ORC_BYTES", 0)
    for by_java in (True, False):
        file = with_times(files, planned, schema, by_java=by_java)
        s3_proxy.reset()
        assert sound(files, [file], lambda _: schema) == [by_java]
        cost = len(of_data(s3_proxy))
        assert sound(files, [file], lambda _: schema) == [by_java]
        assert len(of_data(s3_proxy)) == cost, "one that alone is too large is not asked for again"


def test_orc_times_that_had_no_room_are_looked_at_by_the_next_statement(
    bucket: Bucket, s3_proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    files, _, planned = written(bucket, s3_proxy, monkeypatch, 2, "orc")
    schema = new_schema([column("t", "TIMESTAMP(6)")], options={"bucket": "-1", "file.format": "orc"})
    both = [with_times(files, one, schema, by_java=False) for one in planned]
    monkeypatch.setattr("table.scan.checks.verify.MOST_ORC_BYTES", both[0].file.file_size)
    assert sorted(sound(files, both, lambda _: schema)) == [False, True]
    assert sound(files, both, lambda _: schema) == [True, True]


def test_the_checksum_of_an_orc_file_on_a_store_is_fetched_once(bucket: Bucket, s3_proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> None:
    files, _, (planned,) = written(bucket, s3_proxy, monkeypatch, 1, "orc")
    schema = new_schema([column("t", "TIMESTAMP(6)")], options={"bucket": "-1", "file.format": "orc"})
    file = with_times(files, planned, schema, by_java=False)
    beside = f"{planned.path}.index"
    container = container_of(Checksum(bytes(8)))
    assert container is not None
    files.io.write(beside, container)
    file = replace(file, file=replace(file.file, extra_files=(beside.rpartition("/")[2],)))
    s3_proxy.reset()
    assert sound(files, [file], lambda _: schema) == [True]
    assert len([request for request in of_data(s3_proxy) if ".index" in request and "GET" in request]) == 1


def test_what_the_look_costs(bucket: Bucket, s3_proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> None:
    files, schema, planned = written(bucket, s3_proxy, monkeypatch, 40)
    begun = time.perf_counter()
    sound(files, planned, lambda _: schema)
    print(f"{len(planned)} files: {len(of_data(s3_proxy))} requests, {time.perf_counter() - begun:.2f} s")
    assert len(of_data(s3_proxy)) <= 2 * len(planned)
