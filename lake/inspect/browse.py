"""What people look through: lists of tables as far as a caller may see them, the files of one in sums, and what needs a hand."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from catalog import CatalogTransaction
from catalog.browse import DatabaseSums, ExpiredLease, ListedTable, TableSummary
from catalog.records import ConsumerLagRow
from lake.access.callers import Caller
from lake.access.permissions import sees_part
from lake.tables.consumers import consumers
from lake.tables.handle import LakeTable
from lake.tables.views import named_resource
from model.access import Access, ResourceType, table_resource
from model.errors import LakeError
from model.identifier import MAIN_BRANCH, Identifier
from model.options.table import TABLE_OPTIONS
from model.schema.schema import other_kind
from model.snapshot import Snapshot
from table.compaction.candidates import CompactionRules
from table.format.layout import partition_dirs
from table.format.rows import binary_row
from table.scan.planning.live_files import BucketSums

if TYPE_CHECKING:
    from lake.lake import Lake

_CROWDED_FILES = 20
_CROWDED_BYTES = 16 << 20
"""A table is looked at closely when it has so many files, and they are on average smaller than this."""
_LOOKED_AT = 8
_BEHIND = 10
_PAGE = 100
_LONGEST_PAGE = 4000
"""Tables asked for at once, first and in the end: who wants five need not wait for all, who wants all does not ask often."""


def databases(lake: Lake) -> list[DatabaseSums]:
    """The databases the caller may see; the sums are told to administrators alone, since others do not see every table."""
    with lake.catalog.consistent() as tx:
        databases, caller = tx.browse.databases(), lake.access.at(tx, lake.caller)
        if caller.administrator:
            return databases
        counts = Counter((database, view) for database, _, view in _visible(tx, caller, None, None))
    return [
        DatabaseSums(name=row.name, comment=row.comment, tables=counts[row.name, False], views=counts[row.name, True], size=0)
        for row in databases
        if caller.sees_database(row.name)
    ]


def tables(
    lake: Lake, *, database: str | None = None, search: str | None = None, order: str = "name", offset: int = 0, limit: int = 50
) -> list[ListedTable]:
    """A page of the tables and views the caller may see, found by name or column."""
    with lake.catalog.consistent() as tx:
        caller = lake.access.at(tx, lake.caller)
        only = None if caller.administrator else [(within, name) for within, name, _ in _visible(tx, caller, database, search)]
        untold = _seen_in_part(tx, caller, only or ())
        return tx.browse.tables(database=database, search=search, order=order, offset=offset, limit=limit, only=only, untold=untold)


def table_count(lake: Lake) -> int | None:
    """How many tables the catalog has that this server runs; None for who is no administrator, whose grants are looked at one by one."""
    if not lake.caller.administrator:
        return None
    with lake.catalog.reading() as tx:
        counts = tx.browse.count_by_type()
    return sum(count for kind, count in counts.items() if other_kind({} if kind is None else {"type": kind}) is None)


def summaries(lake: Lake, *, database: str | None = None, table: str | None = None) -> Iterator[TableSummary]:
    """The tables the caller may open, by database and name, page by page: one query each, and no look at any file."""
    after, page = None, _PAGE
    while True:
        with lake.catalog.reading() if lake.caller.administrator else lake.catalog.consistent() as tx:
            rows, caller = tx.browse.summaries(database=database, table=table, after=after, limit=page), lake.access.at(tx, lake.caller)
            visible = [
                summary
                for summary in rows
                if other_kind(summary.options) is None
                and caller.sees_database(summary.database)
                and caller.sees(table_resource(Identifier(summary.database, summary.name)))
            ]
            untold = set(_seen_in_part(tx, caller, [(summary.database, summary.name) for summary in visible]))
        for summary in visible:
            yield replace(summary, told=False) if (summary.database, summary.name) in untold else summary
        if len(rows) < page:
            return
        after, page = (rows[-1].database, rows[-1].name), min(4 * page, _LONGEST_PAGE)


def seen_in_part(lake: Lake, names: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Those of these tables whose counts are not told to the caller; see `Lake.tells_counts`, which asks about one."""
    if lake.caller.administrator:
        return []
    with lake.catalog.consistent() as tx:
        return _seen_in_part(tx, lake.access.at(tx, lake.caller), names)


