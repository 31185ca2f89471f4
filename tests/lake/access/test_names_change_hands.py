"""A name that is given to another table while somebody may do things to the one of before: rights are a table's, not a name's."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from types import SimpleNamespace
from uuid import UUID

import pytest

from catalog.listing import EVERYTHING
from lake import Lake
from lake.access.callers import Identity
from lake.access.guard import RenamedMeanwhile
from lake.inspect import browse
from model.access import Access, Grant, Policy, Resource, ResourceType, database_resource, table_resource
from model.errors import Forbidden, NotAuthorized, TableNotExist
from model.identifier import Identifier
from model.schema.change import SetOption
from model.schema.types import Field, IntType
from model.view import UpdateViewComment, View
from tests.lake.access.test_access import as_user, give, user
from tests.lake.test_commit import append, names
from tests.lake.test_guesses import client_commit
from tests.lake.test_guesses import other as other
from tests.sql.tables import make_table

MINE, THEIRS, FREE = Identifier("default", "mine"), Identifier("default", "theirs"), Identifier("default", "free")
_POLICY = Policy(name="p", column=None, principals=("ada",), sql="id > 1", rule={})


def swap(lake: Lake) -> None:
    lake.rename_table(MINE, FREE)
    lake.rename_table(THEIRS, MINE)


@pytest.fixture
def ada(lake: Lake, other: Lake) -> Iterator[Lake]:
    """A server at which ada came a moment ago, since when what had been the name of her table was given to somebody else's."""
    secret = user(lake, "ada")
    for table in (MINE, THEIRS):
        make_table(lake, table.table, id="INT")
        lake.commit(lake.open(table), append(table.table))
    give(lake, Access.ALL, table_resource(MINE), "ada")
    hers = as_user(other, secret)
    assert hers.open(MINE) is not None
    swap(lake)
    yield hers
    theirs = lake.open(MINE)
    assert names(theirs) == ["theirs"]
    assert theirs.schema.options.get("write-only") is None
    assert {grant.principal for grant in lake.permissions.grants_on(table_resource(MINE))} == set()
    assert lake.permissions.policies(MINE) == []


def _id_now(hers: Lake) -> UUID:
    with hers.catalog.reading() as tx:
        row = tx.tables.find(MINE)
    assert row is not None
    return row.table_id


_DONE: dict[str, Callable[[Lake], object]] = {
    "opened": lambda hers: hers.open(MINE),
    "described": lambda hers: hers.describe(MINE),
    "written": lambda hers: hers.open_to_write(MINE),
    "altered": lambda hers: hers.alter_table(MINE, [SetOption(key="write-only", value="true")]),
    "renamed": lambda hers: hers.rename_table(MINE, Identifier("default", "hers")),
    "dropped": lambda hers: hers.drop_table(MINE),
    "discarded": lambda hers: hers.discard_table(MINE, _id_now(hers)),
    "repaired": lambda hers: hers.repair_table(MINE),
    "granted": lambda hers: hers.permissions.grant(Grant(resource=table_resource(MINE), access=Access.SELECT, principal="bob")),
    "revoked": lambda hers: hers.permissions.revoke(table_resource(MINE), [Access.SELECT], "bob"),
    "bound by a policy": lambda hers: hers.permissions.create_policy(MINE, _POLICY),
    "freed of a policy": lambda hers: hers.permissions.drop_policy(MINE, "p", if_exists=True),
    "asked for its policies": lambda hers: hers.permissions.policies(MINE),
}


@pytest.mark.parametrize("done", _DONE)
def test_nothing_is_done_to_the_table_that_has_the_name_now(ada: Lake, done: str) -> None:
    with pytest.raises(Forbidden):
        _DONE[done](ada)


def test_a_clients_commit_without_the_tables_id_is_refused(lake: Lake, ada: Lake) -> None:
    theirs = lake.open(MINE)
    commit = client_commit(theirs, theirs.latest())
    with pytest.raises(Forbidden):
        ada.client_commit(MINE, replace(commit, table_id=None))


def test_lists_show_what_is_the_callers(ada: Lake) -> None:
    assert [row.name for row in ada.describe_all("default", EVERYTHING)] == ["free"]
    assert [row.name for row in browse.summaries(ada)] == ["free"]
    assert [row.name for row in browse.tables(ada)] == ["free"]


