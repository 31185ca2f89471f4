"""CALL sys.erase: rows that go from a table for good, with the history that holds them."""

from __future__ import annotations

import contextlib
import datetime as dt
import time
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from uuid import uuid4

from sqlglot import exp

from lake import LakeTable
from lake.commit.steps import Steps
from lake.rewrite import expiry as kept
from lake.rewrite.change_rows import Changes, change_rows, require_erasable
from lake.rewrite.changelogs import ids_of_changelogs
from lake.rewrite.orphans import remove_orphan_files
from lake.rewrite.partition_names import forget_names, forget_partitions, names_of
from model.access import Access, table_resource
from model.errors import AnalysisError, LakeError
from model.predicate import Predicate
from model.schema.types import BigIntType, Field, VarCharType
from model.snapshot import CommitKind, Snapshot
from model.text.sql_text import literal
from sql.dialect import parse_one
from sql.execution.results import STRING, ResultColumn, ResultSet
from sql.local import plan_locally
from sql.parsing import trees
from sql.parsing.size import check_words
from sql.statements.base import ExecutionContext, build
from sql.statements.procedures.calls import DRY_COLUMN, Arguments, alone, identifier_of, procedure
from sql.statements.procedures.partition_choice import where
from sql.statements.rows.changing import ChangesRows
from table.retention.expiry import ExpiryRules
from table.scan.skipping.entry_prune import PartitionPruning
from table.write.snapshot_builder import CommitRequest

_COLUMNS = (
    ResultColumn("what", STRING), ResultColumn("name", STRING), ResultColumn("count", BigIntType()), ResultColumn("left", VarCharType()),
    DRY_COLUMN,
)  # fmt: skip
_LIVE = ("table", "branch")
"""Places whose rows are deleted; the others lose what still held them."""
_ALL_BUT_THE_LAST = ExpiryRules(at_least=1, at_most=1, retained=dt.timedelta(), per_run=None, keeps_shared=False)


def _on_spark(_: Arguments) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class _Place:
    """Something that holds such rows, or may."""

    what: str
    name: str
    rows: int | None = None
    left: str | None = None
    """What is to be done about it, where the call does not."""


@procedure("erase", required=2, spark=_on_spark, table=str, where=str)
def erase_rows(context: ExecutionContext, arguments: Arguments) -> ResultSet:
    """Delete rows from a table and its branches, and let go the tags and snapshots that hold them; one row for each place."""
    name = identifier_of(context, str(arguments["table"]))
    table = context.lake.open_whole(name, "rows are erased from a table with all its branches")
    for access in (Access.DELETE, Access.PURGE):
        context.lake.caller.require(access, table_resource(table.identifier))
    context.lake.require_whole(table, "rows")
    require_erasable(table)
    # Under the key of a repeat stands this call's own answer, none of a commit in it.
    erasing = _Erasing(replace(context, idempotency=None), table, str(arguments["where"]), dry_run=arguments.dry_run)
    with Steps("sys.erase"):
        places = list(erasing.places())
    rows = [(one.what, one.name, one.rows, one.left, arguments.dry_run) for one in places]
    result = ResultSet.of_rows(_COLUMNS, rows)
    if not arguments.dry_run:
        result.erased_rows = sum(one.rows or 0 for one in places if one.what in _LIVE)
    return result


