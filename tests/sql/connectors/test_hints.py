"""What a hint may give over a table with a connector: for one of the catalog nothing of where its rows lie, whatever its reader may do."""

from __future__ import annotations

import pytest

from gateway.gateway import Gateway
from lake import Lake
from model.errors import Forbidden, InvalidOption
from model.identifier import Identifier
from model.schema.change import SetOption
from model.schema.types import Field, parse_type
from model.view import View
from sql.analysis.views import sources_of
from sql.connectors import ConnectorTable
from sql.connectors.registry import CONNECTORS, checked_options, connector_table, hinted
from sql.connectors.stored import find_connector, stored_schema, table_of
from sql.dialect import parse_one
from sql.statements.base import ExecutionContext
from tests.lake.access.test_access import user
from tests.sql.tables import context_of

JAAS = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="a" password="hush";'
KAFKA = (
    "CREATE TABLE d.k (a INT) WITH ('connector' = 'kafka', 'topic' = 'mine', 'format' = 'json', 'properties.bootstrap.servers' = 'h:1', "
    f"'scan.startup.mode' = 'earliest-offset', 'properties.sasl.jaas.config' = '{JAAS}')"
)
REFUSED = {
    "kafka": (
        "topic", "topic-pattern", "properties.bootstrap.servers", "properties.sasl.jaas.config", "properties.security.protocol",
        "format", "value.format", "key.format", "key.fields", "value.fields-include", "csv.field-delimiter",
    ),
    "filesystem": ("path", "format", "csv.field-delimiter", "csv.quote-character"),
    "paimon": ("uri", "token", "table"),
    "datagen": (),
    "print": (),
    "blackhole": (),
}  # fmt: skip
TAKEN = {
    "kafka": {
        "scan.startup.mode": "latest-offset", "scan.bounded.mode": "latest-offset", "scan.startup.timestamp-millis": "1",
        "scan.watermark.idle-timeout": "1 s", "properties.auto.offset.reset": "latest", "properties.group.id": "g",
        "value.json.ignore-parse-errors": "true",
        "sink.parallelism": "2",
    },
    "filesystem": {"source.monitor-interval": "1 s", "csv.ignore-parse-errors": "true", "csv.header": "true"},
    "paimon": {"scan.snapshot-id": "1", "consumer-id": "c", "incremental-between": "1,2"},
    "datagen": {"number-of-rows": "3", "rows-per-second": "1", "fields.a.min": "1"},
    "print": {"print-identifier": "x", "standard-error": "true"},
    "blackhole": {},
}  # fmt: skip


@pytest.fixture
def context(lake: Lake) -> ExecutionContext:
    return context_of(lake)


def made(context: ExecutionContext, options: str) -> ConnectorTable:
    """A table of the session; it is not checked what its options are worth together."""
    definition = parse_one(f"CREATE TEMPORARY TABLE d.k (a INT) WITH ({options})").args["definition"]
    return connector_table("d.k", definition, context.connector_scope)


def kept(name: str) -> ConnectorTable:
    own = ConnectorTable(name="d.k", columns=(), options={"connector": name})
    return table_of("d.k", stored_schema(own))


@pytest.mark.parametrize(("name", "key"), [(name, key) for name, keys in REFUSED.items() for key in keys])
def test_over_a_table_of_the_catalog_a_hint_tells_nothing_of_where_rows_lie(name: str, key: str) -> None:
    option = CONNECTORS[name].options.known(key)
    value = "json" if "format" in key else "except_key" if key == "value.fields-include" else "SSL" if "protocol" in key else "x"
    with pytest.raises(Forbidden, match=f"Option '{key}' cannot be given in a hint"):
        checked_options(kept(name), {key: value})
    assert checked_options(ConnectorTable(name="k", columns=(), options={"connector": name}), {key: value}) == {key: value}
    assert not option.per_query


@pytest.mark.parametrize("name", CONNECTORS)
def test_it_tells_where_reading_begins_and_ends(name: str) -> None:
    assert checked_options(kept(name), TAKEN[name]) == TAKEN[name]
    with pytest.raises(InvalidOption, match="'connector' cannot be given"):
        checked_options(kept(name), {"connector": name})


