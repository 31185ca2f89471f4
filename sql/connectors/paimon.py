"""``'connector' = 'paimon'``: a table of another REST catalog, of another Sluice server or any other."""

from __future__ import annotations

from model.errors import Forbidden, InvalidOption, InvalidSchema
from model.options.option import Option, optional, text
from model.options.table import stream_options
from sql.connectors.base import Bound, Connector, ConnectorScope, ConnectorTable, options_of

PAIMON_OPTIONS = options_of("paimon", "A table of another Paimon REST catalog, one of those `SLUICE_REMOTE_CATALOGS` names.")
URI = PAIMON_OPTIONS.declare(Option("uri", text(), "", "The catalog's address, such as `http://other:8083`."))
TOKEN = PAIMON_OPTIONS.declare(Option("token", optional(text()), None, "The token to call it with."))
TABLE = PAIMON_OPTIONS.declare(Option("table", text(), "", "The table there, `database.table`."))
PAIMON_OPTIONS.family(
    r"(scan|incremental|consumer|streaming|continuous)[-.].+",
    Option("scan.…, consumer-…", text(), "", "Where reading begins, as in hints of the catalog's own tables.", per_query=True),
)
_OWN = frozenset({"connector", URI.key, TOKEN.key, TABLE.key})


class Paimon(Connector):
    """Reads and follows a table elsewhere."""

    name = "paimon"
    options = PAIMON_OPTIONS

    def check(self, table: ConnectorTable, scope: ConnectorScope) -> None:
        """Raise `Forbidden` for a catalog that is not trusted: it says where files lie, and the server's rights read them."""
        uri = URI.read(table.options).rstrip("/")
        if not uri or TABLE.read(table.options).count(".") != 1:
            raise InvalidOption("Connector paimon needs 'uri', the other catalog's address, and 'table', as 'database.table'.")
        if uri not in {trusted.rstrip("/") for trusted in scope.remote_catalogs}:
            known = ", ".join(scope.remote_catalogs) or "none: SLUICE_REMOTE_CATALOGS is empty"
            raise Forbidden(f"Option 'uri' = '{uri}' is not allowed: the catalogs that may be read are {known}.")
        if table.columns:
            raise InvalidSchema("A table of connector paimon has the columns of the table it stands for; leave the column list out.")
        stream_options({}, scan_options(table))

    def bound(self, table: ConnectorTable) -> Bound:
        """It has no end."""
        return Bound.NEVER


def scan_options(table: ConnectorTable) -> dict[str, str]:
    """The options that say where reading begins."""
    return {key: value for key, value in table.options.items() if key not in _OWN}
