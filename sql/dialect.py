"""Flink SQL as a delta on sqlglot's Spark dialect: what Flink users type, with Spark's functions."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar, NoReturn

from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ParseError, SqlglotError, TokenError
from sqlglot.generators.spark import SparkGenerator
from sqlglot.parsers.spark import SparkParser
from sqlglot.tokenizer_core import Token, TokenizerCore, TokenType

from model.errors import SqlError, SqlSyntaxError, UnsupportedStatement, UnsupportedType
from model.schema.types import DataType
from sql.parameters.placeholders import NAME, Binding, question_marks
from sql.parsing.base import place_of
from sql.parsing.clauses import check_clauses
from sql.parsing.literals import LiteralParser, check_numbers, check_types
from sql.parsing.positions import place
from sql.parsing.refused import SPECIAL_CALLS
from sql.parsing.statement import StatementParser
from sql.parsing.turns import TURNS
from sql.parsing.windows import WindowParser

OPTIONS_HINT = "options"
"""Key of a table node's meta that holds the values of ``/*+ OPTIONS(…) */``."""

PLACE = "place"
"""Key of a join's and a LATERAL VIEW's meta that tells which of them was written first."""

_COMMENT = re.compile(r"--[^\n]*|/\*.*?(?:\*/|\Z)", re.DOTALL)
_HINT = re.compile(r"\s*/\*\+\s*(\w+)\s*\((.*?)\)\s*\*/", re.DOTALL)
_OPTIONS = re.compile(r"/\*\+\s*OPTIONS\b", re.IGNORECASE)
_PAIR = re.compile(rf"\s*'((?:[^']|'')*)'\s*=\s*(?:'((?:[^']|'')*)'|(\?|:{NAME}))\s*(,|$)", re.DOTALL)
_ESCAPED = re.compile(r"\\.", re.DOTALL)
_ESCAPED_QUOTE = r"\'"
"""What leaves a text open that seems to be closed."""
_ADVICE = r" A backslash escapes the quote behind it: a text that ends in a backslash is written 'C:\\'."
_UNFINISHED = re.compile(r"Required keyword: '\w+' missing for <class '[\w.]+'>")
"""sqlglot's words, which name its own classes, for an operator or a clause that ends too early."""
_MOST_NESTING = 400
"""Deeper nesting than this is no person's statement and would exhaust the parser's stack."""
MOST_NESTED_TYPES = 50
"""The parser reads the inside of a type anew at each level."""
_TEXTS = frozenset({TokenType.STRING, TokenType.RAW_STRING})
_NESTED_TYPES = frozenset({TokenType.ARRAY, TokenType.MAP, TokenType.STRUCT, TokenType.ROW})


@dataclass(frozen=True, slots=True, kw_only=True)
class StatementText:
    """One statement of a text: itself, where it begins (0-based), and on which line (1-based)."""

    text: str
    offset: int
    line: int


def _of_one(kind: type[exp.Func]) -> Callable[[list[exp.Expr]], exp.Expr]:
    """An aggregate of one argument; sqlglot would take MAX(a, b) for GREATEST."""

    def build(arguments: list[exp.Expr]) -> exp.Expr:
        return kind(this=arguments[0]) if len(arguments) == 1 else exp.Anonymous(this=kind.sql_name(), expressions=arguments)

    return build


def _refuse_window(parser: StatementParser) -> NoReturn:
    call = parser._tokens[parser._index - 2]
    name = call.text.upper()
    parser.refuse(
        f"{name} inside a query's columns or GROUP BY is not available; it stands in FROM: "
        f"FROM TABLE({name}(TABLE t, DESCRIPTOR(time), INTERVAL '1' HOUR)) GROUP BY window_start, window_end.",
        call,
    )