def test_who_reads_or_writes_by_a_grant_stays_with_the_makers_topic(lake: Lake, gateway: Gateway) -> None:
    lake.create_database("d")
    gateway.run(KAFKA).close()
    ada = user(lake, "ada")
    gateway.run("GRANT SELECT ON d.k TO ada; GRANT UPDATE ON d.k TO ada; GRANT ALTER ON d.k TO ada").close()
    for hint in (
        "'topic' = 'payroll'",
        "'properties.bootstrap.servers' = 'other:9092'",
        "'properties.security.protocol' = 'SASL_PLAINTEXT'",
    ):
        with pytest.raises(Forbidden, match="cannot be given in a hint"):
            gateway.run(f"INSERT INTO d.k /*+ OPTIONS({hint}) */ SELECT 1", caller=lake.access.caller(ada)).close()


def topic_read(lake: Lake, token: str, query: str) -> str:
    """The topic that a query of that caller reads."""
    context = context_of(lake.for_caller(lake.access.caller(token)))
    (reference,) = sources_of(context, parse_one(query))
    table = find_connector(context.lake, context.session, reference.parts)
    assert table is not None
    return hinted(table, reference, context.connector_scope).options["topic"]


def test_who_holds_all_gives_any_hint_but_in_no_view(lake: Lake, gateway: Gateway) -> None:
    """A view's text is another's: by it its reader's rights would bring the maker's secrets to whoever wrote it."""
    lake.create_database("d")
    gateway.run(KAFKA).close()
    tokens = [user(lake, one) for one in ("ada", "grace")]
    gateway.run("GRANT SELECT ON d.k TO ada; GRANT ALL ON d.k TO grace").close()
    ada, grace = tokens
    asked = "SELECT a FROM d.k /*+ OPTIONS('topic' = 'payroll') */"
    assert topic_read(lake, grace, asked) == "payroll"
    with pytest.raises(Forbidden, match="'topic' cannot be given in a hint"):
        topic_read(lake, ada, asked)
    fields = (Field(id=0, name="a", type=parse_type("INT")),)
    lake.views.create(Identifier("d", "v"), View(fields=fields, query=asked, dialects={}, comment=None, options={}))
    lake.views.create(Identifier("d", "w"), View(fields=fields, query="SELECT a FROM v", dialects={}, comment=None, options={}))
    gateway.run("GRANT SELECT ON VIEW d.v TO grace; GRANT SELECT ON VIEW d.w TO grace").close()
    for query in ("SELECT * FROM d.v", "SELECT * FROM d.w", "WITH k AS (SELECT * FROM d.w) SELECT * FROM k"):
        with pytest.raises(Forbidden, match="'topic' cannot be given in a hint"):
            topic_read(lake, grace, query)
    assert topic_read(lake, grace, "SELECT a FROM d.k /*+ OPTIONS('properties.group.id' = 'g') */") == "mine"


def test_who_may_alter_takes_no_secret_elsewhere(lake: Lake, gateway: Gateway) -> None:
    """The secret that was not shown would be sent to another broker; its maker, who holds ALL, and one who gives another secret, may."""
    lake.create_database("d")
    gateway.run(KAFKA).close()
    name = Identifier("d", "k")
    tokens = [user(lake, one) for one in ("ada", "grace")]
    gateway.run("GRANT ALTER ON d.k TO ada; GRANT ALL ON d.k TO grace").close()
    ada, grace = (lake.for_caller(lake.access.caller(token)) for token in tokens)
    elsewhere = SetOption(key="properties.bootstrap.servers", value="other:9092")
    with pytest.raises(Forbidden, match=r"'properties.bootstrap.servers' of d.k takes ALL on it.*'properties.sasl.jaas.config'"):
        ada.alter_table(name, [elsewhere])
    with pytest.raises(Forbidden, match="takes ALL"):
        ada.alter_table(name, [SetOption(key="properties.sasl.jaas.config", value="******"), SetOption(key="topic", value="payroll")])
    grace.alter_table(name, [elsewhere])
    own = SetOption(key="properties.sasl.jaas.config", value=JAAS.replace("hush", "adas own"))
    ada.alter_table(name, [own, SetOption(key="topic", value="adas")])
    assert lake.open_any(name).schema.options["topic"] == "adas"
