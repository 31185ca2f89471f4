"""Options: declared once, with a parser, a default and a sentence; everything else reads the declaration."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Generic, TypeVar
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from model.errors import InvalidOption, nearest
from model.options.masking import masked
from model.text.whole_number import LARGEST

T = TypeVar("T")
TUNING = "it tunes engines that are not this one"

_UNDECLARED = "Undeclared keys: SQL refuses them, the REST catalog keeps them for others, but not these (`-` and `_` are `.`):"
_WORDS = re.compile(r"[-_.\s]+|(?<=[a-z0-9])(?=[A-Z])")


@dataclass(frozen=True, slots=True)
class Parser(Generic[T]):
    """Turns option text into a value; ``kind`` is its name in the docs."""

    kind: str
    parse: Callable[[str], T]
    show: Callable[[T], str] = str
    everywhere: bool = True
    """False where other Paimon clients know more values than this server."""
    in_path: bool = False
    """Whether the value becomes a part of a path: separators and dot names are refused."""
    judge: Callable[[str], None] = lambda _: None
    """Raises `ValueError` for a text that is read here, and that nobody may store: other clients do not read it, or it is of no use."""
    stored: Callable[[str], str] = str.strip
    """The text that is stored for one: without the blanks around it, where they say nothing."""


@dataclass(frozen=True, slots=True)
class Option(Generic[T]):
    """One option: its key, how to read it, its default and what it does."""

    key: str
    parser: Parser[T]
    default: T
    doc: str
    mutable: bool = True
    """False: may not change once the table has a snapshot."""
    kept: str = ""
    """Why it has no effect here; it is taken and kept for other clients. Empty where it works."""
    former: tuple[str, ...] = ()
    """Keys it had in earlier versions of Paimon: read where a table still has them; CREATE and ALTER TABLE store today's instead."""
    per_query: bool = False
    """Whether who may only read or write a table with a connector may give it in a hint: it tells nothing of where rows lie."""

    def read(self, raw: Mapping[str, str]) -> T:
        """The typed value in ``raw``, or the default; raises `InvalidOption` for text that does not parse."""
        text = raw.get(self.key)
        if text is None and self.former:
            text = next((raw[key] for key in self.former if key in raw), None)
        return self.default if text is None else self.parse(text)

    def parse(self, text: str) -> T:
        """Read one value; raises `InvalidOption` naming the key and what would do."""
        try:
            return self.parser.parse(text.strip())
        except (ValueError, ArithmeticError) as problem:
            raise InvalidOption(f"Option '{self.key}' = '{masked(self.key, text)}': {problem}.") from None

    def check(self, text: str) -> None:
        """Raise `InvalidOption` for a text that is not to be stored: one that other Paimon clients do not read would shut them out."""
        self.parse(text)
        try:
            self.parser.judge(text.strip())
        except ValueError as problem:
            raise InvalidOption(f"Option '{self.key}' = '{masked(self.key, text)}': {problem}.") from None

    def meaning(self) -> str:
        """What it does, and that it does so elsewhere alone."""
        return f"{self.doc} Kept for other clients: {self.kept}." if self.kept else self.doc

    def default_text(self) -> str:
        """The default as option text; empty where there is none."""
        return "" if self.default is None else self.parser.show(self.default)