class FlinkParser(LiteralParser, WindowParser, StatementParser):
    """The parser of one statement."""

    # A call stays what the user wrote: sqlglot's own idea of a function loses arguments of Spark's (to_char's format) and
    # adds others (listagg's comma). Nodes are kept where the analysis looks for them, or where arguments are no plain list.
    FUNCTIONS: ClassVar[dict[str, Callable[..., exp.Expr]]] = {
        **{name: SparkParser.FUNCTIONS[name] for name in ("COUNT", "ARRAY", "MAP", "STRUCT")},
        **{kind.sql_name(): _of_one(kind) for kind in (exp.Min, exp.Max, exp.Sum, exp.Avg)},
    }
    FUNCTION_PARSERS: ClassVar[dict[str, Callable[..., exp.Expr | None]]] = {
        name: SparkParser.FUNCTION_PARSERS[name]
        for name in (
            "CAST", "TRY_CAST", "EXTRACT", "TRIM", "OVERLAY", "POSITION", "SUBSTRING", "SUBSTR",
            "BROADCAST", "BROADCASTJOIN", "MAPJOIN", "MERGE", "MERGEJOIN", "SHUFFLEMERGE", "SHUFFLE_HASH", "SHUFFLE_REPLICATE_NL",
        )
    } | dict.fromkeys(("TUMBLE", "HOP", "CUMULATE", "SESSION"), _refuse_window) | SPECIAL_CALLS  # fmt: skip
    FUNC_TOKENS: ClassVar[set[TokenType]] = {*SparkParser.FUNC_TOKENS, TokenType.SESSION}

    # Placeholders are values and stand where literals do (`_parse_primary`); sqlglot would take them for names as well.
    PLACEHOLDER_PARSERS: ClassVar[dict[TokenType, Callable[..., exp.Expr | None]]] = {
        kind: parse for kind, parse in SparkParser.PLACEHOLDER_PARSERS.items() if kind not in (TokenType.PLACEHOLDER, TokenType.COLON)
    }
    COLUMN_OPERATORS: ClassVar[dict[TokenType, Callable[..., exp.Expr] | None]] = {
        kind: parse for kind, parse in SparkParser.COLUMN_OPERATORS.items() if kind != TokenType.PLACEHOLDER
    }

    _inside = False

    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]
        self.hints: set[int] = set()
        """Where in the text the hints begin that belong to a table."""

    def _parse_statement(self) -> exp.Expr | None:
        """sqlglot comes back here for what stands in WITH and in parentheses: only queries belong there."""
        if self.here is None:
            return None
        if self._inside:
            if (word := self.word()) in ("UPDATE", "DELETE", "MERGE"):
                self.refuse(f"{word} behind WITH or in parentheses is not available; the query may stand in its WHERE, or behind USING.")
            return self.query("a query")
        self._inside = True
        return self.statement()

    def _parse_table_parts(self, *args: object, **kwargs: object) -> exp.Table | exp.Dot | None:
        table = super()._parse_table_parts(*args, **kwargs)  # type: ignore[arg-type]
        options = self._options_hint()
        if options is not None and table is not None:
            table.meta[OPTIONS_HINT] = options
        return table

    def _parse_join(self, *args: object, **kwargs: object) -> exp.Join | None:
        place = self._index
        join = super()._parse_join(*args, **kwargs)  # type: ignore[arg-type]
        if join is not None:
            join.meta[PLACE] = place
        return join

    def _parse_limit(self, *args: object, **kwargs: object) -> exp.Expr | None:
        """LIMIT n, also where FETCH FIRST n ROWS ONLY is written; what a FETCH has beside that stays, to be refused by name."""
        limit = super()._parse_limit(*args, **kwargs)  # type: ignore[arg-type]
        options = limit.args.get("limit_options") if limit is not None else None
        if options is not None and not (options.args.get("percent") or options.args.get("with_ties")):
            options.pop()
            options = None
        if not isinstance(limit, exp.Fetch) or options is not None:
            return limit
        return self.expression(exp.Limit(expression=limit.args.get("count") or exp.Literal.number(1)))

    def _parse_lateral(self) -> exp.Lateral | None:
        place = self._index
        lateral = super()._parse_lateral()
        if lateral is not None:
            lateral.meta[PLACE] = place
        return lateral

    def _options_hint(self) -> dict[str, str] | None:
        """The hint right behind the name just read; sqlglot takes it for a comment."""
        before = self._prev
        # No further than to the next word: a text with many hints that do not end would be read to its end for each.
        hint = _HINT.match(self.sql, before.end + 1, self.here.start if self.here else len(self.sql)) if before else None
        if hint is None:
            return None
        if hint[1].upper() != "OPTIONS":
            self.refuse(f"The hint {hint[1]} is not available behind a table; OPTIONS('key' = 'value') is.", before)
        options: dict[str, str] = {}
        at = 0
        while at < len(hint[2].rstrip()):
            pair = _PAIR.match(hint[2], at)
            if pair is None:
                self.fail("OPTIONS('key' = 'value', …)", before)
            options[pair[1].replace("''", "'")] = self._hint_value(pair, hint.start(2))
            at = pair.end()
        before.comments.clear()
        self.hints.add(self.sql.index("/*+", before.end + 1))
        return options

    def _hint_value(self, pair: re.Match[str], offset: int) -> str:
        if pair[3] is None:
            return pair[2].replace("''", "'")
        bound = self.bound(offset + pair.start(3), pair[3][1:] if pair[3] != "?" else None)
        return self.scalar(f"a value for '{pair[1]}'", bound)

    def _parse_primary(self) -> exp.Expr | None:
        bound = self.placeholder()
        return super()._parse_primary() if bound is None else bound.tree

    def _parse_string(self) -> exp.Expr | None:
        bound = self.placeholder()
        return super()._parse_string() if bound is None else bound.tree


