"""How much of everything a gateway allows."""

from __future__ import annotations

from dataclasses import dataclass, field

from model.work.handle import NO_SERVER
from model.work.work_limits import JobLimits
from sql.parsing.size import MOST_WORDS
from table.format.io.patience import STORE_SECONDS
from workers.pool import WorkerLimits


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayLimits:
    """How much of everything one gateway allows; the server's options fill it."""

    sessions: int = 1000
    session_idle_seconds: float = 600.0
    statement_seconds: float | None = None
    """The time a statement may take, waiting included, where its client names none; None is no limit."""
    statement_chars: int = 1 << 20
    statement_words: int = MOST_WORDS
    local_threads: int = 32
    spark_statements: int = 4
    kept_for_others: int = 0
    """So many more on Spark, of principals that run none there."""
    spark_streams: int = 32
    """Streaming queries that clients read from Spark at the same time."""
    queued_statements: int = 256
    """Those that may wait for Spark; with 0 one that cannot run there at once is refused."""
    least_queued_locally: int = 256
    queued_per_session: int = 64
    kept_statements: int = 1000
    """Statements submitted to be asked for later, and their results, at the same time."""
    kept_seconds: float = 3600.0
    """How long the result of a statement submitted to be asked for later stays after it was last asked for."""
    result_bytes: int = 50 << 30
    spool_bytes: int = 200 << 30
    held_bytes: int = 256 << 20
    """Results of queries in memory that wait to be read; more of them go to the spool."""
    reading_bytes: int = 1 << 30
    """What reading results takes in memory at a time; further ones wait a moment for it, and are refused then."""
    store_seconds: float = STORE_SECONDS
    """How long object stores may fail what one statement asks of them, in all."""
    import_dirs: tuple[str, ...] = ()
    remote_catalogs: tuple[str, ...] = ()
    kafka_brokers: tuple[str, ...] | None = None
    jobs: JobLimits = field(default_factory=JobLimits)
    workers: WorkerLimits = field(default_factory=WorkerLimits)
    server: int = NO_SERVER
    """The number of the process among the servers of its catalog, which handles tell."""

    @property
    def queued_locally(self) -> int:
        """Statements that may wait for a thread of this process."""
        return max(self.queued_statements, self.least_queued_locally)

    @property
    def spark_threads(self) -> int:
        """Statements that run on Spark at once, whoever they are of."""
        return self.spark_statements + self.kept_for_others
