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
_PAIR = re.compile(r"(?<![\w.-])([\w.-]++)(\s*+=\s*)(?:[^,;'\\]|\\.|'')*+", re.DOTALL)
_LONGEST_KEY = 200
"""``'key' = 'value'`` and ``key => 'value'`` inside a statement: found from the value, so that long literals cost nothing."""
_TOKEN = re.compile(
    r"""(?P<text>'(?:[^'\\]|\\.|'')*+(?:'|\\?\Z)|"(?:[^"\\]|\\.)*+(?:"|\\?\Z))|(?P<name>`[^`]*+`?)|(?P<gap>\s++)|(?P<comment>--|/\*|\{\#)"""
    r"""|(?P<equals>==?>?)|(?P<end>[,;()])|(?P<bare>(?:[^\s'"`,;()=/{-]|/(?!\*)|\{(?!\#)|-(?!-))++)""",
    re.DOTALL,
)
"""The parser's tokens, as far as its options need them: of a comment only how it begins."""
_DULL = re.compile(r"""(?:(?:'[^'\\=]*+'|-(?!-)|[^'"`=(),;/{\\-])*+(?:,\s*+\(?+|\)))++""")
"""What has no option's `=` and ends where no key has begun, in one step: rows of VALUES are most of a long text."""
_COMMENT_MARK = re.compile(r"/\*|\*/|\{#|#\}")
_ESCAPED = re.compile(r"\\(?:u([0-9a-fA-F]{4})|([0-3][0-7]{2})|(.))", re.DOTALL)
_BEFORE_OPTIONS = frozenset({"WITH", "SET", "OPTIONS", "TBLPROPERTIES", "DBPROPERTIES"})
"""Words before the parenthesis of a list of options."""


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
    return _masked_values(_masked_options(statement))


def _masked_values(statement: str) -> str:
    """What ``=`` and a text show of an option wherever the text begins: a log's line, or a part of a statement, has quotes of its own."""

    def value(match: re.Match[str]) -> str:
        if names_secret(_last_key(statement[max(0, match.start() - _LONGEST_KEY) : match.start()].rstrip())):
            return f"{match[1]}'{MASK}'"
        return _PAIR.sub(_pair, match[0]) if "=" in match[0][len(match[1]) :] else match[0]

    return _VALUE.sub(value, statement)


def _pair(match: re.Match[str]) -> str:  # options => 'key=value,key=value'
    return f"{match[1]}{match[2]}{MASK}" if names_secret(match[1]) else match[0]


def _last_key(text: str) -> str:
    """The key a text ends with, quoted or not; empty where it ends with none."""
    if text.endswith("'"):
        return text[text.rfind("'", 0, -1) + 1 : -1] if text.count("'") > 1 else ""
    backwards = _BACKWARDS_KEY.match(text[::-1])
    return backwards[0][::-1] if backwards else ""


def _masked_options(statement: str, *, in_comment: bool = False) -> str:
    """What the parser takes as an option: keys and values quoted or bare, with comments between them.

    Comments are looked through too, as a statement that somebody put aside.
    """
    made: list[str] = []
    options = _Options(statement)
    at = 0
    while match := _TOKEN.match(statement, at):
        kind, start, at = match.lastgroup or "", at, match.end()
        if kind == "end" and (dull := _DULL.match(statement, at)):
            made.append(options.shown(kind, start, at))
            at = dull.end()
            made.append(dull[0])
            continue
        if kind == "comment" and not in_comment:
            at = _end_of_comment(statement, start)
            made.append(statement[start : start + 2] + _masked_options(statement[start + 2 : at], in_comment=True))
            options.shown("gap", start, at)
        else:
            made.append(options.shown("bare" if kind == "comment" else kind, start, at))
    return "".join(made)


class _Options:
    """Follows a statement token by token as the parser does, and knows which of them is a secret's value."""

    def __init__(self, statement: str) -> None:
        self._statement = statement
        self._key: tuple[int, int] | None = None
        self._word = ""
        """The last bare word: it says whether a list of options begins."""
        self._listing = False
        self._hides = False
        """A secret's key and its ``=`` stood here: its value is next, or goes on."""
        self._bare_too = False
        """Whether that value may be bare: in a query, `a.token = b.token` compares columns."""
        self._begun = False

    def shown(self, kind: str, start: int, end: int) -> str:
        """A token as it may be shown; empty where it goes on what is hidden."""
        token = self._statement[start:end]
        if kind in ("text", "name", "bare"):
            return self._part(kind, start, end, token)
        if kind == "gap":
            self._hides = self._hides and not self._begun
            return token
        if kind == "equals":
            if self._key is not None:
                key = self._statement[slice(*self._key)]
                self._hides = names_secret(key) or names_secret(_ESCAPED.sub(_unescaped, key.strip("'\"`")))
                self._bare_too = self._listing or token == "=>" or key.startswith(("'", '"'))
        else:
            self._hides = False
            if token != ",":
                self._listing = token == "(" and self._word in _BEFORE_OPTIONS
        self._key, self._begun = None, False
        if token in ("(", ")", ";"):
            self._word = ""
        return token

    def _part(self, kind: str, start: int, end: int, token: str) -> str:
        if self._hides and (kind == "text" or self._bare_too):
            hidden = "" if self._begun else f"'{MASK}'" if kind == "text" else MASK
            self._hides = self._begun or kind != "text"  # a text ends a value, unless that began bare
            self._begun = True
            return hidden
        self._hides = False
        goes_on = self._key is not None and self._key[1] == start and self._statement[self._key[0]] not in "'\""
        self._key = (self._key[0] if goes_on and self._key else start, end)
        if kind == "bare":
            if token.upper() == "SET" and not self._word:
                self._listing = True  # SET key = value
            self._word = token.upper()
        return _PAIR.sub(_pair, token) if kind == "text" and "=" in token else token


def _unescaped(match: re.Match[str]) -> str:
    return chr(int(match[1], 16)) if match[1] else chr(int(match[2], 8)) if match[2] else match[3]


def _end_of_comment(text: str, start: int) -> int:
    """Behind a comment, which may hold others; the text's end where it is open."""
    if text.startswith("--", start):
        line = text.find("\n", start)
        return len(text) if line < 0 else line
    depth = 0
    for mark in _COMMENT_MARK.finditer(text, start):
        depth += 1 if mark[0] in ("/*", "{#") else -1
        if depth == 0:
            return mark.end()
    return len(text)
