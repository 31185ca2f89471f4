"""Options that name a part of a file's name or a directory inside a table's."""

from __future__ import annotations

from model.errors import InvalidName
from model.location import is_plain_name
from model.names import check_name
from model.options.option import Parser

_MOST_PREFIX = 100
"""Bytes of a prefix; what follows it in a file's name needs bytes, too."""


def name_part() -> Parser[str]:
    """What a file's name begins with."""

    def parse(raw: str) -> str:
        if raw and not (len(raw.encode("utf-8", "replace")) <= _MOST_PREFIX and is_plain_name(f"{raw}x")):
            raise ValueError(f"the beginning of a file's name is expected: no separators, at most {_MOST_PREFIX} bytes")
        return raw

    return Parser("text", parse, in_path=True)


def object_name(made: str | None = None) -> Parser[str]:
    """The name of a tag, a branch or a consumer, which is a part of its file's.

    ``made``: what the server makes under this name by itself, as "tag"; no name that such a thing may not have is stored then.
    """

    def parse(raw: str) -> str:
        if raw and not is_plain_name(raw):
            raise ValueError("a name is expected: no separators or control characters, neither '.' nor '..', at most 255 bytes")
        return raw

    def judge(raw: str) -> None:
        if not raw:
            raise ValueError("a name is expected, which is not empty")
        if made is not None:
            try:
                check_name(raw, made)
            except InvalidName as problem:
                raise ValueError(problem.message.rstrip(".")) from None

    return Parser("text", parse, in_path=True, judge=judge)


def inner_directory() -> Parser[str]:
    """A directory below a table's own."""

    def parse(raw: str) -> str:
        names = raw.strip("/").split("/")
        if raw and not all(map(is_plain_name, names)):
            raise ValueError("a directory inside the table's is expected: names parted by '/', none of them '.' or '..'")
        return raw

    return Parser("text", parse, in_path=True)
