"""Brings what earlier versions wrote to what this one writes: once, in the background, while the server answers."""

from __future__ import annotations

import logging
import threading

from lake.register.operations import rewrite_operation
from lake.tables.handle import LakeTable
from lake.tables.tables import LakeTables
from model.errors import LakeError
from model.identifier import MAIN_BRANCH, Identifier
from model.schema.schema import DIRECTORY_KINDS, other_kind
from model.snapshot import Operation, Snapshot
from table.format.store import TableFiles

_BATCH = 200
"""Files that are written under one lock of the table's retention: an expiry waits for no more."""
_PAUSE_SECONDS = 30.0
"""Before what failed is tried again."""
_log = logging.getLogger(__name__)


def upgrade_operations(lake: LakeTables) -> int:
    """Bring all tables' files and rows to words that every reader parses; returns how many rows. What fails raises after all others."""
    with lake.catalog.reading() as tx:
        waiting = tx.snapshots.tables_told_otherwise(tuple(Operation))
    done, failure = 0, None
    for table_id, database, name, branch in waiting:
        try:
            opened = lake.open_any(Identifier(database, name, branch))
            while opened.table_id == table_id and (changed := _upgrade(lake, opened)):
                done += changed
        except LakeError as problem:
            failure = problem
    if failure is not None:
        raise failure
    return done


def remove_schema_files(lake: LakeTables) -> None:
    """Take the schema files away that version 0.1 put among the rows of format and object tables, whose readers list the directory."""
    with lake.catalog.reading() as tx:
        rows = [row for row in tx.tables.all() if row.branch == MAIN_BRANCH and other_kind(row.schema["options"]) in DIRECTORY_KINDS]
        schemas_by_row = [(row, tx.tables.schemas(row.table_id, row.branch)) for row in rows]
    for row, schemas in schemas_by_row:
        files = TableFiles(lake.file_io, row.location)
        place = files.layout.schema_dir()
        if not files.io.exists(place):
            continue
        for schema_id, body in schemas:
            path = files.layout.below(files.layout.schema_file(schema_id))
            files.remove_marked(path, {"id": schema_id, "timeMillis": body.get("timeMillis"), "highestFieldId": body.get("highestFieldId")})
        if not files.io.list(place):
            files.io.delete_tree(place)


def _upgrade(lake: LakeTables, table: LakeTable) -> int:
    """Some files of a table or branch and their rows; returns how many."""
    files, branch, id_ = table.files, table.identifier.branch, table.table_id
    with lake.catalog.transaction() as tx:
        # Nothing expires, is rolled back, dropped or moved meanwhile: no file is written that is no more.
        if tx.tables.lock_retention(Identifier(table.identifier.database, table.identifier.table)) != (id_, table.location):
            return 0
        snapshots = tx.snapshots.told_otherwise(id_, branch, tuple(Operation), most=_BATCH)
        tags = tx.tags.told_otherwise(id_, branch, tuple(Operation)) if not snapshots else []
        for row in snapshots:
            snapshot = Snapshot.from_json(row.body)
            if rewrite_operation(files, files.layout.snapshot_file(snapshot.id), snapshot):
                lake.step("operation rewritten")
            tx.snapshots.tell(id_, branch, snapshot_id=snapshot.id, body=snapshot.to_json())
        for tag in tags:
            snapshot = Snapshot.from_json(tag.snapshot)
            if rewrite_operation(files, files.layout.tag_file(tag.name), snapshot):
                lake.step("tag's operation rewritten")
            tx.tags.tell(id_, branch, tag.name, snapshot.to_json())
    return len(snapshots) + len(tags)


def in_background(lake: LakeTables, *, pause: float = _PAUSE_SECONDS) -> threading.Event:
    """Upgrade all tables in a thread of its own until nothing is left to do; setting the event ends it."""
    stop = threading.Event()
    threading.Thread(target=_until_done, args=(lake, stop, pause), name="sluice-upgrade", daemon=True).start()
    return stop


def _until_done(lake: LakeTables, stop: threading.Event, pause: float) -> None:
    is_logged = False
    while not stop.is_set():
        try:
            remove_schema_files(lake)
            if done := upgrade_operations(lake):
                _log.info("%d snapshots and tags of earlier versions were written again so that Paimon 2 parses them.", done)
            return
        except LakeError as problem:
            if not is_logged:
                _log.warning("Snapshots of earlier versions that Paimon 2 cannot parse could not be written again yet: %s", problem)
            is_logged = True
        stop.wait(pause)
