"""The log of the server: what each line knows, that it is one line, and that no secret is in it."""

from __future__ import annotations

import errno
import io
import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from flask.testing import FlaskClient
from hypothesis import given
from hypothesis import strategies as st
from py4j.protocol import Py4JNetworkError
from pyspark.errors import PythonException

from gateway.gateway import Gateway
from lake.commit.decided import follow
from model.errors import StorageFull, Unavailable
from server.app import create_app
from server.observe.logs import REPEATS_SECONDS, Masker, OncePerMinute, set_up
from server.process.services import Services
from server.settings.settings import Settings, read_settings

TOKEN = "s3cr3t-of-the-administrator"


def settings(tmp_path: Path, **more: str) -> Settings:
    return read_settings({"SLUICE_DATA": str(tmp_path), "SLUICE_TOKEN": TOKEN, **more})


class Written:
    """What the process wrote to its log so far."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys
        self._text = ""

    def getvalue(self) -> str:
        self._text += self._capsys.readouterr().err
        return self._text


@pytest.fixture
def stream(capsys: pytest.CaptureFixture[str]) -> Iterator[Written]:
    """The log is pytest's again afterwards."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield Written(capsys)
    root.handlers[:] = handlers
    root.setLevel(level)
    logging.captureWarnings(False)


def made(gateway: Gateway, tmp_path: Path, **more: str) -> FlaskClient:
    chosen = settings(tmp_path, **more)
    set_up(chosen)
    return create_app(Services(gateway=gateway, settings=chosen)).test_client()


def lines(stream: Written) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_each_request_and_what_it_does_is_a_json_line(gateway: Gateway, tmp_path: Path, stream: Written) -> None:
    client = made(gateway, tmp_path, SLUICE_LOG_FORMAT="json")
    gateway.listen(lambda operation: logging.getLogger("test").info("A statement ended: %s", operation.text))
    headers = {"Authorization": f"Bearer {TOKEN}", "X-Request-Id": "mine", "User-Agent": "curl"}
    assert client.post("/sql?x=1", data="SHOW DATABASES", headers=headers).status_code == 400
    assert client.post("/sql", data="CREATE TABLE t (id INT) WITH ('my.password' = 'hush')", headers=headers).status_code == 400
    client.get("/readyz")
    client.get("/livez")
    told = [line for line in lines(stream) if line["logger"] == "sluice.request"]
    shown = [(line["method"], line["path"], line["status"]) for line in told]
    assert shown == [("POST", "/sql", 400), ("POST", "/sql", 400), ("GET", "/readyz", 503)]
    for line in told[:2]:
        assert (line["request_id"], line["protocol"], line["principal"]) == ("mine", "sql", "anonymous")
        assert line["level"] == "info"
        assert line["millis"] >= 0
    (ended,) = [line for line in lines(stream) if line["logger"] == "test"]
    assert ended["request_id"] == "mine"
    assert len(ended["statement_id"]) == 36
    assert TOKEN not in stream.getvalue()
    assert "hush" not in stream.getvalue()


def test_a_failure_is_one_line_with_its_cause(gateway: Gateway, tmp_path: Path, stream: Written) -> None:
    made(gateway, tmp_path, SLUICE_LOG_FORMAT="json")
    try:
        raise ValueError(f"postgresql://me:hidden@host/db with {TOKEN}\nand a second line")
    except ValueError:
        logging.getLogger("anything").exception("It failed for Authorization: Bearer abcdefgh, secret=xyz")
    (line,) = lines(stream)
    assert "Traceback" in line["exception"]
    assert "postgresql://me:******@host/db with ******" in line["exception"]
    assert line["message"] == "It failed for Authorization: Bearer ******, secret=******"


def test_text_for_people_has_the_same_and_requests_only_when_asked_for(gateway: Gateway, tmp_path: Path, stream: Written) -> None:
    made(gateway, tmp_path).get("/nothing", headers={"X-Request-Id": "mine"})
    assert "GET /nothing" not in stream.getvalue()
    made(gateway, tmp_path, SLUICE_LOG_REQUESTS="true").get("/nothing", headers={"X-Request-Id": "mine"})
    (line,) = [line for line in stream.getvalue().splitlines() if "GET /nothing 404" in line]
    assert "request_id=mine" in line
    assert "path=/nothing" in line


@pytest.mark.parametrize("first", ["pyspark", "sluice"])
def test_pyspark_tells_nothing_past_the_log(gateway: Gateway, tmp_path: Path, stream: Written, first: str) -> None:
    from pyspark.logger import PySparkLogger

    logging.root.manager.loggerDict.pop("SQLQueryContextLogger", None)
    if first == "pyspark":
        PySparkLogger.getLogger("SQLQueryContextLogger")
    made(gateway, tmp_path, SLUICE_LOG_FORMAT="json")
    PySparkLogger.getLogger("SQLQueryContextLogger").exception("[TABLE_OR_VIEW_NOT_FOUND]", errorClass="X")
    assert stream.getvalue() == ""


