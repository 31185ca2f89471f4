"""What an URL of SQLAlchemy says reaches the connection, or is refused."""

from __future__ import annotations

from typing import Any

import pytest
import sqlalchemy as sa

from sluice.sqlalchemy import SluiceDialect


def told(url: str) -> tuple[str, dict[str, Any]]:
    (address,), rest = SluiceDialect().create_connect_args(sa.make_url(url))
    return address, {name: value for name, value in rest.items() if value}


@pytest.mark.parametrize(
    ("url", "address", "rest"),
    [
        ("sluice:///d", "http://127.0.0.1:8083", {"database": "d"}),
        ("sluice://[::1]:9000/d?secure=1", "https://[::1]:9000", {"database": "d"}),
        ("sluice://:secret@host", "http://host:8083", {"token": "secret"}),
        ("sluice://secret@host", "http://host:8083", {"token": "secret"}),
        ("sluice://anna:secret@host", "http://host:8083", {"token": "secret"}),
        (
            "sluice://host?timeout=2.5&table.local-time-zone=Europe/Berlin",
            "http://host:8083",
            {"timeout": 2.5, "settings": {"table.local-time-zone": "Europe/Berlin"}},
        ),
    ],
)
def test_all_that_a_url_says_is_heard(url: str, address: str, rest: dict[str, Any]) -> None:
    assert told(url) == (address, rest)


@pytest.mark.parametrize("query", ["tiemout=3", "secure=perhaps", "timeout=soon", "timeout=nan", "timeout=3&timeout=4"])
def test_what_is_unknown_is_refused(query: str) -> None:
    with pytest.raises(sa.exc.ArgumentError, match=query.partition("=")[0]):
        told(f"sluice://host/d?{query}")
