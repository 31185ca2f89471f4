"""The examples of the page on clients run as they stand."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.running import RunningServer

PAGE = (Path(__file__).parents[3] / "docs" / "clients.md").read_text()
pytestmark = pytest.mark.spark


@pytest.mark.parametrize("section", ["Python (DB-API)", "SQLAlchemy and pandas"])
def test_an_example_runs(server: RunningServer, database: str, section: str) -> None:
    text = PAGE.split(f"## {section}\n", 1)[1].split("\n## ", 1)[0]
    found = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    assert found
    for example in found:
        at = server.url.removeprefix("http://")
        exec(example.replace("127.0.0.1:8083", at).replace('"default"', f'"{database}"').replace("/default", f"/{database}"), {})
