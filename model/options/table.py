"""Every option a table may carry: parsing, validation, docs and pages read these declarations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from model.errors import InvalidOption
from model.options import file_index, others
from model.options.column_lists import LISTS_OF_BLOBS
from model.options.maintenance import MAINTENANCE_OPTIONS
from model.options.names import name_part, object_name
from model.options.option import Option, OptionGroup, stats_mode, text
from model.options.scan import SCAN_OPTIONS
from model.options.write import WRITE_OPTIONS

TABLE_OPTIONS = OptionGroup(
    "Table option",
    "Given in `WITH (…)`, changed with `ALTER TABLE … SET (…)`, stored in the table's schema and seen by every Paimon client.",
)
for _option in (*WRITE_OPTIONS, *MAINTENANCE_OPTIONS, *SCAN_OPTIONS, *file_index.COLUMNS, *others.READING, *others.WRITING):
    TABLE_OPTIONS.declare(_option)
for _kind, _settings in file_index.COLUMN_OPTIONS.items():
    for _setting in _settings:
        TABLE_OPTIONS.family(
            rf"file-index\.{_kind}\..+\.{_setting.key}", replace(_setting, key=f"file-index.{_kind}.<column>.{_setting.key}")
        )
STATS_MODE = TABLE_OPTIONS.family(
    r"fields\..+\.stats-mode",
    Option("fields.<column>.stats-mode", stats_mode(), "", "Value statistics of one column; as `metadata.stats-mode`."),
)
PARTITION: Option[Any] = TABLE_OPTIONS.declare(
    Option("partition", text(), "", "Partition columns; PARTITIONED BY says the same.", mutable=False)
)

_NO_KEY = "it belongs to tables with a primary key, and append tables have none."
_LATER = "it is not implemented here, and a table must not carry an option that is silently ignored."
for _pattern in (
    "primary-key", r"merge-engine.*", r"sequence\..*", r"changelog-producer.*", r"lookup-.*",
    r"lookup\.(merge-|remote-file\.).*", r"num-sorted-run\.(?!compaction-trigger).*",
    r"dynamic-bucket\..*",
    r"postpone\..*", r"cross-partition.*", r"record-level\..*", r"pk-.*", r"rowkind\..*", r"(.+\.)?ignore-delete", r"ignore-update-before",
    r"partial-update\..*", r"aggregation\..*",
    r"fields\..+\.(aggregate-function|sequence-group|ignore-retract|default-aggregate-function)",
    r"deletion-vectors\.merge-on-read", r"force-lookup", r"local-merge-buffer-size",
    r"full-compaction\.(?!delta-commits).*", r"(log\.)?scan\.remove-normalize",
    r"compaction\.optimization-interval",
):  # fmt: skip
    TABLE_OPTIONS.refuse(_pattern, _NO_KEY)
for _pattern in (
    r"data-file\.external-paths.*", r"file-index\.(?!read\.enabled|in-manifest-threshold|bloom-filter\.|bitmap\.|range-bitmap\.).*",
    r"commit\.callback.*", r"tag\.callback.*",
    r"manifest-sort\..+-.*", r"scan\.(fallback|primary)-.*",
    r"commit\.strict-mode\..*", r"snapshot\.ignore-empty-commit", r"scan\.partitions", r"lookup\.dynamic-partition",
    r"scan\.plan-auto-tag-for-read\..*", r"blob.*", r"vector.*", r"variant\..*",
    r"global-index.*", r"chain-table.*", r"format-table.*", r"orc\..*",
    r"parquet\.(?!enable\.dictionary).*", r"avro\..*",
    r"data-evolution\.(?!enabled).*", r"row-tracking\.(?!enabled).*", r"full-text-index.*", r"scalar-index.*", r"fields\..+\.map\..*",
    r"partition\.mark-done-action\.(custom|http)\..*", r"visibility-callback.*", r"read\.changelog", r"read\.allow\.fullScan",
    r"write\.data-evolution\..*", r"write\.hive-style-dynamic-partition\..*", r"legacy-timestamp-mapping\..*",
):  # fmt: skip
    TABLE_OPTIONS.refuse(_pattern, _LATER)
for _pattern in (
    "cache-page-size", r"changelog-file\..*", r"compaction\.(force-up-level-0|(incremental|total)-size-threshold|offpeak.*)",
    r"data-file\.thin-mode", r"delete\.force-produce-changelog", r"fields\.default-aggregate-function",
    r"fields\..+\.(nested-key.*|nested-sequence-field|count-limit|distinct|list-agg-delimiter|ts-field)",
    r"(file\.(compression|format)|metadata\.stats-mode)\.per\.level", r"local-kv-db\..*", "overwrite-upgrade", r"primary-key\.nullable",
    r"scan\.bucket", "sort-engine", r"table-read\..*", r"key-value\..*", r"write\.sequence-number-init-mode",
    r"sink\.(cross-partition|key-only-deletes)\..*",
):  # fmt: skip
    TABLE_OPTIONS.refuse(_pattern, "it tunes tables with a primary key, and append tables have none.")
TABLE_OPTIONS.refuse(r"schema\..*", "watermarks and columns are stored there by CREATE TABLE and ALTER TABLE, never set by hand.")
for _key, _parser in (
    ("branch", object_name()), ("scan.fallback-branch", object_name()), ("scan.primary-branch", object_name()),
    ("changelog-file.prefix", name_part()),
):  # fmt: skip
    TABLE_OPTIONS.keep_for_others(Option(_key, _parser, "", "Part of a path that other clients make."))
TABLE_OPTIONS.refuse("branch", "a branch is named by the table, `t$branch_b`.")
TABLE_OPTIONS.refuse("(stream|batch)-scan-mode", "Paimon's own scans set it for themselves; 'scan.mode' says where a read begins.")
TABLE_OPTIONS.refuse(r"metastore\.tag-to-partition.*", "there is no metastore beside the catalog.")
TABLE_OPTIONS.refuse(r"query-auth\.enabled", "grants, row filters and column masks hold for whoever asks; CREATE POLICY makes them.")
TABLE_OPTIONS.refuse(r"materialized-table\..*", "Flink's catalog notes there what its materialized tables are; there are none here.")
TABLE_OPTIONS.refuse(r"write\.merge-schema.*", "rows do not change a table's columns here; ALTER TABLE does.")
TABLE_OPTIONS.refuse(
    r"read\.stream\..*",
    'it bounds a Spark stream; give `maxRowsPerTrigger`, `maxBytesPerTrigger` or `maxFilesPerTrigger` to format("sluice").',
)
TABLE_OPTIONS.refuse(r"commit\.custom-listeners", "it names classes that whoever writes the table would run.")
TABLE_OPTIONS.refuse(
    r"snapshot\.watermark-idle-timeout", "watermarks advance with a job's batches alone; a source that is idle does not move them."
)
TABLE_OPTIONS.refuse(
    r"connector|path|format", "it describes the files of a temporary table; CREATE TEMPORARY TABLE … WITH ('connector' = 'filesystem')."
)
for _pattern, _reason in (
    (
        r"(?!(.+\.)?(storage|data)\.class$)(.+\.)?(class|classname|classpath|impl|factory|jars?|command|cmd|callbacks?|listeners?|jaas|keytab|kms|crypto|key\.provider)(\..+)?",
        "it names a program or class that whoever loads the table would run.",
    ),
    (
        r"(?!(docs?|documentation|wiki|homepage|runbook|dashboard)\.(uri|url)$)(.+\.)?(uris?|urls?|endpoints?|hosts?|hostname|(bootstrap\.)?servers|brokers?|proxy|metastore|warehouse)(\..+)?",
        "it names a host that whoever loads the table would speak to.",
    ),
    (
        r"(?!(s3a?|oss|cosn?|obs|gs)\.storage\.class$)"
        r"(fs|hadoop|hdfs|yarn|hive|java|javax|derby|jdbc|spark|flink|kafka|dlf|token|security|lock|s3a?|oss|cosn?|obs|gs|abfss?|wasbs?|catalog)\..+",
        "it configures an engine, a catalog or a store for whoever loads the table; each client configures its own.",
    ),
    (r"(.+\.)?(dirs?|object\.location|external(\..+)?\.paths?)(\..+)?", "it names a place outside the table."),
):  # other clients lay a table's options over their own, so an ALTER could make each of its readers run what it likes
    TABLE_OPTIONS.endanger(_pattern, _reason)


def keyed_only(key: str) -> bool:
    """Whether only tables with a primary key have this option."""
    return TABLE_OPTIONS.refusal(key) == _NO_KEY


def is_on(options: Mapping[str, str], key: str) -> bool:
    """Whether a switch is on that only other clients know what to do with."""
    return options.get(key, "false").strip().lower() == "true"


IMMUTABLE = frozenset(option.key for option in TABLE_OPTIONS if not option.mutable) | {"primary-key", *LISTS_OF_BLOBS}
"""Options that fix where or how existing files are found."""
_HINTS = frozenset(option.key for option in (*SCAN_OPTIONS, *others.READING))
_HONOURED_HINTS = frozenset(
    {"scan.mode", "scan.snapshot-id", "scan.tag-name", "scan.watermark", "scan.version", "scan.timestamp-millis", "scan.timestamp",
     "scan.file-creation-time-millis", "scan.creation-time-millis", "incremental-between", "incremental-between-timestamp",
     "incremental-to-auto-tag", "incremental-between-scan-mode", "incremental-between-tag-to-snapshot"}
)  # fmt: skip
_TUNING_HINTS = frozenset(
    {
        "scan.parallelism", "scan.infer-parallelism", "scan.max-splits-per-task", "scan.manifest.parallelism", "read.batch-size",
        "source.split.target-size", "source.split.open-file-cost", "file-reader-async-threshold", "file-index.read.enabled",
        "scan.plan-sort-partition", "scan.bounded", *(option.key for option in others.READING),
    }
)  # fmt: skip
_WRITE_HINTS = frozenset(
    {
        "sink.parallelism",
        "dynamic-partition-overwrite",
        "target-file-size",
        "write-only",
        "commit.user-prefix",
        "write.batch-size",
        "end-input.watermark",
    }
)


_ALIGNED, _IDLE = "scan.watermark.alignment.group", "scan.watermark.idle-timeout"
"""The group a job's source waits for, and what counts in it alone."""


