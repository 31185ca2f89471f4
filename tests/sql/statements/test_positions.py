"""Procedures take their arguments by position in the orders of Paimon's Flink and Spark procedures (facts of release 2.0 and master)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

import sql.statements.all  # noqa: F401 - procedures register themselves
from gateway.gateway import Gateway
from sql.execution.results import ResultSet
from sql.statements.base import ExecutionContext
from sql.statements.procedures.calls import PROCEDURES, Arguments

FLINK = {
    "alter_column_default_value": "table column default_value",
    "clear_consumers": "table including_consumers excluding_consumers",
    "compact": "table partitions order_strategy order_by options where partition_idle_time compact_strategy buckets",
    "compact_database": ("including_databases mode including_tables excluding_tables table_options partition_idle_time compact_strategy"),
    "compact_manifest": "table options dry_run",
    "create_branch": "table branch tag ignoreIfExists",
    "create_tag": "table tag snapshot_id time_retained",
    "create_tag_from_timestamp": "table tag timestamp time_retained",
    "create_tag_from_watermark": "table tag watermark time_retained",
    "delete_branch": "table branch",
    "delete_tag": "table tag",
    "drop_partition": "table partitions",
    "expire_partitions": "table expiration_time timestamp_formatter timestamp_pattern expire_strategy max_expires options",
    "expire_snapshots": "table retain_max retain_min older_than max_deletes options",
    "expire_tags": "table older_than",
    "fast_forward": "table branch",
    "mark_partition_done": "table partitions",
    "migrate_database": "connector source_database options parallelism",
    "migrate_file": "connector source_table target_table delete_origin parallelism",
    "migrate_table": "connector source_table target_table options parallelism delete_origin",
    "purge_files": "table",
    "remove_orphan_files": "table older_than dry_run parallelism mode",
    "remove_unexisting_files": "table dry_run parallelism",
    "rename_branch": "table from_branch to_branch",
    "rename_tag": "table tagName targetTagName",
    "replace_tag": "table tag snapshot_id time_retained",
    "rescale": "table bucket_num partition scan_parallelism sink_parallelism",
    "reset_consumer": "table consumer_id next_snapshot_id",
    "rewrite_file_index": "table partitions",
    "rollback_to": "table tag snapshot_id",
    "rollback_to_timestamp": "table timestamp",
    "rollback_to_watermark": "table watermark",
    "trigger_tag_automatic_creation": "table",
}
SPARK = {
    "clear_consumers": "table includingConsumers excludingConsumers",
    "compact": "table partitions compact_strategy order_strategy order_by where options partition_idle_time buckets",
    "compact_database": "including_databases including_tables excluding_tables options",
    "compact_manifest": "table options dry_run",
    "create_branch": "table branch tag ignoreIfExists",
    "create_tag": "table tag snapshot time_retained",
    "create_tag_from_timestamp": "table tag timestamp time_retained",
    "delete_branch": "table branch",
    "delete_tag": "table tag",
    "expire_partitions": "table expiration_time timestamp_formatter timestamp_pattern expire_strategy max_expires options",
    "expire_snapshots": "table retain_max retain_min older_than max_deletes options",
    "expire_tags": "table older_than",
    "fast_forward": "table branch",
    "mark_partition_done": "table partitions",
    "migrate_database": "source_type database options",  # then options_map, which no literal is
    "migrate_file": "source_type source_table target_table delete_origin parallelism",
    "migrate_table": "source_type table options delete_origin target_table",  # then options_map
    "purge_files": "table",
    "remove_orphan_files": "table older_than dry_run parallelism mode",
    "remove_unexisting_files": "table dry_run parallelism",
    "rename_branch": "table from_branch to_branch",
    "rename_tag": "table tag target_tag",
    "replace_tag": "table tag snapshot time_retained",
    "rescale": "table bucket_num partitions where",
    "reset_consumer": "table consumerId nextSnapshotId",
    "rewrite_file_index": "table where",
    "rollback": "table version snapshot tag",
    "rollback_to_timestamp": "table timestamp",
    "rollback_to_watermark": "table watermark",
    "trigger_tag_automatic_creation": "table",
}
OWN = {
    "analyze_table", "check_table", "claim_warehouse", "confirm_clock", "doctor", "erase", "register_table", "repair_table",
    "rewrite_files",
}  # fmt: skip
SAID = {
    "compact_strategy": "full", "mode": "combined", "options": "k=v", "order_strategy": "zorder", "partition": "p=1",
    "partitions": "p=1,q=2", "table_options": "k=v", "where": "p > 1",
}  # fmt: skip
"""What is told apart by its form."""
ALIKE = {"connector": "source_type", "source_table": "table", "source_database": "database"}
"""Two names of one thing, which some procedures take besides each other."""


@pytest.fixture(scope="module")
def gateway(module_gateway: Gateway) -> Gateway:
    """One for all: what they call does nothing."""
    return module_gateway


@pytest.fixture
def bound(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> Arguments:
    """What the last call gave its procedure."""
    taken = Arguments()

    def body(_: ExecutionContext, arguments: Arguments) -> ResultSet:
        taken.clear()
        taken.update(arguments)
        return ResultSet.ok()

    for name, one in list(PROCEDURES.items()):
        monkeypatch.setitem(PROCEDURES, name, replace(one, body=body, spark=lambda _: False))
    return taken


def _values(names: list[str], name: str) -> Mapping[str, object]:
    types = {key.replace("_", ""): kind for key, kind in PROCEDURES[f"sys.{name}"].parameters.items()}
    known = {"snapshot": int} | types
    made: dict[str, object] = {}
    for at, key in enumerate(names, 1):
        kind = known.get(key.replace("_", "").lower(), str)
        made[key] = SAID.get(key, f"{key}{at}") if kind is str else at if kind is int else True
    return made


def _told(arguments: Arguments) -> dict[str, object]:
    return {ALIKE.get(key, key): value for key, value in arguments.items()}


def _written(value: object) -> str:
    return f"'{value}'" if isinstance(value, str) else str(value).lower()


@pytest.mark.parametrize(
    ("name", "order"), [*FLINK.items(), *SPARK.items()], ids=[*(f"flink {name}" for name in FLINK), *(f"spark {name}" for name in SPARK)]
)
def test_by_position_is_as_by_name(gateway: Gateway, bound: Arguments, name: str, order: str) -> None:
    names = order.split()
    values = _values(names, name)
    required = max(1, PROCEDURES[f"sys.{name}"].required)
    for length in range(required, len(names) + 1):
        some = names[:length]
        gateway.run(f"CALL sys.{name}({', '.join(f'`{key}` => {_written(values[key])}' for key in some)})").close()
        by_name = _told(bound)
        assert len(by_name) == length
        gateway.run(f"CALL sys.{name}({', '.join(_written(values[key]) for key in some)})").close()
        assert _told(bound) == by_name, some


@pytest.mark.parametrize(
    ("call", "same"),
    [
        ("compact('t', '', '', 'zorder', 'a')", "compact(`table` => 't', order_strategy => 'zorder', order_by => 'a')"),
        ("compact('t', '', '', '', 'k=v')", "compact(`table` => 't', options => 'k=v')"),
        ("compact_database('d', '', 't')", "compact_database(including_databases => 'd', including_tables => 't')"),
        ("create_branch('t', 'b', true)", "create_branch(`table` => 't', branch => 'b', ignore_if_exists => true)"),
        ("rollback_to('t', 5)", "rollback_to(`table` => 't', snapshot_id => 5)"),
        ("rollback_to('t', '', 5)", "rollback_to(`table` => 't', snapshot_id => 5)"),
        ("drop_partition('t', 'a=1', 'a=2,b=3', true)", "drop_partition('t', 'a=1;a=2,b=3', dry_run => true)"),
        ("mark_partition_done('t', 'a=1', 'a=2')", "mark_partition_done('t', 'a=1;a=2')"),
        ("migrate_table('hive', '/x', 'd.t')", "migrate_table(connector => 'hive', source_table => '/x', target_table => 'd.t')"),
        ("migrate_table('hive', '/x', '', 'd.t')", "migrate_table(source_type => 'hive', `table` => '/x', target_table => 'd.t')"),
        (
            "migrate_table('hive', '/x', '', 'k=v', 4)",
            "migrate_table(connector => 'hive', source_table => '/x', options => 'k=v', parallelism => 4)",
        ),
    ],
)
def test_what_is_left_out_or_repeated(gateway: Gateway, bound: Arguments, call: str, same: str) -> None:
    gateway.run(f"CALL sys.{same}").close()
    by_name = _told(bound)
    gateway.run(f"CALL sys.{call}").close()
    assert _told(bound) == by_name


def test_each_procedure_is_one_of_paimons_or_ours() -> None:
    assert {name.removeprefix("sys.") for name in PROCEDURES} == {*FLINK, *SPARK, *OWN}


def test_a_mode_that_flink_does_not_have_is_refused(gateway: Gateway) -> None:
    with pytest.raises(Exception, match="divided or combined is expected"):
        gateway.run("CALL sys.compact_database(mode => 'x')")
