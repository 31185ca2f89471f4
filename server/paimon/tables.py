"""Tables of the protocol."""

from __future__ import annotations

from functools import partial
from uuid import UUID

from catalog.records import TableRow
from model.catalog_errors import MetadataOnlyTable
from model.errors import BadRequest, TableNotExist
from model.identifier import Identifier
from model.options.rules import check_contradictions
from model.schema.change import RemoveOption, SetOption
from model.schema.schema import Schema, other_kind
from server.access.audit import tell
from server.paimon.messages.changes import schema_changes
from server.paimon.messages.schemas import check_harmless, check_options, schema_of
from server.paimon.messages.wire import identifier_of, object_name, table_json
from server.paimon.paging import one_more, page, pages_everywhere, slice_of
from server.paimon.routes import argument, body, lake, route
from server.process.services import services
from server.sql.bodies import member
from sql.connectors.base import ConnectorScope
from sql.connectors.stored import EXTRA, KIND, check_kept, is_connector_table


def _told(row: TableRow) -> dict[str, object]:
    """A table as clients load it.

    Java's know no table with a connector, and one in a list ends the whole list; pypaimon would take it for an empty table and write to it.
    """
    if row.schema["options"].get("type") == KIND:
        raise MetadataOnlyTable(f"{row.database}.{row.name}", KIND)
    return table_json(row, allowed=lake().allowed_locations(row), rules_bind=lake().rules_bind(row))


@route("GET", "databases/{}/tables")
def list_tables(database: str) -> object:
    """Names, in pages."""
    wanted = slice_of("tableNamePattern")
    return page("tables", lake().list_tables(database, one_more(wanted), type_=argument("tableType"), but_type=KIND), wanted, str, str)


@route("GET", "databases/{}/table-details")
def list_table_details(database: str) -> object:
    """Whole tables, in pages."""
    wanted = slice_of("tableNamePattern")
    rows = lake().describe_all(database, one_more(wanted), type_=argument("tableType"), but_type=KIND)
    return page("tableDetails", rows, wanted, lambda row: row.name, _told)


@route("GET", "tables")
def list_tables_everywhere() -> object:
    """Names over all databases, in pages."""
    return pages_everywhere("tables", "tableNamePattern", partial(lake().tables_everywhere, but_type=KIND))


@route("GET", "tables/id/{}")
def get_table_by_id(table_id: str) -> object:
    """One by its id."""
    try:
        return _told(lake().describe_id(UUID(table_id)))
    except ValueError:
        raise TableNotExist(table_id) from None


@route("POST", "databases/{}/tables")
def create_table(database: str) -> None:
    """Add one; the database of the path is the one that counts."""
    sent = body()
    table = Identifier(database, identifier_of(member(sent, "identifier", dict, required=True), database=database).table)
    schema, path = schema_of(member(sent, "schema", dict, required=True))
    lake().create_table(table, schema, path=path)


@route("POST", "tables/rename")
def rename_table() -> None:
    """Give one another name."""
    sent = body()
    source = identifier_of(member(sent, "source", dict, required=True))
    destination = identifier_of(member(sent, "destination", dict, required=True))
    tell(f"{source.written()} RENAME TO {destination.written()}")
    lake().rename_table(source, destination)


@route("GET", "databases/{}/tables/{}")
def get_table(database: str, table: str) -> object:
    """One, or a branch of one under its whole name."""
    return _told(lake().describe(object_name(database, table)))


@route("POST", "databases/{}/tables/{}")
def alter_table(database: str, table: str) -> None:
    """Change it: all changes make one new schema, or none does."""
    changes = schema_changes(body())
    options = {change.key: change.value for change in changes if isinstance(change, SetOption)}
    keys = {change.key for change in changes if isinstance(change, SetOption | RemoveOption)}
    if EXTRA in keys:
        raise BadRequest(f"The option '{EXTRA}' is the server's own note of a table with a connector; it cannot change.")
    if keys & {"path", "type"}:
        raise BadRequest("The options 'path' and 'type' say where and what a table is; they cannot change.")
    name, here = object_name(database, table), lake()
    limits = services().gateway.limits
    scope = ConnectorScope(
        import_dirs=limits.import_dirs,
        refuse_guarded=here.refuse_guarded,
        remote_catalogs=limits.remote_catalogs,
        kafka_brokers=limits.kafka_brokers,
    )

    def check(new: Schema) -> None:
        if is_connector_table(new):
            check_kept(name, new, scope)
        else:
            check_harmless(options)
            check_options(options)
            if other_kind(new.options) is None:
                check_contradictions(new.options, keys)

    here.alter_table(name, changes, check=check)


@route("DELETE", "databases/{}/tables/{}")
def drop_table(database: str, table: str) -> None:
    """Remove it."""
    lake().drop_table(object_name(database, table))


@route("POST", "databases/{}/tables/{}/replace")
def replace_table(database: str, table: str) -> None:
    """Empty it and give it another schema, in one decision; its id and its past stay."""
    schema, path = schema_of(member(body(), "schema", dict, required=True))
    lake().replace_table(object_name(database, table), schema, path=path)
