"""What is not to be shown or logged: secrets among options, and the literals of statements that erase rows."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from model.errors import InvalidOption

MASK = "******"
_SECRET = re.compile(
    r"password|passwd|passphrase|[-._](pass|pwd)(?![a-z])|secret|token|credential|authorization|jaas|user[-._]?info|connection[-._]?string"
    r"|(access|private|api|account|shared|signing|encryption|master|keystore)[-._]?key|(ssl|tls|client|server)[-._]?key(?![a-z])"
    r"|(?<![a-z])sas(?![a-z])",
    re.IGNORECASE,
)
"""What an option's name says of a secret: words for one, and keys that are no columns. `sas` is a signature of Azure's, SASL is not."""
_OF_COLUMN = re.compile(r"(file-index\.[^.]++|fields)\..+(\.[^.]++)\Z", re.IGNORECASE | re.DOTALL)
"""A setting of one column, whose name is no part of what is said: Java reads `file-index.bloom-filter.token.fpp` as a number."""
_VALUE = re.compile(r"(=>?\s*)'[^']*(?:''[^']*)*'")
_BACKWARDS_KEY = re.compile(r"[\w.-]*")
_PAIR = re.compile(r"(?<![\w.-])([\w.-]++)(\s*+=\s*)[^,;']*")
_LONGEST_KEY = 200
"""``'key' = 'value'`` and ``key => 'value'`` inside a statement: found from the value, so that long literals cost nothing."""


def masked(key: str, value: str) -> str:
    """The value, or stars where the key looks like a secret's."""
    return MASK if names_secret(key) else value


def names_secret(key: str) -> bool:
    """Whether an option's key looks like a secret's."""
    of_column = _OF_COLUMN.match(key)
    return _SECRET.search(of_column[1] + of_column[2] if of_column else key) is not None


def masked_all(options: Mapping[str, str]) -> dict[str, str]:
    """Options fit to be shown or logged."""
    return {key: masked(key, value) for key, value in options.items()}


def unmasked(given: Mapping[str, str], stored: Mapping[str, str]) -> dict[str, str]:
    """Options as they are to be kept: a secret that comes back as it was shown, by stars, is the one that is stored.

    Raises `InvalidOption` where none is stored.
    """
    return {key: _kept(key, value, stored) for key, value in given.items()}


def _kept(key: str, value: str, stored: Mapping[str, str]) -> str:
    if value != MASK or not names_secret(key):
        return value
    if key not in stored:
        raise InvalidOption(
            f"Option '{key}' = '{MASK}' is what is shown in place of a secret, and none is stored here; give the secret itself."
        )
    return stored[key]


# Texts may be long and made to hurt, and nothing else runs while an expression looks for its next place: none of these looks at a
# character twice, and those that look for words begin with one, in capitals, which is found at once.
_ERASING = tuple(
    re.compile(expression)
    for expression in (r"DELETE(?<!\w.{6})\s+FROM\b", r"MERGE(?<!\w.{5})\s+INTO\b", r"SYS(?<!\w.{3})\s*(?:`\s*)?\.\s*(?:`\s*)?ERASE\b")
)
"""What names rows that are to be forgotten, beside UPDATE … SET: its literals are what nobody is to find again."""
_UPDATE = re.compile(r"UPDATE(?<!\w.{6})\b")
_SET = re.compile(r"SET(?<!\w.{3})\b")
_NO_UPDATE = re.compile(r"[;'()]")
"""What does not stand between UPDATE and SET."""
_LITERAL = re.compile(r"'(?:[^'\\]|\\.|'')*+(?:'|\\?\Z)|--[^\n]*|/\*.*?(?:\*/|\Z)|`[^`]*`|(?<![\w.])\d[\w.]*", re.DOTALL)


def erases(statement: str) -> bool:
    """Whether a text may name rows that are to be forgotten: as it stands, or without what may stand between its words."""
    plain = _LITERAL.sub(lambda found: " " if found[0].startswith(("-", "/")) else "x", statement)
    return any(_names_erased(text.upper()) for text in (statement, plain))


def _names_erased(text: str) -> bool:
    return any(expression.search(text) for expression in _ERASING) or _updates(text)


def _updates(text: str) -> bool:
    """Whether a SET stands behind an UPDATE, with no text, parenthesis or end of a statement between them."""
    at = 0
    while update := _UPDATE.search(text, at):
        ended = _NO_UPDATE.search(text, update.end())
        at = ended.end() if ended else len(text)
        if _SET.search(text, update.end(), at):
            return True
    return False


def literals_in(statement: str) -> list[str]:
    """The texts and numbers that a statement names, without quotes, those in its texts too, and its comments."""
    literals = [token.strip("'") for token in _tokens(statement) if not token.startswith("`")]
    return [*literals, *(token.strip("'") for text in literals for token in _tokens(text.replace("''", "'")))]


def _tokens(text: str) -> Iterator[str]:
    return (match[0] for match in _LITERAL.finditer(text))


def masked_text(statement: str) -> str:
    """A statement with stars for the values of options that look like secrets, and for all it names where it erases rows."""
    return masked_literals(statement) if erases(statement) else masked_secrets(statement)


def masked_literals(statement: str) -> str:
    """A statement with stars for every text, number and comment in it."""
    return _LITERAL.sub(lambda found: found[0] if found[0].startswith("`") else MASK, statement)


def masked_secrets(statement: str) -> str:
    """A statement with stars for the values of options that look like secrets alone."""

    def value(match: re.Match[str]) -> str:
        if names_secret(_last_key(statement[max(0, match.start() - _LONGEST_KEY) : match.start()].rstrip())):
            return f"{match[1]}'{MASK}'"
        return _PAIR.sub(pair, match[0]) if "=" in match[0][len(match[1]) :] else match[0]

    def pair(match: re.Match[str]) -> str:  # options => 'key=value,key=value'
        return f"{match[1]}{match[2]}{MASK}" if names_secret(match[1]) else match[0]

    return _VALUE.sub(value, statement)


def _last_key(text: str) -> str:
    """The key a text ends with, quoted or not; empty where it ends with none."""
    if text.endswith("'"):
        return text[text.rfind("'", 0, -1) + 1 : -1] if text.count("'") > 1 else ""
    backwards = _BACKWARDS_KEY.match(text[::-1])
    return backwards[0][::-1] if backwards else ""
