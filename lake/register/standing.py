"""Which tables do not fit the catalog, beside whether the warehouse is its own: looked for at the start and while a server runs.

A table whose files are ahead of the catalog, as after an old dump, is marked as diverged; one of which something was found missing or
changed is remembered until it is whole.
"""

from __future__ import annotations

import contextlib
import logging
import math
import threading
import time
from collections.abc import Callable, Container
from dataclasses import dataclass
from uuid import UUID

from cachetools import LRUCache

from catalog import CatalogStore
from catalog.objects.drops import DroppedTable
from catalog.records import PointerRow
from lake.commit.ahead import may_be_ahead
from lake.commit.publish import Publisher
from lake.register.belonging import Belonging
from lake.register.damage import live_name
from lake.register.listed import listed_damage
from lake.register.restored.used_since import undrop_of
from lake.register.unknown_branches import unknown_branches
from model.damage import MISSING, is_absent, needs_deep_look
from model.errors import LakeError, TableDamaged, Unavailable
from model.identifier import MAIN_BRANCH, Identifier
from model.snapshot import Snapshot
from model.text.file_name import file_name
from model.text.name_parts import parse_name
from model.text.sql_text import literal
from table.format.io.file_io import FileIO, file_io_for
from table.format.io.storage_errors import refusal, translating
from table.format.layout import TableLayout
from table.format.store import TableFiles

_log = logging.getLogger(__name__)
_TOLD_SECONDS = 3600.0
"""The log tells of a table once in so long; for so long damage that cannot be looked for cheaply is told after it was last met."""
_MOST_TROUBLES, _MOST_LISTED = 10_000, 1_000_000
_LISTED_SECONDS = 3600.0
"""So long at least lie between two listings of a table that is written to."""
_LOOKED_AT = 20
"""Tables looked at in one round."""
_ROUND_SECONDS = 5.0


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
    problem: str
    met: float


