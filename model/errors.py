"""Every deliberate failure, and the HTTP status it answers with.

Anything that is not a `LakeError` is a bug: it is logged in full and told as an internal error. "Try again" (`CommitConflict`), "come back
later" (`Unavailable`) and "nobody knows" (`OutcomeUnknown`) are different classes, because a caller must act differently on each.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import ClassVar

from model.damage import ways_out
from model.identifier import Identifier
from model.text.file_name import file_name, without_places
from model.text.sql_text import literal


class LakeError(Exception):
    """Base of all deliberate failures; anything else is a bug."""

    status: ClassVar[int] = 500
    error_class: ClassVar[str] = "LakeError"  # the name clients see; stable, in CamelCase
    statement_index: int | None = None
    """Which statement of a text failed, counted from 0; None outside texts."""
    completed: tuple[str, ...] = ()  # the statements of the same text that took effect before it
    line: int | None = None  # place in the text, 1-based, with ``column``, where it is known
    column: int | None = None
    fragment: str | None = None  # the words of the text the failure is about
    advised: bool = False  # whether the message tells a way out beyond what is wrong

    def __init_subclass__(cls, *, status: int | None = None) -> None:
        super().__init_subclass__()
        cls.error_class = cls.__name__
        if status is not None:
            cls.status = status

    def __init__(self, message: str, *, place: str | None = None) -> None:
        """``place`` is the whole path of the file that the message names; see `file_name`."""
        super().__init__(message)
        self.place, self._whole = place, message
        self.message = without_places(message)  # for whoever asked

    @property
    def whole(self) -> str:
        """The message with the whole path: for the log and for administrators."""
        if self.place is None:
            return self._whole
        name = re.compile(rf"(?<![\w/.-]){re.escape(file_name(self.place))}(?![\w/-])")
        return name.sub(lambda _: self.place or "", self._whole, count=1)

    def tell(self, more: str) -> None:
        """Add a way out that was not known where the error was raised."""
        self.advised = True
        self.message, self._whole = self.message + more, self._whole + more
        self.args = (self._whole,)


class ResourceError(LakeError):
    """A failure about one named thing; ``resource_type`` is the Paimon REST protocol's word for its kind."""

    resource_type: ClassVar[str] = "UNKNOWN"

    def __init__(self, message: str, *, resource_name: str) -> None:
        super().__init__(message)
        self.resource_name = resource_name


class NotExist(ResourceError, status=404):
    """Nothing of that name; ``table`` is the table it was looked for on."""

    def __init__(self, name: str, table: str | None = None) -> None:
        super().__init__(f"{self.resource_type.capitalize()} {name} does not exist{_on(table)}.", resource_name=name)


class AlreadyExist(ResourceError, status=409):
    """Something of that name is there; ``table`` is the table it is on."""

    def __init__(self, name: str, table: str | None = None) -> None:
        super().__init__(f"{self.resource_type.capitalize()} {name} already exists{_on(table)}.", resource_name=name)


def _on(table: str | None) -> str:
    return f" on table {table}" if table else ""


class DatabaseNotExist(NotExist):
    """No such database."""

    resource_type = "DATABASE"


class DatabaseAlreadyExist(AlreadyExist):
    """A database of that name exists."""

    resource_type = "DATABASE"


class DatabaseNotEmpty(ResourceError, status=409):
    """A database with tables is dropped only with CASCADE."""

    resource_type = "DATABASE"

    def __init__(self, name: str, tables: int, *, views: int = 0, functions: int = 0) -> None:
        counts = {"table": tables, "view": views, "function": functions}
        contents = " and ".join(f"{count} {kind}{'s' if count != 1 else ''}" for kind, count in counts.items() if count)
        super().__init__(f"Database {name} holds {contents or 'something'}; drop them first, or by SQL with CASCADE.", resource_name=name)


class TableNotExist(NotExist):
    """No such table."""

    resource_type = "TABLE"


class TableAlreadyExist(AlreadyExist):
    """A table of that name exists."""

    resource_type = "TABLE"


class TableDiverged(ResourceError, status=409):
    """A table's files are ahead of or other than the catalog; commits stop until it is repaired."""

    resource_type = "TABLE"

    def __init__(self, table: Identifier, *, path: str) -> None:
        super().__init__(
            f"Table {table} has a file this catalog did not decide: {file_name(path)}. Someone wrote past it, or it is older than the "
            f"warehouse. Nothing changed. CALL sys.repair_table({literal(table.of_file(path).written())}, true) tells more.",
            resource_name=str(table),
        )
        self.place = self.path = path


