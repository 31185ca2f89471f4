"""What belongs to tables and databases besides schemas and rows: tags, branches, history, views, functions, partitions, consumers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial

from catalog.listing import EVERYTHING, Slice
from catalog.records import CountsRow, PartitionRow
from lake.access.guard import asks_itself, needs
from lake.commit.claims import Claim, claimed_in
from lake.inspect.counts import partition_page, partitions_named, totals
from lake.register.expired import forget_expired
from lake.tables import done_marks
from lake.tables.branches import Branches
from lake.tables.consumers import consumers, forget_consumer, reset_consumer
from lake.tables.databases import LakeDatabases
from lake.tables.handle import LakeTable
from lake.tables.history import History
from lake.tables.tags import Tags
from lake.tables.views import Functions, Views
from model.access import Access
from model.catalog_errors import PartitionAlreadyExist
from model.errors import InvalidSchema
from model.partition import PartitionStatistics, partition_name
from model.schema.schema import other_kind
from model.snapshot import Snapshot

Spec = Mapping[str, str]


class LakeMetadata(LakeDatabases):
    """The smaller things of a catalog."""

    @property
    def tags(self) -> Tags:
        """The tags of tables, as the caller may see and change them."""
        return Tags(self.catalog, self._publisher, self.standing, self.caller)

    @property
    def branches(self) -> Branches:
        """The branches of tables."""
        return Branches(self.catalog, self._publisher, self.tags, partial(self._found_ready, wait=True))

    @property
    def history(self) -> History:
        """The snapshots of tables."""
        return History(self.catalog, self._publisher, self.tags)

    @property
    def views(self) -> Views:
        """The views of all databases."""
        return Views(self.catalog, self.caller, self.access, self.standing)

    @property
    def functions(self) -> Functions:
        """The functions of all databases."""
        return Functions(self.catalog, self.caller, self.access, self.standing)

    @asks_itself
    def snapshots(self, table: LakeTable) -> list[Snapshot]:
        """All snapshots that are kept, oldest first, their files in place; whoever could open the table may know them."""
        table.latest()
        forget_expired(self.catalog, table)
        with self.catalog.reading() as tx:
            return [Snapshot.from_json(row.body) for row in tx.snapshots.history(table.table_id, table.identifier.branch)]

    @asks_itself
    def step(self, name: str) -> None:
        """Tell the hook of a step that was just finished."""
        self._hook(name)

    @asks_itself
    def totals(self, table: LakeTable) -> tuple[Snapshot, CountsRow] | None:
        """The latest snapshot with what it holds; see `lake.inspect.counts.totals`. Whoever could open the table may know it."""
        return totals(self.catalog, self._publisher, table)

    @needs(Access.SELECT)
    def consumers(self, table: LakeTable) -> dict[str, int]:
        """Each consumer's next snapshot, by name."""
        return consumers(self.catalog, table)

    @needs(Access.UPDATE)
    def reset_consumer(
        self, table: LakeTable, name: str, next_snapshot: int | None, *, after: str | None = None, claim: Claim | None = None
    ) -> None:
        """Let a consumer go on from a snapshot, once under a claim; None forgets it. See `lake.tables.consumers.reset_consumer`."""
        reset_consumer(self.catalog, table, name, next_snapshot, after=after, claim=claim)

    @needs(Access.UPDATE, instead=Access.DELETE)  # who has DELETE takes the snapshots that a consumer keeps, as sys.purge_files does
    def forget_consumer(self, table: LakeTable, name: str, *, claim: Claim | None = None) -> None:
        """Forget a consumer, once under a claim, whatever its name; a stream that reads under it here ends."""
        forget_consumer(self.catalog, table, name, claim=claim)

    @asks_itself
    def partition_page(self, table: LakeTable, wanted: Slice = EVERYTHING) -> list[PartitionRow]:
        """Partitions with what is known of them, by name."""
        self.require_whole(table, "partitions")
        return partition_page(self.catalog, table, wanted)

    @asks_itself
    def partitions_named(self, table: LakeTable, specs: Sequence[Spec]) -> list[PartitionRow]:
        """Those of these partitions that exist."""
        self.require_whole(table, "partitions")
        return partitions_named(self.catalog, table, [_name(table, spec) for spec in specs])

    @asks_itself
    def partitions_done(self, table: LakeTable, specs: Sequence[Spec], rows: Sequence[PartitionRow] | None = None) -> list[bool]:
        """For each partition whether it is marked as done; ``rows`` are what the catalog has of them, where the caller has asked for it."""
        if rows is None:
            rows = self.partitions_named(table, specs)
        return done_marks.done(table, specs, {row.name for row in rows if row.done})

    @needs(Access.UPDATE)
    def create_partitions(
        self,
        table: LakeTable,
        specs: Sequence[Spec],
        *,
        ignore_existing: bool = True,
        statistics: Sequence[PartitionStatistics] = (),
        replace_statistics: bool = False,
    ) -> tuple[list[Spec], list[Spec]]:
        """Add partitions without files; returns which were made and which there were.

        Raises `PartitionAlreadyExist`, and then none was made; `Forbidden` for who sees a part of the table, as that there was one tells
        of its rows. Statistics count for tables whose files other engines
        write; ours tell themselves what they hold.
        """
        if not self.tells_counts(table):
            self.require_whole(table, "partitions")
        named = [(_name(table, spec), spec) for spec in specs]
        partition_page(self.catalog, table, Slice(limit=1))  # the rows must hold before they are asked
        wanted = dict(named)
        with self.catalog.transaction() as tx, claimed_in(tx, None):
            made_now = tx.partitions.create(table.table_id, table.identifier.branch, wanted, by=self.caller.principal)
            if not ignore_existing and len(made_now) < len(named):
                twice = Counter(name for name, _ in named)
                first = min(name for name, times in twice.items() if times > 1 or name not in made_now)
                raise PartitionAlreadyExist(first, str(table.identifier))
            if statistics and other_kind(table.schema.options) is not None:
                reported = [(_name(table, partition.spec), partition) for partition in statistics]
                tx.partitions.report(table.table_id, table.identifier.branch, reported, replace=replace_statistics)
        created: list[Spec] = []
        existed: list[Spec] = []
        for name, spec in named:  # one that is named twice is there the second time
            (created if name in made_now else existed).append(spec)
            made_now.discard(name)
        return created, existed

    @needs(Access.UPDATE)
    def mark_partitions_done(self, table: LakeTable, specs: Sequence[Spec]) -> None:
        """Mark partitions as complete; those that do not exist are passed over."""
        for spec in specs:
            _name(table, spec)
        names = [name for spec in specs for name in done_marks.names(table.schema, spec)]
        partition_page(self.catalog, table, Slice(limit=1))
        with self.catalog.transaction() as tx, claimed_in(tx, None):
            tx.partitions.mark_done(table.table_id, table.identifier.branch, names, by=self.caller.principal)


def _name(table: LakeTable, spec: Spec) -> str:
    """A partition's name; raises `InvalidSchema` for a spec that does not name one."""
    keys = table.schema.partition_keys
    if set(spec) != set(keys) or not keys:
        raise InvalidSchema(f"Table {table.identifier} is partitioned by ({', '.join(keys)}), and not by ({', '.join(spec)}).")
    return partition_name(spec, keys)
