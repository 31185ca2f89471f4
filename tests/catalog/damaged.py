"""Catalogs with a bit flipped in one of Postgres's own files, as a bad disk leaves them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from tests.fix_postgres import database

_IN_A_ROW = 8192 - 40
"""Rows lie at a page's end."""


@contextmanager
def with_damage(server_dsn: str, dsn: str, relation: str) -> Iterator[str]:
    """A copy of a catalog that nobody is connected to, with a bit of a table's or an index's first page flipped; none of it is cached."""
    with psycopg.connect(dsn) as conn:
        (name,) = conn.execute("SELECT current_database()").fetchone()  # type: ignore[misc]
    with database(server_dsn, name) as copy:
        with psycopg.connect(copy) as conn:
            (path, place) = conn.execute(  # type: ignore[misc]
                "SELECT pg_relation_filepath(%s::regclass), current_setting('data_directory')", (relation,)
            ).fetchone()
        file = Path(place) / path
        if not file.exists():
            pytest.skip("Postgres runs on another machine")
        with file.open("r+b") as heap:
            heap.seek(_IN_A_ROW)
            (byte,) = heap.read(1)
            heap.seek(_IN_A_ROW)
            heap.write(bytes([byte ^ 1]))
        yield copy
