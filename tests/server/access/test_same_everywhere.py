"""What somebody may do is one thing: each statement has the same outcome by `/sql`, by Flink's gateway protocol and by Flight SQL."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import adbc_driver_flightsql.dbapi as dbapi
import adbc_driver_manager
import pytest
from adbc_driver_flightsql import DatabaseOptions

from tests import fix_postgres
from tests.fix_memory import LastingPath
from tests.server.flight.conftest import Endpoint

PROTOCOLS = ("http", "flink", "flight")
PRINCIPALS = (
    "stranger", "filtered", "masked", "columns", "appender", "changer", "maker", "by_role",
    "alterer", "dropper", "lister", "part_appender",
)  # fmt: skip
_SHORT = ("filtered", "appender")
"""Asked in each run; the others in `make torture`."""
SETUP = """
    CREATE DATABASE {d}; CREATE TABLE {d}.t (id INT, s STRING, p INT) PARTITIONED BY (p); INSERT INTO {d}.t VALUES (1, 'a', 1), (2, 'b', 2);
    CREATE TABLE {d}.secret (id INT); INSERT INTO {d}.secret VALUES (42);
    CALL sys.create_tag('{d}.t', 'kept'); CALL sys.create_branch('{d}.t', 'b');
    CREATE TABLE {d}.gone (id INT); DROP TABLE {d}.gone;
    GRANT SELECT ON {d}.t TO filtered; CREATE POLICY p ON {d}.t TO filtered USING (id = 1);
    GRANT SELECT ON {d}.t TO masked; CREATE MASKING POLICY m ON {d}.t (s) TO masked USING (NULL); GRANT SELECT (id) ON {d}.t TO columns;
    GRANT INSERT ON {d}.t TO appender; GRANT SELECT, UPDATE, DELETE ON {d}.t TO changer;
    GRANT CREATETABLE, CREATEVIEW, CREATEFUNCTION, LIST ON DATABASE {d} TO maker; GRANT SELECT ON {d}.t TO everybody_elses;
    GRANT ALTER ON {d}.t TO alterer; GRANT DROP ON {d}.t TO dropper; GRANT LIST ON DATABASE {d} TO lister;
    GRANT SELECT (id), UPDATE ON {d}.t TO part_appender
