"""Build the snapshot a commit asks for (`paimon-append.md` §6.1–6.3). Deciding and publishing it are `lake/commit/decide.py`'s."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from model.commit_phase import CommitProgress
from model.errors import InvalidOption, RewriteConflict, UnsupportedType
from model.event_time import is_far_ahead
from model.options.table import TABLE_OPTIONS, is_on
from model.schema.schema import Schema
from model.snapshot import BATCH_COMMIT_IDENTIFIER, NO_WATERMARK, OPERATION, CommitKind, Snapshot, told_operation
from table.format.deletions import deletions_of, index_after, index_written, key_of, say_the_same, with_vectors
from table.format.manifests.columns import digest_of
from table.format.manifests.entries import DataFile, EntryKind, ManifestEntry, NewFile
from table.format.rows.row_ids import with_row_ids
from table.format.store import TableFiles
from table.scan.skipping.partition_filter import BucketFilter, by_value
from table.write.manifest_merge import merged
from table.write.places import check_order, check_places, placed
from table.write.seen import Seen
from table.write.sequences import BUCKETS, Buckets, in_sequence, raise_tops

COMMITTED_BY = "sluice.committed-by"
"""The property of a snapshot that names who was logged in when it was committed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitRequest:
    """What one writer wants committed."""

    kind: CommitKind
    adds: tuple[NewFile, ...] = ()
    deletes: tuple[ManifestEntry, ...] = ()
    """Live entries a rewrite takes away; the commit loses when one of them is gone."""
    overwrite: Callable[[bytes], bool] | None = None
    """Which partitions lose what they hold at the moment of the commit; evaluated anew at every attempt."""
    spared: Callable[[bytes, Sequence[ManifestEntry]], bool] | None = None
    """Whether a partition, given its live files, is spared from that: where something came since it was found to be of no more use."""
    buckets: int | None = None
    """How many buckets the partitions have that an overwrite fills; None for as many as the table's others get."""
    commit_user: str
    commit_identifier: int = BATCH_COMMIT_IDENTIFIER
    watermark: int | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    operation: str | None = None
    """The operation in Paimon's word or in ours; see `model.snapshot.Operation`."""
    statistics: str | None = None
    """The statistics file an ANALYZE has written."""
    in_place: bool = False
    """Whether what is added holds rows of what goes, under numbers of theirs: rows are erased or changed where they stand."""
    behind: int = 0
    """How many of the last files added hold rows that go behind what their buckets hold, beside those that are added in place."""
    seen: Seen | None = None
    """Of a change of rows: what it went by. The commit loses where another change came to that meanwhile."""
    registers: bool = False
    """Whether the files it adds lay there before: none may be the table's already, as the rows of two entries are read twice."""
    merge_manifests: bool = False
    """Whether all manifests are merged on the occasion (``sys.compact_manifest``)."""
    progress: CommitProgress = field(default_factory=CommitProgress, compare=False)
    """How far it has come; the same for every copy of the request."""

    @property
    def takes_away(self) -> bool:
        """Whether live rows go: no compaction, which puts the same rows in their place."""
        return self.overwrite is not None or (bool(self.deletes) and self.kind is not CommitKind.COMPACT)

    @property
    def plain_append(self) -> bool:
        """Whether the commit only adds: such a commit never conflicts and may share a snapshot with others."""
        return self.kind is CommitKind.APPEND and not self.deletes and self.overwrite is None and not self.registers


def everything(_: bytes) -> bool:
    """An overwrite of the whole table."""
    return True