def read_whole(lake: Lake, names: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Those of these tables of which nothing is kept from the caller."""
    if lake.caller.administrator:
        return list(names)
    with lake.catalog.consistent() as tx:
        caller = lake.access.at(tx, lake.caller)
        if caller.administrator:
            return list(names)
        bound = tx.policies.binding(caller.names)
        return [name for name in names if name not in bound and caller.may(Access.SELECT, table_resource(Identifier(*name)))]


def _seen_in_part(tx: CatalogTransaction, caller: Caller, names: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    if caller.administrator:
        return []
    bound = tx.policies.binding(caller.names)
    return [name for name in names if sees_part(caller, Identifier(*name), bound=name in bound)]


def _visible(tx: CatalogTransaction, caller: Caller, database: str | None, search: str | None) -> list[tuple[str, str, bool]]:
    names = tx.browse.names(database=database, search=search)
    types = {False: ResourceType.TABLE, True: ResourceType.VIEW}
    return [entry for entry in names if caller.sees(named_resource(types[entry[2]], entry[0], entry[1]))]


# The files of one table


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """Files whose size lies between two bounds, in bytes; the upper one is not among them."""

    low: int
    high: int
    files: int
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketShare:
    """What one bucket of one partition holds."""

    partition: str
    bucket: int
    files: int
    rows: int
    size: int
    oldest_millis: int
    newest_millis: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSums:
    """The live files of a snapshot in numbers."""

    files: int = 0
    rows: int = 0
    size: int = 0
    smallest: int = 0
    median: int = 0
    largest: int = 0
    small_files: int = 0
    small_bytes: int = 0
    small_below: int = 0
    """Below so many bytes a file counts as small."""
    oldest_millis: int = 0
    newest_millis: int = 0
    steps: tuple[Step, ...] = ()
    buckets: tuple[BucketShare, ...] = ()


def file_sums(lake: Lake, table: LakeTable, snapshot: Snapshot | None) -> FileSums:
    """Sizes and buckets of a snapshot's files, by the manifests' columns where they are many; for who may read all of the table."""
    lake.require_whole(table, "files")
    below = CompactionRules.of(table.schema).small_bytes
    if snapshot is None:
        return FileSums(small_below=below)
    live = table.files.live_of(snapshot)
    sizes, sums = live.sizes(), live.sums()
    if not len(sizes):
        return FileSums(small_below=below)
    small = sizes[sizes < below]
    return FileSums(
        files=len(sizes),
        rows=sum(bucket.rows for bucket in sums),
        size=int(sizes.sum()),
        smallest=int(sizes.min()),
        median=int(np.median(sizes)),
        largest=int(sizes.max()),
        small_files=len(small),
        small_bytes=int(small.sum()),
        small_below=below,
        oldest_millis=min(bucket.oldest_millis for bucket in sums),
        newest_millis=max(bucket.newest_millis for bucket in sums),
        steps=_steps(sizes),
        buckets=tuple(_shares(table, sums)),
    )


def _steps(sizes: np.ndarray[tuple[int], np.dtype[np.int64]]) -> tuple[Step, ...]:
    """A histogram in powers of four: 1 kB, 4 kB, 16 kB, …"""
    powers = np.floor(np.log2(np.maximum(sizes, 1)) / 2).astype(np.int64)
    counts = np.bincount(powers)
    sizes_by_step = np.bincount(powers, weights=sizes)
    first = int(np.flatnonzero(counts)[0])
    return tuple(
        Step(low=4**power, high=4 ** (power + 1), files=int(counts[power]), size=int(sizes_by_step[power]))
        for power in range(first, len(counts))
    )


def shown_partition(table: LakeTable, partition: bytes) -> str:
    """A partition as its directory is named; empty for a table without any."""
    types = [f.type for f in table.schema.partition_fields]
    return "/".join(partition_dirs(table.schema, binary_row.decode(types, partition)))


def _shares(table: LakeTable, sums: Sequence[BucketSums]) -> list[BucketShare]:
    names = {partition: shown_partition(table, partition) for partition in {bucket.partition for bucket in sums}}
    shares = [
        BucketShare(
            partition=names[bucket.partition], bucket=bucket.bucket, files=bucket.files, rows=bucket.rows, size=bucket.size,
            oldest_millis=bucket.oldest_millis, newest_millis=bucket.newest_millis,
        )
        for bucket in sums
    ]  # fmt: skip
    return sorted(shares, key=lambda share: (share.partition, share.bucket))


# What needs a hand


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionBacklog:
    """A table with more small files than it should have."""

    table: Identifier
    small_files: int
    small_bytes: int
    files: int
    write_only: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Attention:
    """What somebody should look at; each list is cut to the worst."""

    debts: tuple[CompactionBacklog, ...]
    lagging: tuple[ConsumerLagRow, ...]
    leases: tuple[ExpiredLease, ...]


def attention(lake: Lake, *, limit: int = _LOOKED_AT) -> Attention:
    """Small files, readers left behind, and tables nobody maintains, as far as the caller may see them."""
    with lake.catalog.consistent() as tx:
        caller = lake.access.at(tx, lake.caller)
        crowded = tx.overview.small_files(files=_CROWDED_FILES, mean_bytes=_CROWDED_BYTES, limit=3 * limit)
        lagging = tx.overview.lagging(behind=_BEHIND, branch=MAIN_BRANCH, limit=3 * limit)
        leases = tx.browse.expired_leases(limit=3 * limit)

    def seen(database: str, name: str) -> bool:
        return caller.sees(table_resource(Identifier(database, name)))

    debts = []
    for identifier in [Identifier(row.database, row.table_name) for row in crowded if seen(row.database, row.table_name)][:limit]:
        with contextlib.suppress(LakeError):  # dropped meanwhile, or one whose files are not this caller's to see
            if (debt := _debt(lake, identifier)) is not None:
                debts.append(debt)
    return Attention(
        debts=tuple(debts),
        lagging=tuple(_still_behind(lake, [entry for entry in lagging if seen(entry.database, entry.table_name)][:limit])),
        leases=tuple(entry for entry in leases if seen(entry.database, entry.table))[:limit],
    )


def _still_behind(lake: Lake, noted: Sequence[ConsumerLagRow]) -> list[ConsumerLagRow]:
    """The consumers that their files say are behind, too: those are the truth, which other engines and procedures write alone."""
    behind = []
    for consumer in noted:
        with contextlib.suppress(LakeError):
            known = consumers(lake.catalog, lake.open(Identifier(consumer.database, consumer.table_name))).get(consumer.name)
            if known is not None and consumer.latest - known + 1 >= _BEHIND:
                behind.append(replace(consumer, next_snapshot=known))
    return behind


def _debt(lake: Lake, identifier: Identifier) -> CompactionBacklog | None:
    """A table's small files, where some bucket has enough of them to be merged."""
    table = lake.open(identifier)
    sums = file_sums(lake, table, table.latest())
    least = int(TABLE_OPTIONS.read(table.schema.options, "compaction.min.file-num"))
    if sums.small_files <= least * max(1, len(sums.buckets)):
        return None
    write_only = bool(TABLE_OPTIONS.read(table.schema.options, "write-only"))
    return CompactionBacklog(
        table=identifier, small_files=sums.small_files, small_bytes=sums.small_bytes, files=sums.files, write_only=write_only
    )
