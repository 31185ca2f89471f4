"""Failures of the catalog's database, and about what it names besides databases and tables, its servers among them.

The protocol's word for each kind of resource is its ``resource_type``.
"""

from __future__ import annotations

from model.errors import (
    AlreadyExist,
    CommitConflict,
    IdempotencyInProgress,
    LakeError,
    NotExist,
    ResourceError,
    RewriteConflict,
    Unavailable,
)


class TagAlreadyExist(AlreadyExist):
    """A tag of that name exists."""

    resource_type = "TAG"


class BranchNotExist(NotExist):
    """No such branch."""

    resource_type = "BRANCH"


class BranchAlreadyExist(AlreadyExist):
    """A branch of that name exists."""

    resource_type = "BRANCH"


class DropNotExist(ResourceError, status=404):
    """Nothing of that name was dropped, or it is removed for good by now."""

    resource_type = "DROP"

    def __init__(self, what: str, drop_id: int | None = None) -> None:
        which = f"no drop {drop_id} of {what}" if drop_id is not None else f"no dropped {what}"
        super().__init__(
            f"There is {which} that can be brought back. SHOW DROPPED TABLES and SHOW DROPPED DATABASES list what can be; what was "
            "dropped longer ago than drop.retention, or with PURGE, is removed for good.",
            resource_name=what.partition(" ")[2],
        )


class PartitionAlreadyExist(AlreadyExist):
    """A partition of that name exists; none of the request's was made."""

    resource_type = "PARTITION"


class PartitionNotExist(NotExist):
    """No such partition."""

    resource_type = "PARTITION"


class ViewNotExist(NotExist):
    """No such view."""

    resource_type = "VIEW"


class ViewAlreadyExist(AlreadyExist):
    """A view of that name exists."""

    resource_type = "VIEW"


class DialectNotExist(ResourceError, status=404):
    """The view has no query in that dialect."""

    resource_type = "DIALECT"

    def __init__(self, dialect: str, view: str) -> None:
        super().__init__(f"View {view} has no query in the dialect {dialect}.", resource_name=dialect)


class DialectAlreadyExist(ResourceError, status=409):
    """The view has a query in that dialect."""

    resource_type = "DIALECT"

    def __init__(self, dialect: str, view: str) -> None:
        super().__init__(f"View {view} has a query in the dialect {dialect} already; update it instead.", resource_name=dialect)


class FunctionNotExist(NotExist):
    """No such function."""

    resource_type = "FUNCTION"


class FunctionAlreadyExist(AlreadyExist):
    """A function of that name exists."""

    resource_type = "FUNCTION"


class DefinitionNotExist(ResourceError, status=404):
    """The function has no definition of that name."""

    resource_type = "DEFINITION"

    def __init__(self, definition: str, function: str) -> None:
        super().__init__(f"Function {function} has no definition {definition}.", resource_name=definition)


class DefinitionAlreadyExist(ResourceError, status=409):
    """The function has a definition of that name."""

    resource_type = "DEFINITION"

    def __init__(self, definition: str, function: str) -> None:
        super().__init__(f"Function {function} has a definition {definition} already; update it instead.", resource_name=definition)


class InvalidCommit(LakeError, status=400):
    """A client's commit that can never be taken, with the reason; nothing was changed."""


class StaleRollback(ResourceError, status=500):
    """The table was written after the client looked; nothing was rolled back. The protocol wants a 500 with these words."""

    resource_type = "SNAPSHOT"

    def __init__(self, latest: int | None, expected: int) -> None:
        super().__init__(f"Latest snapshot {latest} is not {expected}", resource_name=str(expected))


class SchemaStillUsed(ResourceError, status=500):
    """A schema cannot go while snapshots or tags were written with it; the protocol wants a 500."""

    resource_type = "TABLE"


class MetadataOnlyTable(ResourceError, status=400):
    """A table whose rows are not kept here: other engines' kinds, and tables with a connector."""

    resource_type = "TABLE"

    def __init__(self, name: str, kind: str) -> None:
        super().__init__(
            f"Table {name} is a {kind}: its description is kept here, and its rows lie elsewhere; this needs rows that are kept here.",
            resource_name=name,
        )
        self.kind = kind


