"""Random histories of one table beside a model of it: writes, maintenance, and processes that die between any two steps."""

from __future__ import annotations

import copy
import datetime as dt
import random
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.fs as pafs

from catalog import CatalogStore
from lake import Lake, LakeTable
from lake.compaction import compact, live_files, plan
from lake.orphans import remove_orphan_files
from lake.retention import create_tag, delete_tag, expire_snapshots, rename_tag, replace_tag, rollback, tags_of
from model.identifier import MAIN_BRANCH, Identifier
from model.snapshot import CommitKind, Snapshot
from table.arrow import arrow_schema
from table.bucket import bucket_of
from table.cast import fit
from table.commit import CommitRequest, everything
from table.expire import ExpiryRules
from table.file_io import FileStatus, LocalFileIO
from table.read import read_batches
from table.rewrite import go_on, planned
from table.scan import plan_scan
from table.sequences import TOPS
from table.write import write_batches
from tests.sql.tables import make_table

Place = tuple[int | None, int]
"""Partition and bucket."""
State = dict[Place, tuple[int, ...]]
"""The ids each bucket holds: in write order, or ascending where the table keeps none."""

MODES: dict[str, tuple[dict[str, str], str]] = {
    "queue": ({"bucket": "1", "bucket-key": "id"}, ""),
    "buckets": ({"bucket": "2", "bucket-key": "id"}, "p"),
    "scalable": ({"bucket": "-1", "compaction.min.file-num": "3"}, "p"),
}
_OPTIONS = {
    "compaction.max.file-num": "3",
    "target-file-row-num": "7",
    # Small enough that manifests of every size are merged within a short history.
    "manifest.merge-min-count": "4",
    "manifest.target-file-size": "6 kb",
    "manifest.full-compaction-threshold-size": "12 kb",
}


class Killed(BaseException):
    """The process ends here."""


class MortalIO(LocalFileIO):
    """A local disk that ends its process before one of its changes; from then on nothing works."""

    def __init__(self) -> None:
        super().__init__()
        self.changes_left: int | None = None
        self.dead = False

    def change(self, _: object = None) -> None:
        """One step that a kill may come before."""
        self._alive()
        if self.changes_left is not None:
            self.changes_left -= 1
            if self.changes_left < 0:
                self.dead = True
                raise Killed

    def _alive(self) -> None:
        if self.dead:
            raise Killed

    def read(self, path: str) -> bytes:
        self._alive()
        return super().read(path)

    def list(self, path: str) -> list[FileStatus]:
        self._alive()
        return super().list(path)

    def write(self, path: str, data: bytes) -> None:
        self.change()
        super().write(path, data)

    def update(self, path: str, data: bytes) -> None:
        self.change()
        super().update(path, data)

    def create(self, path: str, data: bytes) -> bool:
        self.change()
        return super().create(path, data)

    def delete(self, path: str) -> None:
        self.change()
        super().delete(path)

    def delete_tree(self, path: str) -> None:
        self.change()
        super().delete_tree(path)

    def rename(self, source: str, target: str) -> None:
        self.change()
        super().rename(source, target)

    def arrow(self) -> pafs.FileSystem:
        self.change()
        return super().arrow()


@dataclass(slots=True)
class Line:
    """What one branch should hold: rows at every snapshot and tag that is kept."""

    snapshots: dict[int, State] = field(default_factory=dict)
    tags: dict[str, tuple[int, State]] = field(default_factory=dict)

    @property
    def top(self) -> int:
        return max(self.snapshots, default=0)

    @property
    def now(self) -> State:
        return self.snapshots.get(self.top, {})

    def commit(self, state: State) -> None:
        self.snapshots[self.top + 1] = {place: rows for place, rows in state.items() if rows}


World = dict[str, Line]
Action = Callable[[], None]


