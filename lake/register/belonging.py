"""Whether catalog and warehouse belong together.

The warehouse knows the catalog's identity (``.sluice/catalog.json``). A catalog that is another one, as after Postgres was emptied or
a DSN was mistyped, writes nothing until somebody says that it is meant (``CALL sys.claim_warehouse()``). The catalog knows its tables,
and the warehouse that was marked: another one without a mark is as little taken for the catalog's.
"""

from __future__ import annotations

import contextlib
import json
import logging
import threading
from collections.abc import Container
from uuid import UUID

from cachetools import TTLCache

from catalog import CatalogStore
from catalog.records import IdentityRow
from lake.register.restored.after_restore import unknown_tables
from model.catalog_errors import NewerCatalog, WarehouseMismatch
from model.errors import LakeError, Unavailable
from model.location import Location
from model.work.deciding import present_decider
from table.format.io.file_io import FileIO
from table.format.io.links import real
from table.format.store import TableFiles

_log = logging.getLogger(__name__)
MARKER = ".sluice/catalog.json"
_TOLD_SECONDS = 3600.0
"""The log tells of a thing once in so long."""
_MOST_TOLD = 10_000
_LOOKED_AT = 20
"""So many tables tell whether their disk is there."""
Marker = tuple[UUID | None, str]
"""The identity of a catalog that a warehouse knows, None where it knows none, and the revision."""
_CLAIM = "CALL sys.claim_warehouse()"


