"""Branches of the protocol."""

from __future__ import annotations

from server.paimon.messages.wire import main_name, object_name
from server.paimon.routes import body, lake, route
from server.sql.bodies import member


@route("GET", "databases/{}/tables/{}/branches")
def list_branches(database: str, table: str) -> object:
    """All but main."""
    here = lake()
    return {"branches": here.branches.names(here.open_any(main_name(database, table)))}


@route("POST", "databases/{}/tables/{}/branches")
def create_branch(database: str, table: str) -> None:
    """Add one, from a tag or empty."""
    sent = body()
    here = lake()
    opened = here.open_any(object_name(database, table))
    here.branches.create(opened, member(sent, "branch", str, required=True), from_tag=member(sent, "fromTag", str))


@route("DELETE", "databases/{}/tables/{}/branches/{}")
def drop_branch(database: str, table: str, branch: str) -> None:
    """Remove one with its snapshots."""
    here = lake()
    here.branches.drop(here.open_any(object_name(database, table)), [branch])


@route("POST", "databases/{}/tables/{}/branches/{}/rename")
def rename_branch(database: str, table: str, branch: str) -> None:
    """Give one another name."""
    here = lake()
    here.branches.rename(here.open_any(object_name(database, table)), branch, member(body(), "toBranch", str, required=True))


@route("POST", "databases/{}/tables/{}/branches/{}/forward")
def forward_branch(database: str, table: str, branch: str) -> None:
    """Let main go on where the branch is; the body says nothing."""
    here = lake()
    here.branches.fast_forward(here.open_any(object_name(database, table)), branch)
