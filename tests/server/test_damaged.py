"""What HTTP clients are told of a damaged table: its own error, and nothing that makes them try again."""

from __future__ import annotations

from pathlib import Path

from flask.testing import FlaskClient

from sluice.client import ServerError
from tests.lake.register.damage import data_files, remove


def test_a_damaged_table_is_a_503_that_says_nothing_of_later(client: FlaskClient, tmp_path: Path) -> None:
    for text in ("CREATE TABLE t (id INT)", "INSERT INTO t VALUES (1)"):
        assert client.post("/sql", data=text).status_code == 200
    (file,) = data_files(tmp_path / "warehouse/default.db/t")
    remove(file)
    with client.post("/sql", data="SELECT * FROM t") as answer:
        text = answer.get_data(as_text=True)
        assert "TableDamaged" in text
        assert file.name in text
        assert "Retry-After" not in answer.headers
        assert answer.status_code == 503
    assert not ServerError("…", status=503, document={"errorClass": "TableDamaged"}).may_pass
    assert ServerError("…", status=503, document={"errorClass": "Unavailable"}).may_pass
