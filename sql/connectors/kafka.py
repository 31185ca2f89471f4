"""``'connector' = 'kafka'``: a topic as a table, under Flink's options."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

from model.errors import Forbidden, InvalidOption, InvalidSchema, UnsupportedStatement
from model.options.option import Option, boolean, duration, integer, one_of, only_false, optional, text
from model.schema.types import BigIntType, DataType, Field, IntType, LocalZonedTimestampType, MapType, VarBinaryType, VarCharType
from sql.analysis.limits.patterns import longest_searched
from sql.connectors.base import Bound, Connector, ConnectorScope, ConnectorTable, options_of

KAFKA_OPTIONS = options_of(
    "kafka", "A topic of Apache Kafka as a table; Spark's Kafka connector reads and writes it (`SLUICE_SPARK_JARS`)."
)
_FORMATS = one_of("json", "csv", "avro", "raw")
TOPIC = KAFKA_OPTIONS.declare(Option("topic", optional(text()), None, "The topic; several to read, parted by semicolons."))
TOPIC_PATTERN = KAFKA_OPTIONS.declare(Option("topic-pattern", optional(text()), None, "Topics to read, as a Java regular expression."))
SERVERS = KAFKA_OPTIONS.declare(Option("properties.bootstrap.servers", text(), "", "The brokers, `host:port` parted by commas."))
GROUP_ID = KAFKA_OPTIONS.declare(
    Option(
        "properties.group.id",
        optional(text()),
        None,
        "Prefix of the consumer groups Spark makes; where a job stands is in its checkpoint.",
        per_query=True,
    )
)
OFFSET_RESET = KAFKA_OPTIONS.declare(
    Option(
        "properties.auto.offset.reset",
        optional(one_of("earliest", "latest")),
        None,
        "Where `group-offsets` starts: groups hold no offsets here.",
        per_query=True,
    )
)
FORMAT = KAFKA_OPTIONS.declare(Option("format", optional(_FORMATS), None, "How values are written; the same as `value.format`."))
VALUE_FORMAT = KAFKA_OPTIONS.declare(Option("value.format", optional(_FORMATS), None, "How values are written."))
KEY_FORMAT = KAFKA_OPTIONS.declare(Option("key.format", optional(_FORMATS), None, "How keys are written; needs `key.fields`."))
KEY_FIELDS = KAFKA_OPTIONS.declare(Option("key.fields", optional(text()), None, "Columns that lie in the key, parted by semicolons."))
KEY_PREFIX = KAFKA_OPTIONS.declare(
    Option("key.fields-prefix", text(), "", "Stands before the names of the key's columns in the table, and not in the key.")
)
FIELDS_INCLUDE = KAFKA_OPTIONS.declare(
    Option(
        "value.fields-include",
        one_of("all", "except_key"),
        "all",
        "Whether the value holds the key's columns, too: ALL, and where a value has none the key's is read, or EXCEPT_KEY.",
    )
)
STARTUP_MODE = KAFKA_OPTIONS.declare(
    Option(
        "scan.startup.mode",
        one_of("earliest-offset", "latest-offset", "group-offsets", "timestamp", "specific-offsets"),
        "group-offsets",
        "Where reading starts; `group-offsets` needs `properties.auto.offset.reset`.",
        per_query=True,
    )
)
STARTUP_OFFSETS = KAFKA_OPTIONS.declare(
    Option(
        "scan.startup.specific-offsets",
        optional(text()),
        None,
        "`partition:0,offset:42;partition:1,offset:300`, every partition of the topic.",
        per_query=True,
    )
)
STARTUP_TIMESTAMP = KAFKA_OPTIONS.declare(
    Option(
        "scan.startup.timestamp-millis",
        optional(integer(bits=64)),
        None,
        "Milliseconds since 1970: the first record of that time or later.",
        per_query=True,
    )
)
BOUNDED_MODE = KAFKA_OPTIONS.declare(
    Option(
        "scan.bounded.mode",
        one_of("unbounded", "latest-offset", "group-offsets", "timestamp", "specific-offsets"),
        "unbounded",
        "Where reading ends; a batch ends with what is there.",
        per_query=True,
    )
)
BOUNDED_OFFSETS = KAFKA_OPTIONS.declare(
    Option(
        "scan.bounded.specific-offsets",
        optional(text()),
        None,
        "The first offsets not read, which have to be there; other partitions are not read.",
        per_query=True,
    )
)
BOUNDED_TIMESTAMP = KAFKA_OPTIONS.declare(
    Option("scan.bounded.timestamp-millis", optional(integer(bits=64)), None, "Records of that time or later are not read.", per_query=True)
)
KAFKA_OPTIONS.declare(
    Option(
        "scan.topic-partition-discovery.interval",
        optional(duration()),
        None,
        "New partitions are found with every batch, whatever it says.",
        per_query=True,
    )
)
KAFKA_OPTIONS.declare(
    Option("scan.parallelism", optional(integer(at_least=1)), None, "Spark reads a partition by a task, whatever it says.", per_query=True)
)
IDLE_TIMEOUT = KAFKA_OPTIONS.declare(
    Option(
        "scan.watermark.idle-timeout",
        optional(duration()),
        None,
        "A partition that gave nothing for so long holds the watermark back no longer, nor a source its alignment group.",
        per_query=True,
    )
)
ALIGNMENT_GROUP = KAFKA_OPTIONS.declare(
    Option(
        "scan.watermark.alignment.group", optional(text()), None, "Sources of one group wait for each other's watermarks.", per_query=True
    )
)
ALIGNMENT_DRIFT = KAFKA_OPTIONS.declare(
    Option("scan.watermark.alignment.max-drift", optional(duration()), None, "How far a source may be ahead of its group.", per_query=True)
)
ALIGNMENT_INTERVAL = KAFKA_OPTIONS.declare(
    Option(
        "scan.watermark.alignment.update-interval",
        optional(duration()),
        None,
        "How often a group's watermarks are compared; 1 s.",
        per_query=True,
    )
)
KAFKA_OPTIONS.declare(
    Option(
        "sink.partitioner",
        one_of("default"),
        "default",
        "Kafka chooses the partition: by the key's hash where there is one.",
        per_query=True,
    )
)
KAFKA_OPTIONS.declare(
    Option(
        "sink.delivery-guarantee",
        one_of("at-least-once"),
        "at-least-once",
        "Spark's writer repeats a batch after a failure, and has no transactions.",
        per_query=True,
    )
)
KAFKA_OPTIONS.declare(
    Option("sink.parallelism", optional(integer(at_least=1)), None, "Spark writes with the tasks it has, whatever it says.", per_query=True)
)
KAFKA_OPTIONS.refuse(r"sink\.transactional-id-prefix", "Spark's Kafka writer has no transactions; delivery is at-least-once.")
_CLIENT_PROPERTIES = """
    acks allow.auto.create.topics auto.include.jmx.reporter batch.size buffer.memory check.crcs client.dns.lookup client.id
    client.rack compression.gzip.level compression.lz4.level compression.type compression.zstd.level connections.max.idle.ms
    default.api.timeout.ms delivery.timeout.ms enable.idempotence enable.metrics.push exclude.internal.topics fetch.max.bytes
    fetch.max.wait.ms fetch.min.bytes heartbeat.interval.ms isolation.level linger.ms max.block.ms
    max.in.flight.requests.per.connection max.partition.fetch.bytes max.poll.interval.ms max.poll.records max.request.size
    metadata.max.age.ms metadata.max.idle.ms metadata.recovery.rebootstrap.trigger.ms metadata.recovery.strategy
    metrics.num.samples metrics.recording.level metrics.sample.window.ms partitioner.ignore.keys receive.buffer.bytes
    reconnect.backoff.max.ms reconnect.backoff.ms request.timeout.ms retries retry.backoff.max.ms retry.backoff.ms
    sasl.jaas.config sasl.kerberos.service.name sasl.login.connect.timeout.ms sasl.login.read.timeout.ms
    sasl.login.retry.backoff.max.ms sasl.login.retry.backoff.ms sasl.mechanism security.protocol send.buffer.bytes
    session.timeout.ms socket.connection.setup.timeout.max.ms socket.connection.setup.timeout.ms ssl.cipher.suites
    ssl.enabled.protocols ssl.endpoint.identification.algorithm ssl.keystore.certificate.chain ssl.keystore.key ssl.key.password
    ssl.keystore.type ssl.protocol ssl.truststore.certificates ssl.truststore.type
