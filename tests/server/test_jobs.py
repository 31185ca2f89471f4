"""``/jobs`` and the statements about jobs: seen and steered by their makers, and by nobody else. What they run is in `tests/torture`."""

from __future__ import annotations

from uuid import uuid4

from flask.testing import FlaskClient

from gateway.gateway import Gateway
from tests.server.access.test_access import As, ada, admin

__all__ = ["ada", "admin"]


def made(gateway: Gateway, token: As) -> str:
    """A job of the token's principal."""
    caller = gateway.lake.access.caller(token.token)
    lake = gateway.lake.for_caller(caller)
    return str(lake.jobs.create(name="copy", statement="INSERT INTO u SELECT * FROM t", database="default", settings={}, tables={}))


def test_a_job_is_seen_and_steered_over_http_and_in_sql(client: FlaskClient, gateway: Gateway, ada: As, admin: As) -> None:
    job = made(gateway, ada)
    status, body = ada.call("GET", "/jobs")
    assert (status, [one["id"] for one in body["jobs"]]) == (200, [job])
    assert {key: body["jobs"][0][key] for key in ("name", "state", "principal", "batches")} == {
        "name": "copy", "state": "CREATED", "principal": "ada", "batches": 0,
    }  # fmt: skip
    status, body = ada.call("POST", f"/jobs/{job}/stop", {"drain": False})
    assert (status, body["state"]) == (202, "STOPPED")
    status, body = ada.call("POST", f"/jobs/{job}/stop")
    assert (status, body["errorClass"]) == (409, "IllegalMove")
    status, body = ada.call("POST", f"/jobs/{job}/restart")
    assert (status, body["state"]) == (202, "RESTARTING")
    assert ada.sql(f"STOP JOB '{job}'") == (200, [["OK"]])
    assert ada.sql("SHOW JOBS")[1][0][:3] == [job, "copy", "STOPPED"]
    assert ada.sql(f"DESCRIBE JOB '{job}'")[1][0][4] == "INSERT INTO u SELECT * FROM t"
    assert ada.sql(f"ALTER JOB '{job}' RESTART") == (200, [["OK"]])
    assert ada.call("POST", f"/jobs/{job}/stop", {"drian": True})[0] == 400


def test_a_drain_that_would_leave_windows_out_is_refused(client: FlaskClient, gateway: Gateway, admin: As) -> None:
    timed = "CREATE TABLE k (a INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ('connector' = 'datagen')"
    assert admin.sql(timed) == (200, [["OK"]])
    lake = gateway.lake.for_caller(gateway.lake.access.caller(admin.token))
    text = "INSERT INTO t SELECT a FROM k GROUP BY a"
    job = lake.jobs.create(name="windows", statement=text, database="default", settings={}, tables={})
    status, body = admin.call("POST", f"/jobs/{job}/stop", {"drain": True})
    assert (status, body["errorClass"]) == (400, "UnsupportedStatement")
    assert "k is a datagen table with a WATERMARK" in body["detail"]
    assert admin.call("POST", f"/jobs/{job}/stop", {"drain": False})[1]["state"] == "STOPPED"


def test_somebody_elses_job_is_theirs(client: FlaskClient, gateway: Gateway, ada: As, admin: As) -> None:
    job = made(gateway, admin)
    assert ada.call("GET", "/jobs") == (200, {"jobs": []})
    assert ada.sql("SHOW JOBS") == (200, [])
    for status, error in (ada.call("GET", f"/jobs/{job}"), ada.call("POST", f"/jobs/{job}/stop")):
        assert (status, error["errorClass"]) == (403, "Forbidden")
    assert ada.sql(f"STOP JOB '{job}'") == (403, "Forbidden")
    for unknown in (str(uuid4()), "no-id"):
        status, error = admin.call("GET", f"/jobs/{unknown}")
        assert (status, error["errorClass"]) == (404, "JobNotExist")
    assert [one["id"] for one in admin.call("GET", "/jobs")[1]["jobs"]] == [job]
