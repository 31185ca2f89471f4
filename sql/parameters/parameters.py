"""Values sent beside a text for its placeholders, ``?`` by position or ``:name``; they become literals of its tree, never text."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Protocol

import pyarrow as pa
from sqlglot import exp

from model.errors import BadRequest, InvalidParameter, UnsupportedType
from model.schema.types import (
    ArrayType,
    BigIntType,
    BooleanType,
    DataType,
    DecimalType,
    DoubleType,
    IntType,
    MapType,
    NullType,
    RowType,
    VarCharType,
)
from sql.dialect import column_type, parse_one, split
from sql.parameters.placeholders import PARAMETER, Bound, Placeholder
from sql.parameters.texts import Misfit
from sql.parameters.values import MOST_DIGITS, literal, read_json
from sql.parsing.size import MOST_WORDS, check_values, check_words, values_in
from sql.parsing.turns import LONG, TURNS
from table.format.rows.arrow import arrow_type, data_type


@dataclass(frozen=True, slots=True)
class Parameter:
    """A typed value; of dates and times Python's own, of MAP a list of pairs, of ROW a tuple."""

    type: DataType
    value: Any

    def read(self) -> Parameter:
        """Itself: the value is known to fit its type."""
        return self

    def count(self) -> int:
        """How many values it holds."""
        return values_in(self.value)


@dataclass(frozen=True, slots=True)
class JsonParameter:
    """A value as it came in JSON, plain or ``{"type": …, "value": …}``; read when its placeholder is met, whose place errors tell."""

    given: Any

    def read(self) -> Parameter:
        """The typed value; raises `Misfit` or `UnsupportedType`."""
        if not isinstance(self.given, dict):
            return _plain(self.given)
        if set(self.given) != {"type", "value"} or not isinstance(self.given["type"], str):
            raise Misfit('a plain JSON value, or an object of "type" and "value" such as {"type": "DATE", "value": "2024-02-29"}')
        type_ = _named_type(self.given["type"])
        return Parameter(type_, read_json(type_, self.given["value"]))

    def count(self) -> int:
        """How many values it holds."""
        return values_in(self.given)


class Given(Protocol):
    """A value that may still have to be read."""

    def read(self) -> Parameter: ...

    def count(self) -> int: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters:
    """All values sent with a text: by position, or by name."""

    positional: Sequence[Given] = ()
    by_name: Mapping[str, Given] = field(default_factory=dict)

    @classmethod
    def from_json(cls, value: Any) -> Parameters:
        """Those of a list or an object; raises `BadRequest` for anything else."""
        if isinstance(value, list):
            return cls(positional=[JsonParameter(parameter) for parameter in value])
        if isinstance(value, dict):
            return cls(by_name={name: JsonParameter(parameter) for name, parameter in value.items()})
        raise BadRequest("'parameters' must be a list (for ?) or an object (for :name).")

    @classmethod
    def from_arrow(cls, batch: pa.RecordBatch, row: int, *, named: bool = False) -> Parameters:
        """Those of one row of a batch, by position or by the columns' names; raises `InvalidParameter` for values without literals."""
        parameters = [_of_arrow(name, column.slice(row, 1)) for name, column in zip(batch.schema.names, batch.columns, strict=True)]
        return cls(by_name=dict(zip(batch.schema.names, parameters, strict=True))) if named else cls(positional=parameters)

    def count(self) -> int:
        """How many values there are in all of them."""
        return sum(parameter.count() for parameter in (*self.positional, *self.by_name.values()))

    def spelled(self) -> bytes:
        """What tells these values from others: part of what an idempotency key stands for."""
        return repr((self.positional, sorted(self.by_name.items()))).encode()


NONE = Parameters()


