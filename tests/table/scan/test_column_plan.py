"""Planning on columns plans what planning entry by entry plans, in its order."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from model.errors import TableDamaged
from model.predicate import And, Compare, In, IsNull, Op, Or, Predicate
from model.schema.schema import Schema, column, new_schema
from model.snapshot import CommitKind, Snapshot
from table.compaction.backlog import BacklogLedger
from table.compaction.candidates import CompactionRules
from table.format import store
from table.format.io.file_io import LocalFileIO
from table.format.manifests import columns as manifest_columns
from table.format.manifests.codec import decode_manifest, encode_manifests, entry_record, manifest_records
from table.format.manifests.columns import ManifestColumns, digest_of
from table.format.manifests.entries import EMPTY_ROW, DataFile, EntryKind, FileSource, ManifestEntry
from table.format.rows import binary_row
from table.format.rows.stats import ColumnStats, StatsModes
from table.format.store import TableFiles
from table.scan.planning import column_scan
from table.scan.planning.column_cache import COLUMNS
from table.scan.planning.entry_scan import plan_entries, plan_scan
from table.scan.planning.live import Irregular, merge_entries, netted
from table.scan.planning.live_files import LiveFiles, sums_of
from table.scan.planning.plan import ManyFiles, ScanPlan
from tests.table.write.test_snapshot_builder import a_file

TIMES = st.datetimes(dt.datetime(1960, 1, 1), dt.datetime(2030, 1, 1))
MILLIS = TIMES.map(lambda t: t.replace(microsecond=t.microsecond // 1000 * 1000))
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "k": st.integers(-3, 3) | st.integers(-(2**31), 2**31 - 1),
    "b": st.booleans(),
    "f": st.floats() | st.sampled_from([0.0, -0.0, float("nan")]),
    "s": st.text("aé\U0010ffff😀", max_size=12),
    "y": st.binary(max_size=12) | st.integers(0, 20).map(lambda n: b"\xff" * n),
    "d": st.decimals(-99, 99, places=2),
    "w": st.decimals(-(10**20), 10**20, places=10),
    "day": st.dates(dt.date(1900, 1, 1), dt.date(2100, 1, 1)),
    "t": MILLIS,
    "z": TIMES.map(lambda t: t.replace(tzinfo=dt.UTC)),
}
TYPES = {
    "k": "INT", "b": "BOOLEAN", "f": "DOUBLE", "s": "STRING", "y": "BYTES", "d": "DECIMAL(9, 2)", "w": "DECIMAL(38, 10)", "day": "DATE",
    "t": "TIMESTAMP(3)", "z": "TIMESTAMP_LTZ(6)",
}  # fmt: skip
PARTITIONS = st.tuples(st.none() | st.integers(-2, 2), st.none() | st.sampled_from(["", "x", "a longer name"]))
LITERALS = st.one_of(*VALUES.values(), st.just(float("nan")), st.just(Decimal("0.005")), st.just(2**70), st.integers(-3, 3), st.floats())


def first_schema(bucket: int) -> Schema:
    options = {"bucket": str(bucket)} | ({"bucket-key": "k"} if bucket > 0 else {})
    columns = [column("p", "INT"), column("q", "STRING"), *(column(name, type_) for name, type_ in TYPES.items())]
    return new_schema(columns, partition_keys=["p", "q"], options=options)


def evolved_schema(first: Schema) -> Schema:
    """``k`` is wider, ``s`` has another name, ``day`` is new under its name: what was there before was dropped."""
    wider = {f.name: replace(f, type=column(f.name, {"k": "BIGINT"}.get(f.name, f.type.sql())).type) for f in first.fields}
    fields = [replace(wider[f.name], name={"s": "s2"}.get(f.name, f.name)) for f in first.fields if f.name != "day"]
    fields.append(replace(first.field("day"), id=first.highest_field_id + 1))
    return replace(first, id=1, fields=tuple(fields), highest_field_id=first.highest_field_id + 1)


@st.composite
def data_files(draw: st.DrawFn, schema: Schema) -> DataFile:
    rows = draw(st.integers(0, 5))
    known = {}
    for field in schema.fields:
        values = VALUES.get({"s2": "s"}.get(field.name, field.name))
        if values is None or draw(st.booleans()):
            continue
        ends = sorted(draw(st.lists(values, min_size=2, max_size=2)))
        nulls = draw(st.none() | st.integers(0, rows))
        known[field.name] = ColumnStats(null_count=nulls) if nulls == rows else ColumnStats(min=ends[0], max=ends[1], null_count=nulls)
    mode = draw(st.sampled_from(["none", "counts", "full", "truncate(1)", "truncate(16)"]))
    modes = StatsModes(replace(schema, options={**schema.options, "metadata.stats-mode": mode, "fields.k.stats-mode": "full"}))
    stats, cols = modes.store(known)
    if draw(st.integers(0, 5)) == 0:
        stats = replace(stats, null_counts=())
    first = draw(st.integers(0, 3))
    return replace(
        a_file(f"{uuid4()}.parquet", rows), value_stats=replace(stats, null_counts=tuple(stats.null_counts)), value_stats_cols=cols,
        schema_id=schema.id, min_sequence_number=first, max_sequence_number=first + rows, file_size=draw(st.integers(1, 99)),
        file_source=draw(st.sampled_from([None, FileSource.APPEND, FileSource.COMPACT])), delete_row_count=draw(st.none() | st.just(0)),
        external_path=draw(st.none() | st.just("/elsewhere/x")), extra_files=draw(st.sampled_from([(), ("x.index",)])),
        embedded_file_index=draw(st.none() | st.just(b"i")), write_cols=draw(st.none() | st.just(("k",))),
        first_row_id=draw(st.none() | st.just(3)),
    )  # fmt: skip


@st.composite
def histories(draw: st.DrawFn, schemas: tuple[Schema, ...]) -> list[list[ManifestEntry]]:
    """Manifests of files added and removed, some removed and added again."""
    types = [f.type for f in schemas[0].partition_fields]
    live: list[ManifestEntry] = []
    gone: list[ManifestEntry] = []
    manifests = []
    for _ in range(draw(st.integers(1, 4))):
        entries = []
        for _ in range(draw(st.integers(1, 4))):
            partition = binary_row.encode_prefixed(types, draw(PARTITIONS))
            bucket, total = draw(st.integers(0, 3)), draw(st.sampled_from([schemas[0].bucket, 7]))
            file = draw(data_files(draw(st.sampled_from(schemas))))
            entries.append(ManifestEntry(kind=EntryKind.ADD, partition=partition, bucket=bucket, total_buckets=total, file=file))
        if gone and draw(st.integers(0, 3)) == 0:
            entries.append(gone.pop())
        live += entries
        for _ in range(draw(st.integers(0, 3)) if live else 0):
            chosen = live.pop(draw(st.integers(0, len(live) - 1))) if live else None
            if chosen is not None:
                gone.append(chosen)
                entries.append(replace(chosen, kind=EntryKind.DELETE))
        manifests.append(entries)
    return manifests


def predicates(names: list[str]) -> st.SearchStrategy[Predicate]:
    def compare(name: str) -> st.SearchStrategy[Predicate]:
        own = {"s2": "s", "p": "k", "q": "s"}.get(name, name)
        literals = VALUES[own] | (st.integers(-2, 2) if name == "p" else st.sampled_from(["", "x"]) if name == "q" else LITERALS)
        starts = [Compare(name, Op.STARTS_WITH, text) for text in ("", "a", "aé", "\U0010ffff")] if own == "s" else []
        ops = st.sampled_from([op for op in Op if op is not Op.STARTS_WITH])
        found: st.SearchStrategy[Predicate] = st.builds(Compare, st.just(name), ops, literals)
        found |= st.builds(In, st.just(name), st.lists(literals, max_size=3).map(tuple)) | st.builds(IsNull, st.just(name), st.booleans())
        return found | st.sampled_from(starts) if starts else found

    leaves = st.sampled_from(names).flatmap(compare)
    return st.recursive(leaves, lambda inner: st.lists(inner, min_size=1, max_size=3).map(tuple).flatmap(
        lambda parts: st.sampled_from([And(parts), Or(parts)])), max_leaves=5)  # fmt: skip


CASES = [(bucket, evolved) for bucket in (-1, 4) for evolved in (False, True)]


@pytest.fixture(autouse=True)
def always_columns(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Tables of a test are small; what is meant for large ones is done for them all."""
    monkeypatch.setattr(manifest_columns, "_MANY_ENTRIES", 0)
    monkeypatch.setattr(store, "_KEPT_ENTRIES", 1)
    yield
    COLUMNS.keep_in(None, 0)


