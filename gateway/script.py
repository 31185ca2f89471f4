"""Running a text's statements one after another, each in the lane it needs."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace

from sqlglot import exp

import sql.statements.all  # noqa: F401 - the statements register themselves
from gateway.execution.executor import Lane, Steps
from gateway.execution.shared_memory import SharedMemory
from gateway.operation import Operation
from gateway.planning import prepared
from lake import EVERYBODY, Caller, IdempotencyClaim, Owner, Replay
from model.errors import (
    BadRequest,
    InvalidParameter,
    LakeError,
    OutcomeUnknown,
    ResourceError,
    SqlSyntaxError,
    Unavailable,
    UnsupportedStatement,
)
from model.options.masking import masked_text
from model.spans import Value, span, tracing
from model.work.deciding import decide_for
from model.work.quota import STREAMS
from sql.analysis.suggestions import hinted
from sql.dialect import StatementText, is_query, parse_one, split
from sql.execution.answers import answer_of, replayed
from sql.execution.describe import Described, described_last
from sql.execution.dry_run import can_be_read, looked_at, only_looks
from sql.execution.environment import ContextFactory
from sql.execution.held_results import HeldResults
from sql.execution.results import Analysed, ResultColumn, ResultSet
from sql.execution.session import Session
from sql.execution.session_settings import STATEMENT_TIMEOUT, statement_seconds
from sql.local import LiteralInsert, ValuesInsert, read_values
from sql.parameters.parameters import NONE as NO_PARAMETERS
from sql.parameters.parameters import Parameters, bind
from sql.parameters.types import sample_parameters, wanted_parameters
from sql.parsing.positions import place
from sql.parsing.size import check_words
from sql.parsing.trees import DeleteRows, MergeRows, ResetOption, SetOption, UpdateRows
from sql.parsing.turns import Reader, read_first, read_from_now_on
from sql.statements.base import AnalysedStatement, ExecutionContext, Statement

_log = logging.getLogger(__name__)
_TRACED_CHARS = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Idempotent:
    """A key a client gave its text, and who it is."""

    key: str
    caller: str


@dataclass(slots=True, kw_only=True)
class Script:
    """A text to run in a session, and what the run has come to."""

    text: str
    session: Session
    settings: Mapping[str, str] = field(default_factory=dict)
    parameters: Parameters = NO_PARAMETERS
    """The values of its placeholders."""
    caller: Caller = EVERYBODY
    """Who runs it, with what was granted when the statement began."""
    idempotent: Idempotent | None = None
    max_rows: int | None = None
    """The most rows the last result may have; more are cut off, and the result says so."""
    dry_run: bool = False
    """True where the statement is only looked at: nothing takes effect."""
    kept: bool = False
    """True where the result is read later, so that its rows must end."""
    analysed: Analysed | None = None
    """What describing the one statement has found."""
    describe: bool = False
    """True where the statement is described and not run."""
    wanted: Sequence[ResultColumn] = ()
    """The parameters a described statement wants."""
    only_settings: bool = False
    """True where only statements that shape a session may run."""
    statement_seconds: float | None = None
    """The time each statement may take where its session names none; None is no limit."""
    index: int = 0
    was_set: set[str] = field(default_factory=set)  # by the text itself: such values go before those that were sent with it

    def in_force(self) -> dict[str, str]:
        """The settings the next statement runs with."""
        return {**self.session.settings, **{key: value for key, value in self.settings.items() if key not in self.was_set}}

    def ran(self, tree: exp.Expr | None) -> None:
        """Note a SET, or a RESET, after which what was sent with the text holds again."""
        if isinstance(tree, SetOption | ResetOption):
            key, sets = tree.args.get("key"), isinstance(tree, SetOption)
            self.was_set = self.was_set | {str(key)} if sets else self.was_set - ({str(key)} if key else self.was_set)

    def seconds(self) -> float | None:
        """The time the next statement may take: what statements before it SET holds."""
        own = statement_seconds(self.in_force())
        return self.statement_seconds if own is None else own


class ScriptRunner:
    """Turns scripts into steps for the executor."""

    def __init__(self, context_factory: ContextFactory, held_bytes: int, reading_bytes: int) -> None:
        """``held_bytes`` is what results of queries may hold in memory, ``reading_bytes`` what reading results may take."""
        self._context_factory = context_factory
        self.held = HeldResults(context_factory.spool, held_bytes, reading_bytes)
        self._lake = context_factory.lake
        self._spark_memory = SharedMemory()

    def steps(self, operation: Operation, script: Script) -> Steps:
        """Run the script for an operation, which gets the last result or the error, whichever way it ends."""
        read_from_now_on(Reader(operation.principal, operation.cancellation))
        decide_for(operation.cancellation)
        result: ResultSet | None = None
        try:
            if operation.begin():
                result = yield from self._traced(operation, script)
        except RecursionError:  # what is chained or nested by the hundred, in ways the parser does not count
            operation.fail(SqlSyntaxError("The statement is nested or chained too deeply; take it apart, or load what it lists as rows."))
        except Exception as error:  # the client is told all of it; what is no LakeError is logged by the server as a bug
            operation.fail(error)
        finally:
            self._hand_over(operation, script, result)

    def _traced(self, operation: Operation, script: Script) -> Generator[Lane, None, ResultSet]:
        what: dict[str, Value] = {}
        if tracing():
            what = {
                "db.system.name": "sluice",
                "db.query.text": masked_text(script.text[:_TRACED_CHARS]),
                "sluice.statement_id": operation.handle,
                "sluice.principal": operation.principal,
            }
        with span("statement", what, since=operation.submitted):
            with span("queue", {"sluice.lane": Lane.LOCAL}, since=operation.submitted):
                pass
            return (yield from self._run(operation, script))

    def _hand_over(self, operation: Operation, script: Script, result: ResultSet | None) -> None:
        """Give the operation its result; where its steps were closed between two of them, the reason it was stopped for."""
        operation.worker_ended = True
        if result is None and (reason := operation.cancellation.reason) is not None:
            operation.fail(reason)
        if result is not None:
            if result.affected_rows is not None and result.job_id is None:
                result.job_id = operation.handle.replace("-", "")
            operation.succeed(result)

    def _run(self, operation: Operation, script: Script) -> Generator[Lane, None, ResultSet]:  # noqa: C901 - the checks of a script in their order
        script.caller = self._lake.access.renewed(script.caller)  # it may have waited for its thread
        only = read_values(script.text)
        if only is None:
            check_words(script.text, self._context_factory.most_words)
        texts = [StatementText(text=script.text, offset=0, line=1)] if only else split(script.text)
        if not texts:
            raise BadRequest("The text holds no statement.")
        if script.idempotent and len(texts) > 1:
            raise BadRequest(f"An Idempotency-Key covers one statement, and the text holds {len(texts)}; send them one by one.")
        if script.dry_run and len(texts) > 1:
            raise BadRequest(f"A dry run takes one statement, and the text holds {len(texts)}: later ones would miss what earlier do.")
        if script.describe:
            if len(texts) > 1:
                return described_last(texts)
            script.wanted = wanted_parameters(texts[0].text, self._lake.for_caller(script.caller), script.session)
            script.parameters = sample_parameters(script.wanted)
        operation.several = len(texts) > 1
        trees = self._bound(script, texts)
        result: ResultSet | None = None
        notices = dict[str, None]()
        for script.index, text in enumerate(texts):
            if result is not None:
                result.close()
                operation.limit_statement(script.seconds())
                # What was granted or taken meanwhile counts, also by the statements before: who made a table may use it.
                script.caller = self._lake.access.renewed(script.caller)
            try:
                result = yield from self._one(operation, script, text, trees[script.index] if trees else only or read_values(text.text))
            except LakeError as error:
                _place(error, script, text)
                hinted(error, self._lake.for_caller(script.caller))
                raise
            notices |= dict.fromkeys(result.notices)
            if script.index + 1 < len(texts):
                operation.statement_ended(text.text)
                yield Lane.LOCAL
        assert result is not None
        result.notices = tuple(notices)
        if result.unbounded and not script.kept:
            self._count_stream(result, script.caller)
        if script.kept and result.unbounded:
            result.close()
            raise UnsupportedStatement("The rows of a streaming query are read as they come; run it without asking for its result later.")
        if script.max_rows is not None:
            result = result.limited(script.max_rows)
        if operation.several:
            result.placed = operation.placed
        self.held.keep(result, script.caller, operation.cancellation)
        return result

    def _count_stream(self, result: ResultSet, caller: Caller) -> None:
        """Count an open stream; raises `QuotaExceeded` where the caller has as many as it may."""
        try:
            result.on_close(self._lake.quotas.take(caller, STREAMS, "open streams"))
        except LakeError:
            result.close()
            raise

    def _bound(self, script: Script, texts: Sequence[StatementText]) -> list[exp.Expr] | None:
        """The trees of all statements where values were sent: whether each has its place is known before anything runs."""
        if script.parameters == NO_PARAMETERS:
            return None
        try:
            return bind([text.text for text in texts], script.parameters, self._context_factory.most_words)
        except InvalidParameter as error:
            if error.line is not None:
                _move(error, script, texts[error.statement_index or 0])
            raise

    def _one(
        self, operation: Operation, script: Script, text: StatementText, known: ValuesInsert | exp.Expr | None
    ) -> Generator[Lane, None, ResultSet]:
        """Run one statement, which may have been read already, under its idempotency claim, where it has one."""
        operation.cancellation.check()
        insert = known if isinstance(known, ValuesInsert) else None
        with span("parse"):
            tree = known if isinstance(known, exp.Expr) else None if insert else parse_one(text.text)
        if script.dry_run:
            insert, tree = None, looked_at(tree or parse_one(text.text))
            if tree is None:
                return can_be_read(text.text)
        if script.only_settings and (tree is None or is_query(tree) or isinstance(tree, exp.Insert | DeleteRows | UpdateRows | MergeRows)):
            raise BadRequest(
                "Only statements that shape a session (SET, RESET, USE, CREATE, DROP, ALTER) configure it; submit this one instead."
            )
        if not script.dry_run and not script.describe and (insert is not None or _holds_rows(tree)):
            self._lake.quotas.check_ingest(script.caller)
            self._lake.quotas.ingested(script.caller, len(text.text) + len(script.parameters.spelled()))
        if not script.idempotent or script.dry_run or (tree and only_looks(tree)):
            return (yield from self._planned(operation, script, text, insert, tree, None))
        claim = self._key(script.idempotent, script)
        if insert is not None or _holds_rows(tree):  # its key is claimed in its commit, which a repeat then loses
            try:
                return (yield from self._planned(operation, script, text, insert, tree, claim))
            except LakeError as error:
                done = self._lake.idempotency.answer_instead(claim, error)
                if done is not None:
                    return replayed(done.answer, script.caller.owner)
        claimed = self._lake.idempotency.take(claim)
        if isinstance(claimed, Replay):
            return replayed(claimed.answer, script.caller.owner)
        return (yield from self._planned(operation, script, text, insert, tree, claimed))

    def _planned(  # noqa: C901 - the claim is settled however these steps end
        self,
        operation: Operation,
        script: Script,
        text: StatementText,
        insert: ValuesInsert | None,
        tree: exp.Expr | None,
        claim: IdempotencyClaim | None,
    ) -> Generator[Lane, None, ResultSet]:
        """Plan and run one statement, under a claim that is settled in any case."""
        try:
            remembered = not script.dry_run and not script.describe and (insert is not None or _holds_rows(tree))
            context = self._context(operation, script, text, claim, remembered=remembered)

            def plan(context: ExecutionContext) -> Statement:
                with span("plan"):
                    statement = _analysed(script, context) or prepared(insert, tree, context, script.max_rows)
                return Described(tree=tree, statement=statement, wanted=tuple(script.wanted)) if script.describe else statement

            statement = plan(context)
            operation.wants_spark, operation.on_spark = statement.needs_spark, False
            if claim is not None and not claim.taken and not isinstance(statement, LiteralInsert):
                claimed = self._lake.idempotency.take(claim)
                if isinstance(claimed, Replay):
                    return replayed(claimed.answer, script.caller.owner)
            if statement.needs_spark:
                with span("queue", {"sluice.lane": Lane.SPARK}):
                    yield Lane.SPARK
                operation.cancellation.check()
                operation.on_spark = True
                read_first()  # a view's text keeps no thread of Spark's waiting behind all others of its principal
                context.spark.require(operation.cancellation.check)
                context, statement = self._with_present_rights(script, context, statement, plan)
            with span("execute", {"sluice.statement.kind": type(statement).__name__}):
                try:
                    with self._spark_memory.used() if statement.needs_spark else nullcontext():
                        result = statement.run(context)
                except Unavailable:
                    if not statement.needs_spark or not context.spark.spared(context.statement_id):
                        raise
                    with self._spark_memory.used():
                        result = _again(statement, tree, context, script).run(context)
                result.notices = (*result.notices, *context.lake.notices.values())
        except BaseException as error:  # also a close of these steps: the key must come free whatever happened
            if claim is not None:
                self._settle_failure(claim, error)
            reason = operation.cancellation.reason
            if reason is None or reason is error or isinstance(error, OutcomeUnknown) or not isinstance(error, Exception):
                raise
            raise reason from error  # what Spark says of jobs that were canceled is not why they were
        if claim is not None:
            self._settle(claim, result, script.caller.owner)
        script.ran(tree)
        return result

    def _with_present_rights(
        self, script: Script, context: ExecutionContext, statement: Statement, plan: Callable[[ExecutionContext], Statement]
    ) -> tuple[ExecutionContext, Statement]:
        """What a statement that has waited runs with: planned anew where its caller's rights, or policies, may be others by now.

        One that was analysed before it waited looks at no policy when it is run, and those of columns do not make its caller another.
        """
        caller = self._lake.access.renewed(script.caller)
        if caller is script.caller and not isinstance(statement, AnalysedStatement):  # what is remembered still counts
            return context, statement
        script.caller = caller
        context = replace(context, lake=self._lake.for_caller(caller))
        return context, statement if caller.administrator else plan(context)

    def _context(
        self, operation: Operation, script: Script, text: StatementText, claim: IdempotencyClaim | None, *, remembered: bool
    ) -> ExecutionContext:
        return self._context_factory.context(
            script.caller,
            script.session,
            settings=script.in_force(),
            cancellation=operation.cancellation,
            statement_id=operation.handle,
            source=text.text,
            progress=operation.progress,
            idempotency=claim,
            remembered=remembered,
            has_parameters=script.parameters != NO_PARAMETERS,
        )

    def _key(self, idempotent: Idempotent, script: Script) -> IdempotencyClaim:
        body = "\0".join((script.session.current_database, script.text.strip())).encode()
        if script.parameters != NO_PARAMETERS:
            body += b"\0" + script.parameters.spelled()
        # A timeout alone makes no other statement of it.
        if chosen := {key: value for key, value in script.settings.items() if key != STATEMENT_TIMEOUT.key}:
            body += b"\0\0" + json.dumps(chosen, sort_keys=True).encode()
        return self._lake.idempotency.later(idempotent.key, scope=f"sql:{idempotent.caller}", body_hash=hashlib.sha256(body).hexdigest())

    def _settle(self, claim: IdempotencyClaim, result: ResultSet, owner: Owner) -> None:
        """Store the answer; a statement that committed has stored it in its own transaction."""
        if result.snapshot_id is None:
            self._lake.idempotency.finish(claim, answer_of(result, owner))
        else:
            self._lake.idempotency.release(claim)

    def _settle_failure(self, claim: IdempotencyClaim, error: BaseException) -> None:
        """Give the key back, except where nobody knows what happened: then it runs out by itself, or its answer is there."""
        if isinstance(error, OutcomeUnknown) and not error.ended:
            self._lake.idempotency.let_go(claim)
        else:
            self._lake.idempotency.abandon(claim)


def _holds_rows(tree: exp.Expr | None) -> bool:
    """Whether a statement brings rows of its own: ``INSERT … VALUES``."""
    return isinstance(tree, exp.Insert) and isinstance(tree.args.get("expression"), exp.Values)


def _place(error: LakeError, script: Script, text: StatementText) -> None:
    """Give the error its place in the whole text."""
    if isinstance(error, ResourceError) and error.line is None:
        name = error.resource_name.rpartition(".")[2]
        error.line, error.column = place(text.text, name)
        error.fragment = name if error.line is not None else None
    if error.line is not None:
        _move(error, script, text)


def _move(error: LakeError, script: Script, text: StatementText) -> None:
    """Turn an error's place in its statement into one in the whole text."""
    assert error.line is not None
    if error.line == 1 and error.column is not None:
        error.column += text.offset - (script.text.rfind("\n", 0, text.offset) + 1)
    error.line += text.line - 1


def _analysed(script: Script, context: ExecutionContext) -> AnalysedStatement | None:
    """What the caller has from describing the same text, where it still holds."""
    analysed = script.analysed
    return analysed if isinstance(analysed, AnalysedStatement) and analysed.holds(context) else None


def _again(statement: Statement, tree: exp.Expr | None, context: ExecutionContext, script: Script) -> Statement:
    """The statement to run on the next Spark, once that runs, where it still waited for a core when the last one was ended.

    Once only: of a statement that ends Spark itself while it is planned, another try would be no waiting.
    """
    context.cancellation.check()
    _log.info("Statement %s had not begun in the Spark that is gone; it waits for the next one", context.statement_id)
    context.spark.require(context.cancellation.check)
    return statement if not isinstance(statement, AnalysedStatement) else prepared(None, tree, context, script.max_rows)