class WarehouseNotExist(ResourceError, status=404):
    """A client asked for another catalog than the one there is."""


class ClockInDoubt(LakeError, status=409):
    """The time cannot be believed now, so nothing expires by age."""


class BackupRunning(LakeError, status=409):
    """A backup names files that would go; nothing is removed until it has ended."""

    def __init__(self, doing: str, *, since: str | None) -> None:
        began = "" if since is None else f", which began at {since},"
        super().__init__(
            f"{doing} would take away what the backup{began} may still have to copy. Nothing was changed; it can be done once "
            "`sluice backup` has ended."
        )


class WarehouseMismatch(LakeError, status=409):
    """The catalog and the warehouse do not belong together; nothing is written until they do."""


class NewerCatalog(Unavailable):
    """A newer version brought the catalog to a schema this server does not know, while it ran; it writes nothing from then on."""

    def __init__(self, revision: str) -> None:
        super().__init__(
            f"The catalog's schema is {revision} by now, which this server does not know: a newer Sluice brought it there. Nothing was "
            "changed, and nothing is written here any more; reads go on. Restart this server with the version of that schema, or newer."
        )


class CatalogLost(Unavailable):
    """Postgres answers and holds no catalog any more: it was emptied or replaced under the server."""

    def __init__(self) -> None:
        super().__init__(
            "The catalog database answers, but holds no catalog: it was emptied, or another one was put in its place. Nothing was changed. "
            "Stop the server, run `sluice restore` with the newest backup, or set SLUICE_CATALOG_DSN to the right database."
        )


class CatalogDamaged(Unavailable):
    """Postgres cannot read files of its own that hold the catalog; trying again does not help."""

    def __init__(self, said: str, *, relation: str | None, is_index: bool = False, code: str = "") -> None:
        self.said, self.relation = said, relation
        what = "The catalog database" if relation is None else f"The catalog's {'index' if is_index else 'table'} {relation}"
        way_out = f"REINDEX INDEX {relation} in the catalog's database makes it anew. Else stop" if is_index else "Stop"
        super().__init__(
            f"{what} is damaged: Postgres says {said!r}{f' ({code})' if code else ''}. Nothing was changed; trying again does not help. "
            f"{way_out} the server, keep a copy of Postgres's directory, check its disk, and run `sluice restore --replace` with the "
            "newest backup."
        )


class CatalogFull(Unavailable, status=507):
    """The catalog's database has no space left to write."""

    def __init__(self) -> None:
        super().__init__(
            "The catalog database has no space left (53100). Nothing was changed. "
            "Free space where Postgres keeps its data; writing goes on by itself then."
        )


class ServerGone(LakeError, status=410):
    """The server that knew the statement or session is gone, and with it what it held."""

    def __init__(self, what: str, server: str) -> None:
        super().__init__(
            f"{what} was known to the server {server} alone, which is gone. Begin anew; what was sent under an Idempotency-Key "
            "may be repeated under it."
        )


class TableChanged(Unavailable):
    """A table is not any more what it was when its rows were written, and nothing was committed."""

    def __init__(self, table: object) -> None:
        super().__init__(f"{table} was changed while rows were being written; nothing was committed, repeat it.")


class JobTableReplaced(ResourceError, status=409):
    """The name of a table a job reads or writes to is another table's by now, of which it takes no rows and to which it gives none."""

    resource_type = "TABLE"

    def __init__(self, table: object, does: str) -> None:
        super().__init__(
            f"Table {table} is another one than the job {does}, which was dropped or renamed since. Nothing was written. Bring that one "
            "back under its name (UNDROP TABLE, ALTER TABLE … RENAME TO) and ALTER JOB … RESTART, or start the INSERT as a new job.",
            resource_name=str(table),
        )


class IdempotencyKeyTaken(IdempotencyInProgress):
    """The key of work that was to be decided is somebody else's: what became of it tells who asks again."""


class TurnLost(CommitConflict):
    """A writer's turn went to others before it decided; nothing of it happened, and it stands in line anew."""

    def __init__(self, places: str) -> None:
        super().__init__(places, expected=None)


class ChangedMeanwhile(RewriteConflict):
    """What a request looked at became another before it was decided. Nothing was changed; the same request may do, sent again."""
