"""Brings what earlier versions wrote to what this one writes: once, in the background, while the server answers."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar
from uuid import UUID

from lake.register.operations import rewrite_all
from lake.tables.tables import LakeTables
from model.errors import LakeError, TableNotExist
from model.identifier import MAIN_BRANCH, Identifier
from model.schema.schema import DIRECTORY_KINDS, other_kind
from model.snapshot import Operation
from table.format.marked_file import remove_marked
from table.format.store import TableFiles

T = TypeVar("T")
_PAUSE_SECONDS = 30.0
"""Before what failed is tried again."""
_log = logging.getLogger(__name__)


def upgrade_operations(lake: LakeTables) -> int:
    """Bring all tables' files and rows to words that every reader parses; returns how many rows. What fails raises after all others."""
    with lake.catalog.reading() as tx:
        waiting = tx.snapshots.tables_told_otherwise(tuple(Operation))

    def upgraded(table_id: UUID, table: Identifier) -> int:
        opened = lake.open_any(table)
        if opened.table_id != table_id:
            raise TableNotExist(str(table))  # renamed meanwhile: the next round finds it
        return rewrite_all(lake.catalog, opened, lake.step)

    return sum(_each([partial(upgraded, table_id, Identifier(database, name, branch)) for table_id, database, name, branch in waiting]))


def remove_schema_files(lake: LakeTables) -> None:
    """Take the schema files away that version 0.1 put among the rows of format and object tables, whose readers list the directory.

    Each table by itself: what fails raises after all others.
    """
    with lake.catalog.reading() as tx:
        rows = [row for row in tx.tables.all() if row.branch == MAIN_BRANCH and other_kind(row.schema["options"]) in DIRECTORY_KINDS]
        schemas_by_row = [(row, tx.tables.schemas(row.table_id, row.branch)) for row in rows]
    _each([partial(_remove_schema_files, TableFiles(lake.file_io, row.location), schemas) for row, schemas in schemas_by_row])


def _each(works: Iterable[Callable[[], T]]) -> list[T]:
    """What each of them returns; what fails raises after all others."""
    returned, failure = [], None
    for work in works:
        try:
            returned.append(work())
        except LakeError as problem:
            failure = problem
    if failure is not None:
        raise failure
    return returned


def _remove_schema_files(files: TableFiles, schemas: Sequence[tuple[int, Mapping[str, Any]]]) -> None:
    place = files.layout.schema_dir()
    if not files.io.exists(place):
        return
    for schema_id, body in schemas:
        path = files.layout.below(files.layout.schema_file(schema_id))
        remove_marked(files, path, {"id": schema_id, "timeMillis": body.get("timeMillis"), "highestFieldId": body.get("highestFieldId")})
    if not files.io.list(place):
        files.io.delete_tree(place)


def in_background(lake: LakeTables, *, pause: float = _PAUSE_SECONDS) -> threading.Event:
    """Upgrade all tables in a thread of its own until nothing is left to do; setting the event ends it."""
    stop = threading.Event()
    threading.Thread(target=_until_done, args=(lake, stop, pause), name="sluice-upgrade", daemon=True).start()
    return stop


def _until_done(lake: LakeTables, stop: threading.Event, pause: float) -> None:
    steps: dict[str, Callable[[LakeTables], object]] = {
        "Snapshots of earlier versions that Paimon 2 cannot parse could not be written again yet": upgrade_operations,
        "Schema files that version 0.1 left among the rows of format and object tables could not be removed yet": remove_schema_files,
    }
    failing: set[str] = set()
    while not stop.is_set():
        for what, step in list(steps.items()):
            try:
                lake.standing.require_own()
                done = step(lake)
            except LakeError as problem:
                if what not in failing:
                    _log.warning("%s, which is tried again: %s", what, problem)
                failing.add(what)
                continue
            except Exception:  # it is tried again, and the other steps are done
                if what not in failing:
                    _log.exception("%s, which is tried again", what)
                failing.add(what)
                continue
            if done:
                _log.info("%d snapshots and tags of earlier versions were written again so that Paimon 2 parses them.", done)
            del steps[what]
        if not steps:
            return
        stop.wait(pause)
