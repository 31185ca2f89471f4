"""Java's regular expressions, read as Java reads them, into the parts in which Python's own parser tells an expression.

Python reads some of them otherwise (octal numbers, sets inside sets), and others not at all (names of groups, flags in the
middle). What is not understood here is never guessed: it is an error.
"""

from __future__ import annotations

import re
import re._constants as sre  # type: ignore[import-not-found]
from functools import lru_cache
from typing import Any

from sql.analysis.limits.java_sets import ANYTHING, NOTHING, OTHER, Flags, Held, between, of_class, of_property, spans

Part = tuple[Any, Any]
"""A kind of ``re._constants``, and what belongs to it; a set has ranges, and letters are small ones where a flag makes both one."""
Parts = list[Part]

_ENDLESS = 1 << 31
_COUNTS = re.compile(r"\{(\d{1,10})(?:(,)(\d{0,10}))?\}", re.ASCII)
_NAME = re.compile("[a-zA-Z][a-zA-Z0-9]*>")
_FLAGS = re.compile("([imsdxuU]*)(?:-([imsdxuU]*))?([):])")
_PROPERTY = re.compile(r"[pP](?:\{([^}#]+)\}|([A-Za-z]))")
_NAMED_CHARACTER = re.compile(r"N\{[^}#]+\}")
_CODE = re.compile(r"0([0-3][0-7]{2}|[0-7]{1,2})|x([0-9a-fA-F]{2})|x\{([0-9a-fA-F]{1,8})\}|u([0-9a-fA-F]{4})|c(.)", re.DOTALL)
_SINGLE = {"a": 7, "e": 27, "f": 12, "n": 10, "r": 13, "t": 9}
_CLASSES = frozenset("dDsSwWhHvV")
_SPACE = frozenset(" \t\n\v\f\r")
_COMMENT = re.compile("#[^\n\r\x85\u2028\u2029]*")
_AFTER_RETURN = Held(frozenset(map(ord, "\n\v\f\r")) | {OTHER}, frozenset())
_ANY_CASE = re.compile(r"\(\?[a-zA-Z]*i")
_QUOTE = re.compile(r"\\Q|\\.", re.DOTALL)


class NotRead(ValueError):
    """An expression that is none to Java, or that is not understood here; says why."""


def unquoted(pattern: str) -> str:
    r"""The expression with what stands between ``\Q`` and ``\E`` escaped, which Java does before it reads anything else."""
    done: list[str] = []
    at = 0
    while at < len(pattern):
        match = next((one for one in _QUOTE.finditer(pattern, at) if one[0] == r"\Q"), None)
        if match is None:
            return "".join((*done, pattern[at:]))
        end = pattern.find(r"\E", match.end())
        quoted = pattern[match.end() : end if end >= 0 else len(pattern)]
        done += pattern[at : match.start()], _escaped(quoted)
        at = end + 2 if end >= 0 else len(pattern)
    return "".join(done)


def _escaped(quoted: str) -> str:
    made = [one if not one.isascii() or one.isalnum() else f"\\{one}" for one in quoted]
    if quoted and quoted[0] in "0123456789":  # behind a number, which it does not belong to
        made[0] = f"\\x3{quoted[0]}"
    return "".join(made)


def parse(pattern: str, *, any_case: bool = False) -> Parts:
    """The parts of an expression without quotes; raises `NotRead`, and RecursionError for too many groups inside groups.

    ``any_case`` is for a text whose collation does not tell small letters and capitals apart.
    """
    reader = _Reader(pattern, any_case=any_case)
    parts = reader.choice()
    if reader.at < len(pattern):
        raise NotRead("a parenthesis closes nothing")
    return parts


