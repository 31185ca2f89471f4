"""Of every option of a table one holds: it works, it is kept for others, or it is refused; generated from the declarations."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pytest

from gateway.gateway import Gateway
from lake import Lake
from model.errors import InvalidOption
from model.identifier import Identifier
from model.options.file_index import COLUMNS
from model.options.maintenance import PRECOMMIT_COMPACT
from model.options.option import Option
from model.options.table import TABLE_OPTIONS, check_hint
from model.options.write import DISABLE_EXPLICIT_CASTS
from model.schema.change import SetOption

ROOT = Path(__file__).parents[3]
PACKAGES = ("catalog", "gateway", "jobs", "lake", "maintenance", "model", "pyspark_sluice", "server", "sql", "table", "workers")
_DECLARED = ("model/options/write.py", "model/options/maintenance.py", "model/options/scan.py", "model/options/others.py")
_PAIMONS = ROOT / "tests" / "data" / "paimon-options.tsv"
"""Every option of `CoreOptions` and of the Flink and Spark connectors of Paimon's master (22 August 2026), former names too."""
_SINGLE = frozenset({"type", "manifest.compression"})
"""Options of one value, which is what is done anyway."""
_BY_NAME = (PRECOMMIT_COMPACT, DISABLE_EXPLICIT_CASTS, *COLUMNS)
"""Options that the code reads by their declaration."""


def by_kind(kind: str) -> list[Any]:
    """The options of which one of `works`, `kept` and `off` holds."""
    return [pytest.param(option, id=option.key) for option in TABLE_OPTIONS if _kind(option) == kind]


def _kind(option: Option[Any]) -> str:
    if option.parser.kind == "false":
        return "off"
    return "kept" if option.kept else "works"


@cache
def sources() -> dict[str, str]:
    found = {str(path.relative_to(ROOT)): path.read_text() for package in PACKAGES for path in (ROOT / package).rglob("*.py")}
    return {path: text for path, text in found.items() if not path.startswith("sql/connectors/")}


def readers(key: str) -> list[str]:
    """Where the code names an option, beside its declaration."""
    return [path for path, text in sources().items() if f'"{key}"' in text and path not in _DECLARED]


@pytest.mark.parametrize("option", by_kind("works"))
def test_what_works_is_read(option: Option[Any]) -> None:
    assert option.key in _SINGLE or option in _BY_NAME or readers(option.key)


@pytest.mark.parametrize("option", by_kind("kept"))
def test_what_is_kept_for_others_is_read_nowhere_and_said_so(option: Option[Any]) -> None:
    named = {"model/options/table.py", "model/options/rules.py"}  # which of them a hint may hold, and what they say together
    assert set(readers(option.key)) <= named
    assert option.kept in option.meaning()
    (told,) = TABLE_OPTIONS.idle({option.key: option.default_text()})
    assert told.startswith(f"WARNING: option '{option.key}' is kept for other clients and has no effect here: ")


def test_each_option_of_paimon_is_declared_or_refused_with_its_reason() -> None:
    keys = [line.split("\t")[0] for line in _PAIMONS.read_text().splitlines()]
    assert len(keys) > 430
    for key in keys:
        declared, reason = TABLE_OPTIONS.get(key), TABLE_OPTIONS.refusal(key) or TABLE_OPTIONS.danger(key)
        assert (declared is None) != (reason is None), f"{key}: {'nothing is said of it' if reason is None else 'both taken and refused'}"


def test_what_is_refused_says_why(gateway: Gateway) -> None:
    for key, says in (
        ("visibility-callback.enabled", "not implemented here"),
        ("partition.mark-done-action.http.url", "not implemented here"),
        ("owner.url", "names a host"),
        ("sort-engine", "append tables have none"),
    ):
        with pytest.raises(InvalidOption, match=says):
            gateway.run(f"CREATE TABLE t (a INT) WITH ('{key}' = 'x')").close()


