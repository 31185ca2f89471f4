"""Maintenance takes the right to change the table, and system tables show nothing a policy hides."""

from __future__ import annotations

from itertools import chain, combinations

import pytest

from gateway.gateway import Gateway
from lake import Lake
from model.errors import Forbidden, LakeError
from model.identifier import Identifier
from sql.system.names import _ABOUT_ROWS
from table.format.consumers import write_consumer
from tests.lake.access.test_access import user
from tests.short import one_in
from tests.sql.tables import make_table

CALLS = [
    "CALL sys.compact('t')",
    "CALL sys.compact_manifest('t')",
    "CALL sys.expire_snapshots('t')",
    "CALL sys.rollback_to('t', 1)",
    "CALL sys.rollback('t', '1')",
    "CALL sys.create_tag('t', 'x')",
    "CALL sys.replace_tag('t', 'x', 1)",
    "CALL sys.rename_tag('t', 'x', 'y')",
    "CALL sys.delete_tag('t', 'x')",
    "CALL sys.expire_tags('t')",
    "CALL sys.drop_partition('t', 'name=a')",
    "CALL sys.mark_partition_done('t', 'name=a')",
    "CALL sys.expire_partitions('t')",
    "CALL sys.reset_consumer('t', 'c', 1)",
    "CALL sys.clear_consumers('t')",
    "CALL sys.rescale('t')",
    "CALL sys.trigger_tag_automatic_creation('t')",
    "ALTER TABLE t DROP IF EXISTS PARTITION (id = 9)",
    "CALL sys.remove_orphan_files('t')",
    "CALL sys.create_branch('t', 'b')",
    "CALL sys.rename_branch('t', 'b', 'c')",
    "CALL sys.fast_forward('t', 'b')",
]


def fill(lake: Lake, gateway: Gateway) -> str:
    """Make table t with two rows; the token of a user."""
    make_table(lake, options={"row-tracking.enabled": "true"}, id="INT", name="STRING")
    gateway.run("INSERT INTO t VALUES (1, 'a'), (50, 'b')").close()
    return user(lake, "ada")


@pytest.fixture
def ada(lake: Lake, gateway: Gateway) -> str:
    return fill(lake, gateway)


TAKES_AWAY = (
    "expire_snapshots", "rollback_to", "rollback", "replace_tag", "rename_tag", "rename_branch", "delete_tag", "remove_orphan_files",
    "fast_forward",
)  # fmt: skip


@pytest.mark.parametrize("call", CALLS)
def test_maintenance_takes_update_or_delete(gateway: Gateway, lake: Lake, ada: str, call: str) -> None:
    with pytest.raises(Forbidden):
        gateway.run(call, caller=lake.access.caller(ada))
    gateway.run("GRANT SELECT ON t TO ada").close()
    with pytest.raises(Forbidden):
        gateway.run(call, caller=lake.access.caller(ada))
    gateway.run("GRANT UPDATE ON t TO ada").close()
    takes_away = any(f"sys.{name}(" in call for name in TAKES_AWAY)
    assert isinstance(outcome(gateway, lake, ada, call), Forbidden) is takes_away
    gateway.run("GRANT DELETE ON t TO ada").close()
    assert not isinstance(outcome(gateway, lake, ada, call), Forbidden)  # some have nothing to do here, and say so


def outcome(gateway: Gateway, lake: Lake, who: str, call: str) -> LakeError | None:
    try:
        gateway.run(call, caller=lake.access.caller(who)).close()
    except LakeError as problem:
        return problem
    return None


@pytest.fixture(scope="module")
def readers(module_gateway: Gateway) -> tuple[str, str]:
    """The tokens of two who may read t: one of them all, the other a part of its rows."""
    lake = module_gateway.lake
    ada = fill(lake, module_gateway)
    bob = user(lake, "bob")
    module_gateway.run("GRANT SELECT ON t TO ada, bob; CREATE POLICY low ON t TO bob USING (id < 10)").close()
    return ada, bob


