"""A SQLAlchemy dialect over the DB-API driver: ``sluice://host:8083/database``, a token in the password's place."""

from __future__ import annotations

import re
from types import ModuleType
from typing import Any

from sqlalchemy import sql, types, util
from sqlalchemy.engine import URL, default, reflection
from sqlalchemy.exc import ArgumentError, NoSuchTableError, ProgrammingError
from sqlalchemy.sql import compiler

_ZONE = "table.local-time-zone"
_TYPE = re.compile(r"(?P<root>[A-Z_]+)(?:\((?P<numbers>[\d, ]+)\))?")
_TYPES: dict[str, type[types.TypeEngine[Any]]] = {
    "BOOLEAN": types.BOOLEAN,
    "TINYINT": types.SMALLINT,
    "SMALLINT": types.SMALLINT,
    "INT": types.INTEGER,
    "BIGINT": types.BIGINT,
    "FLOAT": types.FLOAT,
    "DOUBLE": types.DOUBLE,
    "DECIMAL": types.DECIMAL,
    "CHAR": types.CHAR,
    "VARCHAR": types.VARCHAR,
    "STRING": types.TEXT,
    "BINARY": types.LargeBinary,
    "VARBINARY": types.LargeBinary,
    "BYTES": types.LargeBinary,
    "DATE": types.DATE,
    "TIME": types.TIME,
    "TIMESTAMP": types.TIMESTAMP,
    "TIMESTAMP_LTZ": types.TIMESTAMP,
}


class _Names(compiler.IdentifierPreparer):
    """Names stand in backquotes."""

    def __init__(self, dialect: Any, **more: Any) -> None:
        super().__init__(dialect, initial_quote="`", final_quote="`", **more)


class _Types(compiler.GenericTypeCompiler):
    """Types as CREATE TABLE takes them."""

    def visit_VARCHAR(self, type_: Any, **kw: Any) -> str:  # noqa: N802 - SQLAlchemy's name
        return f"VARCHAR({type_.length})" if type_.length else "STRING"

    def visit_NVARCHAR(self, type_: Any, **kw: Any) -> str:  # noqa: N802
        return self.visit_VARCHAR(type_)

    def visit_TEXT(self, type_: Any, **kw: Any) -> str:  # noqa: N802
        return "STRING"

    def visit_CLOB(self, type_: Any, **kw: Any) -> str:  # noqa: N802
        return "STRING"

    def visit_BLOB(self, type_: Any, **kw: Any) -> str:  # noqa: N802
        return "BYTES"

    def visit_FLOAT(self, type_: Any, **kw: Any) -> str:  # noqa: N802
        return "FLOAT" if type_.precision is not None and type_.precision <= 24 else "DOUBLE"

    def visit_NUMERIC(self, type_: Any, **kw: Any) -> str:  # noqa: N802
        return f"DECIMAL({type_.precision or 38}, {type_.scale if type_.scale is not None else 18 if type_.precision is None else 0})"

    def visit_DECIMAL(self, type_: Any, **kw: Any) -> str:  # noqa: N802
        return self.visit_NUMERIC(type_)

    def visit_DATETIME(self, type_: Any, **kw: Any) -> str:  # noqa: N802
        return "TIMESTAMP_LTZ" if getattr(type_, "timezone", False) else "TIMESTAMP"

    def visit_TIMESTAMP(self, type_: Any, **kw: Any) -> str:  # noqa: N802
        return self.visit_DATETIME(type_)

    def visit_TIME(self, type_: Any, **kw: Any) -> str:  # noqa: N802
        return "TIME(3)"