class Belonging:
    """What one server knows of it."""

    def __init__(self, catalog: CatalogStore, io: FileIO, warehouse: str) -> None:
        self._catalog = catalog
        self._io = io
        self._warehouse = warehouse
        self.known_revisions: Container[str] | None = None
        """The schemas of the catalog that this version knows; None where nobody said: then it knows them all."""
        self._newer: str | None = None
        """The revision of a catalog that this version does not know."""
        self._mismatch: str | None = None
        self._uncompared: str | None = None
        self._warning: str | None = None
        self._compared_with: Marker | None = None
        """What the warehouse knew when they were last compared; None where they never were, as in commands."""
        self._has_told = False
        """Whether the catalog was told of the marked warehouse since the server started."""
        self._told: TTLCache[str, None] = TTLCache(_MOST_TOLD, _TOLD_SECONDS)
        self._telling = threading.Lock()

    @property
    def mismatch(self) -> str | None:
        """Why nothing is written, where catalog and warehouse do not belong together."""
        return self._uncompared or self._mismatch

    @property
    def refusal(self) -> str | None:
        """Why nothing is written: a mismatch, or a catalog of a newer version."""
        return self.mismatch if self._newer is None else NewerCatalog(self._newer).message

    @property
    def warning(self) -> str | None:
        """What is strange about the catalog and stops nothing."""
        return self._warning

    def require_own(self) -> None:
        """Raise `WarehouseMismatch` where the warehouse is another catalog's, `NewerCatalog` where that is a newer version's.

        And `Unavailable` where a server could not compare them yet.
        """
        if self._newer is not None:
            raise NewerCatalog(self._newer)
        if self._uncompared is not None:
            raise Unavailable(self._uncompared)
        if self._mismatch is not None:
            raise WarehouseMismatch(self._mismatch)

    def require_own_now(self) -> None:
        """`require_own` by what the warehouse knows at this moment: what it costs is a read of a small file, where nothing has changed.

        For what makes or removes directories and schemas: since the last look another disk may have been mounted there, or none.
        """
        if self._compared_with is not None and self._marker() != self._compared_with:
            self.compare()
        self.require_own()

    def is_own_now(self) -> bool:
        """Whether the warehouse bears the catalog's mark at this moment; False also where it cannot be read."""
        try:
            with self._catalog.reading() as tx:
                ours = tx.state.identity().catalog_id
            return ours is not None and self._marker()[0] == ours
        except (LakeError, OSError):
            return False

    def compare_at_start(self) -> None:
        """`compare` for a server that starts; where that fails nothing is written or removed until the watch has compared them."""
        try:
            self.compare()
        except (LakeError, OSError) as problem:
            self._uncompared = (
                f"Whether the warehouse {self._warehouse} is the catalog's could not be told at the start: {problem} "
                "Nothing is written until it is; the server looks again every few seconds."
            )
            self.tell(self._uncompared)

    def compare(self, *, look_only: bool = False) -> None:
        """Hold the catalog's identity against the warehouse's; a warehouse without one gets it, unless only the warehouse holds tables.

        Or the catalog's is another, or bears its mark no more. With ``look_only`` nothing is written.
        """
        with self._catalog.reading() as tx:
            identity = tx.state.identity()
        ours, revision, has_tables = identity.catalog_id, identity.revision, identity.has_tables
        if self.known_revisions is not None and revision not in self.known_revisions:
            self._newer = revision
            self.tell(NewerCatalog(revision).message)
            return
        self._newer = None
        theirs, known_revision = known = self._marker()
        mismatch = warning = None
        if theirs is None and ours is not None:
            taken, mismatch, warning = self._of_unmarked(ours, identity, look_only=look_only)
            known = taken or known
        elif theirs != ours:
            mismatch = (
                f"The warehouse {self._warehouse} belongs to the catalog {theirs}, and Postgres holds "
                f"{'none' if ours is None else f'the catalog {ours}'}{'' if has_tables else ', which is empty'}. Nothing is written. Set "
                "SLUICE_CATALOG_DSN or SLUICE_WAREHOUSE to what belongs together, or run `sluice restore` with the newest backup; "
                f"{_CLAIM} makes the warehouse this catalog's."
            )
        elif ours is not None:
            mismatch = self._of_another_marked(ours, identity)
            if mismatch is None and known_revision != revision and not look_only:
                known = self._write_marker(ours, revision)
        for text in (mismatch, warning):
            if text is not None:
                self.tell(text)
        self._mismatch, self._warning = mismatch, warning
        self._uncompared = None
        self._compared_with = known
        if ours is not None and theirs == ours and mismatch is None and not look_only:
            with contextlib.suppress(LakeError, OSError):  # a standby, which cannot be told, learns it once it is none
                self._let_know(ours, identity.warehouse)

    def claim(self, *, dry_run: bool = False) -> UUID:
        """Make the warehouse the catalog's, whosever it was; returns the catalog's id."""
        with self._catalog.reading() as tx:
            identity = tx.state.identity()
        ours = identity.catalog_id
        if ours is None:
            raise WarehouseMismatch("Postgres holds no catalog with an identity: run `sluice restore` with the newest backup.")
        if self._newer is not None:
            raise NewerCatalog(self._newer)
        if not dry_run:
            present_decider().begin_decision()
            taken, elsewhere = self._take(ours, identity.revision, instead_of=identity.warehouse)
            if elsewhere is not None:  # of another server that claimed at the same time
                raise WarehouseMismatch(elsewhere)
            self._compared_with = taken
            self._mismatch = self._warning = self._uncompared = None
        return ours

    def _of_unmarked(self, ours: UUID, identity: IdentityRow, *, look_only: bool) -> tuple[Marker | None, str | None, str | None]:
        """What a warehouse without a mark is: the mark where it got one, what stops writing, and what is strange and stops nothing."""
        if identity.has_tables:
            mismatch, unknown = self._against_the_tables(identity.warehouse), None
        else:
            mismatch = self._elsewhere(identity.warehouse)
            unknown = None if mismatch else next(unknown_tables(self._io, self._warehouse, set()), None)
            if mismatch is None and unknown is None and identity.warehouse is not None:
                mismatch = self._without_its_mark()
        if unknown is not None:
            warning = (
                f"The catalog is empty and the warehouse {self._warehouse} holds tables ({unknown.table} is one). If Postgres was "
                "emptied, stop the server and run `sluice restore` with the newest backup; if not, "
                f"{unknown.statement} registers a table, and {_CLAIM} says that it is meant."
            )
            return None, None, warning
        if mismatch is not None or look_only:
            return None, mismatch, None
        return *self._take(ours, identity.revision, instead_of=identity.warehouse if identity.has_tables else None), None

    def _of_another_marked(self, ours: UUID, identity: IdentityRow) -> str | None:
        """Why a warehouse with the catalog's mark is not its own: the one that the catalog knows bears another such; None where it is.

        As where a first start in a mistyped one marked it and ended before the catalog knew it. What cannot be looked at is no other.
        """
        known = identity.warehouse
        if known is None or self._is_here(known):
            return None
        try:
            if not self._bears_mark(known, ours) or self._mark_file(known) == self._mark_file(self._warehouse):
                return None
        except (LakeError, OSError):
            return None
        return self._against_the_tables(known) if identity.has_tables else self._elsewhere(known)

    def _let_know(self, ours: UUID, known: str | None) -> None:
        """Let the catalog know the marked warehouse where it knows none, or one that was moved here with its mark.

        The latter once a server: two servers may see one warehouse in two places, as by two mounts, and would tell it in turns.
        """
        moved = known is not None and not self._has_told and not self._is_here(known) and not self._bears_mark(known, ours)
        if known is None or moved:
            with self._catalog.transaction(brief=True) as tx:
                tx.state.keep_warehouse(self._warehouse, instead_of=known)
        self._has_told = True

    def _bears_mark(self, warehouse: str, ours: UUID) -> bool:
        """Whether another warehouse bears the catalog's mark, as far as a store of this one's kind can tell."""
        here, there = Location.parse(self._warehouse), Location.parse(warehouse)
        return here.scheme == there.scheme and self._marker(warehouse)[0] == ours

    def _mark_file(self, warehouse: str) -> tuple[int, int] | None:
        """By what the file of the mark is told from another one: its size and time; None where there is none."""
        directory, _, name = f"{warehouse}/{MARKER}".rpartition("/")
        files = (file for file in self._io.list(directory) if file.path.endswith(f"/{name}"))
        return next(((file.size, file.mtime_millis) for file in files), None)

    def _take(self, ours: UUID, revision: str, *, instead_of: str | None) -> tuple[Marker | None, str | None]:
        """Mark the warehouse, and let the catalog know it, where it knows none or ``instead_of``; else why it is not the catalog's.

        Of servers that take several warehouses at once the first one's is the catalog's: the others wait until it is marked.
        """
        with self._catalog.beside_store() as tx:
            elsewhere = self._elsewhere(tx.state.keep_warehouse(self._warehouse, instead_of=instead_of))
            return None if elsewhere else self._write_marker(ours, revision), elsewhere

    def _elsewhere(self, known: str | None) -> str | None:
        """Why a warehouse without a mark is not the catalog's: another is ``known`` as that; None where it may be."""
        return None if known is None or self._is_here(known) else self._other_than(f"The catalog's warehouse is {known}")

    def _other_than(self, what: str) -> str:
        return (
            f"{what}, and this server has {self._warehouse}. Nothing is written. "
            f"Set SLUICE_WAREHOUSE to the catalog's, or SLUICE_CATALOG_DSN to the catalog of this one; {_CLAIM} says that it is meant."
        )

    def _without_its_mark(self) -> str | None:
        """Why the warehouse that was marked is not taken for it where no mark is; None where a torn one is, as after a loss of power."""
        if self._io.file_exists(f"{self._warehouse}/{MARKER}"):
            return None
        return (
            f"The warehouse {self._warehouse} has lost the catalog's mark ({MARKER}). Nothing is written. If its disk is not mounted, "
            f"mount it; if it was emptied, {_CLAIM} says that it is meant."
        )

    def _against_the_tables(self, marked: str | None) -> str | None:
        """Why a warehouse without a mark is not taken for the catalog's, as far as its tables tell; None where it is.

        Its own tables lie in the directories of its warehouse's databases: where most lie elsewhere, that is its warehouse, whatever
        lies here. Tables with a path and registered ones may lie anywhere; where there are no others, nothing unknown may lie here, and
        no other warehouse may have been ``marked``.
        """
        with self._catalog.reading() as tx:
            homes = tx.overview.homes()
            here = [home for home, _ in homes if self._is_here(home)]
            counts = sum(tables for home, tables in homes if home in here), sum(tables for _, tables in homes)
            rows = tx.overview.kept_in(here, limit=_LOOKED_AT) if homes else tx.overview.kept_below(f"{self._warehouse}/", limit=_LOOKED_AT)
            known = {row.location for row in tx.tables.all()} | {table.location for table in tx.drops.tables()} if not homes else set()
        if 2 * counts[0] < counts[1]:
            return self._other_than(f"The catalog's tables lie in the warehouse {homes[0][0]}")
        if not homes and (elsewhere := self._elsewhere(marked)) is not None:
            return elsewhere
        if self._holds(rows):
            if homes or rows or (unknown := next(unknown_tables(self._io, self._warehouse, known), None)) is None:
                return None
            return (
                f"The warehouse {self._warehouse} holds tables that the catalog does not know ({unknown.table} is one), and none of the "
                f"catalog's. Nothing is written. Set SLUICE_WAREHOUSE to the catalog's; {_CLAIM} says that it is meant."
            )
        return (
            f"The warehouse {self._warehouse} is empty, and the catalog holds tables. Nothing is written. If its disk is not "
            f"mounted, mount it; if its files are lost, bring them back from a copy; {_CLAIM} says that it is meant."
        )

    def _is_here(self, home: str) -> bool:
        """Whether a warehouse is this one, also by another spelling or a link."""
        return home == self._warehouse or real(Location.parse(home)) == real(Location.parse(self._warehouse))

    def _holds(self, locations: list[str]) -> bool:
        """Whether more than half of the tables have a schema there, the oldest first; where it is half of them the oldest decides.

        Not all, as one may have been lost; not one, which may have been made while a disk was away and nobody had noticed; and no
        directory tells it, as a commit on its way may have made one. Where there are none a database's directory does.
        """
        there = [bool(TableFiles(self._io, location).schema_ids()) for location in locations]
        if not locations:  # others keep nothing by which they are known
            return any(status.path.rstrip("/").endswith(".db") for status in self._io.list(self._warehouse))
        return 2 * sum(there) > len(locations) or (2 * sum(there) == len(locations) and there[0])

    def become(self) -> None:
        """Give the catalog the identity that the warehouse knows, where it knows one."""
        theirs, _ = self._marker()
        if theirs is not None:
            with self._catalog.transaction() as tx:
                tx.state.become(theirs)

    def _marker(self, warehouse: str | None = None) -> Marker:
        """The identity and revision the warehouse, or another one, knows; what is no marker, as after a loss of power, counts as none."""
        try:
            marker = json.loads(self._io.read(f"{warehouse or self._warehouse}/{MARKER}"))
            return UUID(marker["catalog"]), str(marker["revision"])
        except (FileNotFoundError, ValueError, KeyError, TypeError):
            return None, ""

    def _write_marker(self, catalog_id: UUID, revision: str) -> Marker:
        body = {"catalog": str(catalog_id), "revision": revision}
        self._io.write(f"{self._warehouse}/{MARKER}", json.dumps(body, indent=1).encode())
        return catalog_id, revision

    def tell(self, text: str, *, about: str | None = None) -> None:
        """Write a line of the log, once in an hour; of what it is about there is one line, however it is put."""
        key = about or text[:200]
        with self._telling:
            was_told = key in self._told
            if not was_told:
                self._told[key] = None
        if not was_told:
            _log.warning("%s", text)

    def tell_anew(self, about: str) -> None:
        """Let the next line of what it is about be written, however soon it comes."""
        with self._telling:
            self._told.pop(about, None)