@pytest.mark.parametrize(("problem", "told"), [(Unavailable("away"), False), (PythonException("a task's"), False), (KeyError("bug"), True)])
def test_a_micro_batch_that_fails_is_told_by_its_query_and_a_bug_by_the_log(
    tmp_path: Path, stream: Written, problem: Exception, told: bool
) -> None:
    set_up(settings(tmp_path))
    try:
        raise problem
    except Exception:
        logging.getLogger("py4j.clientserver").exception("There was an exception while executing the Python Proxy on the Python Side.")
    assert ("Python Proxy" in stream.getvalue()) is told


@given(st.text(max_size=60), st.sampled_from(["password={}", "x?token={}&y", "https://u:{}@h/", "Bearer {}", "'a.secret' = '{}'"]))
def test_no_secret_survives_wherever_it_stands(around: str, form: str) -> None:
    secret = "Zq81xk0Lm"
    masker = Masker(read_settings({"SLUICE_DATA": "/nowhere"}))
    assert secret not in masker.mask(f"{around} {form.format(secret)} {around}")
    assert secret not in Masker(read_settings({"SLUICE_DATA": "/nowhere", "SLUICE_TOKEN": secret})).mask(around + secret)


def test_a_long_message_is_masked_in_no_time() -> None:
    masked = Masker(read_settings({"SLUICE_DATA": "/nowhere"})).mask("a.b-" * 500_000)
    assert len(masked) < 30_000


def test_a_failure_that_goes_on_is_logged_once_a_minute_and_without_a_traceback() -> None:
    written = io.StringIO()
    handler = logging.StreamHandler(written)
    handler.addFilter(once := OncePerMinute())
    log = logging.Logger("beats")
    log.addHandler(handler)
    full, bug = StorageFull("No space left."), ValueError("a bug")
    for _ in range(50):
        log.warning("Looking after %s failed", "t", exc_info=full)
    log.warning("Looking after %s failed", "t", exc_info=Unavailable("away"))
    log.error("A round failed", exc_info=bug)
    log.error("A round failed", exc_info=bug)
    assert written.getvalue().count("Looking after t failed") == 2
    assert "StorageFull" not in written.getvalue()
    assert written.getvalue().count("ValueError: a bug") == 2
    a_minute_later(once)
    log.warning("Looking after %s failed", "t", exc_info=full)
    assert "Looking after t failed: No space left. (49 more like it since the last one)\n" in written.getvalue()


def test_lines_that_repeat_are_one_a_minute_whatever_they_are_of() -> None:
    written = io.StringIO()
    handler = logging.StreamHandler(written)
    handler.addFilter(once := OncePerMinute())
    log = logging.getLogger("lake.commit.decided")
    log.addHandler(handler)
    try:
        for problem in (OSError(errno.EROFS, "read only"), Unavailable("away")):
            for number in range(20):
                follow(lambda problem=problem: raised(problem), f"Directory {number} is still there")  # type: ignore[misc]
        assert written.getvalue().count("is still there") == 1
        for number in range(2):
            follow(lambda: raised(ValueError("a bug")), f"Directory {number} is still there")
        assert written.getvalue().count("ValueError: a bug") == 2, "bugs are told each time"
        a_minute_later(once)
        follow(lambda: raised(Unavailable("away")), "Directory 7 is still there")
        assert written.getvalue().endswith("Directory 7 is still there, which is tried again: away (39 more like it since the last one)\n")
    finally:
        log.removeHandler(handler)


def a_minute_later(once: OncePerMinute) -> None:
    once._told.expire(once._told.timer() + REPEATS_SECONDS)


def raised(problem: Exception) -> None:
    raise problem


def test_requests_that_a_full_disk_refuses_are_a_line_a_minute(
    gateway: Gateway, tmp_path: Path, stream: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = made(gateway, tmp_path)
    token = {"Authorization": f"Bearer {TOKEN}"}
    assert client.post("/sql", data="CREATE TABLE t (id INT)", headers=token).status_code == 200

    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.fsync", refuse)
    statuses = {client.post("/sql", data="INSERT INTO t VALUES (1)", headers=token).status_code for _ in range(5)}
    monkeypatch.undo()
    assert statuses == {507}
    told = stream.getvalue()
    assert told.count("StorageFull: ") == 1
    assert "(from OSError: [Errno 28] No space left on device" in told
    assert "Traceback" not in told


def test_what_py4j_notes_of_a_jvm_that_is_gone_is_left_to_who_called_it(stream: Written, tmp_path: Path) -> None:
    set_up(settings(tmp_path))
    for problem in (Py4JNetworkError("Answer from Java side is empty"), ValueError("a bug")):
        try:
            raise problem
        except Exception:
            logging.info("Exception while sending command.", exc_info=True)
    assert "Py4JNetworkError" not in (told := stream.getvalue())
    assert "ValueError: a bug" in told