def build_snapshot(
    files: TableFiles, schema: Schema, latest: Snapshot | None, requests: Sequence[CommitRequest], *, uuid: str, time_millis: int
) -> Snapshot:
    """Write the manifests of the commit on top of ``latest`` and return its snapshot; the snapshot file is not written.

    Several requests share one snapshot only when all are plain appends. Raises `RewriteConflict` when files a rewrite
    takes away are gone or files it adds are there, or when a partition would mix bucket numbers; `InvalidOption` when an
    append would mix them.
    """
    first = requests[0]
    if len(requests) > 1 and not all(request.plain_append for request in requests):
        raise ValueError("only plain appends share a snapshot")
    if any(request.adds for request in requests):
        check_writable(schema)
    changes, buckets = _changes(files, schema, latest, requests)
    index_manifest = _index_after(files, schema, latest, requests, changes)
    next_row_id = (latest.next_row_id if latest else None) or 0
    if is_on(schema.options, "row-tracking.enabled"):
        changes, next_row_id = with_row_ids(changes, snapshot_id=latest.id + 1 if latest else 1, first=next_row_id)
    types = [f.type for f in schema.partition_fields]
    delta = files.new_manifests(changes, types, target=TABLE_OPTIONS.read(schema.options, "manifest.target-file-size"))
    delta_name, delta_size = files.new_manifest_list(delta)
    before = merged(files, schema, files.manifests_of(latest), everything=first.merge_manifests) if latest else []
    base_name, base_size = files.new_manifest_list(before)
    if buckets is not None:
        BUCKETS.remember(files, delta_name, buckets)
    added = sum(entry.file.row_count * (1 if entry.kind is EntryKind.ADD else -1) for entry in changes)
    return Snapshot(
        id=latest.id + 1 if latest else 1,
        uuid=uuid,
        schema_id=schema.id,
        base_manifest_list=base_name,
        base_manifest_list_size=base_size,
        delta_manifest_list=delta_name,
        delta_manifest_list_size=delta_size,
        commit_user=first.commit_user,
        commit_identifier=first.commit_identifier,
        commit_kind=first.kind,
        time_millis=max(time_millis, latest.time_millis if latest else 0),
        total_record_count=(latest.total_record_count if latest else 0) + added,
        delta_record_count=added,
        index_manifest=index_manifest,
        watermark=_watermark(latest, requests),
        # Statistics tell of the least and the greatest value of a column, which may be what was erased.
        statistics=first.statistics or (latest.statistics if latest and latest.schema_id == schema.id and not first.in_place else None),
        properties=_properties(requests),
        next_row_id=next_row_id,
        operation=told_operation(first.operation)[0],
    )


def with_buckets(schema: Schema, buckets: int) -> Schema:
    """The schema of a table with another number of buckets."""
    return replace(schema, options={**schema.options, "bucket": str(buckets)})


def metadata_written(files: TableFiles, schema: Schema, latest: Snapshot | None, snapshot: Snapshot) -> list[str]:
    """The metadata files a built snapshot names and the one before it did not: what `build_snapshot` and its caller have written."""
    before = {meta.file_name for meta in files.manifests_of(latest)} if latest else set()
    names = [snapshot.base_manifest_list, snapshot.delta_manifest_list]
    names += [meta.file_name for meta in files.manifests_of(snapshot) if meta.file_name not in before]
    paths = [files.layout.manifest(name) for name in names]
    paths += index_written(files, schema, latest.index_manifest if latest else None, snapshot.index_manifest)
    if snapshot.statistics and (latest is None or latest.statistics != snapshot.statistics):
        paths.append(files.layout.statistics_file(snapshot.statistics))
    return paths


def _properties(requests: Sequence[CommitRequest]) -> Mapping[str, str]:
    """The first request's and its operation where Paimon has no word for it, with everybody named whose rows share the snapshot."""
    who = dict.fromkeys(name for request in requests if (name := request.properties.get(COMMITTED_BY)) is not None)
    _, own = told_operation(requests[0].operation)
    operation = {} if own is None else {OPERATION: own}
    return {**requests[0].properties, **operation, **({} if len(who) < 2 else {COMMITTED_BY: ", ".join(who)})}


def check_writable(schema: Schema) -> None:
    """Raise `UnsupportedType` for a table whose rows lie in several files each."""
    if is_on(schema.options, "data-evolution.enabled"):
        raise UnsupportedType("The table has 'data-evolution.enabled' = 'true', which is not written here; use the client that made it.")


