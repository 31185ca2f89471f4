"""Errors name a file, and neither the server's directories nor the partition it lies in, which a policy may hide."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from flask.testing import FlaskClient

from tests.lake.register.damage import data_files, remove
from tests.server.access.test_access import As, ada, admin

__all__ = ["ada", "admin"]


@pytest.mark.parametrize("hurt", ["missing", "cut"])
def test_a_damaged_file_is_named_without_its_place(client: FlaskClient, admin: As, ada: As, tmp_path: Path, hurt: str) -> None:
    admin.sql("CREATE TABLE t (id INT, day STRING) PARTITIONED BY (day)")
    admin.sql("INSERT INTO t VALUES (1, 'hidden day')")
    admin.sql("GRANT SELECT ON t TO ada")
    (file,) = data_files(tmp_path / "warehouse/default.db/t")
    if hurt == "missing":
        remove(file)
    else:
        file.write_bytes(file.read_bytes()[:50])

    def told(who: As, path: str = "/sql") -> str:
        text = None if path == "/readyz" else json.dumps({"statement": "SELECT * FROM t"})
        headers = {**who._headers, "Content-Type": "application/json"}
        return client.open(path, method="POST" if text else "GET", data=text, headers=headers).text

    for who in (ada, admin):
        assert "TableDamaged" in told(who)
        assert file.name in told(who)
    assert str(file) in told(admin)
    assert not [word for word in (str(tmp_path), "hidden day", "bucket-") if word in told(ada)]
    status, rows = ada.sql("SELECT problem FROM sys.damaged_tables")
    assert status == 200
    assert file.name in rows[0][0]
    assert not [word for word in ("/", "hidden") if word in rows[0][0]]
    assert "hidden day" not in told(ada, "/readyz")
