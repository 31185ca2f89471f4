"""Databases of the protocol."""

from __future__ import annotations

from server.paimon.messages.wire import database_json, string_list
from server.paimon.paging import one_more, page, slice_of
from server.paimon.routes import body, lake, route
from server.sql.bodies import member, strings
from sql.connectors.stored import KIND


@route("GET", "databases")
def list_databases() -> object:
    """Names, in pages."""
    wanted = slice_of("databaseNamePattern")
    return page("databases", lake().list_databases(one_more(wanted)), wanted, str, str)


@route("POST", "databases")
def create_database() -> None:
    """Add one; its comment is among its options, as everywhere in the protocol."""
    sent = body()
    lake().create_database(member(sent, "name", str, required=True), options=strings(sent, "options"))


@route("GET", "databases/{}")
def get_database(name: str) -> object:
    """One of them."""
    here = lake()
    return database_json(here.database(name), f"{here.warehouse}/{name}.db")


@route("POST", "databases/{}")
def alter_database(name: str) -> object:
    """Change its options."""
    sent = body()
    removals, updates = string_list(sent, "removals"), strings(sent, "updates")
    removed, missing = lake().alter_database(name, set_options=updates, remove=removals)
    return {"removed": removed, "updated": sorted(updates), "missing": missing}


@route("DELETE", "databases/{}")
def drop_database(name: str) -> None:
    """Remove it with all in it: clients that do not want that look at its tables before (there is no flag on the wire).

    What they do not see there, such as tables with a connector, views and functions, does not go on the word of one that saw none.
    """
    lake().drop_database(name, cascade=True, unlisted=KIND)
