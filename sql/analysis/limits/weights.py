"""How large the values of a query's expressions may be: by the literals in them, and as a multiple of what a row gives.

A column is looked up in the query that makes it; where its name does not tell which one is meant, the largest counts.
"""

from __future__ import annotations

from dataclasses import replace
from math import inf

from sqlglot import exp

from sql.analysis.limits.folding import limit_of, may_be_never, may_be_null, may_fold, same_as
from sql.analysis.limits.forms import ANY, FormNumbers, Forms, united
from sql.analysis.limits.growth import FIXED, KEEPING, ROWS, TIMES, UNKNOWN
from sql.analysis.limits.scopes import Scope, innermost_first
from sql.analysis.limits.sequences import MOST_ELEMENTS, seconds_of
from sql.analysis.limits.sources import Columns, Sources, as_literal, called_by, either, of_set
from sql.analysis.limits.spelled import in_lambda, literal_size, number_of
from sql.analysis.limits.weight import MOST_GROWTH, Weight, largest, product, summed

ELEMENT = 16
"""Bytes that an element of an array takes at least."""
MOST_FORMAT = 10_000
"""Bytes of a format that is no literal."""
_NUMBER = 16
_SOME = 100_000
"""Elements of a sequence whose ends are computed."""
_REDUCING = frozenset({"aggregate", "reduce"})
_TRANSFORMING = frozenset({"transform", "transform_keys", "transform_values", "zip_with", "map_zip_with"})
_MAKING = frozenset({"array", "struct", "named_struct", "map"})
_NAMES: dict[type[exp.Expr], str] = {
    exp.DPipe: "concat", exp.Concat: "concat", exp.Transform: "transform", exp.Array: "array", exp.Struct: "struct", exp.Map: "map",
    exp.VarMap: "map", exp.Overlay: "overlay",
}  # fmt: skip
_FIXED_NODES = (
    exp.Predicate, exp.Connector, exp.Not, exp.Count, exp.Sum, exp.Avg, exp.Extract, exp.StrPosition, exp.Exists, exp.CurrentDate,
    exp.CurrentTimestamp, exp.Interval, exp.Boolean, exp.Null,
)  # fmt: skip
_ARITHMETIC = (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod, exp.IntDiv, exp.Neg, exp.BitwiseAnd, exp.BitwiseOr, exp.BitwiseXor)
_CONDITIONS = (exp.Join, exp.Where, exp.Having)
_BY_ROWS = (exp.Count, exp.Sum, exp.Avg, exp.Max, exp.Min, exp.Window)
_GIVEN = Weight(grown=1.0, constant=False, foldable=False)


def name_of(node: exp.Expr) -> str | None:
    """The function that a node calls, None for what is no call."""
    return node.name.lower() if isinstance(node, exp.Anonymous) else _NAMES.get(type(node))


