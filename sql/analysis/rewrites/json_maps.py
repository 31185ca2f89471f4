"""What `from_json` makes of an object whose schema is a MAP: each of its keys once, as in every other MAP that a statement makes."""

from __future__ import annotations

import re

from sqlglot import exp

from model.errors import UnsupportedStatement
from sql.analysis.rewrites.cut_casts import TYPES_INSIDE, cut_to
from sql.dialect import MOST_NESTED_TYPES

_TOKEN = re.compile(
    r"""(?P<between>\s+|--(?:\\\n|[^\r\n])*|/\*(?!\+)(?:(?!/\*|\*/).)*\*/)
    |(?P<text>r'[^']*'|r"[^"]*"|'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")
    |(?P<name>\w+|`(?:[^`]|``)*`)
    |(?P<mark>[<>:,()])""",
    re.DOTALL | re.IGNORECASE | re.VERBOSE,
)
"""Of Spark's DDL; comments in comments, which it takes, are not read."""
_INSIDE = {kind.name: count for kind, count in TYPES_INSIDE.items()}


def keep_keys_apart(tree: exp.Expr) -> None:
    """Let each `from_json` fail on a key that an object has twice, in place: Spark would make a map that has both.

    Raises `UnsupportedStatement` for a schema with a MAP that cannot be read here.
    """
    for made in reversed([one for one in tree.find_all(exp.Anonymous) if one.name.lower() == "from_json"]):  # inner ones first
        schema = made.expressions[1] if len(made.expressions) > 1 else None
        if not isinstance(schema, exp.Literal) or "map" not in schema.name.lower():
            continue  # `schema_of_json` tells no MAP
        place = exp.Placeholder()
        if (around := cut_to(place, _Schema(schema.name).type())) is not None:
            made.replace(around)
            place.replace(made)


class _Schema:
    """A schema's text: one type, or the fields of a ROW.

    It is read as far as a text goes that Spark takes: what is no ARRAY, MAP or STRUCT counts as INT, whatever it is, since
    `from_json` cuts nothing to lengths and precisions, and takes no notice of NOT NULL. Spark is given the text itself.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens: list[str] = []
        at = 0
        while at < len(text):
            if (token := _TOKEN.match(text, at)) is None:
                raise self._unreadable()
            at = token.end()
            if token.lastgroup != "between":
                self._tokens.append(token[0])
        self._at = 0

    def type(self) -> exp.DataType:
        """The type of what is made; raises `UnsupportedStatement`."""
        is_type = self._here(1) == "<" or len(self._tokens) == 1
        read = self._type(1) if is_type else exp.DataType(this=exp.DType.STRUCT, nested=True, expressions=self._fields(2))
        if self._here() is not None:
            raise self._unreadable()
        return read

    def _type(self, depth: int) -> exp.DataType:
        kind = self._name().upper()
        if self._here() != "<":
            return exp.DataType(this=exp.DType.INT)
        if kind != "STRUCT" and kind not in _INSIDE:
            raise self._unreadable()
        if depth > MOST_NESTED_TYPES:
            raise UnsupportedStatement(
                f"from_json takes no schema with a MAP and more than {MOST_NESTED_TYPES} types inside each other.", fragment="from_json"
            )
        self._at += 1
        inside: list[exp.Expr] = []
        if kind == "STRUCT":
            inside += self._fields(depth + 1) if self._here() != ">" else []
        else:
            inside.append(self._type_and_rest(depth + 1))
            while self._passed(","):
                inside.append(self._type_and_rest(depth + 1))
        if not self._passed(">") or len(inside) != _INSIDE.get(kind, len(inside)):
            raise self._unreadable()
        return exp.DataType(this=exp.DType[kind], nested=True, expressions=inside)

    def _fields(self, depth: int) -> list[exp.Expr]:
        fields: list[exp.Expr] = [self._field(depth)]
        while self._passed(","):
            fields.append(self._field(depth))
        return fields

    def _field(self, depth: int) -> exp.ColumnDef:
        name = self._name()
        name = name[1:-1].replace("``", "`") if name.startswith("`") else name
        self._passed(":")
        return exp.ColumnDef(this=exp.to_identifier(name, quoted=True), kind=self._type_and_rest(depth))

    def _type_and_rest(self, depth: int) -> exp.DataType:
        """A type and what belongs to it or its field, such as a length, NOT NULL and COMMENT."""
        read = self._type(depth)
        opened = 0
        while (token := self._here()) is not None and (opened or token not in (",", ">")):
            if token in ("<", ":"):
                raise self._unreadable()
            opened += (token == "(") - (token == ")")
            self._at += 1
        return read

    def _here(self, ahead: int = 0) -> str | None:
        return self._tokens[self._at + ahead] if self._at + ahead < len(self._tokens) else None

    def _passed(self, mark: str) -> bool:
        """Whether the mark stands here; it is gone past then."""
        is_here = self._here() == mark
        self._at += is_here
        return is_here

    def _name(self) -> str:
        name = self._here()
        if name is None or not (name.startswith("`") or name[0] == "_" or name[0].isalnum()):
            raise self._unreadable()
        self._at += 1
        return name

    def _unreadable(self) -> UnsupportedStatement:
        return UnsupportedStatement(
            f"from_json reads no schema such as '{self._text}': write names and types, such as 'a INT, b MAP<STRING, INT>'.",
            fragment="from_json",
        )
