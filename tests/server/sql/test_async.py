"""Statements submitted to be asked for later, and what else may be said about a run: `max_rows`, `dry_run`."""

from __future__ import annotations

import io
import json
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.ipc as ipc
import pytest
from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from gateway.gateway import Gateway
from gateway.operation import Operation
from lake import EVERYBODY
from lake.access.callers import ADMINISTRATOR
from server.flink.statements import FIRST_PAGE_SECONDS
from server.process.services import AT_ONCE, EXTENSION
from sql.execution.results import ResultSet
from tests.fix_memory import LastingPath
from tests.gateway.held import Held, HeldStep, in_background, run_out
from tests.server.protocols_of_a_module import Endpoints, endpoints
from tests.waiting import eventually

ROWS = 12_000
AS_ROOT = {"Authorization": "Bearer root"}


@pytest.fixture(scope="module")
def opened(module_dsn: str, lasting_path: LastingPath) -> Iterator[Endpoints]:
    with endpoints(module_dsn, lasting_path("async"), SLUICE_TOKEN="root") as made:
        yield made


@pytest.fixture(scope="module")
def gateway(opened: Endpoints) -> Gateway:
    return opened.gateway


@pytest.fixture(scope="module")
def client(opened: Endpoints) -> FlaskClient:
    app = opened.app.test_client()
    app.environ_base["HTTP_AUTHORIZATION"] = "Bearer root"
    app.post("/sql", data="CREATE TABLE numbers (n INT, s STRING)")
    body = io.BytesIO()
    table = pa.table({"n": pa.array(range(ROWS), pa.int32()), "s": [f"row {n}" for n in range(ROWS)]})
    with ipc.new_stream(body, table.schema) as writer:
        writer.write_table(table)
    app.post("/tables/default/numbers/rows", data=body.getvalue(), content_type="application/vnd.apache.arrow.stream")
    return app


def submit(client: FlaskClient, statement: str, **members: Any) -> TestResponse:
    answer = client.post("/sql", json={"statement": statement, "async": True, **members})
    assert answer.status_code == 202, answer.text
    return answer


def numbers(answer: TestResponse) -> list[int]:
    assert answer.status_code == 200, answer.text
    return [row[0] for row in json.loads(answer.text)["rows"]]


def test_a_statement_is_submitted_polled_and_its_pages_are_read_twice(client: FlaskClient) -> None:
    submitted = submit(client, "SELECT n, s FROM numbers")
    at = submitted.headers["Location"]
    assert at == f"/statements/{submitted.json['statementId']}"  # type: ignore[index]
    done = client.get(f"{at}?wait=30").json
    assert done is not None
    assert done["state"] == "FINISHED"
    assert done["result"] == f"{at}/result"
    assert done["expiresAt"] > "2026"
    pages, following = [], f"{at}/result?page=0"
    while following:
        answer = client.get(following)
        pages.append((following, numbers(answer)))
        following = answer.headers.get("Link", "").partition(">")[0].removeprefix("<")
    assert len(pages) > 2
    assert sorted(n for _, page in pages for n in page) == list(range(ROWS))
    assert [numbers(client.get(path)) for path, _ in reversed(pages)] == [page for _, page in reversed(pages)]
    assert sorted(numbers(client.get(f"{at}/result"))) == list(range(ROWS))
    arrow = client.get(f"{at}/result?page=1", headers={"Accept": "application/vnd.apache.arrow.stream"})
    assert ipc.open_stream(arrow.data).read_all().column("n").to_pylist() == pages[1][1]
    assert client.get(f"{at}/result?page=1", headers={"Accept": "text/csv"}).text.startswith(f"n,s\n{pages[1][1][0]},")
    beyond = client.get(f"{at}/result?page={len(pages)}")
    assert (beyond.status_code, beyond.json["errorClass"]) == (400, "InvalidToken")  # type: ignore[index]
    assert client.delete(at).status_code == 200
    assert client.get(at).status_code == client.get(f"{at}/result").status_code == 404


def test_the_header_and_the_query_ask_for_it_as_well(client: FlaskClient) -> None:
    asked = client.post("/sql", data="SELECT COUNT(*) FROM numbers", headers={"Prefer": "wait=5, respond-async"})
    assert (asked.status_code, asked.headers["Preference-Applied"]) == (202, "respond-async")
    assert numbers(client.get(asked.headers["Location"] + "/result?wait=30")) == [ROWS]
    asked = client.post("/sql?async=true&max_rows=1", data="SELECT n FROM numbers ORDER BY n", headers={"X-Request-Id": "mine"})
    assert client.get("/statements/mine?wait=30").json["statementId"] == asked.json["statementId"]  # type: ignore[index]
    none = submit(client, "SELECT n FROM numbers WHERE n < 0").headers["Location"]
    assert numbers(client.get(f"{none}/result?page=0&wait=30")) == []