def written(files: TableFiles, schema: Schema, manifests: list[list[ManifestEntry]]) -> Snapshot:
    types = [f.type for f in schema.partition_fields]
    metas = [meta for entries in manifests for meta in files.new_manifests(entries, types, target=1 << 20)]
    base, delta = files.new_manifest_list(metas[:-1]), files.new_manifest_list(metas[-1:])
    return Snapshot(
        id=1, uuid="u", schema_id=schema.id, base_manifest_list=base[0], base_manifest_list_size=base[1], delta_manifest_list=delta[0],
        delta_manifest_list_size=delta[1], commit_user="u", commit_identifier=1, commit_kind=CommitKind.APPEND, time_millis=1,
        total_record_count=0, delta_record_count=0,
    )  # fmt: skip


def outcome(plan: ScanPlan) -> tuple[object, ...]:
    return list(plan.files), plan.total_files, plan.total_bytes, plan.kept_bytes, plan.kept_rows


def check_plan(directory: Path, bucket: int, evolved: bool, data: st.DataObject) -> None:
    first = first_schema(bucket)
    schemas = (first, evolved_schema(first)) if evolved else (first,)
    files = TableFiles(LocalFileIO(), str(directory / uuid4().hex), allowed=None)
    for schema in schemas:
        files.write_schema(schema)
    manifests = data.draw(histories(schemas))
    snapshot = written(files, first, manifests)
    names = [f.name for f in schemas[-1].fields]
    for _ in range(3):
        predicate = data.draw(st.none() | predicates(names))
        live = list(merge_entries((entry for entries in manifests for entry in entries), table="t"))
        plain = plan_entries(files, schemas[-1], snapshot, live, predicate)
        assert outcome(plan_scan(files, schemas[-1], snapshot, predicate)) == outcome(plain)


