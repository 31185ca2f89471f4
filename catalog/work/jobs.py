"""Jobs: what they do, where they are, and which server runs them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import timedelta
from typing import Any
from uuid import UUID

from psycopg import Connection
from psycopg.rows import dict_row
from psycopg.types.json import Jsonb

from model.work.job import OUT_OF_MEMORY, Job, JobLease, JobRequest, JobState
from model.work.job_lag import JobLag

JOB_LEASE_SECONDS = 10.0
"""A server that has not renewed for so long has lost its jobs."""
_COLUMNS = """
    job_id, name, statement, database, settings, tables, starts, principal, state, wish AS requested, server, epoch, attempts, restarts,
    next_start, error, error_at, batches, rows, applied, source, watermark, lag, created_at, started_at, ended_at, updated_at
"""
_FREE = "(lease_until IS NULL OR lease_until <= now())"
_ENDED = "('FAILED', 'STOPPED', 'FINISHED')"
_FORGIVEN = f"jsonb_set(applied, '{{{OUT_OF_MEMORY}}}', coalesce(applied -> '{OUT_OF_MEMORY}', '{{}}') - %(passed)s::text[])"
"""What is noted of a job's INSERTs, but how often those of ``passed`` ran out of memory: a batch of theirs went well since."""


class JobRepository:
    """Reads and writes ``stream_job`` inside the caller's transaction; the clock is Postgres's."""

    def __init__(self, conn: Connection) -> None:
        self._conn = conn

    def _jobs(self, query: str, values: Mapping[str, Any]) -> list[Job]:
        with self._conn.cursor(row_factory=dict_row) as cur:
            rows = cur.execute(query, values).fetchall()
        return [_job(row) for row in rows]

    def create(  # noqa: PLR0913 - the columns of a row
        self,
        job_id: UUID,
        *,
        name: str,
        statement: str,
        database: str,
        settings: Mapping[str, str],
        tables: Mapping[str, Any],
        starts: Mapping[str, Any],
        principal: str,
    ) -> None:
        """Add a job that waits for a server."""
        query = """
            INSERT INTO stream_job (job_id, name, statement, database, settings, tables, starts, principal, state)
            VALUES (%s, %s, %s, %s, %s, %s, %s, %s, 'CREATED')
        """
        values = (job_id, name, statement, database, Jsonb(dict(settings)), Jsonb(dict(tables)), Jsonb(dict(starts)), principal)
        self._conn.execute(query, values)

    def get(self, job_id: UUID) -> Job | None:
        """One job, or None."""
        jobs = self._jobs(f"SELECT {_COLUMNS} FROM stream_job WHERE job_id = %(job)s", {"job": job_id})  # noqa: S608
        return jobs[0] if jobs else None

    def all(self, *, principal: str | None) -> list[Job]:
        """Every job, or a principal's, the newest first."""
        query = f"""
            SELECT {_COLUMNS} FROM stream_job WHERE %(principal)s::text IS NULL OR principal = %(principal)s
            ORDER BY created_at DESC, job_id
        """  # noqa: S608 - the columns are a literal of this module
        return self._jobs(query, {"principal": principal})

    def unended(self, principal: str) -> int:
        """How many jobs of a principal have not ended; until the transaction ends nobody else asks for the same one."""
        self._conn.execute("SELECT pg_advisory_xact_lock(hashtext('stream_job'), hashtext(%s))", (principal,))
        query = f"SELECT count(*) FROM stream_job WHERE principal = %s AND state NOT IN {_ENDED}"  # noqa: S608
        row = self._conn.execute(query, (principal,)).fetchone()
        assert row is not None
        return int(row[0])

    def figures(self) -> list[tuple[UUID, int, int, JobLag | None]]:
        """Job, batches, rows and lag of all that have not ended."""
        query = f"SELECT job_id, batches, rows, lag FROM stream_job WHERE state NOT IN {_ENDED}"  # noqa: S608
        rows = self._conn.execute(query).fetchall()
        return [(job_id, batches, count, JobLag.parse(lag)) for job_id, batches, count, lag in rows]

    def take(self, owner: UUID, server: str, *, most: int, seconds: float = JOB_LEASE_SECONDS, leaving: Collection[UUID] = ()) -> list[Job]:
        """Become the one who runs jobs nobody runs now, but for those of ``leaving``; each gets a new epoch.

        In turns among principals, first whoever has fewest that run for this owner, and of one those that wait longest.
        """
        # Said of the row that is locked, too: Postgres does not look again at what is numbered, and a job may have been stopped since.
        is_waiting = f"state NOT IN {_ENDED} AND {_FREE} AND next_start <= now() AND job_id <> ALL(%(leaving)s::uuid[])"
        query = f"""
            UPDATE stream_job SET owner = %(owner)s, server = %(server)s, epoch = epoch + 1,
                lease_until = now() + make_interval(secs => %(seconds)s), restarts = restarts + (state <> 'CREATED')::int,
                state = 'RUNNING', started_at = now(), updated_at = now()
            WHERE job_id IN (
                SELECT job_id FROM stream_job JOIN (
                    SELECT job_id, row_number() OVER (PARTITION BY principal ORDER BY next_start)
                        + (SELECT count(*) FROM stream_job AS own
                           WHERE own.owner = %(owner)s AND own.state = 'RUNNING' AND own.principal = free.principal) AS turn
                    FROM stream_job AS free
                    WHERE {is_waiting}
                ) AS waiting USING (job_id)
                WHERE {is_waiting}
                ORDER BY turn, next_start LIMIT %(most)s FOR UPDATE OF stream_job SKIP LOCKED)
            RETURNING {_COLUMNS}
        """  # noqa: S608
        return self._jobs(query, {"owner": owner, "server": server, "most": most, "seconds": seconds, "leaving": list(leaving)})

    def begin(self, lease: JobLease, part: str, starts: Mapping[str, Any], *, checkpoint: str | None) -> bool:
        """Keep where an INSERT's tables begin; False where the lease is lost.

        ``checkpoint`` is noted where no batch was committed yet.
        """
        query = """
            UPDATE stream_job SET starts = starts || jsonb_build_object(%(part)s::text, %(starts)s::jsonb),
                applied = CASE WHEN %(checkpoint)s::text IS NULL THEN '{}' ELSE
                    jsonb_build_object(%(part)s::text, jsonb_build_object('checkpoint', %(checkpoint)s::text, 'batch', -1)) END || applied
            WHERE job_id = %(job)s AND epoch = %(epoch)s AND state = 'RUNNING'
        """
        values = {"part": part, "starts": Jsonb(dict(starts)), "checkpoint": checkpoint, "job": lease.job_id, "epoch": lease.epoch}
        return self._conn.execute(query, values).rowcount == 1

    def renew(self, owner: UUID, jobs: Collection[UUID], seconds: float = JOB_LEASE_SECONDS) -> set[UUID]:
        """Hold on to these jobs of an owner, also where it is late and nobody has taken them; returns those it still has."""
        query = """
            UPDATE stream_job SET lease_until = now() + make_interval(secs => %s)
            WHERE owner = %s AND job_id = ANY(%s) AND state = 'RUNNING' RETURNING job_id
        """
        return {job_id for (job_id,) in self._conn.execute(query, (seconds, owner, list(jobs)))}

    def requests(self, owner: UUID) -> dict[UUID, JobRequest]:
        """What is asked of an owner's jobs."""
        query = "SELECT job_id, wish FROM stream_job WHERE owner = %s AND wish IS NOT NULL"
        return {job_id: JobRequest(request) for job_id, request in self._conn.execute(query, (owner,))}

    def clock(self) -> float:
        """The time of Postgres, in seconds since 1970, by which `aligned` tells who is idle."""
        row = self._conn.execute("SELECT extract(epoch FROM clock_timestamp())::float8").fetchone()
        assert row is not None
        return float(row[0])

    def aligned(self, group: str) -> list[tuple[str, str, int]]:
        """Job, part and watermark of each running query of an alignment group that others wait for, on whichever server."""
        query = """
            SELECT job_id::text, part.key, (told->>'watermark')::bigint
            FROM stream_job, jsonb_each(source) AS part, jsonb_array_elements(part.value) AS one,
                LATERAL (SELECT one.value->'alignment') AS _ (told)
            WHERE state = 'RUNNING' AND lease_until > now() AND told->>'group' = %s AND told->>'watermark' IS NOT NULL
                AND coalesce((told->>'idleAt')::float8 > extract(epoch FROM clock_timestamp()), true)
        """
        return self._conn.execute(query, (group,)).fetchall()

    def commit(  # noqa: PLR0913 - what is noted
        self,
        lease: JobLease,
        part: str,
        *,
        checkpoint: str,
        batch: int,
        rows: int,
        watermark: int | None,
        plan: Mapping[str, Any] | None = None,
    ) -> bool:
        """Note a batch in the transaction that commits its rows; False where the lease is lost or the batch was noted before.

        ``plan`` is noted with it and says which rows it is. The row is held until the transaction ends: nobody can take the job over
        meanwhile.
        """
        query = f"""
            UPDATE stream_job
            SET applied = (applied #- ARRAY['{OUT_OF_MEMORY}', %(part)s::text])
                    || jsonb_build_object(%(part)s::text, %(plan)s::jsonb || jsonb_build_object(
                        'checkpoint', %(checkpoint)s::text, 'batch', %(batch)s::bigint)),
                batches = batches + 1, rows = rows + %(rows)s, watermark = greatest(watermark, %(watermark)s),
                attempts = 0, updated_at = now()
            WHERE job_id = %(job)s AND epoch = %(epoch)s AND state = 'RUNNING' AND NOT coalesce(
                applied -> %(part)s ->> 'checkpoint' = %(checkpoint)s AND (applied -> %(part)s ->> 'batch')::bigint >= %(batch)s, false)
        """  # noqa: S608 - the key is a literal of the model
        values = {
            "job": lease.job_id, "epoch": lease.epoch, "part": part, "checkpoint": checkpoint, "batch": batch, "rows": rows,
            "watermark": watermark, "plan": Jsonb(dict(plan or {})),
        }  # fmt: skip
        return self._conn.execute(query, values).rowcount == 1

    def progress(self, lease: JobLease, *, source: Mapping[str, Any], lag: JobLag | None, passed: Collection[str] = ()) -> bool:
        """Note what was read, and of which INSERTs a batch went well, also one without rows; False where the lease is lost."""
        query = "UPDATE stream_job SET source = %(source)s, lag = %(lag)s, updated_at = now()"
        query += f", attempts = 0, applied = {_FORGIVEN}" if passed else ""
        query += " WHERE job_id = %(job)s AND epoch = %(epoch)s AND state = 'RUNNING'"
        lag_text = None if lag is None else str(lag)
        values = {"source": Jsonb(dict(source)), "lag": lag_text, "passed": list(passed), "job": lease.job_id, "epoch": lease.epoch}
        return self._conn.execute(query, values).rowcount == 1

    def end(self, lease: JobLease, state: JobState, *, error: str | None = None) -> bool:
        """Give up a job that has ended; False where the lease is lost, or the job was stopped, or made to start again, without it."""
        query = """
            UPDATE stream_job SET state = %s, wish = NULL, owner = NULL, lease_until = NULL, ended_at = now(), updated_at = now(),
                error = coalesce(%s, error), error_at = CASE WHEN %s::text IS NULL THEN error_at ELSE now() END
            WHERE job_id = %s AND epoch = %s AND state = 'RUNNING'
        """
        return self._conn.execute(query, (state, error, error, lease.job_id, lease.epoch)).rowcount == 1

    def retry(
        self, lease: JobLease, *, error: str | None, after: timedelta, passed: Collection[str] = (), out_of_memory: str | None = None
    ) -> bool:
        """Give up a job that is to start again after a while, and one that is to stop for good; False as `end`.

        Without an error the start was asked for. ``passed`` as at `progress`; ``out_of_memory`` is the INSERT that took too much.
        """
        applied = _FORGIVEN if passed else "applied"
        if out_of_memory is not None:
            times = f"coalesce(({applied} #>> ARRAY['{OUT_OF_MEMORY}', %(part)s::text])::int, 0) + 1"
            others = f"coalesce({applied} -> '{OUT_OF_MEMORY}', '{{}}')"
            applied = f"jsonb_set({applied}, '{{{OUT_OF_MEMORY}}}', {others} || jsonb_build_object(%(part)s::text, {times}))"
        query = f"""
            UPDATE stream_job SET state = CASE WHEN wish = 'STOP' THEN 'STOPPED' ELSE 'RESTARTING' END, owner = NULL, lease_until = NULL,
                ended_at = CASE WHEN wish = 'STOP' THEN now() ELSE ended_at END, next_start = now() + %(after)s,
                wish = CASE WHEN wish IN ('RESTART', 'STOP') THEN NULL ELSE wish END, updated_at = now(),
                attempts = CASE WHEN %(error)s::text IS NULL THEN 0 WHEN %(passed)s::text[] <> '{{}}' THEN 1 ELSE attempts + 1 END,
                applied = {applied},
                error = coalesce(%(error)s, error), error_at = CASE WHEN %(error)s::text IS NULL THEN error_at ELSE now() END
            WHERE job_id = %(job)s AND epoch = %(epoch)s AND state = 'RUNNING'
        """  # noqa: S608
        values = {
            "error": error, "after": after, "passed": list(passed), "part": out_of_memory, "job": lease.job_id, "epoch": lease.epoch,
        }  # fmt: skip
        return self._conn.execute(query, values).rowcount == 1

    def release(self, lease: JobLease) -> None:
        """Let another server go on with the job at once: this one stops."""
        query = "UPDATE stream_job SET owner = NULL, lease_until = NULL, next_start = now() WHERE job_id = %s AND epoch = %s"
        self._conn.execute(query, (lease.job_id, lease.epoch))

    def servers(self) -> list[str]:
        """Where jobs run now."""
        return [server for (server,) in self._conn.execute(f"SELECT DISTINCT server FROM stream_job WHERE NOT {_FREE}")]  # noqa: S608

    def abandon(self, server: str) -> None:
        """Let others take the jobs of a server that is known to be dead."""
        self._conn.execute("UPDATE stream_job SET lease_until = now() WHERE server = %s", (server,))

    def request(self, job_id: UUID, request: JobRequest) -> None:
        """Ask the job's server for something; a job without one is stopped, or made to start, here and now."""
        values = {"job": job_id, "wish": request}
        if request is JobRequest.RESTART:
            query = f"""
                UPDATE stream_job SET wish = CASE WHEN {_FREE} THEN NULL ELSE %(wish)s END, attempts = 0, ended_at = NULL,
                    applied = applied - '{OUT_OF_MEMORY}',
                    state = CASE WHEN {_FREE} AND state <> 'CREATED' THEN 'RESTARTING' ELSE state END, next_start = now(),
                    updated_at = now()
                WHERE job_id = %(job)s
            """  # noqa: S608 - the condition is a literal of this module
        elif request is JobRequest.DRAIN:
            query = f"""
                UPDATE stream_job SET wish = %(wish)s, next_start = now(), updated_at = now()
                WHERE job_id = %(job)s AND state NOT IN {_ENDED}
            """  # noqa: S608
        else:
            query = f"""
                UPDATE stream_job SET wish = CASE WHEN {_FREE} THEN NULL ELSE %(wish)s END, updated_at = now(),
                    state = CASE WHEN {_FREE} THEN 'STOPPED' ELSE state END, ended_at = CASE WHEN {_FREE} THEN now() ELSE ended_at END
                WHERE job_id = %(job)s AND state NOT IN {_ENDED}
            """  # noqa: S608
        self._conn.execute(query, values)

    def ended(self, *, ago: timedelta, most: int) -> list[UUID]:
        """Some jobs that ended so long ago, at most so many, in an order of chance: one that cannot be removed holds up none for long."""
        query = f"SELECT job_id FROM stream_job WHERE state IN {_ENDED} AND ended_at < now() - %s ORDER BY random() LIMIT %s"  # noqa: S608
        return [job_id for (job_id,) in self._conn.execute(query, (ago, most))]

    def forget(self, job_id: UUID, *, ended: timedelta) -> bool:
        """Remove a job; False where it has not ended so long ago any more, or somebody else is at it."""
        query = f"""
            DELETE FROM stream_job WHERE job_id IN (
                SELECT job_id FROM stream_job WHERE job_id = %s AND state IN {_ENDED} AND ended_at < now() - %s FOR UPDATE SKIP LOCKED)
        """  # noqa: S608
        return self._conn.execute(query, (job_id, ended)).rowcount > 0


def _job(row: Mapping[str, Any]) -> Job:
    typed = {"state": JobState(row["state"]), "requested": _request(row["requested"]), "lag": JobLag.parse(row["lag"])}
    return Job(**{**row, **typed})


def _request(text: str | None) -> JobRequest | None:
    return None if text is None else JobRequest(text)
