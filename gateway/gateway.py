"""The gateway: all the server calls. Text in, results out; sessions, operations, appends, health."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from functools import partial
from typing import IO, Unpack

from gateway.append import Appender, AppendResult
from gateway.asked_spark import AskedSpark
from gateway.execution.canceller import canceller_for
from gateway.execution.executor import Executor, StatementLimits, Work
from gateway.execution.running import RunningOperations, StreamingResults, cancel_all
from gateway.health import Health, check_health
from gateway.ingest import Ingester
from gateway.limits import GatewayLimits as GatewayLimits
from gateway.operation import OnStart, Operation, OperationState
from gateway.operation import RunningStatement as RunningStatement
from gateway.origin import context_for
from gateway.recent import RecentStatements
from gateway.result_pages import Fetched, NotReady
from gateway.retained_results import RetainedResult, RetainedResults
from gateway.rounds import Rounds
from gateway.script import Script, ScriptRunner
from gateway.session_options import SessionOptions
from gateway.sessions import GatewaySession, Sessions
from gateway.statement_options import StatementOptions, StatementOptionsReader
from jobs.maker import JobMaker
from jobs.runner import JobRunner
from lake import EVERYBODY, Caller, Lake
from maintenance.coordinator import Coordinator
from model.errors import IllegalMove, InvalidToken, LakeError
from model.identifier import Identifier
from model.work.quota import QUEUED, RUNNING, SESSIONS
from sql.execution.completion import complete
from sql.execution.environment import ContextFactory, SparkPool
from sql.execution.open_streams import OpenStreams
from sql.execution.progress import ProgressRecord, SparkWatch
from sql.execution.results import ResultSet
from sql.execution.spool import Spool, SpoolLimits
from sql.parameters.parameters import NONE as NO_PARAMETERS
from sql.parameters.parameters import Parameters
from sql.statements.base import DelegatedAccess, no_delegated_access
from workers.pool import WorkerPool
from workers.spool import BodyFiles

_log = logging.getLogger(__name__)


class Gateway:
    """Runs SQL for many clients, none of which another can disturb."""

    def __init__(
        self,
        lake: Lake,
        spark: SparkPool,
        *,
        limits: GatewayLimits | None = None,
        workers: WorkerPool | None = None,
        bodies: BodyFiles | None = None,
    ) -> None:
        self.limits = limits = limits or GatewayLimits()
        self._lake = lake
        self._spark = spark
        spool_limits = SpoolLimits(per_result=limits.result_bytes, overall=limits.spool_bytes)
        self._spool = Spool(lake.file_io, lake.warehouse, spool_limits, lake.reserve, lake.quotas)
        self._executor = Executor(
            local_threads=limits.local_threads,
            spark_threads=limits.spark_statements,
            kept_threads=limits.kept_for_others,
            queue_limit=limits.queued_statements,
            local_queue_limit=limits.queued_locally,
            chain_limit=limits.queued_per_session,
            store_seconds=limits.store_seconds,
            limits=lambda owner: StatementLimits(running=lake.quotas.left(owner, RUNNING), queued=lake.quotas.left(owner, QUEUED)),
        )
        lake.quotas.listen(self._executor.wake)
        self._sessions = Sessions(
            max_sessions=limits.sessions, idle_seconds=limits.session_idle_seconds, chain=self._executor.chain, server=limits.server
        )
        self._options_reader = StatementOptionsReader(lake, limits)
        self.bodies = bodies or BodyFiles()
        """Where bodies and results lie that are too large for memory."""
        self.spark_streams = OpenStreams(limits.spark_streams, lambda handle: self._canceller.look_after(handle))
        self._uri: str | None = None
        context_factory = ContextFactory(
            lake=lake,
            spark=spark,
            spool=self._spool,
            import_dirs=limits.import_dirs,
            remote_catalogs=limits.remote_catalogs,
            kafka_brokers=limits.kafka_brokers,
            most_words=limits.statement_words,
            spark_streams=self.spark_streams,
            delegated_access=self._delegated_access,
        )
        self._runner = ScriptRunner(context_factory, limits.held_bytes, limits.reading_bytes)
        self.held = self._runner.held
        """The memory that results take."""
        self.kept = RetainedResults(self.bodies, self.held, seconds=limits.kept_seconds, most=limits.kept_statements)
        for gauge in (self._executor.usage, self._spool.usage, self.kept.usage):
            lake.quotas.measure(gauge)
        self.jobs = JobRunner(lake, limits.jobs, JobMaker(context_factory, limits.jobs))
        self._ends_workers = workers is None
        self.workers = workers if workers is not None else WorkerPool(limits.workers)
        self._appender = Appender(lake, self.workers, self.bodies)
        self.ingest = Ingester(lake, self.workers, self._executor.outside, self._sessions)
        self.session_options = SessionOptions(lake, self._sessions)
        self._canceller = canceller_for(spark, self.running, self._look_at_spark)
        self._asked_spark = AskedSpark(spark)
        self._watch = SparkWatch(spark.progress)
        self.recent = RecentStatements()
        lake.audit.forgets(self.recent.forget)
        self._running = RunningOperations()
        self._streams = StreamingResults()
        self.maintenance: Coordinator | None = None
        """What maintains tables in this process, where anything does."""
        self._listeners: list[Callable[[Operation], None]] = [self.recent.note, lambda operation: lake.standing.met(operation.error)]
        self._rounds = Rounds({"limits": self._end_overdue, "idle": self._free})

    def start(self) -> None:
        """Clear what dead gateways left in the spool and begin to enforce time limits and end idle sessions."""
        try:
            self._spool.clean()
        except LakeError:  # the warehouse is away; it will be cleaned at the next start
            _log.warning("The spool could not be cleaned", exc_info=True)
        self._rounds.start()
        self._lake.quotas.start()

    def serve_at(self, uri: str) -> None:
        """Begin to run jobs; the server answers at this address now, where Spark's own processes ask for tables."""
        self._uri = uri
        self.jobs.start()

    def _delegated_access(self, caller: Caller) -> DelegatedAccess:
        return no_delegated_access() if self._uri is None else DelegatedAccess(uri=self._uri, token=self._lake.access.lend(caller))

    # Statements, one text at a time

    def run(
        self, text: str, *, session: str | None = None, on_start: OnStart | None = None, **options: Unpack[StatementOptions]
    ) -> ResultSet:
        """Run the statements of a text in order and return the last result, which the caller reads and closes.

        They run in the session given, or in a fresh one.
        Raises what a statement raises; of several, the error's ``statement_index`` and ``completed`` tell how far it came.
        """
        managed = self._sessions.get(session) if session is not None else None
        script, operation = self._options_reader.script(text, managed, options)
        self._submit(operation, script, managed)
        if on_start is not None:
            on_start(RunningStatement(operation.handle, operation.cancel))
        return self._outcome(operation, managed)

    def keep(self, text: str, **options: Unpack[StatementOptions]) -> RetainedResult:
        """Queue the statements of a text as `run` runs them, and keep the result to be asked for; raises `TooManyStatements`."""
        script, operation = self._options_reader.script(text, None, options)
        script.kept = True
        statement = self.kept.add(operation)
        try:
            self._submit(operation, script, None)
        except BaseException:
            self.kept.forget(statement)
            raise
        return statement

    def append(
        self, identifier: Identifier, body: IO[bytes], content_type: str, *, idempotency_key: str | None = None, caller: Caller = EVERYBODY
    ) -> AppendResult:
        """Append the rows of a body to a table as one commit, on the caller's thread; where its context is stopped nothing is kept."""
        with self._executor.outside():
            return self._appender.append(identifier, body, content_type, idempotency_key=idempotency_key, caller=caller)

    # Sessions and operations

    @property
    def lake(self) -> Lake:
        """The lake the statements work on; `Lake.for_caller` is what a protocol uses of it."""
        return self._lake

    def open_session(self, name: str | None = None, properties: Mapping[str, str] | None = None, *, caller: Caller = EVERYBODY) -> str:
        """Open a session of the caller and return its handle; raises `TooManyStatements` and `QuotaExceeded`."""
        give_back = self._lake.quotas.take(caller, SESSIONS, "open sessions")
        try:
            opened = self._sessions.open(name, properties or {}, owner=caller.owner)
        except LakeError:
            give_back()
            raise
        opened.on_close = give_back
        return opened.handle

    def check_owner(self, handle: str, caller: Caller) -> None:
        """Raise `SessionNotExist` for a session that is somebody else's."""
        self._sessions.check_owner(handle, caller.owner)

    def session_properties(self, handle: str) -> dict[str, str]:
        """What the session has set."""
        return dict(self._sessions.get(handle).session.settings)

    def configure_session(self, handle: str, text: str, *, timeout: float | None = None, caller: Caller = EVERYBODY) -> None:
        """Run a statement that shapes the session (SET, USE, CREATE …); queries and inserts are refused."""
        self._options_reader.check_size(text)
        managed = self._sessions.get(handle)
        script = Script(text=text, session=managed.session, only_settings=True, caller=caller)
        operation = self._options_reader.operation(script, managed, timeout)
        self._submit(operation, script, managed)
        self._outcome(operation, managed).close()

    def heartbeat(self, handle: str) -> None:
        """Keep a session from expiring."""
        self._sessions.get(handle)

    def close_session(self, handle: str) -> None:
        """Close a session and everything in it."""
        self._sessions.close(handle)

    def submit(
        self,
        session: str,
        text: str,
        config: Mapping[str, str] | None = None,
        *,
        parameters: Parameters = NO_PARAMETERS,
        caller: Caller = EVERYBODY,
    ) -> str:
        """Queue a text in a session and return its operation's handle; errors in the text show when it is fetched."""
        self._options_reader.check_size(text)
        managed = self._sessions.get(session)
        script = Script(text=text, session=managed.session, settings=dict(config or {}), parameters=parameters, caller=caller)
        operation = self._options_reader.operation(script, managed)
        self._submit(operation, script, managed)
        return operation.handle

    def status(self, session: str, operation: str) -> OperationState:
        """Where an operation is."""
        return self._sessions.get(session).operation(operation).state

    def cancel(self, session: str, operation: str, *, wait: float = 0) -> OperationState:
        """Stop an operation, and wait for its end where it decides something; raises `IllegalMove` where it has ended already."""
        target = self._sessions.get(session).operation(operation)
        if not target.cancel():
            raise IllegalMove(f"The operation is {target.state} and cannot be canceled.")
        target.wait(wait)
        return target.state

    def close_operation(self, session: str, operation: str) -> None:
        """Forget an operation and free its result; closing twice is fine."""
        forgotten = self._sessions.get(session).forget(operation)
        if forgotten is not None:
            forgotten.close()

    def rows_to_come(self, session: str, operation: str, *, wait: float) -> ResultSet | None:
        """The result of rows without end that tells when they come, where it is there within so many seconds; None for others."""
        submitted = self._sessions.get(session).operation(operation)
        result = submitted.result if submitted.wait(wait) else None
        return None if result is None or result.waiting is None else result

    def fetch(
        self, session: str, operation: str, token: int, *, wait: float = 0, empty: bool = True, seconds: float | None = None
    ) -> Fetched:
        """A page as `Pages.find` has it; `NotReady` for page 0 without a result after ``wait`` seconds. Raises the statement's failure."""
        managed = self._sessions.get(session)
        submitted = managed.operation(operation)
        if not submitted.wait(wait):
            if token != 0:
                raise InvalidToken(f"There is no result page {token} yet; begin with page 0.")
            return NotReady()
        try:
            return submitted.pages().find(token, seconds, empty=empty)
        finally:
            managed.touch()

    def complete(self, session: str | None, text: str, position: int, *, database: str = "", caller: Caller = EVERYBODY) -> list[str]:
        """What may stand at a position of a text, best first; in a session, or in one that would begin in a database."""
        own = self._sessions.get(session).session if session is not None else self._options_reader.session(database or None, caller)
        return complete(self._lake.for_caller(caller), own, text, position)

    def running(self) -> list[Operation]:
        """The statements that wait or run, oldest first."""
        return self._running.all()

    def at_work(self) -> list[Operation]:
        """Those, and the ones whose rows are being made, or come, as they are read."""
        return self._running.at_work()

    def running_statement(self, name: str, *, caller: Caller = EVERYBODY) -> Operation:
        """The one of this name that waits, runs or is being read: one's own, to administrators anybody's; raises `OperationNotExist`."""
        return self._running.named(name, caller)

    def kept_or_running(self, name: str, *, caller: Caller = EVERYBODY) -> Operation:
        """The caller's statement of this name or handle, also one that has ended and is kept; raises `OperationNotExist`."""
        statement = self.kept.find(name, caller)
        return self.running_statement(name, caller=caller) if statement is None else statement.operation

    def progress(self, operation: Operation) -> ProgressRecord:
        """How far a statement is."""
        return self._watch.look(operation.handle, operation.progress)

    def listen(self, listener: Callable[[Operation], None]) -> None:
        """Call ``listener`` with every operation that ends, however it ends."""
        self._listeners.append(listener)

    def queued(self) -> dict[str, int]:
        """Pieces of work that wait for a thread, by lane."""
        return self._executor.queued()

    def sessions(self, caller: Caller = EVERYBODY) -> list[GatewaySession]:
        """The caller's sessions, an administrator's are all; oldest first."""
        return [session for session in self._sessions.all() if caller.administrator or session.owner.admits(caller.owner)]

    def open_sessions(self) -> int:
        """How many sessions clients hold."""
        return len(self._sessions)

    def spark_ready(self) -> bool:
        """Whether Spark takes statements."""
        return self._spark.ready

    def spark_starts(self) -> bool:
        """Whether Spark takes none yet, and soon will."""
        return self._spark.starting

    def health(self) -> Health:
        """What of Postgres, Spark and the warehouse can be used now."""
        return check_health(self._lake, self._asked_spark, self._canceller.outliving(), self._canceller.lingering())

    def _look_at_spark(self) -> None:
        """Notice a Spark that is gone before a statement does."""
        if self._spark.ready:
            self._spark.ping()

    def drain(self, seconds: float) -> bool:
        """Take no more statements, end the streams, hand the jobs on and let statements at work end, up to so long; the rest is canceled.

        True where all ended.
        """
        self._streams.end()
        jobs = threading.Thread(target=self.jobs.drain, args=(seconds,), name="sluice-jobs-drain", daemon=True)
        jobs.start()
        ended = self._executor.drain(seconds)
        jobs.join()
        cancel_all(self.running())
        self._streams.end()
        return ended

    def close(self) -> None:
        """Cancel everything and free all; lake and Spark are their owner's to close."""
        self._rounds.stop()
        self.jobs.close()
        self._streams.end()  # first: their readers are told why
        cancel_all(self.at_work())
        self._sessions.close_all()
        self.kept.close()
        self.spark_streams.wait_for_none()  # before their files go
        self._executor.close()
        if self._ends_workers:
            self.workers.close()
        self._canceller.close()
        self._asked_spark.close()
        self._watch.close()
        self._rounds.close()
        try:
            self._spool.close()
        except LakeError:  # the warehouse is away; what is left there is cleared at the next start
            _log.warning("The spool could not be cleared", exc_info=True)

    def _submit(self, operation: Operation, script: Script, managed: GatewaySession | None) -> Work:
        """Hand a script to the executor; whichever way its operation ends, no place stays taken for it."""
        operation.move(OperationState.PENDING)
        if managed is not None:
            managed.add(operation)  # first: the session may have been closed just now
        self._running.add(operation)
        operation.on_end(lambda: self._ended(operation))
        try:
            work = self._executor.submit(
                self._runner.steps(operation, script),
                chain=managed.chain if managed else None,
                context=context_for(operation.handle, self.limits.store_seconds),
                owner=operation.principal,
            )
        except LakeError as error:
            operation.fail(error)
            if managed is not None:
                managed.forget(operation.handle)
            raise
        cancellation, abandon = operation.cancellation, partial(self._executor.abandon, work)
        cancellation.on_cancel(lambda: operation.on_end(abandon) if cancellation.may_have_decided else abandon())  # a full disk, too
        cancellation.on_cancel(lambda: self._canceller.stop(operation, lambda others: self._executor.give_up(work, to_others=others)))
        return work

    def _outcome(self, operation: Operation, managed: GatewaySession | None) -> ResultSet:
        """Wait for an operation nobody will ask for by handle, and let it go."""
        operation.wait_to_end()
        return operation.outcome() if managed is None else managed.outcome(operation)

    def streams(self) -> int:
        """How many streaming queries are open."""
        return len(self._streams)

    def _ended(self, operation: Operation) -> None:
        self._running.remove(operation)
        for listener in () if operation.describes else self._listeners:
            listener(operation)
        if (result := operation.result) is None:
            return
        result.on_failure = self._lake.standing.met
        if result.unbounded:
            self._streams.add(result)

    def _end_overdue(self) -> None:
        for operation in self.at_work():
            if operation.overdue():
                operation.expire()

    def _free(self) -> None:
        self._sessions.expire()
        self.kept.expire()
        self._spool.tend()
