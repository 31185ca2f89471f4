"""What `fix_rules` and `fix_memory` say of a run holds in it."""

from __future__ import annotations

import pytest

from tests.fix_memory import LastingPath, memory, writes_much
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


def test_what_tests_share_lies_on_a_disk_where_they_may_write_much(request: pytest.FixtureRequest, lasting_path: LastingPath) -> None:
    """A server in memory that a campaign has filled refuses the rows of all tests after."""

    def marked(*names: str) -> pytest.Item:
        item: pytest.Item = pytest.Function.from_parent(request.node.parent, name="marked", callobj=lambda: None)
        for name in names:
            item.add_marker(name)
        return item

    plain, slow, torture = marked("spark"), marked("spark", "slow"), marked("torture")
    for tests in ([torture], [plain, torture], [slow], [slow, torture, slow]):
        assert writes_much(tests)
    for tests in ([plain], [plain, slow]):
        assert not writes_much(tests)
    lies_in_memory = not writes_much(request.session.items) and memory() is not None
    if not lies_in_memory:
        assert not lasting_path("shared").is_relative_to("/dev/shm")
