"""CREATE, ALTER and DROP of views."""

from __future__ import annotations

from sqlglot import exp

from sql.parsing import trees
from sql.parsing.base import BaseParser


class ViewParser(BaseParser):
    """Statements about views."""

    def replace_view(self) -> exp.Expr:
        """``CREATE OR REPLACE VIEW …``, from behind the words."""
        return self.create_view(replace=True)

    def create_view(self, *, replace: bool = False) -> exp.Expr:
        """``CREATE [OR REPLACE] VIEW …``, from behind the words."""
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

    def drop_temporary_view(self) -> exp.Expr:
        """``DROP TEMPORARY VIEW …``, from behind the words."""
        return self.drop_view(temporary=True)

    def drop_view(self, *, temporary: bool = False) -> exp.Expr:
        """``DROP [TEMPORARY] VIEW …``, from behind the words."""
        present_only = self.eat("IF", "EXISTS")
        name = self.names("the view's name")
        self.finish()
        return trees.DropView(name=name, temporary=temporary, if_exists=present_only)

    def alter_view(self) -> exp.Expr:
        """``ALTER VIEW …``, from behind both words."""
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

    def _view_query(self) -> tuple[exp.Expr, str]:
        start = self.here
        query = self.query("a query")
        assert start is not None
        text = self.source_from(start)
        self.finish()
        return query, text