def test_what_an_earlier_version_called_otherwise_is_read() -> None:
    formers = [(option, former) for option in TABLE_OPTIONS for former in option.former]
    assert len(formers) > 9
    for option, former in formers:
        given = option.parser.show(option.default) if option.default is not None else "7"
        other = "true" if given == "false" else given
        assert option.read({former: other}) == option.parse(other)
        assert option.read({former: other, option.key: given}) == option.parse(given)
        assert TABLE_OPTIONS.read({former: other}, option.key) == option.parse(other)


def test_former_keys_are_stored_as_todays(gateway: Gateway, lake: Lake) -> None:
    """As Paimon takes them; where both are given today's counts, and RESET takes away both."""
    name = Identifier("default", "former")

    def run(text: str) -> dict[str, str]:
        gateway.run(text).close()
        return {key: value for key, value in lake.open(name).schema.options.items() if "bucket" not in key}

    created = (
        "CREATE TABLE former (a INT, b INT) WITH ('bucket' = '-1', 'write.compaction-skip' = 'true', 'sink.clustering.by-columns' = 'a')"
    )
    assert run(created) == {"write-only": "true", "clustering.columns": "a"}
    assert run("ALTER TABLE former SET ('sink.clustering.by-columns' = 'b', 'clustering.columns' = 'a,b')")["clustering.columns"] == "a,b"
    assert run("ALTER TABLE former SET ('write.compaction-skip' = 'false')")["write-only"] == "false"
    lake.alter_table(name, [SetOption(key="write.compaction-skip", value="true")])  # as a client over REST stores it
    assert run("ALTER TABLE former RESET ('write-only', 'sink.clustering.by-columns')") == {}
    with pytest.raises(InvalidOption, match=r"called 'scan\.mode' by now, under which CREATE and ALTER TABLE store it"):
        check_hint({"log.scan": "latest"})


@pytest.mark.parametrize("option", by_kind("off"))
def test_what_is_not_there_cannot_be_switched_on(option: Option[Any]) -> None:
    assert option.parse("false") is False
    with pytest.raises(InvalidOption, match=option.key):
        option.parse("true")


