"""What a Kafka table may be; none of this needs a broker."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from model.errors import Forbidden, InvalidOption, LakeError
from sql.connectors import Bound, ConnectorScope, ConnectorTable, connector_named
from sql.connectors.kafka import STARTUP_OFFSETS, check_brokers, check_written, sides, specific_offsets
from sql.connectors.registry import connector_table
from sql.dialect import parse_one
from sql.parsing.ddl import TableDefinition
from sql.spark.connectors import spark_connector
from sql.spark.connectors.formats import avro_schema


def table(columns: str, options: str) -> ConnectorTable:
    text = f"CREATE TEMPORARY TABLE k ({columns}) WITH ('connector' = 'kafka', 'properties.bootstrap.servers' = 'h:1', {options})"
    definition = parse_one(text).args["definition"]
    assert isinstance(definition, TableDefinition)
    return connector_table("k", definition, ConnectorScope())


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ("'topic' = 'x'", "'format' is missing"),
        ("'format' = 'json'", "one of 'topic' and 'topic-pattern'"),
        ("'topic' = '', 'format' = 'json'", "Option 'topic' .* names no topic"),
        ("'topic' = ' ; ', 'format' = 'json'", "Option 'topic' .* names no topic"),
        ("'topic-pattern' = '(a+)+b', 'format' = 'json'", "Option 'topic-pattern': .* repeats what repeats itself"),
        ("'topic-pattern' = '.*a.*b.*c.*d', 'format' = 'json'", "Option 'topic-pattern': .* more than 3 unlimited"),
        (f"'topic-pattern' = '({'a' * 3}{'.' * 40})*', 'format' = 'json'", "has too many parts"),
        ("'topic' = 'x', 'format' = 'raw'", "raw holds one column"),
        ("'topic' = 'x', 'format' = 'json', 'key.fields' = 'a'", "belong together"),
        ("'topic' = 'x', 'format' = 'json', 'key.format' = 'raw', 'key.fields' = 'z'", "there is no column z"),
        ("'topic' = 'x', 'format' = 'json', 'scan.startup.mode' = 'timestamp'", "scan.startup.timestamp-millis"),
        ("'topic' = 'x', 'format' = 'json', 'properties.interceptor.classes' = 'x'", "programs, code or files"),
        ("'topic' = 'x', 'format' = 'json', 'properties.Bootstrap.Servers' = 'elsewhere:1'", "in lower case"),
        ("'topic' = 'x', 'format' = 'json', 'properties.ssl.truststore.location' = '/etc/passwd'", "programs, code or files"),
        ("'topic' = 'x', 'format' = 'json', 'properties.sasl.kerberos.kinit.cmd' = '/bin/true'", "programs, code or files"),
        ("'topic' = 'x', 'format' = 'json', 'properties.sasl.oauthbearer.token.endpoint.url' = 'http://h'", "programs, code or files"),
        ("'topic' = 'x', 'format' = 'json', 'properties.ssl.engine.factory.class' = 'x'", "programs, code or files"),
        ("'topic' = 'x', 'format' = 'json', 'properties.config.providers' = 'x'", "programs, code or files"),
        ("'topic' = 'x', 'format' = 'json', 'properties.enable.auto.commit' = 'true'", "programs, code or files"),
        ("'topic' = 'x', 'format' = 'json', 'properties.of.a.later.client' = 'x'", "programs, code or files"),
        (
            "'topic' = 'x', 'format' = 'json', 'properties.sasl.jaas.config' = 'org.apache.kafka.common.security.plain.PlainLoginModule "
            "required; com.sun.security.auth.module.JndiLoginModule required;'",
            "one login module",
        ),
        (
            "'topic' = 'x', 'format' = 'json', 'properties.sasl.jaas.config' = 'com.sun.security.auth.module.JndiLoginModule required;'",
            "PlainLogin",
        ),
        ("'topic' = 'x', 'format' = 'json', 'sink.delivery-guarantee' = 'exactly-once'", "at-least-once"),
        ("'topic' = 'x', 'format' = 'debezium-json'", "json, csv, avro, raw"),
    ],
)
def test_options_that_cannot_be_are_refused(options: str, says: str) -> None:
    with pytest.raises(LakeError, match=says):
        table("a INT, b INT", options)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("properties.ssl.truststore.location", "/etc/passwd"),
        ("properties.metric.reporters", "evil.Reporter"),
        ("properties.sasl.jaas.config", "com.sun.security.auth.module.JndiLoginModule required;"),
    ],
)
def test_what_came_another_way_is_refused_at_its_use(option: str, value: str) -> None:
    made = table("a INT", "'topic' = 'x', 'format' = 'json'")
    spark_connector(made, ConnectorScope())
    with pytest.raises(InvalidOption, match=option):
        spark_connector(replace(made, options={**made.options, option: value}), ConnectorScope())


def test_key_and_value_part_the_columns() -> None:
    made = table(
        "k_a INT, b STRING, c INT, o BIGINT METADATA FROM 'offset' VIRTUAL",
        """'topic' = 't', 'key.format' = 'json', 'key.fields' = 'k_a', 'key.fields-prefix' = 'k_', 'value.format' = 'csv',
           'value.fields-include' = 'EXCEPT_KEY', 'value.csv.field-delimiter' = ';', 'scan.bounded.mode' = 'latest-offset'""",
    )
    key, value = sides(made)
    assert key is not None
    assert [key.inner(column) for column in key.columns] == ["a"]
    assert [column.name for column in value.columns] == ["b", "c"]
    assert value.option(made.options, "field-delimiter") == ";"
    assert connector_named("kafka").bound(made) is Bound.NOW
    check_written(made)


def test_offsets_are_spelled_as_spark_does() -> None:
    offsets = "'scan.startup.mode' = 'specific-offsets', 'scan.startup.specific-offsets' = 'partition:0,offset:42; partition:1,offset:300'"
    made = table("a INT", f"'topic' = 't', 'format' = 'json', {offsets}")
    assert json.loads(specific_offsets(made, STARTUP_OFFSETS.read(made.options) or "")) == {"t": {"0": 42, "1": 300}}
    for wrong in ("partition:0", "0:42", ""):
        with pytest.raises(LakeError, match="partition:0,offset:42"):
            specific_offsets(made, wrong)


def test_what_kafka_gives_is_not_written() -> None:
    for columns, topic, says in (
        ("a INT, t TIMESTAMP(3) METADATA FROM 'timestamp'", "'topic' = 't'", "VIRTUAL"),
        ("a INT", "'topic-pattern' = 't.*'", "one 'topic'"),
        ("a INT, t STRING METADATA FROM 'topic' VIRTUAL", "'topic-pattern' = 't.*'", "which is not VIRTUAL"),
        ("a INT, t STRING METADATA FROM 'topic' VIRTUAL", "'topic' = 'a;b'", "which is not VIRTUAL"),
    ):
        with pytest.raises(LakeError, match=says):
            check_written(table(columns, f"{topic}, 'format' = 'json'"))


def test_a_column_chooses_among_several_topics() -> None:
    for topics in ("'topic' = 'a; b'", "'topic-pattern' = 't.*'"):
        check_written(table("a INT, t STRING METADATA FROM 'topic'", f"{topics}, 'format' = 'json'"))


def test_the_avro_schema_is_the_one_flink_derives() -> None:
    _, value = sides(table("a INT NOT NULL, t TIMESTAMP(3), l TIMESTAMP_LTZ(6), d DECIMAL(9, 2)", "'topic' = 't', 'format' = 'avro'"))
    assert json.loads(avro_schema(value)) == {
        "type": "record",
        "name": "record",
        "namespace": "org.apache.flink.avro.generated",
        "fields": [
            {"name": "a", "type": "int"},
            {"name": "t", "type": ["null", {"type": "long", "logicalType": "local-timestamp-millis"}], "default": None},
            {"name": "l", "type": ["null", {"type": "long", "logicalType": "timestamp-micros"}], "default": None},
            {
                "name": "d",
                "type": ["null", {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}],
                "default": None,
            },
        ],
    }


def test_only_listed_brokers_are_connected_to() -> None:
    made = table("a INT", "'topic' = 't', 'format' = 'json'")  # its broker is h:1

    def of(servers: str) -> ConnectorTable:
        return replace(made, options={**made.options, "properties.bootstrap.servers": servers})

    check_brokers(made, ConnectorScope(kafka_brokers=None))
    for allowed in ("h", "h:1"):
        check_brokers(made, ConnectorScope(kafka_brokers=(allowed,)))
        check_brokers(of("PLAINTEXT://h:1, h:1"), ConnectorScope(kafka_brokers=(allowed,)))
    refused: list[tuple[str, tuple[str, ...]]] = [
        ("h:1", ()), ("h:1", ("h:2",)), ("h:1,other:1", ("h",)), ("h://other:1", ("h",)), ("h.other:1", ("h",)),
    ]  # fmt: skip
    for servers, brokers in refused:
        with pytest.raises(Forbidden, match=r"SLUICE_KAFKA_BROKERS|the brokers that may be used"):
            check_brokers(of(servers), ConnectorScope(kafka_brokers=brokers))


def test_a_pattern_of_topics_that_ends_is_taken() -> None:
    for pattern in ("orders-.*", "(eu|us)\\.orders", "t[0-9]+"):
        table("a INT", f"'topic-pattern' = '{pattern}', 'format' = 'json'")
