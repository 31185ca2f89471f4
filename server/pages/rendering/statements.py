"""Statements that pages show and run."""

from __future__ import annotations

from model.identifier import Identifier
from model.text.sql_text import literal, quote


def call(procedure: str, **arguments: str | int | bool | Identifier | None) -> str:
    """A CALL with named arguments, tables by their names; None leaves one out."""
    written = ", ".join(f"{_named(name)} => {_value(value)}" for name, value in arguments.items() if value is not None)
    return f"CALL sys.{procedure}({written})"


def _named(name: str) -> str:
    return quote(name) if name in ("table", "where") else name


def _value(value: str | int | bool | Identifier) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Identifier):
        return literal(value.written())
    return str(value) if isinstance(value, int) else literal(value)


def select(table: Identifier, *, limit: int | None = None, **hints: str) -> str:
    """A SELECT of all columns; hints are options with underscores where their keys have dashes, and two of them for a dot."""
    written = ", ".join(f"'{key.replace('__', '.').replace('_', '-')}' = {literal(value)}" for key, value in hints.items())
    hint = f" /*+ OPTIONS({written}) */" if written else ""
    return f"SELECT * FROM {table.quoted()}{hint}{'' if limit is None else f' LIMIT {limit}'}"