"""
CLIENT_PROPERTIES = frozenset(_CLIENT_PROPERTIES.split())
"""Properties of Kafka's client that hold numbers, words and secrets. What names a program (`sasl.kerberos.kinit.cmd`), a class, a file or
an address stands not here, nor does what a later client may read: each is refused until somebody has looked at it."""
KAFKA_OPTIONS.family(
    f"properties\\.({'|'.join(map(re.escape, sorted(CLIENT_PROPERTIES)))})",
    Option(
        "properties.<key>",
        text(),
        "",
        "Handed to Kafka's client: `properties.sasl.mechanism` and others that name no program, class or file.",
    ),
)
KAFKA_OPTIONS.refuse(
    f"properties\\.(?!(bootstrap\\.servers|group\\.id|auto\\.offset\\.reset|{'|'.join(map(re.escape, sorted(CLIENT_PROPERTIES)))})$).*",
    "it is not among the properties of Kafka's client that a table may set, in lower case; others could name programs, code or files "
    "of the server.",
)
_JAAS = re.compile(
    r"org\.apache\.kafka\.common\.security\.(plain\.PlainLoginModule|scram\.ScramLoginModule)\s+(required|requisite|sufficient|optional)"
    r"""(\s+(username|password|tokenauth)\s*=\s*("[^"\\]*"|'[^'\\]*'|[^\s"';=]+))*\s*;"""
)

