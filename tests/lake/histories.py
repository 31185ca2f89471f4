"""Random histories of one table beside a model of it: writes, maintenance, and processes that die between any two steps."""

from __future__ import annotations

import copy
import random
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa

from catalog import CatalogStore
from lake import Lake, LakeTable
from lake.register.check import TableCheck
from lake.register.looks.faults import Fault
from lake.register.looks.in_catalog import lines_of
from lake.rewrite.expiry import tags_of
from lake.rewrite.orphans import remove_orphan_files
from model.identifier import MAIN_BRANCH, Identifier
from model.snapshot import CommitKind, Snapshot
from table.format.rows.arrow import arrow_schema
from table.format.rows.cast import fit
from table.scan.going_on import go_on
from table.scan.planning.entry_scan import plan_scan
from table.scan.read import read_batches
from table.write.bucket import bucket_of
from table.write.sequences import BUCKETS
from table.write.snapshot_builder import CommitRequest
from table.write.writer import write_batches
from tests.lake.mortal import Killed, MortalIO
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
Step = Callable[["History", World], Action | None]
"""Changes the model and gives what changes the table, or None where there is nothing to do."""


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
        BUCKETS.forget()
        self._io = MortalIO()
        self.lake = Lake(self._catalog, str(self._warehouse), file_io=self._io, hook=self._io.change)

    def table(self, branch: str = MAIN_BRANCH) -> LakeTable:
        return self.lake.open(Identifier("default", self._name, branch))

    # Steps

    def run(self, count: int, steps: Sequence[tuple[Step, int]]) -> None:
        """So many steps, each checked; one in five is killed somewhere on its way."""
        for _ in range(count):
            step = self.random.choices([step for step, _ in steps], [weight for _, weight in steps])[0]
            after = copy.deepcopy(self.world)
            action = step(self, after)
            if action is None:
                continue
            dies = self.random.random() < 0.2
            self.steps.append(f"{step.__name__}{' (killed)' if dies else ''}")
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
        assert found is not None, f"{self._told()}: {self._seen()} is none of {[shape(world) for world in worlds]}"
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
        return self._seen() == shape(world) and all(self._rows(self.table(name)) == line.now for name, line in world.items())

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
        return {place: self.in_order(rows) for place, rows in found.items()}

    def in_order(self, rows: Iterable[int]) -> tuple[int, ...]:
        return tuple(rows) if self.mode != "scalable" else tuple(sorted(rows))

    def check_heads(self) -> None:
        """Nothing that something kept needs was removed."""
        needed = self.needed()
        missing = [name for name in needed if not (self.root / name).exists()]
        assert not missing, f"{self._told()}: {missing} are gone"
        assert self._named() == needed, f"{self._told()}: what is named differs by {sorted(self._named() ^ needed)}"

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

    def _named(self) -> set[str]:
        """The same as a backup and a check find it."""
        table = self.table()
        faults: list[Fault] = []
        look = TableCheck(table, deep=False, threads=1, checked=lambda *_: None)
        paths = set(look.named(lines_of(self._catalog, table)[0], faults.append))
        assert not faults, f"{self._told()}: {faults}"
        return {path.removeprefix(f"{table.location}/") for path in paths}

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
            made[place] = self.in_order([*made.get(place, ()), number])
        return made

    def fresh_in(self, place: Place) -> int:
        """A new id of a row that is in a bucket."""
        while True:
            self._next += 1
            if self.mode == "scalable" or bucket_of(self._schema, (self._next - 1,)) == place[1]:
                return self._next - 1

    def batch(self, table: LakeTable, rows: list[tuple[int | None, int]]) -> pa.RecordBatch:
        """Rows as the table's columns."""
        columns: dict[str, list[Any]] = {"id": [number for _, number in rows]}
        if self._partition:
            columns["p"] = [partition for partition, _ in rows]
        batch = pa.RecordBatch.from_pydict(columns, schema=arrow_schema([table.schema.field(name) for name in columns]))
        return fit(batch, table.schema)

    def write(self, table: LakeTable, rows: list[tuple[int | None, int]]) -> list[Any]:
        return write_batches(table.files, table.schema, [self.batch(table, rows)])

    def commit(self, branch: str, rows: list[tuple[int | None, int]], kind: CommitKind, **more: Any) -> None:
        table = self.table(branch)
        adds = tuple(self.write(table, rows))
        self.lake.commit(table, CommitRequest(kind=kind, adds=adds, commit_user="writer", **more))


def shape(world: World) -> dict[str, tuple[list[int], dict[str, int]]]:
    return {name: (sorted(line.snapshots), {tag: at for tag, (at, _) in line.tags.items()}) for name, line in world.items()}