@pytest.mark.parametrize(("bucket", "evolved"), CASES)
@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_the_plan_is_the_same_in_the_same_order(tmp_path: Path, bucket: int, evolved: bool, data: st.DataObject) -> None:
    check_plan(tmp_path, bucket, evolved, data)


@pytest.mark.torture
@pytest.mark.parametrize(("bucket", "evolved"), CASES)
@settings(max_examples=2000, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_the_plan_is_the_same_for_long(tmp_path: Path, bucket: int, evolved: bool, data: st.DataObject) -> None:
    check_plan(tmp_path, bucket, evolved, data)


@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_what_is_asked_of_many_files_is_what_their_entries_say(tmp_path: Path, data: st.DataObject) -> None:
    schema = first_schema(-1)
    files = TableFiles(LocalFileIO(), str(tmp_path / uuid4().hex), allowed=None)
    manifests = data.draw(histories((schema,)))
    snapshot = written(files, schema, manifests)
    live = list(merge_entries((entry for entries in manifests for entry in entries), table="t"))
    assert list(files.live_entries(snapshot)) == live
    assert files.bucket_sums(snapshot) == sums_of(live)
    manifests_of = files.manifests_of(snapshot)
    by_columns = files.column_files(manifests_of)  # None for a history only the plain rule tells
    for many in (files.live(manifests_of), *([] if by_columns is None else [by_columns])):
        check_live(many, live, schema, manifests)


def check_live(many: LiveFiles, live: list[ManifestEntry], schema: Schema, manifests: list[list[ManifestEntry]]) -> None:
    """Hold what is told of live files to the entries themselves."""
    assert list(many.entries()) == live
    assert many.sizes().tolist() == [entry.file.file_size for entry in live]
    small = [entry for entry in live if entry.file.file_size < 50]
    assert sorted(many.sums(below=50), key=repr) == sorted(sums_of(small), key=repr)
    rules = replace(CompactionRules.of(schema), small_bytes=50)
    begun, followed = BacklogLedger(rules, lambda: 1.0), BacklogLedger(rules, lambda: 1.0)
    begun.begin(many.sums(below=50))
    followed.apply(entry for entries in manifests for entry in entries)
    assert dict(begun.items()) == dict(followed.items())
    partitions, buckets = {entry.partition for entry in live[::2]}, {0, 3}
    assert list(many.within(partitions, buckets)) == [e for e in live if e.partition in partitions and e.bucket in buckets]
    candidates = [entry for entry in small if entry.total_buckets == 7]
    smallest = sorted(candidates, key=lambda entry: entry.file.file_size)
    first_two = [e for e in candidates if e in [o for o in smallest if (o.partition, o.bucket) == (e.partition, e.bucket)][:2]]
    assert list(many.smallest(None, None, below=50, total_buckets=7, most=2)) == first_two
    some = {digest_of(entry) for entry in live[1::2]} | {bytes(16)}
    assert list(many.of_keys(some)) == live[1::2]
    names = {entry.file.file_name for entry in live}
    assert many.names_among({*names, "another"}, partitions) == {e.file.file_name for e in live if e.partition in partitions}


def entries_named(count: int) -> list[ManifestEntry]:
    return [
        ManifestEntry(kind=EntryKind.ADD, partition=EMPTY_ROW, bucket=0, total_buckets=-1, file=a_file(f"f{number}"))
        for number in range(count)
    ]


def columns_of(entries: list[ManifestEntry]) -> ManifestColumns:
    return ManifestColumns.of(map(entry_record, entries))


def test_a_commit_on_top_only_looks_at_what_it_speaks_of() -> None:
    names = [uuid4().hex for _ in range(3)]
    entries = entries_named(4)
    gone = [replace(entry, kind=EntryKind.DELETE) for entry in entries]
    first, second = columns_of([*entries[:3], gone[0]]), columns_of([gone[1], entries[3], entries[0]])
    netted(names[:1], [first])
    told = netted(names[:2], [first, second])
    assert [mask.tolist() for mask in told.alive if mask is not None] == [[False, False, True, False], [False, True, True]]
    orphan = netted(names, [first, second, columns_of([gone[1]])]).orphans
    assert [rows.tolist() for rows in orphan] == [[], [], [0]]
    with pytest.raises(Irregular):
        netted([*names[:2], uuid4().hex], [first, second, columns_of([entries[2]])])


def test_a_removed_file_that_was_never_added_is_told_where_it_could_be_read(tmp_path: Path) -> None:
    schema = first_schema(-1)
    files = TableFiles(LocalFileIO(), str(tmp_path))
    types = [f.type for f in schema.partition_fields]
    one, other = (replace(entry, partition=binary_row.encode_prefixed(types, (n, "x"))) for n, entry in enumerate(entries_named(2)))
    snapshot = written(files, schema, [[one], [replace(other, kind=EntryKind.DELETE)]])
    assert [f.partition for f in plan_scan(files, schema, snapshot, Compare("p", Op.EQ, 0)).files] == [(0, "x")]
    for predicate in (None, Compare("p", Op.EQ, 1)):
        with pytest.raises(TableDamaged, match=r"f1 \(named by snapshot 1\) is removed without having been added"):
            plan_scan(files, schema, snapshot, predicate)


def test_manifests_of_other_partitions_are_not_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    schema = first_schema(-1)
    files = TableFiles(LocalFileIO(), str(tmp_path))
    types = [f.type for f in schema.partition_fields]
    parts = [[replace(entry, partition=binary_row.encode_prefixed(types, (n, None)))] for n, entry in enumerate(entries_named(3))]
    snapshot = written(files, schema, parts)
    store._MANIFESTS.clear()
    monkeypatch.setattr(manifest_columns, "_MANY_ENTRIES", 3)  # one manifest of a table of many files, which alone holds few
    for meta in files.manifests_of(snapshot)[::2]:
        (tmp_path / "manifest" / meta.file_name).unlink()
    plan = plan_scan(files, schema, snapshot, Compare("p", Op.EQ, 1))
    assert ([f.partition for f in plan.files], plan.total_files) == ([(1, None)], 3)
    assert (list(plan_scan(files, schema, snapshot, Compare("p", Op.EQ, 9)).files), plan.skipped_files) == ([], 2)


def test_files_of_a_large_plan_are_made_when_they_are_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(column_scan, "_AT_ONCE", 0)
    schema = first_schema(-1)
    files = TableFiles(LocalFileIO(), str(tmp_path))
    types = [f.type for f in schema.partition_fields]
    entries = [replace(e, partition=binary_row.encode_prefixed(types, (n % 2, "x"))) for n, e in enumerate(entries_named(1300))]
    snapshot = written(files, schema, [entries[:700], entries[700:]])
    planned = plan_scan(files, schema, snapshot).files
    assert isinstance(planned, ManyFiles)
    names = [f"f{n}" for n in [*range(0, 1300, 2), *range(1, 1300, 2)]]
    assert [one.file.file_name for one in planned] == names
    assert (planned[700].file.file_name, planned[-1].file.file_name) == (names[700], names[-1])
    assert [one.file.file_name for one in planned[640:660]] == names[640:660]
    with pytest.raises(IndexError):
        planned[1300]


def test_columns_of_an_older_writers_manifest_are_what_it_decodes_to(tmp_path: Path) -> None:
    records = [entry_record(entry) for entry in entries_named(2)]
    for name in ("_CREATION_TIME", "_DELETE_ROW_COUNT", "_EMBEDDED_FILE_INDEX", "_FILE_SOURCE", "_VALUE_STATS_COLS", "_WRITE_COLS"):
        for record in records:
            del record["_FILE"][name]
    ((_, _, data),) = encode_manifests(entries_named(2), target=1 << 20, new_name=str)
    assert list(ManifestColumns.of(manifest_records(data)).entries()) == decode_manifest(data)
    found = next(ManifestColumns.of(records).entries()).file
    assert (found.creation_time_millis, found.file_source, found.value_stats_cols, found.write_cols) == (0, None, None, None)
