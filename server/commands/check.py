"""``sluice check``: every file of every table, held against what names it, several tables at once."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field

from lake import Lake
from lake.inspect.checked import forget_checked
from lake.register.looks.faults import Fault
from lake.register.looks.side_by_side import SideBySide
from model.catalog_errors import MetadataOnlyTable
from model.errors import LakeError, StatementCanceled, TableNotExist
from model.identifier import Identifier
from server.commands.backup import catalog_of, present_dsn, require_own_schema
from server.settings.settings import Settings
from server.sql.orc import orc_decoded_beside

_AT_ONCE = 8
"""Tables at a time, at most: each holds the names of its files in memory, and now and then a connection to Postgres."""


@dataclass(slots=True, kw_only=True)
class _Table:
    """What was found of a table."""

    name: Identifier
    faults: list[Fault] = field(default_factory=list)
    files: int = 0
    size: int = 0


def check_warehouse(settings: Settings, *, deep: bool, threads: int, told: Callable[[str], None]) -> Iterator[tuple[str, Fault]]:
    """The faults of all tables, table by table as each is done; ``told`` hears how far it is. ``threads`` files are looked at at a time.

    Raises `IllegalMove` for a catalog of another version.
    """
    with present_dsn(settings) as dsn, orc_decoded_beside(settings):
        require_own_schema(dsn)
        at_once = max(1, min(threads, _AT_ONCE))
        catalog = catalog_of(settings, dsn, max_connections=at_once + 1)
        lake = Lake(catalog, settings.warehouse, import_dirs=settings.import_dirs)
        try:
            with catalog.reading() as tx:
                tables = [Identifier(row.database, row.name) for row in tx.tables.all()]
            for done, table in enumerate(_checked(lake, tables, at_once, deep=deep, threads=threads), 1):
                for fault in table.faults:
                    yield str(table.name), fault
                told(f"{done}/{len(tables)} {table.name}: {table.files:,} files, {table.size:,} bytes, {len(table.faults)} damaged")
            with contextlib.suppress(LakeError):  # the next check does it
                _forget_gone(lake)
        finally:
            lake.close()
            catalog.close()


def _forget_gone(lake: Lake) -> None:
    """Remove the notes of checks of tables that are no more and cannot be brought back, unless the warehouse is another catalog's."""
    with lake.catalog.reading() as tx:
        there = {row.table_id for row in tx.tables.all()} | {dropped.table_id for dropped in tx.drops.tables()}
    if lake.standing.is_own_now():
        forget_checked(lake.file_io, lake.warehouse, but=there)


def _checked(lake: Lake, names: list[Identifier], at_once: int, *, deep: bool, threads: int) -> Iterator[_Table]:
    """The tables as each is done; where whoever takes them stops, those at work stop at their next file."""
    looks, stopped = SideBySide(threads), threading.Event()
    with ThreadPoolExecutor(at_once, thread_name_prefix="check") as pool:
        try:
            begun = [pool.submit(_of_table, lake, name, looks, stopped, deep=deep) for name in names]
            for table in as_completed(begun):
                yield table.result()
        finally:
            stopped.set()
            pool.shutdown(cancel_futures=True)


def _of_table(lake: Lake, name: Identifier, looks: SideBySide, stopped: threading.Event, *, deep: bool) -> _Table:
    """Look at one table; raises `StatementCanceled` once all is stopped."""
    table = _Table(name=name)

    def checked(files: int, size: int) -> None:
        if stopped.is_set():
            raise StatementCanceled("The check was stopped.")
        table.files += files
        table.size += size

    try:
        for fault in lake.check_table(lake.open(name), deep=deep, threads=looks, checked=checked):
            table.faults.append(fault)
    except StatementCanceled:
        raise
    except (MetadataOnlyTable, TableNotExist):  # no files of ours, or dropped meanwhile
        pass
    except LakeError as problem:
        table.faults.append(Fault(branch=name.branch, snapshot_id=None, partition="", file="", rows=None, problem=problem.whole))
    return table