"""
STATEMENTS = (
    "SELECT * FROM {d}.t", "SELECT COUNT(*) FROM {d}.t", "SELECT id FROM {d}.t", "SELECT s FROM {d}.t WHERE s = 'b'",
    "SELECT * FROM {d}.secret", "SELECT * FROM {d}.v", "SELECT * FROM {d}.nothing", "SELECT * FROM {d}.t$files", "SELECT * FROM {d}.t$tags",
    "SELECT id FROM {d}.t /*+ OPTIONS('scan.snapshot-id'='1') */", "SELECT * FROM {d}.`t$branch_b`", "SELECT COUNT(*) FROM {d}.t$snapshots",
    "SELECT * FROM {d}.t$partitions", "SELECT COUNT(*) FROM sys.tables WHERE database_name = '{d}'",
    "SELECT table_name FROM information_schema.tables WHERE table_schema = '{d}'", "SELECT * FROM sys.audit_log",
    "SELECT * FROM sys.tokens",
    "EXPLAIN SELECT * FROM {d}.t", "EXPLAIN SELECT * FROM {d}.secret", "DESCRIBE {d}.t", "DESCRIBE {d}.secret", "SHOW CREATE TABLE {d}.t",
    "SHOW TABLES IN {d}", "SHOW VIEWS IN {d}", "SHOW PARTITIONS {d}.t", "SHOW GRANTS ON {d}.t", "SHOW POLICIES ON {d}.t", "SHOW ROLES",
    "SHOW DROPPED TABLES", "SHOW QUOTAS", "SHOW JOBS", "USE {d}",
    "INSERT INTO {d}.t VALUES (9, 'z', 9)", "INSERT INTO {d}.secret VALUES (9)", "INSERT OVERWRITE {d}.t VALUES (1, 'a', 1)",
    "DELETE FROM {d}.t WHERE id = 77", "UPDATE {d}.t SET s = 'x' WHERE id = 77", "TRUNCATE TABLE {d}.secret",
    "MERGE INTO {d}.t USING {d}.secret AS x ON t.id = x.id WHEN MATCHED THEN DELETE",
    "ALTER TABLE {d}.t ADD (n INT)", "ALTER TABLE {d}.t SET ('snapshot.num-retained.min' = '2')", "ALTER TABLE {d}.t RENAME TO taken",
    "ALTER TABLE {d}.t DROP PARTITION (p = 7)", "DROP TABLE {d}.secret", "DROP TABLE {d}.secret PURGE", "DROP VIEW {d}.v",
    "DROP DATABASE {d} CASCADE", "CREATE DATABASE {d}_new", "CREATE TABLE {d}.mine (id INT)", "INSERT INTO {d}.mine VALUES (1)",
    "CREATE TABLE {d}.copied AS SELECT id FROM {d}.secret", "CREATE VIEW {d}.mine_v AS SELECT * FROM {d}.secret",
    "CREATE OR REPLACE TABLE {d}.secret (x INT)", "CREATE TABLE {d}.t LIKE {d}.secret", "UNDROP TABLE {d}.gone", "PURGE TABLE {d}.gone",
    "GRANT SELECT ON {d}.secret TO stranger", "REVOKE SELECT ON {d}.t FROM everybody_elses", "CREATE ROLE r_{d}",
    "GRANT ROLE admin TO stranger",
    "CREATE POLICY q ON {d}.t USING (id = 5)", "DROP POLICY p ON {d}.t", "DROP MASKING POLICY m ON {d}.t",
    "SET QUOTA statements.running = 1 FOR USER stranger", "RESET QUOTA statements.running FOR USER stranger",
    "CALL sys.create_tag('{d}.t', 'mine')", "CALL sys.delete_tag('{d}.t', 'kept')", "CALL sys.rollback_to('{d}.t', 1)",
    "CALL sys.expire_snapshots('{d}.t', 9)", "CALL sys.remove_orphan_files('{d}.t')", "CALL sys.compact('{d}.t')",
    "CALL sys.check_table('{d}.t')", "CALL sys.check_table('{d}.secret')", "CALL sys.doctor('{d}.t')", "CALL sys.repair_table('{d}.t')",
    "CALL sys.create_branch('{d}.t', 'c')", "CALL sys.delete_branch('{d}.t', 'b')", "CALL sys.drop_partition('{d}.t', 'p=7')",
    "CALL sys.register_table(table => '{d}.reg', path => '/etc')", "CALL sys.analyze_table('{d}.t')", "CALL sys.fast_forward('{d}.t', 'b')",
    "SELECT java_method('java.lang.System', 'exit', 0)", "SELECT * FROM", "SET 'sql-client.verbose' = 'true'",
)  # fmt: skip
ENDED = {200: "done", 400: "refused", 403: "forbidden", 404: "not there", 409: "conflict", 503: "unavailable"}


class Everywhere:
    """One server, asked by three protocols, each about a database of its own in the same state."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._client = endpoint.app.test_client()
        self._tokens = {"root": self._token({"name": "root", "administrator": True}, None)}
        self._tokens |= {name: self._token({"name": name}, "root") for name in PRINCIPALS}
        self.http("root", "CREATE ROLE everybody_elses; GRANT ROLE everybody_elses TO by_role")

    def _token(self, body: dict[str, Any], by: str | None) -> str:
        return str(self._client.post("/tokens", json=body, headers={} if by is None else self._as(by)).get_json()["token"])

    def _as(self, who: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {self._tokens[who]}"}

    def make(self, database: str) -> None:
        """The database as it is before a statement."""
        ended, told = self.http("root", f"DROP DATABASE IF EXISTS {database} CASCADE PURGE; {SETUP.format(d=database)}")
        assert ended == "done", (database, told)

    def http(self, who: str, text: str) -> tuple[str, Any]:
        answer = self._client.post("/sql", json={"statement": text}, headers=self._as(who), buffered=True)
        body = answer.get_json()
        return ENDED.get(answer.status_code, str(answer.status_code)), body["rows"] if answer.status_code == 200 else body["detail"]

    def flink(self, who: str, text: str) -> tuple[str, Any]:
        session = self._client.post("/v2/sessions", json={}, headers=self._as(who)).get_json()["sessionHandle"]
        path = f"/v2/sessions/{session}"
        made = self._client.post(f"{path}/statements", json={"statement": text}, headers=self._as(who))
        assert made.status_code == 200, made.text
        rows: list[Any] = []
        uri = f"{path}/operations/{made.get_json()['operationHandle']}/result/0"
        while uri:
            answer = self._client.get(uri, headers=self._as(who))
            body = json.loads(answer.data)
            if answer.status_code != 200:
                return "failed", "\n".join(body["errors"])
            rows += [row["fields"] for row in body.get("results", {}).get("data", [])]
            if body["resultType"] == "NOT_READY":
                time.sleep(0.01)
            uri = body.get("nextResultUri")
        self._client.delete(path, headers=self._as(who))
        return "done", rows

    def flight(self, who: str, text: str) -> tuple[str, Any]:
        header = {DatabaseOptions.AUTHORIZATION_HEADER.value: self._as(who)["Authorization"]}
        with dbapi.connect(self._endpoint.url, db_kwargs=header, autocommit=True) as connection, connection.cursor() as cursor:
            try:
                cursor.execute(text)
                return "done", [list(row) for row in cursor.fetchall()]
            except adbc_driver_manager.Error as problem:
                return "failed", str(problem)


@pytest.fixture(scope="module")
def everywhere(server_dsn: str, template: str, lasting_path: LastingPath) -> Iterator[Everywhere]:
    with fix_postgres.database(server_dsn, template) as dsn:
        endpoint = Endpoint(dsn, lasting_path("everywhere"))
        try:
            yield Everywhere(endpoint)
        finally:
            endpoint.close()


def plainly(told: Any, database: str) -> str:
    """What an answer says, whichever of the databases it is about."""
    return " ".join(str(told).replace(database, "DB").split())


@pytest.mark.parametrize("who", [pytest.param(who, marks=() if who in _SHORT else pytest.mark.torture) for who in PRINCIPALS])
def test_each_statement_ends_alike_by_every_protocol(everywhere: Everywhere, who: str) -> None:
    names = {protocol: f"d_{protocol}" for protocol in PROTOCOLS}
    for database in names.values():
        everywhere.make(database)
    for text in STATEMENTS:
        (ended, told), flink, flight = (getattr(everywhere, name)(who, text.format(d=names[name])) for name in PROTOCOLS)
        for other, (how, said), database in (("flink", flink, names["flink"]), ("flight", flight, names["flight"])):
            if ended == "done":
                assert how == "done", f"{who} by {other}: {text}: {said}"
                continue
            assert how == "failed", f"{who} by {other}: {text} is done; by HTTP it is {ended}: {told}"
            assert plainly(told, names["http"])[:120] in plainly(said, database), f"{who} by {other}: {text}"
        if ended == "done" and text.startswith("SELECT") and "sys." not in text and "$" not in text:
            assert sorted(map(str, flight[1])) == sorted(map(str, told)), f"{who}: {text}"
            assert len(flink[1]) == len(told), f"{who}: {text}"
