"""Whether catalog and warehouse belong together, and which tables do not fit: looked for at the start and while a server runs.

The warehouse knows the catalog's identity (``.sluice/catalog.json``). A catalog that is another one, as after Postgres was emptied or
a DSN was mistyped, writes nothing until somebody says that it is meant (``CALL sys.claim_warehouse()``). A table whose files are ahead
of the catalog, as after an old dump, is marked as diverged; one of which something was found missing or changed is remembered until it
is whole.
"""

from __future__ import annotations

import contextlib
import json
import logging
import threading
import time
from collections.abc import Callable, Container
from dataclasses import dataclass
from uuid import UUID

from cachetools import TTLCache

from catalog import CatalogStore
from catalog.objects.drops import DroppedTable
from catalog.records import PointerRow
from lake.commit.ahead import may_be_ahead
from lake.commit.publish import Publisher
from lake.register.damage import live_name
from lake.register.restored.after_restore import unknown_tables
from lake.register.restored.used_since import undrop_of
from lake.register.unknown_branches import unknown_branches
from model.catalog_errors import WarehouseMismatch
from model.errors import LakeError, TableDamaged, Unavailable
from model.identifier import MAIN_BRANCH, Identifier
from model.snapshot import Snapshot
from model.text.file_name import file_name
from model.text.name_parts import parse_name
from model.text.sql_text import literal
from table.format.io.file_io import FileIO, file_io_for
from table.format.io.storage_errors import UNREADABLE, refusal
from table.format.layout import TableLayout
from table.format.store import TableFiles

_log = logging.getLogger(__name__)
MARKER = ".sluice/catalog.json"
_TOLD_SECONDS = 3600.0
"""The log tells of a table once in so long; for so long damage that cannot be looked for cheaply is told after it was last met."""
_MOST_TROUBLES = 10_000
_LOOKED_AT = 20
"""Tables looked at in one round."""
_ROUND_SECONDS = 5.0
_CLAIM = "CALL sys.claim_warehouse()"


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """What is wrong with a table, and what mends it."""

    table: Identifier
    problem: str
    statement: str
    since: float
    """Seconds of the epoch at which this server first noticed it."""


@dataclass(slots=True, kw_only=True)
class _Damage:
    """Damage of a table that was met."""

    trouble: Trouble
    file: str
    missing: bool
    """Whether it is mended once the file or directory can be looked at again."""
    met: float