@pytest.mark.parametrize("kind", sorted(_ABOUT_ROWS))
def test_a_policy_hides_what_shows_values(module_gateway: Gateway, readers: tuple[str, str], kind: str) -> None:
    everything, a_part = map(module_gateway.lake.access.caller, readers)
    module_gateway.run(f"SELECT * FROM t${kind}", caller=everything).close()
    for query in (f"SELECT * FROM t${kind}", f"SELECT COUNT(*) FROM t${kind}", f"SELECT 1 FROM t${kind} GROUP BY 1"):
        with pytest.raises(LakeError) as refused:
            module_gateway.run(query, caller=a_part).collect()
        assert isinstance(refused.value, Forbidden) or "no Spark" in refused.value.message
    module_gateway.run("SELECT snapshot_id FROM t$snapshots", caller=a_part).close()


def test_tables_one_may_not_see_are_not_listed(gateway: Gateway, lake: Lake, ada: str) -> None:
    make_table(lake, "secret", id="INT")
    gateway.run("GRANT SELECT ON t TO ada").close()
    seen = gateway.run("SELECT table_name FROM sys.tables", caller=lake.access.caller(ada)).collect()
    assert seen == [("t",)]
    with pytest.raises(Forbidden):
        gateway.run("SELECT * FROM secret$snapshots", caller=lake.access.caller(ada))


RIGHTS = ("UPDATE", "DELETE", "PURGE")
SEVERAL_STEPS = {
    "CALL sys.purge_files('{t}')": [{"DELETE", "PURGE"}],
    "CALL sys.clear_consumers('{t}')": [{"UPDATE"}, {"DELETE"}],
    "CALL sys.reset_consumer('{t}', 'reader')": [{"UPDATE"}, {"DELETE"}],
    "CALL sys.expire_partitions('{t}', '1 d', 'yyyy-MM-dd')": [{"DELETE"}],
    "CALL sys.drop_partition('{t}', 'dt=2020-01-01;dt=2020-01-02')": [{"DELETE"}],
    "CALL sys.expire_snapshots('{t}', 1)": [{"DELETE"}],
    "CALL sys.expire_tags('{t}', '2100-01-01 00:00:00')": [{"DELETE"}],
    "CALL sys.fast_forward('{t}', 'b')": [{"DELETE"}],
}
"""What lets go several things, one after the other, with the sets of rights each of which is enough, beside SELECT."""


@pytest.mark.parametrize("call", one_in(3, SEVERAL_STEPS))
def test_a_call_of_several_steps_is_refused_before_its_first_or_ends(gateway: Gateway, lake: Lake, call: str) -> None:
    ada = user(lake, "ada")
    for number, held in enumerate(chain.from_iterable(combinations(RIGHTS, size) for size in range(len(RIGHTS) + 1))):
        name = f"t{number}"
        _with_all_kinds(gateway, lake, name)
        gateway.run(f"GRANT {', '.join(('SELECT', *held))} ON {name} TO ada").close()
        before = _all_it_keeps(gateway, name)
        refused = outcome(gateway, lake, ada, call.format(t=name))
        assert refused is None or isinstance(refused, Forbidden), refused
        assert (refused is None) is any(enough <= set(held) for enough in SEVERAL_STEPS[call]), (held, refused)
        assert (_all_it_keeps(gateway, name) == before) is (refused is not None), held


def _with_all_kinds(gateway: Gateway, lake: Lake, name: str) -> None:
    """A table with old partitions, tags, a branch and consumers."""
    for statement in (
        f"CREATE TABLE {name} (id INT, dt STRING) PARTITIONED BY (dt)",
        f"INSERT INTO {name} VALUES (1, '2020-01-01')",
        f"CALL sys.create_tag('{name}', 'early', 1)",
        f"CALL sys.create_branch('{name}', 'b', 'early')",
        f"INSERT INTO {name} VALUES (2, '2020-01-02')",
        f"CALL sys.create_tag('{name}', 'late', 2)",
    ):
        gateway.run(statement).close()
    for consumer in ("reader", "other"):
        write_consumer(lake.open(Identifier("default", name)).files, consumer, 2)


def _all_it_keeps(gateway: Gateway, name: str) -> list[list[tuple[object, ...]]]:
    kinds = ("$snapshots", "$tags", "$branches", "$consumers", "")
    return [sorted(gateway.run(f"SELECT * FROM {name}{kind}").collect(), key=repr) for kind in kinds]