class OptionGroup:
    """Options of one kind, in the order of declaration."""

    def __init__(self, title: str, doc: str) -> None:
        self.title = title
        self.doc = doc
        self._options: dict[str, Option[Any]] = {}
        self._families: list[tuple[re.Pattern[str], Option[Any]]] = []
        self._refused: list[tuple[re.Pattern[str], str]] = []
        self._dangerous: list[tuple[re.Pattern[str], str]] = []
        self._for_others: dict[str, Option[Any]] = {}
        self._known: dict[str, Option[Any]] = {}
        """Declared keys that were asked for before: a small INSERT asks for a dozen, each against every refused pattern."""

    def declare(self, option: Option[T]) -> Option[T]:
        """Add an option; its key must be new."""
        if option.key in self._options:
            raise ValueError(f"option {option.key} is declared twice")
        self._options[option.key] = option
        for former in option.former:
            self.refuse(re.escape(former), f"it is called '{option.key}' by now, under which CREATE and ALTER TABLE store it.")
        self._known.clear()
        return option

    def family(self, pattern: str, option: Option[T]) -> Option[T]:
        """Declare keys by pattern, such as ``fields.<column>.stats-mode``; ``option.key`` is how docs show it."""
        self._families.append((re.compile(pattern), option))
        return option

    def refuse(self, pattern: str, reason: str) -> None:
        """Refuse keys that match, telling the reason."""
        self._refused.append((re.compile(pattern), reason))
        self._known.clear()

    def endanger(self, pattern: str, reason: str) -> None:
        """Refuse undeclared keys whose words match, also where others' keys are kept."""
        self._dangerous.append((re.compile(pattern), reason))

    def keep_for_others(self, option: Option[Any]) -> None:
        """Hold the value of a key that only other clients know, and that they make a part of a path, to what it may be."""
        self._for_others[option.key] = option

    def paths(self) -> Iterator[Option[Any]]:
        """The options of which the value becomes a part of a path, here or at other clients."""
        every = (*self, *self.families(), *self._for_others.values())
        return (option for option in every if option.parser.in_path)

    def danger(self, key: str) -> str | None:
        """Why a key that is not declared is kept for nobody, or None."""
        words = "" if self.get(key) else _WORDS.sub(".", key.strip()).lower()
        return next((reason for pattern, reason in self._dangerous if pattern.fullmatch(words)), None)

    def __iter__(self) -> Iterator[Option[Any]]:
        return iter(self._options.values())

    def families(self) -> Iterator[Option[Any]]:
        """The options declared by pattern."""
        return (option for _, option in self._families)

    def get(self, key: str) -> Option[Any] | None:
        """The declaration of a key, also by family; None when there is none."""
        if declared := self._options.get(key):
            return declared
        return next((option for pattern, option in self._families if pattern.fullmatch(key)), None)

    def refusal(self, key: str) -> str | None:
        """Why a key is refused by name, or None."""
        return next((reason for pattern, reason in self._refused if pattern.fullmatch(key)), None)

    def check(self, raw: Mapping[str, str]) -> None:
        """Raise `InvalidOption` for an unknown or refused key or a value that does not parse."""
        for key, text in raw.items():
            self.known(key).check(text)

    def check_values(self, raw: Mapping[str, str], stored: Mapping[str, str]) -> None:
        """Raise `InvalidOption` for a value that nobody reads, or may store while it is not ``stored``; what only others know is theirs."""
        for key, text in raw.items():
            option = self.get(key) or self._for_others.get(key)
            if option is not None and option.parser.everywhere:
                (option.parse if stored.get(key) == text else option.check)(text)

    def stored(self, raw: Mapping[str, str]) -> dict[str, str]:
        """The same options as they are stored: Java trims few values, and nothing between commas."""
        declared = ((key, text, self.get(key)) for key, text in raw.items())
        return {key: text if option is None else option.parser.stored(text) for key, text, option in declared}

    def alike(self, key: str, one: str | None, other: str | None) -> bool:
        """Whether two texts of an option say the same, one of them in a spelling that was stored by an earlier version."""
        if one is None or other is None:
            return one == other
        values = [self.known(key).parse(self.stored({key: text})[key]) for text in (one, other)]
        return bool(values[0] == values[1])

    def known(self, key: str) -> Option[Any]:
        """The declaration of a key; raises `InvalidOption` for an unknown or refused one."""
        if declared := self._known.get(key):
            return declared
        if reason := self.refusal(key) or self.danger(key):
            raise InvalidOption(f"Option '{key}' is not available: {reason}")
        option = self.get(key)
        if option is None:
            near = nearest(key, self._options)
            hint = f" Did you mean '{near}'?" if near else ""
            raise InvalidOption(f"There is no {self.title.lower()} '{key}'.{hint}")
        if key in self._options:  # of the families' keys there is no end
            self._known[key] = option
        return option

    def idle(self, raw: Mapping[str, str]) -> Iterator[str]:
        """What is to be said of the options that are only kept for other clients, one sentence each."""
        for key in raw:
            option = self.get(key)
            if option is not None and option.kept:
                yield f"WARNING: option '{key}' is kept for other clients and has no effect here: {option.kept}."

    def read(self, raw: Mapping[str, str], key: str) -> Any:
        """The typed value of a declared key in ``raw``, or its default; raises `InvalidOption` for text that does not parse."""
        return self.known(key).read(raw)

    def markdown(self) -> str:
        """The group's section of the options page."""
        lines = [f"## {self.title}s", "", self.doc, "", "| key | type | default | meaning |", "|---|---|---|---|"]
        for option in [*self._options.values(), *(o for _, o in self._families)]:
            default = f"`{option.default_text()}`" if option.default_text() else "(none)"
            fixed = ("" if option.mutable else " Fixed once the table has data.") + (" A hint may give it." if option.per_query else "")
            lines.append(f"| `{option.key}` | {option.parser.kind} | {default} | {option.meaning()}{fixed} |")
        if self._refused:
            lines += ["", "Refused by name:", ""]
            lines += [f"- `{pattern.pattern}`: {reason}" for pattern, reason in self._refused]
        if self._dangerous:
            lines += ["", _UNDECLARED, ""]
            lines += [f"- `{pattern.pattern}`: {reason}" for pattern, reason in self._dangerous]
        return "\n".join(lines) + "\n"


