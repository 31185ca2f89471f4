"""What `fix_rules` says of a run holds in it."""

from __future__ import annotations

import pytest

from tests.fix_rules import group_of


def test_those_who_share_something_costly_are_in_one_group(request: pytest.FixtureRequest) -> None:
    """In a run of several workers: the groups are in the ids that xdist deals out, and no test that starts its own server is bound."""
    items = request.session.items
    if not hasattr(request.config, "workerinput"):
        assert not any("@" in item.nodeid.rpartition("]")[2] for item in items)
        return
    for item in items:
        group = group_of(item)
        assert item.nodeid.endswith(f"@{group}") if group else "@" not in item.nodeid.rpartition("]")[2], item.nodeid