class Weights:
    """Of every node of a tree, in which no guard stands yet."""

    def __init__(self, tree: exp.Expr, most: float, most_in_lambda: float) -> None:
        self._most, self._most_in_lambda = most, most_in_lambda
        self._weights: dict[int, Weight] = {}
        self._numbers = FormNumbers()
        self._large: set[int] = set()
        self._columns: dict[int, Columns] = {}
        self._sources: dict[Scope, Sources] = {}
        self._empty: set[int] = set()
        self._listed: set[Scope] = set()
        """Queries whose columns have been read."""
        self._aliases: dict[Scope, Columns] = {}
        self._has_lambdas = tree.find(exp.Lambda) is not None
        self._parameters = {name.name.lower() for lambda_ in tree.find_all(exp.Lambda) for name in lambda_.expressions}
        recursive = any(with_.args.get("recursive") for with_ in tree.find_all(exp.With))
        self._given = replace(_GIVEN, grown=inf) if recursive else _GIVEN
        self._unknown = replace(self._given, forms=self._numbers.of("table", 0))
        self.most_copied = 0.0
        """Words that writing out what is called by a name adds to a condition, a value of literals, or one whose type grows with it."""
        self._copies: dict[int, float] = {}
        self._passed: dict[int, set[str]] = {}
        made, together = dict[int, float](), dict[int, float]()
        for node, scope, inner in innermost_first(tree):
            cte = scope.named(node) if isinstance(node, exp.Table) else None
            if isinstance(node, exp.Query | exp.CTE | exp.Lateral | exp.Table) and self._is_empty(node, cte, inner):
                self._empty.add(id(node))
            weight, name = self._weight(node, scope), name_of(node)
            if not isinstance(node, exp.Column | exp.Identifier | exp.Query):
                counts_none = isinstance(node, exp.Count) and all(self.of(child).null for child in node.iter_expressions())
                of_rows = (isinstance(node, _BY_ROWS) or name in ROWS) and not counts_none
                foldable, null = not of_rows and may_fold(node, name, self.of), not of_rows and may_be_null(node, name, self.of)
                forms = self._forms_of(node, name)
                limit = limit_of(node, name, self.of)
                weight = replace(weight, words=self._words_of(node), foldable=foldable, null=null, forms=forms, limit=limit)
            self._weights[id(node)] = weight
            copied = self._copied(node, scope)
            self.most_copied = max(self.most_copied, copied)
            written = copied if isinstance(node, _CONDITIONS) else 0.0
            if weight.foldable and node.arg_key == "expressions" and isinstance(node.parent, exp.Select):
                written += 0.0 if self._passes_on(node) else self._copies[id(node)]
            self._finish(node, cte, scope, inner)
            inside = [id(child) for child in node.iter_expressions() if not isinstance(child, exp.With)]
            inside += [id(cte)] if cte is not None else []
            together[id(node)] = written + sum(together[child] for child in inside)
            is_computed = name is not None and (weight.constant or name == "sequence")
            made[id(node)] = weight.made if is_computed else sum(made[child] for child in inside)
        self.copied = together[id(tree)]
        """Words that writing out adds to conditions and to what is made of literals, in all mentions of what WITH names together."""
        self.made = made[id(tree)]
        """Bytes that Spark makes of a statement's literals while it plans: each mention of what WITH names makes them anew."""

    def of(self, node: exp.Expr) -> Weight:
        return self._weights[id(node)]

    # Queries and what they give

    def _finish(self, node: exp.Expr, cte: exp.CTE | None, scope: Scope, inner: Scope) -> None:
        if isinstance(node, exp.Alias):
            self._aliases.setdefault(scope, {})[node.alias.lower()] = self.of(node)
        if isinstance(node.parent, exp.Select) and node is node.parent.expressions[-1]:
            self._listed.add(scope)
        columns = self._given_by(node, cte, inner)
        if isinstance(node, exp.Join) and scope in self._sources:
            on = node.args.get("on")
            never = isinstance(on, exp.Expr) and may_be_never(on, self.of)
            self._sources[scope].join(node.side, node.kind, never=never)
        if isinstance(node, exp.CTE):
            scope.finished(node)
        if columns is not None:
            self._columns[id(node)] = columns
            if _is_source(node):
                sources = self._sources.setdefault(scope, Sources(self._numbers))
                sources.add(node.alias_or_name.lower(), columns, empty=id(node) in self._empty)

    def _given_by(self, node: exp.Expr, cte: exp.CTE | None, inner: Scope) -> Columns | None:
        match node:
            case exp.Select():
                return self._selected(node, inner)
            case exp.SetOperation():
                return of_set(self._columns[id(node.left)], self._columns[id(node.right)], id(node), self._numbers)
            case exp.CTE() | exp.Subquery():
                return _renamed(node, self._columns.get(id(node.this)) or {})
            case exp.Table():
                return _renamed(node, self._mentioned(node, cte)) if cte is not None else self._of_table(node)
            case exp.Lateral():
                return self._columns.get(id(node.this)) or {"": replace(self.of(node.this), forms=self._numbers.of("table", id(node)))}
            case exp.Values():
                return {"": replace(self.of(node), words=1.0, foldable=False, forms=self._numbers.of("table", id(node)))}
        return None

    def _mentioned(self, table: exp.Table, cte: exp.CTE) -> Columns:
        columns = self._columns[id(cte)]
        numbers, place = self._numbers, id(table)
        return {name: one if one.foldable else replace(one, forms=numbers.within(place, one.forms)) for name, one in columns.items()}

    def _of_table(self, node: exp.Table) -> Columns:
        given = self._given if isinstance(node.this, exp.Identifier) else replace(self.of(node.this), constant=False, foldable=False)
        return {"": replace(given, forms=self._numbers.of("table", id(node)))}

    def _selected(self, select: exp.Select, inner: Scope) -> Columns:
        columns: Columns = {}
        for column in select.expressions:
            if column.is_star:
                for name, weight in self._sources[inner].starred() if inner in self._sources else ():
                    before = columns.get(name)
                    columns[name] = largest([weight, *([before] if before is not None else [])])
                    if name == "" and before is not None and before.forms & weight.forms:  # it gives the columns of a table twice
                        columns[name] = replace(columns[name], forms=ANY)
            else:
                name = column.alias_or_name.lower() if isinstance(column, exp.Alias | exp.Column) else ""
                columns[name] = largest([self.of(column), *([columns[name]] if name in columns else [])])
        if any(join.args.get("pivots") for join in select.args.get("joins") or ()):  # behind a JOIN: what it names there is what it makes
            columns = {"": largest(columns.values())}
        return columns

    def _is_empty(self, node: exp.Expr, cte: exp.CTE | None, inner: Scope) -> bool:
        """Whether Spark may see while it plans that a query gives no row: an outer join and a scalar query give NULLs in its place."""
        limit = node.args.get("limit")
        if limit is not None and number_of(limit.expression) == 0:
            return True
        match node:
            case exp.Select():
                sources = self._sources.get(inner)
                conditions = [node.args[key].this for key in ("where", "having") if node.args.get(key) is not None]
                if conditions and (sources is None or sources.of_literals):
                    return True
                return (sources is not None and sources.empty) or any(may_be_never(condition, self.of) for condition in conditions)
            case exp.SetOperation():
                left, right = id(node.left) in self._empty, id(node.right) in self._empty
                return (left or right) if isinstance(node, exp.Intersect) else left and (right or isinstance(node, exp.Except))
            case exp.CTE() | exp.Subquery() | exp.Lateral():
                return id(node.this) in self._empty
            case exp.Table():
                return cte is not None and id(cte) in self._empty
        return False

    def _of_column(self, column: exp.Column, scope: Scope) -> Weight:
        parts = [part.name.lower() for part in column.parts]
        if (parameter := self._of_parameter(column, parts[0])) is not None:
            return parameter
        around: Scope | None = scope
        while around is not None and len(parts) > 1:
            found = self._sources[around].called(parts) if around in self._sources else None
            if found is not None:
                return found
            around = around.around
        found = self._named(parts, scope)
        return found if found is not None else called_by(self._unknown, ".".join(parts), self._numbers)

    def _named(self, parts: list[str], scope: Scope) -> Weight | None:
        """What no source's name tells: of the innermost query that has it, or of a table that may."""
        found: Weight | None = None
        around: Scope | None = scope
        while around is not None:
            sources = self._sources.get(around)
            named = sources.named(parts) if sources is not None else None
            if named is None or around in self._listed:  # among its columns a query's names come behind those of what it reads
                for part in parts:
                    named = either(named, self._aliases.get(around, {}).get(part))
            if sources is not None:
                found = either(found, sources.of_tables(parts))
            if named is not None:
                return either(found, named)
            around = around.around
        around = scope
        while found is None and around is not None:  # a name that nothing here gives: of a pivot, or of a column that was renamed
            found = self._sources[around].whole if around in self._sources else None
            around = around.around
        return found

    def _of_parameter(self, mention: exp.Expr, name: str) -> Weight | None:
        lambda_ = mention.find_ancestor(exp.Lambda) if name in self._parameters else None
        while lambda_ is not None:
            if any(one.name.lower() == name for one in lambda_.expressions):
                call = lambda_.parent
                assert call is not None
                arrays = [self._weights.get(id(one), Weight()) for one in call.iter_expressions() if not isinstance(one, exp.Lambda)]
                grown = inf if name_of(call) in _REDUCING else 1.0
                given = Weight(grown=grown, constant=all(array.constant for array in arrays))
                return replace(given, forms=self._numbers.of("given", id(lambda_), name))
            lambda_ = lambda_.find_ancestor(exp.Lambda)
        return None

    # Expressions

    def _weight(self, node: exp.Expr, scope: Scope) -> Weight:
        if isinstance(node, exp.Literal):
            return Weight(made=_NUMBER if not node.is_string else literal_size(node) or 0)
        if isinstance(node, exp.Column):
            return self._of_column(node, scope)
        if isinstance(node, exp.Identifier) and not isinstance(node.parent, exp.Column | exp.Lambda | exp.TableAlias):
            # The parser makes a name of what a lambda is given.
            return self._of_parameter(node, node.name.lower()) or Weight()
        if isinstance(node, exp.Query) and id(node) not in self._columns:
            weight = largest(self._weights[id(one)] for one in node.selects) if node.selects else self._given
            if id(node) in self._empty:
                weight = replace(as_literal(weight) if _is_scalar(node) else weight, empty=True)
            return weight
        inside = [self._weights[id(child)] for child in node.iter_expressions()]
        constant = all(one.constant for one in inside) and not isinstance(node, _BY_ROWS)
        if isinstance(node, _FIXED_NODES + _ARITHMETIC):
            return Weight(made=_NUMBER, constant=constant)
        name = name_of(node)
        if name is None:
            return replace(largest(inside), constant=constant)
        called = self._called(name, node, inside)
        weight = replace(called, constant=constant and called.constant and name not in ROWS)
        limit = self._limit(node)
        if name in KEEPING or name in FIXED:
            return weight
        if weight.made > limit or weight.grown > MOST_GROWTH:
            self._large.add(id(node))
        return weight.capped(inf if weight.made < inf and weight.constant else limit)

    def _forms_of(self, node: exp.Expr, name: str | None) -> Forms:
        own = self._numbers.of_node(node, name, [self.of(child).forms for child in node.iter_expressions()])
        return united([own, same_as(node, name, self.of)])

    def _words_of(self, node: exp.Expr) -> float:
        if isinstance(node, exp.Literal | exp.Count | exp.Sum | exp.Avg | exp.Max | exp.Min | exp.Window) or name_of(node) in ROWS:
            return 1.0  # no condition goes below what is made of several rows
        return 1.0 + sum(self._weights[id(child)].words for child in node.iter_expressions() if not isinstance(child, exp.With))

    def _copied(self, node: exp.Expr, scope: Scope) -> float:
        """Words that writing out adds to a condition, to a value of literals, or to one whose type grows with it."""
        if isinstance(node, exp.Join):
            using = node.args.get("using") or ()
            own = sum(self._of_column(exp.column(name.name), scope).words - 1 for name in using)
        elif isinstance(node, exp.Column | exp.Query):
            own = self.of(node).words - 1
        else:
            own = sum(self._copies.get(id(child), 0.0) for child in node.iter_expressions())
        self._copies[id(node)] = own
        condition = node.args.get("on") if isinstance(node, exp.Join) else node
        is_written_out = isinstance(node, _CONDITIONS) or name_of(node) in _MAKING or self.of(node).foldable
        return max(own, self._copies.get(id(condition), 0.0)) if is_written_out else 0.0

    def _passes_on(self, node: exp.Expr) -> bool:
        """Whether a query gives a column of the one inside and has not given it before: as with ``*`` there is one of it as before."""
        column = node.unalias()
        if not isinstance(column, exp.Column):
            return False
        passed = self._passed.setdefault(id(node.parent), set())
        is_first = column.name.lower() not in passed
        passed.add(column.name.lower())
        return is_first

    def is_large(self, node: exp.Expr) -> bool:
        """Whether a call could make more than a function makes here."""
        return id(node) in self._large

    def _limit(self, node: exp.Expr) -> float:
        # A text of thousands of calls has no lambda, and is deep: only where there is one it is looked for.
        return self._most_in_lambda if self._has_lambdas and in_lambda(node) else self._most

    def _called(self, name: str, node: exp.Expr, inside: list[Weight]) -> Weight:
        arguments = list(node.expressions)
        if name in FIXED:
            return Weight(made=4 * _NUMBER)
        if name in _TRANSFORMING or name in _REDUCING:
            return _by_lambdas(name, list(node.iter_expressions()), inside)
        if name in _MAKING:
            return replace(summed(inside, ELEMENT), elements=len(arguments) if name == "array" else None)
        if name in KEEPING:
            return replace(largest(inside), elements=None)
        if name == "sequence":
            return _sequence(arguments)
        if name in BY_COUNT and len(arguments) == len(inside):
            return _by_count(name, arguments, inside)
        if name in ("format_string", "printf") and len(inside) > 1:
            return summed([inside[0], largest(inside[1:]).times(_most_mentions(arguments[0], inside[0]))])
        if name == "concat_ws" and len(inside) > 1:
            return summed([*inside[1:], inside[0].times(max(len(inside), *map(_elements, inside[1:])))])
        if name == "array_join" and len(inside) > 1:
            return summed([inside[0], summed(inside[1:]).times(max(_elements(inside[0]), 1))])
        return summed(inside).times(max(TIMES.get(name, UNKNOWN), _by_replacing(name, arguments)))


