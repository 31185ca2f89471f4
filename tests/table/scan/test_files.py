"""Rows written and read again: every type, both formats, old schemas, pruned files (`paimon-append.md` §2.4, 4.6)."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from model.errors import ColumnNotExist, InvalidData, TableDamaged
from model.predicate import Compare, In, IsNull, Op, Predicate
from model.schema.change import AddColumn, DropColumn, RenameColumn, SchemaChange, UpdateColumnType, apply_changes
from model.schema.schema import Schema, column, new_schema
from model.schema.types import ArrayType, BigIntType, Field, IntType, RowType, VarCharType
from model.snapshot import CommitKind, Snapshot
from table.format.io.file_io import LocalFileIO
from table.format.manifests.entries import NewFile
from table.format.rows.arrow import arrow_schema
from table.format.rows.cast import fit
from table.format.rows.stats import StatsMode, column_stats, shortened_max
from table.format.store import TableFiles
from table.scan.aggregates import Aggregate, Function, exact_aggregates
from table.scan.planning.entry_scan import plan_scan
from table.scan.read import Selection, read_batches
from table.scan.row_ids import read_with_row_ids, with_row_ids
from table.write.snapshot_builder import CommitRequest, build_snapshot
from table.write.writer import write_batches
from tests.short import share

SPELLINGS = """
    BOOLEAN|TINYINT|SMALLINT|INT|FLOAT|DOUBLE|CHAR(5)|VARCHAR(10)|STRING|BINARY(4)|BYTES|DECIMAL(9, 2)|DECIMAL(18, 3)|
    DECIMAL(38, 10)|DATE|TIME(3)|TIMESTAMP(0)|TIMESTAMP(3)|TIMESTAMP(6)|TIMESTAMP_LTZ(3)|TIMESTAMP_LTZ(6)
