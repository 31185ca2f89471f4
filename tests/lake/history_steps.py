"""The steps of random histories, and how often each is taken."""

from __future__ import annotations

import copy
import datetime as dt
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any
from uuid import uuid4

import numpy as np
import pyarrow.compute as pc

from lake import Lake, LakeTable
from lake.commit.clients.commit import ClientCommit
from lake.rewrite.change_rows import Changes, Find, change_rows, deletion_of
from lake.rewrite.compaction import compact, live_files, plan
from lake.rewrite.expiry import create_tag, delete_tag, expire_snapshots, rename_tag, replace_tag, rollback, tags_of
from model.identifier import MAIN_BRANCH
from model.snapshot import BATCH_COMMIT_IDENTIFIER, CommitKind, Operation, Snapshot
from table.compaction.rewrite import planned
from table.format.manifests.entries import EntryKind, ManifestEntry
from table.retention.expiry import ExpiryRules
from table.scan.planning.entry_scan import PlannedFile, plan_scan
from table.scan.read import Selection, read_batches
from table.write.copy_on_write import FileChange, matching_rows
from table.write.snapshot_builder import CommitRequest, everything
from tests.lake.histories import MODES, Action, History, Line, Place, Step, World
from tests.lake.rewrite.test_compaction import commit_tied


def insert(history: History, after: World) -> Action:
    branch, rows = history.branch(after), history.fresh()
    after[branch].commit(history.added(after[branch].now, rows))
    return lambda: history.commit(branch, rows, CommitKind.APPEND)


def tied(history: History, after: World) -> Action | None:
    """An append that counts no rows: all its files have one number, as pypaimon's have."""
    if history.mode != "queue":
        return None
    branch, rows = history.branch(after), history.fresh()
    after[branch].commit(history.added(after[branch].now, rows))
    return lambda: commit_tied(history.lake, history.table(branch), [number for _, number in rows])


def overwrite(history: History, after: World) -> Action:
    branch, rows = history.branch(after), history.fresh()
    places = {place[0] for place in history.added({}, rows)}
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


def minor(history: History, after: World) -> Action | None:
    return _compaction(history, after, full=False)


def full(history: History, after: World) -> Action | None:
    return _compaction(history, after, full=True)


def sort(history: History, after: World) -> Action | None:
    """What `CALL sys.compact(… order_strategy …)` commits, the sorting left to Spark there."""
    branch = history.branch(after)
    entries = live_files(history.table(branch))
    if history.mode != "scalable" or not entries:
        return None
    after[branch].commit(after[branch].now)
    rows = [(place[0], number) for place, ids in after[branch].now.items() for number in reversed(ids)]
    return lambda: history.commit(branch, rows, CommitKind.OVERWRITE, deletes=tuple(entries))


def lost_race(history: History, after: World) -> Action | None:
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


def won_race(history: History, after: World) -> Action | None:
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


def erased(history: History, after: World) -> Action | None:
    """Some rows of any files go: the rest of each bucket stays in its order."""
    branch = history.branch(after)
    line = after[branch]
    there = sorted(number for ids in line.now.values() for number in ids)
    if not there:
        return None
    gone = set(history.random.sample(there, history.random.randint(1, min(6, len(there)))))
    line.commit({place: tuple(number for number in ids if number not in gone) for place, ids in line.now.items()})
    history.merged = branch
    return lambda: _ignore(change_rows(history.lake, history.table(branch), rows_of(gone)))


