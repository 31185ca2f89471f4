"""Snapshots, schemas, options, tags, branches, consumers, statistics of one table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from lake.rewrite.expiry import tags_of
from model.options.masking import masked_all
from model.schema.types import DataType
from model.snapshot import Snapshot
from sql.system.base import SystemScan, as_json, moment, shown_row, system_table
from table.format.manifests.entries import bounds_of


@system_table(
    "snapshots",
    snapshot_id="BIGINT NOT NULL",
    schema_id="BIGINT NOT NULL",
    commit_user="STRING NOT NULL",
    commit_identifier="BIGINT NOT NULL",
    commit_kind="STRING NOT NULL",
    commit_time="TIMESTAMP(3) NOT NULL",
    base_manifest_list="STRING NOT NULL",
    delta_manifest_list="STRING NOT NULL",
    changelog_manifest_list="STRING",
    total_record_count="BIGINT",
    delta_record_count="BIGINT",
    changelog_record_count="BIGINT",
    watermark="BIGINT",
    next_row_id="BIGINT",
    operation="STRING",
    writer_version="STRING",
)
def snapshots(scan: SystemScan) -> Iterable[Sequence[Any]]:
    """Every snapshot that is kept, oldest first."""
    tells_counts = scan.lake.tells_counts(scan.opened)
    for s in scan.lake.snapshots(scan.opened):
        counts = (s.total_record_count, s.delta_record_count, s.changelog_record_count) if tells_counts else (None, None, None)
        reached = (s.watermark, s.next_row_id) if tells_counts else (None, None)
        yield (
            s.id, s.schema_id, s.commit_user, s.commit_identifier, str(s.commit_kind), moment(s.time_millis), s.base_manifest_list,
            s.delta_manifest_list, s.changelog_manifest_list, *counts, *reached, s.done, s.writer_version,
        )  # fmt: skip


@system_table(
    "aggregation_fields",
    field_name="STRING NOT NULL",
    field_type="STRING NOT NULL",
    function="STRING",
    function_options="STRING",
    comment="STRING",
)
def aggregation_fields(scan: SystemScan) -> Iterable[Sequence[Any]]:
    """The columns as a table that aggregates would show them: append tables have no functions, of which Paimon shows an empty list."""
    for field in scan.opened.schema.fields:
        yield field.name, str(field.type), "[]", "[]", field.description


@system_table(
    "schemas",
    schema_id="BIGINT NOT NULL",
    fields="STRING NOT NULL",
    partition_keys="STRING NOT NULL",
    primary_keys="STRING NOT NULL",
    options="STRING NOT NULL",
    comment="STRING",
    update_time="TIMESTAMP(3) NOT NULL",
)
def schemas(scan: SystemScan) -> Iterable[Sequence[Any]]:
    """Every version of the schema."""
    table = scan.opened
    for schema_id in range(table.schema.id + 1):
        schema = table.schema_at(schema_id)
        yield (
            schema.id, as_json([f.to_json() for f in schema.fields]), as_json(list(schema.partition_keys)),
            as_json(list(schema.primary_keys)), as_json(masked_all(schema.options)), schema.comment or "", moment(schema.time_millis),
        )  # fmt: skip


@system_table("options", key="STRING NOT NULL", value="STRING NOT NULL")
def options(scan: SystemScan) -> Iterable[Sequence[Any]]:
    """The options the table was given, by key."""
    return sorted(masked_all(scan.opened.schema.options).items())


@system_table(
    "tags",
    tag_name="STRING NOT NULL",
    snapshot_id="BIGINT NOT NULL",
    schema_id="BIGINT NOT NULL",
    commit_time="TIMESTAMP(3) NOT NULL",
    record_count="BIGINT",
    create_time="TIMESTAMP(3)",
    time_retained="STRING",
)
def tags(scan: SystemScan) -> Iterable[Sequence[Any]]:
    """The snapshots kept under a name, by name."""
    tells_counts = scan.lake.tells_counts(scan.opened)
    for tag in tags_of(scan.lake, scan.opened):
        s = tag.snapshot
        rows = s.total_record_count if tells_counts else None
        retained = None if tag.retained is None else _iso_duration(tag.retained.total_seconds())
        yield tag.name, s.id, s.schema_id, moment(s.time_millis), rows, moment(tag.created_millis), retained


def _iso_duration(seconds: float) -> str:
    """A span of time as Java prints it: ``PT24H``, ``PT1H30M``."""
    whole = int(seconds)
    hours, minutes, rest = whole // 3600, whole // 60 % 60, seconds - whole // 60 * 60
    parts = [f"{hours}H" if hours else "", f"{minutes}M" if minutes else "", f"{rest:g}S" if rest else ""]
    return "PT" + ("".join(parts) or "0S")


@system_table("branches", branch_name="STRING NOT NULL", create_time="TIMESTAMP(3) NOT NULL")
def branches(scan: SystemScan) -> Iterable[Sequence[Any]]:
    """The branches beside main, by name."""
    files = scan.opened.files
    made = {s.path.rpartition("/branch-")[2]: s.mtime_millis for s in files.io.list(files.layout.branches_dir())}
    return [(name, moment(made.get(name, 0))) for name in scan.lake.branches.names(scan.opened)]


@system_table("consumers", consumer_id="STRING NOT NULL", next_snapshot_id="BIGINT NOT NULL")
def consumers(scan: SystemScan) -> Iterable[Sequence[Any]]:
    """Who reads the table as a stream, and the snapshot each will read next."""
    return sorted(scan.lake.consumers(scan.opened).items())


@system_table(
    "statistics",
    snapshot_id="BIGINT NOT NULL",
    schema_id="BIGINT NOT NULL",
    mergedRecordCount="BIGINT",
    mergedRecordSize="BIGINT",
    colstat="STRING",
)
def statistics(scan: SystemScan) -> Iterable[Sequence[Any]]:
    """What ANALYZE found, where the snapshot has it."""
    snapshot = scan.snapshot
    if snapshot is None or snapshot.statistics is None:
        return
    body = scan.opened.files.statistics(snapshot.statistics)
    column_stats = as_json(body.get("colStats") or {})
    yield body["snapshotId"], body["schemaId"], body.get("mergedRecordCount"), body.get("mergedRecordSize"), column_stats


@system_table(
    "manifests",
    file_name="STRING NOT NULL",
    file_size="BIGINT NOT NULL",
    num_added_files="BIGINT NOT NULL",
    num_deleted_files="BIGINT NOT NULL",
    schema_id="BIGINT NOT NULL",
    min_partition_stats="STRING",
    max_partition_stats="STRING",
    min_row_id="BIGINT",
    max_row_id="BIGINT",
)
def manifests(scan: SystemScan) -> Iterable[Sequence[Any]]:
    """The manifests of the snapshot."""
    snapshot: Snapshot | None = scan.snapshot
    types: list[DataType] = [f.type for f in scan.opened.schema.partition_fields]
    for meta in scan.opened.files.manifests_of(snapshot) if snapshot else ():
        bounds = bounds_of(meta.partition_stats, types)
        low, high = (None, None) if bounds is None else (shown_row(types, row) for row in bounds)
        yield (
            meta.file_name, meta.file_size, meta.num_added_files, meta.num_deleted_files, meta.schema_id,
            low, high, meta.min_row_id, meta.max_row_id,
        )  # fmt: skip