class TableDamaged(ResourceError, status=503):
    """What a table's metadata names is missing, cut off, changed, or lies where the table may not reach.

    Trying again does not help: the answer carries no Retry-After. Nothing of the table is removed by whoever meets it.
    """

    resource_type = "TABLE"
    logged, stays = False, True
    """Whether the log, which tells of a table once in an hour, has told of it; and whether it is met until somebody mends the table."""

    def __init__(self, table: str, *, file: str, problem: str, snapshot_id: int | None = None, way_out: str | None = None) -> None:
        at = "" if snapshot_id is None else f" (named by snapshot {snapshot_id})"
        name = "the table's name" if "/" in table else literal(table)  # by its directory is a table known where no catalog is asked
        self.check, rest = ways_out(name, file_name(file), problem, rest=way_out)
        super().__init__(
            f"Table {table} is damaged: {file_name(file)}{at} {problem}. {self.check} lists all damage of the table; "
            f"{f'{rest}, ' if rest else ''}a backup brings all of it back.",
            resource_name=table,
        )
        self.place, self.file, self.problem, self.snapshot_id, self.way_out = file, file, problem, snapshot_id, way_out


class ColumnNotExist(ResourceError, status=404):
    """No such column."""

    resource_type = "COLUMN"

    def __init__(self, column: str, table: str | None, *, nearest: str | None = None) -> None:
        hint = f" Did you mean {nearest}?" if nearest else ""
        super().__init__(f"Column {column} does not exist in {f'table {table}' if table else 'the table'}.{hint}", resource_name=column)


class ColumnAlreadyExist(ResourceError, status=409):
    """A column of that name exists."""

    resource_type = "COLUMN"

    def __init__(self, column: str, table: str) -> None:
        super().__init__(f"Column {column} already exists in table {table}.", resource_name=column)


class SnapshotNotExist(ResourceError, status=404):
    """The snapshot asked for was never made or has expired."""

    resource_type = "SNAPSHOT"


class TagNotExist(NotExist):
    """No such tag."""

    resource_type = "TAG"


class InvalidName(LakeError, status=400):
    """A name no table, column or database may have."""


class InvalidSchema(LakeError, status=400):
    """A schema no append table can have."""


class InvalidSchemaChange(LakeError, status=400):
    """An ALTER the table's rules forbid."""


class InvalidOption(LakeError, status=400):
    """An option with an unknown key, a bad value, or in the wrong place."""


class UnsupportedType(LakeError, status=400):
    """A type that cannot be held faithfully."""


class InvalidData(LakeError, status=400):
    """Rows that do not fit the table: NULL where it may not be, out of range, too long, corrupt."""


class SqlError(LakeError, status=400):
    """A statement that cannot be run as written, with its place in the text (1-based) where known."""

    def __init__(self, message: str, *, line: int | None = None, column: int | None = None, fragment: str | None = None) -> None:
        super().__init__(message)
        self.line = line
        self.column = column
        self.fragment = fragment


class SqlSyntaxError(SqlError, status=400):
    """The text does not parse."""


class UnsupportedStatement(SqlError, status=400):
    """A statement, clause or function Sluice refuses, by name."""


class InvalidParameter(SqlError, status=400):
    """A placeholder without a value, a value without a placeholder, or a value that does not fit."""


class AnalysisError(SqlError, status=400):
    """The statement parses but names or types in it do not fit."""


class ExecutionError(SqlError, status=400):
    """The statement failed while running because of its data (division by zero, bad cast, NULL into NOT NULL)."""

    sqlstate: str | None = None
    """The class of the failure by ISO 9075 where Spark tells that it lies in the values; None where that is not known."""


class StatementCanceled(LakeError, status=409):
    """The statement was canceled before it finished."""


class StatementTimeout(LakeError, status=408):
    """The statement ran longer than its limit."""


class TooManyStatements(LakeError, status=429):
    """The queue of waiting statements is full."""


class QuotaExceeded(TooManyStatements, status=429):
    """The caller has as much of something as its quota lets."""

    def __init__(self, quota: str, message: str) -> None:
        super().__init__(message)
        self.quota = quota


