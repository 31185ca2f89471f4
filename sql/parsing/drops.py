"""UNDROP, PURGE TABLE and SHOW DROPPED."""

from __future__ import annotations

from sqlglot import exp

from model.text.whole_number import whole_number
from sql.parsing import trees
from sql.parsing.base import BaseParser


class DropParser(BaseParser):
    """Statements about what was dropped."""

    def undrop(self) -> exp.Expr:
        """``UNDROP TABLE | DATABASE name [WITH ID n] [AS name] [RESTART JOBS]``, from behind the first word."""
        what = "DATABASE" if self.eat("DATABASE") or self.eat("SCHEMA") else "TABLE"
        if what == "TABLE":
            self.need("TABLE")
        name = self.names(f"the {what.lower()}'s name")
        drop_id = self._drop_id()
        to = self.names("the new name") if self.eat("AS") else None
        restart_jobs = self.eat("RESTART")
        if restart_jobs:
            self.need("JOBS")
        self.finish()
        return trees.Undrop(what=what, name=name, drop_id=drop_id, to=to, restart_jobs=restart_jobs)

    def purge(self) -> exp.Expr:
        """``PURGE TABLE name [WITH ID n]``, from behind the first word."""
        self.need("TABLE")
        name = self.names("the dropped table's name")
        drop_id = self._drop_id()
        self.finish()
        return trees.PurgeTable(name=name, drop_id=drop_id)

    def _drop_id(self) -> int | None:
        if not self.eat("WITH", "ID"):
            return None
        token = self.here
        text = "" if token is None else token.text
        drop_id = whole_number(text)
        if drop_id is None:
            self.fail("the drop's id, a number")
        self._advance()
        return drop_id

    def show_dropped(self) -> exp.Expr:
        """``SHOW DROPPED TABLES [IN database]`` or ``SHOW DROPPED DATABASES``, from behind the words."""
        if self.eat("DATABASES") or self.eat("SCHEMAS"):
            self.finish()
            return trees.ShowDropped(what="DATABASES")
        self.need("TABLES")
        name = self.names("the database's name") if self.eat("IN") or self.eat("FROM") else None
        self.finish()
        return trees.ShowDropped(what="TABLES", name=name)