class Standing(Belonging):
    """What one server knows of it, and of each table."""

    def __init__(self, catalog: CatalogStore, io: FileIO, warehouse: str, publisher: Publisher) -> None:
        super().__init__(catalog, io, warehouse)
        self._publisher = publisher
        publisher.require_own = self.require_own
        self._lock = threading.Lock()
        self._diverged: dict[UUID, Trouble] = {}
        self._damaged: dict[str, _Damage] = {}
        self._after: tuple[UUID, str] | None = None
        self._listed_damaged: dict[str, str] = {}
        """Tables whose damage was found by a listing, which tells when it is mended, and the file."""
        self._unknown_branches: dict[UUID, Trouble] = {}
        self._kept_drops: dict[int, Trouble] = {}
        self.listing_seconds = 24 * 3600.0
        """So long at most between two listings of any table: each is a request that a store bills."""
        self.looked_at = _LOOKED_AT
        """So many tables and branches in one round, after the first one, which looks at all."""
        self._listed: LRUCache[tuple[UUID, str], tuple[float, object]] = LRUCache(_MOST_LISTED)
        """When each was listed last, and as what the catalog had it then."""

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
        problem.logged = True
        with self._lock:
            known = self._damaged.get(problem.resource_name)
            if known is None and len(self._damaged) >= _MOST_TROUBLES:
                return
            trouble = Trouble(
                table=table, problem=f"{file_name(problem.file)} {problem.problem}",
                statement=problem.check,
                since=time.time() if known is None else known.trouble.since,
            )  # fmt: skip
            damage = _Damage(trouble=trouble, file=problem.file, problem=problem.problem, met=time.monotonic())
            self._damaged[problem.resource_name] = damage
        text = f"Table {problem.resource_name} is damaged: {problem.file} {problem.problem}. {trouble.statement} lists all of it."
        self.tell(text, about=_damage_of(problem.resource_name))

    def mended(self, table: Identifier, *, deep: bool) -> None:
        """Forget damage of a table, all of whose files were found to be as they were written, as far as a look tells, ``deep`` or not."""
        with self._lock:
            for name, damage in list(self._damaged.items()):
                of_it = (damage.trouble.table.database, damage.trouble.table.table) == (table.database, table.table)
                if of_it and (deep or not needs_deep_look(file_name(damage.file), damage.problem)):
                    del self._damaged[name]
                    self.tell_anew(_damage_of(name))

    def look_around(self, *, tables: int | None = _LOOKED_AT) -> bool:
        """Look at the next few tables, or at all, and anew at those that were damaged; False where it broke off. Raises `Unavailable`."""
        with self._catalog.reading() as tx:
            rows = tx.overview.pointers(after=None if tables is None else self._after, limit=tables)
        for row in rows:
            if self.refusal is not None:  # what lies there tells nothing of the tables
                return False
            table = Identifier(row.database, row.table_name, row.branch)
            try:
                if self._look_at(row, anew=table.written() in self._listed_damaged):
                    self._forget_listed(table.written())
            except (LakeError, OSError) as problem:
                if not isinstance(problem, TableDamaged):  # what could not be listed is to be
                    self._listed.pop((row.table_id, row.branch), None)
                self.met(_as_damage(problem, table))
            except Exception:  # else those behind it are never looked at
                _log.exception("Table %s could not be looked at", table)
        self._after = (rows[-1].table_id, rows[-1].branch) if rows and len(rows) == tables else None
        with self._catalog.reading() as tx:
            diverged = tx.overview.diverged()
        self._note_diverged(diverged)
        for name in list(self._damaged):
            with contextlib.suppress(Unavailable):  # what cannot be looked at now is not mended
                self._forget_mended(name)
        return True

    def _is_due(self, row: PointerRow, latest: Snapshot | None, *, anew: bool) -> bool:
        """Whether all is to be looked for that takes a listing: once in a while, and sooner where something was committed since."""
        key, now = (row.table_id, row.branch), time.monotonic()
        state = (None if latest is None else latest.key, row.top_schema_id)
        at, known = self._listed.get(key, (-math.inf, None))
        is_due = anew or now - at >= min(self.listing_seconds, _LISTED_SECONDS if state != known else math.inf)
        if is_due:
            self._listed[key] = now, state
        return is_due

    def _look_at(self, row: PointerRow, *, anew: bool) -> bool:
        """Whether all of it was looked at, and nothing found; raises `TableDamaged`. ``anew``: also where that was done lately."""
        table = Identifier(row.database, row.table_name, row.branch)
        files = TableFiles(file_io_for(row.location), row.location, row.branch, name=table.written())
        latest = None if row.body is None else Snapshot.from_json(row.body)
        is_due = self._is_due(row, latest, anew=anew)
        looks_ahead = may_be_ahead(files, latest, row.top_schema_id, listed=is_due)
        if looks_ahead and self._publisher.mark_ahead(row.table_id, files, row.branch) is not None:
            return False
        if row.branch == MAIN_BRANCH and (is_due or row.table_id in self._unknown_branches):
            self._look_at_branches(row)
        if is_due and (damage := listed_damage(self._catalog, row.table_id, files)) is not None:
            self._listed_damaged[table.written()] = damage[0]
            raise files.damaged(damage[0], damage[1], snapshot_id=damage[2])
        for name in () if latest is None or is_due else (latest.base_manifest_list, latest.delta_manifest_list):
            path = files.layout.manifest(name)
            if not files.io.file_exists(path) and live_name(self._catalog, files.io, row.table_id, row.location, path) is not None:
                raise files.damaged(path, MISSING, snapshot_id=None if latest is None else latest.id)
        return is_due

    def _forget_listed(self, name: str) -> None:
        """Forget damage that listings have told and tell no more."""
        file = self._listed_damaged.pop(name, None)
        with self._lock:
            damage = self._damaged.get(name)
            if damage is not None and damage.file == file:
                del self._damaged[name]
                self.tell_anew(_damage_of(name))

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
            named_by = live_name(self._catalog, io, row.table_id, row.location, path)
            past = latest is not None and named_by is not None and 0 < named_by < latest.snapshot_id
            mended = (is_absent(damage.problem) and _is_given(io, path)) or named_by is None or past
        if mended:
            with self._lock:
                self._damaged.pop(name, None)

    # While a server runs

    def watch(self) -> Callable[[], None]:
        """Look around until what is returned is called: at all tables first, then at a few at a time.

        Catalog and warehouse are compared in a thread of its own: what keeps others from writing must not wait for thousands of tables.
        """
        stop, compared = threading.Event(), threading.Event()
        whole: list[int | None] = [None]

        def compare() -> None:
            self.compare()
            compared.set()

        def look() -> None:
            if compared.wait(_ROUND_SECONDS) and self.refusal is None and self.look_around(tables=whole[0]):
                whole[0] = self.looked_at

        for turn, name in ((compare, "sluice-standing"), (look, "sluice-tables")):
            threading.Thread(target=_repeat, args=(turn, stop), name=name, daemon=True).start()
        return stop.set


def _repeat(turn: Callable[[], None], stop: threading.Event) -> None:
    while not stop.is_set():
        try:
            turn()
        except (LakeError, OSError) as problem:  # Postgres or the warehouse is away, which others tell
            _log.debug("Catalog, warehouse and tables could not be compared: %s", problem)
        except Exception:
            _log.exception("Catalog, warehouse and tables could not be compared")
        stop.wait(_ROUND_SECONDS)


def _as_damage(problem: BaseException, table: Identifier) -> BaseException:
    """What hinders a look at a table as damage of it, where it is the table's alone: a file or directory that its store does not give."""
    text = refusal(problem)
    if text is None or not isinstance(problem, Unavailable) or problem.place is None:
        return problem
    return TableDamaged(table.written(), file=problem.place, problem=text)


def _is_given(io: FileIO, path: str) -> bool:
    """Whether a file or directory is there; raises `Unavailable` for one that its store does not give."""
    if io.list(path):
        return True
    try:
        with translating(path), io.open_input(path) as source:
            source.read(1)
    except FileNotFoundError:  # also for a directory
        return io.exists(path)
    return True


def _damage_of(name: str) -> str:
    return f"damage of {name}"


def _named(text: str) -> Identifier | None:
    """The table or branch an error is about; None where it tells only a directory."""
    if "/" in text:
        return None
    database, *name = parse_name(text)
    table, _, branch = ".".join(name).partition("$branch_")
    return Identifier(database, table, branch or MAIN_BRANCH) if table else None
