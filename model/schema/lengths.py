"""How long the names, options and comments may be that a catalog keeps and shows to everybody."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from model.errors import BadRequest, InvalidName, InvalidOption, InvalidSchema
from model.schema.type_parts import walk
from model.schema.types import Field, RowType

MOST_NAME_BYTES = 255
"""Of a column, or a field inside one."""
MOST_COLUMNS = 10_000
"""Of a table, fields inside columns counted, and of a query."""
MOST_KEY_BYTES = 255
MOST_VALUE_BYTES = 128 << 10
"""Of an option: longer ones are files, and belong there."""
MOST_COMMENT_BYTES = 16 << 10
"""Of a table, a column, a field inside one, a database, a view or a function."""
MOST_SNAPSHOT_BYTES = 128 << 10
"""Of a snapshot as JSON, its properties included."""
_SHOWN = 60


class Described(Protocol):
    """What has a comment, and columns with comments of their own: a table's schema, a view."""

    @property
    def fields(self) -> Sequence[Field]: ...

    @property
    def comment(self) -> str | None: ...


class Columns(Described, Protocol):
    """What of a schema has a length."""

    @property
    def options(self) -> Mapping[str, str]: ...


def check_lengths(new: Columns, old: Columns | None = None) -> None:
    """Raise `InvalidName`, `InvalidOption` or `BadRequest` for what is too long, `InvalidSchema` for too many columns.

    What an old version has stays allowed.
    """
    names = [] if old is None else [field.name for field in _fields(old.fields)]
    count = sum(1 for _ in _fields(new.fields))
    if count > max(MOST_COLUMNS, len(names)):
        raise InvalidSchema(
            f"The schema has {count:,} columns and fields inside them; at most {MOST_COLUMNS:,} fit. Use a MAP or several tables."
        )
    before = set(names)
    for name in (field.name for field in _fields(new.fields)):
        size = len(name.encode(errors="replace"))
        if size > MOST_NAME_BYTES and name not in before:
            raise InvalidName(f"The column name {name[:_SHOWN]!r}… is {size} bytes long; at most {MOST_NAME_BYTES} fit.")
    had = {} if old is None else old.options
    check_option_lengths({key: value for key, value in new.options.items() if had.get(key) != value})
    check_comment_lengths(new, old)


def check_option_lengths(options: Mapping[str, str]) -> None:
    """Raise `InvalidOption` for a key or value that is too long."""
    for key, value in options.items():
        for what, text, most in (("key", key, MOST_KEY_BYTES), ("value", value, MOST_VALUE_BYTES)):
            if (size := len(text.encode(errors="replace"))) > most:
                raise InvalidOption(f"Option '{key[:_SHOWN]}': its {what} is {size} bytes long; at most {most} fit.")


def check_comment_lengths(new: Described, old: Described | None = None, *, what: str = "the table") -> None:
    """Raise `BadRequest` for a comment that is too long, of the thing or a column; what an old version has stays allowed."""
    before = set() if old is None else {old.comment, *(field.description for field in _fields(old.fields))}
    if new.comment not in before:
        check_comment(new.comment, what)
    for field in _fields(new.fields):
        if field.description not in before:
            check_comment(field.description, f"the column {field.name[:_SHOWN]} of {what}")


def check_comment(comment: str | None, what: str) -> None:
    """Raise `BadRequest` for a comment that is too long."""
    if comment is not None and (size := len(comment.encode(errors="replace"))) > MOST_COMMENT_BYTES:
        raise BadRequest(f"The comment of {what} is {size:,} bytes long; at most {MOST_COMMENT_BYTES:,} fit.")


def _fields(fields: Iterable[Field]) -> Iterable[Field]:
    for field in fields:
        yield field
        for part in walk(field.type):
            if isinstance(part, RowType):
                yield from part.fields
