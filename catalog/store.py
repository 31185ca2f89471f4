"""The pool, the transaction, and what it means when Postgres is away."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from weakref import WeakKeyDictionary

import psycopg
from psycopg_pool import ConnectionPool, PoolTimeout

from catalog.access.audit import AuditRepository
from catalog.access.grants import GrantRepository, PolicyRepository
from catalog.access.logins import LoginRepository
from catalog.access.principals import RoleRepository, TokenRepository
from catalog.access.quotas import QuotaRepository
from catalog.away import away, is_lost, read_only, unfit
from catalog.backup.holds import HoldRepository
from catalog.beside_store import StorePlaces
from catalog.browse import BrowseRepository
from catalog.commits.decisions import DecisionRepository
from catalog.commits.idempotency import IdempotencyRepository
from catalog.commits.reservations import Place, Turn, TurnRepository, in_order
from catalog.connection import (
    ENDED_BY_POSTGRES,
    SILENCE,
    STORE_SILENCE_MILLIS,
    CatalogConnection,
    PooledConnection,
    limiting_options,
    noticing_loss,
)
from catalog.damage import RememberedDamage, damage_of, is_damage
from catalog.notices import Notices
from catalog.objects.branches import BranchRepository, StaleFileRepository
from catalog.objects.databases import DatabaseRepository
from catalog.objects.directories import DirectoryRepository
from catalog.objects.drops import DropRepository
from catalog.objects.partitions import PartitionRepository
from catalog.objects.publications import PublicationRepository
from catalog.objects.snapshots import SnapshotRepository
from catalog.objects.tables import TableRepository
from catalog.objects.tags import TagRepository
from catalog.objects.views_and_functions import NamedRepository
from catalog.overview import OverviewRepository
from catalog.refusals import Refusals
from catalog.renewals import Pool, Renewals
from catalog.state import StateRepository
from catalog.work.jobs import JobRepository
from catalog.work.maintenance import CompactionRunRepository, LeaseRepository
from catalog.work.servers import ServerRepository
from catalog.work.streams import ConsumerRepository
from model.catalog_errors import CatalogLost, FunctionAlreadyExist, ViewAlreadyExist
from model.errors import OutcomeUnknown

APPLICATION = "sluice"
"""What a server calls its connections, so that others see that one is running."""
POOLED_APPLICATION = "sluice-pooled"
"""The same through a pooler, whose connections to Postgres bear the name long after the server has gone."""

WAIT_SECONDS = 4.0
"""How long a request waits for a connection before it says that Postgres is away."""
HOPELESS_SECONDS = 0.25
"""The same after a wait that was in vain, as long as no connection can be made: a request asks several times, and waits once."""
PING_SECONDS = 1.0
"""The same for who only asks whether Postgres answers, once no connection can be made."""

TRUSTED_SECONDS = 60.0
"""For so long a connection that worked is not asked again whether it still does, while it is silent."""

TURN_CONNECTIONS = 8
"""For turns (`catalog.commits.reservations`), besides the others; there only while several writers write a table."""
OWN_CONNECTIONS = 2
"""For what must not wait for slow statements: signs of life, leases, and whether Postgres answers (`CatalogStore.own`)."""
_OWN_SHARE = 0.25
"""Of a wait for one of them; for the rest one of the statements' is taken, too."""
TURN_IDLE_SECONDS = 30.0
_THROUGH_A_POOLER = {"application_name": POOLED_APPLICATION, "prepare_threshold": None}
"""A pooler refuses start-up options, and what is prepared on one connection to Postgres is not there on the next."""


class CatalogTransaction:
    """One transaction's view of the catalog."""

    def __init__(self, conn: CatalogConnection, *, kept: bool = True) -> None:
        self.kept = kept
        """Whether it is committed: what is tried only (`dry_run`) touches no file either."""
        self._conn = conn
        self.databases = DatabaseRepository(conn)
        self.drops = DropRepository(conn)
        self.tables = TableRepository(conn)
        self.directories = DirectoryRepository(conn)
        self.snapshots = SnapshotRepository(conn)
        self.publications = PublicationRepository(conn)
        self.decisions = DecisionRepository(conn)
        self.turns = TurnRepository(conn)
        self.tags = TagRepository(conn)
        self.branches = BranchRepository(conn)
        self.stale = StaleFileRepository(conn)
        self.partitions = PartitionRepository(conn)
        self.views = NamedRepository(conn, table="catalog_view", key="view_id", exists=ViewAlreadyExist)
        self.functions = NamedRepository(conn, table="catalog_function", key="function_id", exists=FunctionAlreadyExist)
        self.idempotency = IdempotencyRepository(conn)
        self.leases = LeaseRepository(conn)
        self.compactions = CompactionRunRepository(conn)
        self.tokens = TokenRepository(conn)
        self.roles = RoleRepository(conn)
        self.grants = GrantRepository(conn)
        self.policies = PolicyRepository(conn)
        self.quotas = QuotaRepository(conn)
        self.servers = ServerRepository(conn)
        self.logins = LoginRepository(conn)
        self.consumers = ConsumerRepository(conn)
        self.jobs = JobRepository(conn)
        self.audit = AuditRepository(conn)
        self.overview = OverviewRepository(conn)
        self.browse = BrowseRepository(conn)
        self.state = StateRepository(conn)
        self.holds = HoldRepository(conn)

    def allow_silence(self) -> None:
        """Let the transaction be silent for an hour, said just before long work in the store; raises where Postgres has ended it."""
        self._conn.execute(f"SET LOCAL {SILENCE} = {STORE_SILENCE_MILLIS}".encode())