BY_COUNT = {"repeat": 1, "array_repeat": 1, "space": 0, "lpad": 1, "rpad": 1, "randstr": 0, "format_number": 1, "array_insert": 1}
"""Which of the arguments tells how many."""


def _by_count(name: str, arguments: list[exp.Expr], inside: list[Weight]) -> Weight:
    at = BY_COUNT[name]
    count = number_of(arguments[at]) if at < len(arguments) else None
    others = summed(one for place, one in enumerate(inside) if place != at)
    if count is None:
        return Weight(made=inf, grown=inf)
    if name in ("repeat", "array_repeat"):
        many = others.times(abs(count)) if name == "repeat" else summed([others], ELEMENT).times(abs(count))
        return replace(many, elements=abs(count) if name == "array_repeat" else None)
    return replace(others, made=others.made + abs(count) * (ELEMENT if name == "array_insert" else 1), elements=None)


def _sequence(arguments: list[exp.Expr]) -> Weight:
    """A guard bounds it where literals do not tell how many there are: then nothing is refused for so many."""
    ends = [number_of(bound) for bound in arguments[:2]]
    step = _step_of(arguments[2]) if len(arguments) > 2 else 1.0
    if len(ends) < 2 or None in ends or not step:
        return Weight(made=ELEMENT * _SOME, elements=_SOME, constant=False)
    count = min(abs((ends[1] or 0.0) - (ends[0] or 0.0)) / abs(step) + 1, MOST_ELEMENTS)  # more of them raise
    return Weight(made=ELEMENT * count, elements=count)


