"""The requests whose answers are recorded (`test_golden.py`), in the order they are sent: each stands on those before it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.server.paimon.committing import Writer
from tests.server.paimon.speaking import PLAIN, new_table, schema

T = "databases/d/tables/t"
Body = dict[str, Any] | bytes | Callable[[Writer], dict[str, Any]] | None
Exchange = tuple[str, str, Body]
"""What it is about, method with path, body; a function builds the body on what a writer sees of d.t."""
TABLE = {"type": "TABLE", "database": "d", "table": "t"}


def _sent(**changed: Any) -> Callable[[Writer], dict[str, Any]]:
    return lambda writer: writer.body(writer.latest(), **changed)


def _alter(*changes: dict[str, Any]) -> dict[str, Any]:
    return {"changes": list(changes)}


def _renamed(source: str, target: str) -> dict[str, Any]:
    return {"source": {"database": "d", "object": source}, "destination": {"database": "d", "object": target}}


def _column(name: str) -> dict[str, Any]:
    return {"action": "addColumn", "fieldNames": [name], "dataType": "INT"}


def _field(name: str) -> dict[str, Any]:
    return {"id": 0, "name": name, "type": "INT"}


DATABASES: list[Exchange] = [
    ("the catalog's name", "GET /v1/config?warehouse=sluice", None),
    ("another catalog", "GET /v1/config?warehouse=other", None),
    ("made", "POST databases", {"name": "d", "options": {"comment": "c", "k": "v"}}),
    ("exists", "POST databases", {"name": "d", "options": {}}),
    ("a name no database has", "POST databases", {"name": "a/b"}),
    ("no name", "POST databases", {"options": {}}),
    ("not JSON", "POST databases", b"{"),
    ("not an object", "POST databases", b"[1]"),
    ("nothing", "POST databases", b""),
    ("all", "GET databases", None),
    ("a page", "GET databases?maxResults=1", None),
    ("the next page", "GET databases?maxResults=1&pageToken=d", None),
    ("a pattern", "GET databases?databaseNamePattern=d%25", None),
    ("a size that is none", "GET databases?maxResults=many", None),
    ("one", "GET databases/d", None),
    ("none", "GET databases/none", None),
    ("changed", "POST databases/d", {"removals": ["k", "gone"], "updates": {"x": "1"}}),
    ("none", "POST databases/none", {"removals": [], "updates": {}}),
    ("made to go", "POST databases", {"name": "e", "options": {}}),
    ("gone", "DELETE databases/e", None),
    ("none", "DELETE databases/none", None),
]

TABLES: list[Exchange] = [
    ("made", "POST databases/d/tables", new_table()),
    ("exists", "POST databases/d/tables", new_table()),
    ("no database", "POST databases/none/tables", new_table()),
    ("a primary key", "POST databases/d/tables", new_table("k", PLAIN | {"primaryKeys": ["id"]})),
    ("a merge engine", "POST databases/d/tables", new_table("k", schema(("id", "INT"), merge_engine="deduplicate"))),
    ("buckets without a key", "POST databases/d/tables", new_table("k", schema(("id", "INT"), bucket="2"))),
    ("a value no option has", "POST databases/d/tables", new_table("k", schema(("id", "INT"), bucket="x"))),
    ("no such type", "POST databases/d/tables", new_table("k", schema(("id", "NOSUCH")))),
    ("a name no table has", "POST databases/d/tables", new_table("a$b")),
    ("partitioned", "POST databases/d/tables", new_table("p", schema(("id", "BIGINT"), ("day", "STRING"), partition=["day"], bucket="-1"))),
    ("of another kind", "POST databases/d/tables", new_table("f", schema(("a", "INT"), type="format-table"))),
    ("all", "GET databases/d/tables", None),
    ("a page", "GET databases/d/tables?maxResults=1", None),
    ("a pattern", "GET databases/d/tables?tableNamePattern=t%25", None),
    ("a kind", "GET databases/d/tables?tableType=format-table", None),
    ("no database", "GET databases/none/tables", None),
    ("a page", "GET databases/d/table-details?maxResults=1", None),
    ("no database", "GET databases/none/table-details", None),
    ("a page", "GET tables?maxResults=1", None),
    ("a token of another list", "GET tables?pageToken=nodot", None),
    ("one", f"GET {T}", None),
    ("none", "GET databases/d/tables/none", None),
    ("a system table", "GET databases/d/tables/t%24snapshots", None),
    ("no branch", "GET databases/d/tables/t%24branch_none", None),
    ("none", "GET tables/id/00000000-0000-4000-8000-000000000000", None),
    ("changed", f"POST {T}", _alter({"action": "setOption", "key": "k", "value": "v"}, {"action": "updateComment", "comment": "said"})),
    ("no such change", f"POST {T}", _alter({"action": "addColum"})),
    ("a column that exists", f"POST {T}", _alter(_column("id"))),
    ("no such column", f"POST {T}", _alter({"action": "dropColumn", "fieldNames": ["none"]})),
    ("NOT NULL", f"POST {T}", _alter(_column("n") | {"dataType": "INT NOT NULL"})),
    ("a key", f"POST {T}", _alter({"action": "dropPrimaryKey"})),
    ("no such type", f"POST {T}", _alter(_column("n") | {"dataType": "NOSUCH"})),
    ("none", "POST databases/d/tables/none", _alter()),
    ("renamed", "POST tables/rename", _renamed("f", "g")),
    ("onto another", "POST tables/rename", _renamed("g", "t")),
    ("none", "POST tables/rename", _renamed("none", "x")),
    ("of another kind", "POST databases/d/tables/g/auth", {"select": None}),
    ("gone", "DELETE databases/d/tables/g", None),
    ("none", "DELETE databases/d/tables/none", None),
]

COMMITS: list[Exchange] = [
    ("never written", f"GET {T}/snapshot", None),
    ("the first", f"POST {T}/commit", _sent(timeMillis=1)),
    ("a lost race", f"POST {T}/commit", lambda writer: writer.body(None)),
    ("a schema there is not", f"POST {T}/commit", _sent(schemaId=9)),
    ("a list there is not", f"POST {T}/commit", _sent(deltaManifestList="manifest-list-none-1")),
    ("no such kind", f"POST {T}/commit", _sent(commitKind="GUESS")),
    ("another table", f"POST {T}/commit", lambda w: w.body(None) | {"tableId": "00000000-0000-4000-8000-000000000000"}),
    ("no table", "POST databases/d/tables/none/commit", _sent()),
    ("the second", f"POST {T}/commit", _sent(schemaId=1, timeMillis=2)),
    ("the third", f"POST {T}/commit", _sent(schemaId=1, timeMillis=3)),
    ("the latest", f"GET {T}/snapshot", None),
    ("a page", f"GET {T}/snapshots?maxResults=1", None),
    ("a token of another list", f"GET {T}/snapshots?pageToken=x", None),
    ("a number", f"GET {T}/snapshots/1", None),
    ("the earliest", f"GET {T}/snapshots/EARLIEST", None),
    ("none", f"GET {T}/snapshots/99", None),
    ("made", f"POST {T}/tags", {"tagName": "one", "snapshotId": 1, "timeRetained": "1d"}),
    ("exists", f"POST {T}/tags", {"tagName": "one"}),
    ("no snapshot", f"POST {T}/tags", {"tagName": "x", "snapshotId": 9}),
    ("no duration", f"POST {T}/tags", {"tagName": "x", "timeRetained": "soon"}),
    ("all", f"GET {T}/tags", None),
    ("one", f"GET {T}/tags/one", None),
    ("none", f"GET {T}/tags/none", None),
    ("somebody wrote", f"POST {T}/rollback", {"instant": {"type": "snapshot", "snapshotId": 2}, "fromSnapshot": 1}),
    ("back", f"POST {T}/rollback", {"instant": {"type": "snapshot", "snapshotId": 2}, "fromSnapshot": 3}),
    ("no snapshot", f"POST {T}/rollback", {"instant": {"type": "snapshot", "snapshotId": 9}}),
    ("no tag", f"POST {T}/rollback", {"instant": {"type": "tag", "tagName": "none"}}),
    ("no such instant", f"POST {T}/rollback", {"instant": {"type": "moon"}}),
    ("the schema changes", f"POST {T}", _alter(_column("x"))),
    ("still used", f"POST {T}/rollback-schema", {"schemaId": 0}),
    ("back", f"POST {T}/rollback-schema", {"schemaId": 1}),
    ("none", f"POST {T}/rollback-schema", {"schemaId": 9}),
    ("from a tag", f"POST {T}/branches", {"branch": "b", "fromTag": "one"}),
    ("empty", f"POST {T}/branches", {"branch": "e"}),
    ("exists", f"POST {T}/branches", {"branch": "b"}),
    ("no tag", f"POST {T}/branches", {"branch": "c", "fromTag": "none"}),
    ("a name no branch has", f"POST {T}/branches", {"branch": "7"}),
    ("all", f"GET {T}/branches", None),
    ("a branch", f"GET {T}%24branch_b", None),
    ("renamed", f"POST {T}/branches/b/rename", {"toBranch": "c"}),
    ("onto another", f"POST {T}/branches/c/rename", {"toBranch": "e"}),
    ("none", f"POST {T}/branches/none/rename", {"toBranch": "x"}),
    ("forward", f"POST {T}/branches/c/forward", {}),
    ("without snapshots", f"POST {T}/branches/e/forward", {}),
    ("none", f"POST {T}/branches/none/forward", {}),
    ("gone", f"DELETE {T}/branches/c", None),
    ("none", f"DELETE {T}/branches/none", None),
    ("gone", f"DELETE {T}/tags/one", None),
    ("none", f"DELETE {T}/tags/none", None),
    ("set", f"POST {T}/consumers/reset", {"consumerId": "c", "nextSnapshotId": 1}),
    ("no consumer named", f"POST {T}/consumers/reset", {"nextSnapshotId": 1}),
    ("all", f"GET {T}/consumers", None),
    ("another schema", f"POST {T}/replace", {"schema": schema(("x", "STRING"))}),
    ("other partitions", f"POST {T}/replace", {"schema": schema(("x", "INT"), ("p", "INT"), partition=["p"])}),
    ("none", "POST databases/d/tables/none/replace", {"schema": PLAIN}),
]

P = "databases/d/tables/p/partitions"
PARTITIONS: list[Exchange] = [
    ("made", f"POST {P}", {"partitionSpecs": [{"day": "a"}, {"day": "b"}]}),
    ("exists", f"POST {P}", {"partitionSpecs": [{"day": "a"}], "ignoreIfExists": False}),
    ("not a partition's keys", f"POST {P}", {"partitionSpecs": [{"hour": "1"}]}),
    ("a page", f"GET {P}?maxResults=1", None),
    ("a pattern", f"GET {P}?partitionNamePattern=day=b%25", None),
    ("no table", "GET databases/d/tables/none/partitions", None),
    ("complete", f"POST {P}/mark", {"specs": [{"day": "a"}]}),
    ("one of two", f"POST {P}/list-by-names", {"specs": [{"day": "a"}, {"day": "z"}]}),
    ("too many", f"POST {P}/list-by-names", {"specs": [{"day": "a"}] * 1001}),
    ("a superset", f"POST {P}/list-by-filter", {"filter": "{}", "maxResults": 1}),
    ("one of two", f"POST {P}/drop", {"partitionSpecs": [{"day": "a"}, {"day": "z"}]}),
    ("none", f"POST {P}/drop", {"partitionSpecs": [{"day": "z"}], "ignoreIfNotExists": False}),
]

VIEW = {"fields": [_field("a")], "query": "SELECT 1 AS a", "dialects": {"flink": "SELECT 1 a"}, "comment": "c", "options": {"k": "v"}}
SQL = {"type": "sql", "definition": "x + 1"}
FUNCTION = {
    "name": "f", "inputParams": [_field("x")], "returnParams": [_field("y")], "deterministic": True,
    "definitions": {"sql": SQL}, "comment": "c", "options": {},
}  # fmt: skip


def _view(name: str) -> dict[str, Any]:
    return {"identifier": {"database": "d", "object": name}, "schema": VIEW}


NAMED: list[Exchange] = [
    ("made", "POST databases/d/views", _view("v")),
    ("exists", "POST databases/d/views", _view("v")),
    ("a table of that name", "POST databases/d/views", _view("t")),
    ("no query", "POST databases/d/views", {"identifier": {"database": "d", "object": "w"}, "schema": {"fields": []}}),
    ("all", "GET databases/d/views", None),
    ("whole", "GET databases/d/view-details", None),
    ("everywhere", "GET views?maxResults=1", None),
    ("one", "GET databases/d/views/v", None),
    ("none", "GET databases/d/views/none", None),
    ("changed", "POST databases/d/views/v", _alter({"action": "addDialect", "dialect": "spark", "query": "SELECT 1"})),
    ("a dialect that exists", "POST databases/d/views/v", _alter({"action": "addDialect", "dialect": "spark", "query": "SELECT 1"})),
    ("no such dialect", "POST databases/d/views/v", _alter({"action": "dropDialect", "dialect": "none"})),
    ("renamed", "POST views/rename", _renamed("v", "w")),
    ("none", "POST views/rename", _renamed("v", "x")),
    ("gone", "DELETE databases/d/views/w", None),
    ("none", "DELETE databases/d/views/w", None),
    ("made", "POST databases/d/functions", FUNCTION),
    ("exists", "POST databases/d/functions", FUNCTION),
    ("a definition that is none", "POST databases/d/functions", {"name": "g", "definitions": {"x": 3}}),
    ("a definition of no known type", "POST databases/d/functions", {"name": "g", "definitions": {"x": {"type": "moon"}}}),
    ("all", "GET databases/d/functions", None),
    ("whole", "GET databases/d/function-details", None),
    ("everywhere", "GET functions?maxResults=1", None),
    ("one", "GET databases/d/functions/f", None),
    ("none", "GET databases/d/functions/none", None),
    ("changed", "POST databases/d/functions/f", _alter({"action": "updateComment", "comment": "new"})),
    ("a definition that exists", "POST databases/d/functions/f", _alter({"action": "addDefinition", "name": "sql", "definition": SQL})),
    ("no such definition", "POST databases/d/functions/f", _alter({"action": "dropDefinition", "name": "none"})),
    ("gone", "DELETE databases/d/functions/f", None),
    ("none", "DELETE databases/d/functions/f", None),
]

ACCESS: list[Exchange] = [
    ("nothing binds", f"POST {T}/auth", {"select": None}),
    ("no table", "POST databases/d/tables/none/auth", {"select": None}),
    ("none is configured", f"GET {T}/token", None),
    (
        "a directory without a table",
        "POST databases/d/register",
        {"identifier": {"database": "d", "object": "r"}, "path": "{warehouse}/no"},
    ),
    ("a directory of the machine", "POST databases/d/register", {"identifier": {"object": "r"}, "path": "/etc"}),
    ("given", "POST permissions/grant", {"resource": TABLE, "access": "SELECT", "principal": "ada"}),
    ("no such access", "POST permissions/grant", {"resource": TABLE, "access": "READ", "principal": "ada"}),
    ("no such resource", "POST permissions/grant", {"resource": {"type": "MOON"}, "access": "SELECT", "principal": "ada"}),
    ("all", "GET permissions?resourceType=TABLE&database=d&table=t", None),
    ("no such resource", "GET permissions?resourceType=MOON", None),
    ("taken", "POST permissions/revoke", {"resource": TABLE, "access": "SELECT", "principal": "ada"}),
    ("not given", "POST permissions/revoke", {"resource": TABLE, "access": "SELECT", "principal": "ada"}),
]

ELSEWHERE: list[Exchange] = [
    ("no such path", "GET moon", None),
    ("no such method", "PUT databases", {}),
    ("no such method of the first path", "POST /v1/config", {}),
    ("HEAD", "HEAD databases/d", None),
    ("a slash at the end", "GET databases/", None),
    ("NUL in a name", "GET databases/a%00b", None),
]

ALL: dict[str, list[Exchange]] = {
    "databases": DATABASES, "tables": TABLES, "commits": COMMITS, "partitions": PARTITIONS, "named": NAMED, "access": ACCESS,
    "elsewhere": ELSEWHERE,
}  # fmt: skip
