"""Patterns that end: LIKE becomes an expression that never goes back, and regular expressions of a caller are judged or held short.

Java's expressions try every way to match. With several `%`, or a repetition inside a repetition, there are more ways than
anybody waits for, and nothing interrupts a task that tries them.
"""

from __future__ import annotations

import re
import re._constants as sre  # type: ignore[import-not-found]
from functools import partial
from typing import Any

from sqlglot import exp

from model.errors import UnsupportedStatement
from sql.analysis.limits.guards import call, guard_call, is_ours, judged, number
from sql.analysis.limits.java_syntax import NotRead, parse, unquoted
from sql.analysis.limits.spelled import arguments_of
from sql.analysis.limits.ways import MANY, Ways, looks_behind, width

_FUNCTIONS = {
    "rlike": (1,), "regexp": (1,), "regexp_like": (1,), "regexp_count": (1,), "regexp_instr": (1,), "regexp_substr": (1,),
    "regexp_extract": (1,), "regexp_extract_all": (1,), "regexp_replace": (1,), "split": (1,), "str_to_map": (1, 2),
}  # fmt: skip
"""Which arguments are regular expressions; the first is what they are looked for in."""
_ANY = 32 << 20
_CHARACTERS = {1: 1_000_000, 2: 20_000, 3: 2_000}
"""By how many unlimited repetitions a pattern has: the longest text it is tried on."""
_URLS = frozenset({"parse_url", "try_parse_url"})
_HARMLESS = r"\\.|[{](1?[0-9]|20)(,(1?[0-9]|20))?[}]"
"""Of a pattern: what is escaped, and few repetitions."""
_RANGE = r"[{](1?[0-9]|20),(1?[0-9]|20)[}]"
"""Few repetitions, of which each number is a way to match."""
_WORD = "[A-Za-z0-9_-]{1,200}"
_TRIED = 400_000_000
"""So many ways are tried, over all places of a text."""
_SHORTEST = 20
"""Characters."""
_WIDE = 1_000
"""With more characters to go over from each place of a text, a pattern is like one with a repetition that has no limit."""
_FEW_MAYBE, _MAYBE_CHARACTERS = 8, 300
"""With more of ? in a pattern that is no literal a text has so many characters: the most, 20, have a million ways in each place."""
_REPEATED_GROUP = 6_000
"""Java goes deeper into its stack with each turn of a group that is repeated, by a step for each part in it, and an executor whose
stack is full dies; some 10,000 fit. So many steps, by the parts of the pattern: the longest text it is tried on."""
_FEWEST_PARTS = 12
"""What a turn of the smallest group takes, and as much again."""
_REPEATED = r"\)\s*([*+](?!\+)|\{)|\\[RX0-9]\s*[*+{]|\(\?[a-zA-Z]*x"
"""A group with a repetition, what has a length of its own each time, and the flag by which a comment may stand between."""
_FEW_TURNS = r"\)\s*\{(1?[0-9]|20)(,(1?[0-9]|20))?\}"
_DEEPEST = 3_000
"""So many parts of a pattern stand in Java's stack at once; a group is five."""
_PART = re.compile(r"(\()|[?*+{\[]|\\[a-zA-Z]|\.")
_MOST_WILDCARDS = 1_000
"""In a LIKE pattern: each is a part of the expression it becomes."""
_COLLATE = "collate"


def match_in_time(tree: exp.Expr) -> None:
    """Rewrite and guard patterns in Spark's tree, in place; raises `UnsupportedStatement` for one that may never end."""
    any_case = _collates(tree)
    for node in reversed(list(tree.find_all(exp.Like, exp.ILike, exp.RegexpLike, exp.Anonymous))):
        if isinstance(node, exp.Like | exp.ILike):
            _like(node)
        elif isinstance(node, exp.RegexpLike):
            if isinstance(node.expression, exp.Literal):
                _short(node.this, node.expression.name, any_case=any_case)
            else:
                called = call("regexp_like", node.this, node.expression)
                node.replace(called)
                _unknown(called, 1)
        elif isinstance(node, exp.Anonymous) and not is_ours(node):
            _called(node, any_case=any_case)


