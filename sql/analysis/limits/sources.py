"""What a query reads from, and which of it a name means: the source that is called so, else whatever gives such a name."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from sql.analysis.limits.forms import ANY, FormNumbers, united
from sql.analysis.limits.weight import Weight, largest

Columns = dict[str, Weight]
"""What a query gives by name, and under no name what has none, with the forms of the tables it may be of."""


def as_literal(weight: Weight) -> Weight:
    return replace(weight, foldable=True, null=True)


def either(one: Weight | None, other: Weight | None) -> Weight | None:
    """Of what may be each of both: a literal where one is."""
    if one is None or other is None:
        return one or other
    return replace(largest([one, other]), foldable=one.foldable or other.foldable, null=one.null or other.null)


def called_by(weight: Weight, name: str, numbers: FormNumbers) -> Weight:
    """What ``weight``, which is of tables, gives by a name: nothing else is it."""
    if weight.forms == ANY:
        return weight
    return replace(weight, forms=united(numbers.of("given", form, name) for form in weight.forms))


def of_set(left: Columns, right: Columns, place: int, numbers: FormNumbers) -> Columns:
    """What a UNION or its like gives, called as on its left. Its columns are the same where they are in one of the two."""
    both: list[Columns] = [left, right]
    if list(left) != list(right) and (len(left) != len(right) or "" in left or "" in right):
        every = largest([*left.values(), *right.values()])
        names = dict.fromkeys(left, every)
        both = [left if every.forms != ANY else names]
    else:
        names = {name: largest([mine, other]) for (name, mine), other in zip(left.items(), right.values(), strict=True)}
    classes = list(range(len(names)))
    for columns in both:
        seen: dict[int, int] = {}
        for at, weight in enumerate(columns.values()):
            for form in () if weight.foldable else weight.forms:
                same = _class_of(seen.setdefault(form, at), classes)
                classes[_class_of(at, classes)] = same
    forms = (numbers.of("set", place, _class_of(at, classes)) for at in range(len(names)))
    return {
        name: weight if weight.foldable else replace(weight, forms=ANY if weight.forms == ANY else form)
        for (name, weight), form in zip(names.items(), forms, strict=True)
    }


def _class_of(at: int, classes: list[int]) -> int:
    while classes[at] != at:
        classes[at] = classes[classes[at]]
        at = classes[at]
    return at


class _Given:
    """By some sources together. Sources are added in the order in which they are joined."""

    def __init__(self) -> None:
        self._weights: dict[str, tuple[int, Weight]] = {}
        """By name, and the first source that gives it."""

    def add(self, at: int, columns: Columns) -> None:
        for name, weight in columns.items():
            first, before = self._weights.get(name, (at, None))
            self._weights[name] = first, either(before, weight) or weight

    def get(self, name: str, nulls: int) -> Weight | None:
        """Where sources before the one with the number ``nulls`` may have no row."""
        if name not in self._weights:
            return None
        first, weight = self._weights[name]
        return as_literal(weight) if first < nulls else weight

    def find(self, parts: list[str], nulls: int, numbers: FormNumbers) -> Weight | None:
        """What the first part names, or one of a table; what follows are fields of it."""
        column = self.get(parts[0], nulls)
        if column is not None:
            is_field = len(parts) > 1 and column.given
            return called_by(column, ".".join(parts[1:]), numbers) if is_field else column
        of_table = self.get("", nulls)
        return None if of_table is None else called_by(of_table, ".".join(parts), numbers)


class Sources:
    """Of one query, as far as they have been read."""

    def __init__(self, numbers: FormNumbers) -> None:
        self._numbers = numbers
        self._all, self._nulls, self._count = _Given(), 0, 0
        self._called: dict[str, _Given] = {}
        self._last: tuple[str, Columns] = "", {}
        self._whole: Weight | None = None
        self._columns: list[Columns] = []
        self.of_literals = True
        """Whether no row of a table is read."""
        self.empty = False
        """Whether Spark may see while it plans that they give no row together."""
        self._last_empty = False

    def add(self, called: str, columns: Columns, *, empty: bool) -> None:
        self._all.add(self._count, columns)
        self._called.setdefault(called, _Given()).add(self._count, columns)
        for weight in columns.values():
            self._whole = either(self._whole, weight)
            self.of_literals = self.of_literals and weight.constant
        self._columns.append(columns)
        self._count += 1
        self._last, self._last_empty = (called, columns), empty
        if self._count == 1:
            self.empty = empty

    def join(self, side: str, kind: str, *, never: bool) -> None:
        """Tell how the last source is joined; ``never`` says that the condition may be one that no row meets."""
        right, left = self._last_empty or never, self.empty or never
        if kind == "ANTI":
            return
        if kind == "SEMI" or side not in ("LEFT", "RIGHT", "FULL"):
            self.empty = left or right
            return
        if side != "LEFT" and left:
            self._nulls = self._count - 1
        if side != "RIGHT" and right:
            called, columns = self._last
            literals = {name: as_literal(weight) for name, weight in columns.items()}
            self._all.add(self._count - 1, literals)
            self._called[called].add(self._count - 1, literals)
            self._columns[-1] = literals
        self.empty = self.empty if side == "LEFT" else self._last_empty if side == "RIGHT" else self.empty and self._last_empty

    def called(self, parts: list[str]) -> Weight | None:
        """What a source gives that is called by one of the parts, by what follows it."""
        for at in range(len(parts) - 1):
            if parts[at] in self._called:
                found = self._called[parts[at]].find(parts[at + 1 :], self._nulls, self._numbers)
                if found is not None:
                    return found
        return None

    def named(self, parts: list[str]) -> Weight | None:
        """What sources give by one of the parts; None where at most a table may."""
        named: Weight | None = None
        for at, part in enumerate(parts):
            if self._all.get(part, self._nulls) is not None:
                named = either(named, self._all.find(parts[at:], self._nulls, self._numbers))
        return named

    def of_tables(self, parts: list[str]) -> Weight | None:
        of_table = self._all.get("", self._nulls)
        return None if of_table is None else called_by(of_table, ".".join(parts), self._numbers)

    def starred(self) -> Iterator[tuple[str, Weight]]:
        """All that they give, in turn."""
        for at, columns in enumerate(self._columns):
            for name, weight in columns.items():
                yield name, as_literal(weight) if at < self._nulls else weight

    @property
    def whole(self) -> Weight | None:
        """Of whatever they give."""
        return as_literal(self._whole) if self._whole is not None and self._nulls else self._whole
