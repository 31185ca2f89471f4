"""How long the names and options may be that a catalog keeps and shows to everybody."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from model.errors import InvalidName, InvalidOption
from model.schema.type_parts import walk
from model.schema.types import Field, RowType

MOST_NAME_BYTES = 255
"""Of a column, or a field inside one."""
MOST_KEY_BYTES = 255
MOST_VALUE_BYTES = 128 << 10
"""Of an option: longer ones are files, and belong there."""
MOST_SNAPSHOT_BYTES = 128 << 10
"""Of a snapshot as JSON, its properties included."""
_SHOWN = 60


class Columns(Protocol):
    """What of a schema has a length."""

    @property
    def fields(self) -> Sequence[Field]: ...

    @property
    def options(self) -> Mapping[str, str]: ...


def check_lengths(new: Columns, old: Columns | None = None) -> None:
    """Raise `InvalidName` or `InvalidOption` for what is too long; what an old version has stays allowed."""
    before = set() if old is None else set(_names(old.fields))
    for name in _names(new.fields):
        size = len(name.encode(errors="replace"))
        if size > MOST_NAME_BYTES and name not in before:
            raise InvalidName(f"The column name {name[:_SHOWN]!r}… is {size} bytes long; at most {MOST_NAME_BYTES} fit.")
    had = {} if old is None else old.options
    check_option_lengths({key: value for key, value in new.options.items() if had.get(key) != value})


def check_option_lengths(options: Mapping[str, str]) -> None:
    """Raise `InvalidOption` for a key or value that is too long."""
    for key, value in options.items():
        for what, text, most in (("key", key, MOST_KEY_BYTES), ("value", value, MOST_VALUE_BYTES)):
            if (size := len(text.encode(errors="replace"))) > most:
                raise InvalidOption(f"Option '{key[:_SHOWN]}': its {what} is {size} bytes long; at most {most} fit.")


def _names(fields: Iterable[Field]) -> Iterable[str]:
    for field in fields:
        yield field.name
        for part in walk(field.type):
            if isinstance(part, RowType):
                yield from (inner.name for inner in part.fields)
