"""Everything that changes a table, as a client asks for it, and what the table must hold when it was done or not."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import pyarrow as pa

from lake import LakeTable
from lake.rewrite.change_rows import Changes, change_rows
from model.errors import LakeError
from model.identifier import Identifier
from model.snapshot import BATCH_COMMIT_IDENTIFIER, CommitKind, Snapshot
from model.snapshot import Operation as SnapshotOperation
from table.format.manifests.entries import NewFile
from table.format.rows.arrow import arrow_schema
from table.scan.planning.entry_scan import PlannedFile, plan_scan
from table.scan.read import read_batches
from table.write.copy_on_write import FileChange
from table.write.snapshot_builder import CommitRequest, build_snapshot, everything
from table.write.writer import write_batches
from tests.faults.maintenance import MAINTENANCE
from tests.faults.operation import (
    BEFORE,
    KEY,
    QUEUE,
    Operation,
    Told,
    all_files,
    asking,
    branched_off,
    hint_holds,
    is_there,
    made,
    place,
    refused,
)
from tests.faults.world import Answer, World


def _repeated(world: World, table: str, told: Told) -> str:
    """The same request under the same key is answered, and has happened once."""
    answer = world.ask(f"INSERT INTO {table} VALUES (7, 'c'), (8, 'd')", f"{KEY}-{table}")
    if answer.status == 409 and told is not Told.DONE:  # whoever began it is dead, and is taken for alive for half a minute
        return table
    assert answer.ok, answer
    assert world.ids(table) == [*BEFORE, 7, 8]
    return table


def _by_body(world: World, table: str) -> Sequence[Answer]:
    body = b"".join(json.dumps({"id": number, "s": "c"}).encode() + b"\n" for number in (7, 8))
    return [world.post(f"/tables/default/{table}/rows", body, {"Content-Type": "application/x-ndjson"})]


def _overwritten(world: World, table: str) -> Sequence[Answer]:
    """As INSERT OVERWRITE commits, which takes its rows from Spark."""
    try:
        opened = world.lake.open(Identifier("default", table))
        files = tuple(_rows(opened, 20))
        request = CommitRequest(kind=CommitKind.OVERWRITE, adds=files, overwrite=everything, commit_user="u", operation="OVERWRITE")
        world.lake.commit(opened, request)
    except LakeError as problem:
        return [refused(problem)]
    return [Answer(status=200, body=None)]


def _rows(table: LakeTable, *ids: int) -> list[NewFile]:
    """Data files of rows, not yet committed."""
    batch = pa.RecordBatch.from_pydict({"id": list(ids), "s": ["c"] * len(ids)}, schema=arrow_schema(table.schema.fields))
    return write_batches(table.files, table.schema, [batch])


def with_another(world: World, table: str) -> None:
    """Make a table beside it, which holds a row."""
    world.must(f"CREATE TABLE {table}_too (id INT, s STRING)", f"INSERT INTO {table}_too VALUES (1, 'a')")


def _committed_together(world: World, table: str) -> Sequence[Answer]:
    """As a statement set commits, and a job that puts bad rows aside, which take their rows from Spark."""
    try:
        with contextlib.ExitStack() as writes:
            commits = []
            for name, ids in ((table, (7, 8)), (f"{table}_too", (9,)), (table, (10,))):
                opened = world.lake.open(Identifier("default", name))
                write = writes.enter_context(opened.write())
                write.add(_rows(opened, *ids))
                commits.append((opened, write.request(CommitKind.APPEND)))
            world.lake.commit_all(commits)
    except LakeError as problem:
        return [refused(problem)]
    return [Answer(status=200, body=None)]


def of_both(world: World, table: str, told: Told) -> str:
    """Both tables have their rows, or none."""
    expected = [1, 9] if 7 in world.ids(table) else [1]
    assert world.ids(f"{table}_too") == expected
    world.must(f"INSERT INTO {table}_too VALUES (99, 'next')")
    assert world.ids(f"{table}_too") == [*expected, 99]
    return table


def _erasable(world: World, table: str) -> None:
    world.must(f"ALTER TABLE {table} SET ('rows.erasable' = 'true')")


def _merged(world: World, table: str) -> Sequence[Answer]:
    """As a MERGE commits, whose rows Spark finds: 1 becomes 10, 3 goes, 7 and 8 are new."""

    def change_of(opened: LakeTable, file: PlannedFile) -> FileChange:
        (rows,) = read_batches(opened.files, opened.schema, [file])
        ids = rows.column("id").to_numpy()
        value = pa.RecordBatch.from_pydict({"id": [10]}, schema=arrow_schema(opened.schema.fields[:1]))
        return FileChange(updated=np.flatnonzero(ids == 1), deleted=np.flatnonzero(ids == 3), values=lambda: iter([value]))

    def find(opened: LakeTable, snapshot: Snapshot | None) -> Changes:
        files = [(file, change_of(opened, file)) for file in plan_scan(opened.files, opened.schema, snapshot).files]
        new = pa.RecordBatch.from_pydict({"id": [7, 8], "s": ["c", "d"]}, schema=arrow_schema(opened.schema.fields))
        return Changes(files=files, inserted=lambda: iter([new]), inserted_rows=2)

    try:
        change_rows(world.lake, world.lake.open(Identifier("default", table)), find, operation=SnapshotOperation.MERGE)
    except LakeError as problem:
        return [refused(problem)]
    return [Answer(status=200, body=None)]


_AT_ONCE = ((7, 8), (9, 10), (11, 12), (13, 14))


def _grouped(world: World, table: str) -> Sequence[Answer]:
    with ThreadPoolExecutor(len(_AT_ONCE)) as clients:
        texts = [f"INSERT INTO {table} VALUES ({one}, 'c'), ({other}, 'd')" for one, other in _AT_ONCE]
        return list(clients.map(world.ask, texts))


def _renamed(world: World, table: str, told: Told) -> str:
    names = {row[0] for row in world.rows("SHOW TABLES")} & {table, f"{table}_new"}
    assert len(names) == 1, names
    assert names in told.one_of({table}, {f"{table}_new"})
    return str(names.pop())


def _dropped(world: World, table: str, told: Told) -> str:
    """A dropped table's name is free; one that was not dropped is whole."""
    if is_there(world, table, told.one_of(True, False)):
        assert world.ids(table) == list(BEFORE)
    else:
        made(world, table)
    return table