class Flink(Spark):
    """Spark's dialect with Flink's statements; nothing is swallowed as an opaque command."""

    class Tokenizer(Spark.Tokenizer):
        COMMANDS: ClassVar[set[TokenType]] = set()
        # A quote doubled inside a text is one quote, in Flink and in Spark 4 alike.
        STRING_ESCAPES: ClassVar[list[str]] = ["\\", "'"]
        # t$files is one name, as in Flink.
        VAR_SINGLE_TOKENS: ClassVar[set[str]] = {"$"}
        # Two marks side by side are a placeholder and a cast, or two placeholders: no operator.
        KEYWORDS: ClassVar[dict[str, TokenType]] = {
            **{word: kind for word, kind in Spark.Tokenizer.KEYWORDS.items() if word not in ("?::", "??")},
            "BYTES": TokenType.BINARY,
            "ROW": TokenType.STRUCT,
        }

    Parser = FlinkParser

    class Generator(SparkGenerator):
        # sqlglot moves each WITH to the top, as Spark 2 wants it, where names clash and rows of the query around are not seen.
        EXPRESSIONS_WITHOUT_NESTED_CTES: ClassVar[set[type[exp.Expr]]] = set()
        # The Spark sqlglot knows has no TIME and no TIME(p); ours has.
        SUPPORTS_TEMPORAL_PRECISION = True
        TYPE_MAPPING: ClassVar[dict[exp.DType, str]] = {**SparkGenerator.TYPE_MAPPING, exp.DType.TIME: "TIME"}
        # sqlglot takes WITHIN GROUP for an approximation in Spark; Spark has the real one. And it rewrites SELECTs for Hive, leaving out
        # what it does not look at: what Spark has not is rewritten here or refused.
        TRANSFORMS: ClassVar[dict[type[exp.Expr], Callable[..., str]]] = {
            **{kind: made for kind, made in SparkGenerator.TRANSFORMS.items() if kind is not exp.Select},
            exp.WithinGroup: lambda self, node: f"{self.sql(node, 'this')} WITHIN GROUP ({self.sql(node, 'expression').strip()})",
        }


_DIALECT = Flink()


def tokens_of(text: str) -> list[Token]:
    """The words of a text; raises `SqlSyntaxError` where a quote or comment is not closed."""
    try:
        return list(_DIALECT.tokenize(text))
    except TokenError as problem:
        raise SqlSyntaxError(f"The text cannot be read: {_unclosed(text)}", line=text.count("\n") + 1) from problem


def tokenizer_core() -> TokenizerCore:
    """A tokenizer of its own, for whoever takes its words as they come."""
    core: TokenizerCore = _DIALECT.tokenizer()._core
    return core