"""
ROW = RowType(fields=(Field(id=-1, name="x", type=IntType()), Field(id=-1, name="y", type=VarCharType())))
ALL_TYPES = [
    column("id", "BIGINT NOT NULL"),
    *[column(f"c{i}", text.strip()) for i, text in enumerate(SPELLINGS.split("|"))],
    column("p", "STRING"),
    Field(id=-1, name="r", type=ROW),
]
NOON = dt.datetime(2024, 1, 1, 12)


def a_row(i: int) -> dict[str, Any]:
    if i % 7 == 3:
        return {"id": i}
    values: list[Any] = [
        i % 2 == 0, i % 100, i, -i, i / 2, i / 3, "ab", f"v{i % 3}", "é" * i, b"abcd", b"\xff" * i, Decimal(i) / 4, Decimal(i),
        Decimal(-i) * 10**9, dt.date(2024, 1, 1 + i % 3), dt.time(1, 2, i), NOON, NOON.replace(microsecond=5000),
        NOON.replace(microsecond=5001), NOON.replace(tzinfo=dt.UTC), NOON.replace(microsecond=7, tzinfo=dt.UTC),
    ]  # fmt: skip
    return {"id": i, "p": f"p{i % 2}", "r": {"x": i, "y": None}} | {f"c{n}": value for n, value in enumerate(values)}


@pytest.fixture
def files(tmp_path: Path) -> TableFiles:
    return TableFiles(LocalFileIO(), str(tmp_path / "t"))


def batch_of(schema: Schema, rows: list[dict[str, Any]]) -> pa.RecordBatch:
    loose = pa.schema([pa.field(f.name, f.type) for f in arrow_schema(schema.fields)])
    return pa.RecordBatch.from_pylist(rows, schema=loose)


def insert(files: TableFiles, schema: Schema, latest: Snapshot | None, rows: list[dict[str, Any]]) -> Snapshot:
    files.write_schema(schema)
    written: list[NewFile] = write_batches(files, schema, [fit(batch_of(schema, rows), schema)])
    request = CommitRequest(kind=CommitKind.APPEND, adds=tuple(written), commit_user="u")
    return build_snapshot(files, schema, latest, [request], uuid="u", time_millis=5)


def select(files: TableFiles, schema: Schema, snapshot: Snapshot, predicate: Predicate | None = None) -> list[dict[str, Any]]:
    plan = plan_scan(files, schema, snapshot, predicate)
    return [row for batch in read_batches(files, schema, plan.files) for row in batch.to_pylist()]


@pytest.mark.parametrize("format_", ["parquet", "orc"])
@pytest.mark.parametrize("shape", ["queue", "buckets", "scalable", "partitioned"])
def test_every_type_is_read_as_written(files: TableFiles, format_: str, shape: str) -> None:
    options = {
        "queue": {"bucket": "1", "bucket-key": "id"},
        "buckets": {"bucket": "4", "bucket-key": "id,c7"},
        "scalable": {"bucket": "-1"},
        "partitioned": {"bucket": "2", "bucket-key": "id"},
    }[shape]
    schema = new_schema(ALL_TYPES, partition_keys=["p"] if shape == "partitioned" else [], options=options | {"file.format": format_})
    rows = [a_row(i) for i in range(20)]
    snapshot = insert(files, schema, None, rows)
    expected = fit(batch_of(schema, rows), schema).to_pylist()
    assert sorted(select(files, schema, snapshot), key=lambda row: row["id"]) == expected


def test_a_queue_is_read_in_write_order(files: TableFiles) -> None:
    schema = new_schema([column("id", "INT")], options={"bucket": "1", "bucket-key": "id"})
    snapshot = None
    for start in (5, 1, 9):
        snapshot = insert(files, schema, snapshot, [{"id": start}, {"id": start - 1}])
    assert snapshot is not None
    assert [row["id"] for row in select(files, schema, snapshot)] == [5, 4, 1, 0, 9, 8]


def test_old_files_are_read_under_the_new_schema(files: TableFiles) -> None:
    first = new_schema([column("a", "INT"), column("b", "STRING"), column("c", "INT")], options={"bucket": "-1"})
    snapshot = insert(files, first, None, [{"a": 1, "b": "x", "c": 7}])
    changes: list[SchemaChange] = [
        RenameColumn(name="a", to="z"), UpdateColumnType(name="z", type=BigIntType()), DropColumn(name="c"),
        AddColumn(name="c", type=VarCharType()), RenameColumn(name="b", to="a"),
    ]  # fmt: skip
    second = apply_changes(first, changes, table="t", has_snapshot=True, time_millis=1)
    snapshot = insert(files, second, snapshot, [{"z": 2, "a": "y", "c": "new"}])
    assert select(files, second, snapshot) == [{"z": 1, "a": "x", "c": None}, {"z": 2, "a": "y", "c": "new"}]
    assert select(files, second, snapshot, Compare("z", Op.EQ, 1)) == [{"z": 1, "a": "x", "c": None}]
    assert select(files, second, snapshot, IsNull("c")) == [{"z": 1, "a": "x", "c": None}]


VALUES = st.integers(-5, 5) | st.none()
PREDICATES: st.SearchStrategy[Predicate] = st.one_of(
    st.builds(Compare, st.sampled_from(["k", "v"]), st.sampled_from([op for op in Op if op is not Op.STARTS_WITH]), st.integers(-6, 6)),
    st.builds(In, st.just("v"), st.lists(st.integers(-6, 6), min_size=1, max_size=3).map(tuple)),
    st.builds(IsNull, st.just("v"), st.booleans()),
)


def matches(row: dict[str, Any], predicate: Predicate) -> bool:
    match predicate:
        case Compare(column=name, op=op, value=value):
            have: Any = row[name]
            tests = {"=": "__eq__", "<>": "__ne__", "<": "__lt__", "<=": "__le__", ">": "__gt__", ">=": "__ge__"}
            return have is not None and bool(getattr(have, tests[op])(value))
        case In(column=name, values=values):
            return row[name] in values and row[name] is not None
        case IsNull(column=name, negated=negated):
            return (row[name] is None) is not negated
    raise AssertionError(predicate)


@settings(max_examples=share(120), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.lists(st.tuples(VALUES, VALUES), min_size=1, max_size=5), min_size=1, max_size=4),
    PREDICATES,
    st.sampled_from(["none", "counts", "full", "truncate(16)"]),
    st.sampled_from(["1", "3"]),
)
def test_no_file_with_a_matching_row_is_skipped(
    tmp_path_factory: pytest.TempPathFactory,
    inserts: list[list[tuple[int | None, int | None]]],
    predicate: Predicate,
    mode: str,
    buckets: str,
) -> None:
    files = TableFiles(LocalFileIO(), str(tmp_path_factory.mktemp("t")))
    options = {"bucket": buckets, "bucket-key": "k", "metadata.stats-mode": mode}
    schema = new_schema([column("k", "INT"), column("v", "INT")], options=options)
    snapshot = None
    for rows in inserts:
        snapshot = insert(files, schema, snapshot, [{"k": k, "v": v} for k, v in rows])
    assert snapshot is not None
    everything = [{"k": k, "v": v} for rows in inserts for k, v in rows]
    wanted = sorted(str(row) for row in everything if matches(row, predicate))
    kept = [row for row in select(files, schema, snapshot, predicate) if matches(row, predicate)]
    assert sorted(str(row) for row in kept) == wanted


@pytest.mark.parametrize("format_", ["parquet", "orc"])
def test_files_are_rolled_near_the_target(files: TableFiles, format_: str) -> None:
    options = {"bucket": "-1", "target-file-size": "256 kb", "file.format": format_}
    schema = new_schema([column("id", "BIGINT"), column("s", "STRING")], options=options)
    batch = pa.RecordBatch.from_pydict(
        {"id": list(range(400_000)), "s": [f"{i * 7919 % 1000003:x}" for i in range(400_000)]}, schema=arrow_schema(schema.fields)
    )
    sizes = [new.file.file_size for new in write_batches(files, schema, pa.Table.from_batches([batch]).to_batches(10_000))]
    assert len(sizes) > 3
    assert all(0.7 * 262_144 <= size <= 1.3 * 262_144 for size in sizes[:-1]), sizes


@pytest.mark.parametrize(
    ("value", "length", "short"),
    [
        ("abc", 3, "abc"),
        ("abcd", 3, "abd"),
        ("ab\U0010ffff\U0010ffff", 3, "ac"),
        ("\U0010ffff" * 4, 3, None),
        (b"\x01\xff\xff", 2, b"\x02"),
        (b"\xff" * 3, 2, None),
    ],
)
def test_a_shortened_maximum_is_never_below_the_value(value: str | bytes, length: int, short: str | bytes | None) -> None:
    assert shortened_max(value, length) == short


def test_statistics_as_they_are_stored(files: TableFiles) -> None:
    schema = new_schema(
        [column("a", "STRING"), column("b", "BIGINT"), Field(id=-1, name="r", type=ROW)],
        options={"bucket": "-1", "fields.b.stats-mode": "counts"},
    )
    snapshot = insert(files, schema, None, [{"a": "x" * 20, "b": 1}, {"a": None, "b": 2}])
    file = next(iter(files.live_entries(snapshot))).file
    assert file.value_stats_cols == ("a", "b")
    stats = column_stats(file.value_stats, file.value_stats_cols, schema)
    assert (stats["a"].min, stats["a"].max, stats["a"].null_count) == ("x" * 16, "x" * 15 + "y", 1)
    assert (stats["b"].min, stats["b"].null_count) == (None, 0)
    assert StatsMode.parse("TRUNCATE(4)").length == 4


def test_aggregates_from_metadata_only_where_exact(files: TableFiles) -> None:
    schema = new_schema([column("i", "INT"), column("f", "DOUBLE"), column("s", "STRING")], options={"bucket": "-1"})
    snapshot = insert(files, schema, None, [{"i": 1, "f": 1.0, "s": "a"}, {"i": None, "f": 2.0, "s": "b"}])
    plan = plan_scan(files, schema, snapshot)
    known = [Aggregate(Function.COUNT), Aggregate(Function.COUNT, "i"), Aggregate(Function.MIN, "i"), Aggregate(Function.MAX, "i")]
    assert exact_aggregates(files, schema, plan, known) == [2, 1, 1, 1]
    assert exact_aggregates(files, schema, plan, [Aggregate(Function.MAX, "f")]) is None
    assert exact_aggregates(files, schema, plan, [Aggregate(Function.MAX, "s")]) is None


@pytest.mark.parametrize(
    ("given_", "error", "says"),
    [
        ({"nope": [1]}, ColumnNotExist, "nope"),
        ({"i": [2**40]}, InvalidData, "Column i, row 1"),
        ({"i": [1, None]}, InvalidData, "Column i, row 2: NULL"),
        ({"i": [1], "s": ["abcdef"]}, InvalidData, "length 6"),
        ({"i": ["1"]}, InvalidData, "Column i"),
        ({"i": [1.5]}, InvalidData, "Column i"),
        ({"i": [1], "d": [Decimal("123.45")]}, InvalidData, "Column d, row 1"),
    ],
)
def test_rows_that_do_not_fit_are_refused_by_place(given_: dict[str, list[Any]], error: type[Exception], says: str) -> None:
    schema = new_schema([column("i", "INT NOT NULL"), column("s", "VARCHAR(5)"), column("d", "DECIMAL(4, 2)")], options={"bucket": "-1"})
    with pytest.raises(error, match=says):
        fit(pa.RecordBatch.from_pydict(given_), schema)


@pytest.mark.parametrize("time", [dt.datetime(1677, 9, 1), dt.datetime(2262, 5, 1)])
def test_times_that_orc_is_not_read_with_are_not_written(files: TableFiles, time: dt.datetime) -> None:
    schema = new_schema([column("t", "TIMESTAMP(3)")], options={"bucket": "-1", "file.format": "orc"})
    with pytest.raises(InvalidData, match="1677"):
        insert(files, schema, None, [{"t": time}])
    near = [{"t": time + dt.timedelta(days=31 if time.year < 1970 else -31)}]
    assert select(files, schema, insert(files, schema, None, near)) == near


def test_a_selection_filters_and_limits(files: TableFiles) -> None:
    import pyarrow.dataset as ds

    schema = new_schema([column("i", "INT"), column("s", "STRING")], options={"bucket": "1", "bucket-key": "i"})
    snapshot = None
    for start in range(0, 30, 10):
        snapshot = insert(files, schema, snapshot, [{"i": i, "s": str(i)} for i in range(start, start + 10)])
    assert snapshot is not None
    plan = plan_scan(files, schema, snapshot)
    selection = Selection(columns=["s"], filter=ds.field("i") > 8, filter_columns=frozenset({"i"}), limit=4)
    assert [row["s"] for batch in read_batches(files, schema, plan.files, selection) for row in batch.to_pylist()] == [
        "9",
        "10",
        "11",
        "12",
    ]


@pytest.mark.parametrize("format_", ["parquet", "orc"])
def test_a_column_no_file_has_is_null_once_per_row(files: TableFiles, format_: str) -> None:
    options = {"bucket": "-1", "file.format": format_}
    first = new_schema([column("i", "INT"), column("p", "STRING")], partition_keys=["p"], options=options)
    snapshot = insert(files, first, None, [{"i": i, "p": "a"} for i in range(150_000)])
    second = apply_changes(first, [AddColumn(name="n", type=IntType())], table="t", has_snapshot=True, time_millis=1)
    plan = plan_scan(files, second, snapshot)
    for name in ("n", "p"):
        batches = list(read_batches(files, second, plan.files, Selection(columns=[name])))
        assert sum(batch.num_rows for batch in batches) == 150_000
        assert {batch.column(0)[0].as_py() for batch in batches} == {"a" if name == "p" else None}


@pytest.mark.parametrize("format_", ["parquet", "orc"])
def test_nested_values_stay_in_their_rows_where_a_batch_is_cut(files: TableFiles, format_: str) -> None:
    row = RowType(fields=(Field(id=-1, name="x", type=IntType()),))
    fields = [column("i", "INT"), replace(column("r", "INT"), type=row), replace(column("l", "INT"), type=ArrayType(element=row))]
    schema = new_schema(fields, options={"bucket": "-1", "file.format": format_, "target-file-row-num": "2"})
    rows = [{"i": i, "r": None if i == 3 else {"x": i}, "l": None if i == 2 else [{"x": i}, None]} for i in range(5)]
    snapshot = insert(files, schema, None, rows)
    assert sorted(select(files, schema, snapshot), key=lambda found: found["i"]) == rows


@pytest.mark.parametrize("rows", [1, 700])
def test_files_have_no_more_rows_than_asked(files: TableFiles, rows: int) -> None:
    schema = new_schema([column("i", "INT")], options={"bucket": "1", "bucket-key": "i", "target-file-row-num": str(rows)})
    new = write_batches(files, schema, [fit(batch_of(schema, [{"i": i} for i in range(2 * rows + 1)]), schema)])
    assert [n.file.row_count for n in new] == [rows, rows, 1]
    assert [(n.file.min_sequence_number, n.file.max_sequence_number) for n in new] == [
        (0, rows - 1), (rows, 2 * rows - 1), (2 * rows, 2 * rows)
    ]  # fmt: skip


def test_a_failed_write_leaves_nothing(files: TableFiles, tmp_path: Path) -> None:
    schema = new_schema([column("i", "INT")], options={"bucket": "-1"})

    def batches() -> Any:
        yield fit(batch_of(schema, [{"i": 1}]), schema)
        raise InvalidData("broken body")

    with pytest.raises(InvalidData, match="broken body"):
        write_batches(files, schema, batches())
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_a_file_that_is_no_parquet_is_named(files: TableFiles) -> None:
    schema = new_schema([column("i", "INT")], options={"bucket": "-1"})
    snapshot = insert(files, schema, insert(files, schema, None, [{"i": 1}]), [{"i": 2}])
    path = plan_scan(files, schema, snapshot).files[1].path
    Path(path).write_bytes(b"PAR1 not really PAR1")
    with pytest.raises(TableDamaged, match=Path(path).name):
        select(files, schema, snapshot)


def test_avro_files_are_read(files: TableFiles) -> None:
    import fastavro

    schema = new_schema([column("i", "INT"), column("t", "TIMESTAMP(3)")], options={"bucket": "-1"})
    snapshot = insert(files, schema, None, [{"i": 1}])
    planned = plan_scan(files, schema, snapshot).files[0]
    fields = [
        {"name": "i", "type": ["null", "int"]},
        {"name": "t", "type": ["null", {"type": "long", "logicalType": "timestamp-millis"}]},
    ]
    path = planned.path.replace(".parquet", ".avro")
    with Path(path).open("wb") as sink:
        fastavro.writer(
            sink, {"type": "record", "name": "r", "fields": fields}, [{"i": 7, "t": NOON.replace(tzinfo=dt.UTC)}, {"i": None, "t": None}]
        )
    avro = replace(planned, path=path, file=replace(planned.file, file_name=path.rsplit("/", 1)[-1], row_count=2, value_stats_cols=()))
    assert [row for batch in read_batches(files, schema, [avro]) for row in batch.to_pylist()] == [
        {"i": 7, "t": NOON},
        {"i": None, "t": None},
    ]


def test_rows_of_an_avro_file_count_where_it_lacks_all_that_is_wanted(files: TableFiles) -> None:
    """As one of Hive's that was taken over, of a column that its schema has by now; and of a table's rows by their ids."""
    import fastavro

    schema = new_schema([column("z", "INT"), column("i", "INT")], options={"bucket": "-1", "row-tracking.enabled": "true"})
    (planned,) = plan_scan(files, schema, insert(files, schema, None, [{"i": 1}])).files
    path = planned.path.replace(".parquet", ".avro")
    with Path(path).open("wb") as sink:
        record = {"type": "record", "name": "r", "fields": [{"name": "i", "type": "int"}]}
        fastavro.writer(sink, record, [{"i": 7}, {"i": 8}])
    avro = replace(planned, path=path, file=replace(planned.file, file_name=Path(path).name, row_count=2, value_stats_cols=()))
    for columns, rows in ((["z"], [{"z": None}] * 2), (["z", "i"], [{"z": None, "i": 7}, {"z": None, "i": 8}])):
        found = read_batches(files, schema, [avro], Selection(columns=columns))
        assert [row for batch in found for row in batch.to_pylist()] == rows
    numbered = read_with_row_ids(files, with_row_ids(schema), [avro], ["_ROW_ID"])
    assert [row for batch in numbered for row in batch.to_pylist()] == [{"_ROW_ID": 0}, {"_ROW_ID": 1}]
