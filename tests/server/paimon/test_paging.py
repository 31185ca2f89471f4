"""Every list of the protocol, page by page, while names are added: what was there is seen once, and the tokens stay good."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from catalog.records import TableRow
from gateway.gateway import Gateway
from lake.tables.tables import LakeTables
from tests.server.paimon.committing import Writer
from tests.server.paimon.speaking import Rest, new_table, schema

T = "databases/d/tables/t"
FIRST = ("b.1", "c d", "e+é", "g\u4e2d")
"""Odd enough that a token must carry them whole."""
LATER = ("a", "c", "f.x", "h")
"""Some before the end of the first page, some behind."""


def _table(rest: Rest, name: str) -> None:
    rest.post("databases/d/tables", new_table(name))


def _view(rest: Rest, name: str) -> None:
    field = {"id": 0, "name": "a", "type": "INT"}
    rest.post("databases/d/views", {"identifier": {"object": name}, "schema": {"query": "SELECT 1 AS a", "fields": [field]}})


def _partition(rest: Rest, name: str) -> None:
    rest.post("databases/d/tables/p/partitions", {"partitionSpecs": [{"day": name}]})


def _grant(rest: Rest, name: str) -> None:
    table = {"type": "TABLE", "database": "d", "table": "t"}
    rest.post("permissions/grant", {"resource": table, "access": "SELECT", "principal": name})


LISTS: dict[str, tuple[str, Callable[[Rest, str], Any], Callable[[Any], str]]] = {
    "databases": ("databases", lambda rest, name: rest.post("databases", {"name": name}), str),
    "tables": ("databases/d/tables", _table, str),
    "tableDetails": ("databases/d/table-details", _table, lambda one: str(one["name"])),
    "tables everywhere": ("tables", _table, lambda one: str(one["object"])),
    "views": ("databases/d/views", _view, str),
    "viewDetails": ("databases/d/view-details", _view, lambda one: str(one["name"])),
    "views everywhere": ("views", _view, lambda one: str(one["object"])),
    "functions": ("databases/d/functions", lambda rest, name: rest.post("databases/d/functions", {"name": name}), str),
    "functionDetails": (
        "databases/d/function-details",
        lambda rest, name: rest.post("databases/d/functions", {"name": name}),
        lambda one: str(one["name"]),
    ),
    "functions everywhere": (
        "functions",
        lambda rest, name: rest.post("databases/d/functions", {"name": name}),
        lambda one: str(one["object"]),
    ),
    "partitions": ("databases/d/tables/p/partitions", _partition, lambda one: str(one["spec"]["day"])),
    "tags": (f"{T}/tags", lambda rest, name: rest.post(f"{T}/tags", {"tagName": name}), str),
    "consumers": (
        f"{T}/consumers",
        lambda rest, name: rest.post(f"{T}/consumers/reset", {"consumerId": name, "nextSnapshotId": 1}),
        lambda one: str(one["consumerId"]),
    ),
    "permissions": ("permissions", _grant, lambda one: str(one["principal"])),
}


@pytest.mark.parametrize("name", LISTS)
def test_what_was_there_is_seen_once_while_names_are_added(rest: Rest, gateway: Gateway, name: str) -> None:
    path, make, name_of = LISTS[name]
    _table(rest, "t")
    rest.post("databases/d/tables", new_table("p", schema(("id", "BIGINT"), ("day", "STRING"), partition=["day"])))
    Writer(rest, gateway.lake).commit()
    for one in FIRST:
        make(rest, one)
    query = {"maxResults": "2"} | ({"resourceType": "TABLE", "database": "d", "table": "t"} if path == "permissions" else {})
    seen: list[str] = []
    token: str | None = None
    while True:
        page = rest.get(path, **query, **({"pageToken": token} if token else {}))
        listed = page[name.partition(" ")[0]]
        assert len(listed) <= 2
        seen += [name_of(one) for one in listed]
        if (token := page["nextPageToken"]) is None:
            break
        if len(seen) == 2:
            for later in LATER:
                make(rest, later)
    assert len(set(seen)) == len(seen)
    assert seen == sorted(seen)
    assert set(FIRST) <= set(seen)
    assert {one for one in LATER if one > seen[1]} <= set(seen)


def test_snapshots_are_paged_newest_first_while_commits_go_on(rest: Rest, gateway: Gateway) -> None:
    _table(rest, "t")
    writer = Writer(rest, gateway.lake)
    for _ in range(5):
        writer.commit()
    first = rest.get(f"{T}/snapshots", maxResults="2")
    writer.commit()
    second = rest.get(f"{T}/snapshots", maxResults="9", pageToken=first["nextPageToken"])
    assert [one["id"] for one in first["snapshots"] + second["snapshots"]] == [5, 4, 3, 2, 1]
    assert second["nextPageToken"] is None


@pytest.mark.parametrize("most", ["1", "2", "3"])
@pytest.mark.parametrize("gone", ["a", "c", "e"])
def test_a_table_that_is_dropped_while_it_is_listed_ends_no_list(
    rest: Rest, gateway: Gateway, monkeypatch: pytest.MonkeyPatch, gone: str, most: str
) -> None:
    """Between the look at the catalog and at the tables, of which each was being moved: those behind it are listed all the same."""
    for name in "abcdef":
        _table(rest, name)
    whole = LakeTables._rows

    def then_dropped(self: LakeTables, *wanted: Any) -> list[TableRow]:
        rows = [replace(row, moving_from=f"{row.location}.old") for row in whole(self, *wanted)]
        if gone in [row.name for row in rows]:
            gateway.run(f"DROP TABLE IF EXISTS d.{gone}").close()
        return rows

    monkeypatch.setattr(LakeTables, "_rows", then_dropped)
    seen, token = list[str](), ""
    while token is not None:
        answer = rest.get("databases/d/table-details", maxResults=most, **({"pageToken": token} if token else {}))
        seen += [one["name"] for one in answer["tableDetails"]]
        token = answer["nextPageToken"]
    assert seen == [name for name in "abcdef" if name != gone]