def _index_after(
    files: TableFiles, schema: Schema, latest: Snapshot | None, requests: Sequence[CommitRequest], changes: Sequence[ManifestEntry]
) -> str | None:
    """The index manifest after the changes.

    Raises `RewriteConflict` where rows of a file were deleted, or came back by a rollback, since a rewrite read it.
    """
    stays = {key_of(entry) for entry in changes if entry.kind is EntryKind.ADD}  # with another index of its values
    known = deletions_of(files, schema, latest)  # none where a rollback took the index manifest away: what was deleted lives again
    for entry in (entry for request in requests for entry in request.deletes):
        if key_of(entry) not in stays and not say_the_same(files, entry.vector, known.get(key_of(entry))):
            raise RewriteConflict(
                f"Rows of file {entry.file.file_name} were deleted, or brought back, while it was rewritten; nothing was changed.",
                resource_name=entry.file.file_name,
            )
    if latest is None or latest.index_manifest is None:
        return None
    gone = {key_of(entry) for entry in changes if entry.kind is EntryKind.DELETE} - stays
    return index_after(files, schema, latest, gone)


def _watermark(latest: Snapshot | None, requests: Sequence[CommitRequest]) -> int | None:
    """The largest known; Flink jobs without watermarks store Long.MIN, which means none.

    One far ahead, as a table that was registered may have it, ends with its snapshot: no event would ever pass it.
    """
    known = [request.watermark for request in requests]
    if latest and latest.watermark is not None and not is_far_ahead(latest.watermark):
        known.append(latest.watermark)
    return max((mark for mark in known if mark is not None and mark > NO_WATERMARK), default=None)


def _changes(
    files: TableFiles, schema: Schema, latest: Snapshot | None, requests: Sequence[CommitRequest]
) -> tuple[list[ManifestEntry], Buckets | None]:
    """The delta's entries (deletions first), and the buckets after it where the table has such."""
    first = requests[0]
    if first.plain_append:
        return _appended(files, schema, latest, requests)
    if first.registers:
        added, buckets = _appended(files, schema, latest, requests)
        named = BucketFilter([f.type for f in schema.partition_fields], {entry.partition for entry in added})
        _check_new(files, list(files.touched_entries(latest, named)), added)
        return added, buckets
    if first.kind is CommitKind.ANALYZE:
        return [], BUCKETS.of(files, latest) if schema.bucket > 0 else None
    if first.kind is CommitKind.COMPACT or first.in_place:
        return _compacted(files, schema, latest, first)
    live, others = _overwritable(files, schema, latest, first)
    tops = dict(others.tops)
    deleted = _deleted(schema, first, live)
    gone = {entry.key() for entry in deleted}
    survivors = [entry for entry in live if entry.key() not in gone]
    adds = first.adds
    numbered = schema if first.buckets is None else with_buckets(schema, first.buckets)
    if schema.bucket > 0:
        _check_bucket_numbers(numbered, survivors, adds)
    raise_tops(tops, survivors)
    # An overwrite restarts a replaced bucket's numbers at 0 as Paimon does.
    shifted = in_sequence(adds, tops) if schema.bucket > 0 else [new.file for new in adds]
    added = _entries(numbered, adds, shifted)
    _check_new(files, survivors, added)
    raise_tops(tops, added)
    deletions = [_deletion(entry) for entry in deleted]
    numbers = others.numbers | {entry.total_buckets for entry in (*survivors, *added)}
    return [*deletions, *added], Buckets(tops=tops, numbers=numbers) if schema.bucket > 0 else None


def _overwritable(
    files: TableFiles, schema: Schema, latest: Snapshot | None, request: CommitRequest
) -> tuple[list[ManifestEntry], Buckets]:
    """The live files of the partitions an overwrite is about, and the buckets of all others."""
    sums = files.bucket_sums(latest)
    named = {entry.partition for entry in request.deletes} | {new.partition for new in request.adds}
    about = {s.partition for s in sums if s.partition in named or (request.overwrite is not None and request.overwrite(s.partition))}
    live = list(files.touched_entries(latest, BucketFilter([f.type for f in schema.partition_fields], about))) if about else []
    return live, Buckets.of_sums(s for s in sums if s.partition not in about)