def test_create_and_alter_warn_of_options_without_effect(gateway: Gateway) -> None:
    def told(text: str) -> list[str]:
        with gateway.run(text) as result:
            return [notice.split("'")[1] for notice in result.notices]

    assert told("CREATE TABLE t (a INT) WITH ('page-size' = '32 kb', 'target-file-size' = '1 mb')") == ["page-size"]
    assert told("ALTER TABLE t SET ('read.batch-size' = '7', 'write-only' = 'true', 'sort-spill-threshold' = '9')") == [
        "read.batch-size",
        "sort-spill-threshold",
    ]
    assert told("ALTER TABLE t RESET ('read.batch-size')") == []
    assert gateway.run("SELECT * FROM t").collect() == []


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ("'snapshot.num-retained.min' = '5', 'snapshot.num-retained.max' = '4'", "may not be above"),
        ("'file.compression' = 'brotli'", "one of zstd, snappy"),
        ("'file.compression' = 'zlib'", "'zlib' is none of 'file.format' = 'parquet': zstd, snappy, gzip"),
        ("'file.format' = 'orc', 'file.compression' = 'gzip'", "'gzip' is none of 'file.format' = 'orc': zstd, snappy, zlib"),
        ("'snapshot.num-retained.max' = '4'", "'snapshot.num-retained.min' = '10' and"),
        ("'partition.expiration-time' = '1 d'", "PARTITIONED BY"),
        ("'partition.idle-time-to-done' = '1 h'", "PARTITIONED BY"),
        ("'metadata.stats-mode' = 'some'", "one of none, counts, full"),
        ("'fields.a.stats-mode' = 'truncate(0)'", "one of none, counts, full"),
        ("'scan.mode' = 'from-timestamp', 'scan.timestamp' = 'yesterday'", "a time such as"),
        ("'scan.mode' = 'from-snapshot'", "needs the option that says where to start"),
        ("'scan.snapshot-id' = '1', 'scan.timestamp-millis' = '5'", "name two starting points"),
        ("'scan.mode' = 'latest', 'scan.snapshot-id' = '1'", "does not go with"),
        ("'scan.timestamp' = '2024-W01-1'", "other Paimon clients"),
        ("'scan.timestamp' = '2024-01-01 00:00:00+02:00'", "'scan.timestamp-millis' says it"),
        ("'compaction.small-file-ratio' = '5'", "a share of the whole"),
        ("'compaction.delete-ratio-threshold' = '7'", "a share of the whole"),
        ("'compaction.delete-ratio-threshold' = '-0.1'", "must be at least 0"),
        ("'compaction.small-file-ratio' = 'NaN'", "must be at least 0"),
        ("'consumer-id' = ''", "a name is expected, which is not empty"),
        ("'tag.creation-period' = 'hourly', 'tag.creation-delay' = '1 h'", "shorter than the period"),
        ("'tag.creation-period-duration' = '0 s'", "shorter than the period"),
        ("'partition.timestamp-formatter' = 'garbage'", "only yyyy"),
        ("'partition.mark-done-action' = 'http-report'", "success-file, done-partition, mark-event"),
        ("'partition.mark-done-action.mode' = 'clock'", "process-time, watermark"),
        ("'scan.watermark.alignment.group' = 'g'", "alignment.max-drift' belong together"),
        ("'scan.watermark.alignment.max-drift' = '1 s'", "alignment.group' and .* belong together"),
    ],
)
def test_values_are_checked_when_they_are_set(gateway: Gateway, options: str, says: str) -> None:
    with pytest.raises(InvalidOption, match=says):
        gateway.run(f"CREATE TABLE t (a INT) WITH ({options})").close()
    gateway.run("CREATE TABLE t (a INT)").close()
    with pytest.raises(InvalidOption, match=says):
        gateway.run(f"ALTER TABLE t SET ({options})").close()


def test_where_reads_start_is_set_and_reset_as_a_whole(gateway: Gateway) -> None:
    gateway.run("CREATE TABLE t (a INT) WITH ('scan.mode' = 'from-timestamp', 'scan.timestamp' = '2024-01-01 00:00:00')").close()
    gateway.run("ALTER TABLE t SET ('compaction.small-file-ratio' = '1', 'tag.creation-delay' = '23 h')").close()
    with pytest.raises(InvalidOption, match="needs the option"):
        gateway.run("ALTER TABLE t RESET ('scan.timestamp')").close()
    gateway.run("ALTER TABLE t RESET ('scan.mode', 'scan.timestamp')").close()
    assert gateway.run("SELECT * FROM t").collect() == []


def test_options_that_belong_together_are_given_together(gateway: Gateway) -> None:
    gateway.run("CREATE TABLE t (a INT, p STRING) PARTITIONED BY (p)").close()
    with pytest.raises(InvalidOption, match="belong together"):
        gateway.run("ALTER TABLE t SET ('partition.time-interval' = '1 d')").close()
    gateway.run("ALTER TABLE t SET ('partition.time-interval' = '1 d', 'partition.idle-time-to-done' = '1 h')").close()
    with pytest.raises(InvalidOption, match="belong together"):
        gateway.run("ALTER TABLE t RESET ('partition.time-interval')").close()
    gateway.run("ALTER TABLE t SET ('snapshot.num-retained.min' = '2', 'snapshot.num-retained.max' = '2')").close()
    gateway.run("ALTER TABLE t SET ('scan.watermark.alignment.group' = 'g', 'scan.watermark.alignment.max-drift' = '1 s')").close()
    with pytest.raises(InvalidOption, match="belong together"):
        gateway.run("ALTER TABLE t RESET ('scan.watermark.alignment.max-drift')").close()
    gateway.run("ALTER TABLE t RESET ('scan.watermark.alignment.group', 'scan.watermark.alignment.max-drift')").close()


