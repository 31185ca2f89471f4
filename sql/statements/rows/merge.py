"""MERGE INTO: rows of a source matched with those of a table, by Spark."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from sqlglot import exp

from lake import LakeTable
from lake.rewrite.change_rows import Changes
from model.errors import AnalysisError
from model.snapshot import Snapshot
from sql.analysis.qualified import unqualify
from sql.analysis.references import table_references
from sql.analysis.to_spark import is_call
from sql.execution.results import ResultSet
from sql.parsing import trees
from sql.statements.base import ExecutionContext, handles
from sql.statements.rows.assignments import Assignment, Clause, Kind, assignments_of, check_values
from sql.statements.rows.changing import change, masked, reference_of, target_of

_SOURCE = "__sluice_source"
"""The column that says that a row of the source is there: its own may all be NULL."""
_MOST_CLAUSES = 100
_MOST_PARTS = 4
"""Names joined by dots that one column node holds."""


@handles(trees.MergeRows)
@dataclass(frozen=True)
class Merge:
    """``MERGE INTO t USING s ON … WHEN …``."""

    tree: trees.MergeRows
    needs_spark = True

    def run(self, context: ExecutionContext) -> ResultSet:
        """Let Spark join the rows, and write files anew with what comes of it."""
        table, rules = target_of(context, self.tree)
        for clause in _Merging(self.tree, table).clauses:
            for assignment in clause.assignments:
                if assignment.nested and assignment.field.name in rules.masks:  # its other parts would be what is shown
                    raise masked(context, table, assignment.field.name)
        return change(context, self.tree, table, partial(self.find, context))

    def find(self, context: ExecutionContext, table: LakeTable, snapshot: Snapshot | None) -> Changes:
        """What the source means for the rows of a snapshot."""
        from sql.spark.write.changes import changes_of

        merging = _Merging(self.tree, table)
        query, values, clauses = merging.query, merging.values(), merging.clauses
        rules = context.lake.read_rules(table)
        return changes_of(context, query, values, table, snapshot, rules, clauses, clause=merging.clause(), once=merging.once)


def explained(tree: trees.MergeRows, table: LakeTable) -> exp.Select:
    """The query whose plan EXPLAIN shows: the join, and what the clauses look at."""
    return _Merging(tree, table).query


class _Merging:
    """A MERGE over the columns its table has."""

    def __init__(self, tree: trees.MergeRows, table: LakeTable) -> None:
        self.query: exp.Select = tree.this.copy()
        self._table = table
        self._whens: Sequence[trees.When] = tree.args["whens"]
        self._reference = reference_of(self.query)
        target, (join,) = self.query.args["from_"].this, self.query.args["joins"]
        self._target, self._source = str(target.alias_or_name), str(join.this.alias_or_name)
        if self._target == self._source:
            raise AnalysisError(f"The table and the source are both {self._source}; give one of them another name with AS.")
        # The source is wrapped below and has one name then.
        unqualify(self.query, [reference for reference in table_references(self.query) if reference.node is join.this])
        self._source = str(join.this.alias_or_name)
        self._values: list[exp.Expr] = list(self.query.expressions)
        check_values(self._values)
        self._check_whens()
        for when in self._whens:
            self._resolve(when)
        self.clauses = tuple(self._clause(when) for when in self._whens)
        _marked(join)

    @property
    def once(self) -> bool:
        """Whether a row of the table may be matched once only: not where it is deleted in any case, as in Spark."""
        matched = [when for when in self._whens if when.matched]
        return not (len(matched) == 1 and matched[0].action == "DELETE" and matched[0].condition is None) and bool(matched)

    def _check_whens(self) -> None:
        if len(self._whens) > _MOST_CLAUSES:
            raise AnalysisError(f"A MERGE has at most {_MOST_CLAUSES} WHEN clauses.")
        for matched, by_source in ((True, False), (False, False), (False, True)):
            of_kind = [when for when in self._whens if (when.matched, when.by_source) == (matched, by_source)]
            if any(when.condition is None for when in of_kind[:-1]):
                raise AnalysisError(
                    "Only the last WHEN clause of its kind may stand without a condition: those behind it would never apply."
                )

    def _clause(self, when: trees.When) -> Clause:
        kind = Kind(when.action)
        if kind is Kind.DELETE:
            return Clause(kind=kind)
        if when.targets is None:
            columns = [exp.column(field.name, table=self._source, quoted=True) for field in self._table.schema.fields]
            first = len(self._values)
            self._values += columns
            fields = enumerate(self._table.schema.fields, first)
            return Clause(kind=kind, assignments=tuple(Assignment(field=field, value=at) for at, field in fields))
        assignments = assignments_of(self._table, self._reference, when.targets)
        if kind is Kind.INSERT:
            self._check_inserted(assignments)
        return Clause(kind=kind, assignments=assignments)

    def _check_inserted(self, assignments: Sequence[Assignment]) -> None:
        named = {assignment.field.name for assignment in assignments}
        fields = self._table.schema.fields
        missing = [f.name for f in fields if not f.type.nullable and f.default_value is None and f.name not in named]
        if missing:
            raise AnalysisError(f"Column {missing[0]} of {self._table.identifier} is NOT NULL and gets no value.", fragment=missing[0])

    def _resolve(self, when: trees.When) -> None:
        """Names in a clause of rows that have one side only mean that side, as in Spark."""
        if when.matched:
            return
        here, other = (self._target, self._source) if when.by_source else (self._source, self._target)
        for at in _places(when):
            for column in list(_columns(self._values[at])):
                if self._is_call(column):
                    continue
                names = [part.name for part in column.parts]
                if len(names) > 1 and names[0] == other:
                    side = "the table" if when.by_source else "the source"
                    raise AnalysisError(f"{column.sql('spark')} has no value there: only {side} has such rows.", fragment=column.name)
                whole = when.by_source and any(len(names) > n and tuple(names[:n]) == tuple(self._reference.parts[-n:]) for n in (2, 3))
                if (len(names) == 1 or names[0] != here) and len(names) < _MOST_PARTS and not whole:
                    _qualify(column, here)

    def _is_call(self, column: exp.Column) -> bool:
        """Whether a name alone is a call to Spark, which takes ``CURRENT_TIME`` for one where no column is called so."""
        if column.sql().upper() == "CURRENT_TIME":
            return all(name.upper() != "CURRENT_TIME" for name in self._table.schema.field_names)
        return is_call(column)

    def values(self) -> list[exp.Expr]:
        """The values, each only looked at for rows of its clause: another row's may be an error."""
        clauses = {at: number for number, clause in enumerate(self.clauses) for at in _values_of(clause)}
        clause = exp.column("__sluice_clause", quoted=True)
        return [
            exp.Case(ifs=[exp.If(this=exp.EQ(this=clause.copy(), expression=exp.Literal.number(clauses[at])), true=value.copy())])
            if at in clauses
            else exp.Null()
            for at, value in enumerate(self._values)
        ]

    def clause(self) -> exp.Expr:
        """Which clause a row is for: the first of its kind whose condition is true."""
        there = exp.Is(this=exp.column(_SOURCE, table=self._source, quoted=True), expression=exp.Null())
        row = exp.Is(this=exp.column("__sluice_file", table=self._target, quoted=True), expression=exp.Null())
        ifs = [
            (row, self._first(matched=False, by_source=False)),
            (there, self._first(matched=False, by_source=True)),
        ]
        one_side = [exp.If(this=condition, true=number) for condition, number in ifs if number is not None]
        both = self._first(matched=True, by_source=False)
        return exp.Case(ifs=one_side, default=both) if one_side else both or exp.Null()

    def _first(self, *, matched: bool, by_source: bool) -> exp.Expr | None:
        ifs = [
            exp.If(this=exp.true() if when.condition is None else self._values[when.condition].copy(), true=exp.Literal.number(number))
            for number, when in enumerate(self._whens)
            if (when.matched, when.by_source) == (matched, by_source)
        ]
        if not ifs:
            return None
        return exp.Case(ifs=ifs, default=exp.Neg(this=exp.Literal.number(1)) if matched else None)