def stream_options(stored: Mapping[str, str], hint: Mapping[str, str]) -> dict[str, str]:
    """What a stream goes by: the table's options and over them the statement's own.

    Raises `InvalidOption` for what it would ignore.
    """
    TABLE_OPTIONS.check(hint)
    for key in hint:
        if key not in _HINTS:
            raise InvalidOption(f"Option '{key}' cannot be given in a hint of this statement; change the table with ALTER TABLE … SET.")
    merged = {**stored, **hint}
    if _IDLE in hint and _ALIGNED not in merged:  # where a table stores it, that is for Flink, whose watermarks it goes into
        raise InvalidOption(f"Option '{_IDLE}' needs '{_ALIGNED}': an idle source holds back nobody of its group, and no watermark else.")
    return merged


def check_hint(options: Mapping[str, str], *, writing: bool = False) -> None:
    """Raise `InvalidOption` for an option that cannot be given per statement, or that a batch statement would ignore."""
    TABLE_OPTIONS.check(options)
    for key in options:
        if (writing and key in _WRITE_HINTS) or (not writing and key in _HONOURED_HINTS | _TUNING_HINTS):
            continue
        if key in _HINTS and not writing:
            raise InvalidOption(f"Option '{key}' is not available in a batch query; it belongs to streaming or incremental reads.")
        raise InvalidOption(f"Option '{key}' cannot be given in a hint of this statement; change the table with ALTER TABLE … SET.")


_BOOKKEEPING = frozenset({"owner", "path", "provider", "location", "createdAt", "createdBy", "updatedAt", "updatedBy"})
"""Options in which other catalogs and engines note what is theirs to know of one table."""


def told_apart(options: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """A table's options that SQL takes in a CREATE TABLE, and those of other clients that it does not; what only notes is left out."""
    ours: dict[str, str] = {}
    others: dict[str, str] = {}
    for key, value in options.items():
        if key.startswith("schema.") or key in _BOOKKEEPING:
            continue
        try:
            TABLE_OPTIONS.check({key: value})
            ours[key] = value
        except InvalidOption:
            others[key] = value
    return ours, others