def _collates(tree: exp.Expr) -> bool:
    """Whether a collation is named anywhere, also in the text of a schema: where it goes is not followed."""
    return any(
        isinstance(node, exp.Collate | exp.CollateColumnConstraint)
        or (isinstance(node, exp.DataType) and node.args.get(_COLLATE) is not None)
        or (isinstance(node, exp.Anonymous | exp.Literal) and _COLLATE in node.name.lower())
        for node in tree.walk()
    )


def _called(node: exp.Anonymous, *, any_case: bool) -> None:
    name = node.name.lower()
    if name in ("like", "ilike") and 2 <= len(node.expressions) <= 3:
        kind = exp.Like if name == "like" else exp.ILike
        operator: exp.Expr = kind(this=node.expressions[0], expression=node.expressions[1])
        if len(node.expressions) == 3:
            operator = exp.Escape(this=operator, expression=node.expressions[2])
        node.replace(exp.Paren(this=operator))
        _like(operator.this if isinstance(operator, exp.Escape) else operator)
    elif name in _URLS and len(arguments_of(node, 0) or ()) > 2:
        _key(node)
    elif name in _FUNCTIONS:
        arguments_of(node, 0)
        for place in _FUNCTIONS[name]:
            if place < len(node.expressions):
                pattern = node.expressions[place]
                if isinstance(pattern, exp.Literal):
                    _short(node.expressions[0], pattern.name, any_case=any_case)
                else:
                    _unknown(node, place)


# LIKE


def _like(node: exp.Expr) -> None:
    whole = node.parent if isinstance(node.parent, exp.Escape) else node
    escape = whole.expression.name if isinstance(whole, exp.Escape) and isinstance(whole.expression, exp.Literal) else "\\"
    pattern = node.expression
    if isinstance(pattern, exp.Any | exp.All):
        _like_many(node, pattern)
    elif isinstance(pattern, exp.Literal):
        _check_wildcards(pattern.name)
        segments = _segments(pattern.name, escape)
        if segments is not None and _goes_back(segments):
            insensitive = isinstance(node, exp.ILike)
            subject = call("lower", node.this) if insensitive else node.this
            expression = _expression(
                [[character.lower() if insensitive and character else character for character in segment] for segment in segments]
            )
            whole.replace(exp.RegexpLike(this=subject, expression=exp.Literal.string(expression)))
    else:
        says = f"A LIKE pattern that is no literal holds at most two % and {_MOST_WILDCARDS} characters."
        pattern.replace(judged(pattern.copy(), _may_go_back, says))


def _may_go_back(pattern: exp.Expr) -> exp.Expr:
    stripped = call("replace", pattern.copy(), exp.Literal.string("%"), exp.Literal.string(""))
    count = exp.Sub(this=call("length", pattern.copy()), expression=call("length", stripped))
    long = exp.GT(this=call("length", pattern.copy()), expression=number(_MOST_WILDCARDS))
    return exp.Or(this=exp.GT(this=count, expression=number(2)), expression=long)


def _like_many(node: exp.Expr, patterns: exp.Expr) -> None:
    inner = patterns.this
    for pattern in inner.expressions if isinstance(inner, exp.Tuple) else [inner.this if isinstance(inner, exp.Paren) else inner]:
        segments = _segments(pattern.name, "\\") if isinstance(pattern, exp.Literal) else None
        if segments is None or _goes_back(segments):
            raise UnsupportedStatement("LIKE ANY and ALL take literals with one % or two around a text; write the others with OR or AND.")