def changed(history: History, after: World) -> Action | None:
    """As a MERGE: some rows get other ids where they are, one moves to another partition, some go, and some are new."""
    branch = history.branch(after)
    line = after[branch]
    there = {number: place for place, ids in line.now.items() for number in ids}
    if not there:
        return None
    chosen = history.random.sample(sorted(there), history.random.randint(1, min(7, len(there))))
    gone, updated = set(chosen[: len(chosen) // 3]), chosen[len(chosen) // 3 :]
    new = {number: (there[number][0], history.fresh_in(there[number])) for number in updated}
    moved: list[tuple[int | None, int]] = []
    if (partition := there[updated[0]][0]) is not None and history.random.random() < 0.5:
        moved = [((partition + 1) % 3, new[updated[0]][1])]
        new[updated[0]] = moved[0]
    rows = history.fresh() if history.random.random() < 0.5 else []
    stays = {number: new[number][1] if number in new else number for number in there if number not in gone and new.get(number) not in moved}
    state = {place: history.in_order([stays[number] for number in ids if number in stays]) for place, ids in line.now.items()}
    line.commit(history.added(state, [*moved, *rows]))
    history.merged = branch
    find = _merging(gone, new, history, rows)
    return lambda: _ignore(change_rows(history.lake, history.table(branch), find, operation=Operation.MERGE))


def _merging(
    gone: Collection[int], new: Mapping[int, tuple[int | None, int]], history: History, rows: list[tuple[int | None, int]]
) -> Find:
    def change_of(table: LakeTable, file: PlannedFile) -> FileChange:
        batches = read_batches(table.files, table.schema, [file], Selection(columns=["id"]))
        ids = [number for batch in batches for number in batch.column("id").to_pylist()]
        values = history.batch(table, [new[number] for number in ids if number in new])
        return FileChange(
            deleted=np.array([at for at, number in enumerate(ids) if number in gone], np.int64),
            updated=np.array([at for at, number in enumerate(ids) if number in new], np.int64),
            values=lambda: iter([values]),
        )

    def find(table: LakeTable, snapshot: Snapshot | None) -> Changes:
        files = [(file, change_of(table, file)) for file in plan_scan(table.files, table.schema, snapshot).files]
        inserted = history.batch(table, rows)
        return Changes(files=files, inserted=lambda: iter([inserted]), inserted_rows=len(rows), moves=True)

    return find


def rows_of(ids: Collection[int]) -> Find:
    """Finds the rows of these ids."""
    condition = pc.field("id").isin(sorted(ids))

    def find(table: LakeTable, snapshot: Snapshot | None) -> Changes:
        files, schema = table.files, table.schema
        return deletion_of(
            [(one, matching_rows(files, schema, one, condition, ["id"])) for one in plan_scan(files, schema, snapshot).files]
        )

    return find


def again(history: History, after: World) -> Action | None:
    """A client adds files again that were live: all of a snapshot's, those of a compaction that it takes back, or some that went."""
    branch = history.branch(after)
    table, line = history.table(branch), after[branch]
    kept = [(snapshot, line.snapshots[snapshot.id]) for snapshot in history.lake.snapshots(table)]
    kept += [(tag.snapshot, line.tags[tag.name][1]) for tag in tags_of(history.lake, table)]
    latest = {entry.key(): entry for entry in table.files.live_entries(table.latest())}
    for (snapshot, state), kind in history.random.sample([(one, kind) for one in kept for kind in _AGAIN], len(kept) * len(_AGAIN)):
        then = {entry.key(): entry for entry in table.files.live_entries(snapshot)}
        gone = [entry for key, entry in latest.items() if key not in then]
        back = [entry for key, entry in then.items() if key not in latest]
        if kind is CommitKind.COMPACT:
            same = {place for place in state if state[place] == line.now.get(place)}
            gone, back = ([entry for entry in entries if place_of(table, entry) in same] for entries in (gone, back))
            state = line.now
        elif kind is CommitKind.APPEND:
            there = {number for ids in line.now.values() for number in ids}
            back = [entry for entry in back if history.mode == "scalable" and there.isdisjoint(ids_in(table, entry))]
            gone, rows = [], [(place_of(table, entry)[0], number) for entry in back for number in ids_in(table, entry)]
            state = history.added(line.now, rows) if rows else state
        if back:
            line.commit(state)
            changes = [*map(deletion, gone), *back]
            return lambda kind=kind, changes=changes: client_commit(history.lake, history.table(branch), kind, changes)  # type: ignore[misc]
    return None


_AGAIN = (CommitKind.APPEND, CommitKind.COMPACT, CommitKind.OVERWRITE)


def place_of(table: LakeTable, entry: ManifestEntry) -> Place:
    """Where an entry's rows lie."""
    partition = planned(table.files, table.schema, [entry])[0].partition
    return (partition or (None,))[0], entry.bucket  # type: ignore[return-value]


def ids_in(table: LakeTable, entry: ManifestEntry) -> list[int]:
    """The ids of a file's rows."""
    batches = read_batches(table.files, table.schema, planned(table.files, table.schema, [entry]))
    return [number for batch in batches for number in batch.column("id").to_pylist()]


def deletion(entry: ManifestEntry) -> ManifestEntry:
    """What takes a live entry away."""
    return replace(entry, kind=EntryKind.DELETE)


def client_commit(lake: Lake, table: LakeTable, kind: CommitKind, changes: Sequence[ManifestEntry]) -> None:
    """A commit on the latest snapshot as a client of the REST catalog builds it."""
    files, base = table.files, table.latest()
    assert base is not None
    types = [field.type for field in table.schema.partition_fields]
    # All of what is live, as of `rollbackToAsLatest`: in others the removal of what comes back would stand.
    before = files.new_manifest_list(files.new_manifests(list(files.live_entries(base)), types, target=1 << 20))
    delta = files.new_manifest_list(files.new_manifests(changes, types, target=1 << 20))
    rows = sum(entry.file.row_count * (1 if entry.kind is EntryKind.ADD else -1) for entry in changes)
    snapshot = replace(
        base.with_lists(before, delta), id=base.id + 1, uuid=str(uuid4()), commit_user="client", commit_identifier=BATCH_COMMIT_IDENTIFIER,
        commit_kind=kind, time_millis=time.time_ns() // 1_000_000, total_record_count=base.total_record_count + rows,
        delta_record_count=rows, operation=None, properties={},
    )  # fmt: skip
    assert lake.client_commit(table.identifier, ClientCommit(snapshot=snapshot, table_id=table.table_id, base_given=True, base=base.uuid))


def manifests(history: History, after: World) -> Action | None:
    branch = history.branch(after)
    if not after[branch].snapshots:
        return None
    after[branch].commit(after[branch].now)
    request = CommitRequest(kind=CommitKind.COMPACT, commit_user="keeper", merge_manifests=True)
    return lambda: _ignore(history.lake.commit(history.table(branch), request))


def _ignore(_: object) -> None:
    """What was done is seen by its effect."""


def expire(history: History, after: World) -> Action:
    branch = history.branch(after)
    line = after[branch]
    count = history.random.randint(1, max(4, len(line.snapshots)))
    # Ids may have gaps where a branch was moved to: what is kept is counted back from the latest.
    ours, theirs = ({s.id: s.key for s in history.lake.snapshots(history.table(name))} for name in (MAIN_BRANCH, branch))
    shared = [number for number, key in theirs.items() if ours.get(number) == key]
    first = min(line.top - count + 1, max(shared, default=line.top) if branch != MAIN_BRANCH else line.top)
    line.snapshots = {number: state for number, state in line.snapshots.items() if number >= first}
    rules = ExpiryRules(at_least=count, at_most=count, retained=dt.timedelta(0), per_run=None)
    return lambda: _ignore(expire_snapshots(history.lake, history.table(branch), rules))


def tagged(history: History, after: World) -> Action | None:
    branch, name = history.branch(after), f"t{history.random.randint(0, 3)}"
    line = after[branch]
    if not line.snapshots:
        return None
    chosen, is_there = history.random.choice(sorted(line.snapshots)), name in line.tags
    line.tags[name] = (chosen, line.snapshots[chosen])
    change = replace_tag if is_there else create_tag
    return lambda: _ignore(change(history.lake, history.table(branch), name, snapshot_id=chosen))


def renamed_tag(history: History, after: World) -> Action | None:
    branch = history.branch(after)
    line, to = after[branch], f"t{history.random.randint(4, 6)}"
    if not line.tags or to in line.tags:
        return None
    name = history.random.choice(sorted(line.tags))
    line.tags[to] = line.tags.pop(name)
    return lambda: _ignore(rename_tag(history.lake, history.table(branch), name, to))


def untag(history: History, after: World) -> Action | None:
    branch = history.branch(after)
    if not after[branch].tags:
        return None
    name = history.random.choice(sorted(after[branch].tags))
    del after[branch].tags[name]
    return lambda: _ignore(delete_tag(history.lake, history.table(branch), name))


def back(history: History, after: World) -> Action | None:
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


def new_branch(history: History, after: World) -> Action | None:
    name, line = f"b{history.random.randint(0, 1)}", after[MAIN_BRANCH]
    if name in after:
        return None
    if line.tags and history.random.random() < 0.8:
        tag = history.random.choice(sorted(line.tags))
        after[name] = Line(snapshots=dict([line.tags[tag]]), tags={tag: line.tags[tag]})
        return lambda: _ignore(history.lake.branches.create(history.table(), name, from_tag=tag))
    after[name] = Line()
    return lambda: _ignore(history.lake.branches.create(history.table(), name))


def drop_branch(history: History, after: World) -> Action | None:
    names = sorted(set(after) - {MAIN_BRANCH})
    if not names:
        return None
    name = history.random.choice(names)
    del after[name]
    return lambda: _ignore(history.lake.branches.drop(history.table(), [name]))


def fast_forward(history: History, after: World) -> Action | None:
    names = sorted(name for name, line in after.items() if name != MAIN_BRANCH and line.snapshots)
    if not names:
        return None
    name = history.random.choice(names)
    main, line = after[MAIN_BRANCH], after[name]
    first = min(line.snapshots)
    ours, theirs = ({s.id: s.key for s in history.lake.snapshots(history.table(branch))} for branch in (MAIN_BRANCH, name))
    goes_on = ours.get(first) == theirs[first]  # else main has gone another way before
    main.snapshots = {number: state for number, state in main.snapshots.items() if number < first and goes_on} | line.snapshots
    main.tags = {tag: kept for tag, kept in main.tags.items() if kept[0] < first or line.tags.get(tag) == kept} | line.tags
    return lambda: _ignore(history.lake.branches.fast_forward(history.table(), name))


def orphans(history: History, after: World) -> Action:
    return history.check_nothing_left


def read_all(history: History, after: World) -> Action:
    return history.check_all


STEPS: list[tuple[Step, int]] = [
    (insert, 12), (tied, 3), (overwrite, 3), (minor, 4), (full, 3), (sort, 2), (lost_race, 1), (won_race, 3), (erased, 4), (changed, 5),
    (manifests, 1), (expire, 4),
    (tagged, 4), (renamed_tag, 1), (untag, 2), (back, 2), (new_branch, 2), (drop_branch, 1), (fast_forward, 1), (orphans, 2),
    (read_all, 1), (again, 3),
]  # fmt: skip
COMING_BACK: list[tuple[Step, int]] = [
    (insert, 5), (overwrite, 1), (minor, 4), (full, 4), (erased, 2), (again, 10), (manifests, 1), (expire, 4), (tagged, 3), (untag, 2),
    (back, 2), (new_branch, 2), (drop_branch, 1), (fast_forward, 1), (orphans, 1), (read_all, 1),
]  # fmt: skip
"""Histories in which files come back again and again."""
