"""Postgres goes away between any two messages of a statement: who is told that nothing was done can rely on it."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from gateway.gateway import Gateway
from lake import EVERYBODY
from model.errors import LakeError, OutcomeUnknown
from tests.fix_postgres_proxy import Lost, PostgresProxy
from tests.gateway.test_round_trips import NOT_WAITED_FOR
from tests.short import one_in
from tests.waiting import eventually

_MADE = ("CREATE TABLE {t} (id INT, v STRING) WITH ('rows.erasable' = 'true')", "INSERT INTO {t} VALUES (1, 'a'), (2, 'b')")
_TAGGED = (*_MADE, "CALL sys.create_tag('{t}', 'x')", "INSERT INTO {t} VALUES (3, 'c')")
_BRANCHED = (*_TAGGED, "CALL sys.create_branch('{t}', 'b', 'x')", "INSERT INTO {t}$branch_b VALUES (4, 'd')")
_READ = (*_MADE, "CALL sys.reset_consumer('{t}', 'c', 1)")

_PARTED = ("CREATE TABLE {t} (id INT, p STRING) PARTITIONED BY (p)", "INSERT INTO {t} VALUES (1, 'a'), (2, 'b')")
_DATED = (_PARTED[0], "INSERT INTO {t} VALUES (1, '2020-01-01'), (2, '2999-01-01')")


@dataclass(frozen=True, slots=True)
class Case:
    """A statement on a table ``{t}``, and those that come before it."""

    text: str
    before: Sequence[str] = _MADE


CASES = {
    "create": Case("CREATE TABLE {t} (id INT)", ()),
    "drop": Case("DROP TABLE {t}"),
    "undrop": Case("UNDROP TABLE {t}", (*_MADE, "DROP TABLE {t}")),
    "purge": Case("PURGE TABLE {t}", (*_MADE, "DROP TABLE {t}")),
    "rename": Case("ALTER TABLE {t} RENAME TO {t}_new"),
    "add a column": Case("ALTER TABLE {t} ADD COLUMN w INT"),
    "set an option": Case("ALTER TABLE {t} SET ('snapshot.num-retained.min' = '3')"),
    "insert": Case("INSERT INTO {t} VALUES (5, 'e')"),
    "truncate": Case("TRUNCATE TABLE {t}"),
    "delete": Case("DELETE FROM {t} WHERE id = 1"),
    "update": Case("UPDATE {t} SET v = 'z' WHERE id = 2"),
    "tag": Case("CALL sys.create_tag('{t}', 'y')", _TAGGED),
    "delete a tag": Case("CALL sys.delete_tag('{t}', 'x')", _TAGGED),
    "replace a tag": Case("CALL sys.replace_tag('{t}', 'x', 2)", _TAGGED),
    "rename a tag": Case("CALL sys.rename_tag('{t}', 'x', 'y')", _TAGGED),
    "reset a consumer": Case("CALL sys.reset_consumer('{t}', 'c', 2)", _READ),
    "forget a consumer": Case("CALL sys.reset_consumer('{t}', 'c')", _READ),
    "rollback": Case("CALL sys.rollback_to('{t}', 'x')", _TAGGED),
    "branch": Case("CALL sys.create_branch('{t}', 'c', 'x')", _TAGGED),
    "fast forward": Case("CALL sys.fast_forward('{t}', 'b')", _BRANCHED),
    "delete a branch": Case("CALL sys.delete_branch('{t}', 'b')", _BRANCHED),
    "rename a branch": Case("CALL sys.rename_branch('{t}', 'b', 'c')", _BRANCHED),
    "compact": Case("CALL sys.compact('{t}')", (*_MADE, *["INSERT INTO {t} VALUES (7, 'g')"] * 5)),
    "expire": Case("CALL sys.expire_snapshots('{t}', retain_max => 1)", (*_MADE, "INSERT INTO {t} VALUES (7, 'g')")),
    "create a database": Case("CREATE DATABASE {t}_d", ()),
    "drop a database": Case("DROP DATABASE {t}_d CASCADE", ("CREATE DATABASE {t}_d", "CREATE TABLE {t}_d.u (id INT)")),
    "change a database": Case("ALTER DATABASE {t}_d SET ('owner' = 'somebody')", ("CREATE DATABASE {t}_d",)),
    "undrop a database": Case(
        "UNDROP DATABASE {t}_d", ("CREATE DATABASE {t}_d", "CREATE TABLE {t}_d.u (id INT)", "DROP DATABASE {t}_d CASCADE")
    ),
    "drop a partition": Case("ALTER TABLE {t} DROP PARTITION (p = 'a')", _PARTED),
    "expire partitions": Case(
        "CALL sys.expire_partitions('{t}', '1 d', timestamp_formatter => 'yyyy-MM-dd', timestamp_pattern => '$p')", _DATED
    ),
    "mark as done": Case("CALL sys.mark_partition_done('{t}', 'p=a')", _PARTED),
    "role": Case("CREATE ROLE {t}r", ()),
    "drop a role": Case("DROP ROLE {t}r", ("CREATE ROLE {t}r",)),
    "grant a role": Case("GRANT ROLE {t}r TO USER {t}u", ("CREATE ROLE {t}r",)),
    "revoke": Case("REVOKE SELECT ON TABLE {t} FROM USER someone", (*_MADE, "GRANT SELECT ON TABLE {t} TO USER someone")),
    "policy": Case("CREATE ROW POLICY {t}p ON {t} TO USER someone USING (id = 1)"),
    "reset a limit": Case("RESET QUOTA statements.running FOR USER {t}", ("SET QUOTA statements.running = 3 FOR USER {t}",)),
    "grant": Case("GRANT SELECT ON TABLE {t} TO USER someone"),
    "limit": Case("SET QUOTA statements.running = 3 FOR USER {t}", ()),
}
_PROBES = (
    "SHOW TABLES", "SHOW DATABASES", "SELECT * FROM {t}", "SELECT * FROM {t}_new", "DESCRIBE {t}", "SHOW CREATE TABLE {t}",
    "SELECT tag_name, snapshot_id FROM {t}$tags", "SELECT * FROM {t}$consumers", "SELECT branch_name FROM {t}$branches",
    "SELECT COUNT(*) FROM {t}$snapshots", "SELECT file_path FROM {t}$files", "SELECT * FROM {t}$branch_c", "SHOW TABLES IN {t}_d",
    "SHOW GRANTS ON TABLE {t}", "SHOW QUOTAS", "SHOW DROPPED TABLES", "SHOW DROPPED DATABASES", "DESCRIBE DATABASE {t}_d",
    "SHOW PARTITIONS {t}", "SELECT * FROM {t}$partitions", "SHOW ROLES", "SHOW ROLE GRANTS", "SHOW GRANTS TO USER {t}u",
    "SHOW POLICIES ON {t}",
)  # fmt: skip


def _state(gateway: Gateway, table: str) -> list[tuple[str, str]]:
    """All that is to be seen of a table and beside it."""
    return [(probe, _seen(gateway, probe.format(t=table))) for probe in _PROBES]


def _seen(gateway: Gateway, text: str) -> str:
    try:
        with gateway.run(text) as result:
            return repr(sorted(result.collect(), key=repr))
    except LakeError as error:
        return error.error_class


def _try(gateway: Gateway, proxy: PostgresProxy, case: Case, table: str, trips: int, key: str | None, *, repeat: bool = True) -> bool:
    """Let Postgres go away before one round trip of the statement; False where it had been done by then.

    With ``repeat`` it is sent again under its key until it is done.
    """
    for text in case.before:
        gateway.run(text.format(t=table)).close()
    before, text = _state(gateway, table), case.text.format(t=table)
    proxy.away_after(trips)
    try:
        gateway.run(text, idempotency_key=key, caller=EVERYBODY).close()
        told = "done"
    except OutcomeUnknown:
        told = "unknown"
    except LakeError as error:
        told = f"not done: {error}"
    away = proxy.back()
    _recovered(gateway)
    now = _state(gateway, table)
    if told == "done":
        assert now != before, f"{text}: done, and nothing has changed (away before trip {trips + 1})"
    elif told != "unknown":
        assert now == before, f"{text}: {told}; {set(now) ^ set(before)} (away before trip {trips + 1})"
    if not repeat:
        return away
    if told != "done" and key is not None:
        _until_done(gateway, text, key)
        assert _state(gateway, table) != before
    elif told == "done" and key is not None:
        _until_done(gateway, text, key)  # at once, but where its answer could not be kept
        assert _state(gateway, table) == now, f"{text}: done twice (away before trip {trips + 1})"
    return away


def _recovered(gateway: Gateway) -> None:
    """Wait until each connection that broke has been replaced."""
    assert eventually(lambda: all(_seen(gateway, "SHOW DATABASES").startswith("[") for _ in range(5)))


def _until_done(gateway: Gateway, text: str, key: str) -> None:
    def done() -> bool:
        with contextlib.suppress(LakeError):
            gateway.run(text, idempotency_key=key, caller=EVERYBODY).close()
            return True
        return False

    assert eventually(done, seconds=60), f"{text}: its key never came free"


@pytest.mark.torture
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("key", [None, "k"])
@pytest.mark.parametrize("name", CASES)
def test_postgres_away_before_each_message(far: Gateway, postgres_proxy: PostgresProxy, name: str, key: str | None) -> None:
    trips = 0
    while _try(far, postgres_proxy, CASES[name], f"t{trips}", trips, key and f"{key}{trips}"):
        trips += 1
    print(f"{name}: {trips} round trips, {key}")
    assert trips > 1


@pytest.mark.parametrize("name", one_in(3, ["delete a tag", "replace a tag", "rename a tag", "reset a consumer", "forget a consumer"]))
def test_postgres_away_before_the_last_messages(far: Gateway, postgres_proxy: PostgresProxy, name: str) -> None:
    """Who is refused has not lost a file either, by which others would know that it is done."""
    case = CASES[name]
    for text in case.before:
        far.run(text.format(t="t")).close()
    postgres_proxy.reset()
    far.run(case.text.format(t="t"), idempotency_key="k", caller=EVERYBODY).close()
    count = len(postgres_proxy.asked())
    for trips in range(max(0, count - 4), count):
        _try(far, postgres_proxy, case, f"t{trips}", trips, f"k{trips}", repeat=False)


def test_what_is_done_is_told_though_its_answer_cannot_be_kept_any_more(far: Gateway, postgres_proxy: PostgresProxy) -> None:
    """The answer was stored with the decision; the look at it afterwards finds nobody."""
    case = CASES["undrop"]
    for text in case.before:
        far.run(text.format(t="t")).close()
    postgres_proxy.reset()
    far.run("UNDROP TABLE t", idempotency_key="first", caller=EVERYBODY).close()
    looks = postgres_proxy.asked(without=NOT_WAITED_FOR)
    last = looks.pop()
    far.run("DROP TABLE t").close()
    postgres_proxy.lose(f"^{re.escape(last)}$", Lost.QUESTION, after=looks.count(last), away=True)
    far.run("UNDROP TABLE t", idempotency_key="second", caller=EVERYBODY).close()
    assert postgres_proxy.back()
    _recovered(far)
    assert _seen(far, "SELECT id FROM t") == "[(1,), (2,)]"
