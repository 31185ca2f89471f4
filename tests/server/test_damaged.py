"""What clients are told of a damaged table, whatever protocol they speak: one error that names table, file and the way out."""

from __future__ import annotations

import html
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from sluice.client import ServerError
from tests.lake.register.damage import BREAKS, cut, data_files, forget_metadata, metadata_files, remove
from tests.server.flink.test_protocol import ask, body_of, submit

Asked = Callable[[FlaskClient], TestResponse]


def sql(text: str) -> Asked:
    return lambda client: client.post("/sql", data=text)


def flink(text: str) -> Asked:
    def asked(client: FlaskClient) -> TestResponse:
        session = str(body_of(ask(client, "POST", "/v2/sessions"))["sessionHandle"])
        operation = submit(client, session, text)
        while True:
            answer = ask(client, "GET", f"/v2/sessions/{session}/operations/{operation}/result/0")
            if answer.status_code != 200 or json.loads(answer.data)["resultType"] != "NOT_READY":
                return answer

    return asked


def get(path: str) -> Asked:
    return lambda client: client.get(path)


STREAM = "SET 'execution.runtime-mode' = 'streaming'; SELECT * FROM t /*+ OPTIONS('scan.mode' = 'latest-full') */ LIMIT 1"
# A stream has begun its answer, and a page is one around the error: the status is not about the table there.
DATA: dict[str, tuple[Asked, int]] = {
    "sql": (sql("SELECT * FROM t"), 503),
    "stream": (sql(STREAM), 200),
    "flink": (flink("SELECT * FROM t"), 500),
    "page": (get("/ui/tables/default/t/data"), 200),
}
METADATA: dict[str, tuple[Asked, int]] = {
    "sql": (sql("SELECT * FROM t"), 503),
    "count": (sql("SELECT COUNT(*) FROM t"), 503),
    "files": (sql("SELECT * FROM t$files"), 503),
    "insert overwrite": (sql("TRUNCATE TABLE t"), 503),
    "stream": (sql(STREAM), 200),
    "flink": (flink("SELECT * FROM t"), 500),
    "page": (get("/ui/tables/default/t/files"), 200),
}


def told(client: FlaskClient, asked: Asked, status: int, file: str) -> None:
    with asked(client) as answer:
        text = html.unescape(answer.get_data(as_text=True))
        assert answer.status_code == status, text
        assert "Retry-After" not in answer.headers
    assert file in text
    assert "default.t is damaged" in text
    assert "CALL sys.check_table(" in text
    assert "later" not in text


@pytest.fixture
def place(client: FlaskClient, tmp_path: Path) -> Path:
    for text in ("CREATE TABLE t (id INT)", "INSERT INTO t VALUES (1)"):
        assert client.post("/sql", data=text).status_code == 200
    return tmp_path / "warehouse/default.db/t"


@pytest.mark.parametrize("endpoint", DATA)
def test_a_missing_data_file_is_told(client: FlaskClient, place: Path, endpoint: str) -> None:
    (file,) = data_files(place)
    remove(file)
    told(client, *DATA[endpoint], file.name)


def test_a_cut_manifest_is_told(client: FlaskClient, place: Path) -> None:
    file = metadata_files(place, "manifest")[0]
    cut(file)
    for asked, status in METADATA.values():
        forget_metadata()
        told(client, asked, status, file.name)


def test_clients_of_ours_do_not_try_again() -> None:
    assert not ServerError("…", status=503, document={"errorClass": "TableDamaged"}).may_pass
    assert ServerError("…", status=503, document={"errorClass": "Unavailable"}).may_pass


@pytest.mark.parametrize("kind", ["manifest", "list"])
@pytest.mark.parametrize("how", BREAKS)
def test_pages_show_what_is_known_of_a_damaged_table(client: FlaskClient, place: Path, how: str, kind: str) -> None:
    file = metadata_files(place, kind)[-1]
    BREAKS[how](file)
    for side in ("overview", "files", "maintenance", "data", "schema", "access", "connect"):
        forget_metadata()
        with client.get(f"/ui/tables/default/t/{side}") as answer:
            text = html.unescape(answer.get_data(as_text=True))
        assert answer.status_code == 200, side
        assert "<h1>t</h1>" in text
        if side in ("overview", "files"):
            assert file.name in text
            for statement in (
                "sys.check_table('default.t', deep => true)",
                "sys.repair_table('default.t')",
                "sys.remove_unexisting_files('default.t'",
            ):
                assert f"CALL {statement}" in text, side
            assert "<code>INT</code>" in text
            assert str(place) in text
    assert "default.t needs a hand" in client.get("/ui/").get_data(as_text=True)