def _unclosed(text: str) -> str:
    written = _ESCAPED.sub("", text)
    for quote, name in (("'", "a quoted text"), ("`", "a backquoted name"), ('"', "a double-quoted text")):
        if written.count(quote) % 2:
            return f"{name} is not closed.{_ADVICE if quote in _ESCAPED_QUOTE and _ESCAPED_QUOTE in text else ''}"
    return "a comment or quoted text is not closed."


def split(text: str) -> list[StatementText]:
    """The statements of a text, separated by semicolons outside quotes and comments; a statement set stays together."""
    statements: list[StatementText] = []
    current: list[Token] = []
    with TURNS.reading(len(text)):
        for token in tokens_of(text):
            if token.token_type == TokenType.SEMICOLON and not _in_set(current):
                _add(statements, text, current, token.start)
                current = []
            else:
                current.append(token)
        _add(statements, text, current, len(text))
    return statements


def _in_set(tokens: list[Token]) -> bool:
    """Whether these tokens are a statement set that has not come to its END."""
    words = [token.text.upper() for token in tokens[:4]]
    opened = words[:4] == ["EXECUTE", "STATEMENT", "SET", "BEGIN"] or words[:3] == ["BEGIN", "STATEMENT", "SET"]
    return opened and not (len(tokens) > 4 and tokens[-1].text.upper() == "END" and tokens[-2].token_type == TokenType.SEMICOLON)


def _kept_together(token: Token) -> Token:
    """A semicolon inside a statement set, under a type that does not make sqlglot begin a new statement."""
    if token.token_type != TokenType.SEMICOLON:
        return token
    return Token(TokenType.BREAK, token.text, line=token.line, col=token.col, start=token.start, end=token.end)


def _add(statements: list[StatementText], text: str, tokens: list[Token], until: int) -> None:
    if tokens:
        start, end = tokens[0].start, tokens[-1].end + 1
        # A closing comment belongs to nobody, but a hint behind the last table does.
        if hint := _HINT.match(text, end, until):
            end = hint.end()
        statements.append(StatementText(text=text[start:end], offset=start, line=text.count("\n", 0, start) + 1))


def parse_one(text: str, binding: Binding | None = None, *, stored: bool = False) -> exp.Expr:
    """The tree of one statement, the values of its placeholders in place; a long text waits for its turn.

    A ``stored`` text was taken by some version before: double quotes are texts in it, as they were.
    Raises `SqlSyntaxError`, `UnsupportedStatement` or `InvalidParameter` with line, column and fragment.
    """
    with TURNS.reading(len(text)):
        return _tree_of(text, binding, stored=stored)


def _tree_of(text: str, binding: Binding | None, *, stored: bool) -> exp.Expr:
    tokens = tokens_of(text)
    if not tokens:
        raise SqlSyntaxError("The statement is empty.", line=1, column=1)
    _check_nesting(tokens)
    check_numbers(tokens, text)
    if not stored:
        _check_quotes(tokens, text)
    tokens = [_kept_together(token) for token in tokens] if _in_set(tokens[:4]) else tokens
    parser = FlinkParser(dialect=_DIALECT)
    parser.binding, parser.question_marks = binding, question_marks(text, tokens)
    try:
        trees = parser.parse(tokens, text)
    except ParseError as problem:
        raise _syntax_error(problem, text) from problem
    except SqlglotError as problem:
        raise SqlSyntaxError(str(problem)) from problem
    except RecursionError as problem:
        raise SqlSyntaxError("The statement is nested too deeply.") from problem
    except (AttributeError, TypeError, LookupError, ValueError) as problem:  # sqlglot stumbles over some wrong texts instead of telling
        at = parser.here or tokens[-1]
        line, column = place_of(text, at)
        raise SqlSyntaxError(f"The statement cannot be read near '{at.text}'.", line=line, column=column, fragment=at.text) from problem
    _check_hints(tokens, text, parser.hints)
    present = [tree for tree in trees if tree is not None]
    if len(present) != 1:
        raise SqlSyntaxError("One statement is expected here.", line=1, column=1)
    try:
        check_clauses(present[0])
        if not stored:
            check_types(present[0])
    except UnsupportedStatement as refused:
        refused.line, refused.column = place(text, refused.fragment)
        raise
    return present[0]


