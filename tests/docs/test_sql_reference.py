"""Every SQL example of the docs is run, top to bottom, in one session's order."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sql.dialect import split
from tests.fix_server import StartServer

PAGE = Path(__file__).parents[2] / "docs" / "sql.md"
STATEMENTS = [statement.text for block in re.findall(r"^```sql\n(.*?)^```$", PAGE.read_text(), re.M | re.S) for statement in split(block)]


@pytest.mark.spark
def test_the_examples_run_from_top_to_bottom(start_server: StartServer) -> None:
    server = start_server()
    database = "default"
    for statement in STATEMENTS:
        response = server.post(f"USE {database};\n{statement}")
        assert response.status_code == 200, f"{statement}\n{response.text}"
        assert "error" not in response.json(), f"{statement}\n{response.text}"
        if found := re.fullmatch(r"USE (\w+);?", statement.strip()):
            database = found[1]
    assert len(STATEMENTS) > 40
