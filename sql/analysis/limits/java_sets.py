"""What characters a set of Java's regular expressions holds, as far as it has to be told: ASCII, and all others as one."""

from __future__ import annotations

import re
import string
import unicodedata
from collections.abc import Iterable
from typing import NamedTuple

OTHER = 128
"""Stands for every character beyond ASCII."""
_LAST = 0x10FFFF
_ASCII = frozenset(range(OTHER))
_ALL = _ASCII | {OTHER}
_LETTERS = frozenset(map(ord, string.ascii_letters))
_BEYOND_ASCII = frozenset(map(ord, "iksIKS"))
"""Letters that are the same as one beyond ASCII where Unicode tells what a capital is."""
_CLASSES = {"d": string.digits, "s": " \t\n\r\f\v", "w": string.ascii_letters + string.digits + "_", "h": " \t", "v": "\n\v\f\r"}
_BEYOND = frozenset("hv")
"""Of those: the ones with characters beyond ASCII by themselves."""
_POSIX = {
    "Lower": string.ascii_lowercase, "Upper": string.ascii_uppercase, "ASCII": "".join(map(chr, range(OTHER))),
    "Alpha": string.ascii_letters, "Digit": string.digits, "Alnum": string.ascii_letters + string.digits, "Punct": string.punctuation,
    "Graph": string.ascii_letters + string.digits + string.punctuation, "Blank": " \t", "XDigit": string.hexdigits,
    "Print": string.ascii_letters + string.digits + string.punctuation + " ", "Space": " \t\n\r\f\v",
    "Cntrl": "".join(map(chr, [*range(32), 127])),
}  # fmt: skip
_OF_LETTERS = frozenset({"IsAlphabetic", "IsLatin"})
_CASES = frozenset({"L", "Lu", "Ll", "Lt"})
_CATEGORY = re.compile(r"(?:Is|gc=|general_category=)?([CLMNPSZ][a-z]?)")


class Flags(NamedTuple):
    """Those of a place of a pattern that change what it holds."""

    any_case: bool = False
    unicode_case: bool = False
    unicode_classes: bool = False
    comments: bool = False


class Held(NamedTuple):
    """A set by its bounds: what it may hold, and what it holds for certain."""

    may: frozenset[int]
    must: frozenset[int]

    def joined(self, more: Held) -> Held:
        """What either holds."""
        return Held(self.may | more.may, self.must | more.must)

    def negated(self) -> Held:
        """What it does not hold."""
        return Held(_ALL - self.must, _ALL - self.may)


ANYTHING = Held(_ALL, frozenset())
"""What nothing is known of."""
NOTHING = Held(frozenset(), frozenset())


def between(low: int, high: int, flags: Flags) -> Held:
    """The characters from one to another."""
    codes = frozenset(range(low, min(high, OTHER - 1) + 1))
    beyond = frozenset({OTHER}) if high >= OTHER else frozenset()
    return _folded(Held(codes | beyond, codes | beyond if low <= OTHER and high == _LAST else codes), flags)


def of_class(letter: str, flags: Flags) -> Held:
    r"""What ``\d``, ``\s``, ``\w``, ``\h``, ``\v`` and their capitals hold."""
    codes = frozenset(map(ord, _CLASSES[letter.lower()]))
    letters = Held(codes | {OTHER} if flags.unicode_classes or letter.lower() in _BEYOND else codes, codes)
    return letters if letter.islower() else letters.negated()


def of_property(name: str, flags: Flags) -> Held:
    r"""What ``\p{name}`` holds; anything for the name of a block or a script."""
    if name in _POSIX:
        codes = frozenset(map(ord, _POSIX[name]))
        return _folded(Held(codes | {OTHER}, frozenset()) if flags.unicode_classes else Held(codes, codes), flags)
    if name in _OF_LETTERS:
        return Held(_LETTERS | {OTHER}, _LETTERS)
    if (category := _CATEGORY.fullmatch(name)) is not None:
        codes = frozenset(code for code in _ASCII if unicodedata.category(chr(code)).startswith(category[1]))
        more = _LETTERS if flags.any_case and category[1] in _CASES else frozenset()
        return Held(codes | more | {OTHER}, codes)
    return ANYTHING


def spans(held: Iterable[int]) -> list[tuple[int, int]]:
    """The codes as ranges, of which one that ends with the others goes on to the last there is."""
    made: list[tuple[int, int]] = []
    for code in sorted(held):
        if made and made[-1][1] == code - 1:
            made[-1] = made[-1][0], code
        else:
            made.append((code, code))
    return [(low, _LAST if high == OTHER else high) for low, high in made]


def _folded(held: Held, flags: Flags) -> Held:
    """With both cases of each letter, where a flag says so."""
    if not flags.any_case:
        return held
    may, must = (frozenset(codes | {ord(chr(code).swapcase()) for code in codes & _LETTERS}) for codes in held)
    if flags.unicode_case and may & _BEYOND_ASCII:
        may |= {OTHER}
    elif flags.unicode_case and OTHER in may:
        may |= _BEYOND_ASCII
    return Held(may, must)