def test_a_pattern_of_times_names_partition_columns(gateway: Gateway) -> None:
    """One that names another column gave no partition a time, so that none ever expired, and nothing told."""
    made = "CREATE TABLE t (a INT, dt STRING, dth STRING) PARTITIONED BY (dt, dth)"
    for pattern in ("$a", "$dt $hour:00:00", "$dt $"):
        with pytest.raises(InvalidOption, match=r"\$ stands before a partition column's name; the table has \$dt, \$dth"):
            gateway.run(f"{made} WITH ('partition.timestamp-pattern' = '{pattern}')").close()
    gateway.run(f"{made} WITH ('partition.timestamp-pattern' = '$dt $dth:00:00')").close()
    with pytest.raises(InvalidOption, match=r"\$ stands before"):
        gateway.run("ALTER TABLE t SET ('partition.timestamp-pattern' = '$day')").close()


def test_a_commit_user_has_the_tables_prefix(gateway: Gateway) -> None:
    gateway.run("CREATE TABLE t (a INT) WITH ('commit.user-prefix' = 'etl')").close()
    gateway.run("INSERT INTO t VALUES (1)").close()
    ((user,),) = gateway.run("SELECT commit_user FROM t$snapshots").collect()
    assert user.startswith("etl_")


def test_no_table_is_stored_that_other_clients_would_not_load(gateway: Gateway, lake: Lake) -> None:
    """Java checks these when it loads a table (`SchemaValidation`)."""

    def refused(text: str, match: str) -> None:
        with pytest.raises(InvalidOption, match=match), gateway.run(text):
            pass

    refused("CREATE TABLE t (id INT, s STRING) WITH ('fields.nope.stats-mode' = 'none')", "there is no column nope.* RESET it")
    refused("CREATE TABLE t (id INT, `s.x` STRING) WITH ('fields.s.x.stats-mode' = 'none')", "there is no column s.*a dot or a comma")
    with gateway.run("CREATE TABLE t (id INT, s STRING, u STRING) WITH ('fields.s.stats-mode' = 'none', 'fields.u.stats-mode' = 'counts')"):
        pass
    with gateway.run("ALTER TABLE t DROP COLUMN s"), gateway.run("ALTER TABLE t RENAME COLUMN u TO v"):
        pass
    refused("ALTER TABLE t RENAME COLUMN v TO `v.w`", "'fields.v.w.stats-mode': there is no column v")
    refused(
        "ALTER TABLE t SET ('changelog.num-retained.max' = '5')",
        "'snapshot.num-retained.min' = '10' and 'changelog.num-retained.max' = '5'",
    )
    refused(
        "ALTER TABLE t SET ('changelog.num-retained.min' = '20', 'snapshot.num-retained.max' = '15')", "'changelog.num-retained.min' = '20'"
    )
    refused(
        "ALTER TABLE t SET ('scan.mode' = 'latest-delta', 'incremental-between-scan-mode' = 'delta')", "'latest-delta' does not go with"
    )
    with gateway.run("ALTER TABLE t SET ('changelog.num-retained.min' = '2', 'changelog.num-retained.max' = '5')"):
        pass
    with gateway.run("ALTER TABLE t SET ('scan.mode' = 'latest-delta')"):
        pass
    refused("ALTER TABLE t SET ('incremental-between-tag-to-snapshot' = 'true')", "'latest-delta' does not go with")
    assert {key for key in lake.open(Identifier("default", "t")).schema.options if key.startswith("fields")} == {"fields.v.stats-mode"}


def test_flinks_form_of_a_comment_is_the_tables_comment(gateway: Gateway, lake: Lake) -> None:
    name = Identifier("default", "t")
    gateway.run("CREATE TABLE t (id INT); ALTER TABLE t SET ('comment' = 'what it holds')").close()
    assert lake.open(name).schema.comment == "what it holds"
    assert "comment" not in lake.open(name).schema.options
    gateway.run("ALTER TABLE t RESET ('comment')").close()
    assert lake.open(name).schema.comment is None