def _check_wildcards(pattern: str) -> None:
    if pattern.count("%") + pattern.count("_") > _MOST_WILDCARDS:
        raise UnsupportedStatement(f"The LIKE pattern '{pattern[:80]}' has more than {_MOST_WILDCARDS} % and _; shorten it.")


def _segments(pattern: str, escape: str) -> list[list[str | None]] | None:
    """What stands between the `%` of a pattern, character by character, None for `_`; None where Spark tells what is wrong."""
    segments: list[list[str | None]] = [[]]
    at = 0
    while at < len(pattern):
        character = pattern[at]
        if character == escape:
            at += 1
            if at >= len(pattern) or pattern[at] not in ("%", "_", escape):
                return None
            segments[-1].append(pattern[at])
        elif character == "%":
            segments.append([])
        else:
            segments[-1].append(None if character == "_" else character)
        at += 1
    return [segments[0], *[segment for segment in segments[1:-1] if segment], segments[-1]] if len(segments) > 1 else segments


def _goes_back(segments: list[list[str | None]]) -> bool:
    """Whether Spark would match it by an expression with several `.*`: it has ways of its own for one, and for `%text%`."""
    if len(segments) <= 2:
        return False
    return len(segments) > 3 or bool(segments[0] or segments[-1]) or None in segments[1]


def _expression(segments: list[list[str | None]]) -> str:
    """An expression that takes the first place for each segment and keeps it, which is right for segments of fixed length."""
    first, *middle, last = ["".join("." if part is None else re.escape(part) for part in segment) for segment in segments]
    return rf"(?s)\A{first}" + "".join(f"(?>.*?{part})" for part in middle) + (rf".*{last}\z" if last else "")


# Regular expressions


def _short(subject: exp.Expr, pattern: str, *, any_case: bool) -> None:
    """Judge a pattern; keep its subject short where the pattern may take long."""
    most = longest_searched(pattern, any_case=any_case)
    if most is not None and isinstance(subject, exp.Literal):
        if len(subject.name) > most:
            raise UnsupportedStatement(_says_longer(most))
    elif most is not None:
        subject.replace(judged(subject.copy(), partial(_is_longer, most), _says_longer(most)))


def _is_longer(most: int, text: exp.Expr) -> exp.Expr:
    return exp.GT(this=call("length", text.copy()), expression=number(most))


def _says_longer(most: int) -> str:
    return f"A text of more than {most} characters is not searched by this regular expression, which could take forever."


def _unknown(node: exp.Anonymous, place: int) -> None:
    """A pattern that is no literal: what its characters tell stands for what its parts would."""
    says = (
        "A regular expression that is no literal repeats no group in parentheses, "
        f"has at most {len(_CHARACTERS)} of *, + and "
        f"{{ and {MANY} of ? (a | beside a group is one more, {{1,2}} four), and searches texts of 1000000, 20000 and 2000 characters "
        f"by how many of them it has, of {_MAYBE_CHARACTERS} with more than {_FEW_MAYBE} of ?."
    )
    guard_call(node, [0, place], _may_take_long, says, at=place)


def _may_take_long(subject: exp.Expr, pattern: exp.Expr) -> exp.Expr:
    repeated = call("regexp_like", pattern.copy(), exp.Literal.string(_REPEATED))
    ranged = call("regexp_replace", pattern.copy(), exp.Literal.string(_RANGE), exp.Literal.string("????"))
    counted = call("regexp_replace", ranged, exp.Literal.string(_HARMLESS), exp.Literal.string(""))
    many, some, two = (exp.GT(this=_count(counted, "*+{"), expression=number(most)) for most in (3, 2, 1))
    longest = call("if", some, number(2_000), call("if", two, number(20_000), number(1_000_000)))
    grouped = exp.GT(this=call("instr", counted.copy(), exp.Literal.string("(")), expression=number(0))
    ways = call("if", grouped, call("translate", counted.copy(), exp.Literal.string("|"), exp.Literal.string("?")), counted.copy())
    maybe = exp.GT(this=_count(ways, "?"), expression=number(MANY))
    several = exp.GT(this=_count(ways, "?"), expression=number(_FEW_MAYBE))
    long = exp.GT(this=call("length", subject.copy()), expression=call("if", several, number(_MAYBE_CHARACTERS), longest))
    return exp.or_(repeated, many, maybe, long, wrap=False)


