"""Flink's windowing table functions: ``TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' MINUTES))`` and its kin in FROM."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from model.errors import InvalidSchema
from model.options.watermark import interval_millis
from sql.parsing.base import BaseParser

WINDOW = "window"
"""Key of a subquery node's meta that holds the `Window` its rows are put into."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """A windowing table function; times in milliseconds."""

    kind: str
    """TUMBLE, HOP, CUMULATE or SESSION."""
    column: str
    size: int
    """The gap of a SESSION."""
    step: int
    """The slide of HOP, the step of CUMULATE, else the size."""
    offset: int = 0
    keys: tuple[str, ...] = ()
    """PARTITION BY of a SESSION."""


_PARAMETERS = {
    "TUMBLE": ("SIZE",),
    "HOP": ("SLIDE", "SIZE"),
    "CUMULATE": ("STEP", "SIZE"),
    "SESSION": ("GAP",),
}
"""The intervals of each function in their order, behind DATA and TIMECOL; all but SESSION may have an OFFSET behind them."""


class WindowParser(BaseParser):
    """Reads windowing table functions as subqueries that carry a `Window`."""

    def _parse_table(self, *args: object, **kwargs: object) -> exp.Expr | None:
        wrapped = self.word() == "TABLE" and self.word(1) == "("
        at = 2 if wrapped else 0
        if self.word(at) not in _PARAMETERS or self.word(at + 1) != "(":
            return super()._parse_table(*args, **kwargs)  # type: ignore[arg-type]
        self._advance(at)
        window = self._window_function()
        if wrapped:
            self.need(")")
        window.set("alias", self._parse_table_alias())
        return window

    def _window_function(self) -> exp.Subquery:
        kind, start = self.word(), self.here
        self._advance(2)
        named = self._names_argument()
        if named:
            data, keys, column, intervals = self._named(kind)
        else:
            data, keys = self._data(kind)
            self.need(",")
            column = self._descriptor()
            intervals = {}
            for name in (*_PARAMETERS[kind], *(() if kind == "SESSION" else ("OFFSET",))):
                if not self.eat(","):
                    break
                intervals[name] = self._interval(name)
        self.need(")")
        for name in _PARAMETERS[kind]:
            if name not in intervals:
                self.fail(f"{kind}(TABLE t, DESCRIPTOR(time), {', '.join(_PARAMETERS[kind])}); {name}", start)
        window = self._window(kind, column, intervals, keys, start)
        subquery = exp.Subquery(this=data)
        subquery.meta[WINDOW] = window
        return subquery

    def _window(self, kind: str, column: str, intervals: dict[str, int], keys: tuple[str, ...], start: Token | None) -> Window:
        *steps, size = (intervals[name] for name in _PARAMETERS[kind])
        step = steps[0] if steps else size
        if size <= 0 or step <= 0:
            self.refuse(f"{kind}: its intervals are longer than nothing.", start)
        if kind == "CUMULATE" and size % step:
            self.refuse("CUMULATE: the size is a whole multiple of the step.", start)
        return Window(kind=kind, column=column, size=size, step=step, offset=intervals.get("OFFSET", 0), keys=keys)

    def _names_argument(self) -> bool:
        ahead = self._tokens[self._index + 1] if self._index + 1 < len(self._tokens) else None
        return ahead is not None and ahead.text == "=>"

    def _named(self, kind: str) -> tuple[exp.Select, tuple[str, ...], str, dict[str, int]]:
        """``DATA => TABLE t, TIMECOL => DESCRIPTOR(ts), SIZE => INTERVAL …`` in any order."""
        data: exp.Select | None = None
        keys: tuple[str, ...] = ()
        column: str | None = None
        intervals: dict[str, int] = {}
        while True:
            at = self.here
            name = self.name("an argument's name").upper()
            if self.here is None or self.here.text != "=>":
                self.fail("=>")
            self._advance()
            if name in intervals or (name == "DATA" and data is not None) or (name == "TIMECOL" and column is not None):
                self.fail("each argument once", at)
            if name == "DATA":
                data, keys = self._data(kind)
            elif name == "TIMECOL":
                column = self._descriptor()
            elif name in _PARAMETERS[kind] or (name == "OFFSET" and kind != "SESSION"):
                intervals[name] = self._interval(name)
            else:
                self.fail(f"DATA, TIMECOL, {', '.join(_PARAMETERS[kind])}{'' if kind == 'SESSION' else ' or OFFSET'}", at)
            if not self.eat(","):
                break
        if data is None or column is None:
            self.fail("DATA => TABLE t and TIMECOL => DESCRIPTOR(time)")
        return data, keys, column, intervals

    def _data(self, kind: str) -> tuple[exp.Select, tuple[str, ...]]:
        """``TABLE t [PARTITION BY k, …]`` or a query in parentheses."""
        if self.eat("TABLE"):
            table = self._parse_table_parts()
            if not isinstance(table, exp.Table):
                self.fail("a table's name")
            table.set("version", self._parse_version())
            source: exp.Expr = table
        elif self.word() == "(":
            self._advance()
            source = exp.Subquery(this=self.query("a query"), alias=exp.TableAlias(this=exp.to_identifier("__sluice_data", quoted=True)))
            self.need(")")
        else:
            self.fail("TABLE and a table's name")
        keys: tuple[str, ...] = ()
        at = self.here
        if self.eat("PARTITION", "BY"):
            if kind != "SESSION":
                self.refuse(f"{kind} has no PARTITION BY; GROUP BY, or PARTITION BY of a row_number, parts its rows.", at)
            keys = self.name_list() if self.word() == "(" else self._key_names()
        return exp.select("*").from_(source, copy=False), keys

    def _key_names(self) -> tuple[str, ...]:
        names = [self.name("a column")]
        while self.word() == "," and self.word(1) != "DESCRIPTOR" and not (self.word(2) == "=" or self._argument_ahead()):
            self._advance()
            names.append(self.name("a column"))
        return tuple(names)

    def _argument_ahead(self) -> bool:
        at = self._index + 2
        return at < len(self._tokens) and self._tokens[at].text == "=>"

    def _descriptor(self) -> str:
        self.need("DESCRIPTOR")
        names = self.name_list("the time column")
        if len(names) != 1:
            self.refuse("DESCRIPTOR names one time column here.", self._prev)
        return names[0]

    def _interval(self, name: str) -> int:
        """``[-] INTERVAL 'text' unit [TO unit]`` in milliseconds."""
        start = self.here
        sign = -1 if self.eat("-") else 1
        self.need("INTERVAL")
        if self.eat("-"):
            sign = -sign
        token = self.here
        if token is not None and token.token_type == TokenType.NUMBER:
            self._advance()
            text = token.text
        else:
            text = self.text(f"the {name.lower()} as INTERVAL '10' MINUTES")
        unit, to = self._unit(), None
        if self.eat("TO"):
            to = self._unit()
        try:
            return sign * interval_millis(text, unit, to)
        except InvalidSchema as problem:
            return self.refuse(str(problem), start)

    def _unit(self) -> str:
        unit = self.name("DAY, HOUR, MINUTE or SECOND")
        if self.eat("("):
            self._advance()
            self.need(")")
        return unit