def _retained(world: World, table: str) -> None:
    world.must(f"ALTER TABLE {table} SET ('drop.retention' = '1 d')")


def _dropped_before(world: World, table: str) -> None:
    _retained(world, table)
    world.must(f"DROP TABLE {table}")


def _dropped_for_a_while(world: World, table: str, told: Told) -> str:
    if not is_there(world, table, told.one_of(True, False)):
        world.must(f"UNDROP TABLE {table}")
    return table


def _undropped(world: World, table: str, told: Told) -> str:
    """It is back, or can be brought back."""
    if not is_there(world, table, told.one_of(False, True)):
        world.must(f"UNDROP TABLE {table}")
    return table


def _tagged(world: World, table: str, told: Told) -> str:
    tags = [row[0] for row in world.rows(f"SELECT tag_name FROM {table}$tags")]
    assert tags in told.one_of([], ["one"])
    if tags:
        assert world.rows(f"SELECT snapshot_id, record_count FROM {table}$tags") == [(3, len(BEFORE))]
    else:
        world.must(f"CALL sys.create_tag('{table}', 'one')")
    return table


def _tags(before: Mapping[str, int], after: Mapping[str, int]) -> Callable[[World, str, Told], str]:
    """Which snapshots the tags keep, by their names."""

    def check(world: World, table: str, told: Told) -> str:
        assert dict(world.rows(f"SELECT tag_name, snapshot_id FROM {table}$tags")) in told.one_of(before, after)
        return table

    return check


def _consumed(world: World, table: str, told: Told) -> str:
    assert world.rows(f"SELECT * FROM {table}$consumers") in told.one_of([("c", 1)], [("c", 2)])
    return table


def _branched(world: World, table: str, told: Told) -> str:
    branches = [row[0] for row in world.rows(f"SELECT branch_name FROM {table}$branches")]
    assert branches in told.one_of([], ["b"])
    if not branches:
        world.must(f"CALL sys.create_branch('{table}', 'b', 'old')")
    assert world.ids(f"{table}$branch_b") == list(BEFORE)
    world.must(f"INSERT INTO {table}$branch_b VALUES (50, 'x')")
    assert world.ids(f"{table}$branch_b") == [*BEFORE, 50]
    return table


def _written_to_branch(world: World, table: str, told: Told) -> str:
    """The branch has its rows, of the last INSERT all or none; the table itself has none of them."""
    found = world.ids(f"{table}$branch_b")
    assert found in told.one_of([50], [50, 51]), found
    world.must(f"INSERT INTO {table}$branch_b VALUES (60, 'x')")
    assert world.ids(f"{table}$branch_b") == [*found, 60]
    return table


def _altered(world: World, table: str, told: Told) -> str:
    columns = [row[0] for row in world.rows(f"DESCRIBE {table}")]
    assert columns in told.one_of(["id", "s"], ["id", "s", "n"])
    if len(columns) == 2:
        world.must(f"ALTER TABLE {table} ADD n INT")
    world.must(f"ALTER TABLE {table} DROP n")  # so that the rows that follow fit
    return table


