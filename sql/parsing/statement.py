"""Which parser a statement has, by its first words; and SHOW, DESCRIBE, USE, SET, CALL, EXPLAIN and statement sets."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from sql.parsing import trees
from sql.parsing.access import AccessParser
from sql.parsing.ddl import DdlParser
from sql.parsing.drops import DropParser
from sql.parsing.jobs import JobParser
from sql.parsing.refused import REFUSED
from sql.parsing.rows import RowsParser
from sql.parsing.views import ViewParser

_NOT_SHOWN = ("FUNCTION", "TBLPROPERTIES", "MATERIALIZED", "INDEXES", "MODELS", "ROLES", "GRANTS", "TABLE", "COLLATIONS")
_LISTED = ("PROCEDURES", "CATALOGS", "DATABASES", "SCHEMAS", "TABLES", "FUNCTIONS", "PARTITIONS", "COLUMNS", "VIEWS", "MODULES", "JARS")
_LONGEST_NUMBER = 100
"""Of an argument, which Python writes out."""
_Parser = Callable[["StatementParser"], exp.Expr]
_ByWords = Sequence[tuple[tuple[str, ...], _Parser]]


class StatementParser(RowsParser, DropParser, JobParser, AccessParser, ViewParser, DdlParser):
    """Chooses the parser of a statement by its first words."""

    def create(self) -> exp.Expr:
        """``CREATE …``, from behind the word."""
        return self._by_words(_CREATE) or self.create_table_or_database()

    def drop(self) -> exp.Expr:
        """``DROP …``, from behind the word."""
        return self._by_words(_DROP) or self.drop_table_or_database()

    def alter(self) -> exp.Expr:
        """``ALTER …``, from behind the word."""
        return self._by_words(_ALTER) or self.alter_table_or_database()

    def _by_words(self, parsers: _ByWords) -> exp.Expr | None:
        """The statement of the first parser whose words stand here; None where none's do."""
        for words, parse in parsers:
            if self.eat(*words):
                return parse(self)
        return None

    def statement(self) -> exp.Expr:
        """One whole statement."""
        word = self.word()
        if (parse := _STATEMENTS.get(word)) is not None:
            self._advance()
            return parse(self)
        if word in ("SELECT", "WITH", "VALUES", "(", "FROM"):
            query = self.query("a query") if word != "VALUES" else self._values()
            self.finish()
            return query
        if word in REFUSED:
            self.refuse(f"{word} is not available: {REFUSED[word]}.")
        return self.fail("a statement such as SELECT, INSERT, CREATE TABLE, SHOW TABLES or SET")

    def _values(self) -> exp.Expr:
        start = self.here
        query = self._parse_select()
        if not isinstance(query, exp.Query | exp.Values):
            self.fail("VALUES (…)", start)
        return query

    def insert(self) -> exp.Expr:
        """``INSERT INTO | OVERWRITE …``, from behind the first word."""
        if self.word() not in ("INTO", "OVERWRITE"):
            self.fail("INTO or OVERWRITE")
        if self.word(1) in ("DIRECTORY", "LOCAL"):
            self.refuse(
                "INSERT OVERWRITE DIRECTORY is not available: the server's files are not written by SQL; fetch the result over HTTP."
            )
        start = self._prev
        insert = self._parse_insert()
        if not isinstance(insert, exp.Insert):
            self.fail("INSERT INTO table [PARTITION (…)] [(columns)] query or VALUES", start)
        self.finish()
        source = insert.args.get("expression")
        if not isinstance(source, exp.Query | exp.Values):
            self.fail("a query or VALUES", self._prev)
        return insert

    def show(self) -> exp.Expr:
        """``SHOW …``, from behind the word."""
        if (statement := self._by_words(_SHOW)) is not None:
            return statement
        if self.word() in _NOT_SHOWN or (self.word() == "CREATE" and self.word(1)):
            self.refuse(f"SHOW {self.word()}{f' {self.word(1)}' if self.word() == 'CREATE' else ''} is not available.")
        self.eat("FULL")
        what = self.word()
        if what not in _LISTED:
            self.fail("CATALOGS, DATABASES, TABLES, COLUMNS, PARTITIONS, FUNCTIONS, CREATE TABLE or CURRENT DATABASE")
        if what in ("JARS", "MODULES"):
            self.refuse(f"SHOW {what} is not available: the server has none.")
        self._advance()
        what = "DATABASES" if what == "SCHEMAS" else what
        name = None
        if what == "PARTITIONS":
            name = self.names("the table's name")
            if self.word() == "PARTITION":
                listed = f"{'.'.join(name)}$partitions"
                self.refuse(f"SHOW PARTITIONS … PARTITION (…) is not available; a query of {listed} with a WHERE tells some of them.")
        elif self.eat("FROM") or self.eat("IN"):
            name = self.names("a name")
        elif what == "COLUMNS":
            self.fail("FROM table")
        return self._shown(what, name)

    def show_create_table(self) -> exp.Expr:
        """``SHOW CREATE TABLE name``, from behind the words."""
        return self._shown("CREATE TABLE", self.names("the table's name"))

    def show_create_view(self) -> exp.Expr:
        """``SHOW CREATE VIEW name``, from behind the words."""
        return self._shown("CREATE VIEW", self.names("the view's name"))

    def show_current(self) -> exp.Expr:
        """``SHOW CURRENT CATALOG | DATABASE``, from behind CURRENT."""
        what = self.word()
        if what not in ("CATALOG", "DATABASE"):
            self.fail("CATALOG or DATABASE")
        self._advance()
        return self._shown(f"CURRENT {what}", None)

    def show_user_functions(self) -> exp.Expr:
        """``SHOW USER FUNCTIONS``, from behind the words."""
        return self._shown("USER FUNCTIONS", None)

    def _shown(self, what: str, name: tuple[str, ...] | None) -> exp.Expr:
        negated = self.eat("NOT")
        like = self.text("a pattern") if self.eat("LIKE") else None
        if negated and like is None:
            self.fail("LIKE 'pattern'")
        self.finish()
        return trees.Show(what=what, name=name, like=like, negated=negated)

    def describe(self) -> exp.Expr:
        """``DESCRIBE …``, from behind the word."""
        if self.eat("DATABASE") or self.eat("SCHEMA"):
            self.eat("EXTENDED")
            name = self.names("the database's name")
            self.finish()
            return trees.DescribeDatabase(name=name)
        if self.word() == "JOB" and self.word(1) == "" and self._index + 1 < len(self._tokens) and self.eat("JOB"):
            return self.describe_job()
        if self.word() in ("FUNCTION", "QUERY", "CATALOG", "SELECT", "WITH"):
            self.refuse(f"DESCRIBE {self.word()} is not available; DESCRIBE table and DESCRIBE DATABASE are.")
        extended = self.eat("EXTENDED")
        self.eat("TABLE")
        extended = self.eat("EXTENDED") or extended
        name = self.names("the table's name")
        self.finish()
        return trees.DescribeTable(name=name, extended=extended)

    def use(self) -> exp.Expr:
        """``USE …``, from behind the word."""
        if self.eat("CATALOG"):
            name = self.names("the catalog's name")
            self.finish()
            return trees.UseCatalog(name=name)
        self.eat("DATABASE") or self.eat("SCHEMA")
        if self.word() == "MODULES":
            self.refuse("USE MODULES is not available: functions are Spark's.")
        name = self.names("the database's name")
        self.finish()
        return trees.UseDatabase(name=name)

    def set_option(self) -> exp.Expr:
        """``SET …``, from behind the word."""
        if self.here is None or self.word() == ";":
            self.finish()
            return trees.SetOption()
        if self.word() == "QUOTA" and self._following() != "=":
            self._advance()
            return self.set_quota()
        key = self.key_or_value("an option's key")
        if key.upper() in ("TIME", "ROLE", "VAR", "VARIABLE", "CATALOG") and self.word() != "=":
            self.refuse(f"SET {key.upper()} is not available; SET 'key' = 'value' is.")
        self.need("=")
        value = self.key_or_value("an option's value")
        self.finish()
        return trees.SetOption(key=key, value=value)

    def _following(self) -> str:
        """The text of the token after the next one."""
        return self._tokens[self._index + 1].text if self._index + 1 < len(self._tokens) else ""

    def reset_option(self) -> exp.Expr:
        """``RESET …``, from behind the word."""
        if self.word() == "QUOTA" and self._following() not in ("", ";"):
            self._advance()
            return self.reset_quota()
        key = None if self.here is None or self.word() == ";" else self.key_or_value("an option's key")
        self.finish()
        return trees.ResetOption(key=key)

    def truncate(self) -> exp.Expr:
        """``TRUNCATE TABLE name``, from behind the first word."""
        self.need("TABLE")
        name = self.names("the table's name")
        if self.word() == "PARTITION":
            self.refuse("TRUNCATE … PARTITION is not available; INSERT OVERWRITE … PARTITION (…) SELECT … WHERE false empties one.")
        self.finish()
        return trees.TruncateTable(name=name)

    def explain(self) -> exp.Expr:
        """``EXPLAIN …``, from behind the word."""
        self.eat("PLAN", "FOR")
        json = self.eat("JSON_EXECUTION_PLAN")
        for detail in (
            "ESTIMATED_COST",
            "CHANGELOG_MODE",
            "PLAN_ADVICE",
            "EXTENDED",
            "FORMATTED",
            "CODEGEN",
            "COST",
        ):
            if self.word() == detail:
                self.refuse(f"EXPLAIN {detail} is not available; EXPLAIN alone tells the files kept and skipped and Spark's plan.")
        if self.word() == "STATEMENT" and self.word(1) == "SET":
            self.refuse("EXPLAIN STATEMENT SET is not available; EXPLAIN each INSERT of it.")
        inner = self.statement()
        if not isinstance(inner, exp.Query | exp.Insert | exp.Values | trees.DeleteRows | trees.UpdateRows | trees.MergeRows):
            self.refuse("Only queries, INSERT, DELETE, UPDATE and MERGE can be explained.", self._prev)
        return trees.Explain(this=inner, json=bool(json))

    def execute(self) -> exp.Expr:
        """``EXECUTE STATEMENT SET BEGIN …; END``, from behind the first word."""
        if self.word() == "IMMEDIATE":
            self.refuse("EXECUTE IMMEDIATE is not available; send the statement itself.")
        if self.word() == "PLAN":
            self.refuse("EXECUTE PLAN is not available: plans are not stored; send the statement itself.")
        if self.word() in ("INSERT", "SELECT", "WITH"):
            return self.statement()
        self.need("STATEMENT", "SET", "BEGIN")
        return self._set_members()

    def begin(self) -> exp.Expr:
        """``BEGIN STATEMENT SET; …; END``, from behind the first word."""
        if self.word() != "STATEMENT":
            self.refuse("Scripts and transactions are not available; EXECUTE STATEMENT SET BEGIN …; END commits several INSERTs at once.")
        self.need("STATEMENT", "SET")
        self.eat(";")
        return self._set_members()

    def _set_members(self) -> exp.Expr:
        members: list[exp.Expr] = []
        while not self.eat("END"):
            if self.here is None:
                self.fail("INSERT or END")
            if self.word() != "INSERT":
                self.refuse("A statement set holds INSERT statements only.")
            self.need("INSERT")
            insert = self._parse_insert()
            if not isinstance(insert, exp.Insert):
                self.fail("an INSERT statement")
            members.append(insert)
            if self.word() not in (";", "END"):
                self.fail("; and the next INSERT, or END")
            self.eat(";")
        self.finish()
        if not members:
            self.refuse("The statement set is empty; put INSERT statements between BEGIN and END.", self._prev)
        return trees.StatementSet(expressions=members)

    def call(self) -> exp.Expr:
        """``CALL procedure(…)``, from behind the word."""
        procedure = self.names("the procedure's name")
        self.need("(")
        arguments: list[tuple[str | None, object]] = []
        while arguments or not self.eat(")"):
            name = None
            ahead = self._tokens[self._index + 1] if self._index + 1 < len(self._tokens) else None
            if ahead is not None and ahead.text == "=>":
                name = self.name("an argument's name")
                self._advance()
            arguments.append((name, self._argument()))
            if not self.eat(","):
                self.need(")")
                break
        self.finish()
        return trees.Call(procedure=procedure, arguments=tuple(arguments))

    def _argument(self) -> object:
        if (bound := self.placeholder()) is not None:
            if bound.value is None or isinstance(bound.value, bool | int | str | Decimal):
                return bound.value
            return Decimal(repr(bound.value)) if isinstance(bound.value, float) else self.scalar("a plain value", bound)
        token = self.here
        if token is None:
            self.fail("an argument")
        if token.token_type == TokenType.STRING:
            return self.text()
        negative = self.eat("-")
        word = self.word()
        if word in ("TRUE", "FALSE", "NULL"):
            self._advance()
            return {"TRUE": True, "FALSE": False, "NULL": None}[word]
        if self.here is None or self.here.token_type != TokenType.NUMBER:
            self.fail("a quoted text, a number, TRUE, FALSE or NULL")
        number = self.here.text
        if len(number) > _LONGEST_NUMBER:
            self.fail(f"a number of at most {_LONGEST_NUMBER} characters")
        self._advance()
        value = int(number) if number.isdecimal() else Decimal(number)
        return -value if negative else value


