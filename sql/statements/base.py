"""What a statement is, how one is made from a tree, and what it may use while it runs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from sqlglot import exp

from lake import IdempotencyClaim, Lake
from model.errors import Unavailable, UnsupportedStatement
from sql.connectors import ConnectorScope
from sql.execution.cancellation import Cancellation
from sql.execution.open_streams import OpenStreams
from sql.execution.progress import Progress
from sql.execution.results import Analysed, ResultColumn, ResultSet
from sql.execution.session import Session

if TYPE_CHECKING:
    from sql.execution.spool import Spool


class SparkLease(Protocol):
    """A statement's hand on Spark."""

    def require(self, check: Callable[[], None] = ...) -> None:
        """Wait until Spark runs; raises `Unavailable` where it does not, and what ``check`` raises meanwhile.

        A statement may import what imports pyspark only afterwards: while Spark starts, another thread imports it, and of two
        that do so at once one finds half-made modules.
        """
        ...

    def running(self, statement_id: str) -> AbstractContextManager[Any]:
        """A Spark session of the block's own, with all this thread starts on it cancellable under the statement's id."""
        ...

    def marked(self, statement_id: str) -> AbstractContextManager[None]:
        """The same for what was made in a Spark session before."""
        ...

    def made(self, session: Any) -> bool:
        """Whether a Spark session is one of the Spark that runs now."""
        ...

    def spared(self, statement_id: str) -> bool:
        """Whether the Spark that was required is gone before anything of the statement ran there."""
        ...

    def lost(self) -> None:
        """Spark failed a statement the way a dead one does: start it anew where it is one."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class DelegatedAccess:
    """Where this server's catalog answers, and a token that lets in as a caller; None where it asks for none."""

    uri: str
    token: str | None


def no_delegated_access() -> DelegatedAccess:
    """Raise `Unavailable`: a gateway without a server in front of it follows no tables with Spark."""
    raise Unavailable("Streams through Spark need the server's HTTP endpoint, which does not answer.")


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionContext:
    """All a running statement may use."""

    lake: Lake
    session: Session
    spark: SparkLease
    settings: Mapping[str, str]
    """The session's settings and over them the statement's own."""
    cancellation: Cancellation
    statement_id: str
    progress: Progress = field(default_factory=Progress)
    """Where it says how far it is."""
    spool: Spool
    idempotency: IdempotencyClaim | None = None
    import_dirs: tuple[str, ...] = ()
    remote_catalogs: tuple[str, ...] = ()
    kafka_brokers: tuple[str, ...] | None = None
    source: str = ""
    """The statement as the user wrote it."""
    remembered: bool = False
    """Whether an INSERT may take its table as it was a moment ago: its commit finds out, and it is planned anew then."""
    has_parameters: bool = False
    """Whether values were sent for placeholders, which ``source`` does not hold."""
    spark_streams: OpenStreams = field(default_factory=OpenStreams)
    """The streaming queries on Spark that are read, of all sessions."""
    delegated_access: Callable[[], DelegatedAccess] = no_delegated_access
    """How Spark's own processes reach this server's catalog, as the caller."""

    @property
    def connector_scope(self) -> ConnectorScope:
        """What connectors may use."""
        return ConnectorScope(
            import_dirs=self.import_dirs,
            refuse_guarded=self.lake.refuse_guarded,
            remote_catalogs=self.remote_catalogs,
            kafka_brokers=self.kafka_brokers,
            zone=self.zone,
        )

    @property
    def zone(self) -> str:
        """The session's time zone, for text that says none."""
        from sql.execution.session_settings import LOCAL_TIME_ZONE

        return LOCAL_TIME_ZONE.read(self.settings)


class Statement(Protocol):
    """A statement made from a tree."""

    @property
    def needs_spark(self) -> bool:
        """Whether it runs Spark work, and so waits for a place among such statements."""
        ...

    def run(self, context: ExecutionContext) -> ResultSet:
        """Do it; raises a `model.errors.LakeError` and then has changed nothing."""
        ...


class LocalStatement:
    """Base of statements that need no Spark; made from their tree."""

    needs_spark = False


class LookingStatement(LocalStatement, ABC):
    """Base of statements that only tell what there is; their columns are known before it is looked up."""

    @abstractmethod
    def columns(self, context: ExecutionContext) -> Sequence[ResultColumn]:
        """The columns, and nothing done for the rows."""

    @abstractmethod
    def rows(self, context: ExecutionContext) -> Iterable[tuple[object, ...]]:
        """What there is now."""

    def run(self, context: ExecutionContext) -> ResultSet:
        """Columns and rows."""
        return ResultSet.of_rows(self.columns(context), list(self.rows(context)))


class AnalysedStatement(Analysed, ABC):
    """A statement that was looked at before, ready to be run once (`sql.spark.read.analysed`)."""

    __slots__ = ()

    @property
    @abstractmethod
    def needs_spark(self) -> bool:
        """Whether it runs Spark work."""

    @abstractmethod
    def holds(self, context: ExecutionContext) -> bool:
        """Whether looking at it again would find the same."""

    @abstractmethod
    def run(self, context: ExecutionContext) -> ResultSet:
        """As of `Statement`."""


Maker = Callable[[Any], Statement]
M = TypeVar("M", bound=Maker)
_MAKERS: dict[type[exp.Expr], Maker] = {}


def handles(*trees: type[exp.Expr]) -> Callable[[M], M]:
    """Register what makes a statement of these trees."""

    def register(makes: M) -> M:
        for tree in trees:
            if tree in _MAKERS:
                raise ValueError(f"{tree.__name__} is handled twice")
            _MAKERS[tree] = makes
        return makes

    return register


def maker(tree: exp.Expr) -> Maker | None:
    """What makes a statement of a tree, of those that are registered (`sql.statements.all`)."""
    return next((_MAKERS[kind] for kind in type(tree).__mro__ if kind in _MAKERS), None)


def build(tree: exp.Expr) -> Statement:
    """The statement a tree means; one nobody handles is refused by name."""
    made_by = maker(tree)
    if made_by is None:
        raise UnsupportedStatement(f"{tree.key.upper()} statements are not available.")
    return made_by(tree)
