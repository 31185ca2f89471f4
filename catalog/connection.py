"""A connection on which what nobody waits for travels with what is waited for next: each round trip costs the way to Postgres.

BEGIN goes with a transaction's first statement, savepoints with the statements they guard, and what is sent `later` with the next one
or with COMMIT. Statements reach Postgres in their order, and an error comes out at the first that is waited for.

A pooler in transaction mode gives each transaction whichever connection to Postgres is free. Nothing that is set for a session holds
there, and nothing that is prepared: `PooledConnection` sets its limits in each transaction anew, in the round trip of its first statement.
"""

from __future__ import annotations

import contextlib
import select
import time
from collections.abc import Iterable, Iterator
from typing import Any, ClassVar, Self

import psycopg
from psycopg import Connection, Cursor
from psycopg.abc import Params
from psycopg.abc import QueryNoTemplate as Query
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.pq import Conninfo, TransactionStatus
from psycopg.rows import Row

Owed = tuple[Query, Params | None, Cursor[Any] | None]
"""A statement, and the cursor that gets its result where somebody looks at it."""

STATEMENT_TIMEOUT_MILLIS, LOCK_TIMEOUT_MILLIS = 60_000, 20_000
"""How long a statement, and its wait for a lock, may take."""
SILENCE_MILLIS, BRIEF_SILENCE_MILLIS = 300_000, 15_000
"""For so long a transaction may be silent, and one in which nothing is done but in Postgres: then Postgres ends it, and its locks with it.
A server that stands still would keep them for as long as it does. The latter is less than others wait for a lock."""
STORE_SILENCE_MILLIS = 3_600_000
"""The same while a transaction waits for work in the store of which nobody knows how much it is (`CatalogTransaction.allow_silence`)."""
COMMAND_SECONDS = 10
"""How long a command tries to connect."""
_NOTICED = {"keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 3, "tcp_user_timeout": 20_000}
"""A machine that is gone without a word (power, network, failover) is noticed in 25 seconds, and in 20 where something was sent to it:
the system's own limits are two hours, and a quarter of an hour."""
_NOTICED_BY_POSTGRES: dict[str, int] = {
    "tcp_keepalives_idle": 10, "tcp_keepalives_interval": 5, "tcp_keepalives_count": 3, "tcp_user_timeout": 20_000
}  # fmt: skip
"""The same of a client's machine: Postgres keeps the locks of one that is gone until it notices."""
SILENCE = "idle_in_transaction_session_timeout"
ENDED_BY_POSTGRES = (psycopg.errors.IdleInTransactionSessionTimeout, psycopg.errors.TransactionTimeout)
"""Postgres ends a transaction that is silent or open for too long, with its connection: nothing of it happened."""


class CatalogConnection(Connection[Row]):
    """A connection to the catalog, which owes Postgres what was put off; in one thread at a time."""

    opening: ClassVar[tuple[tuple[Query, Params | None], ...]] = ()
    """What each transaction begins with."""
    local_limits: ClassVar[str] = ""
    """Begins a transaction whose text is written out (`catalog.commits.reservations`)."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.cursor_factory = CatalogCursor
        self.made_at = time.monotonic()
        self._owed: list[Owed] = []
        self._opened: list[Owed] = []
        """What is owed of a transaction that has done nothing yet."""
        self._begun = False
        self._savepoints = 0

    def begin(self, *, one_moment: bool = False, brief: bool = False) -> None:
        """Begin a transaction, with its first statement; one without any never reaches Postgres.

        With ``one_moment`` it changes nothing, and all its statements see the same. `opening` may hold a query, so BEGIN says it.
        A ``brief`` one does nothing but in Postgres, which ends it soon where it is silent.
        """
        began = "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY" if one_moment else "BEGIN"
        self._opened = [(began, None, None), *self._openings()]
        if brief:
            self._opened.append((f"SET LOCAL {SILENCE} = {BRIEF_SILENCE_MILLIS}".encode(), None, None))
        self._owed = [*self._opened]
        self._begun = True

    @staticmethod
    def silence_seconds() -> float:
        """How long a transaction may be silent that is not brief."""
        return SILENCE_MILLIS / 1000

    def _openings(self) -> list[Owed]:
        return [(query, params, None) for query, params in self.opening]

    def went_on(self) -> None:
        """A transaction was begun on this connection by a statement of its owner."""
        self._owed = []
        self._begun = True

    def finish(self) -> None:
        """Commit, with what is owed; raises what that raises, and where Postgres rolled back."""
        owed, self._begun = self._owed, False
        if owed and owed == self._opened:
            self._owed = []
            return
        said = self.execute("COMMIT").statusmessage
        if said != "COMMIT":  # a statement failed, and somebody went on
            raise psycopg.errors.InFailedSqlTransaction(f"COMMIT was answered with {said}")

    def forsake(self) -> None:
        """Roll back; what is owed is never sent."""
        self._owed = []
        self._begun = False
        if not self.closed and self.info.transaction_status != TransactionStatus.IDLE:
            with contextlib.suppress(psycopg.Error):  # a connection that broke; the pool makes another
                self.rollback()

    def something_came(self) -> bool:
        """Whether there is anything to be read though nothing is waited for: the connection's end, as a rule."""
        look = select.poll()
        look.register(self.fileno(), select.POLLIN)
        return bool(look.poll(0))

    def later(self, query: Query, params: Params | None = None) -> None:
        """Send a statement with the next one, or with COMMIT: for what has no result, and fails only where the transaction is to fail."""
        if self._begun:
            self._owed.append((query, params, None))
        else:
            self.execute(query, params)

    def ahead(self, query: Query, params: Params | None = None) -> Cursor[Any]:
        """Send a query with the next statement, which must follow; its result is there once that one's is."""
        made: Cursor[Any] = Cursor(self)
        if not self._begun and not self._owed:
            self._owed = self._openings()
        self._owed.append((query, params, made))
        return made

    @contextlib.contextmanager
    def together(self) -> Iterator[None]:
        """What is owed and what the block executes reach Postgres in one round trip; results are there once it ends."""
        owed, self._owed = self._owed, []
        if self.info.transaction_status == TransactionStatus.INTRANS and self.something_came():
            Cursor(self).execute("SELECT 1")  # raises why Postgres ended it: several statements at once would only tell a lost connection
        try:
            with self.pipeline():
                for query, params, cursor in owed:
                    (Cursor(self) if cursor is None else cursor).execute(query, params)
                yield
        except psycopg.errors.PipelineAborted as aborted:  # told of the statements after the one that failed, which is behind it
            raise _first(aborted) from None

    @contextlib.contextmanager
    def at_once(self) -> Iterator[None]:
        """What the block executes is committed in one round trip, as a transaction of its own or the end of the one that is open."""
        if self.info.transaction_status == TransactionStatus.IDLE:
            self.begin()
        try:
            with self.together():
                yield
                self.execute("COMMIT")
        finally:
            self.forsake()

    @contextlib.contextmanager
    def sending_owed(self) -> Iterator[None]:
        """`together`, where there is something that is owed."""
        if self.opening and not self._owed and not self._begun and self.info.transaction_status == TransactionStatus.IDLE:
            self._owed = self._openings()  # one round trip of extended queries is one transaction
        if self._owed:
            with self.together():
                yield
        else:
            yield

    @contextlib.contextmanager
    def transaction(self, savepoint_name: str | None = None, force_rollback: bool = False) -> Iterator[Any]:
        """A part of the transaction that can fail by itself; its savepoint costs no round trip, unless it fails."""
        if not self._begun or savepoint_name or force_rollback:
            with super().transaction(savepoint_name, force_rollback) as made:
                for query, params in self.opening:
                    Cursor(self).execute(query, params)
                yield made
            return
        self._savepoints += 1
        name = f"part_{self._savepoints}"
        mark: Owed = (f"SAVEPOINT {name}", None, None)
        self._owed.append(mark)
        try:
            yield None
        except BaseException:
            if mark in self._owed:  # it was never sent
                del self._owed[self._owed.index(mark) :]
            elif not self.closed and self.info.transaction_status != TransactionStatus.IDLE:
                self._owed = []
                self.execute(f"ROLLBACK TO SAVEPOINT {name}".encode())
            raise
        self.later(f"RELEASE SAVEPOINT {name}".encode())


class PooledConnection(CatalogConnection[Row]):
    """A connection through a pooler in transaction mode; made with ``prepare_threshold=None``."""

    opening = (
        (
            f"SELECT set_config('statement_timeout', '{STATEMENT_TIMEOUT_MILLIS}', true), "
            f"set_config('lock_timeout', '{LOCK_TIMEOUT_MILLIS}', true), set_config('{SILENCE}', '{SILENCE_MILLIS}', true)",
            None,
        ),
    )
    local_limits = f"SET LOCAL statement_timeout = {STATEMENT_TIMEOUT_MILLIS}; "


def noticing_loss(dsn: str, *, connect_timeout: int) -> dict[str, Any]:
    """What a connection is made with so that it notices a machine that is gone, but for what the DSN says itself."""
    try:
        said = conninfo_to_dict(dsn)
    except psycopg.ProgrammingError:  # it is told when it is used
        return {}
    return {name: value for name, value in {"connect_timeout": connect_timeout, **_NOTICED}.items() if name not in said}


def noticing_dsn(dsn: str) -> str:
    """A DSN for who connects past this module (`migrations`), whose connections notice a machine that is gone."""
    made = noticing_loss(dsn, connect_timeout=COMMAND_SECONDS)
    return make_conninfo(dsn, **made) if made else dsn


def limiting_options(dsn: str) -> str:
    """The start-up options of a server's connections: its limits of time, then those of the DSN or of PGOPTIONS, as the last one counts."""
    try:
        theirs = conninfo_to_dict(dsn).get("options")
    except psycopg.ProgrammingError:  # it is told when it is used
        theirs = None
    if theirs is None:
        theirs = next((one.val.decode() for one in Conninfo.get_defaults() if one.keyword == b"options" and one.val), "")
    limits = {"statement_timeout": STATEMENT_TIMEOUT_MILLIS, "lock_timeout": LOCK_TIMEOUT_MILLIS, SILENCE: SILENCE_MILLIS}
    ours = " ".join(f"-c {name}={value}" for name, value in (limits | _NOTICED_BY_POSTGRES).items())
    return f"{ours} {theirs}".rstrip()


def notice_this_machine(conn: Connection) -> None:
    """Let Postgres notice within 25 seconds that this machine is gone, until the connection's transaction ends."""
    conn.execute("SELECT " + ", ".join(f"set_config('{name}', '{value}', true)" for name, value in _NOTICED_BY_POSTGRES.items()))


def connect(dsn: str, *, application_name: str | None = None) -> Connection:
    """A connection of a command's, in autocommit; a pooler may be there, which bears nothing prepared."""
    noticing = noticing_loss(dsn, connect_timeout=COMMAND_SECONDS)
    return psycopg.connect(dsn, autocommit=True, prepare_threshold=None, application_name=application_name, **noticing)


class CatalogCursor(Cursor[Row]):
    """Executes statements behind those that its connection owes."""

    def execute(self, query: Any, params: Any = None, **more: Any) -> Self:
        with _of(self).sending_owed():
            super().execute(query, params, **more)
        return self

    def executemany(self, query: Any, params_seq: Iterable[Any], **more: Any) -> None:
        with _of(self).sending_owed():
            super().executemany(query, params_seq, **more)

    @contextlib.contextmanager
    def copy(self, *args: Any, **more: Any) -> Iterator[Any]:
        with _of(self).sending_owed():  # a COPY cannot be sent with others
            pass
        with super().copy(*args, **more) as made:
            yield made


def _of(cursor: Cursor[Any]) -> CatalogConnection[Any]:
    connection = cursor.connection
    assert isinstance(connection, CatalogConnection)
    return connection


def _first(problem: BaseException) -> BaseException:
    """The error behind those that only say that one came before."""
    cause: BaseException | None = problem
    while isinstance(cause, psycopg.errors.PipelineAborted):
        cause = cause.__context__
    return cause if isinstance(cause, psycopg.Error) else problem