class SluiceDialect(default.DefaultDialect):
    """What SQLAlchemy must know: backquotes, no transactions, no keys, and where names and columns are listed."""

    name = "sluice"
    driver = "http"
    default_paramstyle = "qmark"
    preparer: type[compiler.IdentifierPreparer] = _Names
    type_compiler_cls = _Types
    supports_statement_cache = True
    supports_native_boolean = True
    supports_native_decimal = True
    supports_multivalues_insert = True
    supports_default_values = False
    supports_sane_rowcount = True
    supports_sane_multi_rowcount = False
    supports_alter = False
    supports_sequences = False
    postfetch_lastrowid = False
    insert_returning = False
    max_identifier_length = 255

    @classmethod
    def import_dbapi(cls) -> ModuleType:
        import sluice.dbapi

        return sluice.dbapi

    def create_connect_args(self, url: URL) -> Any:
        """``sluice://[:token@]host:port/database[?secure=true&timeout=seconds&table.local-time-zone=…]``; raises `ArgumentError`."""
        query = dict(url.query)
        if several := [name for name, value in query.items() if not isinstance(value, str)]:
            raise ArgumentError(f"{several[0]} is given more than once in the URL.")
        secure = _secure(str(query.pop("secure", "false")))
        timeout = _seconds(str(query.pop("timeout"))) if "timeout" in query else None
        settings = {name: str(query.pop(name)) for name in sorted(query) if "." in name}
        if query:
            raise ArgumentError(f"The URL's {min(query)} is unknown here: there are secure, timeout, and session options such as {_ZONE}.")
        host = url.host or "127.0.0.1"
        address = f"{'https' if secure else 'http'}://{f'[{host}]' if ':' in host else host}:{url.port or 8083}"
        token = url.password or url.username
        return [address], {"token": token, "database": url.database, "timeout": timeout, "settings": settings}

    def do_execute(self, cursor: Any, statement: str, parameters: Any, context: Any = None) -> None:
        """Run a statement; what the server tells beside its rows is a Python warning, as most who use the dialect see no cursor."""
        cursor.execute(statement, parameters)
        _warn(cursor)

    def do_execute_no_params(self, cursor: Any, statement: str, context: Any = None) -> None:
        """The same without values."""
        cursor.execute(statement)
        _warn(cursor)

    def do_executemany(self, cursor: Any, statement: str, parameters: Any, context: Any = None) -> None:
        """The same for many values."""
        cursor.executemany(statement, parameters)
        _warn(cursor)

    def do_rollback(self, dbapi_connection: Any) -> None:
        """Statements have taken effect; SQLAlchemy asks for this whenever a connection goes back to its pool."""

    def do_ping(self, dbapi_connection: Any) -> bool:
        """Ask for something that needs no Spark."""
        dbapi_connection.execute("SHOW CURRENT DATABASE").close()
        return True

    def _get_default_schema_name(self, connection: Any) -> str:
        return str(connection.exec_driver_sql("SHOW CURRENT DATABASE").scalar())

    @reflection.cache
    def get_schema_names(self, connection: Any, **kw: Any) -> list[str]:
        """The databases."""
        return [row[0] for row in connection.exec_driver_sql("SHOW DATABASES")]

    @reflection.cache
    def get_table_names(self, connection: Any, schema: str | None = None, **kw: Any) -> list[str]:
        """The tables of a database that are no views."""
        views = set(self.get_view_names(connection, schema, **kw))
        return [name for name in self._listed(connection, "TABLES", schema) if name not in views]

    @reflection.cache
    def get_view_names(self, connection: Any, schema: str | None = None, **kw: Any) -> list[str]:
        """The views of a database."""
        return self._listed(connection, "VIEWS", schema)

    def _listed(self, connection: Any, what: str, schema: str | None) -> list[str]:
        place = f" FROM {self.identifier_preparer.quote_identifier(schema)}" if schema else ""
        return [row[0] for row in connection.exec_driver_sql(f"SHOW {what}{place}")]

    def has_table(self, connection: Any, table_name: str, schema: str | None = None, **kw: Any) -> bool:
        """Whether a table or view of that name is there; False also where the database is not."""
        try:
            return table_name in self._listed(connection, "TABLES", schema) or table_name in self._listed(connection, "VIEWS", schema)
        except ProgrammingError as problem:
            if getattr(problem.orig, "error_class", None) == "DatabaseNotExist":
                return False
            raise

    @reflection.cache
    def get_columns(self, connection: Any, table_name: str, schema: str | None = None, **kw: Any) -> Any:
        """The columns with their types; raises `NoSuchTableError`."""
        quote = self.identifier_preparer.quote_identifier
        name = ".".join(quote(part) for part in (schema, table_name) if part)
        try:
            rows = connection.exec_driver_sql(f"DESCRIBE {name}").mappings().all()
        except ProgrammingError as problem:
            raise NoSuchTableError(table_name) from problem
        return [{"name": row["name"], "type": type_of(row["type"]), "nullable": bool(row["null"]), "default": None} for row in rows]

    def get_pk_constraint(self, connection: Any, table_name: str, schema: str | None = None, **kw: Any) -> Any:
        """None: tables of rows that are only added have no keys."""
        return {"constrained_columns": [], "name": None}

    def get_foreign_keys(self, connection: Any, table_name: str, schema: str | None = None, **kw: Any) -> list[Any]:
        """None."""
        return []

    def get_indexes(self, connection: Any, table_name: str, schema: str | None = None, **kw: Any) -> list[Any]:
        """None that could be named; files have their own."""
        return []

    def get_unique_constraints(self, connection: Any, table_name: str, schema: str | None = None, **kw: Any) -> list[Any]:
        """None."""
        return []


def _warn(cursor: Any) -> None:
    for _, message in cursor.messages:
        util.warn(str(message))


def _secure(value: str) -> bool:
    if value.lower() not in ("true", "1", "false", "0"):
        raise ArgumentError(f"The URL's secure is true or false, and not {value!r}.")
    return value.lower() in ("true", "1")


def _seconds(value: str) -> float:
    try:
        seconds = float(value)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise ArgumentError(f"The URL's timeout is a number of seconds, and not {value!r}.")
    return seconds


def type_of(spelled: str) -> Any:
    """SQLAlchemy's type for a column's; what it has none for comes as it is."""
    match = _TYPE.match(spelled.upper())
    kind = _TYPES.get(match["root"]) if match is not None else None
    if match is None or kind is None:
        return sql.sqltypes.NullType()
    numbers = [int(part) for part in (match["numbers"] or "").split(",") if part.strip()]
    if kind is types.TIMESTAMP:
        return types.TIMESTAMP(timezone=match["root"].endswith("LTZ") or "LOCAL TIME ZONE" in spelled.upper())
    sized: Any = kind
    return sized(*numbers) if kind in (types.DECIMAL, types.CHAR, types.VARCHAR) else sized()
