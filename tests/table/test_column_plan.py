"""Planning on columns plans what planning entry by entry plans, in its order; and what is kept of manifests on disk is only a copy."""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from model.errors import Unavailable
from model.predicate import And, Compare, In, IsNull, Op, Or, Predicate
from model.schema import Schema, column, new_schema
from model.snapshot import CommitKind, Snapshot
from table import binary_row, column_scan, store
from table.column_cache import COLUMNS, ColumnCache
from table.file_io import LocalFileIO
from table.manifest import DataFile, EntryKind, FileSource, ManifestEntry, SimpleStats
from table.manifest_codec import decode_manifest, encode_manifests, entry_record
from table.manifest_columns import ManifestColumns
from table.plan import ManyFiles, ScanPlan
from table.scan import plan_entries, plan_scan
from table.stats import ColumnStats, StatsModes
from table.store import TableFiles, merge_entries
from tests.table.test_commit import a_file

TIMES = st.datetimes(dt.datetime(1960, 1, 1), dt.datetime(2030, 1, 1))
MILLIS = TIMES.map(lambda t: t.replace(microsecond=t.microsecond // 1000 * 1000))
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "k": st.integers(-3, 3) | st.integers(-(2**31), 2**31 - 1),
    "b": st.booleans(),
    "f": st.floats(allow_nan=False) | st.sampled_from([0.0, -0.0]),
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
    modes = StatsModes(replace(schema, options=schema.options | {"metadata.stats-mode": mode, "fields.k.stats-mode": "full"}))
    stats, cols = modes.store(known)
    if draw(st.integers(0, 5)) == 0:
        stats = replace(stats, null_counts=())
    first = draw(st.integers(0, 3))
    return replace(
        a_file(f"{uuid4()}.parquet", rows), value_stats=replace(stats, null_counts=tuple(stats.null_counts)), value_stats_cols=cols,
        schema_id=schema.id, min_sequence_number=first, max_sequence_number=first + rows, file_size=draw(st.integers(1, 99)),
        file_source=draw(st.sampled_from([None, FileSource.APPEND, FileSource.COMPACT])), delete_row_count=draw(st.none() | st.just(0)),
        external_path=draw(st.none() | st.just("file:/elsewhere/x")), extra_files=draw(st.sampled_from([(), ("x.index",)])),
        embedded_file_index=draw(st.none() | st.just(b"i")), write_cols=draw(st.none() | st.just(("k",))), first_row_id=draw(st.none() | st.just(3)),
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
    monkeypatch.setattr(store, "_MANY_ENTRIES", 0)
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


@pytest.mark.parametrize(("bucket", "evolved"), CASES)
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_the_plan_is_the_same_in_the_same_order(tmp_path: Path, bucket: int, evolved: bool, data: st.DataObject) -> None:
    first = first_schema(bucket)
    schemas = (first, evolved_schema(first)) if evolved else (first,)
    files = TableFiles(LocalFileIO(), str(tmp_path / uuid4().hex))
    for schema in schemas:
        files.write_schema(schema)
    manifests = data.draw(histories(schemas))
    snapshot = written(files, first, manifests)
    names = [f.name for f in schemas[-1].fields]
    for _ in range(3):
        predicate = data.draw(st.none() | predicates(names))
        live = list(merge_entries((entry for entries in manifests for entry in entries), location="t"))
        plain = plan_entries(files, schemas[-1], snapshot, live, predicate)
        assert outcome(plan_scan(files, schemas[-1], snapshot, predicate)) == outcome(plain)
