"""Damage of the catalog's own files, as Postgres meets it: which relation it is, and for how long it is remembered."""

from __future__ import annotations

import contextlib
import re
import threading
import time
from collections.abc import Iterator

import psycopg

from catalog.connection import connect
from model.catalog_errors import CatalogDamaged

_FILE = re.compile(r"(?:base|pg_tblspc/(?P<space>\d+)/[^/\s]+)/\d+/(?P<node>\d+)")
"""How Postgres names a relation's file, in every language it speaks."""
_DAMAGED = frozenset({"XX001", "XX002"})
_PERHAPS = frozenset({"XX000", "58P01"})
"""Codes of damage where a relation's file is named; an internal error says much else, and often passes."""
_TOLD_SECONDS = 600.0
"""So long damage is remembered of which nobody can tell whether it is still there."""
_PLACE = """
    SELECT c.oid::regclass::text, c.relkind = 'i'
    FROM pg_class c WHERE c.oid = pg_filenode_relation(%(space)s::oid, %(node)s::oid)
"""
_INDEX = "SELECT c.oid::regclass::text, c.relkind = 'i' FROM pg_class c WHERE c.relname = %(name)s AND c.relkind = 'i'"
_QUOTED = re.compile(r'["«„]([^"»“]+)["»“]')


def is_damage(problem: BaseException | None) -> bool:
    """Whether Postgres says that its own files are not as they should be."""
    if not isinstance(problem, psycopg.Error):
        return False
    code = problem.sqlstate or ""
    return code in _DAMAGED or (code in _PERHAPS and _FILE.search(str(problem)) is not None)


def damage_met(problem: BaseException | None, dsn: str | None = None) -> CatalogDamaged | None:
    """The damage that a failure comes from; None for other failures. With a ``dsn`` Postgres is asked for the relation's name."""
    while problem is not None and not is_damage(problem):
        problem = problem.__cause__
    if not isinstance(problem, psycopg.Error):
        return None
    if dsn is not None:
        with contextlib.suppress(psycopg.Error), connect(dsn) as conn:
            return damage_of(problem, conn)
    return damage_of(problem, None)


def damage_of(problem: psycopg.Error, conn: psycopg.Connection | None) -> CatalogDamaged:
    """What Postgres said, with the name of the relation where it can be found out on a connection."""
    said = " ".join((problem.diag.message_primary or str(problem)).split())
    relation = None
    if conn is not None:
        with contextlib.suppress(psycopg.Error):  # what knows the names may be damaged as well
            relation = _relation(conn, said)
    name, is_index = relation or (None, False)
    return CatalogDamaged(said, relation=name, is_index=is_index, code=problem.sqlstate or "")


def _relation(conn: psycopg.Connection, said: str) -> tuple[str, bool] | None:
    if file := _FILE.search(said):
        place = {"space": int(file["space"] or 0), "node": int(file["node"])}
        row = conn.execute(_PLACE, place).fetchone()
    else:  # what is wrong in an index is told by its name
        quoted = _QUOTED.search(said)
        row = conn.execute(_INDEX, {"name": quoted[1]}).fetchone() if quoted else None
    return None if row is None else (str(row[0]), bool(row[1]))


@contextlib.contextmanager
def telling_damage(dsn: str) -> Iterator[None]:
    """What is met in the block of damage is told as such, for who asks Postgres past a `CatalogStore`."""
    try:
        yield
    except psycopg.Error as problem:
        if (damage := damage_met(problem, dsn)) is not None:
            raise damage from problem
        raise


class RememberedDamage:
    """The damage this process has met, as long as the file it is in belongs to a relation; of no known file for some minutes."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._met: dict[str, tuple[CatalogDamaged, float]] = {}

    def note(self, damage: CatalogDamaged) -> None:
        """Remember it."""
        with self._lock:
            self._met[damage.said] = (damage, time.monotonic())

    def any(self) -> bool:
        """Whether there is some to look at."""
        return bool(self._met)

    def standing(self, conn: psycopg.Connection) -> CatalogDamaged | None:
        """Damage that is still there; what lay in a file that is nobody's by now (REINDEX, VACUUM FULL, TRUNCATE) is forgotten."""
        with self._lock:
            met = list(self._met.values())
        for damage, at in met:
            gone = time.monotonic() - at > _TOLD_SECONDS
            if damage.relation is not None and (file := _FILE.search(damage.said)) is not None:
                gone = _relation(conn, file[0]) is None
            if not gone:
                return damage
            with self._lock:
                self._met.pop(damage.said, None)
        return None
