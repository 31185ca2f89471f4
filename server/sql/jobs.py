"""``/jobs``: streaming INSERTs, seen and steered."""

from __future__ import annotations

from uuid import UUID

import orjson
from flask import Blueprint, Response

from lake.jobs import Jobs
from model.errors import BadRequest, JobNotExist
from model.work.job import Job, JobRequest
from server.access.access import caller
from server.openapi.document import documented, json_of
from server.process.services import services
from server.sql.bodies import json_object, member, read_body

bp = Blueprint("jobs", __name__, url_prefix="/jobs")
_MOST_BYTES = 1 << 16


def _jobs() -> Jobs:
    return services().gateway.lake.for_caller(caller()).jobs


@bp.get("")
@documented(tag="jobs", answers={200: json_of("Jobs")})
def jobs() -> Response:
    """The caller's jobs, the newest first."""
    return _answer({"jobs": [_shown(job) for job in _jobs().all()]})


@bp.get("/<job>")
@documented(tag="jobs", answers={200: json_of("Job")}, errors=(404,))
def job(job: str) -> Response:
    """All that is known of a job."""
    return _answer(_shown(_jobs().get(_id(job))))


@bp.post("/<job>/stop")
@documented(tag="jobs", body=json_of("StopRequest"), body_required=False, answers={202: json_of("Job")}, errors=(404, 409, 413, 415))
def stop(job: str) -> Response:
    """Ask a job to stop, with ``drain`` when what is there now has been processed; the answer does not wait for it."""
    body = json_object(read_body(_MOST_BYTES))
    for name in body:
        if name != "drain":
            raise BadRequest(f"There is no member '{name}'; there is drain.")
    return _request(job, JobRequest.DRAIN if member(body, "drain", bool) else JobRequest.STOP)


@bp.post("/<job>/restart")
@documented(tag="jobs", answers={202: json_of("Job")}, errors=(404, 409, 415))
def restart(job: str) -> Response:
    """Start a job again from its checkpoint."""
    return _request(job, JobRequest.RESTART)


def _request(job: str, request: JobRequest) -> Response:
    if request is JobRequest.DRAIN:
        services().gateway.jobs.check_drain(_jobs().get(_id(job)))
    _jobs().request(_id(job), request)
    return _answer(_shown(_jobs().get(_id(job))), 202)


def _id(text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError:
        raise JobNotExist(f"'{text}'") from None


def _shown(job: Job) -> dict[str, object]:
    return {
        "id": str(job.job_id),
        "name": job.name,
        "state": job.state.value,
        "statement": job.statement,
        "database": job.database,
        "principal": job.principal,
        "server": job.server,
        "wish": job.requested.value if job.requested else None,
        "batches": job.batches,
        "rows": job.rows,
        "source": job.source,
        "lag": None if job.lag is None else str(job.lag),
        "watermark": job.watermark,
        "restarts": job.restarts,
        "attempts": job.attempts,
        "nextStart": job.next_start,
        "error": job.error,
        "errorAt": job.error_at,
        "createdAt": job.created_at,
        "startedAt": job.started_at,
        "endedAt": job.ended_at,
    }


def _answer(body: dict[str, object], status: int = 200) -> Response:
    return Response(orjson.dumps(body, option=orjson.OPT_UTC_Z), status, headers={"Cache-Control": "no-store"}, mimetype="application/json")
