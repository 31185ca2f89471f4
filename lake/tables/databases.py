"""Databases: made, changed, listed and dropped with all that is in them; the names of their tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from catalog import CatalogTransaction
from catalog.listing import EVERYTHING, Slice
from catalog.objects.databases import COMMENT
from catalog.records import DatabaseRow
from lake.access.callers import Caller
from lake.access.guard import asks_itself, needs, the_catalog
from lake.base import LakeBase, seen
from lake.commit.claims import Claim, claimed_in
from model.access import Access, database_resource, inside, table_resource
from model.errors import DatabaseAlreadyExist
from model.identifier import Identifier
from model.names import check_name
from model.options.masking import unmasked
from model.schema.lengths import check_comment, check_option_lengths


class LakeDatabases(LakeBase):
    """The databases of a catalog."""

    @asks_itself
    def list_databases(self, wanted: Slice = EVERYTHING) -> list[str]:
        """The names of those wanted that the caller may see, in code-point order."""
        with self.catalog.reading() as tx:
            return seen(tx.databases.names, str, self.caller.sees_database, wanted, all_=self.caller.administrator)

    @asks_itself
    def database(self, name: str) -> DatabaseRow:
        """One database; raises `DatabaseNotExist`."""
        self.caller.require_sight_of_database(name)
        with self.catalog.reading() as tx:
            return tx.databases.get(name)

    @needs(Access.CREATEDATABASE, the_catalog)
    def create_database(
        self,
        name: str,
        *,
        options: Mapping[str, str] | None = None,
        comment: str | None = None,
        if_not_exists: bool = False,
        claim: Claim | None = None,
    ) -> bool:
        """Add a database, once under a claim; False when it exists and that is fine. Its comment may be among the options."""
        check_name(name, "database")
        check_option_lengths(options or {})
        stored = unmasked(options or {}, {})
        among = stored.pop(COMMENT, None)
        comment = among if comment is None else comment
        check_comment(comment, f"database {name}")
        try:
            with self.catalog.transaction() as tx, claimed_in(tx, claim):
                tx.databases.create(name, comment=comment, options=stored, by=self.caller.principal)
                owned = self._own(tx, database_resource(name), inside(name))
        except DatabaseAlreadyExist:
            if not if_not_exists:
                raise
            return False
        self._owns(owned)
        return True

    @needs(Access.ALTER)
    def alter_database(
        self, name: str, *, set_options: Mapping[str, str], remove: Iterable[str] = (), claim: Claim | None = None
    ) -> tuple[list[str], list[str]]:
        """Change a database's options and, as one of them, its comment, once under a claim.

        Returns which of those to remove were there and which were not.
        """
        check_option_lengths(set_options)
        check_comment(set_options.get(COMMENT), f"database {name}")
        with self.catalog.transaction() as tx, claimed_in(tx, claim):
            row = tx.databases.lock(name)
            options = {**row.options} | ({COMMENT: row.comment} if row.comment is not None else {})
            stored = unmasked(set_options, options)
            removed = [key for key in remove if options.pop(key, None) is not None]
            changed = options | stored
            comment = changed.pop(COMMENT, None)
            tx.databases.change(name, comment=comment, options=changed, by=self.caller.principal)
        return removed, [key for key in remove if key not in removed]

    @asks_itself
    def list_tables(self, database: str, wanted: Slice = EVERYTHING, *, type_: str | None = None, but_type: str | None = None) -> list[str]:
        """The names of a database's tables the caller may see, in code-point order; raises `DatabaseNotExist`."""
        self.caller.require_sight_of_database(database)
        with self.catalog.reading() as tx:
            names = seen(
                lambda part: tx.tables.names(database, part, type_=type_, but_type=but_type),
                str,
                lambda name: self.caller.lists(table_resource(Identifier(database, name))),
                wanted,
                all_=self.caller.administrator,
            )
            if not names:
                tx.databases.get(database)
            return names

    @asks_itself
    def tables_everywhere(
        self, *, databases: str | None, names: str | None, after: tuple[str, str] | None, limit: int, but_type: str | None = None
    ) -> list[tuple[str, str]]:
        """Database and name of tables in all databases that the caller may see; see `TableRepository.everywhere`."""
        pairs: list[tuple[str, str]] = []
        with self.catalog.reading() as tx:
            while len(pairs) < limit:
                page = tx.tables.everywhere(databases=databases, tables=names, after=after, limit=limit, but_type=but_type)
                pairs += [pair for pair in page if self.caller.administrator or self.caller.lists(table_resource(Identifier(*pair)))]
                if len(page) < limit:
                    break
                after = page[-1]
        return pairs[:limit]


def shows_a_table(caller: Caller, tx: CatalogTransaction, database: str, *, but_type: str) -> bool:
    """Whether the caller's list of a database's tables, without those of a kind, shows one."""
    names = tx.tables.names(database, but_type=but_type)
    return any(caller.administrator or caller.lists(table_resource(Identifier(database, name))) for name in names)