def test_a_table_that_was_opened_before_is_written_under_its_new_name(lake: Lake, other: Lake, ada: Lake) -> None:
    hers = ada.open(FREE)
    assert not ada.read_rules(hers).restricted
    before = replace(hers, identifier=MINE)
    ada.caller = other.access.anew(ada.caller)
    assert not ada.read_rules(before).restricted
    lake.permissions.revoke(table_resource(FREE), [Access.ALL], "ada")
    give(lake, Access.ALL, table_resource(MINE), "ada")
    ada.caller = other.access.anew(ada.caller)
    with pytest.raises(Forbidden):
        ada.read_rules(before)
    lake.permissions.revoke(table_resource(MINE), [Access.ALL], "ada")


def test_who_may_use_both_tables_is_not_held_up(lake: Lake, other: Lake) -> None:
    secret = user(lake, "ada")
    for table in (MINE, THEIRS):
        give(lake, Access.ALL, table_resource(make_table(lake, table.table, id="INT").identifier), "ada")
        lake.commit(lake.open(table), append(table.table))
    hers = as_user(other, secret)
    swap(lake)
    assert names(hers.open_to_write(MINE)) == ["theirs"]
    hers.drop_table(MINE)
    with pytest.raises(TableNotExist):
        lake.open(MINE)


def test_a_table_that_is_made_anew_is_its_makers(lake: Lake, other: Lake) -> None:
    """Through two servers in turns, as behind a balancer."""
    secret = user(lake, "ada")
    give(lake, Access.CREATETABLE, database_resource("default"), "ada")
    schema = make_table(lake, "like", id="INT").schema
    for first, second in ((lake, other), (other, lake)) * 3:
        as_user(first, secret).create_table(MINE, schema)
        as_user(second, secret).open_to_write(MINE)
        as_user(second, secret).drop_table(MINE)


VIEW = Identifier("default", "v")
_HER_VIEW = Resource(type=ResourceType.VIEW, database="default", name="v")


def view(query: str) -> View:
    return View(fields=(Field(id=0, name="id", type=IntType()),), query=query)


@pytest.mark.parametrize(
    "done",
    [
        lambda hers: hers.views.get(VIEW),
        lambda hers: hers.views.readable([("default", "v")]),
        lambda hers: hers.views.drop(VIEW),
        lambda hers: hers.views.alter(VIEW, [UpdateViewComment(comment="hers")]),
        lambda hers: hers.views.rename(VIEW, FREE),
        lambda hers: hers.views.create(VIEW, view("SELECT 3"), replace=True),
    ],
)
@pytest.mark.parametrize("by", ["drop", "rename"])
def test_a_view_of_a_name_that_another_had_is_not_its_readers(lake: Lake, other: Lake, by: str, done: Callable[[Lake], object]) -> None:
    secret = user(lake, "ada")
    lake.views.create(VIEW, view("SELECT 1"))
    for access in (Access.SELECT, Access.ALTER, Access.DROP):
        give(lake, access, _HER_VIEW, "ada")
    give(lake, Access.CREATEVIEW, database_resource("default"), "ada")
    hers = as_user(other, secret)
    assert hers.views.readable([("default", "v")]).keys() == {("default", "v")}
    if by == "drop":
        lake.views.drop(VIEW)
    else:
        lake.views.rename(VIEW, FREE)
    lake.views.create(VIEW, view("SELECT 2"))
    with pytest.raises(Forbidden):
        done(hers)
    assert [row.name for row in hers.views.describe_all("default") if row.name == "v"] == []
    assert lake.views.get(VIEW).body["query"] == "SELECT 2"


def test_lists_are_not_for_those_of_whom_an_issuers_word_is_over(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    caller = lake.access.identified(Identity(principal="ada", roles=frozenset(), expires_at=time.time() + 60))
    user(lake, "bob")
    assert list(browse.summaries(lake.for_caller(caller))) == []
    monkeypatch.setattr("lake.access.callers.time", SimpleNamespace(time=lambda: math.inf))
    with pytest.raises(NotAuthorized):
        list(browse.summaries(lake.for_caller(caller)))


def test_a_name_that_changes_hands_each_time_is_a_503(lake: Lake, other: Lake, ada: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(other.access, "anew", lambda caller: caller)
    with pytest.raises(RenamedMeanwhile, match=r"default.mine was dropped or renamed meanwhile.*try again") as told:
        ada.open(MINE)
    assert told.value.status == 503