def _step_of(node: exp.Expr) -> float | None:
    """A number, or the days of an interval that is spelled out."""
    unsigned = node
    while isinstance(unsigned, exp.Neg | exp.Paren):
        unsigned = unsigned.this
    return seconds_of(unsigned) / 86400 if isinstance(unsigned, exp.Interval) else number_of(node)


def _is_source(node: exp.Expr) -> bool:
    """Whether a query reads from it; in parentheses, what is joined in them."""
    if isinstance(node.parent, exp.Subquery):
        return isinstance(node, exp.Table) or bool(isinstance(node, exp.Subquery) and node.args.get("joins"))
    return isinstance(node.parent, exp.From | exp.Join | exp.Select) and node.arg_key in ("this", "laterals")


def _is_scalar(query: exp.Query) -> bool:
    """Whether it stands for a value."""
    beside = exp.From, exp.Join, exp.CTE, exp.Query, exp.Lateral, exp.Exists, exp.DDL
    return isinstance(query, exp.Subquery) and query.parent is not None and not isinstance(query.parent, beside)


def _most_mentions(form: exp.Expr, weight: Weight) -> float:
    """How often a format may mention one argument: two bytes do."""
    if isinstance(form, exp.Literal):
        return form.name.count("%")
    return weight.made / 2 if weight.constant else MOST_FORMAT / 2


