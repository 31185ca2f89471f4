"""What all statements of a gateway run in: those people send, and those of jobs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from lake import Caller, IdempotencyClaim, Lake
from sql.execution.cancellation import Cancellation
from sql.execution.open_streams import OpenStreams
from sql.execution.progress import Progress, SparkStage, StageTasks
from sql.execution.session import Session
from sql.execution.spool import Spool
from sql.parsing.size import MOST_WORDS
from sql.statements.base import DelegatedAccess, ExecutionContext, SparkLease


class SparkPool(Protocol):
    """Where the Spark sessions of statements come from; `sql.spark.session.pool` has the real one."""

    @property
    def ready(self) -> bool: ...
    @property
    def starting(self) -> bool: ...
    @property
    def asleep(self) -> bool: ...
    def lease(self, principal: str = "") -> SparkLease: ...
    def cancel(self, statement_id: str) -> None: ...
    def progress(self, statement_id: str) -> list[SparkStage] | None: ...
    def ping(self) -> None: ...
    def check(self) -> None: ...
    def interrupt(self, statement_id: str) -> None: ...
    def stages_of(self, statement_id: str) -> set[tuple[str, int]]: ...
    def live_tasks(self) -> list[tuple[str, int]]: ...
    def numbered_tasks(self) -> list[tuple[tuple[str, int], int]]: ...
    def stages_at_work(self) -> list[StageTasks]: ...
    def seconds(self) -> float: ...
    def put_waiting_first(self) -> None: ...
    def end_task(self, task: int, reason: str) -> None: ...
    def calls(self, statement_id: str) -> bool: ...
    def answers(self) -> bool: ...
    def cores(self) -> int: ...
    def prepare(self) -> None: ...
    def restart(self, reason: str) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextFactory:
    """What a gateway has, and lets its statements use."""

    lake: Lake
    spark: SparkPool
    spool: Spool
    import_dirs: tuple[str, ...] = ()
    remote_catalogs: tuple[str, ...] = ()
    kafka_brokers: tuple[str, ...] | None = None
    """None allows all."""
    most_words: int = MOST_WORDS
    """Of a text that is parsed."""
    spark_streams: OpenStreams
    """The streaming queries on Spark that are read."""
    delegated_access: Callable[[Caller], DelegatedAccess]
    """How Spark's own processes reach this server's catalog, as a caller."""

    def context(  # noqa: PLR0913 - the fields of a record
        self,
        caller: Caller,
        session: Session,
        *,
        settings: Mapping[str, str],
        cancellation: Cancellation,
        statement_id: str,
        source: str,
        progress: Progress | None = None,
        idempotency: IdempotencyClaim | None = None,
        remembered: bool = False,
        has_parameters: bool = False,
    ) -> ExecutionContext:
        """All that one statement may use, as the caller; ``settings`` are the session's and over them the statement's own."""
        return ExecutionContext(
            lake=self.lake.for_caller(caller),
            session=session,
            spark=self.spark.lease(caller.principal),
            settings=settings,
            cancellation=cancellation,
            statement_id=statement_id,
            progress=progress or Progress(),
            spool=self.spool,
            idempotency=idempotency,
            import_dirs=self.import_dirs,
            remote_catalogs=self.remote_catalogs,
            # Who needs a token is not to reach into the network by the server, whichever way the server came to want tokens.
            kafka_brokers=() if self.kafka_brokers is None and not self.lake.access.open() else self.kafka_brokers,
            source=source,
            remembered=remembered,
            has_parameters=has_parameters,
            spark_streams=self.spark_streams,
            delegated_access=lambda: self.delegated_access(caller),
        )