class _Erasing:
    """One call's way through all that a table keeps."""

    def __init__(self, context: ExecutionContext, table: LakeTable, where: str, *, dry_run: bool) -> None:
        self._context, self._lake, self._table, self._where, self._dry_run = context, context.lake, table, where, dry_run
        self._partitions: set[str] = set()
        """Names of partitions that hold such rows, or did."""
        self._predicate: Predicate | None = None
        """What is certain of every such row."""
        self._clean: dict[tuple[int, tuple[Field, ...]], set[str]] = defaultdict(set)
        """Of each version of the schema the files that were read and hold no such row, of all branches: a file never changes."""

    def places(self) -> Iterator[_Place]:
        """Erase, and tell where."""
        lake, name = self._lake, self._table.identifier
        branches = [self._table, *(lake.open(replace(name, branch=branch)) for branch in lake.branches.names(self._table))]
        if not self._dry_run:
            lake.clock.require(self._table.latest())
            for branch in branches[1:]:  # one that refuses, as where it has not the option or the column, does so before a row is gone
                self._holds(branch, branch.latest())
        for table in branches:
            yield from self._deleted(table)
        for table in branches:
            yield from self._tags(table)
        for table in branches:
            yield from self._snapshots(table)
        if ids := ids_of_changelogs(self._table):
            way = "kept by another client's expiry: CALL sys.expire_changelogs with delete_all there"
            yield _Place("changelogs", f"{ids[0]} to {ids[-1]}", len(ids), way)
        yield from self._orphans()
        yield from self._names(branches)
        for dropped in lake.dropped_tables(name.database):
            if dropped.name == name.table:
                yield _Place("dropped table", str(dropped.drop_id), None, f"PURGE TABLE {name.quoted()} WITH ID {dropped.drop_id}")
        yield from self._texts()

    def _texts(self) -> Iterator[_Place]:
        lake, name = self._lake, self._table.identifier
        by = None if lake.caller.administrator else lake.caller.principal
        if texts := lake.audit.forget_rows(name, by=by, dry_run=self._dry_run):
            yield _Place("texts in the audit log", "", texts)
        if by is not None and not lake.audit.keeps_erasures:
            way = f"those that name {name} without its database, or as it was called before: an administrator makes the same call"
            yield _Place("others' texts in the audit log", "", None, way)

    def _statement(self, table: LakeTable) -> ChangesRows:
        check_words(self._where)  # of the statement around it all this is one word
        text = f"DELETE FROM {table.identifier.quoted()} WHERE {self._where}"  # noqa: S608 - parsed, and one DELETE or nothing
        tree = parse_one(text)
        if not isinstance(tree, trees.DeleteRows):
            raise AnalysisError("'where' is no condition.")
        statement = plan_locally(tree, self._context) or build(tree)
        assert isinstance(statement, ChangesRows)
        return statement

    def _holds(self, table: LakeTable, snapshot: Snapshot | None) -> int:
        """How many such rows a snapshot holds, also those that deletion vectors hide: they lie in its files still."""
        self._context.cancellation.check()
        if snapshot is not None:
            snapshot = replace(snapshot, index_manifest=None)
        with self._find(table, snapshot) as changes:
            return changes.rows

    def _find(self, table: LakeTable, snapshot: Snapshot | None) -> Changes:
        """What there is to delete; nothing is left out on the word of those who wrote the files."""
        clean = self._clean[table.schema.id, table.schema.fields]
        changes = self._statement(table).find(self._context, table, snapshot, clean=clean)
        if not changes.whole:  # else rows elsewhere decide, which may change
            clean.update(changes.clean)
        self._predicate = changes.predicate
        self._partitions |= names_of(table, (file.partition for file, change in changes.files if change.rows))
        return changes

    def _deleted(self, table: LakeTable) -> Iterator[_Place]:
        """Delete until there are none: some may have come meanwhile."""
        what, name = (_LIVE[0], str(table.identifier)) if table is self._table else (_LIVE[1], table.identifier.branch)
        latest = table.latest()
        if latest is not None and latest.statistics is not None:
            yield _Place("statistics", name)
        if self._dry_run:
            yield _Place(what, name, self._holds(table, latest))
            return
        rows = 0
        while True:
            done = change_rows(self._lake, table, self._find, check=self._context.cancellation.check)
            rows += done.rows
            if not done.rows:
                break
        if rows:  # at once: a call that ends before `_names` would leave names of which the next one does not know
            forget_names(self._lake, table, self._partitions)
        if rows or self._tells_of_rows_that_went(table):
            request = CommitRequest(
                kind=CommitKind.COMPACT, commit_user=str(uuid4()), operation="COMPACT", merge_manifests=True, in_place=True
            )
            self._lake.commit(table, request)
        yield _Place(what, name, rows)

    @staticmethod
    def _tells_of_rows_that_went(table: LakeTable) -> bool:
        """Least and greatest values: in manifests of files that are gone, and in what ANALYZE found, which INSERT OVERWRITE leaves."""
        latest = table.latest()
        if latest is None:
            return False
        return latest.statistics is not None or any(meta.num_deleted_files for meta in table.files.manifests_of(latest))

    def _tags(self, table: LakeTable) -> Iterator[_Place]:
        for tag in kept.tags_of(self._lake, table):
            if rows := self._holds(table, tag.snapshot):
                if not self._dry_run:
                    kept.delete_tag(self._lake, table, tag.name)
                yield _Place("tag", tag.name if table is self._table else f"{tag.name} of branch {table.identifier.branch}", rows)

    def _orphans(self) -> Iterator[_Place]:
        """Files nothing refers to: those of dropped branches and of writes that died; what is young may be a write's that goes on."""
        what, check = "files nothing refers to", self._context.cancellation.check
        try:
            if not self._dry_run:
                remove_orphan_files(self._lake, self._table, check=check)
            now = time.time_ns() // 1_000_000
            young = remove_orphan_files(self._lake, self._table, older_than_millis=now, dry_run=True, check=check).paths
        except LakeError as problem:  # the other places have their turn
            yield _Place(what, "", None, alone(self._context, problem))
            return
        if young:
            call = f"CALL sys.remove_orphan_files({literal(self._table.identifier.written())})"
            way = f"younger than a day, and may be a write's: {call} with older_than"
            yield _Place(what, "", len(young), way)

    def _names(self, branches: Sequence[LakeTable]) -> Iterator[_Place]:
        """Partitions without rows."""
        check, name = self._context.cancellation.check, self._table.identifier
        done = forget_partitions(self._lake, branches, self._partitions, self._meant, dry_run=self._dry_run, check=check)
        if done.gone:
            yield _Place("names of partitions", str(name), len(done.gone))
        if done.left:
            way = "empty directories: whoever tends the store removes them from the table's directory while nobody writes"
            yield _Place("directories of partitions", str(name), len(done.left), way)
        if done.made:
            way = f"made by name and without rows: where they are meant, ALTER TABLE {name.quoted()} DROP PARTITION (…)"
            yield _Place("partitions", str(name), len(done.made), way)

    def _meant(self, partitions: Collection[bytes]) -> tuple[Collection[bytes], Collection[bytes]]:
        """Partitions without rows that the condition means, and those that it may mean, as it speaks of other columns, too."""
        schema = self._table.schema
        with contextlib.suppress(AnalysisError):
            return where(schema, partitions, self._where, str(self._table.identifier)), ()
        columns = {column.name.lower() for column in parse_one(f"SELECT * FROM t WHERE {self._where}").find_all(exp.Column)}  # noqa: S608
        if columns.isdisjoint(key.lower() for key in schema.partition_keys):
            return (), ()
        pruning = PartitionPruning(schema, self._predicate)
        return (), [partition for partition in partitions if pruning.keep(partition)]

    def _earlier(self, table: LakeTable) -> list[Snapshot]:
        return sorted(self._lake.snapshots(table), key=lambda snapshot: snapshot.id)[:-1]

    def _snapshots(self, table: LakeTable) -> Iterator[_Place]:
        """All earlier ones: their manifests tell of values, whichever rows they hold."""
        earlier = self._earlier(table)
        if earlier and not self._dry_run:
            kept.expire_snapshots(self._lake, table, _ALL_BUT_THE_LAST)
            left = self._earlier(table)
            gone = len(earlier) - len(left)
            if left:
                way = f"a consumer has not read them: CALL sys.clear_consumers({literal(table.identifier.written())})"
                yield _Place("snapshots", self._span(table, left), len(left), way)
            yield _Place("expired snapshots", self._span(table, earlier), gone)
        elif earlier:
            yield _Place("snapshots", self._span(table, earlier), len(earlier))

    def _span(self, table: LakeTable, snapshots: Sequence[Snapshot]) -> str:
        span = f"{snapshots[0].id} to {snapshots[-1].id}"
        return span if table is self._table else f"{span} of branch {table.identifier.branch}"
