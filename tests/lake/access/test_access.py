"""Tokens, roles and grants: who is known, what each may do, and that every method of the lake asks."""

from __future__ import annotations

import datetime as dt
import inspect
import math
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest

from catalog import CatalogStore
from lake import EVERYBODY, AccessControl, Caller, Lake
from lake.access import remembered
from lake.access.callers import TOKEN_PREFIX, Identity
from lake.access.remembered import TRUSTED_SECONDS
from model.access import (
    ADMIN,
    CATALOG,
    EVERYTHING,
    PUBLIC,
    Access,
    Columns,
    Grant,
    Policy,
    Resource,
    ResourceType,
    database_resource,
    inside,
    table_resource,
)
from model.errors import AccessAlreadyExist, AccessNotExist, Forbidden, InvalidGrant, LakeError, NotAuthorized, TableNotExist, Unavailable
from model.identifier import Identifier
from model.schema.change import RemoveOption, SetOption
from model.work.job import JobRequest
from tests.sql.tables import context_of, make_table

T = Identifier("default", "t")
TABLE = table_resource(T)


def user(lake: Lake, name: str) -> str:
    """A token of a user who may do nothing yet; the first one made brings an administrator along."""
    if lake.access.open():
        lake.permissions.create_token("root", administrator=True)
    return lake.permissions.create_token(f"{name}-token", principal=name)[1]


def give(lake: Lake, access: Access, resource: Resource, to: str, columns: Columns | None = None) -> None:
    lake.permissions.grant(Grant(resource=resource, access=access, principal=to, columns=columns))


def as_user(lake: Lake, secret: str) -> Lake:
    return lake.for_caller(lake.access.caller(secret))


def test_without_a_token_everybody_may_do_everything(lake: Lake) -> None:
    assert lake.access.open()
    assert lake.access.caller(None) is lake.access.caller("whatever a client sends") is EVERYBODY


def test_the_first_token_is_an_administrators_and_closes_the_server(lake: Lake) -> None:
    with pytest.raises(InvalidGrant, match="must be an administrator's"):
        lake.permissions.create_token("me")
    made, secret = lake.permissions.create_token("me", administrator=True)
    assert (made.principal, made.administrator, secret[:4]) == ("me", True, "slc_")
    assert not lake.access.open()
    assert lake.access.caller(secret).administrator
    for wrong in (None, "", secret[:-1], secret.upper()):
        with pytest.raises(NotAuthorized):
            lake.access.caller(wrong)


def test_secrets_are_not_stored(lake: Lake, dsn: str) -> None:
    _, secret = lake.permissions.create_token("me", administrator=True)
    with psycopg.connect(dsn) as conn:
        stored = conn.execute("SELECT t::text FROM access_token t").fetchall()
    assert secret not in str(stored)
    assert secret.removeprefix("slc_").encode().hex() not in str(stored)


def test_an_expired_token_is_worthless_and_does_not_open_the_server(lake: Lake, dsn: str) -> None:
    with pytest.raises(InvalidGrant, match="before it was made"):
        lake.permissions.create_token("me", administrator=True, expires_at=dt.datetime(2020, 1, 1, tzinfo=dt.UTC))
    _, secret = lake.permissions.create_token("me", administrator=True, expires_at=dt.datetime.now(dt.UTC) + dt.timedelta(hours=1))
    assert lake.access.caller(secret).principal == "me"
    with psycopg.connect(dsn) as conn:
        conn.execute("UPDATE access_token SET expires_at = now()")
    lake.access.forget()
    assert not lake.access.open()
    with pytest.raises(NotAuthorized, match="expired"):
        lake.access.caller(secret)


def test_revoking_takes_hold_at_once_here_and_soon_elsewhere(lake: Lake, catalog: CatalogStore) -> None:
    secret = user(lake, "ada")
    other = AccessControl(catalog)
    assert other.caller(secret).principal == lake.access.caller(secret).principal == "ada"
    assert lake.permissions.revoke_token("ada-token") is False
    with pytest.raises(NotAuthorized):
        lake.access.caller(secret)
    time.sleep(TRUSTED_SECONDS)
    with pytest.raises(NotAuthorized):
        other.caller(secret)