def _built(world: World, table: str) -> Path:
    """The commit a client has built: beside the disk that fails."""
    return world.directory.with_name(f"{world.directory.name}.{table}.commit")


def _client_builds(world: World, table: str) -> None:
    opened = world.lake.open(Identifier("default", table))
    request = CommitRequest(kind=CommitKind.APPEND, adds=tuple(_rows(opened, 7, 8)), commit_user="client")
    latest = opened.latest()
    assert latest is not None
    snapshot = build_snapshot(opened.files, opened.schema, latest, [request], uuid=str(uuid4()), time_millis=latest.time_millis + 1)
    assert snapshot.commit_identifier == BATCH_COMMIT_IDENTIFIER
    body: dict[str, Any] = {
        "tableId": str(opened.table_id),
        "baseSnapshotUuid": latest.uuid,
        "snapshot": snapshot.to_json(),
        "statistics": [],
    }
    _built(world, table).write_text(json.dumps(body))


def _client_commits(world: World, table: str) -> Sequence[Answer]:
    answer = world.post(f"/v1/sluice/databases/default/tables/{table}/commit", _built(world, table).read_bytes())
    if answer.status == 500 and answer.body["message"].startswith(
        ("No space left", "Nothing new is written")
    ):  # the protocol has no word for it
        return [Answer(status=507, body=answer.body)]
    return [answer if answer.body == {"success": True} else Answer(status=max(answer.status, 409), body=answer.body)]


def _written_past(world: World, table: str) -> None:
    """A writer that knows only the files has committed to them, and then somebody has put there what is no snapshot."""
    _client_builds(world, table)
    snapshots = f"{place(world, table)}/snapshot"
    theirs = json.loads(_built(world, table).read_bytes())["snapshot"]
    world.store.write(f"{snapshots}/snapshot-4", json.dumps(theirs).encode())
    world.store.write(f"{snapshots}/snapshot-5", b"{}")
    world.store.write(f"{snapshots}/LATEST", b"5")


def _repaired(world: World, table: str, told: Told) -> str:
    hint_holds(world, table)
    if told is not Told.DONE:
        world.must(f"CALL sys.repair_table('{table}')")
    assert world.ids(table) == [*BEFORE, 7, 8]
    return table


def _unregistered(world: World, table: str) -> None:
    """A table's directory of another catalog, where it may be taken over."""
    source = place(world, table)
    for path in all_files(world, source):
        world.store.write(f"{world.elsewhere}/{table}{path.removeprefix(source)}", world.store.read(path))
    world.must(f"DROP TABLE {table}")


def _register(world: World, table: str) -> Sequence[Answer]:
    return [world.ask(f"CALL sys.register_table('{table}', '{world.elsewhere}/{table}')")]


def _registered(world: World, table: str, told: Told) -> str:
    if not is_there(world, table, told.one_of(False, True)):
        assert _register(world, table)[0].ok
    return table


def _tag_old(world: World, table: str) -> None:
    world.must(f"CALL sys.create_tag('{table}', 'old')")


_BOTH = {"old": 3, "older": 2}
"""The tags of `_tag_both`, and the snapshots they keep."""


def _tag_both(world: World, table: str) -> None:
    _tag_old(world, table)
    world.must(f"CALL sys.create_tag('{table}', 'older', 2)")