def column_type(text: str) -> DataType:
    """The type a text spells as in CREATE TABLE; raises `SqlSyntaxError` or `UnsupportedType`."""
    types: list[DataType] = []
    try:
        with TURNS.reading(len(text)):
            FlinkParser(dialect=_DIALECT)._parse(lambda parser: types.append(parser.column_type()), tokens_of(text), text)  # type: ignore[attr-defined]
    except SqlError as problem:
        raise UnsupportedType(f"{text!r} is no type of a column: {problem.message}") from None
    except (SqlglotError, RecursionError):
        types = []
    if len(types) != 1:
        raise UnsupportedType(f"{text!r} is no type of a column.")
    return types[0]


def _check_hints(tokens: list[Token], text: str, taken: set[int]) -> None:
    """A hint that no table took would be ignored like a comment: refuse it."""
    gaps = zip([0, *(token.end + 1 for token in tokens)], [*(token.start for token in tokens), len(text)], strict=True)
    for start, end in gaps:
        for comment in _COMMENT.finditer(text, start, end) if start < end else ():
            if comment[0].startswith("/*+") and comment.start() not in taken:
                raise _misplaced(text, comment.start(), comment[0])
    for token in tokens:
        if token.token_type == TokenType.HINT and _OPTIONS.match(text, token.start):
            raise _misplaced(text, token.start, text[token.start : token.end + 1])


def _misplaced(text: str, at: int, hint: str) -> UnsupportedStatement:
    line, column = text.count("\n", 0, at) + 1, at - (text.rfind("\n", 0, at) + 1) + 1
    return UnsupportedStatement(
        "A hint stands directly behind a table's name: t /*+ OPTIONS('key' = 'value') */ AS x; here it would be ignored.",
        line=line,
        column=column,
        fragment=hint,
    )


def _check_quotes(tokens: list[Token], text: str) -> None:
    """Refuse double quotes, which are names to some and texts to others, and are no token of Flink's."""
    for token in tokens:
        written = text[token.start : token.end + 1]
        if token.token_type in _TEXTS and written.lstrip("rR").startswith('"'):
            line, column = place_of(text, token)
            raise SqlSyntaxError(
                "Double quotes are not read here; write 'text' in single quotes and `name` in backquotes.",
                line=line,
                column=column,
                fragment=written,
            )


def _check_nesting(tokens: list[Token]) -> None:
    depth = types = 0
    for token, following in pairwise(tokens):
        if token.token_type in _NESTED_TYPES and following.token_type == TokenType.LT:
            types += 1
            if types > MOST_NESTED_TYPES:
                raise SqlSyntaxError("A type is nested too deeply.", line=token.line, fragment=token.text)
        elif types and token.token_type == TokenType.GT:
            types -= 1
        if token.token_type in (TokenType.L_PAREN, TokenType.L_BRACKET):
            depth += 1
            if depth > _MOST_NESTING:
                raise SqlSyntaxError("The statement is nested too deeply.", line=token.line, fragment=token.text)
        elif token.token_type in (TokenType.R_PAREN, TokenType.R_BRACKET):
            depth -= 1


def _syntax_error(problem: ParseError, text: str) -> SqlSyntaxError:
    """sqlglot tells the line and the column of the fragment's end."""
    if not problem.errors:
        return SqlSyntaxError(str(problem))
    first = problem.errors[0]
    fragment = first.get("highlight") or None
    line, column = first.get("line"), first.get("col")
    if column is not None and fragment:
        column = max(1, column - len(fragment) + 1)
    what = _UNFINISHED.sub("something is missing here", str(first.get("description") or "it does not parse").rstrip("."))
    return SqlSyntaxError(f"Syntax error at '{fragment or text[:20]}': {what}.", line=line, column=column, fragment=fragment)


def is_query(tree: exp.Expr) -> bool:
    """Whether the statement only reads."""
    return isinstance(tree, exp.Query | exp.Values)