class StatementTooLarge(LakeError, status=413):
    """The statement's text or body is larger than the server reads."""


class OutOfMemory(LakeError, status=507):
    """A statement needed more memory than Spark has."""

    own = False  # whether surely it did itself, whatever else ran there


class ResultTooLarge(LakeError, status=507):
    """A result grew past the spool's cap."""


class SessionNotExist(LakeError, status=404):
    """Unknown, closed or expired session."""


class OperationNotExist(LakeError, status=404):
    """Unknown or closed operation."""


class IllegalMove(LakeError, status=409):
    """An operation was asked to enter a state its present one does not lead to."""


class InvalidToken(LakeError, status=400):
    """A result token that was never handed out."""


class CommitConflict(ResourceError, status=409):
    """Another writer moved the snapshot pointer first; reread and retry."""

    resource_type = "SNAPSHOT"

    def __init__(self, table: str, *, expected: str | None) -> None:
        super().__init__(f"{table} no longer points at snapshot {expected}.", resource_name=table)
        self.expected = expected


class ConsumerTaken(ResourceError, status=409):
    """Another stream reads under this consumer's name by now, or its progress was reset."""

    resource_type = "CONSUMER"

    def __init__(self, name: str, table: str) -> None:
        super().__init__(
            f"Consumer {name} of table {table} goes on elsewhere: another stream was started under this name, or its progress was reset.",
            resource_name=name,
        )


class JobNotExist(LakeError, status=404):
    """No such job."""

    def __init__(self, job: str) -> None:
        super().__init__(f"There is no job {job}; SHOW JOBS lists those there are.")


class JobLeaseLost(LakeError, status=409):
    """Another server runs the job by now, or has committed the batch; nothing was committed."""

    def __init__(self, job: str) -> None:
        super().__init__(f"Job {job} is run by another server by now; nothing was committed here.")


class JobCheckpointDamaged(LakeError, status=503):
    """A job's checkpoint and the catalog tell of different batches, and the catalog alone does not hold enough to go on from."""


class StreamEnded(LakeError, status=503):
    """The server ends a stream because it stops."""


class StreamChanged(ResourceError, status=409):
    """A column a stream shows has another type by now."""

    resource_type = "TABLE"

    def __init__(self, table: str, *, column: str, was: str, now: str) -> None:
        super().__init__(
            f"Column {column} of table {table} was {was} when the stream began and is {now} by now. Start the stream again.",
            resource_name=table,
        )


class RewriteConflict(ResourceError, status=409):
    """A rewrite (overwrite, compaction) lost: files it replaces are gone. Nothing was changed; plan it anew."""

    resource_type = "TABLE"


class IdempotencyMismatch(LakeError, status=422):
    """The idempotency key was used before with another body."""


class IdempotencyInProgress(LakeError, status=409):
    """The statement under this idempotency key is still running."""


class Unavailable(LakeError, status=503):
    """A part the request needs (Postgres, Spark, the warehouse) is away; try again later."""


class StorageFull(LakeError, status=507):
    """The file system has no space. It does not say whether something was committed: whoever raises it cannot know."""


class OutcomeUnknown(LakeError, status=503):
    """The answer to a commit was lost: it may or may not have happened. Never clean up after this."""

    repeatable = ended = False  # whether the same request, sent again, is known for the one that was done; or does the rest of it


class NotAuthorized(LakeError, status=401):
    """No token, or one the server does not know."""


class Forbidden(LakeError, status=403):
    """The caller may not do this."""


class InvalidGrant(LakeError, status=400):
    """A grant, role, token or policy that cannot be."""


class AccessNotExist(LakeError, status=404):
    """No such token, role, grant or policy."""


class AccessAlreadyExist(LakeError, status=409):
    """A token, role or policy of that name exists."""


class NotAcceptable(LakeError, status=406):
    """None of the formats the client accepts can be produced."""


class UnsupportedMediaType(LakeError, status=415):
    """A body in a format that is not read here."""


class BadRequest(LakeError, status=400):
    """A malformed request."""


class NotImplementedHere(LakeError, status=501):
    """A part of a protocol this server does not have; clients fall back where they can."""


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name closest to a misspelt one, or None where nothing is close."""
    from difflib import get_close_matches

    return next(iter(get_close_matches(name, list(known), n=1, cutoff=0.6)), None)