def text() -> Parser[str]:
    """Any text."""
    return Parser("text", str, stored=str)


def time_zone() -> Parser[str]:
    """A time zone by its name."""

    def parse(raw: str) -> str:
        try:
            ZoneInfo(raw)
        except (ZoneInfoNotFoundError, ValueError, OSError):
            raise ValueError("a time zone such as 'UTC' or 'Europe/Berlin' is expected") from None
        return raw

    return Parser("time zone", parse)


def optional(parser: Parser[T]) -> Parser[T | None]:
    """The same parser for an option without default."""

    def show(value: T | None) -> str:
        return "" if value is None else parser.show(value)

    return Parser(parser.kind, parser.parse, show, parser.everywhere, parser.in_path, parser.judge, parser.stored)


def integer(*, at_least: int | None = None, at_most: int | None = None, bits: int = 32) -> Parser[int]:
    """A whole number within bounds; ``bits`` are those of the number that Java reads it as."""

    def parse(raw: str) -> int:
        try:
            value = int(raw)
        except ValueError:
            raise ValueError("a whole number is expected") from None
        if at_least is not None and value < at_least:
            raise ValueError(f"must be at least {at_least}")
        if at_most is not None and value > at_most:
            raise ValueError(f"must be at most {at_most}")
        return value

    def judge(raw: str) -> None:
        if not re.fullmatch(r"[+-]?[0-9]{1,19}", raw) or not -(1 << bits - 1) <= int(raw) < 1 << bits - 1:
            raise ValueError(f"a whole number of {bits} bits is expected, in plain digits")

    return Parser("integer", parse, judge=judge)


