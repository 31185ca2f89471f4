"""docs/append-tables.md: each block is sent as one text, and gives the rows that stand under it."""

from __future__ import annotations

import json
import re
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.running import RunningServer
from tests.waiting import eventually

PAGE = Path(__file__).parents[2] / "docs" / "append-tables.md"


def blocks() -> list[tuple[str, list[Any] | None]]:
    """Each statement block, and the rows told under it."""
    found = re.findall(r"^```sql\n(.*?)^```\n(?:\n```json\n(.*?)^```$)?", PAGE.read_text(), re.M | re.S)
    return [(text, [json.loads(line) for line in rows.splitlines()] if rows else None) for text, rows in found]


def answer(server: RunningServer, database: str, text: str) -> list[dict[str, Any]]:
    text = text.replace("INSERT INTO visits", "SET 'execution.checkpointing.interval' = '200 ms';\nINSERT INTO visits")  # else 10 s
    where, lines = {"database": database}, {"Accept": "application/x-ndjson"}
    got = httpx.post(f"{server.url}/sql", params=where, content=text.encode(), headers=lines, timeout=300)
    assert got.status_code == 200, f"{text}\n{got.text}"
    rows = [json.loads(line) for line in got.text.splitlines() if line.strip()]
    assert not [row for row in rows if "$error" in row], f"{text}\n{got.text}"
    return rows


def ended(server: RunningServer, job: object) -> bool:
    return bool(server.sql(f"DESCRIBE JOB '{job}'")[0][2] == "FINISHED")


@pytest.mark.slow
@pytest.mark.spark
def test_the_examples_give_what_stands_under_them(server: RunningServer, database: str) -> None:
    found = blocks()
    for text, expected in found:
        rows = answer(server, database, text)
        if expected is not None:
            assert rows == expected, text
        if "INSERT INTO visits" in text:
            (job,) = (value for row in rows for value in row.values())
            assert eventually(partial(ended, server, job))
        if "FROM visits" in text or "FROM TABLE" in text:
            assert (sum(row["n"] for row in rows) if "TUMBLE" in text else len(rows)) == 10, text
    assert len(found) > 15