class _Reader:
    def __init__(self, text: str, *, any_case: bool) -> None:
        if "\0" in text:
            raise NotRead("it holds a character NUL")
        self.at = 0
        self._text = text
        self._flags = Flags(any_case=any_case, unicode_case=any_case)
        self._folds = any_case or _ANY_CASE.search(text) is not None
        self._captured = 0

    def choice(self) -> Parts:
        """Up to the end of the group: a sequence, or several."""
        branches = [self._sequence()]
        while self._next() == "|":
            self.at += 1
            branches.append(self._sequence())
        return branches[0] if len(branches) == 1 else _chosen(branches)

    def _sequence(self) -> Parts:
        parts: Parts = []
        while (character := self._next()) not in ("", "|", ")"):
            if character == "(":
                parts += self._group()
            elif character in "?*+":
                raise NotRead(f"a {character} repeats nothing")
            else:  # a { here repeats what is empty
                parts += self._repeated([] if character == "{" else self._atom(character))
        return parts

    def _repeated(self, body: Parts) -> Parts:
        character = self._next()
        if character == "{":
            low, high = self._counts()
        elif character and character in "?*+":
            low, high = int(character == "+"), 1 if character == "?" else _ENDLESS
            self.at += 1
        else:
            return body
        kind = {"?": sre.MIN_REPEAT, "+": sre.POSSESSIVE_REPEAT}.get(self._next())
        self.at += kind is not None
        return [(kind or sre.MAX_REPEAT, (low, high, body))]

    def _counts(self) -> tuple[int, int]:
        counts = self._take(_COUNTS)
        if counts is None or (counts[3] and int(counts[3]) < int(counts[1])):
            raise NotRead("a { is no count of repetitions; write \\{ for the character")
        low = int(counts[1])
        return low, (int(counts[3]) if counts[3] else _ENDLESS) if counts[2] else low

    # Groups

    def _group(self) -> Parts:
        """A group with what repeats it; nothing for flags by themselves, which hold up to the end of the group around."""
        outer = self._flags
        self.at += 1
        kind, argument = sre.SUBPATTERN, None
        if self._next() == "?":
            if self._text[self.at - 1] != "(":
                raise NotRead("a group's ( and ? stand together")
            self.at += 1
            opened = self._opened()
            if opened is None:
                return []
            kind, argument = opened
        else:
            argument = self._capture()
        body = self.choice()
        if self._next() != ")":
            raise NotRead("a group is not closed")
        self.at += 1
        self._flags = outer
        if kind is sre.SUBPATTERN:
            return self._repeated([(kind, (argument, 0, 0, body))])
        return self._repeated([(kind, body if kind is sre.ATOMIC_GROUP else (argument, body))])

    def _opened(self) -> Part | None:
        """What a group is by what stands behind its ``(?``; None where it is flags by themselves."""
        for sign, part in _OPENINGS.items():
            if self._text.startswith(sign, self.at):
                self.at += len(sign)
                return part
        if self._text.startswith("<", self.at):
            self.at += 1
            if self._take(_NAME) is None:
                raise NotRead("a group's name has letters and digits of ASCII")
            return sre.SUBPATTERN, self._capture()
        flags = self._take(_FLAGS)
        if flags is None:
            raise NotRead("a group begins with what is none of ?: ?= ?! ?> ?<= ?<! ?<name> and flags")
        self._set(flags[1], on=True)
        self._set(flags[2] or "", on=False)
        return None if flags[3] == ")" else (sre.SUBPATTERN, None)

    def _set(self, letters: str, *, on: bool) -> None:
        any_case, unicode_case, classes, comments = self._flags
        self._flags = Flags(
            any_case=on if "i" in letters else any_case,
            # Java's releases differ in what -U takes away: nothing here.
            unicode_case=unicode_case or (on and not {"u", "U"}.isdisjoint(letters)),
            unicode_classes=classes or (on and "U" in letters),
            comments=on if "x" in letters else comments,
        )

    def _capture(self) -> int:
        self._captured += 1
        return self._captured

    # Characters

    def _atom(self, character: str) -> Parts:
        if character == "[":
            return [self._part(self._set_of_characters())]
        if character == "\\":
            return self._escape()
        self.at += 1
        if character in "^$":
            return [(sre.AT, character)]
        return [(sre.ANY, None)] if character == "." else [self._literal(ord(character))]

    def _escape(self) -> Parts:
        letter = self._text[self.at + 1 : self.at + 2]
        if letter in _CLASSES or letter in ("p", "P"):
            return [self._part(self._class())]
        if letter and letter in "123456789":
            return [self._reference()]
        self.at += 1
        if letter == "N" and self._take(_NAMED_CHARACTER) is not None:
            return [(sre.ANY, None)]
        if letter == "k" and self._text.startswith("k<", self.at):
            self.at += 2
            if self._take(_NAME) is not None:
                return [(sre.GROUPREF, 0)]
        if letter and letter in "AGZzbB":
            self.at += 4 if self._text.startswith("b{g}", self.at) else 1
            return [(sre.AT, letter)]
        if letter == "X":
            self.at += 1
            return [(sre.ANY, None)]
        if letter == "R":
            self.at += 1
            return self._line_end()
        self.at -= 1
        return [self._literal(self._code())]

    def _line_end(self) -> Parts:
        r"""``\R`` takes a return with or without the line feed behind it; repeated by itself it takes both for good."""
        behind = self._next()
        one = self._part(_AFTER_RETURN)
        if behind and behind in "*+{":
            return [one]
        return [(sre.SUBPATTERN, (None, 0, 0, [one, (sre.MAX_REPEAT, (0, 1, [(sre.LITERAL, ord("\n"))]))]))]

    def _reference(self) -> Part:
        """To a group by its number, which has as many digits as there are groups for."""
        number = int(self._text[self.at + 1])
        self.at += 2
        while (digit := self._next()) and digit in "0123456789" and number * 10 + int(digit) <= self._captured:
            number = number * 10 + int(digit)
            self.at += 1
        return sre.GROUPREF, number

    def _class(self) -> Held:
        r"""``\d``, ``\p{L}`` and the like."""
        letter = self._text[self.at + 1]
        self.at += 1
        if letter in _CLASSES:
            self.at += 1
            return of_class(letter, self._flags)
        name = self._take(_PROPERTY)
        if name is None:
            raise NotRead(f"a \\{letter} has no name of a property behind it")
        characters = of_property(name[1] or name[2], self._flags)
        return characters if letter == "p" else characters.negated()

    def _code(self) -> int:
        """Of a character that is escaped, by itself or by its number."""
        self.at += 1
        letter = self._text[self.at : self.at + 1]
        if letter in _SINGLE:
            self.at += 1
            return _SINGLE[letter]
        if letter and letter in "0xuc":
            written = self._take(_CODE)
            if written is None or (self._flags.comments and self._goes_on(written)):
                raise NotRead(f"a \\{letter} has no number of a character behind it")
            octal, two, many, four, control = written.groups()
            code = int(octal, 8) if octal else ord(control) ^ 64 if control else int(two or many or four, 16)
            return self._paired(code) if four else code
        if not letter or (letter.isascii() and letter.isalnum()):
            raise NotRead(f"a \\{letter} means nothing to Java")
        self.at += 1
        return ord(letter)

    def _goes_on(self, written: re.Match[str]) -> bool:
        """Whether Java, where comments may stand, reads a character's number or letter behind one of those."""
        of_space = (*_SPACE, "#")
        return written[5] in of_space or (written[1] is not None and self._text[self.at : self.at + 1] in of_space)

    def _paired(self, code: int) -> int:
        """With the second half of a character that has two."""
        if 0xD800 <= code < 0xDC00 and (low := re.compile(r"\\u([dD][c-fC-F][0-9a-fA-F]{2})").match(self._text, self.at)):
            self.at = low.end()
            return 0x10000 + ((code - 0xD800) << 10) + int(low[1], 16) - 0xDC00
        return code

    def _set_of_characters(self) -> Held:
        """Those between brackets."""
        self.at += 1
        negated = self._text.startswith("^", self.at)
        self.at += negated
        characters, empty, inside, odd = NOTHING, True, False, False
        while (character := self._next()) != "]" or empty:
            if character == "":
                raise NotRead("a [ is not closed")
            if character == "[":
                characters, inside = characters.joined(self._set_of_characters()), True
            elif character == "&" and (self._flags.comments or self._text.startswith("&&", self.at)):
                self.at += 1
                self.at += self._next() == "&"
                odd = True
            else:
                characters = characters.joined(self._member())
            empty = False
        self.at += 1
        if odd or (inside and negated):  # in which Java's releases differ
            return ANYTHING
        return characters.negated() if negated else characters

    def _member(self) -> Held:
        low = self._one_of_set(first=True)
        if isinstance(low, Held):
            return low
        if self._next() != "-" or self._text[self.at + 1 : self.at + 2] in ("", "[", "]"):
            return between(low, low, self._flags)
        self.at += 1
        high = self._one_of_set(first=False)
        if isinstance(high, Held) or high < low:
            raise NotRead("a range of characters ends before it begins")
        return between(low, high, self._flags)

    def _one_of_set(self, *, first: bool) -> int | Held:
        """A character of a set by its code, or what a class holds."""
        if (character := self._next()) != "\\":
            self.at += 1
            if not character:
                raise NotRead("a [ is not closed")
            return ord(character)
        letter = self._text[self.at + 1 : self.at + 2]
        if letter == "v" and (not first or self._text.startswith("-", self.at + 2)):
            self.at += 2
            return ord("\v")
        if letter in _CLASSES or letter in ("p", "P"):
            return self._class()
        if letter == "N":
            self.at += 1
            if self._take(_NAMED_CHARACTER) is not None:
                return ANYTHING
        return self._code()

    def _literal(self, code: int) -> Part:
        flags = self._flags
        if code >= OTHER and not (flags.any_case and flags.unicode_case):
            return sre.LITERAL, code
        return self._part(between(code, code, flags))

    def _part(self, held: Held) -> Part:
        return _part(held.may, self._folds)

    # Reading

    def _next(self) -> str:
        """The next character, behind what is none where comments may stand."""
        while self._flags.comments and self.at < len(self._text):
            if self._text[self.at] in _SPACE:
                self.at += 1
            elif self._take(_COMMENT) is not None:
                ended = self._text[self.at : self.at + 2]
                if ended != "\r\n" and ended[:1] not in ("", "\n"):  # a flag tells whether it ends there
                    raise NotRead("a comment ends with a line feed")
            else:
                break
        return self._text[self.at : self.at + 1]

    def _take(self, expression: re.Pattern[str]) -> re.Match[str] | None:
        match = expression.match(self._text, self.at)
        if match is not None:
            self.at = match.end()
        return match


