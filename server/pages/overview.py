"""The overview: what the server stands on, what it does now, and what needs a hand."""

from __future__ import annotations

import time
from dataclasses import dataclass

from flask import request, url_for
from flask.typing import ResponseReturnValue

from catalog.browse import DatabaseSums
from gateway.health import Health
from lake.inspect.browse import Attention, attention, databases
from lake.register.standing import Trouble
from model.access import table_resource
from model.identifier import Identifier
from model.text.sql_text import literal
from model.text.whole_number import whole_number
from model.work.job import Job, JobState
from server.access.access import caller
from server.pages.actions import act
from server.pages.rendering.statements import call
from server.pages.shell import bp, in_menu, render
from server.pages.work import ShownJob, shown_job
from server.process.services import services

_MOST_RUNNING = 20
_MOST_CHARS = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """A statement that waits or runs."""

    handle: str
    text: str
    principal: str
    protocol: str
    state: str
    seconds: float
    mine: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class OverviewPage:
    """All that ``overview.html`` may use."""

    health: Health
    spark_starts: bool
    """Whether Spark is not ready yet, which is no reason to worry."""
    databases: list[DatabaseSums]
    running: list[Running]
    running_total: int
    sessions: int
    streams: int
    queued: int
    jobs: list[ShownJob]
    troubled: list[Job]
    attention: Attention
    damaged: list[Trouble]
    """Tables whose files are damaged or ahead of the catalog."""

    @property
    def calm(self) -> bool:
        """Whether nothing needs a hand."""
        attention = self.attention
        health = self.health
        well = health.postgres.ok and health.warehouse.ok and health.disk.ok and (health.spark.ok or self.spark_starts)
        well = well and health.clock.ok and not (health.catalog.detail or self.damaged)
        return well and not (self.troubled or attention.debts or attention.lagging or attention.leases)


@bp.get("/")
@in_menu("Overview")
def overview() -> ResponseReturnValue:
    """The server at a glance."""
    gateway = services().gateway
    lake = gateway.lake.for_caller(caller())
    operations = [entry for entry in gateway.running() if caller().administrator or entry.owner.admits(caller().owner)]
    jobs = lake.jobs.all()
    health = gateway.health()
    page = OverviewPage(
        health=health,
        damaged=[entry for entry in health.troubles if caller().sees(table_resource(entry.table))][:_MOST_RUNNING],
        spark_starts=gateway.spark_starts(),
        databases=databases(lake),
        running=[
            Running(
                handle=entry.handle,
                text=entry.masked[:_MOST_CHARS],
                principal=entry.principal,
                protocol=entry.origin.protocol,
                state=str(entry.state),
                seconds=time.time() - entry.submitted,
                mine=entry.owner.admits(caller().owner),
            )
            for entry in operations[:_MOST_RUNNING]
        ],
        running_total=len(operations),
        sessions=gateway.open_sessions(),
        streams=gateway.streams(),
        queued=sum(gateway.queued().values()),
        jobs=[shown_job(job) for job in jobs if not job.state.ended],
        troubled=[job for job in jobs if job.state in (JobState.FAILED, JobState.RESTARTING)],
        attention=attention(lake),
    )
    return render("overview.html", here="Overview", page=page, compaction=compaction)


@bp.post("/fix/<what>")
def fix(what: str) -> ResponseReturnValue:
    """Run what a button of the overview stands for."""
    table = Identifier(request.form.get("database", ""), request.form.get("table", ""))
    name = request.form.get("name", "")
    statements = {
        "compact": compaction(table.database, table.table),
        "reset-consumer": call("reset_consumer", table=table, consumer_id=name, next_snapshot_id=_number(request.form.get("next"))),
        "forget-consumer": call("reset_consumer", table=table, consumer_id=name),
        "restart-job": f"ALTER JOB {literal(name)} RESTART",
    }
    if what not in statements:
        return render("missing.html", here="Overview", status=404, what=f"a remedy named {what}")
    return act(statements[what], back=url_for("pages.overview"), done="Started." if what.endswith("job") else "Done.")


def compaction(database: str, table: str) -> str:
    """What *Compact now* runs."""
    return call("compact", table=Identifier(database, table))


def _number(text: str | None) -> int | None:
    return whole_number(text or "")
