"""Jobs, statements, sessions, compactions, access and settings: what is shown, to whom, and what their buttons do."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable
from dataclasses import replace
from uuid import UUID

import pytest
from flask.testing import FlaskClient

from catalog.records import CompactionRunRow
from gateway.gateway import Gateway
from lake import Lake
from model.errors import StatementCanceled
from model.identifier import Identifier
from model.work.job import JobLease, JobState
from model.work.job_lag import JobLag
from server.app import create_app
from server.process.services import Services
from server.settings.settings import read_settings
from tests.fix_gateway import held as held
from tests.gateway.held import Held, in_background
from tests.server.pages.test_sql_page import Asker
from tests.waiting import eventually


@pytest.fixture
def visitor(client: FlaskClient) -> Asker:
    return Asker(client)


def made_job(lake: Lake, name: str) -> UUID:
    return lake.jobs.create(
        name=name, statement="INSERT INTO u SELECT * FROM t", database="default", settings={"a.password": "hush"}, tables={}
    )


def test_jobs_show_what_troubles_them_and_their_last_hour(visitor: Asker, gateway: Gateway) -> None:
    assert "No jobs yet" in visitor.page("jobs")
    job_id = made_job(gateway.lake, "copy <b>")
    owner = UUID(int=7)
    with gateway.lake.catalog.transaction() as tx:
        (job,) = tx.jobs.take(owner, "here/1", most=1)
    lease = JobLease(job_id=job_id, epoch=job.epoch)
    for batch, lag in enumerate(("9 snapshots", "4 snapshots", "0 snapshots")):
        with gateway.lake.catalog.transaction() as tx:
            tx.jobs.commit(lease, "0", checkpoint="c", batch=batch, rows=1000, watermark=None)
            tx.jobs.progress(lease, source={"0": [{"description": "t", "numInputRows": 10}]}, lag=JobLag.parse(lag))
        gateway.jobs.points.look()
    page = visitor.page("jobs")
    assert 'aria-label="At most 9 snapshots behind in the last hour"' in page
    assert "3 000" in page.replace("\u202f", " ")
    detail = visitor.page(f"jobs/{job_id}")
    assert "copy <b>" in detail
    assert "hush" not in detail
    assert "now 0" in detail
    with gateway.lake.catalog.transaction() as tx:
        tx.jobs.end(lease, JobState.FAILED, error="The table is gone.\nCaused by: No such file.")
    detail = visitor.page(f"jobs/{job_id}")
    assert "The table is gone." in detail
    assert "<span>because</span> No such file." in detail
    visitor.post(f"jobs/{job_id}/restart")
    assert eventually(lambda: (job := gateway.lake.jobs.get(job_id)).requested is not None or job.state is not JobState.FAILED)
    assert f"ALTER JOB '{job_id}' RESTART" in visitor.page("jobs")
    assert visitor.client.get("/ui/jobs/nonsense").status_code == 404
    visitor.post(f"jobs/{job_id}/explode", status=400)


def test_a_statement_at_work_is_seen_and_canceled(visitor: Asker, gateway: Gateway, held: Callable[..., Held]) -> None:
    assert "Nothing runs." in visitor.page("statements")
    statement = held()
    join = in_background(lambda: gateway.run("SELECT held()").close())
    assert statement.reached.wait(60)
    (operation,) = gateway.running()
    operation.progress.begin("merging", total=4)
    operation.progress.advance(3)
    page = visitor.page("statements")
    assert '<code class="clamp">SELECT held()</code>' in page
    assert "merging: 3 of 4" in page
    assert 'aria-label="3 of 4"' in visitor.page(f"statements/{operation.handle}")
    visitor.post(f"statements/{operation.handle}/cancel")
    statement.let_go.set()
    assert isinstance(join(), StatementCanceled)
    page = visitor.page("statements")
    assert f"DELETE /statements/{operation.handle}" in page
    assert "Nothing runs." in page
    assert "The statement was canceled." in visitor.page(f"statements/{operation.handle}")
    assert "SELECT held()" in visitor.page("statements?outcome=CANCELED")
    assert "None ended so." in visitor.page("statements?outcome=TIMEOUT")
    assert visitor.client.get("/ui/statements/none").status_code == 404


def test_sessions_are_shown_without_secrets_and_closed(visitor: Asker, gateway: Gateway) -> None:
    assert "No sessions" in visitor.page("sessions")
    handle = gateway.open_session("etl <i>", {"x.token": "hush", "y": "shown"})
    page = visitor.page("sessions")
    assert "etl <i>" in page
    assert "hush" not in page
    assert "shown" in page
    visitor.post(f"sessions/{handle}/close")
    assert "No sessions" in visitor.page("sessions")
    visitor.post(f"sessions/{handle}/close", status=404)


def test_compactions_of_all_tables_are_shown_and_asked_for(visitor: Asker, gateway: Gateway) -> None:
    gateway.run("CREATE TABLE t (a INT)").close()
    for n in range(6):
        gateway.run(f"INSERT INTO t VALUES ({n})").close()
    table = gateway.lake.open(Identifier("default", "t"))
    now = dt.datetime.now(dt.UTC)
    run = CompactionRunRow(
        started_at=now - dt.timedelta(seconds=3), ended_at=now, reason="small files", outcome="failed", message="The disk is full.",
        snapshot_id=None, tasks=1, files_before=40, files_after=0, bytes_before=4000, bytes_after=0, row_count=0, server="here",
    )  # fmt: skip
    with gateway.lake.catalog.transaction() as tx:
        tx.compactions.add(table.table_id, run)
        tx.compactions.add(table.table_id, replace(run, outcome="done", message=None, files_after=2, bytes_after=3900, snapshot_id=7))
    page = visitor.page("compactions")
    assert "The disk is full." in page
    assert "40 → 2" in page
    assert "<dd>38 <small>" in page
    visitor.post("compactions", table="default.t", whole="yes")
    page = visitor.page("compactions")
    assert "CALL sys.compact(`table` => 'default.t', compact_strategy => 'full')" in page
    assert len(list(table.files.live_entries(table.latest()))) == 1
    visitor.post("compactions", table="t", status=400)


def test_roles_and_grants_are_given_and_taken_by_statements_that_are_shown(visitor: Asker, gateway: Gateway) -> None:
    gateway.run("CREATE TABLE `t.x` (a INT, `b c` STRING)").close()
    visitor.post("access/roles", role="ana`lyst")
    assert "CREATE ROLE `ana``lyst`" in visitor.page("access")
    visitor.post("access/roles/members", role="ana`lyst", member="ada")
    visitor.post("access/grants", access="SELECT", kind="COLUMN", on="default.t.x", columns="a, b c", principal="ana`lyst", days="30")
    page = visitor.page("access")
    assert "GRANT SELECT (`a`, `b c`) ON TABLE `default`.`t.x` TO `ana``lyst` UNTIL '" in page
    (grant,) = gateway.lake.permissions.grants_of("ana`lyst")
    assert grant.columns is not None
    assert grant.columns.names == ("a", "b c")
    assert gateway.lake.permissions.memberships() == [("ana`lyst", "ada")]
    visitor.post("access/grants/revoke", access="SELECT", kind="COLUMN", on="default.t.x", columns="a\x1fb c", principal="ana`lyst")
    assert gateway.lake.permissions.grants_of("ana`lyst") == []
    visitor.post("access/roles/members", role="ana`lyst", member="ada", take="yes")
    visitor.post("access/roles/drop", role="ana`lyst")
    assert gateway.lake.permissions.roles() == ["admin", "public"]
    visitor.post("access/grants", access="SELECT", kind="TABLE", on="default.none", principal="x")
    assert "Tried" in visitor.page("access")


def test_a_tokens_secret_is_shown_once_and_closes_the_server(visitor: Asker, gateway: Gateway) -> None:
    assert "asks nobody for a token" in visitor.page("access")
    refused = visitor.post("access/tokens", name="laptop", status=400).text
    assert "The first token closes an open server" in refused
    made = visitor.post("access/tokens", name="root", administrator="yes", days="30", status=201).text
    secret = re.search(r"slc_[\w-]+", made)
    assert secret is not None
    assert gateway.lake.access.caller(secret[0]).administrator
    assert visitor.client.get("/ui/access").status_code == 303, "the server asks for a token from now on"
    token = {"Authorization": f"Bearer {secret[0]}"}
    page = visitor.client.get("/ui/access", headers=token).text
    assert secret[0] not in page
    assert ">root<" in page


def test_others_see_their_own_things_only(client: FlaskClient, gateway: Gateway) -> None:
    permissions = gateway.lake.permissions
    permissions.create_token("root", administrator=True)
    _, secret = permissions.create_token("ada")
    theirs = {"Authorization": f"Bearer {secret}"}
    gateway.open_session("not hers")
    gateway.run("CREATE TABLE hidden (a INT)").close()
    assert client.get("/ui/settings", headers=theirs).status_code == 403
    for path, absent in (
        ("sessions", "not hers"),
        ("statements", "CREATE TABLE hidden"),
        ("access", "New token"),
        ("sql", "CREATE TABLE hidden"),
    ):
        answer = client.get(f"/ui/{path}", headers=theirs)
        assert answer.status_code == 200
        assert absent not in answer.text
        assert "/ui/settings" not in answer.text


def test_settings_tell_values_and_where_they_came_from_without_secrets(gateway: Gateway, tmp_path: object) -> None:
    environment = {
        "SLUICE_DATA": str(tmp_path), "SLUICE_TOKEN": "topsecret", "SLUICE_CATALOG_DSN": "postgresql://u:pw123@host/db",
        "SLUICE_DATA_TOKEN": "fs.s3.accessKeySecret=hush", "SLUICE_JOBS_MOST": "3",
    }  # fmt: skip
    client = create_app(Services(gateway=gateway, settings=read_settings(environment))).test_client()
    visitor = Asker(client)
    page = visitor.page("settings")
    for secret in ("topsecret", "pw123", "hush"):
        assert secret not in page
    row = re.search(r"SLUICE_JOBS_MOST.*?</li>", page, re.S)
    assert row is not None
    assert "<code>3</code>" in row[0]
    assert "from the environment; default 8" in row[0]
    assert "host=host" in page
    found = visitor.page("settings?q=jobs+checkpoint")
    assert "SLUICE_JOBS_CHECKPOINTS" in found
    assert "SLUICE_LISTEN" not in found
    assert "No setting speaks of" in visitor.page("settings?q=zzz")