_OPENINGS: dict[str, Part] = {
    ":": (sre.SUBPATTERN, None), ">": (sre.ATOMIC_GROUP, None), "=": (sre.ASSERT, 1), "!": (sre.ASSERT_NOT, 1),
    "<=": (sre.ASSERT, -1), "<!": (sre.ASSERT_NOT, -1),
}  # fmt: skip


def _chosen(branches: list[Parts]) -> Parts:
    """A choice, behind what all branches begin with, and as a set where each is a character of its own."""
    shortest = min(map(len, branches))
    same = next((at for at in range(shortest) if any(branch[at] != branches[0][at] for branch in branches)), shortest)
    begin, rest = branches[0][:same], [branch[same:] for branch in branches]
    return [*begin, _one_of(rest) or (sre.BRANCH, (None, rest))]


def _one_of(branches: list[Parts]) -> Part | None:
    """A set that is the choice; a character that two branches begin with is no set: Java tries it twice."""
    if any(len(branch) != 1 or branch[0][0] not in (sre.LITERAL, sre.IN) for branch in branches):
        return None
    spelled = [_ranges(*branch[0]) for branch in branches]
    codes = [code for ranges in spelled for low, high in ranges for code in range(low, min(high, max(low, OTHER)) + 1)]
    distinct = len(set(codes)) == len(codes) and not (OTHER in codes and max(codes) > OTHER)
    return (sre.IN, [(sre.RANGE, span) for ranges in spelled for span in ranges]) if distinct else None


def _ranges(kind: Any, argument: Any) -> list[tuple[int, int]]:
    return [(argument, argument)] if kind is sre.LITERAL else [span for _, span in argument]


@lru_cache(maxsize=1000)
def _part(held: frozenset[int], folds: bool) -> Part:
    codes = {ord(chr(code).lower()) if folds and code < OTHER else code for code in held}
    if len(codes) == 1 and OTHER not in codes:
        return sre.LITERAL, codes.pop()
    return sre.IN, [(sre.RANGE, span) for span in spans(codes)]
