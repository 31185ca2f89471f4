"""What users of pypaimon meet on a server with tokens; runs in pypaimon's own environment, fails loudly."""

from __future__ import annotations

import sys
from typing import Any

import pyarrow as pa
from pypaimon import CatalogFactory, Schema
from pypaimon.catalog.catalog_exception import DatabaseNoPermissionException, TableNoPermissionException
from pypaimon.management.list_permissions_request import ListPermissionsRequest
from pypaimon.management.permission_assignment import PermissionAssignment
from pypaimon.management.permission_columns import PermissionColumns
from pypaimon.management.permission_resource import PermissionResource
from pypaimon.management.resource_type import ResourceType

COLUMNS = pa.schema([("id", pa.int64()), ("name", pa.string()), ("region", pa.string())])
ROWS = pa.table({"id": [1, 2, 3], "name": ["anna", "bert", None], "region": ["eu", "us", "eu"]}, schema=COLUMNS)


def connect(url: str, token: str) -> Any:
    return CatalogFactory.create({"metastore": "rest", "uri": url, "warehouse": "sluice", "token.provider": "bear", "token": token})


def write(table: Any) -> None:
    builder = table.new_batch_write_builder()
    writer, commit = builder.new_write(), builder.new_commit()
    writer.write_arrow(ROWS)
    commit.commit(writer.prepare_commit())
    writer.close()
    commit.close()


def read(table: Any, *columns: str) -> list[dict[str, Any]]:
    builder = table.new_read_builder()
    if columns:
        builder = builder.with_projection(list(columns))
    found = builder.new_read().to_arrow(builder.new_scan().plan().splits())
    return list(found.sort_by("id").to_pylist())


def refuses(error: type[Exception], work: Any) -> None:
    try:
        work()
    except error:
        return
    raise AssertionError(f"{error.__name__} was expected")


def grants(url: str, root: str, ada: str) -> None:
    """Without a grant nothing is to be had; with one its thing and no more."""
    admin, user = connect(url, root), connect(url, ada)
    refuses(Exception, lambda: connect(url, "wrong").list_databases())
    admin.create_database("acl", False)
    for name in ("acl.t", "acl.u"):
        admin.create_table(name, Schema.from_pyarrow_schema(COLUMNS, options={"bucket": "-1"}), False)
    write(admin.get_table("acl.t"))
    assert "acl" not in user.list_databases()
    refuses(DatabaseNoPermissionException, lambda: user.get_database("acl"))
    refuses(TableNoPermissionException, lambda: user.get_table("acl.t"))
    table = PermissionResource(ResourceType.TABLE, "acl", "t")
    manage = admin.permission_management()
    manage.grant_permission(PermissionAssignment(table, "SELECT", "ada", expire_time="2099-01-01T00:00:00Z"))
    assert user.list_tables("acl") == ["t"]
    assert [row["id"] for row in read(user.get_table("acl.t"))] == [1, 2, 3]
    refuses(Exception, lambda: write(user.get_table("acl.t")))
    assert len(read(user.get_table("acl.t"))) == 3
    manage.grant_permission(PermissionAssignment(table, "UPDATE", "ada"))
    write(user.get_table("acl.t"))
    assert len(read(user.get_table("acl.t"))) == 6
    refuses(TableNoPermissionException, lambda: user.drop_table("acl.t", False))
    listed = manage.list_permissions(ListPermissionsRequest(ResourceType.TABLE, "acl", "t")).elements
    assert [(one.get_access(), one.get_principal(), one.get_expire_time()) for one in listed] == [
        ("SELECT", "ada", "2099-01-01T00:00:00.000Z"),
        ("UPDATE", "ada", None),
    ], listed
    manage.revoke_permission(table, "UPDATE", "ada")
    manage.revoke_permission(table, "SELECT", "ada")
    refuses(TableNoPermissionException, lambda: user.get_table("acl.t"))


def columns(url: str, root: str, ada: str) -> None:
    """A grant of columns."""
    resource = PermissionResource(ResourceType.COLUMN, "acl", "t")
    opened = PermissionColumns(excluded_column_names=["name"])
    connect(url, root).permission_management().grant_permission(PermissionAssignment(resource, "SELECT", "ada", columns=opened))
    table = connect(url, ada).get_table("acl.t")
    assert read(table, "id", "region")[0] == {"id": 1, "region": "eu"}
    refuses(TableNoPermissionException, lambda: read(table))
    refuses(TableNoPermissionException, lambda: read(table, "id", "name"))


def rules(url: str, root: str, ada: str) -> None:
    """The policies the test has put on the table hold for who reads with this client, and for nobody else."""
    seen = read(connect(url, ada).get_table("acl.t"))
    assert seen == [{"id": 1, "name": "an", "region": "***"}] * 2 + [{"id": 3, "name": None, "region": "***"}] * 2, seen
    assert len(read(connect(url, root).get_table("acl.t"))) == 6


if __name__ == "__main__":
    for part in sys.argv[1].split(","):
        {"grants": grants, "columns": columns, "rules": rules}[part](*sys.argv[2:5])
