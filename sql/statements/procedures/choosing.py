"""Names that a call chooses by regular expressions of its caller's."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from model.errors import AnalysisError
from sql.statements.procedures.calls import Arguments

_MOST_CHARS = 1_000
"""Of an expression that chooses names: far more than anybody writes, and compiled in no time."""


class Choice:
    """What the two arguments ``including_…`` and ``excluding_…`` choose: all where neither is given.

    The expressions are matched by RE2, whose time grows with the text alone. Python's would try every way to match, forever and
    with all other threads held, where an expression is made so.
    """

    def __init__(self, arguments: Arguments, kind: str) -> None:
        """``kind`` is what the names are of, as the arguments say it; raises `AnalysisError`."""
        self._included = _expression(arguments, f"including_{kind}")
        self._excluded = _expression(arguments, f"excluding_{kind}")

    def among(self, names: Iterable[str]) -> set[str]:
        """Those of some names that are chosen."""
        chosen = list(names)
        if self._included is not None:
            chosen = _matching(self._included, chosen)
        return set(chosen).difference(_matching(self._excluded, chosen) if self._excluded is not None else ())

    def among_tables(self, database: str, names: Sequence[str]) -> list[str]:
        """Those of a database's tables that are chosen, by their own name or by ``database.name``."""
        full = {name: f"{database}.{name}" for name in names}
        both = [*full, *full.values()]
        included = set(both if self._included is None else _matching(self._included, both))
        excluded = set(() if self._excluded is None else _matching(self._excluded, both))
        return [name for name in names if included & {name, full[name]} and not excluded & {name, full[name]}]


def _expression(arguments: Arguments, name: str) -> str | None:
    if name not in arguments:
        return None
    text: str = arguments[name]
    if len(text) > _MOST_CHARS:
        raise AnalysisError(f"{name} has {len(text)} characters; a regular expression that chooses names has at most {_MOST_CHARS}.")
    try:
        _matches(text, [""])  # by itself first: a parenthesis too many would close the group that holds it
        _matches(f"(?:{text})", [""])
    except pa.ArrowInvalid as problem:
        reason = str(problem).removeprefix("Invalid regular expression: ")
        raise AnalysisError(
            f"{name} => '{text}' is no regular expression: {reason}. They are RE2's, without (?=…) and \\1.", fragment=text
        ) from None
    return text


def _matching(expression: str, names: Sequence[str]) -> list[str]:
    return [name for name, fits in zip(names, _matches(rf"\A(?:{expression})\z", names), strict=True) if fits]


def _matches(expression: str, names: Sequence[str]) -> list[bool]:
    fits: list[bool] = pc.match_substring_regex(pa.array(names, pa.string()), pattern=expression).to_pylist()
    return fits