def _count(text: exp.Expr, characters: str) -> exp.Expr:
    without = call("translate", text.copy(), exp.Literal.string(characters), exp.Literal.string(""))
    return exp.Paren(this=exp.Sub(this=call("length", text.copy()), expression=call("length", without)))


def _key(node: exp.Anonymous) -> None:
    """What `parse_url` looks for among a URL's parameters, which it makes a part of a regular expression."""
    says = f"{node.name} takes the name of a parameter: at most 200 letters, digits, _ and -."
    key = node.expressions[2]
    if not isinstance(key, exp.Literal):
        key.replace(judged(key.copy(), _is_no_word, says))
    elif not re.fullmatch(_WORD, key.name):
        raise UnsupportedStatement(says, fragment=node.name)


def _is_no_word(key: exp.Expr) -> exp.Expr:
    return exp.Not(this=call("regexp_like", key.copy(), exp.Literal.string(rf"\A(?:{_WORD})\z")))


def longest_searched(pattern: str, *, any_case: bool = False) -> int | None:
    """The longest text a pattern is tried on, None for any; raises where it may take forever, or too deep, on a short one.

    ``any_case`` is for texts that may have a collation to which small letters and capitals are one: Spark gives it to Java.
    """
    try:
        plain = unquoted(pattern)
        by_depth, by_time = _longest_by_depth(plain), _longest_by_time(plain, any_case=any_case)
    except NotRead as problem:
        raise UnsupportedStatement(f"The regular expression '{pattern[:80]}' is not read: {problem}.") from problem
    return by_time if by_depth is None else by_depth if by_time is None else min(by_time, by_depth)


def _longest_by_depth(pattern: str) -> int | None:
    """By the pattern's own text: what Python reads as a set of characters is a choice to Java, and goes deep where it is repeated."""
    parts = sum(5 if part[1] else 1 for part in _PART.finditer(pattern))
    if parts > _DEEPEST:
        raise UnsupportedStatement(
            f"The regular expression '{pattern[:80]}' has more parts than Java's stack holds: {_DEEPEST}, of which a group is 5."
        )
    plain = re.sub(_FEW_TURNS, ")", re.sub(r"\\[^RX0-9]", "x", pattern, flags=re.DOTALL))
    return _REPEATED_GROUP // max(_FEWEST_PARTS, parts) if re.search(_REPEATED, plain) else None


def _longest_by_time(pattern: str, *, any_case: bool) -> int | None:
    counted = Ways()
    try:
        parsed = parse(pattern, any_case=any_case)
        ways = counted.of(parsed, last=True)
        judge = _Judge(pattern, counted)
        unlimited = judge.unlimited(parsed)
        if width(parsed)[1] > _WIDE:
            unlimited = max(unlimited, 1)
    except RecursionError:
        raise _too_deep(pattern) from None
    if unlimited > len(_CHARACTERS):
        raise UnsupportedStatement(
            f"The regular expression '{pattern[:80]}' has more than 3 unlimited repetitions, and could take forever."
        )
    if counted.in_loop > 1:
        raise _nested(pattern)
    longest = _TRIED if unlimited == 0 else _CHARACTERS[unlimited]
    return _by_ways(pattern, ways * judge.looks, longest, unlimited)