def test_a_failure_is_told_when_it_is_asked_for(client: FlaskClient) -> None:
    at = submit(client, "SELECT *\nFROM nothing").headers["Location"]
    status = client.get(f"{at}?wait=30").json
    assert status is not None
    assert (status["state"], status["error"]["errorClass"], status["error"]["line"]) == ("ERROR", "TableNotExist", 2)
    for _ in range(2):
        answer = client.get(f"{at}/result?page=0")
        assert (answer.status_code, answer.json["errorClass"]) == (404, "TableNotExist")  # type: ignore[index]
    stream = submit(client, "SELECT * FROM numbers", mode="streaming").headers["Location"]
    assert "read as they come" in client.get(f"{stream}/result?wait=30").json["detail"]  # type: ignore[index]


def test_it_runs_once_under_a_key_and_belongs_to_its_submitter(client: FlaskClient) -> None:
    client.post("/sql", data="CREATE TABLE once (n INT)")
    for _ in range(2):
        at = client.post(
            "/sql", json={"statement": "INSERT INTO once VALUES (?)", "parameters": [1], "async": True}, headers={"Idempotency-Key": "k1"}
        ).headers["Location"]
        assert numbers(client.get(f"{at}/result?wait=30")) == [1]
    assert client.post("/sql", data="SELECT COUNT(*) FROM once").json["rows"] == [[1]]  # type: ignore[index]
    name = uuid4().hex
    secret = client.post("/tokens", json={"name": name}).json["token"]  # type: ignore[index]
    other = {"Authorization": f"Bearer {secret}"}
    for answer in (client.get(at, headers=other), client.get(f"{at}/result", headers=other), client.delete(at, headers=other)):
        assert answer.status_code == 404
    assert client.get(at).status_code == 200


def test_a_name_is_its_submitters_own(client: FlaskClient) -> None:
    secret = client.post("/tokens", json={"name": uuid4().hex}).json["token"]  # type: ignore[index]
    named = {"X-Request-Id": f"nightly-{uuid4().hex}"}
    submitters = [(named, 1), ({**named, "Authorization": f"Bearer {secret}"}, 2)]
    for headers, number in submitters:
        asked = client.post("/sql", json={"statement": f"SELECT {number} AS n", "async": True}, headers=headers)
        assert asked.status_code == 202, asked.text
    for headers, number in submitters:
        assert client.get(f"/statements/{named['X-Request-Id']}", headers=headers).status_code == 200
        assert numbers(client.get(f"/statements/{named['X-Request-Id']}/result?wait=30", headers=headers)) == [number]


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> Iterator[Held]:
    one = Held(False)
    monkeypatch.setattr("gateway.planning.build", lambda tree: one)
    yield one
    one.let_go.set()


def test_what_runs_is_told_and_canceled(client: FlaskClient, held: Held) -> None:
    at = submit(client, "SELECT held()").headers["Location"]
    assert eventually(lambda: client.get(at).json["state"] == "RUNNING")  # type: ignore[index]
    waiting = client.get(f"{at}/result?page=0")
    assert (waiting.status_code, waiting.headers["Location"], waiting.json["state"]) == (202, at, "RUNNING")  # type: ignore[index]
    assert client.delete(at).json["state"] == "CANCELED"  # type: ignore[index]
    assert client.get(at).status_code == 404