class ParameterBinding:
    """The values of one statement's placeholders (`sql.parameters.placeholders.Binding`)."""

    def __init__(self, parameters: Parameters) -> None:
        self._parameters = parameters
        self.seen: dict[int, Placeholder] = {}

    def value(self, placeholder: Placeholder, text: str) -> Bound:
        self.seen[placeholder.start] = placeholder
        sent = self._find(placeholder)
        if sent is None:
            raise _at(placeholder, text, self._missing(placeholder))
        try:
            parameter = sent.read()
            tree = literal(parameter.type, parameter.value)
        except Misfit as problem:
            raise _at(placeholder, text, f"must be {problem}, not {_shown(sent)}.") from None
        except UnsupportedType as problem:
            raise _at(placeholder, text, f"has a type that will not do: {problem.message}") from None
        if isinstance(tree, exp.Cast | exp.TryCast) and parameter.value is None:
            tree.meta[PARAMETER] = True
        return Bound(tree, parameter.value)

    def _find(self, placeholder: Placeholder) -> Given | None:
        if placeholder.name is not None:
            return self._parameters.by_name.get(placeholder.name)
        assert placeholder.number is not None
        return self._parameters.positional[placeholder.number - 1] if placeholder.number <= len(self._parameters.positional) else None

    def _missing(self, placeholder: Placeholder) -> str:
        if placeholder.name is not None:
            names = ", ".join(self._parameters.by_name)
            sent = f"values were sent for {names}" if names else "no values were sent by name"
            return f'has no value: {sent}. Send "parameters": {{"{placeholder.name}": …}}.'
        return f'has no value: {len(self._parameters.positional)} sent by position. Send "parameters": […] with one value for each ?.'


def bind(texts: Sequence[str], parameters: Parameters, most_values: int = MOST_WORDS) -> list[exp.Expr]:
    """The trees of a text's statements with their values in place.

    Values by name are for all the statements, and each must be used by one; values by position go with a single statement.
    Raises `InvalidParameter`, with ``statement_index`` where there are several, and `StatementTooLarge` before anything runs.
    """
    check_values(count := parameters.count(), most_values)
    if parameters.positional and len(texts) > 1:
        raise InvalidParameter(
            f"Values by position go with one statement, and the text holds {len(texts)}; "
            "name them (:name) or send the statements one by one."
        )
    bindings = [ParameterBinding(parameters) for _ in texts]
    trees = []
    for index, (text, binding) in enumerate(zip(texts, bindings, strict=True)):
        try:
            with TURNS.reading(len(text) + count):
                trees.append(parse_one(text, binding))
        except InvalidParameter as error:
            error.statement_index = index if len(texts) > 1 else None
            raise
    seen = [placeholder for binding in bindings for placeholder in binding.seen.values()]
    _check_all_used(parameters, seen)
    return trees


def _check_all_used(parameters: Parameters, seen: Sequence[Placeholder]) -> None:
    marks = sum(1 for placeholder in seen if placeholder.name is None)
    if marks < len(parameters.positional):
        raise InvalidParameter(
            f"Of {len(parameters.positional)} values sent by position the text has placeholders (?) for {marks}; leave out the rest."
        )
    names = {placeholder.name for placeholder in seen}
    if left := [name for name in parameters.by_name if name not in names]:
        raise InvalidParameter(f"No :{left[0]} stands in the text; leave out the value or use it.")


class _Finding:
    """Takes NULL for every placeholder, and a text that is a number where one belongs, to learn which there are."""

    def __init__(self) -> None:
        self.seen: dict[int, Placeholder] = {}

    def value(self, placeholder: Placeholder, text: str) -> Bound:
        self.seen[placeholder.start] = placeholder
        return Bound(exp.Null(), "1")


def placeholders(text: str) -> list[Placeholder]:
    """The placeholders of a text, in order; raises what parsing it raises."""
    marks: list[Placeholder] = []
    for statement in split(text):
        finding = _Finding()
        parse_one(statement.text, finding)
        marks += [finding.seen[start] for start in sorted(finding.seen)]
    return marks


def _plain(value: Any) -> Parameter:
    match value:
        case None:
            return Parameter(NullType(), None)
        case bool():
            return Parameter(BooleanType(), value)
        case str():
            return Parameter(VarCharType(), read_json(VarCharType(), value))
        case int():
            return Parameter(_integer_type(value), value)
        case float():
            return Parameter(DoubleType(), value)
    raise Misfit('a string, a number, true, false or null; others tell their type: {"type": "ARRAY<INT>", "value": [1, 2]}')


def _integer_type(value: int) -> DataType:
    """INT where it fits, then BIGINT, then DECIMAL: what the number would be in the text."""
    if -(1 << 31) <= value < 1 << 31:
        return IntType()
    if -(1 << 63) <= value < 1 << 63:
        return BigIntType()
    if len(str(abs(value))) > MOST_DIGITS:
        raise Misfit(f"a number of at most {MOST_DIGITS} digits")
    return DecimalType(precision=len(str(abs(value))), scale=0)


def _named_type(spelled: str) -> DataType:
    if len(spelled) > LONG:
        check_words(spelled)
        return column_type(spelled)
    return _short_type(spelled)


