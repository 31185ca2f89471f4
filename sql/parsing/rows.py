"""DELETE, UPDATE and MERGE INTO."""

from __future__ import annotations

from sqlglot import exp

from sql.parsing import trees
from sql.parsing.base import BaseParser


class RowsParser(BaseParser):
    """Parses statements that change rows."""

    def delete(self) -> exp.Expr:
        """``DELETE FROM name [AS x] WHERE condition``, from behind the first word."""
        self.need("FROM")
        table = self._changed_table()
        if self.word() != "WHERE":
            self.refuse("DELETE needs a WHERE clause; TRUNCATE TABLE takes all rows away.")
        where = self._parse_where()
        self.finish()
        return trees.DeleteRows(this=exp.Select(expressions=[exp.Star()], from_=exp.From(this=table), where=where))

    def _changed_table(self) -> exp.Table:
        """The name of a table whose rows are changed, and its alias."""
        start = self.here
        table = self._parse_table_parts()
        if not isinstance(table, exp.Table) or not table.name:
            self.fail("the table's name", start)
        table.set("alias", self._parse_table_alias(alias_tokens=self.UPDATE_ALIAS_TOKENS))
        return table

    def update(self) -> exp.Expr:
        """``UPDATE name [AS x] SET column = value, … [WHERE condition]``, from behind the first word."""
        table = self._changed_table()
        self.need("SET")
        values: list[exp.Expr] = []
        targets = self._assignments(values)
        where = self._parse_where()
        self.finish()
        query = exp.Select(expressions=values or [exp.Null()], from_=exp.From(this=table), where=where)
        return trees.UpdateRows(this=query, targets=targets)

    def merge(self) -> exp.Expr:
        """``MERGE INTO name [AS x] USING source ON condition WHEN …``, from behind the first word."""
        if self.word() == "WITH":
            self.refuse("MERGE WITH SCHEMA EVOLUTION is not available; ALTER TABLE … ADD adds columns.")
        self.need("INTO")
        table = self._changed_table()
        self.need("USING")
        start = self.here
        source = self._parse_table()
        if not isinstance(source, exp.Table | exp.Subquery) or not source.alias_or_name:
            self.fail("a table, or a query in parentheses with a name", start)
        self.need("ON")
        values: list[exp.Expr] = []
        condition = self._disjunction("a condition")
        whens: list[trees.When] = []
        while self.eat("WHEN"):
            whens.append(self._when(values))
        if not whens:
            self.fail("WHEN [NOT] MATCHED …")
        self.finish()
        insert = any(not when.matched and not when.by_source for when in whens)
        sides = {(True, True): "FULL", (True, False): "RIGHT", (False, True): "LEFT", (False, False): None}
        join = exp.Join(this=source, side=sides[insert, any(when.by_source for when in whens)], on=condition)
        query = exp.Select(expressions=values or [exp.Null()], from_=exp.From(this=table), joins=[join])
        return trees.MergeRows(this=query, whens=tuple(whens))

    def _when(self, values: list[exp.Expr]) -> trees.When:
        """What stands behind WHEN."""
        matched = not self.eat("NOT")
        self.need("MATCHED")
        by_source = not matched and self.eat("BY", "SOURCE")
        if not matched and not by_source:
            self.eat("BY", "TARGET")
        condition = None
        if self.eat("AND"):
            values.append(self._disjunction("a condition"))
            condition = len(values) - 1
        self.need("THEN")
        start, action = self.here, self.word()
        if action not in (("UPDATE", "DELETE") if matched or by_source else ("INSERT",)):
            self.fail("UPDATE SET or DELETE" if matched or by_source else "INSERT", start)
        self._advance()
        targets = None
        if action == "UPDATE":
            self.need("SET")
            targets = None if not by_source and self.eat("*") else self._assignments(values)
        elif action == "INSERT" and not self.eat("*"):
            names = self.name_list("a column")
            self.need("VALUES", "(")
            places = [self._value_or_default(values)]
            while self.eat(","):
                places.append(self._value_or_default(values))
            self.need(")")
            if len(names) != len(places):
                self.fail(f"a value for each of the {len(names)} columns, not {len(places)} values", start)
            targets = tuple(((name,), place) for name, place in zip(names, places, strict=True))
        return trees.When(matched=matched, by_source=by_source, condition=condition, action=action, targets=targets)

    def _disjunction(self, what: str) -> exp.Expr:
        value = self._parse_disjunction()
        if value is None:
            self.fail(what)
        return value

    def _assignments(self, values: list[exp.Expr]) -> tuple[tuple[tuple[str, ...], int | None], ...]:
        """``column = value, …``: each column's path with the place its value takes among ``values``, None for ``DEFAULT``."""
        targets: list[tuple[tuple[str, ...], int | None]] = []
        while True:
            names = self.names("a column")
            self.need("=")
            targets.append((names, self._value_or_default(values)))
            if not self.eat(","):
                return tuple(targets)

    def _value_or_default(self, values: list[exp.Expr]) -> int | None:
        """The place of the value that follows among ``values``, where it is put; None for ``DEFAULT``."""
        if self.eat("DEFAULT"):
            return None
        values.append(self._disjunction("a value or DEFAULT"))
        return len(values) - 1