class History:
    """A table, its model, and the steps that change both."""

    def __init__(self, catalog: CatalogStore, warehouse: Path, mode: str, seed: int) -> None:
        self.random = random.Random(f"{mode}-{seed}")
        self.mode = mode
        self.world: World = {MAIN_BRANCH: Line()}
        self.merged: str | None = None
        """The branch whose queue the step at hand merges."""
        self.steps: list[str] = []
        self._catalog, self._warehouse = catalog, warehouse
        self._name = f"t{uuid4().hex}"
        self._next = 0
        self._born()
        options, self._partition = MODES[mode]
        columns = {"id": "INT"} | ({"p": "INT"} if self._partition else {})
        made = make_table(self.lake, self._name, options={**_OPTIONS, **options}, partition=self._partition, **columns)
        self.root = Path(made.location)
        self._schema = made.schema

    def _born(self) -> None:
        """A process begins: it knows nothing of the one before."""
        TOPS.forget()
        self._io = MortalIO()
        self.lake = Lake(self._catalog, str(self._warehouse), file_io=self._io, hook=self._io.change)

    def table(self, branch: str = MAIN_BRANCH) -> LakeTable:
        return self.lake.open(Identifier("default", self._name, branch))

    # Steps

    def run(self, count: int) -> None:
        """So many steps, each checked; one in five is killed somewhere on its way."""
        for _ in range(count):
            step = self.random.choices([step for step, _ in _STEPS], [weight for _, weight in _STEPS])[0]
            after = copy.deepcopy(self.world)
            action = step(self, after)
            if action is None:
                continue
            dies = self.random.random() < 0.2
            self.steps.append(f"{step.__name__.strip('_')}{' (killed)' if dies else ''}")
            self._perform(action, after, dies=dies)
            self.check_heads()

    def _perform(self, action: Action, after: World, *, dies: bool) -> None:
        if dies:
            self._io.changes_left = self.random.choice([0, 1, 2, 3, 5, 8, 13])
        worlds = [after]
        if self.merged is not None:  # a second snapshot may put the manifests in order
            worlds.append(copy.deepcopy(after))
            worlds[-1][self.merged].commit(after[self.merged].now)
            self.merged = None
        try:
            action()
        except Killed:
            worlds.append(self.world)
            self._recover()
        self._io.changes_left = None
        found = next((world for world in worlds if self._matches(world)), None)
        assert found is not None, f"{self._told()}: {self._seen()} is none of {[_shape(world) for world in worlds]}"
        self.world = found

    def _recover(self) -> None:
        """The next process, which may be killed while it puts things right; then one that is not."""
        for left in (self.random.choice([0, 1, 2, 4]), None):
            self._born()
            self._io.changes_left = left
            try:
                self.lake.recover()
                for branch in [MAIN_BRANCH, *self.lake.branches.names(self.table())]:
                    tags_of(self.lake, self.table(branch))
                break
            except Killed:
                continue

    def _seen(self) -> dict[str, tuple[list[int], dict[str, int]]]:
        found = {}
        for branch in [MAIN_BRANCH, *self.lake.branches.names(self.table())]:
            table = self.table(branch)
            tags = {tag.name: tag.snapshot.id for tag in tags_of(self.lake, table)}
            found[branch] = ([s.id for s in self.lake.snapshots(table)], tags)
        return found

    def _matches(self, world: World) -> bool:
        return self._seen() == _shape(world) and all(self._rows(self.table(name)) == line.now for name, line in world.items())

    def _told(self) -> str:
        return f"{self.mode}, after {', '.join(self.steps)}"

    # What is there

    def _rows(self, table: LakeTable, snapshot: Snapshot | None = None) -> State:
        """The rows of a snapshot by bucket, in the order they are read."""
        found: dict[Place, list[int]] = {}
        for file in plan_scan(table.files, table.schema, snapshot or table.latest()).files:
            rows = found.setdefault(((file.partition or (None,))[0], file.bucket), [])  # type: ignore[arg-type]
            for batch in read_batches(table.files, table.schema, [file]):
                rows += batch.column("id").to_pylist()
        return {place: self._in_order(rows) for place, rows in found.items()}

    def _in_order(self, rows: Iterable[int]) -> tuple[int, ...]:
        return tuple(rows) if self.mode != "scalable" else tuple(sorted(rows))

    def check_heads(self) -> None:
        """Nothing that something kept needs was removed."""
        missing = [name for name in self.needed() if not (self.root / name).exists()]
        assert not missing, f"{self._told()}: {missing} are gone"

    def check_all(self) -> None:
        """Every snapshot and tag of every branch reads as it was committed, also by files alone."""
        for name, line in self.world.items():
            table = self.table(name)
            for snapshot in self.lake.snapshots(table):
                assert self._rows(table, snapshot) == line.snapshots[snapshot.id], f"{self._told()}: snapshot {snapshot.id} of {name}"
                assert table.files.read_snapshot(snapshot.id) == snapshot
            for tag in tags_of(self.lake, table):
                assert self._rows(table, tag.snapshot) == line.tags[tag.name][1], f"{self._told()}: tag {tag.name} of {name}"
                assert f'"{tag.snapshot.uuid}"'.encode() in table.files.io.read(table.files.layout.tag_file(tag.name))

    def check_nothing_left(self) -> None:
        """After a removal of orphans the table's directories hold what is needed, and nothing else."""
        time.sleep(0.002)  # files of this very millisecond are not older than it
        remove_orphan_files(self.lake, self.table(), older_than_millis=time.time_ns() // 1_000_000, check=go_on)
        found = {str(path.relative_to(self.root)) for path in self.root.rglob("*") if path.is_file()}
        rest = {name for name in found if not name.startswith(("schema/", "snapshot/", "tag/", "branch/"))}
        assert rest == self.needed(), f"{self._told()}: left {sorted(rest - self.needed())}, gone {sorted(self.needed() - rest)}"
        for name in self.world:
            table = self.table(name)
            assert table.files.snapshot_ids() == sorted(self.world[name].snapshots), f"{self._told()}: snapshot files of {name}"

    def needed(self) -> set[str]:
        """Every file below the table's directory that a kept snapshot or tag names, found the long way."""
        names: set[str] = set()
        for branch in self.world:
            table = self.table(branch)
            kept = [*self.lake.snapshots(table), *(tag.snapshot for tag in tags_of(self.lake, table))]
            for snapshot in {s.uuid: s for s in kept}.values():
                lists = (snapshot.base_manifest_list, snapshot.delta_manifest_list)
                manifests = [meta.file_name for name in lists for meta in table.files.manifest_list(name)]
                names |= {f"manifest/{name}" for name in (*lists, *manifests)}
                paths = (table.files.data_path(table.schema, entry) for entry in table.files.live_entries(snapshot))
                names |= {path.removeprefix(f"{table.location}/") for path in paths}
        return names

    # Helpers of the steps

    def branch(self, world: World) -> str:
        return self.random.choice([MAIN_BRANCH, MAIN_BRANCH, *world])

    def fresh(self) -> list[tuple[int | None, int]]:
        """New rows: partition and id, the ids ascending in the order they are written."""
        count = self.random.randint(1, 9)
        self._next += count
        partitions = [self.random.randint(0, 2) if self._partition else None for _ in range(count)]
        return list(zip(partitions, range(self._next - count, self._next), strict=True))

    def added(self, state: State, rows: Iterable[tuple[int | None, int]]) -> State:
        made = dict(state)
        for partition, number in rows:
            place = (partition, bucket_of(self._schema, (number,)) if self.mode != "scalable" else 0)
            made[place] = self._in_order([*made.get(place, ()), number])
        return made

    def write(self, table: LakeTable, rows: list[tuple[int | None, int]]) -> list[Any]:
        columns: dict[str, list[Any]] = {"id": [number for _, number in rows]}
        if self._partition:
            columns["p"] = [partition for partition, _ in rows]
        batch = pa.RecordBatch.from_pydict(columns, schema=arrow_schema([table.schema.field(name) for name in columns]))
        return write_batches(table.files, table.schema, [fit(batch, table.schema)])

    def commit(self, branch: str, rows: list[tuple[int | None, int]], kind: CommitKind, **more: Any) -> None:
        table = self.table(branch)
        adds = tuple(self.write(table, rows))
        self.lake.commit(table, CommitRequest(kind=kind, adds=adds, commit_user="writer", **more))


def _shape(world: World) -> dict[str, tuple[list[int], dict[str, int]]]:
    return {name: (sorted(line.snapshots), {tag: at for tag, (at, _) in line.tags.items()}) for name, line in world.items()}


# The steps: each changes the model and gives what changes the table, or None where there is nothing to do.


def _insert(history: History, after: World) -> Action:
    branch, rows = history.branch(after), history.fresh()
    after[branch].commit(history.added(after[branch].now, rows))
    return lambda: history.commit(branch, rows, CommitKind.APPEND)


def _overwrite(history: History, after: World) -> Action:
    branch, rows = history.branch(after), history.fresh()
    places = {history.table(branch).schema.bucket and place[0] for place in history.added({}, rows)}
    whole = MODES[history.mode][1] == "" or history.random.random() < 0.3
    kept = {} if whole else {place: ids for place, ids in after[branch].now.items() if place[0] not in places}
    after[branch].commit(history.added(kept, rows))
    if whole:
        return lambda: history.commit(branch, rows, CommitKind.OVERWRITE, overwrite=everything)
    table = history.table(branch)
    written = {entry.partition: planned(table.files, table.schema, [entry])[0].partition[0] for entry in live_files(table)}
    gone = {encoded for encoded, value in written.items() if value in places}
    return lambda: history.commit(branch, rows, CommitKind.OVERWRITE, overwrite=gone.__contains__)


def _compaction(history: History, after: World, *, full: bool) -> Action | None:
    branch = history.branch(after)
    if not plan(history.table(branch), full=full):
        return None
    after[branch].commit(after[branch].now)
    history.merged = branch

    def action() -> None:
        table = history.table(branch)
        done = compact(history.lake.commit, table, plan(table, full=full))
        assert (done.conflicts, len(done.snapshots)) == (0, 1)

    return action


def _minor(history: History, after: World) -> Action | None:
    return _compaction(history, after, full=False)


def _full(history: History, after: World) -> Action | None:
    return _compaction(history, after, full=True)


def _sort(history: History, after: World) -> Action | None:
    """What `CALL sys.compact(… order_strategy …)` commits, the sorting left to Spark there."""
    branch = history.branch(after)
    entries = live_files(history.table(branch))
    if history.mode != "scalable" or not entries:
        return None
    after[branch].commit(after[branch].now)
    rows = [(place[0], number) for place, ids in after[branch].now.items() for number in reversed(ids)]
    return lambda: history.commit(branch, rows, CommitKind.OVERWRITE, deletes=tuple(entries))


def _lost_race(history: History, after: World) -> Action | None:
    """An overwrite between a compaction's planning and its commit: the compaction loses and leaves nothing."""
    table = history.table()
    tasks = plan(table, full=True)
    if not tasks:
        return None
    after[MAIN_BRANCH].commit({})

    def action() -> None:
        history.commit(MAIN_BRANCH, [], CommitKind.OVERWRITE, overwrite=everything)
        assert compact(history.lake.commit, table, tasks).snapshots == ()

    return action


def _won_race(history: History, after: World) -> Action | None:
    """An append between a compaction's planning and its commit: both stay, in the order of the writes."""
    table = history.table()
    tasks = plan(table, full=True)
    if not tasks:
        return None
    rows = history.fresh()
    line = after[MAIN_BRANCH]
    line.commit(history.added(line.now, rows))
    history.commit(MAIN_BRANCH, rows, CommitKind.APPEND)
    history.world = copy.deepcopy(after)
    history.merged = MAIN_BRANCH
    line.commit(line.now)
    return lambda: _compacted(history, table, tasks)


def _compacted(history: History, table: LakeTable, tasks: list[Any]) -> None:
    assert len(compact(history.lake.commit, table, tasks).snapshots) == 1


def _manifests(history: History, after: World) -> Action | None:
    branch = history.branch(after)
    if not after[branch].snapshots:
        return None
    after[branch].commit(after[branch].now)
    request = CommitRequest(kind=CommitKind.COMPACT, commit_user="keeper", merge_manifests=True)
    return lambda: _ignore(history.lake.commit(history.table(branch), request))


def _ignore(_: object) -> None:
    """What was done is seen by its effect."""


def _expire(history: History, after: World) -> Action:
    count = history.random.randint(1, 4)
    line = after[MAIN_BRANCH]
    # Ids may have gaps where a branch was moved to: what is kept is counted back from the latest.
    line.snapshots = {number: state for number, state in line.snapshots.items() if number > line.top - count}
    rules = ExpiryRules(at_least=count, at_most=count, retained=dt.timedelta(0), per_run=None)
    return lambda: _ignore(expire_snapshots(history.lake, history.table(), rules))


def _tag(history: History, after: World) -> Action | None:
    branch, name = history.branch(after), f"t{history.random.randint(0, 3)}"
    line = after[branch]
    if not line.snapshots:
        return None
    chosen, replace = history.random.choice(sorted(line.snapshots)), name in line.tags
    line.tags[name] = (chosen, line.snapshots[chosen])
    change = replace_tag if replace else create_tag
    return lambda: _ignore(change(history.lake, history.table(branch), name, snapshot_id=chosen))


def _rename_tag(history: History, after: World) -> Action | None:
    branch = history.branch(after)
    line, to = after[branch], f"t{history.random.randint(4, 6)}"
    if not line.tags or to in line.tags:
        return None
    name = history.random.choice(sorted(line.tags))
    line.tags[to] = line.tags.pop(name)
    return lambda: _ignore(rename_tag(history.lake, history.table(branch), name, to))


def _untag(history: History, after: World) -> Action | None:
    branch = history.branch(after)
    if not after[branch].tags:
        return None
    name = history.random.choice(sorted(after[branch].tags))
    del after[branch].tags[name]
    return lambda: _ignore(delete_tag(history.lake, history.table(branch), name))


def _rollback(history: History, after: World) -> Action | None:
    branch = history.branch(after)
    line = after[branch]
    if not line.snapshots:
        return None
    tag: str | None = None
    if line.tags and history.random.random() < 0.5:
        tag = history.random.choice(sorted(line.tags))
        to, state = line.tags[tag]
        line.snapshots[to] = state
    else:
        to = history.random.choice(sorted(line.snapshots))
    line.snapshots = {number: rows for number, rows in line.snapshots.items() if number <= to}
    line.tags = {name: kept for name, kept in line.tags.items() if kept[0] <= to}

    def action() -> None:
        table = history.table(branch)
        found = [*history.lake.snapshots(table), *(one.snapshot for one in tags_of(history.lake, table))]
        rollback(history.lake, table, next(s for s in found if s.id == to), tag=tag)

    return action


def _new_branch(history: History, after: World) -> Action | None:
    name, line = f"b{history.random.randint(0, 1)}", after[MAIN_BRANCH]
    if name in after:
        return None
    if line.tags and history.random.random() < 0.8:
        tag = history.random.choice(sorted(line.tags))
        after[name] = Line(snapshots=dict([line.tags[tag]]), tags={tag: line.tags[tag]})
        return lambda: _ignore(history.lake.branches.create(history.table(), name, from_tag=tag))
    after[name] = Line()
    return lambda: _ignore(history.lake.branches.create(history.table(), name))


def _drop_branch(history: History, after: World) -> Action | None:
    names = sorted(set(after) - {MAIN_BRANCH})
    if not names:
        return None
    name = history.random.choice(names)
    del after[name]
    return lambda: _ignore(history.lake.branches.drop(history.table(), name))


def _fast_forward(history: History, after: World) -> Action | None:
    names = sorted(name for name, line in after.items() if name != MAIN_BRANCH and line.snapshots)
    if not names:
        return None
    name = history.random.choice(names)
    main, line = after[MAIN_BRANCH], after[name]
    first = min(line.snapshots)
    main.snapshots = {number: state for number, state in main.snapshots.items() if number < first} | line.snapshots
    main.tags = {tag: kept for tag, kept in main.tags.items() if kept[0] < first or line.tags.get(tag) == kept} | line.tags
    return lambda: _ignore(history.lake.branches.fast_forward(history.table(), name))


def _orphans(history: History, after: World) -> Action:
    return history.check_nothing_left


def _read_all(history: History, after: World) -> Action:
    return history.check_all


_STEPS: list[tuple[Callable[[History, World], Action | None], int]] = [
    (_insert, 14), (_overwrite, 3), (_minor, 4), (_full, 3), (_sort, 2), (_lost_race, 1), (_won_race, 3), (_manifests, 1), (_expire, 4),
    (_tag, 4), (_rename_tag, 1), (_untag, 2), (_rollback, 2), (_new_branch, 2), (_drop_branch, 1), (_fast_forward, 1), (_orphans, 2),
    (_read_all, 1),
]  # fmt: skip