IGNORE_ERRORS, TIMESTAMP_FORMAT = {}, {}
for _side in ("", "value.", "key."):
    for _name in ("json", "csv"):
        IGNORE_ERRORS[_side + _name] = KAFKA_OPTIONS.declare(
            Option(
                f"{_side}{_name}.ignore-parse-errors",
                boolean(),
                False,
                "Whether what does not parse is NULL, and a record without any sense left out.",
                per_query=True,
            )
        )
    TIMESTAMP_FORMAT[_side + "json"] = KAFKA_OPTIONS.declare(
        Option(
            f"{_side}json.timestamp-format.standard",
            one_of("sql", "iso-8601"),
            "sql",
            "`SQL` is `2024-05-01 08:30:00.123`, `ISO-8601` has a T.",
        )
    )
    KAFKA_OPTIONS.declare(Option(f"{_side}json.fail-on-missing-field", only_false(), False, "A missing field is NULL.", per_query=True))
    KAFKA_OPTIONS.declare(
        Option(
            f"{_side}json.encode.ignore-null-fields",
            boolean(),
            False,
            "Whether fields that are NULL are left out when written.",
            per_query=True,
        )
    )
    KAFKA_OPTIONS.declare(Option(f"{_side}csv.field-delimiter", text(), ",", "What separates the fields."))
    KAFKA_OPTIONS.declare(Option(f"{_side}csv.quote-character", text(), '"', "What encloses a field that holds the delimiter."))
    KAFKA_OPTIONS.declare(Option(f"{_side}csv.escape-character", optional(text()), None, "What escapes a quote inside a field."))
    KAFKA_OPTIONS.declare(Option(f"{_side}csv.null-literal", text(), "", "The field text that means NULL."))
    KAFKA_OPTIONS.declare(Option(f"{_side}raw.charset", one_of("utf-8"), "utf-8", "How text is encoded."))

KAFKA_METADATA: Mapping[str, DataType] = {
    "topic": VarCharType(),
    "partition": IntType(),
    "offset": BigIntType(),
    "timestamp": LocalZonedTimestampType(precision=3),
    "timestamp-type": VarCharType(),
    "headers": MapType(key=VarCharType(nullable=False), value=VarBinaryType()),
}
_WRITTEN = frozenset({"headers", "topic", "partition"})
"""Metadata that Spark's writer takes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """The key or the value of a record: its format and the columns in it."""

    prefix: str
    """Where its format's options stand: ``key.``, ``value.`` or nothing."""
    format: str
    columns: tuple[Field, ...]
    strip: str = ""
    """What the names in the table have before those in the record."""

    def option(self, options: Mapping[str, str], name: str) -> str | None:
        """The text of one of the format's options."""
        return options.get(f"{self.prefix}{self.format}.{name}")

    def inner(self, column: Field) -> str:
        """A column's name in the record."""
        return column.name.removeprefix(self.strip)


LONGEST_TOPIC = 249
"""Characters of a topic's name, by Kafka's own limit."""


