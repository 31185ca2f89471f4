"""Lists in pages: how many, from where, and what continues them (`paimon-rest.md` §1.5)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from catalog.listing import Slice
from model.errors import BadRequest
from model.text.whole_number import whole_number
from server.paimon.routes import argument

T = TypeVar("T")
MOST = 1000
"""Names a page holds at most, and where the client does not say."""


def max_results(given: str | None = None) -> int:
    """How many the client wants, `MOST` at most; none or 0 means that it leaves it to the server."""
    text = given if given is not None else argument("maxResults")
    if text is None:
        return MOST
    if not (text.isascii() and text.isdecimal()):
        raise BadRequest(f"maxResults is {text!r}; a whole number is expected.")
    return min(int(text[:18]) or MOST, MOST)


def number_token(*, digits: int) -> int | None:
    """The place where a list continues that is paged by number; raises `BadRequest` for a token it never gave."""
    token = argument("pageToken")
    if token is None:
        return None
    place = whole_number(token, most=10**digits - 1)
    if place is None:
        raise BadRequest(f"The page token {token!r} is none of this list's.")
    return place


def slice_of(pattern: str) -> Slice:
    """The part of a list of names that the query asks for; ``pattern`` is the name of its pattern's parameter."""
    return Slice(after=argument("pageToken"), limit=max_results(), like=like(argument(pattern)))


def like(pattern: str | None) -> str | None:
    """A client's pattern for SQL's LIKE: ``%`` anywhere, ``_`` means itself, a backslash escapes."""
    if pattern is None:
        return None
    out, escaped = "", False
    for char in pattern:
        if escaped:
            out, escaped = out + "\\" + char, False
        elif char == "\\":
            escaped = True
        else:
            out += "\\_" if char == "_" else char
    if escaped:
        raise BadRequest(f"The pattern {pattern!r} ends with a backslash that escapes nothing.")
    return out


def prefix(text: str | None) -> str | None:
    """A prefix as a pattern for SQL's LIKE."""
    return None if text is None else "".join("\\" + char if char in "%_\\" else char for char in text) + "%"


def page(key: str, items: Sequence[T], wanted: Slice, name_of: Callable[[T], str], json_of: Callable[[T], object]) -> dict[str, object]:
    """The answer: a full page comes with a token, except where the list began with it and ends with it (clients' suites want that)."""
    full = wanted.limit is not None and len(items) > (wanted.limit if wanted.after is None else wanted.limit - 1)
    items_of_page = items[: wanted.limit] if wanted.limit is not None else items
    return {key: [json_of(item) for item in items_of_page], "nextPageToken": name_of(items_of_page[-1]) if full else None}


def one_more(wanted: Slice) -> Slice:
    """The same slice and one item more, which tells whether the list goes on."""
    return Slice(after=wanted.after, limit=None if wanted.limit is None else wanted.limit + 1, like=wanted.like)


class Everywhere(Protocol):
    """Names over all databases that match, from after a pair on."""

    def __call__(self, *, databases: str | None, names: str | None, after: tuple[str, str] | None, limit: int) -> list[tuple[str, str]]: ...


def pages_everywhere(key: str, pattern: str, fetch: Everywhere) -> dict[str, object]:
    """The answer of a list of names over all databases; ``pattern`` is the name of the parameter of the names' pattern."""
    limit = max_results()
    pairs = fetch(
        databases=like(argument("databaseNamePattern")),
        names=like(argument(pattern)),
        after=pair_of(argument("pageToken")),
        limit=limit + 1,
    )
    token = pair_token(pairs[limit - 1]) if len(pairs) > limit else None
    return {key: [{"database": database, "object": name} for database, name in pairs[:limit]], "nextPageToken": token}


def pair_token(pair: tuple[str, str]) -> str:
    """A token for lists over all databases."""
    return pair[0].replace("\\", "\\\\").replace(".", "\\.") + "." + pair[1]


def pair_of(token: str | None) -> tuple[str, str] | None:
    """The pair a token means; raises `BadRequest` for one that was never handed out."""
    if token is None:
        return None
    database, escaped = "", False
    for at, char in enumerate(token):
        if escaped:
            database, escaped = database + char, False
        elif char == "\\":
            escaped = True
        elif char == ".":
            return database, token[at + 1 :]
        else:
            database += char
    raise BadRequest(f"The page token {token!r} is none of this list's.")
