"""Arrow data from outside, judged in full: the one place that everything decoded from a client's bytes passes before it is looked at.

A batch whose offsets, indices or sizes point past its buffers makes Arrow read other memory of the process, and even asking how large
it is follows its offsets.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa

from model.errors import InvalidData, UnsupportedType

_PLAIN = (
    "is_null", "is_boolean", "is_integer", "is_floating", "is_decimal", "is_date", "is_time", "is_timestamp", "is_string",
    "is_large_string", "is_string_view", "is_binary", "is_large_binary", "is_binary_view", "is_fixed_size_binary",
)  # fmt: skip
_NESTED = ("is_list", "is_large_list", "is_fixed_size_list", "is_list_view", "is_large_list_view", "is_struct", "is_map")

_MOST_VIEWED = 2 << 30
"""Arrow's text has no more in one column."""
_VIEW_BYTES = 16


def check_schema(schema: pa.Schema) -> None:
    """Raise `UnsupportedType` naming the first column whose type is not one that is read here; `InvalidData` for a name that is no text."""
    check_names(schema)
    for field in schema:
        check_type(field.name, field.type)


def check_names(fields: Iterable[pa.Field]) -> None:
    """Raise `InvalidData` where the name of a column, or of a field inside one, is not UTF-8."""
    for field in fields:
        try:
            _ = field.name
        except UnicodeDecodeError as problem:
            name = problem.object[:80].decode(errors="backslashreplace")
            raise InvalidData(f"The rows cannot be read: the name '{name}' of a column is not UTF-8.") from None
        inside = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
        check_names(inside.field(number) for number in range(inside.num_fields))


def check_type(name: str, type_: pa.DataType) -> None:
    """Raise `UnsupportedType` where a column's type, or one inside it, is not one that is read here."""
    if isinstance(type_, pa.BaseExtensionType):
        raise UnsupportedType(f"Column {name}: the extension type {type_} is not read here; send its values as {type_.storage_type}.")
    if pa.types.is_dictionary(type_):
        check_type(name, type_.value_type)
    elif _is_one_of(type_, _NESTED):
        for number in range(type_.num_fields):
            check_type(name, type_.field(number).type)
    elif not _is_one_of(type_, _PLAIN):
        raise UnsupportedType(f"Column {name}: the Arrow type {type_} is not read here; send values of the column's own type.")
    if pa.types.is_decimal(type_) and not 0 <= type_.scale <= type_.precision:  # Arrow's casts to and from such types end the process
        raise UnsupportedType(f"Column {name}: {type_} is not read here; a decimal's scale lies between 0 and its precision.")


def validated(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch itself, once nothing in it points outside its buffers and all text is UTF-8; raises `InvalidData` or `UnsupportedType`."""
    check_schema(batch.schema)
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        try:
            column.validate()  # lengths and sizes alone: asking a ROW whose length is negative for its parts ends the process
            if _viewed_bytes(column) > _MOST_VIEWED:
                raise InvalidData(f"Column {name} ({column.type}) shows more than {_MOST_VIEWED >> 30} GB in one batch; send smaller ones.")
            column.validate(full=True)
        except MemoryError:
            raise
        except (pa.ArrowException, OSError) as problem:
            raise InvalidData(f"Column {name} ({column.type}) is damaged: {problem}") from None
    try:
        batch.validate(full=True)
    except (pa.ArrowException, OSError) as problem:
        raise InvalidData(f"The rows are damaged: {problem}") from None
    return batch


def _viewed_bytes(array: pa.Array) -> int:
    """How many bytes all views in an array show; they may overlap, so that a small batch takes hours to look at."""
    types, type_ = pa.types, array.type
    if types.is_string_view(type_) or types.is_binary_view(type_):
        views = array.buffers()[1]
        if views is None:
            return 0
        sizes = np.frombuffer(views, np.int32, count=views.size // _VIEW_BYTES * 4)[::4]
        return int(np.clip(sizes, 0, None).sum(dtype=np.int64))
    if types.is_dictionary(type_):
        return _viewed_bytes(array.dictionary)
    if types.is_struct(type_):
        return sum(_viewed_bytes(array.field(number)) for number in range(type_.num_fields))
    if types.is_map(type_):
        return _viewed_bytes(array.keys) + _viewed_bytes(array.items)
    return _viewed_bytes(array.values) if _is_one_of(type_, _NESTED) else 0


def _is_one_of(type_: pa.DataType, tests: tuple[str, ...]) -> bool:
    return any(getattr(pa.types, test)(type_) for test in tests)
