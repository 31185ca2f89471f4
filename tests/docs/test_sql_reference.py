"""Every SQL example of the docs is run, top to bottom, in one session's order."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import sql.statements.all  # noqa: F401 - the procedures register themselves
from sql.dialect import split
from sql.statements.procedures.calls import PROCEDURES
from tests.running import RunningServer

DOCS = Path(__file__).parents[2] / "docs"


def statements(page: str) -> list[str]:
    blocks = re.findall(r"^```sql\n(.*?)^```$", (DOCS / page).read_text(), re.M | re.S)
    return [statement.text for block in blocks for statement in split(block)]


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.parametrize("page", ["sql.md", "maintenance.md"])
def test_the_examples_run_from_top_to_bottom(server: RunningServer, page: str) -> None:
    database, texts = "default", statements(page)
    made = [found[1] for text in texts if (found := re.match(r"CREATE DATABASE (?:IF NOT EXISTS )?(\w+)", text.strip()))]
    try:
        for statement in texts:
            response = server.post(f"USE {database};\n{statement}")
            assert response.status_code == 200, f"{statement}\n{response.text}"
            assert "error" not in response.json(), f"{statement}\n{response.text}"
            if found := re.fullmatch(r"USE (\w+);?", statement.strip()):
                database = found[1]
    finally:
        for name in made:  # others of this server's tests find what they made themselves
            server.sql(f"DROP DATABASE IF EXISTS {name} CASCADE")
    assert database in made
    assert len(texts) > 40


def test_every_procedure_has_an_example() -> None:
    """Those that need a directory or a watermark stand in the docs' text; all others are run above."""
    told = {"sys.register_table", "sys.migrate_table", "sys.migrate_database", "sys.migrate_file", "sys.repair_table"}
    told |= {"sys.rollback_to_watermark", "sys.create_tag_from_watermark"}
    run = {name.lower() for statement in statements("maintenance.md") for name in re.findall(r"^CALL (sys\.\w+)", statement.strip())}
    assert run == set(PROCEDURES) - told
    text = "".join(page.read_text() for page in DOCS.glob("*.md"))
    assert [name for name in sorted(told) if name not in text] == []