def _by_replacing(name: str, arguments: list[exp.Expr]) -> float:
    """How many times as long as it was a text is behind it."""
    if name not in ("replace", "regexp_replace") or len(arguments) < 3:
        return 1
    by, pattern = literal_size(arguments[2]), literal_size(arguments[1])
    if by is None:
        return inf
    return by + 1 if name == "regexp_replace" else by / max(pattern or 1, 1)


def _by_lambdas(name: str, arguments: list[exp.Expr], inside: list[Weight]) -> Weight:
    bodies = [weight for one, weight in zip(arguments, inside, strict=True) if isinstance(one, exp.Lambda)]
    weights = [weight for one, weight in zip(arguments, inside, strict=True) if not isinstance(one, exp.Lambda)]
    if name in _REDUCING:
        return summed([*weights, *bodies])
    array, body = summed(weights), summed(bodies)
    elements = weights[0].elements if weights else None
    many = _elements(weights[0]) if weights else 1.0
    made = product(many, max(ELEMENT, body.made)) + product(array.made, body.grown)
    of_rows = array.grown * max(1.0, body.made / ELEMENT) + product(array.grown, body.grown)
    return Weight(made=made, grown=of_rows if elements is None else max(of_rows, product(elements, body.grown)), elements=elements)


def _elements(array: Weight) -> float:
    return array.elements if array.elements is not None else array.made / ELEMENT


def _renamed(node: exp.Expr, columns: Columns) -> Columns:
    """As they are called outside of a query that has an alias."""
    alias = node.args.get("alias")
    names = [column.name.lower() for column in alias.args.get("columns") or ()] if isinstance(alias, exp.TableAlias) else []
    if node.args.get("pivots") or (names and (len(names) != len(columns) or "" in columns)):
        return {"": largest(columns.values())} if columns else {}
    return dict(zip(names, columns.values(), strict=True)) if names else columns