@lru_cache(maxsize=1024)
def _short_type(spelled: str) -> DataType:
    return column_type(spelled)


def _of_arrow(name: str, column: pa.Array) -> Parameter:
    """The only value of a column, read through the type a table's column would have."""
    try:
        if pa.types.is_null(column.type):
            return Parameter(NullType(), None)
        if pa.types.is_dictionary(column.type):
            column = column.dictionary_decode()
        if (plainer := _plainer(column.type)) is not None:
            column = column.cast(plainer)
        type_ = data_type(column.type)
        _check_parts(type_)
        column = column.cast(arrow_type(type_))
        check_values(_values_of(column))
        return Parameter(type_, _from_arrow(type_, column[0].as_py()))
    except (pa.ArrowException, UnsupportedType) as problem:
        raise InvalidParameter(f"The value of parameter {name} ({column.type}) cannot be a literal: {problem}") from None
    except (OverflowError, ValueError):  # Python has no other days, alone or inside another value
        raise InvalidParameter(f"The value of parameter {name} ({column.type}) is, or holds, a time outside the years 1 to 9999.") from None


def _check_parts(type_: DataType) -> None:
    """Raise `UnsupportedType` for a ROW whose parts cannot be told apart, or that has none: neither has a literal."""
    match type_:
        case ArrayType(element=element):
            _check_parts(element)
        case MapType(key=key, value=item):
            _check_parts(key)
            _check_parts(item)
        case RowType(fields=fields):
            if not fields or len({field.name for field in fields}) < len(fields):
                raise UnsupportedType("a ROW has parts, each of a name of its own.")
            for field in fields:
                _check_parts(field.type)


def _values_of(array: pa.Array) -> int:
    """How many values an array holds, those inside others counted; as Python's own they take many times their bytes."""
    count, types = len(array), pa.types
    if not count:
        return 0
    if types.is_list(array.type) or types.is_map(array.type):
        begin, end = array.offsets[0].as_py(), array.offsets[-1].as_py()
        parts = [array.keys, array.items] if types.is_map(array.type) else [array.values]
        count += sum(_values_of(part.slice(begin, end - begin)) for part in parts)
    elif types.is_struct(array.type):
        count += sum(map(_values_of, array.flatten()))
    return count


def _plainer(type_: pa.DataType) -> pa.DataType | None:
    """The type columns have for the same values, where Arrow has several and ours is not the one."""
    types = pa.types
    if types.is_uint64(type_):
        return pa.decimal128(20, 0)
    if types.is_timestamp(type_) and type_.unit == "ns":
        return pa.timestamp("us", type_.tz)
    if types.is_float16(type_):
        return pa.float32()
    if types.is_string_view(type_):
        return pa.string()
    if types.is_binary_view(type_):
        return pa.binary()
    if types.is_decimal(type_) and not types.is_decimal128(type_):
        return pa.decimal128(min(type_.precision, MOST_DIGITS), type_.scale)
    return None


def _from_arrow(type_: DataType, value: Any) -> Any:
    """Arrow's Python value as ours: the fields of a ROW in their order."""
    if value is None:
        return None
    match type_:
        case ArrayType(element=element):
            return [_from_arrow(element, part) for part in value]
        case MapType(key=key, value=item):
            return [(_from_arrow(key, k), _from_arrow(item, v)) for k, v in value]
        case RowType(fields=fields):
            return tuple(_from_arrow(field.type, value[field.name]) for field in fields)
    return value


def _at(placeholder: Placeholder, text: str, message: str) -> InvalidParameter:
    before = text[: placeholder.start]
    line, column = before.count("\n") + 1, placeholder.start - (before.rfind("\n") + 1) + 1
    which = f"Parameter {placeholder.number} (?" if placeholder.name is None else f"Parameter :{placeholder.name} ("
    where = f"{which} at line {line}, column {column})".replace("( at", "(at")
    return InvalidParameter(f"{where} {message}", line=line, column=column, fragment=placeholder.written)


def _shown(parameter: Given) -> str:
    value = parameter.given if isinstance(parameter, JsonParameter) else parameter.read().value
    if isinstance(value, dict) and set(value) == {"type", "value"}:
        return f"{_short(value['value'])} as {value['type']}"
    return _short(value)


def _short(value: Any) -> str:
    spelled = json.dumps(value, default=str)
    return spelled if len(spelled) <= 60 else spelled[:57] + "…"