OPERATIONS = [
    Operation(name="insert", run=asking("INSERT INTO {t} VALUES (7, 'c'), (8, 'd')"), after=(*BEFORE, 7, 8)),
    Operation(
        name="insert with a key",
        run=asking("INSERT INTO {t} VALUES (7, 'c'), (8, 'd')", key=True),
        after=(*BEFORE, 7, 8),
        check=_repeated,
        completes=True,
    ),
    Operation(name="inserts at once", run=_grouped, each=_AT_ONCE),
    Operation(name="rows by body", run=_by_body, after=(*BEFORE, 7, 8)),
    Operation(name="overwrite", run=_overwritten, after=(20,)),
    Operation(name="statement set", run=_committed_together, prepare=with_another, check=of_both, after=(*BEFORE, 7, 8, 10)),
    Operation(name="delete", run=asking("DELETE FROM {t} WHERE id IN (2, 5)"), prepare=_erasable, after=(1, 3, 4, 6)),
    Operation(name="update", run=asking("UPDATE {t} SET id = 20 WHERE id = 2"), prepare=_erasable, after=(1, 3, 4, 5, 6, 20)),
    Operation(name="merge", run=_merged, prepare=_erasable, after=(2, 4, 5, 6, 7, 8, 10)),
    Operation(
        name="update of a queue",
        run=asking("UPDATE {t} SET id = 20 WHERE id = 2"),
        prepare=_erasable,
        after=(1, 3, 4, 5, 6, 20),
        options=QUEUE,
    ),
    Operation(
        name="delete from a queue",
        run=asking("DELETE FROM {t} WHERE id = 2"),
        prepare=_erasable,
        after=(1, 3, 4, 5, 6),
        options=QUEUE,
    ),
    Operation(name="truncate", run=asking("TRUNCATE TABLE {t}"), after=()),
    Operation(name="compaction", run=asking("CALL sys.compact('{t}')")),
    Operation(name="compaction of a queue", run=asking("CALL sys.compact('{t}')"), options=QUEUE),
    Operation(name="expiry", run=asking("CALL sys.expire_snapshots(`table` => '{t}', retain_max => 1)")),
    Operation(name="tag", run=asking("CALL sys.create_tag('{t}', 'one')"), check=_tagged),
    Operation(name="tag removed", run=asking("CALL sys.delete_tag('{t}', 'old')"), prepare=_tag_old, check=_tags({"old": 3}, {})),
    Operation(
        name="tags removed",
        run=asking("CALL sys.delete_tag('{t}', 'old,older')", key=True),
        prepare=_tag_both,
        check=_tags(_BOTH, {}),
    ),
    Operation(
        name="tag renamed",
        run=asking("CALL sys.rename_tag('{t}', 'old', 'new')"),
        prepare=_tag_both,
        check=_tags(_BOTH, {"new": 3, "older": 2}),
    ),
    Operation(
        name="tag replaced",
        run=asking("CALL sys.replace_tag('{t}', 'old', 1)"),
        prepare=_tag_both,
        check=_tags(_BOTH, {"old": 1, "older": 2}),
    ),
    Operation(
        name="consumer reset",
        run=asking("CALL sys.reset_consumer('{t}', 'c', 2)", key=True),
        prepare=lambda world, table: world.must(f"CALL sys.reset_consumer('{table}', 'c', 1)"),
        check=_consumed,
    ),
    Operation(name="branch", run=asking("CALL sys.create_branch('{t}', 'b', 'old')"), prepare=_tag_old, check=_branched),
    Operation(
        name="insert into a branch",
        run=asking("INSERT INTO {t}$branch_b VALUES (51, 'x')"),
        prepare=branched_off,
        check=_written_to_branch,
    ),
    Operation(name="fast forward", run=asking("CALL sys.fast_forward('{t}', 'b')"), prepare=branched_off, after=(50,)),
    Operation(name="rollback", run=asking("CALL sys.rollback_to('{t}', 2)"), after=(1, 2, 3, 4)),
    Operation(name="rename", run=asking("ALTER TABLE {t} RENAME TO {t}_new"), check=_renamed),
    Operation(name="alter", run=asking("ALTER TABLE {t} ADD n INT"), check=_altered),
    Operation(name="drop", run=asking("DROP TABLE {t}"), check=_dropped),
    Operation(name="drop for a while", run=asking("DROP TABLE {t}"), prepare=_retained, check=_dropped_for_a_while),
    Operation(name="undrop", run=asking("UNDROP TABLE {t}"), prepare=_dropped_before, check=_undropped),
    Operation(name="register", run=_register, prepare=_unregistered, check=_registered),
    Operation(
        name="repair",
        run=asking("CALL sys.repair_table('{t}')"),
        prepare=_written_past,
        check=_repaired,
        completes=True,
        after=(*BEFORE, 7, 8),
    ),
    Operation(name="commit of a client", run=_client_commits, prepare=_client_builds, after=(*BEFORE, 7, 8)),
    *MAINTENANCE,
]


def _reading(text: str, expected: Sequence[tuple[int, ...]]) -> Callable[[World, str], Sequence[Answer]]:
    """Ask for rows; those that come are the right ones."""

    def run(world: World, table: str) -> Sequence[Answer]:
        answer = world.ask(text.replace("{t}", table))
        told = sorted(map(tuple, answer.body.get("rows", ())))
        assert told == list(expected) if answer.ok else set(told) <= set(expected), answer
        return [answer]

    return run


READINGS = [
    Operation(name="SELECT", run=_reading("SELECT id FROM {t}", [(number,) for number in BEFORE])),
    Operation(name="SELECT with a condition", run=_reading("SELECT id FROM {t} WHERE s = 'a' AND id > 2", [(3,), (5,)])),
    Operation(name="COUNT", run=_reading("SELECT COUNT(*) FROM {t}", [(6,)])),
    Operation(name="time travel", run=_reading("SELECT id FROM {t} FOR VERSION AS OF 1", [(1,), (2,)])),
]
"""What changes nothing, and reads."""
NO_FILES = ("rename", "drop for a while")
"""Decided in Postgres alone."""
BY_NAME = {operation.name: operation for operation in (*OPERATIONS, *READINGS)}
