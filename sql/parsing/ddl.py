"""CREATE, ALTER and DROP of databases and tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from model.options.watermark import Watermark
from model.schema.change import (
    AddColumn,
    DropColumn,
    DropWatermark,
    Position,
    RemoveOption,
    RenameColumn,
    SchemaChange,
    SetOption,
    SetWatermark,
    UpdateColumnComment,
    UpdateColumnDefault,
    UpdateColumnNullability,
    UpdateColumnPosition,
    UpdateColumnType,
    UpdateComment,
)
from model.schema.types import DataType, Field
from sql.parsing import trees
from sql.parsing.columns import NO_KEYS, ColumnParser

_NO_DISTRIBUTION = "DISTRIBUTION is not available; the options 'bucket' and 'bucket-key' part rows: SET ('bucket' = 'N')."


@dataclass(frozen=True, slots=True, kw_only=True)
class LikeClause:
    """``LIKE table (INCLUDING …, EXCLUDING …, OVERWRITING …)``; feature to behaviour, both in upper case."""

    source: tuple[str, ...]
    features: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableDefinition:
    """What a CREATE TABLE says."""

    columns: tuple[Field, ...] = ()
    metadata: Mapping[str, str] = field(default_factory=dict)
    """METADATA columns and the key each shows; they are among the columns, and only tables with a connector have them."""
    virtual: frozenset[str] = frozenset()
    """METADATA columns that are only read."""
    watermarks: tuple[Watermark, ...] = ()
    comment: str | None = None
    partition_keys: tuple[str, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)
    like: LikeClause | None = None


class DdlParser(ColumnParser):
    """Statements that make, change and drop tables and databases."""

    def create_table_or_database(self) -> exp.Expr:
        """``CREATE [TEMPORARY] TABLE …`` or ``CREATE DATABASE …``, from behind the first word."""
        if self.word() == "OR":
            self.refuse("CREATE OR REPLACE is not available; DROP TABLE first, or INSERT OVERWRITE to replace the rows.")
        if self.eat("DATABASE") or self.eat("SCHEMA"):
            return self._create_database()
        temporary = self.eat("TEMPORARY") or self.eat("TEMP")
        if temporary and self.word() == "VIEW":
            self.refuse(
                "Temporary views are not available; CREATE VIEW keeps one, and WITH name AS (…) names a query inside one statement."
            )
        if not self.eat("TABLE"):
            self.refuse(f"CREATE {self.word()} is not available; CREATE TABLE, CREATE TEMPORARY TABLE and CREATE DATABASE are.")
        self._metadata = {}
        missing_only = self.eat("IF", "NOT", "EXISTS")
        name = self.names("the table's name")
        definition, query = self._definition()
        if self._metadata and "connector" not in definition.options:
            self.refuse(
                f"METADATA columns are not available: append tables have no metadata to show in column {next(iter(self._metadata))}.",
                self._first_metadata,
            )
        of_files = not temporary and "connector" not in definition.options
        if not of_files and (with_default := next((field for field in definition.columns if field.default_value is not None), None)):
            self.refuse(f"A connector's columns have no DEFAULT: column {with_default.name}.")
        return trees.CreateTable(name=name, temporary=temporary, if_not_exists=missing_only, definition=definition, query=query)

    def _create_database(self) -> exp.Expr:
        missing_only = self.eat("IF", "NOT", "EXISTS")
        name = self.names("the database's name")
        comment = self.text("the comment") if self.eat("COMMENT") else None
        options = self.options() if self.eat("WITH") else {}
        self.finish()
        return trees.CreateDatabase(name=name, if_not_exists=missing_only, comment=comment, options=options)

    def _definition(self) -> tuple[TableDefinition, exp.Expr | None]:
        columns: list[Field] = []
        watermarks: list[Watermark] = []
        if self.eat("(") and not self.eat(")"):
            self._column_or_constraint(columns, watermarks)
            while self.eat(","):
                self._column_or_constraint(columns, watermarks)
            self.need(")")
        comment = None
        partitions: tuple[str, ...] = ()
        options: dict[str, str] = {}
        like: LikeClause | None = None
        while self.here is not None and self.word() != ";":
            if self.eat("COMMENT"):
                comment = self.text("the comment")
            elif self.eat("PARTITIONED", "BY"):
                partitions = self._partition_columns(columns)
            elif self.eat("WITH") or self.eat("TBLPROPERTIES") or self.eat("OPTIONS"):
                options |= self.options()
            elif self.eat("LIKE"):
                like = self._like()
            elif self.eat("AS"):
                query = self.query("a query")
                self.finish()
                return self._made(columns, watermarks, comment, partitions, options, like), query
            elif self.word() in ("USING", "LOCATION", "CLUSTERED", "STORED", "ROW", "DISTRIBUTED"):
                self.refuse(f"{self.word()} is not a clause of CREATE TABLE here; WITH ('key' = 'value') shapes a table.")
            else:
                self.fail("COMMENT, PARTITIONED BY, WITH, LIKE or AS")
        self.finish()
        return self._made(columns, watermarks, comment, partitions, options, like), None

    def _made(
        self,
        columns: list[Field],
        watermarks: list[Watermark],
        comment: str | None,
        partitions: tuple[str, ...],
        options: dict[str, str],
        like: LikeClause | None,
    ) -> TableDefinition:
        return TableDefinition(
            columns=tuple(columns),
            metadata=self._metadata or {},
            virtual=self._virtual,
            watermarks=tuple(watermarks),
            comment=comment,
            partition_keys=partitions,
            options=options,
            like=like,
        )

    def _column_or_constraint(self, columns: list[Field], watermarks: list[Watermark]) -> None:
        if self.word() == "WATERMARK" and self.word(1) == "FOR":
            watermarks.append(self._watermark())
            return
        if self.word() in ("PRIMARY", "CONSTRAINT", "UNIQUE", "FOREIGN") and self.word(1) != "":
            self.refuse(NO_KEYS if self.word() in ("PRIMARY", "CONSTRAINT") else f"{self.word()} constraints are not available.")
        name = self.name("a column's name")
        if self.word() == "AS":
            self.refuse(
                f"Computed columns are not available: no reader but Flink knows them; select the expression instead of column {name}."
            )
        columns.append(self.column_rest(name))

    def _watermark(self) -> Watermark:
        self.need("WATERMARK", "FOR")
        column = self.name("the time column")
        self.need("AS")
        start = self.here
        if start is None:
            self.fail("the watermark's expression")
        expression = self._parse_assignment()
        if expression is None:
            self.fail("the watermark's expression", start)
        return Watermark(column=column, expression=self.source_from(start))

    def _partition_columns(self, columns: list[Field]) -> tuple[str, ...]:
        """Names of columns; Spark's spelling with a type declares the column, too."""
        self.need("(")
        partition_columns = []
        while True:
            name = self.name("a column")
            if self.word() not in (",", ")"):
                columns.append(self.column_rest(name))
            partition_columns.append(name)
            if not self.eat(","):
                break
        self.need(")")
        return tuple(partition_columns)

    def _like(self) -> LikeClause:
        source = self.names("the table's name")
        features: dict[str, str] = {}
        if self.eat("("):
            while not self.eat(")"):
                behaviour = self.word()
                if behaviour not in ("INCLUDING", "EXCLUDING", "OVERWRITING"):
                    self.fail("INCLUDING, EXCLUDING or OVERWRITING")
                self._advance()
                feature = self.word()
                if feature not in ("ALL", "CONSTRAINTS", "DISTRIBUTION", "GENERATED", "METADATA", "OPTIONS", "PARTITIONS", "WATERMARKS"):
                    self.fail("ALL, CONSTRAINTS, GENERATED, METADATA, OPTIONS, PARTITIONS or WATERMARKS")
                self._advance()
                features[feature] = behaviour
                self.eat(",")
        return LikeClause(source=source, features=features)

    def drop_table_or_database(self) -> exp.Expr:
        """``DROP [TEMPORARY] TABLE …`` or ``DROP DATABASE …``, from behind the first word."""
        if self.eat("DATABASE") or self.eat("SCHEMA"):
            present_only = self.eat("IF", "EXISTS")
            name = self.names("the database's name")
            cascade = self.eat("CASCADE")
            self.eat("RESTRICT")
            purge = self.eat("PURGE")
            self.finish()
            return trees.DropDatabase(name=name, if_exists=present_only, cascade=cascade, purge=purge)
        temporary = self.eat("TEMPORARY") or self.eat("TEMP")
        if not self.eat("TABLE"):
            self.refuse(f"DROP {self.word()} is not available; DROP TABLE, DROP TEMPORARY TABLE and DROP DATABASE are.")
        present_only = self.eat("IF", "EXISTS")
        name = self.names("the table's name")
        purge = self.eat("PURGE")
        self.finish()
        return trees.DropTable(name=name, temporary=temporary, if_exists=present_only, purge=purge)

    def alter_table_or_database(self) -> exp.Expr:
        """``ALTER TABLE …`` or ``ALTER DATABASE …``, from behind the first word."""
        if self.eat("DATABASE") or self.eat("SCHEMA"):
            name = self.names("the database's name")
            self.need("SET")
            self.eat("DBPROPERTIES")
            options = self.options()
            self.finish()
            return trees.AlterDatabase(name=name, set_options=options)
        if not self.eat("TABLE"):
            self.refuse(f"ALTER {self.word()} is not available; ALTER TABLE and ALTER DATABASE are.")
        present_only = self.eat("IF", "EXISTS")
        table = self.names("the table's name")
        if self.word() == "RENAME" and self.word(1) == "TO":
            self._advance(2)
            target = self.names("the new name")
            self.finish()
            return trees.AlterTable(name=table, rename_to=target, if_exists=present_only)
        if self.word() == "DROP" and self.word(1) in ("IF", "PARTITION") and "PARTITION" in (self.word(1), self.word(2), self.word(3)):
            self._advance()
            missing_ok = self.eat("IF", "EXISTS")
            partitions = self._partitions()
            self.finish()
            return trees.AlterTable(name=table, partitions=partitions, present_only=missing_ok, if_exists=present_only)
        changes = self._alteration()
        self.finish()
        return trees.AlterTable(name=table, changes=tuple(changes), if_exists=present_only)

    def _partitions(self) -> tuple[dict[str, str | bytes | None], ...]:
        """``PARTITION (column = literal, …), …``; None stands for NULL."""
        partitions: list[dict[str, str | bytes | None]] = []
        while not partitions or self.eat(","):
            self.need("PARTITION", "(")
            values: dict[str, str | bytes | None] = {}
            while not values or self.eat(","):
                name = self.name("a partition column")
                self.need("=")
                values[name] = self._literal()
            self.need(")")
            partitions.append(values)
        return tuple(partitions)

    def _literal(self) -> str | bytes | None:
        """A literal as text, or the bytes that ``x'…'`` says."""
        if self.eat("NULL"):
            return None
        self.eat("DATE") or self.eat("TIMESTAMP")
        at = self.here
        if at is not None and at.token_type == TokenType.HEX_STRING:
            try:
                said = bytes.fromhex(at.text)
            except ValueError:
                self.fail("pairs of hexadecimal digits")
            self._advance()
            return said
        if at is not None and at.token_type == TokenType.VAR and at.text.upper() not in ("TRUE", "FALSE"):
            self.fail("a literal")
        return self.key_or_value("a literal")

    def _alteration(self) -> list[SchemaChange]:
        if self.eat("SET"):
            self.eat("TBLPROPERTIES")
            return [SetOption(key=key, value=value) for key, value in self.options().items()]
        if self.eat("RESET") or self.eat("UNSET", "TBLPROPERTIES"):
            self.eat("IF", "EXISTS")
            return [RemoveOption(key=key) for key in self._keys()]
        if self.eat("COMMENT"):
            return [UpdateComment(comment=self.text("the comment"))]
        if self.eat("ADD"):
            return self._each(self._add_column)
        if self.eat("MODIFY"):
            return self._each(self._modify_column)
        if self.eat("DROP"):
            return self._drop_columns()
        if self.eat("RENAME"):
            self.eat("COLUMN")
            name = self._changed_column()
            self.need("TO")
            return [RenameColumn(name=name, to=self.name("the new name"))]
        if self.eat("ALTER") or self.eat("CHANGE"):
            self.eat("COLUMN")
            return self._alter_column()
        return self.fail("ADD, MODIFY, DROP, RENAME, ALTER COLUMN, SET, RESET or COMMENT")

    def _keys(self) -> list[str]:
        self.need("(")
        keys = [self.key_or_value("an option's key")]
        while self.eat(","):
            keys.append(self.key_or_value("an option's key"))
        self.need(")")
        return keys

    def _each(self, parse: object) -> list[SchemaChange]:
        """One column, or several in parentheses."""
        assert callable(parse)
        bare = self.eat("COLUMN")
        self.eat("COLUMNS")
        if bare or not self.eat("("):
            return list(parse())
        changes = list(parse())
        while self.eat(","):
            changes += parse()
        self.need(")")
        return changes

    def _position(self) -> Position | None:
        if self.eat("FIRST"):
            return Position(first=True)
        if self.eat("AFTER"):
            return Position(after=self.name("a column"))
        return None

    def _add_column(self) -> list[SchemaChange]:
        if self.word() in ("PRIMARY", "CONSTRAINT"):
            self.refuse(NO_KEYS)
        if self.word() == "PARTITION" or (self.word() == "IF" and self.word(3) == "PARTITION"):
            self.refuse("ALTER TABLE ADD PARTITION is not available; INSERT makes partitions.")
        self._refuse_distribution()
        if self.word() == "WATERMARK" and self.word(1) == "FOR":
            return [SetWatermark(watermark=self._watermark(), new=True)]
        column = self.column_rest(self._changed_column("a column's name"))
        if column.default_value is not None:
            self.refuse(f"ADD COLUMN takes no DEFAULT: rows from before have none. ALTER COLUMN {column.name} SET DEFAULT follows it.")
        return [AddColumn(name=column.name, type=column.type, comment=column.description, position=self._position())]

    def _modify_column(self) -> list[SchemaChange]:
        if self.word() == "WATERMARK" and self.word(1) == "FOR":
            return [SetWatermark(watermark=self._watermark(), new=False)]
        self._refuse_distribution()
        name = self._changed_column("a column's name")
        type_, said_not_null = self._type_with_nullability()
        comment = self.text("the comment") if self.eat("COMMENT") else None
        if self.word() == "DEFAULT":
            self.refuse(f"MODIFY takes no DEFAULT. ALTER COLUMN {name} SET DEFAULT is a statement of its own.")
        position = self._position()
        changes: list[SchemaChange] = [UpdateColumnType(name=name, type=type_, keep_nullability=True)]
        if said_not_null:
            changes.append(UpdateColumnNullability(name=name, nullable=False))
        if comment is not None:
            changes.append(UpdateColumnComment(name=name, comment=comment))
        if position is not None:
            changes.append(UpdateColumnPosition(name=name, position=position))
        return changes

    def _type_with_nullability(self) -> tuple[DataType, bool]:
        type_ = self.column_type()
        return type_, not type_.nullable

    def _drop_columns(self) -> list[SchemaChange]:
        if self.word() == "WATERMARK" and self.word(1) in ("", ";"):
            self._advance()
            return [DropWatermark()]
        if self.word() in ("PRIMARY", "CONSTRAINT"):
            self.refuse(f"ALTER TABLE DROP {self.word()} is not available.")
        if self.word() == "DISTRIBUTION" and self.word(1) in ("", ";"):
            self.refuse(f"{_NO_DISTRIBUTION} A column of this name is DROP COLUMN `DISTRIBUTION`.")
        self.eat("COLUMN") or self.eat("COLUMNS")
        listed = self.eat("(")
        names = [self._changed_column()]
        while listed and self.eat(","):
            names.append(self._changed_column())
        if listed:
            self.need(")")
        return [DropColumn(name=name) for name in names]

    def _changed_column(self, what: str = "a column") -> str:
        """The name of a column that is changed; one inside a ROW, which would be named by its way, is refused."""
        name = self.name(what)
        if self.word() == ".":
            self.refuse(f"Changes of what lies inside a column ({name}.…) are not available in SQL; the REST catalog's clients have them.")
        return name

    def _refuse_distribution(self) -> None:
        if self.word() == "DISTRIBUTION" and self.word(1) in ("BY", "INTO"):
            self.refuse(_NO_DISTRIBUTION)

    def _alter_column(self) -> list[SchemaChange]:
        name = self._changed_column()
        if self.eat("TYPE"):
            return [UpdateColumnType(name=name, type=self.column_type())]
        if self.eat("COMMENT"):
            return [UpdateColumnComment(name=name, comment=self.text("the comment"))]
        if self.eat("DROP", "NOT", "NULL"):
            return [UpdateColumnNullability(name=name, nullable=True)]
        if self.eat("SET", "NOT", "NULL"):
            return [UpdateColumnNullability(name=name, nullable=False)]
        if self.word() == "SET" and self.word(1) == "DEFAULT":
            self._advance()
            return [UpdateColumnDefault(name=name, default=self.default())]
        if self.eat("DROP", "DEFAULT"):
            return [UpdateColumnDefault(name=name, default=None)]
        position = self._position()
        if position is None:
            self.fail("TYPE, COMMENT, FIRST, AFTER, SET or DROP DEFAULT, SET or DROP NOT NULL")
        return [UpdateColumnPosition(name=name, position=position)]
