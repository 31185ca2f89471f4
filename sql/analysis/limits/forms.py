"""Which expressions of a query may be the same one, whatever their columns are called: Spark compares what names stand for.

A form is a number; an expression has several where it is not told which column a name means. Two that share one may be the same. Order
inside an expression does not count, as Spark sorts what it compares: some are taken for the same that are not.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator

from sqlglot import exp

Forms = frozenset[int]
ANY: Forms = frozenset({0})
"""Of what may be any expression."""
_MOST = 32
"""Forms that are told apart; of more it is not told which one is meant."""
_SAME_VALUE = (exp.Paren, exp.Alias, exp.Cast, exp.TryCast)
_SAME_CALLS = frozenset({"lower", "upper", "lcase", "ucase"})
"""Spark takes these away where they change nothing, or where one around them does it anew."""


class FormNumbers:
    """The numbers of the forms of one statement."""

    def __init__(self) -> None:
        self._numbers: dict[Hashable, int] = {}
        self._of_denied: dict[int, Forms] = {}

    def of(self, *parts: Hashable) -> Forms:
        """What is made of such parts."""
        return frozenset({self._numbers.setdefault(parts, len(self._numbers) + 1)})

    def within(self, place: int, forms: Forms) -> Forms:
        """What a mention of a query gives, of which another mention gives other values: equal are those of one mention alone."""
        return forms if forms == ANY else united(self.of("within", place, one) for one in forms)

    def of_node(self, node: exp.Expr, name: str | None, inside: Iterable[Forms]) -> Forms:
        """What ``node`` makes of expressions with the forms ``inside``."""
        parts = list(inside)
        if isinstance(node, exp.Literal):
            return self.of("literal", bool(node.is_string), node.name)
        if isinstance(node, exp.Not):
            self._of_denied[id(node)] = parts[0]
            if isinstance(inner := without_parentheses(node.this), exp.Not):
                return self._of_denied[id(inner)]
        if parts and (isinstance(node, _SAME_VALUE) or name in _SAME_CALLS):
            return parts[0]
        return self.of(type(node).__name__, name, tuple(sorted(tuple(sorted(part)) for part in parts)))


def may_be_same(one: Forms, other: Forms) -> bool:
    return bool(one & other) or bool((one | other) & ANY)


def united(forms: Iterable[Forms]) -> Forms:
    """Of what may be each of several."""
    together: Forms = frozenset()
    for one in forms:
        together |= one
        if len(together) > _MOST:
            return ANY
    return together


def without_parentheses(node: exp.Expr) -> exp.Expr:
    while isinstance(node, exp.Paren):
        node = node.this
    return node


def joined(node: exp.Connector) -> Iterator[exp.Expr]:
    """The conditions that ANDs, or ORs, join, without their parentheses."""
    stack: list[exp.Expr] = [node]
    while stack:
        one = without_parentheses(stack.pop())
        if isinstance(one, type(node)):
            stack += [one.right, one.left]
        else:
            yield one
