"""What Arrow Flight SQL tells of a damaged table: no code that clients repeat, and the words of the other protocols."""

from __future__ import annotations

from pathlib import Path

import pytest
from adbc_driver_manager import AdbcStatusCode, Error
from adbc_driver_manager.dbapi import Cursor

from model.identifier import Identifier
from tests.lake.register.damage import data_files
from tests.server.flight.conftest import Endpoint


def test_a_missing_data_file_is_told(endpoint: Endpoint, cursor: Cursor) -> None:
    cursor.execute("CREATE TABLE broken (id INT)")
    cursor.execute("INSERT INTO broken VALUES (1)")
    (file,) = data_files(Path(endpoint.lake.open(Identifier("default", "broken")).location))
    file.unlink()

    def read() -> None:
        cursor.execute("SELECT * FROM broken")
        cursor.fetchall()

    with pytest.raises(Error) as told:
        read()
    assert told.value.status_code == AdbcStatusCode.INTERNAL
    assert file.name in str(told.value)
    assert "CALL sys.check_table('default.broken')" in str(told.value)