class CatalogStore:
    """A bounded pool of connections to the catalog's Postgres."""

    def __init__(
        self,
        dsn: str,
        *,
        max_connections: int = 16,
        pooled: bool = False,
        direct_dsn: str | None = None,
        problem: Callable[[], str | None] | None = None,
    ) -> None:
        """``pooled``: the DSN leads to a pooler in transaction mode, and ``direct_dsn``, where there is one, past it.

        ``problem`` says why Postgres is away, for the errors told then, where whoever runs it knows.
        """
        self._problem = problem
        self._pooled = pooled
        self.notices = Notices(direct_dsn if pooled else dsn, self._newest_published)
        """Wakes whoever waits for a table's next snapshot."""
        self._worked: WeakKeyDictionary[CatalogConnection, float] = WeakKeyDictionary()
        """When each connection last gave an answer."""
        self._refusals = Refusals()
        self._own_refusals = Refusals(self._refusals)
        self._damage = RememberedDamage()
        self._in_vain = False
        """Whether the last wait for a connection of statements was."""
        self._renewals = Renewals()
        self._pool = self._made(dsn, "catalog", least=2, most=max_connections)
        self._store_places = StorePlaces(max_connections)
        self._turn_pool = self._made(dsn, "turns", least=0, most=TURN_CONNECTIONS)
        """Turns wait and hold their connections while they look at the catalog through others."""
        self._own_pool = self._made(dsn, "signs", least=0, most=OWN_CONNECTIONS, refusals=self._own_refusals)

    def _made(self, dsn: str, name: str, *, least: int, most: int, refusals: Refusals | None = None) -> Pool:
        own = _THROUGH_A_POOLER if self._pooled else {"application_name": APPLICATION, "options": limiting_options(dsn)}
        pool = ConnectionPool(
            dsn,
            connection_class=(refusals or self._refusals).told_by(PooledConnection if self._pooled else CatalogConnection),
            min_size=least,
            max_size=most,
            max_idle=TURN_IDLE_SECONDS if not least else 600.0,
            open=False,
            timeout=WAIT_SECONDS,
            reconnect_timeout=WAIT_SECONDS,
            kwargs={"autocommit": True, **noticing_loss(dsn, connect_timeout=3), **own},
            check=lambda conn: self._check(conn, pool),
            name=name,
        )
        pool.open(wait=False)
        return pool

    def _check(self, conn: CatalogConnection, pool: Pool) -> None:
        """Raise for a dead connection, as a restart of Postgres leaves them behind.

        A round trip finds out; it is spared for one that worked lately and on which nothing came since, not even its end.
        """
        if time.monotonic() - self._worked.get(conn, 0.0) > TRUSTED_SECONDS or conn.something_came():
            try:
                ConnectionPool.check_connection(conn)
            except psycopg.Error:
                if pool is not self._own_pool:  # of which the server has two
                    self._renewals.renew(pool, dead=conn)
                raise

    def close(self) -> None:
        """Close all connections."""
        self.notices.close()
        for pool in (self._turn_pool, self._own_pool, self._pool):
            pool.close()

    @contextlib.contextmanager
    def transaction(
        self, *, keep: bool = True, one_moment: bool = False, brief: bool = False, turn: Turn | None = None
    ) -> Iterator[CatalogTransaction]:
        """Commit when the block ends, roll back when it raises; without ``keep`` roll back in any case, as a dry run does.

        With a ``turn`` it is the turn's transaction, which ends with the block; for ``one_moment`` see `consistent`. In a ``brief`` one
        nothing is done but in Postgres, which ends it after 15 s of silence, and any other after 5 minutes, or as `allow_silence` says.

        Raises `Unavailable` when Postgres cannot be reached or goes away before the commit, and `OutcomeUnknown` when
        it goes away during it: then only a look at the data can tell.
        """
        done = False
        with self._problems_told(lambda: done):
            with turn.transaction() if turn else self._begun(keep=keep, one_moment=one_moment, brief=brief) as conn:
                yield CatalogTransaction(conn, kept=keep)
                done = keep
            self._worked[conn] = time.monotonic()

    @contextlib.contextmanager
    def own(self) -> Iterator[CatalogTransaction]:
        """A brief `transaction` of the server's own, on a connection that no statement takes: for its leases and signs of life.

        However many slow statements hold all others, nobody else takes this server for gone; nor where Postgres has none free but theirs.
        """
        done = False
        with self._problems_told(lambda: done):
            with self._begun(keep=True, one_moment=False, brief=True, own=True) as conn:
                yield CatalogTransaction(conn)
                done = True
            self._worked[conn] = time.monotonic()

    @contextlib.contextmanager
    def beside_store(self, *, removes: bool = False, seconds: float | None = WAIT_SECONDS) -> Iterator[CatalogTransaction]:
        """A transaction that is open while a file is written, or a tree is removed; `StorePlaces.place` has the rest."""
        with self._store_places.place(removes=removes, seconds=seconds), self.transaction() as tx:
            yield tx

    @contextlib.contextmanager
    def _problems_told(self, sent: Callable[[], bool] = lambda: False) -> Iterator[None]:
        """What Postgres says in the words of this server; nobody knows of a change that was ``sent`` where the connection breaks."""
        try:
            with self._damage_told():
                yield
        except (psycopg.OperationalError, psycopg.InterfaceError, PoolTimeout, *ENDED_BY_POSTGRES) as problem:
            if sent() and is_lost(problem):
                raise OutcomeUnknown(f"The catalog database went away while a change was being committed{self._cause()}.") from problem
            raise away(problem, self._cause()) from problem
        except psycopg.DataError as problem:
            raise unfit(problem) from problem
        except psycopg.errors.UndefinedTable as problem:
            raise CatalogLost from problem
        except psycopg.errors.ReadOnlySqlTransaction as problem:
            self._connect_anew()
            raise read_only() from problem

    def _connect_anew(self) -> None:
        """The primary may be another by now."""
        self._renewals.renew(self._pool, self._turn_pool, self._own_pool)

    @contextlib.contextmanager
    def _damage_told(self) -> Iterator[None]:
        """Damage of the catalog's own files, by the name of the relation, and remembered."""
        try:
            yield
        except psycopg.Error as problem:
            if not is_damage(problem):
                raise
            try:
                with self._connection() as conn:
                    damage = damage_of(problem, conn)
            except (psycopg.Error, PoolTimeout):
                damage = damage_of(problem, None)
            self._damage.note(damage)
            raise damage from problem

    @contextlib.contextmanager
    def _begun(self, *, keep: bool, one_moment: bool, brief: bool, own: bool = False) -> Iterator[CatalogConnection]:
        with self._own_connection() if own else self._connection() as conn:
            conn.begin(one_moment=one_moment, brief=brief)
            try:
                yield conn
                if keep:
                    conn.finish()
            finally:
                conn.forsake()

    @contextlib.contextmanager
    def _connection(self, seconds: float = WAIT_SECONDS) -> Iterator[CatalogConnection]:
        """One of the statements'; raises `PoolTimeout` where none comes in time."""
        with contextlib.ExitStack() as lent:
            try:
                conn = lent.enter_context(self._pool.connection(timeout=self._patience(seconds)))
            except PoolTimeout:
                self._in_vain = True
                raise
            self._in_vain = False
            yield conn

    @contextlib.contextmanager
    def _own_connection(self, seconds: float = WAIT_SECONDS) -> Iterator[CatalogConnection]:
        """One of the server's own, or of the statements' where none can be made; raises `PoolTimeout` where none comes in time."""
        with contextlib.ExitStack() as lent:
            own_seconds = min(seconds * _OWN_SHARE, HOPELESS_SECONDS if self._own_refusals.failing else seconds)
            try:
                conn = lent.enter_context(self._own_pool.connection(timeout=own_seconds))
            except PoolTimeout:
                conn = lent.enter_context(self._connection(seconds - own_seconds))
            yield conn

    def _patience(self, seconds: float) -> float:
        """How long a connection is waited for: hardly, where somebody did so in vain just now and none can be made."""
        return min(seconds, HOPELESS_SECONDS) if self._in_vain and self._refusals.failing else seconds

    @contextlib.contextmanager
    def turn(self, places: Sequence[Place], *, seconds: float) -> Iterator[Turn | None]:
        """The turn to decide about these branches, waited for in line; None where it did not come within so many seconds.

        What the block has not decided through the turn (`transaction`, `deciding`, `Turn.reserve`) is nobody's when it ends; each of them
        raises `TurnLost` where it is over. Raises `Unavailable` when Postgres cannot be reached or only be read.
        """
        with self._problems_told(), contextlib.ExitStack() as locks:
            try:
                conn = locks.enter_context(self._turn_pool.connection(timeout=self._patience(min(seconds, WAIT_SECONDS))))
            except PoolTimeout:
                self.ping()
                yield None  # so many wait on this server that it is better to race
                return
            turn = Turn(conn, in_order(places))
            locks.callback(turn.end)
            yield turn if turn.take(seconds) else None
            self._worked[conn] = time.monotonic()

    @contextlib.contextmanager
    def consistent(self) -> Iterator[CatalogTransaction]:
        """A transaction that changes nothing and whose statements all see the catalog of one moment.

        For whoever asks what is kept: between two statements of `reading` a snapshot may go from one branch to another, seen in neither.
        """
        with self.transaction(keep=False, one_moment=True) as tx:
            yield tx

    @contextlib.contextmanager
    def reading(self, *, seconds: float = WAIT_SECONDS) -> Iterator[CatalogTransaction]:
        """Single statements, each its own transaction: one round trip where a transaction would need three.

        ``seconds``: how long a connection is waited for.
        """
        with self._problems_told(), self._connection(seconds) as conn:
            yield CatalogTransaction(conn)
            self._worked[conn] = time.monotonic()

    def pool_stats(self) -> dict[str, float]:
        """How many connections there are, how many are free, and how many requests wait for one; then those that are for turns."""
        stats, turns = self._pool.get_stats(), self._turn_pool.get_stats()
        names = {"size": "pool_size", "available": "pool_available", "waiting": "requests_waiting", "most": "pool_max"}
        own = {label: float(stats.get(name, 0)) for label, name in names.items()}
        return own | {"turns": float(turns.get("pool_size", 0)), "turns_available": float(turns.get("pool_available", 0))}

    def pool_totals(self) -> dict[str, float]:
        """What the pool did since it was made: requests for a connection, connections made and lost; times in seconds."""
        stats = self._pool.get_stats()
        names = ("requests_num", "requests_queued", "requests_errors", "connections_num", "connections_errors", "connections_lost")
        totals = {name.removesuffix("_num"): float(stats.get(name, 0)) for name in names}
        return totals | {name: stats.get(f"{name}_ms", 0) / 1000 for name in ("requests_wait", "usage")}

    @contextlib.contextmanager
    def deciding(self, turn: Turn | None = None) -> Iterator[CatalogTransaction]:
        """One statement that changes something: its own transaction, in one round trip; with a ``turn`` it commits that one.

        Raises `Unavailable` when Postgres cannot be reached or refuses it, and `OutcomeUnknown` when it goes away meanwhile.
        """
        sent = False
        with self._problems_told(lambda: sent), turn.deciding() if turn else self._connection() as conn:
            sent = True
            yield CatalogTransaction(conn)
            self._worked[conn] = time.monotonic()

    def _newest_published(self, branches: Sequence[Place]) -> Mapping[Place, int]:
        with self.reading() as tx:
            return tx.publications.newest_published(branches)

    def _cause(self) -> str:
        """Why Postgres is away, to follow what is said of it; empty where nobody knows."""
        problem = self._refusals.cause() or self._own_refusals.cause() or (self._problem() if self._problem is not None else None)
        return f" ({problem})" if problem else ""

    def ping(self) -> None:
        """Raise `Unavailable` unless Postgres answers and can be written."""
        with self._problems_told():
            with self._own_connection(PING_SECONDS if self._refusals.failing else WAIT_SECONDS) as conn:
                is_writable = self._is_writable(conn)
            if is_writable and self._pool.get_stats()["pool_available"]:  # those of statements may lead elsewhere
                with contextlib.suppress(PoolTimeout), self._connection(PING_SECONDS) as conn:  # a statement may be quicker
                    is_writable = self._is_writable(conn)
        if not is_writable:
            self._connect_anew()
            raise read_only()

    def _is_writable(self, conn: CatalogConnection) -> bool:
        is_writable = StateRepository(conn).is_writable()
        self._worked[conn] = time.monotonic()
        return is_writable

    def require_whole(self) -> None:
        """Raise `CatalogDamaged` where damage of the catalog was met that is still there."""
        if self._damage.any():
            with self._problems_told(), self._connection() as conn:
                damage = self._damage.standing(conn)
            if damage is not None:
                raise damage
