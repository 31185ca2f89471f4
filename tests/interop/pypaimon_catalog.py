"""Every call of pypaimon's RESTCatalog that `pypaimon_rest.py` and `pypaimon_access.py` do not make; fails loudly."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from typing import Any

from pypaimon import Schema
from pypaimon.api.rest_exception import AlreadyExistsException
from pypaimon.catalog import catalog_exception as errors
from pypaimon.catalog.rest.property_change import PropertyChange
from pypaimon.common.identifier import Identifier
from pypaimon.consumer.consumer import Consumer
from pypaimon.function.function import FunctionImpl
from pypaimon.function.function_change import FunctionChange
from pypaimon.function.function_definition import FunctionDefinition, FunctionFileResource
from pypaimon.schema.data_types import AtomicType, DataField
from pypaimon.schema.schema_change import SchemaChange
from pypaimon.table.instant import Instant
from pypaimon_rest import COLUMNS, connect, read, rows, write

T = "calls.t"


def refused(kind: type[Exception], act: Callable[..., Any], *given: Any) -> None:
    """Nothing but this kind of refusal will do."""
    try:
        act(*given)
    except kind:
        return
    raise AssertionError(f"{kind.__name__} was expected")


def all_pages(fetch: Callable[..., Any], size: int = 1) -> list[Any]:
    """What a list holds, asked for page by page."""
    found: list[Any] = []
    token = None
    while True:
        page = fetch(max_results=size, page_token=token)
        assert len(page.elements) <= size
        found += page.elements
        token = page.next_page_token
        if not token:
            return found


def databases(catalog: Any) -> None:
    catalog.create_database("calls", False, {"k": "v", "gone": "1"})
    refused(errors.DatabaseAlreadyExistException, lambda: catalog.create_database("calls", False))
    catalog.alter_database("calls", [PropertyChange.set_property("k", "w"), PropertyChange.remove_property("gone")])
    options = catalog.get_database("calls").options
    assert options["k"] == "w"
    assert "gone" not in options
    assert all_pages(catalog.list_databases_paged) == sorted(catalog.list_databases())
    assert catalog.list_databases_paged(database_name_pattern="cal%").elements == ["calls"]
    for act in (
        catalog.get_database,
        catalog.list_tables,
        catalog.list_functions,
        lambda name: catalog.alter_database(name, []),
        catalog.drop_database,
    ):
        refused(errors.DatabaseNotExistException, act, "none")
    catalog.drop_database("none", True)


def tables(catalog: Any) -> None:
    schema = Schema.from_pyarrow_schema(COLUMNS, partition_keys=["day"], options={"bucket": "-1"}, comment="said")
    for name in ("t", "u_1", "v"):
        catalog.create_table(f"calls.{name}", schema, False)
    refused(errors.TableAlreadyExistException, lambda: catalog.create_table(T, schema, False))
    catalog.create_table(T, schema, True)
    assert all_pages(lambda **page: catalog.list_tables_paged("calls", **page)) == ["t", "u_1", "v"]
    assert catalog.list_tables_paged("calls", table_name_pattern="%_1", table_type="table").elements == ["u_1"]
    assert catalog.load_snapshot(T) is None
    refused(errors.TableAlreadyExistException, lambda: catalog.rename_table("calls.v", T))
    catalog.rename_table("calls.v", "calls.w")
    refused(errors.TableNotExistException, lambda: catalog.rename_table("calls.v", "calls.x"))
    for act in (catalog.get_table, catalog.drop_table, catalog.load_snapshot, catalog.list_partitions_paged, catalog.list_branches):
        refused(errors.TableNotExistException, act, "calls.none")
    catalog.drop_table("calls.none", True)
    refused(errors.TableNotExistException, lambda: catalog.alter_table("calls.none", [SchemaChange.set_option("a", "b")]))
    refused(AlreadyExistsException, lambda: catalog.alter_table(T, [SchemaChange.add_column("id", AtomicType("INT"))]))
    catalog.drop_table("calls.w", False)


def schemas(catalog: Any) -> None:
    """Every change this client can send."""
    name = "calls.u_1"
    catalog.alter_table(
        name,
        [
            SchemaChange.add_column("n", AtomicType("INT"), "a number"),
            SchemaChange.update_column_type("n", AtomicType("BIGINT")),
            SchemaChange.update_column_nullability("n", True),
            SchemaChange.update_column_comment("n", "another number"),
            SchemaChange.rename_column("n", "m"),
            SchemaChange.add_column("dropped", AtomicType("INT")),
            SchemaChange.drop_column("dropped"),
            SchemaChange.set_option("a", "b"),
            SchemaChange.set_option("c", "d"),
            SchemaChange.remove_option("a"),
            SchemaChange.update_comment("new"),
        ],
    )
    table = catalog.get_table(name)
    (column,) = [field for field in table.fields if field.name == "m"]
    assert (str(column.type), column.description) == ("BIGINT", "another number")
    assert table.table_schema.comment == "new"
    assert (table.table_schema.options.get("a"), table.table_schema.options["c"]) == (None, "d")


def snapshots(catalog: Any) -> None:
    table = catalog.get_table(T)
    for first in (0, 4, 8):
        write(table, rows(*range(first, first + 4)))
    found = catalog.load_snapshot(T)
    assert (found.snapshot.id, found.record_count, found.file_count) == (3, 12, 6)
    assert found.file_size_in_bytes > 0
    system = catalog.get_table(f"{T}$snapshots")
    builder = system.new_read_builder()
    assert builder.new_read().to_arrow(builder.new_scan().plan().splits()).num_rows == 3
    catalog.create_tag(T, "two", 2, "1d")
    refused(errors.TagAlreadyExistException, lambda: catalog.create_tag(T, "two", 2))
    catalog.create_tag(T, "two", 2, ignore_if_exists=True)
    refused(Exception, lambda: catalog.create_tag(T, "ninth", 9))
    catalog.create_tag(T, "one", 1)
    assert catalog.get_tag(T, "two").tag_time_retained == "1d"
    assert all_pages(lambda **page: catalog.list_tags_paged(T, **page)) == ["one", "two"]
    refused(errors.TagNotExistException, lambda: catalog.get_tag(T, "none"))
    refused(errors.TagNotExistException, lambda: catalog.delete_tag(T, "none"))
    refused(Exception, lambda: catalog.rollback_to(T, Instant.snapshot(1), 2))
    refused(ValueError, lambda: catalog.rollback_to(T, Instant.snapshot(9)))
    refused(ValueError, lambda: catalog.rollback_to(T, Instant.tag("none")))
    catalog.rollback_to(T, Instant.tag("two"), 3)
    assert len(read(catalog.get_table(T))) == 8
    assert catalog.list_tags_paged(T).elements == ["one", "two"]


def branches(catalog: Any) -> None:
    catalog.create_branch(T, "empty")
    catalog.create_branch(T, "tagged", "two")
    refused(errors.BranchAlreadyExistException, lambda: catalog.create_branch(T, "empty"))
    refused(errors.TagNotExistException, lambda: catalog.create_branch(T, "x", "none"))
    refused(errors.BranchNotExistException, lambda: catalog.drop_branch(T, "none"))
    refused(errors.BranchNotExistException, lambda: catalog.rename_branch(T, "none", "x"))
    refused(errors.BranchAlreadyExistException, lambda: catalog.rename_branch(T, "empty", "tagged"))
    refused(errors.BranchNotExistException, lambda: catalog.fast_forward(T, "none"))
    assert read(catalog.get_table(f"{T}$branch_empty")) == []
    assert len(read(catalog.get_table(f"{T}$branch_tagged"))) == 8
    catalog.drop_branch(T, "empty")
    catalog.drop_branch(T, "tagged")
    assert catalog.list_branches(T) == []


def partitions(catalog: Any) -> None:
    catalog.create_partitions(T, [{"day": "x"}, {"day": "y"}])
    catalog.create_partitions(T, [{"day": "x"}], True)
    refused(errors.IllegalStateError, lambda: catalog.create_partitions(T, [{"day": "z"}, {"day": "x"}], False))
    refused(errors.IllegalArgumentError, lambda: catalog.create_partitions(T, [{"hour": "1"}]))
    names = [one.spec["day"] for one in all_pages(lambda **page: catalog.list_partitions_paged(T, **page))]
    assert names == ["d0", "d1", "x", "y"], names
    found = catalog.list_partitions_paged(T, partition_name_pattern="day=d%").elements
    assert [(one.spec["day"], one.record_count) for one in found] == [("d0", 4), ("d1", 4)]
    catalog.drop_partitions(T, [{"day": "d1"}])
    assert {row["day"] for row in read(catalog.get_table(T))} == {"d0"}


def consumers(catalog: Any) -> None:
    """A stream of this client's own, whose progress is a file beside the table."""
    table = catalog.get_table(T)
    table.consumer_manager().reset_consumer("mine", Consumer(next_snapshot=1))
    assert table.consumer_manager().consumers() == {"mine": 1}

    async def first_plan() -> Any:
        scan = table.new_stream_read_builder().with_consumer_id("mine").new_streaming_scan()
        async for plan in scan.stream():
            return plan
        return None

    plan = asyncio.run(asyncio.wait_for(first_plan(), 60))
    assert plan is not None
    assert plan.splits()


