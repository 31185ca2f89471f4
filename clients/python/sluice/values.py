"""Values on their way to the server, and the types of those that come back."""

from __future__ import annotations

import base64
import datetime as dt
import math
import time
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from sluice.errors import ProgrammingError

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Typed:
    """A value with its SQL type, for types Python has none for: ``Typed("ARRAY<INT>", [1, 2])``; spelled as results are in JSON."""

    type: str
    value: Any


class TypeObject:
    """PEP 249's type: equal to the type codes of a description that are of its kind."""

    def __init__(self, *roots: str) -> None:
        self._roots = frozenset(roots)

    def __eq__(self, other: object) -> bool:
        return other is self or (isinstance(other, str) and other.partition("(")[0].partition("<")[0] in self._roots)

    def __hash__(self) -> int:
        return hash(self._roots)


STRING = TypeObject("STRING")
BINARY = TypeObject("BYTES")
NUMBER = TypeObject("TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL")
DATETIME = TypeObject("DATE", "TIME", "TIMESTAMP", "TIMESTAMP_LTZ")
ROWID = TypeObject()

Date, Time, Timestamp, Binary = dt.date, dt.time, dt.datetime, bytes


def DateFromTicks(ticks: float) -> dt.date:  # noqa: N802 - PEP 249's name
    """The local date of a time in seconds since the epoch."""
    return dt.date(*time.localtime(ticks)[:3])


def TimeFromTicks(ticks: float) -> dt.time:  # noqa: N802 - PEP 249's name
    """The local time of day of a time in seconds since the epoch."""
    return dt.time(*time.localtime(ticks)[3:6])


def TimestampFromTicks(ticks: float) -> dt.datetime:  # noqa: N802 - PEP 249's name
    """The local date and time of a time in seconds since the epoch."""
    return dt.datetime(*time.localtime(ticks)[:6])


def plain(value: Any) -> Any:
    """A value of numpy or pandas as Python's own, what they have for a missing one as None; any other as it is."""
    kind = type(value)
    if kind.__module__ == "numpy":
        return _of_numpy(value)
    if kind.__module__.startswith("pandas."):
        if kind.__name__ in ("NaTType", "NAType"):
            return None
        if isinstance(value, dt.datetime) and hasattr(value, "to_pydatetime"):
            return value.to_pydatetime(warn=False)  # no column here has nanoseconds
    return value


def _of_numpy(value: Any) -> Any:
    """Of its times ``tolist`` makes numbers where they have nanoseconds."""
    name = str(getattr(value, "dtype", ""))
    if getattr(value, "shape", None) == () and name.startswith(("datetime64", "timedelta64")):
        days = name in ("datetime64[D]", "datetime64[W]", "datetime64[M]", "datetime64[Y]")
        made = value.astype(f"{name.partition('[')[0]}[{'D' if days else 'us'}]").tolist()
        if isinstance(made, int):
            raise ProgrammingError(f"{value} is no time of the years 1 to 9999.")
        return made
    return value.tolist()


def sent(value: Any) -> Any:
    """A Python value as a parameter of ``POST /sql``; raises `ProgrammingError` for one that has no type of its own."""
    value = plain(value)
    match value:
        case None | bool() | str():
            return value
        case Typed(type=type_, value=inner):
            return {"type": type_, "value": _spelled(inner)}
        case int():
            return value if -(1 << 63) <= value < 1 << 63 else {"type": "DECIMAL(38, 0)", "value": str(value)}
        case float():
            return value if math.isfinite(value) else {"type": "DOUBLE", "value": _spelled(value)}
        case Decimal():
            return _decimal(value)
        case bytes() | bytearray() | memoryview():
            return {"type": "BYTES", "value": base64.b64encode(bytes(value)).decode()}
        case dt.datetime():
            return {"type": "TIMESTAMP" if value.tzinfo is None else "TIMESTAMP_LTZ", "value": value.isoformat()}
        case dt.date():
            return {"type": "DATE", "value": value.isoformat()}
        case dt.time():
            return {"type": "TIME(3)", "value": value.isoformat()}
    raise ProgrammingError(f'A value of type {type(value).__name__} needs its SQL type: sluice.Typed("ARRAY<INT>", [1, 2]).')


def _spelled(value: Any) -> Any:
    """What stands inside of a `Typed`, with the numbers JSON has none for as text."""
    match value:
        case float() if not math.isfinite(value):
            return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        case list() | tuple():
            return [_spelled(part) for part in value]
        case dict():
            return {key: _spelled(part) for key, part in value.items()}
    return value


def _decimal(value: Decimal) -> Any:
    if not value.is_finite():
        raise ProgrammingError(f"{value} is no DECIMAL.")
    _, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    scale = max(0, -exponent)
    precision = max(len(digits) + max(0, exponent), scale, 1)
    return {"type": f"DECIMAL({precision}, {scale})", "value": format(value, "f")}


def sql_type(type_: pa.DataType) -> str:
    """The SQL type of an Arrow column, as a description tells it."""
    import pyarrow as pa

    types = pa.types
    if types.is_decimal(type_):
        return f"DECIMAL({type_.precision},{type_.scale})"
    if types.is_timestamp(type_):
        precision = {"s": 0, "ms": 3, "us": 6, "ns": 9}[type_.unit]
        return f"TIMESTAMP{'_LTZ' if type_.tz else ''}({precision})"
    if types.is_list(type_):
        return f"ARRAY<{sql_type(type_.value_type)}>"
    if types.is_map(type_):
        return f"MAP<{sql_type(type_.key_type)}, {sql_type(type_.item_type)}>"
    if types.is_struct(type_):
        return f"ROW<{', '.join(f'{field.name} {sql_type(field.type)}' for field in type_)}>"
    if types.is_time(type_):
        return "TIME(3)"
    if types.is_duration(type_):
        return "INTERVAL DAY TO SECOND"
    return _NAMES.get(str(type_), str(type_).upper())


_NAMES = {
    "bool": "BOOLEAN", "int8": "TINYINT", "int16": "SMALLINT", "int32": "INT", "int64": "BIGINT", "float": "FLOAT", "double": "DOUBLE",
    "string": "STRING", "binary": "BYTES", "date32[day]": "DATE",
}  # fmt: skip