# What the words lead to, behind them; of several the first whose words stand there.
_STATEMENTS: Mapping[str, _Parser] = {
    "CREATE": StatementParser.create,
    "DROP": StatementParser.drop,
    "ALTER": StatementParser.alter,
    "SHOW": StatementParser.show,
    "DESCRIBE": StatementParser.describe,
    "DESC": StatementParser.describe,
    "USE": StatementParser.use,
    "SET": StatementParser.set_option,
    "RESET": StatementParser.reset_option,
    "CALL": StatementParser.call,
    "EXPLAIN": StatementParser.explain,
    "TRUNCATE": StatementParser.truncate,
    "EXECUTE": StatementParser.execute,
    "BEGIN": StatementParser.begin,
    "GRANT": StatementParser.grant,
    "REVOKE": StatementParser.revoke,
    "STOP": StatementParser.stop,
    "UNDROP": StatementParser.undrop,
    "PURGE": StatementParser.purge,
    "INSERT": StatementParser.insert,
    "DELETE": StatementParser.delete,
    "UPDATE": StatementParser.update,
    "MERGE": StatementParser.merge,
}
_CREATE: _ByWords = (
    (("OR", "REPLACE", "VIEW"), StatementParser.replace_view),
    (("VIEW",), StatementParser.create_view),
    (("ROLE",), StatementParser.create_role),
    (("MASKING", "POLICY"), StatementParser.create_masking_policy),
    (("POLICY",), StatementParser.create_row_policy),
    (("ROW", "POLICY"), StatementParser.create_row_policy),
)
_DROP: _ByWords = (
    (("VIEW",), StatementParser.drop_view),
    (("TEMPORARY", "VIEW"), StatementParser.drop_temporary_view),
    (("TEMP", "VIEW"), StatementParser.drop_temporary_view),
    (("ROLE",), StatementParser.drop_role),
    (("POLICY",), StatementParser.drop_policy),
    (("MASKING", "POLICY"), StatementParser.drop_policy),
    (("ROW", "POLICY"), StatementParser.drop_policy),
)
_ALTER: _ByWords = (
    (("VIEW",), StatementParser.alter_view),
    (("JOB",), StatementParser.alter_job),
)
_SHOW: _ByWords = (
    (("CREATE", "TABLE"), StatementParser.show_create_table),
    (("CREATE", "VIEW"), StatementParser.show_create_view),
    (("CURRENT",), StatementParser.show_current),
    (("USER", "FUNCTIONS"), StatementParser.show_user_functions),
    (("GRANTS",), StatementParser.show_grants),
    (("ROLES",), StatementParser.show_roles),
    (("POLICIES",), StatementParser.show_policies),
    (("QUOTAS",), StatementParser.show_quotas),
    (("DROPPED",), StatementParser.show_dropped),
    (("JOBS",), StatementParser.show_jobs),
)