def _check_pattern(pattern: str) -> None:
    """Raise `InvalidOption` for an expression that may take forever on the name of a topic: Kafka's client tries it on each."""
    try:
        longest = longest_searched(pattern)
    except UnsupportedStatement as problem:
        raise InvalidOption(f"Option 'topic-pattern': {problem.message}") from problem
    if longest is not None and longest < LONGEST_TOPIC:
        raise InvalidOption(
            f"Option 'topic-pattern' = '{pattern[:80]}' has too many parts to be tried on names of {LONGEST_TOPIC} characters; "
            "repeat no long group in parentheses."
        )


class Kafka(Connector):
    """Reads and writes topics."""

    name = "kafka"
    options = KAFKA_OPTIONS
    metadata = KAFKA_METADATA
    sink = True

    def check(self, table: ConnectorTable, scope: ConnectorScope) -> None:  # noqa: C901 - a check behind another
        """Raise for options that do not go together."""
        options = table.options
        if (TOPIC.read(options) is None) == (TOPIC_PATTERN.read(options) is None):
            raise InvalidOption("A kafka table needs one of 'topic' and 'topic-pattern'.")
        if (topic := TOPIC.read(options)) is not None and not topics_of(table):
            raise InvalidOption(f"Option 'topic' = '{topic[:80]}' names no topic.")
        if (pattern := TOPIC_PATTERN.read(options)) is not None:
            _check_pattern(pattern)
        if not SERVERS.read(options):
            raise InvalidOption("Option 'properties.bootstrap.servers' is missing: name the brokers.")
        check_brokers(table, scope)
        jaas = options.get("properties.sasl.jaas.config")
        if jaas is not None and not _JAAS.fullmatch(jaas.strip()):
            raise InvalidOption(
                "Option 'properties.sasl.jaas.config': one login module is given, Kafka's PlainLoginModule or ScramLoginModule, "
                "with username and password."
            )
        sides(table)
        if (STARTUP_MODE.read(options) == "specific-offsets") != (STARTUP_OFFSETS.read(options) is not None):
            raise InvalidOption("'scan.startup.mode' = 'specific-offsets' and 'scan.startup.specific-offsets' belong together.")
        if (STARTUP_MODE.read(options) == "timestamp") != (STARTUP_TIMESTAMP.read(options) is not None):
            raise InvalidOption("'scan.startup.mode' = 'timestamp' and 'scan.startup.timestamp-millis' belong together.")
        if (BOUNDED_MODE.read(options) == "specific-offsets") != (BOUNDED_OFFSETS.read(options) is not None):
            raise InvalidOption("'scan.bounded.mode' = 'specific-offsets' and 'scan.bounded.specific-offsets' belong together.")
        if (BOUNDED_MODE.read(options) == "timestamp") != (BOUNDED_TIMESTAMP.read(options) is not None):
            raise InvalidOption("'scan.bounded.mode' = 'timestamp' and 'scan.bounded.timestamp-millis' belong together.")
        if BOUNDED_MODE.read(options) == "group-offsets":
            raise InvalidOption(
                "'scan.bounded.mode' = 'group-offsets' is not available: offsets lie in a job's checkpoint, not in a group."
            )
        for offsets in (STARTUP_OFFSETS.read(options), BOUNDED_OFFSETS.read(options)):
            if offsets is not None:
                specific_offsets(table, offsets)
        if (ALIGNMENT_GROUP.read(options) is None) != (ALIGNMENT_DRIFT.read(options) is None):
            raise InvalidOption("'scan.watermark.alignment.group' and 'scan.watermark.alignment.max-drift' belong together.")

    def shared_end(self, table: ConnectorTable) -> str | None:
        """Spark reads on beyond a bound; records behind one that is named are left out, and the watermark does not end."""
        mode = BOUNDED_MODE.read(table.options)
        alone = mode == "unbounded" or (mode != "latest-offset" and table.watermark is None)
        return None if alone else f"'{BOUNDED_MODE.key}' = '{mode}'"

    def bound(self, table: ConnectorTable) -> Bound:
        """Where its bounded mode says."""
        return Bound.NEVER if BOUNDED_MODE.read(table.options) == "unbounded" else Bound.NOW


