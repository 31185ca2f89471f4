"""What `from_json` makes of an object whose schema is a MAP: each of its keys once, as in every other MAP that a statement makes."""

from __future__ import annotations

import re

from sqlglot import exp
from sqlglot.errors import SqlglotError

from model.errors import UnsupportedStatement
from sql.analysis.rewrites.cut_casts import cut_to
from sql.dialect import Flink

_MAP = re.compile(r"\bmap\s*<", re.IGNORECASE)
_QUOTED = re.compile(r"`(?:[^`]|``)*`|'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"", re.DOTALL)
"""Names and comments."""


def keep_keys_apart(tree: exp.Expr) -> None:
    """Let each `from_json` fail on a key that an object has twice, in place: Spark would make a map that has both.

    Raises `UnsupportedStatement` for a schema that cannot be read here.
    """
    for made in reversed([one for one in tree.find_all(exp.Anonymous) if one.name.lower() == "from_json"]):  # inner ones first
        schema = made.expressions[1] if len(made.expressions) > 1 else None
        if not isinstance(schema, exp.Literal) or not _MAP.search(_QUOTED.sub("", schema.name)):
            continue  # `schema_of_json` tells no MAP
        place = exp.Placeholder()
        if (around := cut_to(place, _uncut(_read(schema.name)))) is not None:
            made.replace(around)
            place.replace(made)


def _read(schema: str) -> exp.DataType:
    """A schema, which is a type, or the fields of a ROW; each MAP of its text is in it, with its two types."""
    for text in (schema, f"STRUCT<{schema}>"):
        try:
            read = exp.DataType.build(text, dialect=Flink)
        except (SqlglotError, UnsupportedStatement):
            continue
        whole = sum(part.this == exp.DType.MAP and len(part.expressions) == 2 for part in read.find_all(exp.DataType))
        if whole == len(_MAP.findall(_QUOTED.sub("", schema))):  # sqlglot passes over types that it does not know, and what is behind
            return read
    raise UnsupportedStatement(
        f"from_json reads no schema such as '{schema}': write names and types, such as 'a INT, b MAP<STRING, INT>'.", fragment="from_json"
    )


def _uncut(schema: exp.DataType) -> exp.DataType:
    """The type without lengths and precisions, which `from_json` does not cut to, and without NOT NULL, of which it takes no notice."""
    for field in schema.find_all(exp.ColumnDef):
        field.set("constraints", None)
    for part in list(schema.find_all(exp.DataType)):
        part.set("nullable", None)
        if not part.args.get("nested"):
            part.replace(exp.DataType(this=exp.DType.INT))
    return schema