def _appended(
    files: TableFiles, schema: Schema, latest: Snapshot | None, requests: Sequence[CommitRequest]
) -> tuple[list[ManifestEntry], Buckets | None]:
    if schema.bucket <= 0:
        return [entry for request in requests for entry in _entries(schema, request.adds, [new.file for new in request.adds])], None
    before = BUCKETS.of(files, latest)
    if before.numbers - {schema.bucket}:
        _check_appendable(files, schema, latest, requests)
    tops = dict(before.tops)
    changes: list[ManifestEntry] = []
    for request in requests:
        added = _entries(schema, request.adds, in_sequence(request.adds, tops))
        raise_tops(tops, added)
        changes += added
    return changes, Buckets(tops=tops, numbers=before.numbers | {schema.bucket})


def _check_appendable(files: TableFiles, schema: Schema, latest: Snapshot | None, requests: Sequence[CommitRequest]) -> None:
    """Raise `InvalidOption` where rows go to a partition of another number of buckets: those of one key would be in two queues."""
    adds = [new for request in requests for new in request.adds]
    touched = BucketFilter([f.type for f in schema.partition_fields], {new.partition for new in adds})
    other = _of_other_number(schema, files.touched_entries(latest, touched), adds)
    if other is not None:
        raise InvalidOption(f"{_numbers_told(schema, other)} Rows can be inserted again afterwards.")


def _compacted(
    files: TableFiles, schema: Schema, latest: Snapshot | None, request: CommitRequest
) -> tuple[list[ManifestEntry], Buckets | None]:
    """The changes of a compaction, or of rows changed in place: only their buckets are read, and what a bucket ends with stays.

    Rows that were moved or are new go behind it.
    """
    types = [f.type for f in schema.partition_fields]
    in_place, behind = request.adds[: len(request.adds) - request.behind], request.adds[len(request.adds) - request.behind :]
    places = {(e.partition, e.bucket) for e in request.deletes} | {(new.partition, new.bucket) for new in request.adds}
    touched = BucketFilter(types, {partition for partition, _ in places}, {bucket for _, bucket in places})
    tops = dict(BUCKETS.of(files, latest).tops) if behind and schema.bucket > 0 else {}
    added = _entries(schema, in_place, [new.file for new in in_place])
    appended = _entries(schema, behind, in_sequence(behind, tops))
    live = _live(files, schema, latest, touched, [*request.deletes, *added, *appended])
    deleted = _deleted(schema, request, live)
    gone = {entry.key() for entry in deleted}
    survivors = [entry for entry in live if entry.key() not in gone]
    _check_new(files, survivors, [*added, *appended])
    if schema.bucket > 0:
        _check_bucket_numbers(schema, survivors, in_place)
        clustered = is_on(schema.options, "clustering.incremental")  # what is sorted keeps no order that it came in
        if request.in_place or not clustered:
            added = placed(live, gone, added)
        if request.in_place:
            check_places(live, gone)
        elif not clustered:
            check_order(files, with_vectors(files, schema, latest, live), gone, added)
    changes = [*(_deletion(entry) for entry in deleted), *added, *appended]
    if schema.bucket <= 0:
        return changes, None
    before = BUCKETS.of(files, latest)
    if not behind:
        return changes, before
    if before.numbers - {schema.bucket}:
        _check_appendable(files, schema, latest, [replace(request, adds=behind)])
    raise_tops(tops, appended)
    return changes, Buckets(tops=tops, numbers=before.numbers | {schema.bucket})


def _live(
    files: TableFiles, schema: Schema, latest: Snapshot | None, touched: BucketFilter, named: Sequence[ManifestEntry]
) -> list[ManifestEntry]:
    """The live files a compaction must know: those in its buckets, or without order those it names."""
    if latest is not None and schema.bucket <= 0:
        return list(files.live_among(latest, touched.may_hold).of_keys({digest_of(entry) for entry in named}))
    return list(files.touched_entries(latest, touched))


