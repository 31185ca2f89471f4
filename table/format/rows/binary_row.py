"""Paimon's row bytes: what partitions, statistics and bucket hashes are made of (`paimon-append.md` §4.4–4.5).

Values are Python's: bool, int, float, Decimal, str, bytes, date, int milliseconds of the day for TIME, datetime; see `moments` for days and
times that Python has not.
"""

from __future__ import annotations

import datetime as dt
import struct
from collections.abc import Sequence
from decimal import Context, Decimal

from model.schema.types import DataType, DecimalType, LocalZonedTimestampType, TimestampType
from table.format.rows.moments import EPOCH_DAY as EPOCH_DAY
from table.format.rows.moments import PaimonTime, Time, date_of, days_of, nanos_of, time_of
from table.format.rows.moments import epoch_micros as epoch_micros

_INTEGERS = {"TINYINT": "<b", "SMALLINT": "<h", "INT": "<i", "BIGINT": "<q", "TIME": "<i"}
_IN_SLOT = frozenset({*_INTEGERS, "BOOLEAN", "DATE", "FLOAT", "DOUBLE"})
_ZERO_SLOT = bytes(8)
_RESERVED_DECIMAL = 16
_LAST_KIND = 3
"""Of Paimon's kinds of rows: +I, -U, +U, -D."""
WIDE = Context(prec=76)
"""Python's default context would round a DECIMAL(38) to 28 digits."""