def test_the_last_administrator_stays_while_there_are_others(lake: Lake) -> None:
    user(lake, "ada")
    with pytest.raises(InvalidGrant, match="last administrator"):
        lake.permissions.revoke_token("root")
    lake.permissions.revoke_token("ada-token")
    assert lake.permissions.revoke_token("root") is True
    assert lake.access.open()
    with pytest.raises(AccessNotExist):
        lake.permissions.revoke_token("root")


def test_an_expired_administrator_is_none_that_stays(lake: Lake, dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """By Postgres's clock, as at each login: by that of a server which is behind the last token could be revoked."""
    user(lake, "ada")
    lake.permissions.create_token("eve", administrator=True, expires_at=dt.datetime.now(dt.UTC) + dt.timedelta(hours=1))
    with psycopg.connect(dsn) as conn:
        conn.execute("UPDATE access_token SET expires_at = now() WHERE expires_at IS NOT NULL")

    class Behind(dt.datetime):
        @classmethod
        def now(cls, tz: dt.tzinfo | None = None) -> Behind:
            return cls(2020, 1, 1, tzinfo=tz)

    monkeypatch.setattr("lake.access.permissions.dt", SimpleNamespace(datetime=Behind, UTC=dt.UTC))
    with pytest.raises(InvalidGrant, match="last administrator"):
        lake.permissions.revoke_token("root")


def test_the_settings_token_is_an_administrators_whatever_is_stored(catalog: CatalogStore, warehouse: object) -> None:
    lake = Lake(catalog, str(warehouse), token="s3cret")
    assert not lake.access.open()
    assert lake.access.caller("s3cret").administrator
    lake.permissions.create_token("ada")
    with pytest.raises(AccessAlreadyExist):
        lake.permissions.create_token("ada")
    assert lake.permissions.revoke_token("ada") is False
    lake.close()


# What a grant reaches

REACH = [
    (Access.SELECT, TABLE, Access.SELECT, TABLE, True),
    (Access.ALL, TABLE, Access.DROP, TABLE, True),
    (Access.SELECT, inside("default"), Access.SELECT, TABLE, True),
    (Access.SELECT, EVERYTHING, Access.SELECT, TABLE, True),
    (Access.ALL, database_resource("default"), Access.SELECT, TABLE, False),
    (Access.ALL, CATALOG, Access.SELECT, TABLE, False),
    (Access.ALL, TABLE, Access.SELECT, table_resource(Identifier("default", "u")), False),
    (Access.ALL, inside("default"), Access.SELECT, table_resource(Identifier("other", "t")), False),
    (Access.SELECT, TABLE, Access.UPDATE, TABLE, False),
    (Access.CREATETABLE, database_resource("default"), Access.CREATETABLE, database_resource("default"), True),
    (Access.CREATETABLE, EVERYTHING, Access.CREATETABLE, database_resource("default"), True),
    (Access.ALL, inside("default"), Access.CREATETABLE, database_resource("default"), False),
    (Access.ALL, EVERYTHING, Access.CREATEDATABASE, CATALOG, False),
    (Access.CREATEDATABASE, CATALOG, Access.CREATEDATABASE, CATALOG, True),
    (Access.GRANT, TABLE, Access.GRANT, Resource(type=ResourceType.COLUMN, database="default", name="t"), True),
]


@pytest.mark.parametrize(("access", "resource", "wanted", "on", "reaches"), REACH)
def test_grants_reach_down_and_nowhere_else(access: Access, resource: Resource, wanted: Access, on: Resource, *, reaches: bool) -> None:
    caller = Caller(principal="ada", grants=(Grant(resource=resource, access=access, principal="ada"),))
    assert caller.may(wanted, on) is reaches


def test_what_cannot_be_granted_is_named() -> None:
    for access, resource, says in (
        (Access.CREATETABLE, TABLE, "CREATETABLE cannot be granted on a TABLE resource"),
        (Access.SELECT, database_resource("d"), "SELECT cannot be granted on a DATABASE resource"),
        (Access.UPDATE, Resource(type=ResourceType.VIEW, database="d", name="v"), "UPDATE cannot be granted on a VIEW resource"),
    ):
        with pytest.raises(InvalidGrant, match=says):
            Grant(resource=resource, access=access, principal="ada")
    with pytest.raises(InvalidGrant, match="needs database"):
        Resource(type=ResourceType.TABLE, name="t")
    with pytest.raises(InvalidGrant, match="comes with its columns"):
        Grant(resource=Resource(type=ResourceType.COLUMN, database="d", name="t"), access=Access.SELECT, principal="ada")


def test_roles_carry_grants_also_through_roles(lake: Lake) -> None:
    make_table(lake, id="INT")
    secret, permissions = user(lake, "ada"), lake.permissions
    permissions.create_role("reader")
    permissions.create_role("analyst")
    permissions.grant_role("reader", "analyst")
    permissions.grant_role("analyst", "ada")
    give(lake, Access.SELECT, TABLE, "reader")
    assert lake.access.caller(secret).may(Access.SELECT, TABLE)
    with pytest.raises(InvalidGrant, match="other way round"):
        permissions.grant_role("analyst", "reader")
    permissions.drop_role("reader")
    assert not lake.access.caller(secret).may(Access.SELECT, TABLE)
    permissions.grant_role(ADMIN, "ada")
    assert lake.access.caller(secret).administrator
    with pytest.raises(InvalidGrant, match="part of the server"):
        permissions.drop_role(PUBLIC)


def test_a_token_starts_no_job_that_would_run_with_an_administrators_rights(lake: Lake) -> None:
    user(lake, "ada")
    weak = lake.permissions.create_token("weak", principal="ada")[1]
    job: dict[str, Any] = {"name": "j", "statement": "", "database": "default", "settings": {}, "tables": {}}
    strong = lake.permissions.create_token("strong", principal="ada", administrator=True)[1]
    with pytest.raises(Forbidden, match="another token of it is an administrator's"):
        as_user(lake, weak).jobs.create(**job)
    as_user(lake, strong).jobs.create(**job)
    with lake.catalog.reading() as tx:
        assert len(tx.jobs.all(principal="ada")) == 1
    lake.permissions.create_token("stronger", principal="ada", administrator=True)


def test_jobs_get_no_administrators_rights_by_a_token_made_later(lake: Lake) -> None:
    user(lake, "ada")
    weak = lake.permissions.create_token("weak", principal="ada")[1]
    as_user(lake, weak).jobs.create(name="j", statement="", database="default", settings={}, tables={})
    with pytest.raises(InvalidGrant, match="ada has jobs"):
        lake.permissions.create_token("strong", principal="ada", administrator=True)
    assert not lake.access.named("ada").administrator
    lake.permissions.create_token("other", principal="ada's operator", administrator=True)


def test_nobody_starts_a_job_that_would_run_without_the_roles_of_an_issuers_claims(lake: Lake) -> None:
    """Policies bind those roles, too: a view may be replaced by one over other tables before the job starts again."""
    static = user(lake, "ada")
    lake.permissions.create_role("analyst")
    job: dict[str, Any] = {"name": "j", "statement": "", "database": "default", "settings": {}, "tables": {}}
    identity = Identity(principal="ada", roles=frozenset({"analyst"}), expires_at=math.inf)

    def claimed() -> Lake:
        return lake.for_caller(lake.access.identified(identity))

    with pytest.raises(Forbidden, match=r"roles beside them \(analyst\).*GRANT ROLE analyst TO ada"):
        claimed().jobs.create(**job)
    job_id = as_user(lake, static).jobs.create(**job)
    with pytest.raises(Forbidden, match="whose policies would not bind its jobs"):
        claimed().jobs.request(job_id, JobRequest.RESTART)
    claimed().jobs.request(job_id, JobRequest.STOP)
    lake.permissions.grant_role("analyst", "ada")
    claimed().jobs.request(job_id, JobRequest.RESTART)
    claimed().jobs.create(**job)
    assert "analyst" in lake.access.named("ada").roles


def test_the_principal_of_a_job_has_the_rights_of_the_moment(lake: Lake) -> None:
    make_table(lake, id="INT")
    user(lake, "ada")
    give(lake, Access.SELECT, TABLE, "ada")
    begun = lake.access.named("ada")
    assert lake.access.renewed(begun).may(Access.SELECT, TABLE)
    borrowed = lake.access.lend(begun)  # what Spark's own processes come with
    asked: list[Callable[[], object]] = [
        lambda: lake.access.renewed(begun),
        lambda: lake.access.caller(borrowed),
        lambda: lake.access.named("ada"),
    ]
    lake.permissions.revoke(TABLE, [Access.SELECT], "ada")
    assert not lake.access.renewed(begun).may(Access.SELECT, TABLE)
    assert not lake.access.caller(borrowed).may(Access.SELECT, TABLE)
    lake.permissions.revoke_token("ada-token")
    for ask in asked:
        with pytest.raises(NotAuthorized, match="ada has no token any more"):
            ask()


def test_of_rows_that_a_policy_hides_nothing_is_taken_away_as_a_whole(lake: Lake) -> None:
    make_table(lake, id="INT")
    make_table(lake, "u", id="INT")
    secret = user(lake, "ada")
    lake.permissions.create_role("bound")
    for name in ("t", "u"):
        give(lake, Access.DELETE, table_resource(Identifier("default", name)), "ada")
    rule = {"kind": "LEAF", "transform": {"name": "FIELD_REF", "fieldRef": {"index": 0, "name": "id", "type": "INT"}},
            "function": "EQUAL", "literals": [1]}  # fmt: skip

    def policy(name: str, to: tuple[str, ...], column: str | None = None) -> None:
        made = Policy(name=name, column=column, principals=to, sql="id = 1", rule=rule)
        lake.permissions.create_policy(T, made)

    policy("others", ("bob", "bound"))
    policy("mask", ("ada",), "id")
    assert lake.access.caller(secret).may(Access.DELETE, TABLE)
    lake.permissions.grant_role("bound", "ada")
    ada = lake.access.caller(secret)
    assert not ada.may(Access.DELETE, TABLE)
    with pytest.raises(Forbidden, match="a row policy keeps rows of table"):
        ada.require(Access.DELETE, TABLE)
    ada.require_to_change_rows(TABLE)
    ada.require(Access.DELETE, table_resource(Identifier("default", "u")))
    lake.rename_table(T, Identifier("default", "renamed"))
    assert not lake.access.caller(secret).may(Access.DELETE, table_resource(Identifier("default", "renamed")))
    lake.permissions.drop_policy(Identifier("default", "renamed"), "others")
    lake.access.caller(secret).require(Access.DELETE, table_resource(Identifier("default", "renamed")))
    lake.permissions.create_policy(Identifier("default", "u"), Policy(name="all", column=None, principals=(), sql="id = 1", rule=rule))
    assert not lake.access.caller(secret).may(Access.DELETE, table_resource(Identifier("default", "u"))), "it binds everybody"
    lake.permissions.grant_role(ADMIN, "ada")
    lake.access.caller(secret).require(Access.DELETE, table_resource(Identifier("default", "u")))


def test_who_lets_the_server_take_rows_away_needs_the_right_to(lake: Lake) -> None:
    make_table(lake, id="INT")
    secret = user(lake, "ada")
    give(lake, Access.ALTER, TABLE, "ada")
    values = {"consumer.expiration-time": "1 s", "tag.time-expire-enabled": "false"}
    values |= {"tag.default-time-retained": "1 s", "tag.batch.customized-name": "kept"}
    for key, value in {"snapshot.time-retained": "1 h", "tag.num-retained-max": "1", **values}.items():
        with pytest.raises(Forbidden, match="takes DELETE"):
            as_user(lake, secret).alter_table(T, [SetOption(key=key, value=value)])
    as_user(lake, secret).alter_table(T, [SetOption(key="target-file-size", value="1 mb")])
    as_user(lake, secret).alter_table(T, [SetOption(key="tag.automatic-creation", value="process-time")])
    lake.alter_table(T, [SetOption(key="tag.num-retained-max", value="2")])
    for key, value in {"tag.creation-period": "hourly", "tag.automatic-creation": "watermark", "tag.automatic-completion": "true"}.items():
        with pytest.raises(Forbidden, match="takes DELETE"):  # each new tag takes an old one away
            as_user(lake, secret).alter_table(T, [SetOption(key=key, value=value)])
    give(lake, Access.DELETE, TABLE, "ada")
    as_user(lake, secret).alter_table(T, [SetOption(key="snapshot.time-retained", value="1 h")])
    lake.permissions.revoke(TABLE, [Access.DELETE], "ada")
    with pytest.raises(Forbidden, match="takes DELETE"):
        as_user(lake, secret).alter_table(T, [RemoveOption(key="snapshot.time-retained")])


@pytest.mark.parametrize("key", ["write-only", "write.compaction-skip"])
def test_who_lets_the_server_begin_with_all_of_it_needs_the_right_to(lake: Lake, key: str) -> None:
    make_table(lake, options={key: "true", "partition.expiration-time": "30 d"}, partition="p", id="INT", p="STRING")
    secret = user(lake, "ada")
    give(lake, Access.ALTER, TABLE, "ada")
    for change in (SetOption(key="write-only", value="false"), RemoveOption(key=key)):
        with pytest.raises(Forbidden, match="takes DELETE"):
            as_user(lake, secret).alter_table(T, [change])
    give(lake, Access.DELETE, TABLE, "ada")
    as_user(lake, secret).alter_table(T, [SetOption(key="write-only", value="false")])
    lake.permissions.revoke(TABLE, [Access.DELETE], "ada")
    as_user(lake, secret).alter_table(T, [SetOption(key="write-only", value="true")])


def test_who_goes_back_to_a_schema_by_which_the_server_takes_rows_away_needs_the_right_to(lake: Lake) -> None:
    make_table(lake, options={"partition.expiration-time": "1 d"}, id="INT")
    lake.alter_table(T, [RemoveOption(key="partition.expiration-time")])
    lake.alter_table(T, [SetOption(key="target-file-size", value="1 mb")])
    secret = user(lake, "ada")
    give(lake, Access.ALTER, TABLE, "ada")
    ada = as_user(lake, secret)
    with pytest.raises(Forbidden, match="takes DELETE"):
        ada.history.rollback_schema(ada.open_any(T), 0)
    ada.history.rollback_schema(ada.open_any(T), 1)
    assert "partition.expiration-time" not in lake.open(T).schema.options
    give(lake, Access.DELETE, TABLE, "ada")
    ada = as_user(lake, secret)
    ada.history.rollback_schema(ada.open_any(T), 0)
    assert lake.open(T).schema.options["partition.expiration-time"] == "1 d"


def test_what_was_begun_over_a_table_asks_for_its_rights_again(lake: Lake) -> None:
    from sql.spark.streaming.rights import Rights

    made = make_table(lake, id="INT")
    secret = user(lake, "ada")
    give(lake, Access.SELECT, TABLE, "ada")
    rights = Rights(context_of(as_user(lake, secret)), [made, made])
    assert rights.now().lake.caller.principal == "ada"
    lake.rename_table(T, Identifier("default", "renamed"))
    rights.now()  # the table it reads, whatever it is called, and no other of its name
    make_table(lake, id="INT")
    give(lake, Access.SELECT, TABLE, "ada")
    renamed = table_resource(Identifier("default", "renamed"))
    lake.permissions.create_policy(
        Identifier("default", "renamed"), Policy(name="p", column="id", principals=("ada",), sql="NULL", rule={})
    )
    with pytest.raises(Forbidden, match="was changed since this query began"):
        rights.now()
    lake.permissions.drop_policy(Identifier("default", "renamed"), "p")
    rights.now()
    lake.permissions.revoke(renamed, [Access.SELECT], "ada")
    with pytest.raises(Forbidden, match="SELECT"):
        rights.now()
    lake.permissions.revoke_token("ada-token")
    with pytest.raises(NotAuthorized):
        rights.now()


def test_an_expired_grant_is_none(lake: Lake, dsn: str) -> None:
    make_table(lake, id="INT")
    secret = user(lake, "ada")
    later = dt.datetime.now(dt.UTC) + dt.timedelta(hours=1)
    lake.permissions.grant(Grant(resource=TABLE, access=Access.SELECT, principal="ada", expires_at=later))
    assert lake.access.caller(secret).may(Access.SELECT, TABLE)
    with psycopg.connect(dsn) as conn:
        conn.execute("UPDATE access_grant SET expires_at = now()")
    lake.access.forget()
    assert not lake.access.caller(secret).may(Access.SELECT, TABLE)
    assert lake.permissions.grants_on(TABLE) == []


def test_grants_follow_a_rename_and_go_with_a_drop(lake: Lake) -> None:
    make_table(lake, id="INT")
    secret = user(lake, "ada")
    give(lake, Access.SELECT, TABLE, "ada")
    lake.rename_table(T, Identifier("default", "u"))
    caller = lake.access.caller(secret)
    assert caller.may(Access.SELECT, table_resource(Identifier("default", "u")))
    make_table(lake, id="INT")
    assert not caller.may(Access.SELECT, TABLE)
    lake.drop_table(Identifier("default", "u"))
    make_table(lake, "u", id="INT")
    assert not lake.access.caller(secret).may(Access.SELECT, table_resource(Identifier("default", "u")))


# The lake asks


def test_every_method_of_the_lake_says_what_it_takes() -> None:
    silent = [
        name
        for name, method in inspect.getmembers(Lake, inspect.isfunction)
        if not name.startswith("_") and not hasattr(method, "__needs__") and name not in ("close", "for_caller")
    ]
    assert silent == []


def test_who_was_granted_nothing_may_do_nothing(lake: Lake) -> None:
    table = make_table(lake, id="INT")
    lake.create_database("other")
    seen = as_user(lake, user(lake, "ada"))
    nobody = Identifier("other", "x")
    for attempt in (
        lambda: seen.create_database("d"),
        lambda: seen.alter_database("default", set_options={"a": "b"}),
        lambda: seen.drop_database("other"),
        lambda: seen.database("other"),
        lambda: seen.list_tables("other"),
        lambda: seen.open(T),
        lambda: seen.open(nobody),
        lambda: seen.open_to_write(T),
        lambda: seen.create_table(nobody, table.schema),
        lambda: seen.alter_table(T, []),
        lambda: seen.rename_table(T, nobody),
        lambda: seen.drop_table(T),
        lambda: seen.read_rules(table),
        lambda: seen.partitions(table, None),
        lambda: seen.tags.create(table, "x"),
        lambda: seen.tags.delete(table, "x"),
        lambda: seen.repair_table(T),
        lambda: seen.recover(),
        lambda: seen.permissions.create_token("x"),
        lambda: seen.permissions.tokens(),
        lambda: seen.permissions.revoke_token("root"),
        lambda: seen.permissions.create_role("x"),
        lambda: seen.permissions.drop_role("x"),
        lambda: seen.permissions.grant_role(ADMIN, "ada"),
        lambda: give(seen, Access.SELECT, TABLE, "ada"),
        lambda: seen.permissions.revoke(TABLE, [Access.SELECT], "ada"),
        lambda: seen.permissions.grants_of("root"),
        lambda: seen.permissions.policies(T),
        lambda: seen.permissions.drop_policy(T, "p"),
    ):
        with pytest.raises(Forbidden, match="ada may not"):
            attempt()
    assert seen.list_databases() == ["default"]
    assert seen.list_tables("default") == []
    assert seen.permissions.grants_of() == []
    assert seen.permissions.grants_on(TABLE) == []
    assert lake.list_tables("default") == ["t"]


def test_lists_show_what_the_caller_may_see(lake: Lake) -> None:
    for database in ("a", "b", "c"):
        lake.create_database(database)
    for name in ("t", "u", "v"):
        make_table(lake, name, id="INT")
    secret = user(lake, "ada")
    give(lake, Access.SELECT, TABLE, "ada")
    give(lake, Access.CREATETABLE, database_resource("b"), "ada")
    give(lake, Access.SELECT, Resource(type=ResourceType.COLUMN, database="default", name="v"), "ada", Columns(names=("id",)))
    seen = as_user(lake, secret)
    assert seen.list_databases() == ["b", "default"]
    assert seen.list_tables("default") == ["t", "v"]
    give(lake, Access.LIST, database_resource("default"), "ada")
    seen = as_user(lake, secret)
    assert seen.list_tables("default") == ["t", "u", "v"]
    with pytest.raises(Forbidden):
        seen.open(Identifier("default", "u"))
    with pytest.raises(TableNotExist):
        seen.open(Identifier("default", "nowhere"))


def test_what_one_makes_is_ones_own(lake: Lake) -> None:
    table = make_table(lake, id="INT")
    secret = user(lake, "ada")
    give(lake, Access.CREATEDATABASE, CATALOG, "ada")
    seen = as_user(lake, secret)
    seen.create_database("mine")
    seen.create_table(Identifier("mine", "x"), table.schema)
    assert seen.open_to_write(Identifier("mine", "x")).identifier.table == "x"
    again = as_user(lake, secret)
    give(again, Access.SELECT, table_resource(Identifier("mine", "x")), "bob")
    again.drop_database("mine", cascade=True)
    assert "mine" not in lake.list_databases()


def test_one_table_of_somebody_elses_keeps_a_database_from_a_cascade(lake: Lake) -> None:
    table = make_table(lake, id="INT")
    lake.create_database("d")
    lake.create_table(Identifier("d", "theirs"), table.schema)
    secret = user(lake, "ada")
    give(lake, Access.DROP, database_resource("d"), "ada")
    with pytest.raises(Forbidden, match="DROP on everything in database d"):
        as_user(lake, secret).drop_database("d", cascade=True)
    assert lake.list_tables("d") == ["theirs"]


def test_column_grants_open_columns(lake: Lake) -> None:
    make_table(lake, id="INT", name="STRING", salary="BIGINT")
    secret = user(lake, "ada")
    column = Resource(type=ResourceType.COLUMN, database="default", name="t")
    give(lake, Access.SELECT, column, "ada", Columns(names=("id", "name")))
    give(lake, Access.SELECT, column, PUBLIC, Columns(names=("salary", "name"), excluded=True))
    seen = as_user(lake, secret)
    assert seen.read_rules(seen.open(T)).columns == frozenset({"id", "name"})
    with pytest.raises(Forbidden, match="sees only a part"):
        seen.partitions(seen.open(T), None)
    with pytest.raises(InvalidGrant, match="has no column nope"):
        give(lake, Access.SELECT, column, "ada", Columns(names=("nope",)))
    lake.permissions.revoke(column, [Access.SELECT], "ada")
    with pytest.raises(AccessNotExist):
        lake.permissions.revoke(column, [Access.SELECT], "ada")
    seen = as_user(lake, secret)
    assert seen.read_rules(seen.open(T)).columns == frozenset({"id"})


def test_all_or_none_of_several_grants(lake: Lake) -> None:
    make_table(lake, id="INT")
    user(lake, "ada")
    missing = table_resource(Identifier("default", "missing"))
    with pytest.raises(LakeError):
        lake.permissions.grant(
            Grant(resource=TABLE, access=Access.SELECT, principal="ada"), Grant(resource=missing, access=Access.SELECT, principal="ada")
        )
    assert lake.permissions.grants_on(TABLE) == []


def test_what_was_known_counts_for_a_while_when_postgres_is_away(lake: Lake, server_dsn: str, dsn: str) -> None:
    secret = user(lake, "ada")
    known = AccessControl(lake.catalog)
    assert known.caller(secret).principal == "ada"
    lake.catalog.close()
    time.sleep(TRUSTED_SECONDS)
    assert known.caller(secret).principal == "ada"


def test_made_up_tokens_push_nobody_out_who_is_known(lake: Lake, catalog: CatalogStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remembered, "_MOST_KNOWN", 3)
    secret = user(lake, "ada")
    known = AccessControl(catalog)
    assert known.caller(secret).principal == "ada"
    for number in range(5):
        with pytest.raises(NotAuthorized):
            known.caller(f"{TOKEN_PREFIX}{number}")
    catalog.close()
    time.sleep(TRUSTED_SECONDS)
    assert known.caller(secret).principal == "ada"


def test_what_has_not_the_form_of_a_token_costs_no_look_at_postgres(lake: Lake, catalog: CatalogStore) -> None:
    known = AccessControl(catalog, token="root")
    catalog.close()
    for guessed in ("guessed", "lent-guessed", ""):
        with pytest.raises(NotAuthorized, match="not one this server knows"):
            known.caller(guessed)
    with pytest.raises(Unavailable):
        known.caller(f"{TOKEN_PREFIX}guessed")
