"""Flight SQL's protobuf messages, by field, in a descriptor pool of their own (`docs/decisions/libraries.md`).

They are declared in an edition of protobuf, which is the same on the wire, tells of every field whether it was there, and refuses text that
is not UTF-8; proto2 gives such text as bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.descriptor_pb2 import DescriptorProto, Edition, FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass

from model.errors import BadRequest

_SQL = "arrow.flight.protocol.sql"
_FLIGHT = "arrow.flight.protocol"
_KEYS = "catalog=1 string, db_schema=2 string, table=3 string"
_TRANSACTION = "query=1 string, transaction_id=2 bytes"
_HANDLE = "prepared_statement_handle=1 bytes"

# Enums are int32 here: the numbers are what travels.
_SQL_MESSAGES = {
    "CommandGetSqlInfo": "info=1 uint32[]",
    "CommandGetXdbcTypeInfo": "data_type=1 int32",
    "CommandGetCatalogs": "",
    "CommandGetDbSchemas": "catalog=1 string, db_schema_filter_pattern=2 string",
    "CommandGetTables": (
        "catalog=1 string, db_schema_filter_pattern=2 string, table_name_filter_pattern=3 string, table_types=4 string[], "
        "include_schema=5 bool"
    ),
    "CommandGetTableTypes": "",
    "CommandGetPrimaryKeys": _KEYS,
    "CommandGetExportedKeys": _KEYS,
    "CommandGetImportedKeys": _KEYS,
    "CommandGetCrossReference": (
        "pk_catalog=1 string, pk_db_schema=2 string, pk_table=3 string, fk_catalog=4 string, fk_db_schema=5 string, fk_table=6 string"
    ),
    "CommandStatementQuery": _TRANSACTION,
    "CommandStatementUpdate": _TRANSACTION,
    "TicketStatementQuery": "statement_handle=1 bytes",
    "CommandPreparedStatementQuery": _HANDLE,
    "CommandPreparedStatementUpdate": _HANDLE,
    "ActionCreatePreparedStatementRequest": _TRANSACTION,
    "ActionCreatePreparedStatementResult": f"{_HANDLE}, dataset_schema=2 bytes, parameter_schema=3 bytes, is_update=4 bool",
    "ActionClosePreparedStatementRequest": _HANDLE,
    "TableDefinitionOptions": "if_not_exist=1 int32, if_exists=2 int32",
    "CommandStatementIngest": (
        "table_definition_options=1 TableDefinitionOptions, table=2 string, schema=3 string, catalog=4 string, temporary=5 bool, "
        "transaction_id=6 bytes, options=1000 {string}"
    ),
    "DoPutUpdateResult": "record_count=1 int64",
    "DoPutPreparedStatementResult": _HANDLE,
    "ActionCancelQueryRequest": "info=1 bytes",
    "ActionCancelQueryResult": "result=1 int32",
}
_FLIGHT_MESSAGES = {
    "FlightDescriptor": "type=1 int32, cmd=2 bytes, path=3 string[]",
    "Ticket": "ticket=1 bytes",
    "FlightEndpoint": "ticket=1 Ticket",
    "FlightInfo": (
        "schema=1 bytes, flight_descriptor=2 FlightDescriptor, endpoint=3 FlightEndpoint[], total_records=4 int64, total_bytes=5 int64, "
        "app_metadata=7 bytes"
    ),
    "SchemaResult": "schema=1 bytes",
    "FlightData": "flight_descriptor=1 FlightDescriptor, data_header=2 bytes, app_metadata=3 bytes, data_body=1000 bytes",
    "PutResult": "app_metadata=1 bytes",
    "Action": "type=1 string, body=2 bytes",
    "Result": "body=1 bytes",
    "ActionType": "type=1 string, description=2 string",
    "StringListValue": "values=1 string[]",
    "SessionOptionValue": (
        "string_value=1 string, bool_value=2 bool, int64_value=3 sfixed64, double_value=4 double, string_list_value=5 StringListValue"
    ),
    "SetSessionOptionsRequest": "session_options=1 {SessionOptionValue}",
    "SessionOptionError": "value=1 int32",
    "SetSessionOptionsResult": "errors=1 {SessionOptionError}",
    "GetSessionOptionsRequest": "",
    "GetSessionOptionsResult": "session_options=1 {SessionOptionValue}",
    "CloseSessionRequest": "",
    "CloseSessionResult": "status=1 int32",
    "CancelFlightInfoRequest": "info=1 bytes",
    "CancelFlightInfoResult": "status=1 int32",
}


def _field(message: DescriptorProto, package: str, declared: str) -> None:
    """Add one field: ``name=number type``, ``type[]`` for a list, ``{type}`` for a map from strings."""
    name, _, rest = declared.partition("=")
    number, _, type_ = rest.partition(" ")
    field = message.field.add(name=name, number=int(number), label=FieldDescriptorProto.LABEL_OPTIONAL)
    if type_.endswith("[]"):
        field.label, type_ = FieldDescriptorProto.LABEL_REPEATED, type_.removesuffix("[]")
    if type_.startswith("{"):
        entry = message.nested_type.add(name="".join(part.title() for part in name.split("_")) + "Entry")
        entry.options.map_entry = True
        _field(entry, package, "key=1 string")
        _field(entry, package, f"value=2 {type_[1:-1]}")
        field.label, field.type = FieldDescriptorProto.LABEL_REPEATED, FieldDescriptorProto.TYPE_MESSAGE
        field.type_name = f".{package}.{message.name}.{entry.name}"
    elif type_[0].isupper():
        field.type, field.type_name = FieldDescriptorProto.TYPE_MESSAGE, f".{package}.{type_}"
    else:
        field.type = FieldDescriptorProto.Type.Value(f"TYPE_{type_.upper()}")


def _classes(package: str, declared: Mapping[str, str]) -> dict[str, type[Message]]:
    file = FileDescriptorProto(name=f"{package}.proto", package=package, syntax="editions", edition=Edition.EDITION_2023)
    for name, fields in declared.items():
        message = file.message_type.add(name=name)
        for field in filter(None, fields.split(", ")):
            _field(message, package, field)
    pool = DescriptorPool()
    pool.Add(file)
    return {name: GetMessageClass(pool.FindMessageTypeByName(f"{package}.{name}")) for name in declared}


_CLASSES = _classes(_SQL, _SQL_MESSAGES) | _classes(_FLIGHT, _FLIGHT_MESSAGES)


def message(name: str, **fields: object) -> Any:
    """A message of this name with these fields; what they are called is the protocol's to say, so it is untyped."""
    return _CLASSES[name](**fields)


def packed(name: str, **fields: object) -> bytes:
    """The message as Flight SQL sends it: inside an ``Any``."""
    wrapped = AnyMessage()
    wrapped.Pack(message(name, **fields))
    return wrapped.SerializeToString()


def unpacked(body: bytes) -> tuple[str, Any]:
    """The name of the message inside an ``Any``, and the message; raises `BadRequest` for what is none of Flight SQL's."""
    wrapped = AnyMessage()
    try:
        wrapped.ParseFromString(body)
    except DecodeError:
        raise BadRequest("This is no message of Flight SQL; the server takes the commands of that protocol only.") from None
    full = wrapped.type_url.rpartition("/")[2]
    package, _, name = full.rpartition(".")
    if package != _SQL or name not in _SQL_MESSAGES:
        raise BadRequest(f"The message {full or '(without a name)'} is not one this server takes.")
    return name, parsed(name, wrapped.value)


def parsed(name: str, body: bytes) -> Any:
    """A message of this name that travels as it is; raises `BadRequest`."""
    try:
        return _CLASSES[name].FromString(body)
    except DecodeError:
        raise BadRequest(f"The body is no {name} of Flight SQL.") from None
