"""Going back in a table's past beside those who tag and branch it: whatever one of them decides between two steps of another."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import pytest

import lake.tables.tags
from gateway.gateway import Gateway
from lake.tables.history import History
from model.errors import LakeError


@pytest.fixture
def table(gateway: Gateway) -> str:
    """A table of four snapshots with a row each, the last but one tagged."""
    gateway.run("CREATE TABLE t (id INT)").close()
    for number in range(1, 5):
        gateway.run(f"INSERT INTO t VALUES ({number})").close()
    gateway.run("CALL sys.create_tag('t', 'three', 3)").close()
    return "t"


def _ids(gateway: Gateway, name: str = "t") -> list[int]:
    assert gateway.run("CALL sys.check_table('t')").collect() == []
    return sorted(row[0] for row in gateway.run(f"SELECT id FROM {name}").collect())


def _beside(monkeypatch: pytest.MonkeyPatch, owner: object, name: str, other: Callable[[], object], *, after: bool = False) -> None:
    """Let something happen once right before a step, or right after it."""
    step = getattr(owner, name)

    def stepped(*args: object, **kwargs: object) -> object:
        monkeypatch.setattr(owner, name, step)
        if not after:
            other()
        done = step(*args, **kwargs)
        if after:
            other()
        return done

    monkeypatch.setattr(owner, name, stepped)


def test_a_branch_that_is_made_while_the_table_is_taken_back_keeps_its_rows(
    gateway: Gateway, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    branched = lambda: gateway.run("CALL sys.create_branch('t', 'b', 'three')").close()  # noqa: E731
    _beside(monkeypatch, History, "rollback_to_snapshot", branched)
    gateway.run("CALL sys.rollback_to('t', 1)").close()
    assert _ids(gateway) == [1]
    assert _ids(gateway, "t$branch_b") == [1, 2, 3]


def test_a_tag_that_is_given_to_another_snapshot_while_the_table_is_taken_back_to_it_keeps_its_rows(
    gateway: Gateway, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    gateway.run("CALL sys.create_tag('t', 'here', 1)").close()
    _beside(monkeypatch, History, "rollback_to_tag", lambda: gateway.run("CALL sys.replace_tag('t', 'here', 3)").close())
    gateway.run("CALL sys.rollback_to('t', 'here')").close()
    assert _ids(gateway) == [1, 2, 3]


@pytest.mark.parametrize("text", ["CALL sys.rollback_to('t', 'old')", "CALL sys.create_branch('t', 'b', 'old')"])
@pytest.mark.parametrize("change", ["CALL sys.delete_tag('t', 'old')", "CALL sys.replace_tag('t', 'old', 5)"])
def test_a_tag_that_alone_kept_its_snapshot_goes_while_somebody_goes_back_to_it(
    gateway: Gateway, table: str, monkeypatch: pytest.MonkeyPatch, text: str, change: str
) -> None:
    for statement in (
        "CALL sys.create_tag('t', 'old', 2)",
        "CALL sys.delete_tag('t', 'three')",
        "CALL sys.compact('t', compact_strategy => 'full')",
        "CALL sys.expire_snapshots('t', retain_max => 1)",
    ):
        gateway.run(statement).close()
    _beside(monkeypatch, lake.tables.tags, "require_whole", lambda: gateway.run(change).close(), after=True)
    with contextlib.suppress(LakeError):
        gateway.run(text).close()
    assert _ids(gateway) == [1, 2, 3, 4]
    for (branch,) in gateway.run("SELECT branch_name FROM t$branches").collect():
        assert _ids(gateway, f"t$branch_{branch}") == [1, 2, 3, 4]
