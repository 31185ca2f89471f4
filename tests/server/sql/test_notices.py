"""Notices as headers: escaped, and never so many that a proxy or gRPC refuses the answer for its head."""

from __future__ import annotations

import json

from server.sql.notices import header_values


def test_notices_have_jsons_escapes() -> None:
    notices = ['Table default.ä is "old"', "a\nb"]
    values = header_values(notices)
    assert all(value.isascii() and "\n" not in value for value in values)
    assert [json.loads(f'"{value}"') for value in values] == notices


def test_what_does_not_fit_is_counted() -> None:
    notices = [f"Table default.t{number} is {'x' * 250}" for number in range(100)]
    values = header_values(notices)
    assert sum(map(len, values)) < 3100
    assert values[:-1] == notices[: len(values) - 1]
    assert values[-1].startswith(f"{100 - len(values) + 1} more notices did not fit here")
    assert header_values(["x" * 10_000]) == ["1 more notice did not fit here; sys.damaged_tables lists tables."]