def _by_ways(pattern: str, ways: float, longest: int, unlimited: int) -> int | None:
    """Each place of a text is tried in as many ways; a text is longer than any where no more than a few are."""
    if ways > _TRIED / _SHORTEST:
        raise UnsupportedStatement(
            f"The regular expression '{pattern[:80]}' has more than {_TRIED // _SHORTEST} ways to match in one place, and could take "
            "forever: each optional part doubles them. Write parts that do not begin with the same characters, or possessive ones: a?+."
        )
    most = int(longest / ways ** (1 / (unlimited + 1)))
    return None if unlimited == 0 and most >= _ANY else max(most, _SHORTEST)


class _Judge:
    """Of one pattern."""

    def __init__(self, pattern: str, ways: Ways) -> None:
        """``ways`` has counted those of the same pattern."""
        self._pattern = pattern
        self._ways = ways
        self._decided = False
        self._groups: dict[int, int] = {}
        self.looks = 1
        """How often the same place is looked at from one place, where a look-around without a limit is in what comes several times."""

    def unlimited(self, tree: Any) -> int:
        """How many unlimited repetitions make a text of twice the length take twice as long, once more for each.

        Those whose end one character tells, and those that keep what they took, are one together. Raises where one stands in another, or
        a choice does that is not told at once.
        """
        undecided = self._undecided(tree, inside=False, times=1)
        return undecided + self._decided

    def _undecided(self, tree: Any, *, inside: bool, times: int) -> int:  # noqa: C901 - a case for each part of a pattern
        """Those that may end in many places, in a part that comes ``times`` as often."""
        unlimited = 0
        for kind, argument in tree:
            if kind in (sre.MAX_REPEAT, sre.MIN_REPEAT, sre.POSSESSIVE_REPEAT):
                low, high, body = argument
                varies = high > MANY or (inside and low != high and high > 1)
                if inside and varies and kind is not sre.POSSESSIVE_REPEAT:
                    raise _nested(self._pattern)
                if varies and kind is not sre.POSSESSIVE_REPEAT and self._ways.is_undecided(argument):
                    unlimited += times
                elif varies:
                    self._decided = True
                repeats = 1 if high > MANY else max(high, 1)
                unlimited += self._undecided(body, inside=inside or high > MANY, times=times * repeats)
            elif kind is sre.SUBPATTERN:
                if argument[0] is not None:
                    self._groups[argument[0]] = width(argument[-1])[1]
                unlimited += self._undecided(argument[-1], inside=inside, times=times)
            elif kind is sre.BRANCH:
                branches = argument[1]
                firsts = [next(iter(branch), None) for branch in branches]
                literal = [first[1] for first in firsts if first is not None and first[0] is sre.LITERAL]
                if inside and (len(literal) < len(branches) or len(set(literal)) < len(literal)):
                    raise _nested(self._pattern)
                unlimited += max(self._undecided(branch, inside=inside, times=times) for branch in branches)
            elif kind in (sre.ASSERT, sre.ASSERT_NOT):
                shortest, longest = width(argument[1])
                if looks_behind(argument) and longest - shortest > MANY:
                    unlimited += times
                if longest > MANY:
                    self.looks = max(self.looks, times)
                unlimited += self._undecided(argument[1], inside=inside, times=times)
            elif kind is sre.ATOMIC_GROUP:
                unlimited += self._undecided(argument, inside=inside, times=times)
            elif kind is sre.GROUPREF:
                if inside:
                    raise _nested(self._pattern)
                if self._groups.get(argument, 0 if argument else MANY + 1) > MANY:  # 0: by name
                    self._decided = True  # all of it is compared, wherever it is tried
        return unlimited


def _nested(pattern: str) -> UnsupportedStatement:
    return UnsupportedStatement(
        f"The regular expression '{pattern[:80]}' repeats what repeats itself, which could take forever; write it without, such as "
        "[^,]* for (.*?,)*, or with a possessive repetition, such as (a++b)*."
    )


def _too_deep(pattern: str) -> UnsupportedStatement:
    return UnsupportedStatement(
        f"The regular expression '{pattern[:80]}' has more groups inside groups than are followed here; leave out parentheses that only "
        "enclose others."
    )
