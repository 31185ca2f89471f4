"""CREATE, ALTER and DROP of views."""

from __future__ import annotations

from sqlglot import exp

from sql.parsing import trees
from sql.parsing.ddl import DdlParser


class ViewParser(DdlParser):
    """Statements about views."""

    def create(self) -> exp.Expr:
        """``CREATE …``, from behind the word."""
        replace = self.word() == "OR" and self.word(1) == "REPLACE" and self.word(2) == "VIEW"
        if replace:
            self.need("OR", "REPLACE")
        return self._create_view(replace) if self.eat("VIEW") else super().create()

    def drop(self) -> exp.Expr:
        """``DROP …``, from behind the word."""
        if not self.eat("VIEW"):
            return super().drop()
        present_only = self.eat("IF", "EXISTS")
        name = self.names("the view's name")
        self.finish()
        return trees.DropView(name=name, if_exists=present_only)

    def alter(self) -> exp.Expr:
        """``ALTER …``, from behind the word."""
        if not self.eat("VIEW"):
            return super().alter()
        name = self.names("the view's name")
        if self.eat("RENAME", "TO"):
            target = self.names("the new name")
            self.finish()
            return trees.AlterView(name=name, rename_to=target)
        if self.eat("SET"):
            self.eat("TBLPROPERTIES")
            options = self.options()
            self.finish()
            return trees.AlterView(name=name, options=options)
        self.need("AS")
        query, text = self._view_query()
        return trees.AlterView(name=name, query=query, text=text)

    def _create_view(self, replace: bool) -> exp.Expr:
        missing_only = self.eat("IF", "NOT", "EXISTS")
        name = self.names("the view's name")
        columns: list[tuple[str, str | None]] = []
        if self.eat("("):
            while True:
                column = self.name("a column's name")
                columns.append((column, self.text("the comment") if self.eat("COMMENT") else None))
                if not self.eat(","):
                    break
            self.need(")")
        comment = self.text("the comment") if self.eat("COMMENT") else None
        self.need("AS")
        query, text = self._view_query()
        return trees.CreateView(
            name=name, columns=tuple(columns), comment=comment, query=query, text=text, replace=replace, if_not_exists=missing_only
        )

    def _view_query(self) -> tuple[exp.Expr, str]:
        start = self.here
        query = self.query("a query")
        assert start is not None
        text = self.source_from(start)
        self.finish()
        return query, text
