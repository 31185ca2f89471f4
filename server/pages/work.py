"""What is at work and what was: jobs, statements, sessions and compactions, each with what can be done about it."""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from flask import redirect, request, url_for
from flask.typing import ResponseReturnValue

from catalog.records import TableRunRow
from gateway.operation import Operation
from gateway.recent import EndedStatement
from jobs.points import rate
from lake.inspect.compactions import newest_runs
from model.errors import BadRequest, JobNotExist, LakeError, OperationNotExist, Unavailable
from model.identifier import Identifier
from model.options.masking import masked_all, masked_text
from model.text.name_parts import parse_name
from model.work.job import Job, JobState
from model.work.job_lag import farthest
from server.access.access import caller
from server.pages.actions import act, tell
from server.pages.rendering.sparklines import Line, lag_line, lag_unit, rate_line
from server.pages.rendering.statements import call
from server.pages.shell import bp, in_menu, render
from server.process.services import services
from server.settings.options import SESSION_IDLE, SESSION_LIMIT
from sql.execution.progress import ProgressRecord

_MOST_RUNS = 200
_MOST_ENDED = 100
_KINDS = {
    JobState.RUNNING: "good", JobState.CREATED: "busy", JobState.RESTARTING: "warn", JobState.FAILED: "bad", JobState.STOPPED: "idle",
    JobState.FINISHED: "idle",
}  # fmt: skip
OUTCOMES = {"FINISHED": "good", "ERROR": "bad", "TIMEOUT": "bad", "CANCELED": "warn"}


# Jobs


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownJob:
    """A job as the pages show it."""

    job: Job
    kind: str
    rate: float | None
    """Rows a second over the last minute."""
    lag: Line | None
    lag_unit: str
    rates: Line | None
    cause: tuple[str, ...]
    """The last error, and under it what caused it."""


def shown_job(job: Job) -> ShownJob:
    """A job with its last hour on this server."""
    points = services().gateway.jobs.points.of(job.job_id)
    return ShownJob(
        job=job,
        kind=_KINDS[job.state],
        rate=rate(points) if job.state is JobState.RUNNING else None,
        lag=lag_line(points, unit := lag_unit(points)),
        lag_unit=unit,
        rates=rate_line(points),
        cause=tuple((job.error or "").split("\nCaused by: ")) if job.error else (),
    )


@bp.get("/jobs")
@in_menu("Jobs")
def jobs() -> ResponseReturnValue:
    """Streaming INSERTs: those that need somebody first, then the running ones, then what ended."""
    jobs_shown = [shown_job(job) for job in services().gateway.lake.for_caller(caller()).jobs.all()]
    order = [JobState.FAILED, JobState.RESTARTING, JobState.RUNNING, JobState.CREATED, JobState.STOPPED, JobState.FINISHED]
    jobs_shown.sort(key=lambda one: order.index(one.job.state))
    going = [entry for entry in jobs_shown if not entry.job.state.ended]
    return render(
        "jobs.html",
        here="Jobs",
        jobs=jobs_shown,
        running=sum(entry.job.state is JobState.RUNNING for entry in jobs_shown),
        troubled=sum(entry.job.state in (JobState.FAILED, JobState.RESTARTING) for entry in jobs_shown),
        rate=sum(entry.rate or 0 for entry in going),
        farthest=farthest([entry.job.lag for entry in going if entry.job.lag]),
        most=services().settings.jobs.most,
    )