def functions(catalog: Any) -> None:
    name = Identifier.create("calls", "f")
    made = FunctionImpl(
        name,
        input_params=[DataField(0, "x", AtomicType("INT"))],
        return_params=[DataField(0, "y", AtomicType("INT"))],
        deterministic=True,
        definitions={
            "sql": FunctionDefinition.sql("x + 1"),
            "jar": FunctionDefinition.file([FunctionFileResource("jar", "/a.jar")], "JAVA", "A", "f"),
        },
        comment="said",
        options={"k": "v"},
    )
    catalog.create_function(name, made)
    refused(errors.FunctionAlreadyExistException, lambda: catalog.create_function(name, made))
    catalog.create_function(name, made, True)
    assert catalog.get_function("calls.f") == made
    catalog.create_function(
        "calls.g", FunctionImpl(Identifier.create("calls", "g"), definitions={"l": FunctionDefinition.lambda_def("x -> x", "JAVA")})
    )
    assert catalog.list_functions("calls") == ["f", "g"]
    assert all_pages(lambda **page: catalog.list_functions_paged("calls", **page)) == ["f", "g"]
    assert [one.name() for one in all_pages(lambda **page: catalog.list_function_details_paged("calls", **page))] == ["f", "g"]
    everywhere = all_pages(lambda **page: catalog.list_functions_paged_globally(database_name_pattern="calls", **page))
    assert [one.get_object_name() for one in everywhere] == ["f", "g"]
    catalog.alter_function(
        name,
        [
            FunctionChange.set_option("a", "b"), FunctionChange.remove_option("k"), FunctionChange.update_comment("new"),
            FunctionChange.add_definition("spark", FunctionDefinition.sql("x + 2")),
            FunctionChange.update_definition("sql", FunctionDefinition.sql("x + 3")), FunctionChange.drop_definition("jar"),
        ],
    )  # fmt: skip
    found = catalog.get_function(name)
    assert (found.options(), found.comment(), sorted(found.definitions())) == ({"a": "b"}, "new", ["spark", "sql"])
    add = FunctionChange.add_definition("sql", FunctionDefinition.sql("x"))
    refused(errors.DefinitionAlreadyExistException, lambda: catalog.alter_function(name, [add]))
    refused(errors.DefinitionNotExistException, lambda: catalog.alter_function(name, [FunctionChange.drop_definition("none")]))
    refused(errors.FunctionNotExistException, lambda: catalog.alter_function("calls.none", [FunctionChange.set_option("a", "b")]))
    refused(errors.FunctionNotExistException, lambda: catalog.get_function("calls.none"))
    refused(errors.FunctionNotExistException, lambda: catalog.drop_function("calls.none"))
    catalog.drop_function(name)
    catalog.drop_function("calls.none", True)


def rules(catalog: Any) -> None:
    found = catalog.auth_table_query(Identifier.from_string(T), ["id"])
    assert (found.filter, found.column_masking) == (None, None)
    refused(errors.TableNotExistException, lambda: catalog.auth_table_query(Identifier.from_string("calls.none")))
    assert catalog.supports_version_management()


def main(url: str) -> None:
    catalog = connect(url)
    for work in (databases, tables, schemas, snapshots, branches, partitions, consumers, functions, rules):
        work(catalog)
    refused(ValueError, lambda: catalog.drop_database("calls"))
    catalog.drop_database("calls", False, True)
    print("done")


if __name__ == "__main__":
    main(sys.argv[1])