def header_size(arity: int) -> int:
    """Bytes of the row kind and the null bits."""
    return ((arity + 63 + 8) // 64) * 8


def encode(types: Sequence[DataType], values: Sequence[object]) -> bytes:
    """The row's bytes without arity prefix, exactly as Java writes them (hashing depends on every byte)."""
    arity = len(types)
    head = bytearray(header_size(arity))
    slots = bytearray()
    variable = bytearray()
    start = len(head) + 8 * arity
    for index, (type_, value) in enumerate(zip(types, values, strict=True)):
        if value is None:
            bit = 8 + index
            head[bit // 8] |= 1 << (bit % 8)
            slots += _null_slot(type_, start, variable)
        else:
            slots += _slot(type_, value, start, variable)
    return bytes(head + slots + variable)


def with_arity(arity: int, row: bytes) -> bytes:
    """The row behind its big-endian arity, as manifests hold it."""
    return struct.pack(">i", arity) + row


def encode_prefixed(types: Sequence[DataType], values: Sequence[object]) -> bytes:
    """The row as manifests hold it."""
    return with_arity(len(types), encode(types, values))


def compact(type_: DataType) -> bool:
    """Whether a DECIMAL or TIMESTAMP fits its slot; others answer True."""
    match type_:
        case DecimalType(precision=precision):
            return precision <= 18
        case TimestampType(precision=precision) | LocalZonedTimestampType(precision=precision):
            return precision <= 3
    return True


def _null_slot(type_: DataType, start: int, variable: bytearray) -> bytes:
    """Java keeps the slot of a NULL decimal or timestamp that does not fit its slot."""
    if compact(type_):
        return _ZERO_SLOT
    offset = start + len(variable)
    variable += bytes(_RESERVED_DECIMAL if isinstance(type_, DecimalType) else 8)
    return struct.pack("<II", 0, offset)


def _slot(type_: DataType, value: object, start: int, variable: bytearray) -> bytes:
    root = type_.root
    if isinstance(type_, TimestampType | LocalZonedTimestampType):
        assert isinstance(value, dt.datetime | PaimonTime)
        return _timestamp_slot(value, compact(type_), start, variable)
    if isinstance(type_, DecimalType):
        assert isinstance(value, Decimal)
        return _decimal_slot(int(WIDE.scaleb(value, type_.scale)), compact(type_), start, variable)
    if root in _INTEGERS:
        return struct.pack(_INTEGERS[root], value).ljust(8, b"\0")
    if root == "BOOLEAN":
        return b"\1" + bytes(7) if value else _ZERO_SLOT
    if root == "DATE":
        assert isinstance(value, dt.date | int)
        return struct.pack("<i", days_of(value)).ljust(8, b"\0")
    if root == "FLOAT":
        return struct.pack("<f", value).ljust(8, b"\0")
    if root == "DOUBLE":
        return struct.pack("<d", value)
    data = value.encode() if isinstance(value, str) else bytes(value)  # type: ignore[call-overload]
    return _bytes_slot(data, start, variable)


def _bytes_slot(data: bytes, start: int, variable: bytearray) -> bytes:
    if len(data) <= 7:
        return data.ljust(7, b"\0") + bytes((0x80 | len(data),))
    offset = start + len(variable)
    variable += data.ljust((len(data) + 7) // 8 * 8, b"\0")
    return struct.pack("<II", len(data), offset)


def _decimal_slot(unscaled: int, fits: bool, start: int, variable: bytearray) -> bytes:
    if fits:
        return struct.pack("<q", unscaled)
    data = minimal_bytes(unscaled)
    offset = start + len(variable)
    variable += data.ljust(_RESERVED_DECIMAL, b"\0")
    return struct.pack("<II", len(data), offset)


def minimal_bytes(number: int) -> bytes:
    """The shortest big-endian two's complement, as Java's BigInteger gives it."""
    length = ((number if number >= 0 else ~number).bit_length() // 8) + 1
    return number.to_bytes(length, "big", signed=True)


def _timestamp_slot(value: Time, fits: bool, start: int, variable: bytearray) -> bytes:
    micros = epoch_micros(value)
    millis, rest = divmod(micros, 1000)
    if fits:
        return struct.pack("<q", millis)
    offset = start + len(variable)
    variable += struct.pack("<q", millis)
    return struct.pack("<II", rest * 1000 + nanos_of(value), offset)


def decode(types: Sequence[DataType], prefixed: bytes) -> tuple[object, ...]:
    """The values of a row with arity prefix; the types give its meaning. Raises `ValueError` for bytes that are no such row."""
    try:
        return _decoded(types, prefixed)
    except (struct.error, IndexError, ArithmeticError) as problem:  # clients write them past the server, too
        raise ValueError(f"{len(prefixed)} bytes are no row of {len(types)} fields: {problem}") from None


def nulls(prefixed: bytes) -> list[bool]:
    """Which fields of a row with arity prefix are NULL. Raises `ValueError` for bytes that are no such row."""
    try:
        (arity,) = struct.unpack_from(">i", prefixed)
        return [bool(prefixed[4 + (8 + index) // 8] >> (8 + index) % 8 & 1) for index in range(arity)]
    except (struct.error, IndexError) as problem:
        raise ValueError(f"{len(prefixed)} bytes are no row: {problem}") from None


def fault_of(prefixed: bytes, types: Sequence[DataType] | None) -> str | None:
    """What keeps a reader from decoding bytes as a row with arity prefix: of these types, or of any where they are not known."""
    if len(prefixed) < 4:
        return f"{len(prefixed)} bytes"
    (arity,) = struct.unpack_from(">i", prefixed)
    if arity < 0 or (types is not None and arity != len(types)):
        return f"a row of {arity} fields" + ("" if types is None else f" for {len(types)} columns")
    base, row = header_size(arity), memoryview(prefixed)[4:]
    if len(row) < base + 8 * arity:
        return f"{len(prefixed)} bytes for {arity} fields, which take {4 + base + 8 * arity}"
    if row[0] > _LAST_KIND:
        return f"a row of kind {row[0]}"
    for index, type_ in enumerate(types or ()):
        bit = 8 + index
        if not row[bit // 8] >> (bit % 8) & 1 and _end_of(type_, row, base + 8 * index) > len(row):
            return f"field {index} lies beyond its end"
    return None


def _end_of(type_: DataType, row: memoryview, at: int) -> int:
    """Where the bytes end to which the slot of a field leads; 0 where it holds the value itself.

    As pypaimon up to 1.4 writes a TIMESTAMP and a DECIMAL of any precision, which Java's readers take for a place.
    """
    if isinstance(type_, TimestampType | LocalZonedTimestampType | DecimalType) or type_.root in _IN_SLOT or row[at + 7] & 0x80:
        return 0
    length, offset = struct.unpack_from("<II", row, at)
    return int(length + offset)


def _decoded(types: Sequence[DataType], prefixed: bytes) -> tuple[object, ...]:
    (arity,) = struct.unpack_from(">i", prefixed)
    if arity != len(types):
        raise ValueError(f"a row of {arity} fields cannot be read as {len(types)}")
    row = memoryview(prefixed)[4:]
    base = header_size(arity)
    values: list[object] = []
    for index, type_ in enumerate(types):
        bit = 8 + index
        if row[bit // 8] >> (bit % 8) & 1:
            values.append(None)
        else:
            values.append(_read(type_, row, base + 8 * index))
    return tuple(values)


def _read(type_: DataType, row: memoryview, at: int) -> object:
    root = type_.root
    if isinstance(type_, TimestampType | LocalZonedTimestampType):
        return _read_timestamp(type_, row, at)
    if isinstance(type_, DecimalType):
        if compact(type_):
            unscaled = struct.unpack_from("<q", row, at)[0]
        else:
            length, offset = struct.unpack_from("<II", row, at)
            unscaled = int.from_bytes(row[offset : offset + length], "big", signed=True)
        return WIDE.scaleb(Decimal(unscaled), -type_.scale)
    if root in _INTEGERS:
        return struct.unpack_from(_INTEGERS[root], row, at)[0]
    if root == "BOOLEAN":
        return row[at] != 0
    if root == "DATE":
        return date_of(struct.unpack_from("<i", row, at)[0])
    if root == "FLOAT":
        return struct.unpack_from("<f", row, at)[0]
    if root == "DOUBLE":
        return struct.unpack_from("<d", row, at)[0]
    data = _read_bytes(row, at)
    return data.decode() if root in ("CHAR", "VARCHAR") else data


def _read_bytes(row: memoryview, at: int) -> bytes:
    mark = row[at + 7]
    if mark & 0x80:
        return bytes(row[at : at + (mark & 0x7F)])
    length, offset = struct.unpack_from("<II", row, at)
    return bytes(row[offset : offset + length])


def _read_timestamp(type_: TimestampType | LocalZonedTimestampType, row: memoryview, at: int) -> Time:
    nanos, offset = (0, at) if compact(type_) else struct.unpack_from("<II", row, at)
    micros = struct.unpack_from("<q", row, offset)[0] * 1000 + nanos // 1000
    return time_of(micros, zoned=isinstance(type_, LocalZonedTimestampType), nanos=nanos % 1000)
