"""Thousands of grants to everybody: read whole where they changed, and not each second for each token."""

from __future__ import annotations

from typing import Any

import pytest

from catalog.access.grants import GrantRepository
from lake import Lake
from lake.access import remembered
from model.access import PUBLIC, Access, Grant, Resource, ResourceType, table_resource
from model.identifier import Identifier
from tests.sql.tables import make_table

MANY = 300
T = table_resource(Identifier("default", "t"))


@pytest.fixture
def lake(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> Lake:
    """Each question is asked of Postgres, as once a second."""
    monkeypatch.setattr(remembered, "TRUSTED_SECONDS", 0.0)
    lake.permissions.create_token("root", administrator=True)
    make_table(lake, "t", id="INT")
    with lake.catalog.transaction() as tx:
        for number in range(MANY):
            view = Resource(type=ResourceType.VIEW, database="default", name=f"v{number}")
            tx.grants.put(Grant(resource=view, access=Access.SELECT, principal=PUBLIC), table_id=None)
    return lake


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many grants each look at them brought."""
    counts: list[int] = []
    whole = GrantRepository.of

    def of(self: GrantRepository, principals: Any) -> list[Grant]:
        found = whole(self, principals)
        counts.append(len(found))
        return found

    monkeypatch.setattr(GrantRepository, "of", of)
    return counts


def test_what_everybody_may_is_read_once_until_it_changes(lake: Lake, read: list[int]) -> None:
    ada, bob = (lake.permissions.create_token(name, principal=name)[1] for name in ("ada", "bob"))
    first = lake.access.caller(ada)
    assert [lake.access.caller(secret).principal for secret in (bob, ada, bob)] == ["bob", "ada", "bob"]
    assert lake.access.caller(ada) is first, "it need not be looked through again"
    assert read == [MANY, 0, 0, 0, 0]
    with lake.catalog.transaction() as tx:  # as another server does it
        tx.grants.put(Grant(resource=T, access=Access.SELECT, principal="ada"), table_id=None)
    assert lake.access.caller(ada).may(Access.SELECT, T)
    assert not lake.access.caller(bob).may(Access.SELECT, T)
    assert max(read[1:]) == 1


def test_any_change_of_what_everybody_may_is_seen(lake: Lake) -> None:
    """As another server makes it: a grant, its end, another name of its table, and another table of its name."""
    ada = lake.permissions.create_token("ada", principal="ada")[1]
    elsewhere = Lake(lake.catalog, lake.warehouse)
    try:
        view = Resource(type=ResourceType.VIEW, database="default", name="v7")
        assert lake.access.caller(ada).may(Access.SELECT, view)
        elsewhere.permissions.revoke(view, [Access.SELECT], PUBLIC)
        assert not lake.access.caller(ada).may(Access.SELECT, view)
        elsewhere.permissions.grant(Grant(resource=T, access=Access.SELECT, principal=PUBLIC))
        old = lake.open(Identifier("default", "t")).table_id
        assert lake.access.caller(ada).knows(Identifier("default", "t"), old)
        elsewhere.rename_table(Identifier("default", "t"), Identifier("default", "u"))
        renamed = lake.access.caller(ada)
        assert not renamed.may(Access.SELECT, T)
        assert renamed.may(Access.SELECT, table_resource(Identifier("default", "u")))
        elsewhere.drop_table(Identifier("default", "u"))
        make_table(elsewhere, "u", id="INT")
        new = elsewhere.open(Identifier("default", "u")).table_id
        again = lake.access.caller(ada)
        assert new != old
        assert not again.may(Access.SELECT, table_resource(Identifier("default", "u")))
        elsewhere.permissions.grant(Grant(resource=table_resource(Identifier("default", "u")), access=Access.SELECT, principal=PUBLIC))
        again = lake.access.caller(ada)
        assert again.knows(Identifier("default", "u"), new)
        assert again.may(Access.SELECT, table_resource(Identifier("default", "u")))
    finally:
        elsewhere.close()