def _places(when: trees.When) -> Iterator[int]:
    """Which of the query's expressions are the clause's."""
    if when.condition is not None:
        yield when.condition
    yield from (at for _, at in when.targets or () if at is not None)


def _values_of(clause: Clause) -> Iterator[int]:
    for assignment in clause.assignments:
        if assignment.value is not None:
            yield assignment.value
        yield from (at for _, at in assignment.parts if at is not None)


def _columns(value: exp.Expr) -> Iterator[exp.Column]:
    """The columns an expression names outside of queries inside it, which have names of their own."""
    for node in value.walk(prune=lambda node: isinstance(node, exp.Query)):
        if isinstance(node, exp.Column):
            yield node


def _qualify(column: exp.Column, table: str) -> None:
    """Put the table's name before a column's, or before that of the ROW it is a part of."""
    names = [exp.to_identifier(table, quoted=True), *(part.copy() for part in column.parts)]
    for key, part in zip(("this", "table", "db", "catalog"), reversed(names), strict=False):
        column.set(key, part)


def _marked(join: exp.Join) -> None:
    """Let the source have a column that says that a row of it is there."""
    source = join.this
    alias = source.args.get("alias") or exp.TableAlias(this=exp.to_identifier(source.name, quoted=True))
    names = alias.args.get("columns")
    if names:
        alias.set("columns", [*names, exp.to_identifier(_SOURCE, quoted=True)])
    inner = source.copy()
    if isinstance(inner, exp.Table):
        inner.set("alias", None)
    else:
        inner.set("alias", exp.TableAlias(this=exp.to_identifier("__sluice_rows", quoted=True)))
    marked = exp.select(exp.Star(), exp.alias_(exp.true(), _SOURCE, quoted=True)).from_(inner)
    source.replace(exp.Subquery(this=marked, alias=alias))