def check_brokers(table: ConnectorTable, scope: ConnectorScope) -> None:
    """Raise `Forbidden` for a broker the server is not to connect to; what a broker names further is its own affair."""
    if scope.kafka_brokers is None:
        return
    for address in filter(None, (part.strip() for part in SERVERS.read(table.options).split(","))):
        host = address.partition("://")[2] or address  # Kafka ignores what stands before the host
        if not {host, host.rpartition(":")[0]} & set(scope.kafka_brokers):
            known = ", ".join(scope.kafka_brokers) or "none: SLUICE_KAFKA_BROKERS is empty"
            raise Forbidden(f"Option '{SERVERS.key}': the broker {address} is not allowed; the brokers that may be used are {known}.")


def sides(table: ConnectorTable) -> tuple[Side | None, Side]:  # noqa: C901 - a check behind another
    """The key, where there is one, and the value of the table's records; raises `InvalidOption` for what cannot be."""
    options = table.options
    own = [column for column in table.columns if column.name not in table.metadata]
    both = FORMAT.read(options), VALUE_FORMAT.read(options)
    if all(both):
        raise InvalidOption("'format' and 'value.format' mean the same; keep one of them.")
    value_format = both[0] or both[1]
    if value_format is None:
        raise InvalidOption("Option 'format' is missing: json, csv, avro or raw.")
    key_format, named = KEY_FORMAT.read(options), KEY_FIELDS.read(options)
    if (key_format is None) != (named is None):
        raise InvalidOption("'key.format' and 'key.fields' belong together.")
    key: Side | None = None
    in_key: tuple[Field, ...] = ()
    if key_format is not None and named is not None:
        prefix = KEY_PREFIX.read(options)
        by_name = {column.name: column for column in own}
        names = [name.strip() for name in named.split(";") if name.strip()]
        for name in names:
            if name not in by_name:
                raise InvalidOption(f"Option 'key.fields': there is no column {name}; there are {', '.join(by_name)}.")
            if not name.startswith(prefix):
                raise InvalidOption(f"Option 'key.fields': {name} does not begin with 'key.fields-prefix' = '{prefix}'.")
        in_key = tuple(by_name[name] for name in names)
        key = Side(prefix="key.", format=key_format, columns=in_key, strip=prefix)
        if prefix and FIELDS_INCLUDE.read(options) == "all":
            raise InvalidOption("'key.fields-prefix' needs 'value.fields-include' = 'EXCEPT_KEY'.")
    value_columns = own if key is None or FIELDS_INCLUDE.read(options) == "all" else [c for c in own if c not in in_key]
    value = Side(prefix="" if both[0] else "value.", format=value_format, columns=tuple(value_columns))
    for side in (key, value):
        if side is not None and side.format == "raw" and len(side.columns) != 1:
            raise InvalidSchema(f"The format raw holds one column, not {len(side.columns)}: {', '.join(c.name for c in side.columns)}.")
    return key, value


def specific_offsets(table: ConnectorTable, written: str) -> str:
    """Flink's ``partition:0,offset:42;…`` as Spark's JSON; raises `InvalidOption`."""
    topic = TOPIC.read(table.options)
    if topic is None or ";" in topic:
        raise InvalidOption("Specific offsets need one 'topic'.")
    offsets: dict[str, int] = {}
    for part in filter(None, (part.strip() for part in written.split(";"))):
        match = re.fullmatch(r"partition\s*:\s*(\d+)\s*,\s*offset\s*:\s*(\d+)", part)
        if match is None:
            raise InvalidOption(f"'{part}' is no offset; partition:0,offset:42;partition:1,offset:300 is.")
        offsets[match[1]] = int(match[2])
    if not offsets:
        raise InvalidOption("Specific offsets name at least one partition: partition:0,offset:42.")
    return json.dumps({topic: offsets})


def topics_of(table: ConnectorTable) -> list[str]:
    """The topics it names, none where it has a pattern."""
    return [name for part in (TOPIC.read(table.options) or "").split(";") if (name := part.strip())]


def check_written(table: ConnectorTable) -> None:
    """Raise `InvalidOption` or `InvalidSchema` for a table that is only read."""
    written = {key for name, key in table.metadata.items() if name not in table.virtual}
    if len(topics_of(table)) != 1 and "topic" not in written:
        raise InvalidOption(
            f"{table.name}: rows are written to one 'topic', or to those that a column 'topic' METADATA names, which is not VIRTUAL."
        )
    for name, key in table.metadata.items():
        if name not in table.virtual and key not in _WRITTEN:
            raise InvalidSchema(f"Column {name}: '{key}' is given by Kafka; declare the column VIRTUAL and leave it out of the INSERT.")
