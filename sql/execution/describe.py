"""What a statement would answer with, told without doing it: for protocols whose clients prepare before they run."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from sql.dialect import StatementText, is_query, parse_one, split, tokens_of
from sql.execution.results import STRING, ResultColumn, ResultSet
from sql.parsing import trees
from sql.statements.base import ExecutionContext, LookingStatement, Statement

_SHAPING = frozenset({("USE",), ("SET",), ("RESET",), ("CREATE", "TEMPORARY"), ("CREATE", "TEMP")})
"""First words of what leaves something behind in its session."""
_MAY_SHAPE = re.compile(r"\b(use|set|reset|temp|temporary)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Described:
    """A statement that is described in place of being run.

    The result's ``is_query`` says whether rows are what it is for; a query without columns is one whose columns only running it tells.
    """

    tree: exp.Expr | None
    statement: Statement
    wanted: tuple[ResultColumn, ...] = ()

    @property
    def needs_spark(self) -> bool:
        """Whether Spark must be asked for the columns."""
        return self._asks_spark

    @property
    def _asks_spark(self) -> bool:
        from sql.statements.query import Query

        return isinstance(self.statement, Query)

    def run(self, context: ExecutionContext) -> ResultSet:
        """Tell the columns and the parameters; nothing is read or written."""
        result = self._columns(context)
        result.parameters = self.wanted
        return result

    def _columns(self, context: ExecutionContext) -> ResultSet:
        from sql.local.constants import ConstantRow
        from sql.local.scan import LocalScan, MetadataAnswer
        from sql.local.system import SystemSelect
        from sql.statements.settings import SETTINGS, SetOption
        from sql.statements.show import DescribeTable

        tree, statement = self.tree, self.statement
        if self._asks_spark:
            from sql.spark.read.analysed import analysed

            assert tree is not None
            columns, leftover = analysed(context, tree)
            result = _rows(columns)
            result.analysed = leftover
            return result
        match statement:
            case MetadataAnswer() | ConstantRow():
                return _rows(statement.columns)
            case LocalScan() | SystemSelect(counted=None):
                return _rows([ResultColumn(name, field.type) for name, field in statement.columns])
            case LookingStatement():
                return _rows(statement.columns(context))
            case DescribeTable():  # whether there is a column of comments, the table says
                with statement.run(context) as answer:
                    return _rows(answer.columns)
            case SetOption(lists=True):
                return _rows(SETTINGS)
        if isinstance(tree, trees.Explain):
            return _rows([ResultColumn("result", STRING)])
        return _unknown(tree)


def described_last(texts: Sequence[StatementText]) -> ResultSet:
    """What a text of several is for, which its last statement says; the columns may depend on what the others do first."""
    return _unknown(parse_one(texts[-1].text))


def shapes_session(text: str) -> bool:
    """Whether a text leaves something behind in its session: SET, USE, temporary tables."""
    return _MAY_SHAPE.search(text) is not None and any(_shapes(statement.text) for statement in split(text))


def _shapes(statement: str) -> bool:
    words = tuple(token.text.upper() for token in tokens_of(statement)[:2])  # a comment is none
    return words[:1] in _SHAPING or words in _SHAPING


def _rows(columns: Sequence[ResultColumn]) -> ResultSet:
    return ResultSet(columns, lambda: iter(()), is_query=True)


def _unknown(tree: exp.Expr | None) -> ResultSet:
    """Columns that only running it tells, or no rows at all: an INSERT read from its text has no tree."""
    return ResultSet(
        (), lambda: iter(()), is_query=tree is not None and (is_query(tree) or isinstance(tree, (trees.Call, trees.LookingTree)))
    )