def _entries(schema: Schema, adds: Sequence[NewFile], files: Sequence[DataFile]) -> list[ManifestEntry]:
    total = schema.bucket if schema.bucket > 0 else -1
    return [
        ManifestEntry(kind=EntryKind.ADD, partition=new.partition, bucket=new.bucket, total_buckets=total, file=file)
        for new, file in zip(adds, files, strict=True)
    ]


def _deletion(entry: ManifestEntry) -> ManifestEntry:
    return ManifestEntry(
        kind=EntryKind.DELETE, partition=entry.partition, bucket=entry.bucket, total_buckets=entry.total_buckets, file=entry.file
    )


def _deleted(schema: Schema, request: CommitRequest, live: Sequence[ManifestEntry]) -> list[ManifestEntry]:
    if request.overwrite is not None:
        chosen: dict[bytes, list[ManifestEntry]] = {}
        written_as = by_value([field.type for field in schema.partition_fields])
        for entry in live:
            if request.overwrite(entry.partition):
                chosen.setdefault(written_as(entry.partition), []).append(entry)
        spared = request.spared or (lambda _, __: False)
        return [entry for partition, entries in chosen.items() if not spared(partition, entries) for entry in entries]
    present = {entry.key(): entry for entry in live}
    lost = [entry for entry in request.deletes if entry.key() not in present]
    if lost:
        raise RewriteConflict(
            f"File {lost[0].file.file_name} is no longer part of the table: someone rewrote or deleted it meanwhile.",
            resource_name=lost[0].file.file_name,
        )
    if request.adds:
        check_schema(schema, request.deletes)
    return [present[entry.key()] for entry in request.deletes]


def check_schema(schema: Schema, rewritten: Sequence[ManifestEntry]) -> None:
    """No file is written anew under an older schema than its own: what columns added meanwhile hold would fall away."""
    newer = next((entry.file for entry in rewritten if entry.file.schema_id > schema.id), None)
    if newer is not None:
        raise RewriteConflict(
            f"File {newer.file_name} is of schema {newer.schema_id}, and what is written is of schema {schema.id}; nothing was changed.",
            resource_name=newer.file_name,
        )


def _check_new(files: TableFiles, survivors: Sequence[ManifestEntry], added: Sequence[ManifestEntry]) -> None:
    """A rewrite adds no file that is there already (`paimon-append.md` §6.2 b): its rows would be read twice."""
    present = {entry.key() for entry in survivors}
    for entry in added:
        if entry.key() in present:
            raise RewriteConflict(
                f"File {entry.file.file_name} is part of the table at {files.location} already; nothing was changed. "
                "The same rewrite was committed before, or its files were made by a copy.",
                resource_name=entry.file.file_name,
            )
        present.add(entry.key())


def _check_bucket_numbers(schema: Schema, survivors: Sequence[ManifestEntry], adds: Sequence[NewFile]) -> None:
    """A partition holds one number of buckets; a new number comes with an overwrite of the partition."""
    other = _of_other_number(schema, survivors, adds)
    if other is not None:
        raise RewriteConflict(_numbers_told(schema, other), resource_name=other.file.file_name)


def _of_other_number(schema: Schema, live: Iterable[ManifestEntry], adds: Sequence[NewFile]) -> ManifestEntry | None:
    """A live file in a partition that is written and has another number of buckets than the schema says."""
    written = {new.partition for new in adds}
    return next((entry for entry in live if entry.partition in written and entry.total_buckets != schema.bucket), None)


def _numbers_told(schema: Schema, other: ManifestEntry) -> str:
    return (
        f"The partition was written with {other.total_buckets} buckets and the table now has {schema.bucket}; "
        "rewrite it with CALL sys.rescale, which keeps the order, or whole with INSERT OVERWRITE."
    )