@pytest.fixture
def step(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> Iterator[HeldStep]:
    made = HeldStep()
    monkeypatch.setattr(gateway.lake._core, "_hook", made)
    monkeypatch.setattr("gateway.operation.STOP_SECONDS", 60.0)  # what is let go ends in time on a busy machine, too
    yield made
    made.let_go.set()


def committing(client: FlaskClient, step: HeldStep) -> tuple[str, str]:
    """A statement whose commit is decided, and not told yet; its table and where it is asked for."""
    table = f"t{uuid4().hex}"
    client.post("/sql", data=f"CREATE TABLE {table} (n INT)")
    step.hold("decided")
    at = submit(client, f"INSERT INTO {table} VALUES (1)").headers["Location"]
    assert step.reached.wait(60)
    return table, at


def test_a_cancel_waits_for_what_is_being_committed(opened: Endpoints, client: FlaskClient, step: HeldStep) -> None:
    _, at = committing(client, step)
    waiting = opened.app.extensions[EXTENSION].waiting
    canceled = in_background(lambda: client.delete(at).json)
    assert eventually(lambda: waiting._taken.total() == 1)  # on one of the threads that may wait
    step.let_go.set()
    assert canceled() == {"statementId": at.rpartition("/")[2], "state": "FINISHED"}


def test_a_cancel_without_a_thread_to_wait_tells_that_it_still_runs(opened: Endpoints, client: FlaskClient, step: HeldStep) -> None:
    _, at = committing(client, step)
    services = opened.app.extensions[EXTENSION]
    with ExitStack() as places:
        while places.enter_context(services.may_wait(ADMINISTRATOR)):
            pass
        assert client.delete(at).json["state"] == "RUNNING"  # type: ignore[index]
    step.let_go.set()
    assert eventually(lambda: client.get(at).json.get("state") == "FINISHED")  # type: ignore[union-attr]


def test_a_cancel_tells_what_it_could_not_find_out(client: FlaskClient, step: HeldStep, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.operation.STOP_SECONDS", 0.2)
    _, at = committing(client, step)
    answer = client.delete(at).json
    assert answer is not None
    assert answer["state"] == "ERROR"
    assert (answer["error"]["status"], answer["error"]["errorClass"]) == (503, "OutcomeUnknown")
    assert "may have taken effect" in answer["error"]["detail"]
    again = client.get(at).json
    assert again is not None
    assert (again["state"], again["error"]["errorClass"]) == ("ERROR", "OutcomeUnknown")


def test_who_waits_for_a_statement_that_is_not_kept_is_told_that_its_outcome_is_open(
    opened: Endpoints, client: FlaskClient, gateway: Gateway, step: HeldStep, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.operation.STOP_SECONDS", 0.2)
    table = f"t{uuid4().hex}"
    client.post("/sql", data=f"CREATE TABLE {table} (n INT)")
    step.hold("decided")
    ran = in_background(lambda: opened.app.test_client().post("/sql", data=f"INSERT INTO {table} VALUES (1)", headers=AS_ROOT))
    assert step.reached.wait(60)
    (operation,) = gateway.running()
    waiting = opened.app.extensions[EXTENSION].waiting
    asked = in_background(lambda: opened.app.test_client().get(f"/statements/{operation.handle}?wait=30", headers=AS_ROOT))
    assert eventually(lambda: waiting._taken.total() == 1)
    operation.cancel()
    told = asked().json
    assert (told["state"], told["error"]["errorClass"]) == ("ERROR", "OutcomeUnknown")
    assert ran().json["errorClass"] == "OutcomeUnknown"


def test_an_administrator_who_cancels_sees_no_secret_of_what_took_effect(
    client: FlaskClient, step: HeldStep, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.operation.STOP_SECONDS", 0.2)
    secret = client.post("/tokens", json={"name": uuid4().hex, "administrator": True}).json["token"]  # type: ignore[index]
    carol, table = {"Authorization": f"Bearer {secret}"}, f"t{uuid4().hex}"
    first = f"CREATE DATABASE d{table} WITH ('my.password' = 'hush')"
    client.post("/sql", data=f"CREATE TABLE {table} (n INT)")
    step.hold("decided")
    at = client.post("/sql", json={"statement": f"{first}; INSERT INTO {table} VALUES (1)", "async": True}, headers=carol).headers[
        "Location"
    ]
    assert step.reached.wait(60)
    told = client.delete(at).json
    assert told is not None
    assert told["error"]["completed"] == [first.replace("'hush'", "'******'")]
    own = client.get(at, headers=carol).json
    assert own is not None
    assert own["error"]["completed"] == [first]


def test_a_cancel_by_flinks_protocol_of_what_stays_open_is_no_cancel(
    client: FlaskClient, step: HeldStep, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.operation.STOP_SECONDS", 0.2)
    table = f"t{uuid4().hex}"
    client.post("/sql", data=f"CREATE TABLE {table} (n INT)")
    session = client.post("/v2/sessions", json={}).get_json()["sessionHandle"]
    step.hold("decided")
    operation = client.post(f"/v2/sessions/{session}/statements", json={"statement": f"INSERT INTO {table} VALUES (1)"})
    path = f"/v2/sessions/{session}/operations/{operation.get_json()['operationHandle']}"
    assert step.reached.wait(60)
    assert client.post(f"{path}/cancel").json == {"status": "ERROR"}
    assert client.get(f"{path}/status").json == {"status": "ERROR"}


def over(opened: Endpoints, gateway: Gateway, reached: threading.Event, text: str) -> TestResponse:
    """What is answered to a text whose time limit is over where it is held."""
    ran = in_background(lambda: opened.app.test_client().post("/sql?timeout=600", data=text, headers=AS_ROOT, buffered=True))
    assert reached.wait(60)
    (operation,) = gateway.running()
    run_out(operation)
    answer: TestResponse = ran()
    return answer


def test_a_time_limit_over_while_it_commits_is_no_408(
    opened: Endpoints, client: FlaskClient, gateway: Gateway, step: HeldStep, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.operation.STOP_SECONDS", 0.2)
    table = f"t{uuid4().hex}"
    client.post("/sql", data=f"CREATE TABLE {table} (n INT)")
    step.hold("decided")
    answer = over(opened, gateway, step.reached, f"INSERT INTO {table} VALUES (1)")
    assert (answer.status_code, answer.json["errorClass"]) == (503, "OutcomeUnknown")  # type: ignore[index]
    assert "Retry-After" not in answer.headers  # whoever repeats by it would do it twice
    step.let_go.set()
    assert eventually(lambda: client.post("/sql", data=f"SELECT COUNT(*) FROM {table}").json["rows"] == [[1]])  # type: ignore[index]


def test_a_text_that_is_stopped_tells_what_took_effect_before(
    opened: Endpoints, client: FlaskClient, gateway: Gateway, request: pytest.FixtureRequest
) -> None:
    table = f"t{uuid4().hex}"
    client.post("/sql", data=f"CREATE TABLE {table} (n INT)")
    waits: Held = request.getfixturevalue("held")
    first = f"INSERT INTO {table} VALUES (1)"
    text = f"{first}; SELECT held()"
    late = over(opened, gateway, waits.reached, text).get_json()
    assert (late["status"], late["statementIndex"], late["completed"]) == (408, 1, [first])
    waits.reached.clear()
    statement = gateway.kept_or_running(submit(client, text).get_json()["statementId"], caller=ADMINISTRATOR)
    assert waits.reached.wait(60)
    statement.cancel()
    told = client.get(f"/statements/{statement.handle}").get_json()["error"]
    assert (told["status"], told["statementIndex"], told["completed"]) == (409, 1, [first])
    waits.reached.clear()
    session = client.post("/v2/sessions", json={}).get_json()["sessionHandle"]
    operation = client.post(f"/v2/sessions/{session}/statements", json={"statement": text}).get_json()["operationHandle"]
    assert waits.reached.wait(60)
    client.post(f"/v2/sessions/{session}/operations/{operation}/cancel")
    page = client.get(f"/v2/sessions/{session}/operations/{operation}/result/0").get_json()
    assert f"StatementCanceled: The statement was canceled.\nTook effect before it: {first}\n\tat sluice" in page["errors"][1]


def test_a_bug_tells_what_took_effect_before(client: FlaskClient, monkeypatch: pytest.MonkeyPatch) -> None:
    client.post("/sql", data=f"CREATE TABLE {(table := f't{uuid4().hex}')} (n INT)")

    def broken(tree: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("gateway.planning.build", broken)
    answer = client.post("/sql", data=f"INSERT INTO {table} VALUES (1); SELECT held()").json
    assert answer is not None
    assert (answer["status"], answer["statementIndex"], answer["completed"]) == (500, 1, [f"INSERT INTO {table} VALUES (1)"])


def test_flinks_cancel_waits_for_what_is_being_committed(client: FlaskClient, step: HeldStep) -> None:
    client.post("/sql", data=f"CREATE TABLE {(table := f't{uuid4().hex}')} (n INT)")
    session = client.post("/v2/sessions", json={}).get_json()["sessionHandle"]
    step.hold("decided")
    sent = {"statement": f"INSERT INTO {table} VALUES (1)"}
    operation = client.post(f"/v2/sessions/{session}/statements", json=sent).get_json()["operationHandle"]
    assert step.reached.wait(60)
    canceled = in_background(lambda: client.post(f"/v2/sessions/{session}/operations/{operation}/cancel").get_json())
    status = f"/v2/sessions/{session}/operations/{operation}/status"
    assert client.get(status).get_json() == {"status": "RUNNING"}
    step.let_go.set()
    assert canceled() == {"status": "FINISHED"}
    assert client.get(status).get_json() == {"status": "FINISHED"}


def waits(monkeypatch: pytest.MonkeyPatch) -> list[float | None]:
    """How long this thread waits for operations, which it does not; others of this process do."""
    told: list[float | None] = []
    wait, own = Operation.wait, threading.current_thread()

    def noted(operation: Operation, seconds: float | None) -> bool:
        if threading.current_thread() is not own:
            return wait(operation, seconds)
        told.append(seconds)
        return False

    monkeypatch.setattr(Operation, "wait", noted)
    return told


def test_who_waits_beyond_the_places_is_answered_at_once(
    opened: Endpoints, client: FlaskClient, held: Held, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each waiting request holds a thread; one caller could take them all."""
    services = opened.app.extensions[EXTENSION]
    waited = waits(monkeypatch)
    statement = submit(client, "SELECT held()").get_json()["statementId"]
    with ExitStack() as places:
        while places.enter_context(services.may_wait(ADMINISTRATOR)):
            pass
        for path in (f"/statements/{statement}?wait=20", f"/statements/{statement}/result?wait=20"):
            assert client.get(path).get_json()["state"] in ("INITIALIZED", "PENDING", "RUNNING")
    assert client.get(f"/statements/{statement}?wait=20").status_code == 200
    assert client.get(f"/statements/{statement}?wait=20", headers={AT_ONCE: "1"}).status_code == 200, "asked by a server without a place"
    assert waited == [0.0, 0.0, 20.0, 0.0]


def test_pages_of_flinks_protocol_wait_on_the_same_places(
    opened: Endpoints, client: FlaskClient, held: Held, monkeypatch: pytest.MonkeyPatch
) -> None:
    services = opened.app.extensions[EXTENSION]
    session = client.post("/v2/sessions", json={}).get_json()["sessionHandle"]
    submitted = client.post(f"/v2/sessions/{session}/statements", json={"statement": "SELECT held()"}).get_json()
    page = f"/v2/sessions/{session}/operations/{submitted['operationHandle']}/result/0"
    waited = waits(monkeypatch)
    with ExitStack() as places:
        while places.enter_context(services.may_wait(ADMINISTRATOR)):
            pass
        assert client.get(page).get_json()["resultType"] == "NOT_READY"
    assert client.get(page).get_json()["resultType"] == "NOT_READY"
    assert [seconds for seconds in waited if seconds] == [FIRST_PAGE_SECONDS]


def test_what_nobody_asks_for_goes(gateway: Gateway) -> None:
    kept = gateway.keep("SHOW DATABASES")
    assert kept.operation.wait(120)
    read = kept.result()
    gateway.kept.expire()
    assert gateway.kept.find(kept.operation.handle, EVERYBODY) is kept
    kept._seconds = -1
    gateway.kept.expire()
    assert gateway.kept.find(kept.operation.handle, EVERYBODY) is None
    assert kept.operation.result is not None
    assert kept.operation.result.closed
    with pytest.raises(Exception, match="let go"):
        read.collect()


def test_more_rows_than_wanted_are_cut_off_and_it_says_so(client: FlaskClient) -> None:
    cut = client.post("/sql", json={"statement": "SELECT n FROM numbers", "max_rows": 10})
    assert (len(cut.json["rows"]), cut.json["truncated"]) == (10, True)  # type: ignore[index]
    assert "truncated" not in client.post("/sql?max_rows=10", data="SELECT n FROM numbers WHERE n < 10").json  # type: ignore[operator]
    assert client.post("/sql?max_rows=0", data="SELECT n FROM numbers", headers={"Accept": "text/csv"}).text == "n\n"
    assert len(client.post("/sql?max_rows=3", data="SELECT n FROM numbers LIMIT 5").json["rows"]) == 3  # type: ignore[index]
    assert client.post("/sql?max_rows=-1", data="SELECT 1").status_code == 400


def test_a_cut_result_lets_the_rest_go() -> None:
    closed = []
    whole = ResultSet.of_strings(("a",), [("1",), ("2",)])
    whole.on_close(lambda: closed.append(True))
    cut = whole.limited(1)
    assert (cut.collect(), cut.truncated, closed) == ([("1",)], True, [True])


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("DROP TABLE numbers", "The DROP statement can be read; nothing was run."),
        ("INSERT OVERWRITE numbers SELECT 1, 'x'", "There is no Spark"),
        ("CALL sys.expire_snapshots('default.numbers')", "true"),
        ("SELECT 1; SELECT 2", "A dry run takes one statement"),
        ("SELEC", "a statement such as SELECT"),
    ],
)
def test_a_dry_run_changes_nothing(client: FlaskClient, statement: str, said: str) -> None:
    answer = client.post("/sql", json={"statement": statement, "dry_run": True})
    assert said in answer.text
    assert client.post("/sql", data="SELECT COUNT(*) FROM numbers").json["rows"] == [[ROWS]]  # type: ignore[index]