class Standing:
    """What one server knows of it."""

    def __init__(self, catalog: CatalogStore, io: FileIO, warehouse: str, publisher: Publisher) -> None:
        self._catalog = catalog
        self._io = io
        self._warehouse = warehouse
        self._publisher = publisher
        self._lock = threading.Lock()
        self._mismatch: str | None = None
        self._warning: str | None = None
        self._diverged: dict[UUID, Trouble] = {}
        self._damaged: dict[str, _Damage] = {}
        self._told: TTLCache[str, None] = TTLCache(_MOST_TROUBLES, _TOLD_SECONDS)
        self._after: tuple[UUID, str] | None = None
        self._unknown_branches: dict[UUID, Trouble] = {}
        self._kept_drops: dict[int, Trouble] = {}
        self._listed: TTLCache[tuple[UUID, str], None] = TTLCache(_MOST_TROUBLES, _TOLD_SECONDS)

    # The catalog as a whole

    @property
    def mismatch(self) -> str | None:
        """Why nothing is written, where catalog and warehouse do not belong together."""
        return self._mismatch

    @property
    def warning(self) -> str | None:
        """What is strange about the catalog and stops nothing."""
        return self._warning

    def require_own(self) -> None:
        """Raise `WarehouseMismatch` where the warehouse is another catalog's."""
        if self._mismatch is not None:
            raise WarehouseMismatch(self._mismatch)

    def compare(self, *, look_only: bool = False) -> None:
        """Hold the catalog's identity against the warehouse's; a warehouse without one gets it, unless only the warehouse holds tables.

        With ``look_only`` nothing is written.
        """
        with self._catalog.reading() as tx:
            ours, revision, has_tables = tx.state.identity()
        theirs, known_revision = self._marker()
        mismatch = warning = None
        if theirs is None and ours is not None:
            unknown = None if has_tables else next(unknown_tables(self._io, self._warehouse, set()), None)
            if has_tables and not self._holds_a_database():
                mismatch = (
                    f"The warehouse {self._warehouse} is empty, and the catalog holds tables. Nothing is written. If its disk is not "
                    f"mounted, mount it; if its files are lost, bring them back from a copy; {_CLAIM} says that it is meant."
                )
            elif unknown is None and not look_only:
                self._write_marker(ours, revision)
            elif unknown is not None:
                warning = (
                    f"The catalog is empty and the warehouse {self._warehouse} holds tables ({unknown.table} is one). If Postgres was "
                    "emptied, stop the server and run `sluice restore` with the newest backup; if not, "
                    f"{unknown.statement} registers a table, and {_CLAIM} says that it is meant."
                )
        elif theirs != ours:
            mismatch = (
                f"The warehouse {self._warehouse} belongs to the catalog {theirs}, and Postgres holds "
                f"{'none' if ours is None else f'the catalog {ours}'}{'' if has_tables else ', which is empty'}. Nothing is written. Set "
                "SLUICE_CATALOG_DSN or SLUICE_WAREHOUSE to what belongs together, or run `sluice restore` with the newest backup; "
                f"{_CLAIM} makes the warehouse this catalog's."
            )
        elif ours is not None and known_revision != revision and not look_only:
            self._write_marker(ours, revision)
        for text in (mismatch, warning):
            if text is not None:
                self.tell(text)
        self._mismatch, self._warning = mismatch, warning

    def claim(self, *, dry_run: bool = False) -> UUID:
        """Make the warehouse the catalog's, whosever it was; returns the catalog's id."""
        with self._catalog.reading() as tx:
            ours, revision, _ = tx.state.identity()
        if ours is None:
            raise WarehouseMismatch("Postgres holds no catalog with an identity: run `sluice restore` with the newest backup.")
        if not dry_run:
            self._write_marker(ours, revision)
            self._mismatch = self._warning = None
        return ours

    def _holds_a_database(self) -> bool:
        return any(status.path.rstrip("/").endswith(".db") for status in self._io.list(self._warehouse))

    def become(self) -> None:
        """Give the catalog the identity that the warehouse knows, where it knows one."""
        theirs, _ = self._marker()
        if theirs is not None:
            with self._catalog.transaction() as tx:
                tx.state.become(theirs)

    def _marker(self) -> tuple[UUID | None, str]:
        """The identity and revision the warehouse knows; what is no marker, as after a loss of power, counts as none."""
        try:
            marker = json.loads(self._io.read(f"{self._warehouse}/{MARKER}"))
            return UUID(marker["catalog"]), str(marker["revision"])
        except (FileNotFoundError, ValueError, KeyError, TypeError):
            return None, ""

    def _write_marker(self, catalog_id: UUID, revision: str) -> None:
        body = {"catalog": str(catalog_id), "revision": revision}
        self._io.write(f"{self._warehouse}/{MARKER}", json.dumps(body, indent=1).encode())

    # Its tables

    def troubles(self) -> list[Trouble]:
        """The tables that need a hand, by name, as far as this server has noticed."""
        with self._lock:
            troubles = [*self._diverged.values(), *self._unknown_branches.values(), *self._kept_drops.values()]
            troubles += [damage.trouble for damage in self._damaged.values()]
        return sorted(troubles, key=lambda one: (one.table.database, one.table.table, one.table.branch or "", one.since))

    def keep_dropped(self, dropped: DroppedTable, found: str) -> None:
        """Note a dropped table that is kept beyond its time, as its files show that it was used since."""
        with self._lock:
            known = self._kept_drops.get(dropped.drop_id)
            self._kept_drops[dropped.drop_id] = Trouble(
                table=dropped.identifier,
                problem=f"it was dropped, and seems used since, as after an UNDROP that is not in the catalog: {found}; it stays",
                statement=undrop_of(dropped),
                since=time.time() if known is None else known.since,
            )
            trouble = self._kept_drops[dropped.drop_id]
        self.tell(f"Table {trouble.table}: {trouble.problem}. {trouble.statement} brings it back, and PURGE TABLE removes it.")

    def dropped_now(self, drops: Container[int]) -> None:
        """Forget those that are dropped no more."""
        with self._lock:
            self._kept_drops = {drop_id: trouble for drop_id, trouble in self._kept_drops.items() if drop_id in drops}

    def notice(self, table_id: UUID) -> str | None:
        """What a reader is to know of a table whose files are ahead of the catalog; None for others, as far as this server noticed."""
        with self._lock:
            trouble = self._diverged.get(table_id)
        if trouble is None:
            return None
        return f"Table {trouble.table} is shown as the catalog knows it: {trouble.problem}. {trouble.statement} mends it."

    def met(self, problem: BaseException | None) -> None:
        """Remember damage that somebody came upon."""
        if not isinstance(problem, TableDamaged) or (table := _named(problem.resource_name)) is None:
            return
        problem.told = True
        with self._lock:
            known = self._damaged.get(problem.resource_name)
            if known is None and len(self._damaged) >= _MOST_TROUBLES:
                return
            trouble = Trouble(
                table=table, problem=f"{file_name(problem.file)} {problem.problem}",
                statement=f"CALL sys.check_table({literal(problem.resource_name)})",
                since=time.time() if known is None else known.trouble.since,
            )  # fmt: skip
            missing = "missing" in problem.problem or problem.problem.startswith(UNREADABLE)
            self._damaged[problem.resource_name] = _Damage(trouble=trouble, file=problem.file, missing=missing, met=time.monotonic())
        text = f"Table {problem.resource_name} is damaged: {problem.file} {problem.problem}. {trouble.statement} lists all of it."
        self.tell(text, about=_damage_of(problem.resource_name))

    def mended(self, table: Identifier) -> None:
        """Forget damage of a table, all of whose files were found to be as they were written."""
        with self._lock:
            for name, damage in list(self._damaged.items()):
                if (damage.trouble.table.database, damage.trouble.table.table) == (table.database, table.table):
                    del self._damaged[name]
                    self._told.pop(_damage_of(name), None)

    def look_around(self, *, tables: int | None = _LOOKED_AT) -> None:
        """Look at the next few tables, or at all, and anew at those that were damaged; raises `Unavailable`."""
        with self._catalog.reading() as tx:
            rows = tx.overview.pointers(after=None if tables is None else self._after, limit=tables)
        self._after = (rows[-1].table_id, rows[-1].branch) if rows and len(rows) == tables else None
        for row in rows:
            try:
                self._look_at(row)
            except (LakeError, OSError) as problem:
                self.met(_as_damage(problem, Identifier(row.database, row.table_name, row.branch)))
        with self._catalog.reading() as tx:
            diverged = tx.overview.diverged()
        self._note_diverged(diverged)
        for name in list(self._damaged):
            with contextlib.suppress(Unavailable):  # what cannot be looked at now is not mended
                self._forget_mended(name)

    def _look_at(self, row: PointerRow) -> None:
        table = Identifier(row.database, row.table_name, row.branch)
        files = TableFiles(file_io_for(row.location), row.location, row.branch, name=table.written())
        latest = None if row.body is None else Snapshot.from_json(row.body)
        is_due = (row.table_id, row.branch) not in self._listed  # once an hour all is looked for that takes a listing
        self._listed[row.table_id, row.branch] = None
        looks_ahead = may_be_ahead(files, latest, row.top_schema_id, listed=is_due)
        if looks_ahead and self._publisher.mark_ahead(row.table_id, files, row.branch) is not None:
            return
        if row.branch == MAIN_BRANCH and (is_due or row.table_id in self._unknown_branches):
            self._look_at_branches(row)
        if latest is None:
            return
        for name in (latest.base_manifest_list, latest.delta_manifest_list):
            path = files.layout.manifest(name)
            if not files.io.file_exists(path) and live_name(self._catalog, files.io, row.table_id, row.location, path) is not None:
                raise files.damaged(path, "is missing", snapshot_id=latest.id)

    def _look_at_branches(self, row: PointerRow) -> None:
        """Note branches that only the table's files have."""
        known = self._unknown_branches.get(row.table_id)
        with self._catalog.reading() as tx:
            names = unknown_branches(tx, file_io_for(row.location), row.table_id, row.location)
        if not names:
            with self._lock:
                self._unknown_branches.pop(row.table_id, None)
            return
        table = Identifier(row.database, row.table_name)
        trouble = Trouble(
            table=table,
            problem=f"the catalog does not have its branch {', '.join(names)}: it is older than the files, or they were written past it",
            statement=f"CALL sys.repair_table({literal(table.written())})",
            since=time.time() if known is None else known.since,
        )
        with self._lock:
            self._unknown_branches[row.table_id] = trouble
        self.tell(f"Table {table}: {trouble.problem}. {trouble.statement} registers it.")

    def _note_diverged(self, rows: list[tuple[UUID, str, str, str]]) -> None:
        diverged = {}
        for table_id, database, name, path in rows:
            table, known = Identifier(database, name).of_file(path), self._diverged.get(table_id)
            diverged[table_id] = Trouble(
                table=table,
                problem=f"{file_name(path)} is not the catalog's: it was written past it, or the catalog is older; commits stop",
                statement=f"CALL sys.repair_table({literal(table.written())})",
                since=time.time() if known is None else known.since,
            )
        with self._lock:
            self._diverged = diverged
        for trouble in diverged.values():
            self.tell(f"Table {trouble.table}: {trouble.problem}. {trouble.statement} mends it.")

    def _forget_mended(self, name: str) -> None:
        """Forget damage that is mended: the file is there, the newest snapshot does without it, or nobody met it for long."""
        with self._lock:
            damage = self._damaged.get(name)
        if damage is None:
            return
        table = damage.trouble.table
        with self._catalog.reading() as tx:
            row = tx.tables.find(table)
            latest = None if row is None else tx.snapshots.latest(row.table_id, table.branch)
        mended = row is None or time.monotonic() - damage.met > _TOLD_SECONDS
        if row is not None and not mended:
            io = file_io_for(row.location)
            path = damage.file if "/" in damage.file else TableLayout(row.location).manifest(damage.file)
            io.list(path)  # raises where it is a directory without rights
            named_by = live_name(self._catalog, io, row.table_id, row.location, path)
            past = latest is not None and named_by is not None and 0 < named_by < latest.snapshot_id
            mended = (damage.missing and io.file_exists(path)) or named_by is None or past
        if mended:
            with self._lock:
                self._damaged.pop(name, None)

    def tell(self, text: str, *, about: str | None = None) -> None:
        """Write a line of the log, once in an hour; of what it is about there is one line, however it is put."""
        key = about or text[:200]
        with self._lock:
            was_told = key in self._told
            if not was_told:
                self._told[key] = None
        if not was_told:
            _log.warning("%s", text)

    # While a server runs

    def watch(self) -> Callable[[], None]:
        """Look around in a thread of its own until what is returned is called; all tables first, then a few at a time."""
        stop = threading.Event()
        thread = threading.Thread(target=self._run, args=(stop,), name="sluice-standing", daemon=True)
        thread.start()
        return stop.set

    def _run(self, stop: threading.Event) -> None:
        whole: int | None = None
        while not stop.is_set():
            try:
                self.compare()
                self.look_around(tables=whole)
                whole = _LOOKED_AT
            except (LakeError, OSError) as problem:  # Postgres or the warehouse is away, which others tell
                _log.debug("Catalog and warehouse could not be compared: %s", problem)
            except Exception:
                _log.exception("Catalog and warehouse could not be compared")
            stop.wait(_ROUND_SECONDS)


def _as_damage(problem: BaseException, table: Identifier) -> BaseException:
    """What hinders a look at a table as damage of it, where it is the table's alone: a file or directory that its store does not give."""
    text = refusal(problem)
    if text is None or not isinstance(problem, Unavailable) or problem.place is None:
        return problem
    return TableDamaged(table.written(), file=problem.place, problem=text)


def _damage_of(name: str) -> str:
    return f"damage of {name}"


def _named(text: str) -> Identifier | None:
    """The table or branch an error is about; None where it tells only a directory."""
    if "/" in text:
        return None
    database, *name = parse_name(text)
    table, _, branch = ".".join(name).partition("$branch_")
    return Identifier(database, table, branch or MAIN_BRANCH) if table else None