@bp.get("/jobs/<job_id>")
def job(job_id: str) -> ResponseReturnValue:
    """One job with its last hour."""
    record = services().gateway.lake.for_caller(caller()).jobs.get(_uuid(job_id))
    sources = [_source(int(number) + 1, source) for number, many in record.source.items() for source in many]
    return render(
        "job.html",
        here="Jobs",
        shown=shown_job(record),
        job=record,
        statement=masked_text(record.statement),
        settings=sorted(masked_all(record.settings).items()),
        sources=sources,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownSource:
    """What one INSERT of a job reads, and how far."""

    insert: int
    name: str
    read: str
    there: str
    rows: int | None
    """Of the last batch."""


def _source(insert: int, progress: Mapping[str, Any]) -> ShownSource:
    return ShownSource(
        insert=insert,
        name=str(progress.get("description", "–")),
        read=_offset(progress.get("endOffset")),
        there=_offset(progress.get("latestOffset")),
        rows=progress.get("numInputRows"),
    )


def _offset(offset: Any) -> str:
    """An offset in words where it is a table's, as its source has it otherwise."""
    if offset is None:
        return "–"
    if not isinstance(offset, dict) or not isinstance(offset.get("snapshot"), int):
        return offset if isinstance(offset, str) else json.dumps(offset)
    return f"snapshot {offset['snapshot'] - 1}{' and a part of the next' if offset.get('files') or offset.get('rows') else ''}"


@bp.post("/jobs/<job_id>/<action>")
def steer_job(job_id: str, action: str) -> ResponseReturnValue:
    """Stop, drain or restart a job."""
    name = str(_uuid(job_id))
    statements = {"stop": f"STOP JOB '{name}'", "drain": f"STOP JOB '{name}' WITH DRAIN", "restart": f"ALTER JOB '{name}' RESTART"}
    if action not in statements:
        raise BadRequest(f"A job can be sent {', '.join(statements)}, not {action}.")
    done = {"stop": "The job has stopped.", "drain": "The job has taken what was there and stopped.", "restart": "The job starts again."}
    return act(statements[action], back=url_for("pages.job", job_id=name), done=done[action])


def _uuid(text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError:
        raise JobNotExist(f"'{text}'") from None


# Statements


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningText:
    """A statement that waits or runs."""

    handle: str
    principal: str
    protocol: str
    text: str
    state: str
    seconds: float
    submitted: dt.datetime
    progress: ProgressRecord
    limit: float | None


def running_texts() -> list[RunningText]:
    """The caller's statements that wait or run, streams too; an administrator's are all; streams first, the oldest first."""
    gateway, me = services().gateway, caller()
    return [
        RunningText(
            handle=operation.handle,
            principal=operation.principal,
            protocol=operation.origin.protocol,
            text=operation.masked,
            state=operation.shown_state.value,
            seconds=max(0.0, time.time() - operation.submitted),
            submitted=dt.datetime.fromtimestamp(operation.submitted, dt.UTC),
            progress=gateway.progress(operation),
            limit=operation.timeout,
        )
        for operation in gateway.at_work()
        if not operation.shown_state.terminal and (me.administrator or operation.owner.admits(me.owner))
    ]


def ended_texts() -> list[EndedStatement]:
    """The caller's statements that ended on this server, an administrator's are all; newest first."""
    me = caller()
    return services().gateway.recent.newest(None if me.administrator else me.owner)


def _this_server() -> str:
    """Whose lists a page shows, where it may have come from another server than the one before it."""
    peers = services().peers
    with contextlib.suppress(Unavailable):
        if peers is not None and (others := peers.others()):
            return f"the server {peers.name}, one of {len(others) + 1}, each of which shows its own"
    return "this server"


@bp.get("/statements")
@in_menu("Statements")
def statements() -> ResponseReturnValue:
    """What runs, what waits, and what ended last."""
    outcome = request.args.get("outcome", "")
    ended = [text for text in ended_texts() if not outcome or text.state.value == outcome]
    return render(
        "statements.html",
        here="Statements",
        server=_this_server(),
        running=running_texts(),
        ended=[(text, moment_of(text.submitted)) for text in ended[:_MOST_ENDED]],
        outcome=outcome,
        outcomes=OUTCOMES,
        queued=sum(services().gateway.queued().values()),
        spark_starts=services().gateway.spark_starts(),
    )


@bp.get("/statements/<handle>")
def statement(handle: str) -> ResponseReturnValue:
    """One statement: how far it is, or what became of it."""
    running = next((text for text in running_texts() if text.handle == handle), None)
    ended = next((text for text in ended_texts() if text.handle == handle), None) if running is None else None
    if running is None and ended is None:
        raise OperationNotExist(f"Statement {handle} does not run here, and is not among the last that did.")
    return render(
        "statement.html",
        here="Statements",
        handle=handle,
        running=running,
        ended=ended,
        began=moment_of(ended.submitted) if ended else None,
        kind=OUTCOMES.get(ended.state.value, "idle") if ended else "busy",
    )


@bp.post("/statements/<handle>/cancel")
def cancel_text(handle: str) -> ResponseReturnValue:
    """Cancel a statement, as DELETE /statements/{id} does."""
    operation = services().gateway.running_statement(handle, caller=caller())
    stopped = services().cancel(operation, caller())
    said = _said_of(operation) if stopped else "The statement had ended by itself."
    tell(f"DELETE /statements/{operation.handle}", said, failed=not stopped)
    return redirect(url_for("pages.statements"), 303)


def _said_of(operation: Operation) -> str:
    """What became of a statement that was told to stop, which may have been committed nevertheless."""
    if not operation.state.terminal:
        return "The statement was told to stop and commits at this moment; it ends as that does."
    return operation.error.message if isinstance(operation.error, LakeError) else "The statement was canceled."


def moment_of(seconds: float) -> dt.datetime:
    """Seconds since 1970 as a time."""
    return dt.datetime.fromtimestamp(seconds, dt.UTC)


# Sessions


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownSession:
    """A gateway session."""

    handle: str
    name: str | None
    owner: str
    database: str
    opened: dt.datetime
    idle: float
    running: int
    kept: int
    """Statements whose results can still be fetched."""
    settings: Sequence[tuple[str, str]]
    temporary: Sequence[str]


@bp.get("/sessions")
@in_menu("Sessions")
def sessions() -> ResponseReturnValue:
    """Who holds a session here, and what is in it."""
    open_sessions = [_session(session) for session in services().gateway.sessions(caller())]
    settings = services().settings
    return render(
        "sessions.html",
        here="Sessions",
        server=_this_server(),
        sessions=open_sessions,
        idle=settings[SESSION_IDLE],
        most=settings[SESSION_LIMIT],
    )


def _session(session: Any) -> ShownSession:
    operations = session.operations()
    return ShownSession(
        handle=session.handle,
        name=session.session.name,
        owner=session.owner.principal,
        database=session.session.current_database,
        opened=moment_of(session.opened),
        idle=session.idle_for(),
        running=sum(not operation.state.terminal for operation in operations),
        kept=sum(operation.state.terminal for operation in operations),
        settings=sorted(masked_all(session.session.settings).items()),
        temporary=sorted(session.session.temporary_tables),
    )


@bp.post("/sessions/<handle>/close")
def close_session(handle: str) -> ResponseReturnValue:
    """Close a session, as DELETE /v1/sessions/{handle} does; an administrator may close anybody's."""
    gateway, me = services().gateway, caller()
    if not me.administrator:
        gateway.check_owner(handle, me)
    gateway.close_session(handle)
    tell(f"DELETE /v1/sessions/{handle}", "The session is closed; what ran in it was canceled.")
    return redirect(url_for("pages.sessions"), 303)


# Compactions


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownRun:
    """A compaction."""

    run: TableRunRow
    seconds: float
    share: float | None
    """Files left, of those there were."""


@bp.get("/compactions")
@in_menu("Compactions")
def compactions() -> ResponseReturnValue:
    """What is merged now and what was, over all tables the caller sees."""
    runs = [_run(run) for run in newest_runs(services().gateway.lake.for_caller(caller()), limit=_MOST_RUNS)]
    done = [shown_run.run for shown_run in runs if shown_run.run.outcome == "done"]
    return render(
        "compactions.html",
        here="Compactions",
        runs=runs,
        running=sum(shown_run.run.outcome == "running" for shown_run in runs),
        failed=sum(shown_run.run.outcome == "failed" for shown_run in runs),
        merged=sum(run.files_before - run.files_after for run in done),
        rewritten=sum(run.bytes_before for run in done),
        maintenance=services().settings.maintenance,
        tables=_table_names(),
    )


def _run(run: TableRunRow) -> ShownRun:
    seconds = (run.ended_at - run.started_at).total_seconds()
    share = run.files_after / run.files_before if run.outcome == "done" and run.files_before else None
    return ShownRun(run=run, seconds=max(0.0, seconds), share=share)


def _table_names(most: int = 500) -> list[str]:
    """Names to choose from; with very many tables, the first ones."""
    lake = services().gateway.lake.for_caller(caller())
    names: list[str] = []
    for database in lake.list_databases():
        names += [Identifier(database, name).written() for name in lake.list_tables(database)]
        if len(names) >= most:
            break
    return names[:most]


@bp.post("/compactions")
def compact_now() -> ResponseReturnValue:
    """Merge a table's files."""
    name, whole = request.form.get("table", "").strip(), request.form.get("whole") == "yes"
    if len(parse_name(name)) != 2:
        raise BadRequest("Name the table as database.table.")
    return act(call("compact", table=name, compact_strategy="full" if whole else None), back=url_for("pages.compactions"))