def number(*, at_least: float | None = None, at_most: float | None = None) -> Parser[float]:
    """A decimal number within bounds."""

    def parse(raw: str) -> float:
        try:
            value = float(raw)
        except ValueError:
            raise ValueError("a number is expected") from None
        if (at_least is not None and value < at_least) or (at_most is not None and value > at_most) or value != value:
            raise ValueError(f"must be at least {at_least}" if at_most is None else f"must lie between {at_least} and {at_most}")
        return value

    def judge(raw: str) -> None:
        if not re.fullmatch(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?", raw):
            raise ValueError("a number is expected, in plain digits")

    return Parser("number", parse, judge=judge)


def boolean() -> Parser[bool]:
    """true or false."""

    def parse(raw: str) -> bool:
        match raw.lower():
            case "true":
                return True
            case "false":
                return False
        raise ValueError("true or false is expected")

    return Parser("boolean", parse, lambda value: "true" if value else "false")


def only_false() -> Parser[bool]:
    """A switch whose feature is not implemented: on would be ignored, so it is refused."""

    def parse(raw: str) -> bool:
        if raw.lower() != "false":
            raise ValueError("this feature is not available here, only 'false' is")
        return False

    return Parser("false", parse, lambda _: "false", everywhere=False)


def one_of(*values: str) -> Parser[str]:
    """One of the given words, whatever their case."""

    def parse(raw: str) -> str:
        if (lowered := raw.lower()) in values:
            return lowered
        raise ValueError("one of " + ", ".join(values) + " is expected")

    return Parser(" \\| ".join(values), parse, everywhere=False)


def words(*values: str) -> Parser[tuple[str, ...]]:
    """Some of the given words, parted by commas."""

    def parse(raw: str) -> tuple[str, ...]:
        parts = tuple(part.strip().lower() for part in raw.split(","))
        if set(parts) - set(values) or len(set(parts)) < len(parts):
            raise ValueError("one or several of " + ", ".join(values) + " are expected, parted by commas")
        return parts

    return Parser(" \\| ".join(values), parse, ",".join, everywhere=False)


def columns() -> Parser[str]:
    """Names of columns, parted by commas; what Java makes of the blanks between them depends on the option, so none are stored."""

    def stored(raw: str) -> str:
        return ",".join(part.strip() for part in raw.split(","))

    return replace(text(), stored=stored)


def stats_mode() -> Parser[str]:
    """How much of a column's statistics is kept."""

    def parse(raw: str) -> str:
        if raw and not re.fullmatch(r"none|counts|full|truncate\([1-9]\d*\)", raw, re.IGNORECASE):
            raise ValueError("one of none, counts, full, truncate(16) is expected")
        return raw

    return Parser("text", parse, everywhere=False)


_UNITS = {"": 1, "b": 1, "bytes": 1}
for _power, _names in enumerate(
    (("k", "kb", "kibibytes"), ("m", "mb", "mebibytes"), ("g", "gb", "gibibytes"), ("t", "tb", "tebibytes")), start=1
):
    _UNITS |= dict.fromkeys(_names, 1024**_power)


def memory_size() -> Parser[int]:
    """A size in bytes; units are binary, as Flink's are (`8 mb` is 8 MiB)."""

    def parse(raw: str) -> int:
        match = re.fullmatch(r"([0-9]+)\s*([a-z]*)", raw.lower())
        if match is None or match[2] not in _UNITS:
            raise ValueError("a size such as '8 mb' is expected")
        return int(match[1]) * _UNITS[match[2]]

    def judge(raw: str) -> None:
        if parse(raw) > LARGEST:
            raise ValueError("no more bytes than 64 bits count are expected")

    def show(value: int) -> str:
        for unit, factor in (("tb", 1024**4), ("gb", 1024**3), ("mb", 1024**2), ("kb", 1024)):
            if value and value % factor == 0:
                return f"{value // factor} {unit}"
        return f"{value} bytes"

    return Parser("size", parse, show, judge=judge)


_SECONDS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1, "min": 60, "m": 60, "h": 3600, "d": 86400}
_DURATION_WORDS = {
    "nano": "ns", "nanosecond": "ns", "micro": "us", "microsecond": "us", "milli": "ms", "millisecond": "ms",
    "sec": "s", "second": "s", "minute": "min", "hour": "h", "day": "d",
}  # fmt: skip


def duration() -> Parser[timedelta]:
    """A span of time such as `10 s`, `5 min`, `1 h`, `1 d`; a bare number is milliseconds, as in Flink."""

    def parse(raw: str) -> timedelta:
        match = re.fullmatch(r"([0-9]{1,18})\s*([a-zµ]*)", raw.lower())
        unit = match[2] if match else None
        if unit and unit not in _SECONDS:
            unit = _DURATION_WORDS.get(unit.removesuffix("s"), unit)
        if match is None or (unit and unit not in _SECONDS):
            raise ValueError("a duration such as '10 s' or '1 h' is expected")
        try:
            return timedelta(seconds=int(match[1]) * _SECONDS[unit or "ms"])
        except OverflowError:
            raise ValueError("at most 999999999 d are expected") from None

    def judge(raw: str) -> None:
        if raw.lower().endswith("us"):
            raise ValueError("microseconds are written µs")

    def show(value: timedelta) -> str:
        millis = round(value.total_seconds() * 1000)
        for unit, factor in (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1000)):
            if millis and millis % factor == 0:
                return f"{millis // factor} {unit}"
        return f"{millis} ms"

    return Parser("duration", parse, show, judge=judge)
