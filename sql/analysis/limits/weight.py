"""How large a value may be, and sums and maxima of such sizes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from math import inf

from sql.analysis.limits.forms import Forms, united

MOST_GROWTH = 1024
"""What a row gives is taken for 32 kB: so many times as much is what a function may make."""


@dataclass(frozen=True, slots=True)
class Weight:
    """At most so large is a value."""

    made: float = 0.0
    """Bytes that come of literals."""
    grown: float = 0.0
    """How many times as much as a row gives."""
    constant: bool = True
    """Whether no row has a part in it, so that Spark computes it while it plans."""
    foldable: bool = True
    """Whether it may become a literal while Spark plans, not one of rows: such a one is written out at each mention, whatever it is for."""
    null: bool = False
    """Whether it may be NULL in every row."""
    empty: bool = False
    """Of a query: whether Spark may see while it plans that it gives no row."""
    limit: float = inf
    """The largest number of its type, where that is known to be an integer's."""
    elements: float | None = None
    """Of an array, where they are known."""
    forms: Forms = frozenset()
    """What it may be where names are written out; nothing of what a table, or a generator, gives by a name."""
    words: float = 1.0
    """Of the expression, with what inner queries call by a name written out each time, as Spark does where it filters early."""

    def times(self, factor: float) -> Weight:
        return replace(self, made=product(self.made, factor), grown=product(self.grown, factor), elements=None)

    def capped(self, most: float) -> Weight:
        """As large as a guard lets it be."""
        return replace(self, made=min(self.made, most), grown=min(self.grown, MOST_GROWTH))

    @property
    def given(self) -> bool:
        """Whether it is what a table's row gives, or as good as that: of one word, and as large."""
        return self.words == 1 and self.grown >= 1


def product(one: float, other: float) -> float:
    return one * other if one and other else 0.0


def largest(weights: Iterable[Weight]) -> Weight:
    all_ = list(weights)
    return Weight(
        made=max((one.made for one in all_), default=0.0),
        grown=max((one.grown for one in all_), default=0.0),
        constant=all(one.constant for one in all_),
        foldable=all(one.foldable for one in all_),
        null=bool(all_) and all(one.null for one in all_),
        limit=min((one.limit for one in all_), default=inf),
        elements=all_[0].elements if len(all_) == 1 else None,
        forms=united(one.forms for one in all_),
        words=max((one.words for one in all_), default=1.0),
    )


def summed(weights: Iterable[Weight], each: float = 0.0) -> Weight:
    all_ = list(weights)
    return Weight(
        made=sum(one.made + each for one in all_),
        grown=sum(one.grown for one in all_),
        constant=all(one.constant for one in all_),
    )
